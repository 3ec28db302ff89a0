//! One bulk transfer between two hosts, and the table of many.

use crate::fabric::{Fabric, Host};
use crate::peer::{Job, Peer};
use crate::rng::Rng;
use crate::scenario::{PORT, addresses, host_config};
use crate::talk::Manner;
use core::fmt::Write;
use core::net::SocketAddr;
use core::time::Duration;
use link::{FaultPlan, Impairment, Probability, Rate};
use tcp::congestion::Algorithm;
use wire::Time;

/// No transfer may take longer.
const LIMIT: Duration = Duration::from_secs(3_600);

/// A bulk transfer to be made.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// Bytes.
    pub bytes: u64,
    /// Loss of frames, each way.
    pub loss: f64,
    /// Loss of frames on the way back too, where the acknowledgements are.
    pub loss_back: bool,
    /// The round trip, without queues.
    pub rtt: Duration,
    /// The bottleneck, and the bytes that queue before it.
    pub rate: Option<Rate>,
    /// Congestion control.
    pub congestion: Algorithm,
    /// Both sides know timestamps (RFC 7323).
    pub timestamps: bool,
    /// What random choices follow from.
    pub seed: u64,
}

/// How a transfer went.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Transferred {
    /// From the connect to the last byte received.
    pub took: Duration,
    /// Segments sent again.
    pub retransmits: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Fast recoveries.
    pub recoveries: u64,
}

impl Transfer {
    /// Makes the transfer.
    ///
    /// # Panics
    /// If it does not end, or not as it should.
    #[must_use]
    pub fn run(&self) -> Transferred {
        let manner = Manner { most: 1, aborts: 0, plain: true, sealed: 0, exact: Some((self.bytes, 0)) };
        let mut rng = Rng::new(self.seed);
        let job =
            Job { at: Time::ZERO, from: None, to: SocketAddr::new(addresses(1)[0], PORT), key: rng.next(), tries: 0 };
        let mut fabric = Fabric::default();
        let mut hosts: Vec<_> = [vec![job], Vec::new()]
            .into_iter()
            .enumerate()
            .map(|(index, jobs)| {
                let mut config = host_config(index, 1_500);
                config.tcp.congestion = self.congestion;
                config.tcp.timestamps = self.timestamps;
                config.tcp.receive_limit = 8 << 20;
                let peer = Peer::new(format!("host {index}"), rng.next(), manner, jobs);
                fabric.host(config, self.faults(index, rng.next()), 4_096, rng.next(), peer)
            })
            .collect();
        let took = self.drive(&mut hosts, &mut fabric);
        let counters = hosts[0].silo.stack.tcp_counters();
        Transferred {
            took,
            retransmits: counters.retransmits,
            timeouts: counters.timeouts,
            recoveries: counters.fast_recoveries,
        }
    }

    /// The sender's link has the faults and the bottleneck.
    fn faults(&self, index: usize, seed: u64) -> FaultPlan {
        let loss = Probability::new(self.loss);
        if index > 0 {
            return FaultPlan { seed, ..FaultPlan::default() };
        }
        let delay = self.rtt / 2;
        FaultPlan {
            transmit: Impairment { loss, delay, rate: self.rate, ..Impairment::default() },
            receive: Impairment {
                loss: if self.loss_back { loss } else { Probability::NEVER },
                delay,
                ..Impairment::default()
            },
            seed,
        }
    }

    fn drive(&self, hosts: &mut [Host<Peer>], fabric: &mut Fabric) -> Duration {
        while hosts[1].silo.app.tally.bytes < self.bytes {
            for host in hosts.iter() {
                let violations = &host.silo.app.tally.violations;
                assert!(violations.is_empty(), "{self:?}: {violations:?}");
            }
            let stuck = fabric.elapsed() > LIMIT;
            assert!(!stuck, "{self:?} is stuck: {:?}", hosts[0].silo.app.under_way().collect::<Vec<_>>());
            fabric.step(&mut hosts.iter_mut().collect::<Vec<_>>(), Time::MAX);
        }
        fabric.elapsed()
    }

    /// Bits of the application per second.
    #[must_use]
    pub fn goodput(&self, transferred: &Transferred) -> f64 {
        self.bytes as f64 * 8.0 / transferred.took.as_secs_f64()
    }

    /// The Mathis bound in bits per second: what a Reno sender reaches at this
    /// loss without a timeout, MSS / RTT * sqrt(3 / 2p) (M. Mathis, J. Semke,
    /// J. Mahdavi, T. Ott, The Macroscopic Behavior of the TCP Congestion
    /// Avoidance Algorithm, 1997). CUBIC at such a round trip is in its
    /// Reno-friendly region and has the same (RFC 9438 section 4.3).
    #[must_use]
    pub fn mathis(&self) -> f64 {
        const MSS: f64 = 1_448.0;
        MSS * 8.0 / self.rtt.as_secs_f64() * (1.5 / self.loss).sqrt()
    }
}

/// Losses of the table, in percent.
const LOSSES: [f64; 5] = [0.0, 0.1, 1.0, 5.0, 20.0];
/// Round trips of the table.
const RTTS_MS: [u64; 3] = [1, 20, 100];
/// Queues before the bottleneck, in bytes.
const QUEUES: [u64; 2] = [32 * 1024, 512 * 1024];
/// The bottleneck: 100 Mbit/s.
const RATE: u64 = 12_500_000;
/// Transfers for each line, of which the median is told.
const RUNS: u64 = 5;

/// The table of loss, delay and buffer.
#[must_use]
pub fn table() -> String {
    let mut out = String::from(
        "# Goodput over a 100 Mbit/s bottleneck: median of 5 transfers of 2 MB (200 kB at 20 % loss).\n\
         # Loss is of frames, both ways; the queue is the bottleneck's.\n\
         # loss %  rtt ms  queue kB  Mbit/s  seconds  retransmits  timeouts\n",
    );
    for loss in LOSSES {
        for rtt in RTTS_MS {
            for queue in QUEUES {
                line(&mut out, loss, rtt, queue);
            }
        }
    }
    out
}

fn line(out: &mut String, percent: f64, rtt: u64, queue_bytes: u64) {
    let bytes = if percent < 20.0 { 2_000_000 } else { 200_000 };
    let mut runs: Vec<_> = (0..RUNS)
        .map(|seed| {
            let transfer = Transfer {
                bytes,
                loss: percent / 100.0,
                loss_back: true,
                rtt: Duration::from_millis(rtt),
                rate: Some(Rate { bytes_per_second: RATE, queue_bytes }),
                congestion: Algorithm::Cubic,
                timestamps: true,
                seed,
            };
            let transferred = transfer.run();
            (transferred, transfer.goodput(&transferred))
        })
        .collect();
    runs.sort_by_key(|(transferred, _)| transferred.took);
    let (median, goodput) = runs[runs.len() / 2];
    let _ = writeln!(
        out,
        "{percent:8} {rtt:7} {:9} {:7.2} {:8.3} {:12} {:9}",
        queue_bytes / 1024,
        goodput / 1e6,
        median.took.as_secs_f64(),
        median.retransmits,
        median.timeouts,
    );
}
