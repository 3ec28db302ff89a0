use super::*;
use crate::agreed::Agreed;
use crate::config::Config;
use crate::emit::Emit;
use crate::{Counters, Narrowed, Path};
use wire::Time;
use wire::tcp::{Flags as Bits, SackBlocks, TcpHeader, TcpOptions};

const PATH: Path = Path { mtu: 1_500, v6: false };
const FULL: u32 = 1_460;
const SHORT: u32 = 1_160;

/// A sender whose peer gets packets up to a length, and acknowledges each burst
/// after a round trip of 100 ms.
struct Host {
    connection: Connection,
    config: Config,
    counters: Counters,
    now: Time,
    /// Payload that passes.
    passes: u32,
    /// What the peer holds.
    got: Vec<(u32, u32)>,
    sent: Vec<Emit>,
}

impl Host {
    fn new(sack: bool, passes: u32) -> Self {
        let config = Config::default();
        let mut counters = Counters::default();
        let now = Time::from_millis(1_000);
        let agreed = Agreed { sack, ..Agreed::bare(SeqNum(0), SeqNum(0), 1_460) };
        let mut cx = context(now, &config, &mut counters);
        let mut connection = Connection::accept(&mut cx, PATH, &agreed, 65_535);
        connection.on_handshake_time(100);
        connection.send_bytes(&vec![7; 1 << 20]).expect("there is room");
        Self { connection, config, counters, now, passes, got: vec![(0, 1)], sent: Vec::new() }
    }

    /// What it sends now goes to the peer, or does not arrive.
    fn poll(&mut self) -> usize {
        let mut cx = context(self.now, &self.config, &mut self.counters);
        let connection = &mut self.connection;
        let sent: Vec<_> = core::iter::from_fn(|| connection.poll_segment(&mut cx, PATH, 0)).collect();
        for emit in sent.iter().filter(|emit| emit.len > 0 && emit.len <= self.passes) {
            self.got.push((emit.seq.0, emit.seq.0 + emit.len));
        }
        self.got.sort_unstable();
        self.got.dedup_by(|next, before| {
            let joined = next.0 <= before.1;
            before.1 = if joined { before.1.max(next.1) } else { before.1 };
            joined
        });
        self.sent.extend(&sent);
        sent.len()
    }

    fn ack(&mut self) {
        let mut sack = SackBlocks::EMPTY;
        for &(start, end) in self.got.iter().skip(1).take(3) {
            sack.push(SeqNum(start), SeqNum(end));
        }
        let header = TcpHeader {
            src_port: 1,
            dst_port: 2,
            seq: SeqNum(1),
            ack: SeqNum(self.got[0].1),
            flags: Bits::ACK,
            window: 65_535,
            urgent: 0,
            options: TcpOptions { sack, ..TcpOptions::default() },
        };
        let mut cx = context(self.now, &self.config, &mut self.counters);
        self.connection.on_segment(&mut cx, PATH, &header, &[]);
    }

    /// Goes on for `ms`: an answer to each flight, or the timer.
    fn run(&mut self, ms: u64) {
        let end = self.now.as_millis() + ms;
        let mut heard = self.got.clone();
        while self.now.as_millis() < end {
            if self.connection.unsent() < 1 << 19 {
                self.connection.send_bytes(&[7; 1 << 19]).expect("there is room");
            }
            self.poll();
            let timer = u64::from(self.connection.timer().expect("a timer runs"));
            if self.got != heard {
                heard.clone_from(&self.got);
                self.now = Time::from_millis(self.now.as_millis() + 100);
                self.ack();
            } else {
                self.now = Time::from_millis(timer.max(self.now.as_millis() + 1));
                let mut cx = context(self.now, &self.config, &mut self.counters);
                assert_eq!(self.connection.on_timer(&mut cx), None);
            }
            let sizes = self.connection.cold.as_ref().and_then(|cold| cold.sizes.as_ref());
            assert!(sizes.is_none_or(|sizes| sizes.low <= sizes.high && sizes.high <= sizes.most), "{sizes:?}");
        }
    }

    fn mss(&self) -> u32 {
        u32::from(self.connection.mss())
    }

    fn arrived(&self) -> u32 {
        self.got[0].1
    }
}

fn context<'a>(now: Time, config: &'a Config, counters: &'a mut Counters) -> Context<'a> {
    Context { now, now_ms: now.as_millis() as u32, ts_offset: 0, receive_full: false, config, counters }
}

/// RFC 8899 section 4.3 and 5.3: whatever the path carries, from the base on,
/// is found within 8 bytes, and told once it is sure.
#[test]
fn what_passes_is_found() {
    for sack in [true, false] {
        for passes in [SHORT, 1_200, 1_259, 1_360, 1_400, 1_452, 1_459] {
            let mut host = Host::new(sack, passes);
            host.run(2_000);
            assert!(host.arrived() > 1, "{passes} {sack}: it goes on within 2 s");
            assert!(host.mss() <= passes, "{passes} {sack}");
            let limit = if sack { 15_000 } else { 120_000 };
            host.run(limit);
            let sizes = host.connection.cold.as_ref().map(|cold| &cold.sizes);
            assert!((passes - 8..=passes).contains(&host.mss()), "{passes} {sack}: {} {sizes:?}", host.mss());
            assert_eq!(host.counters.path_mtu_black_holes, 1, "{passes} {sack}");
            assert_eq!(host.connection.take_path_mtu().map(u32::from), Some(host.mss() + 40));
            assert_eq!(host.connection.take_path_mtu(), None, "it is told once");
        }
    }
}

/// Below the base the least is tried, after two more timeouts.
#[test]
fn the_least_is_tried_at_last() {
    let mut host = Host::new(true, 520);
    host.run(8_000);
    assert_eq!(host.arrived() > 1, host.mss() <= 520);
    assert!(host.mss() >= 512, "{}", host.mss());
}

/// RFC 4821 section 7.7: an outage of everything lowers nothing, but for one
/// probe's time.
#[test]
fn an_outage_lowers_nothing() {
    for sack in [true, false] {
        let mut host = Host::new(sack, FULL);
        host.run(1_000);
        host.passes = 0;
        host.run(2_000);
        assert_eq!(host.mss(), FULL);
        host.passes = FULL;
        host.run(3_000);
        assert_eq!((host.mss(), host.counters.path_mtu_black_holes), (FULL, 0), "{sack}");
        assert!(host.counters.path_mtu_suspected > 0, "{sack}");
        assert!(host.connection.cold.as_ref().is_none_or(|cold| cold.sizes.is_none()));
        assert_eq!(host.connection.take_path_mtu(), None, "nobody hears of it");
    }
}

/// RFC 8899 section 3 item 7: a probe that is lost is no sign of congestion.
#[test]
fn a_lost_probe_leaves_the_window() {
    let mut host = Host::new(true, 1_300);
    host.run(3_000);
    let mut before = (host.counters, host.connection.info().cwnd);
    let mut probes = 0;
    for _ in 0..40 {
        host.run(100);
        let now = (host.counters, host.connection.info().cwnd);
        if now.0.path_mtu_probes > before.0.path_mtu_probes {
            probes += 1;
        }
        assert!(now.1 >= before.1, "{} after {}", now.1, before.1);
        assert_eq!(now.0.fast_recoveries, before.0.fast_recoveries);
        before = now;
    }
    assert!(probes > 3, "{probes}");
}

/// RFC 8899 section 5.1.1: after ten minutes a longer one is tried, and where
/// the path is whole again, all is as before.
#[test]
fn a_path_that_is_mended_is_found_out() {
    let mut host = Host::new(true, 1_300);
    host.run(15_000);
    assert!(host.mss() <= 1_300);
    host.connection.take_path_mtu();
    host.passes = FULL;
    host.run(10_000);
    assert!(host.mss() <= 1_300);
    host.now = Time::from_millis(host.now.as_millis() + 600_000);
    host.run(5_000);
    assert_eq!(host.mss(), FULL);
    // Others are to hear of that, too.
    assert_eq!(host.connection.take_path_mtu().map(u32::from), Some(FULL + 40));
    assert!(host.connection.cold.as_ref().is_none_or(|cold| cold.sizes.is_none()));
}

/// What a router says of the path is not searched for (RFC 4821 section 7.8).
#[test]
fn a_router_ends_the_search() {
    let mut host = Host::new(true, SHORT);
    host.run(2_000);
    assert!(host.connection.cold.as_ref().is_some_and(|cold| cold.sizes.is_some()));
    let mut cx = context(host.now, &host.config, &mut host.counters);
    let narrowed = Narrowed { path: Path { mtu: 1_100, v6: false }, below_least: false };
    assert!(host.connection.on_path_mtu(&mut cx, narrowed));
    assert!(host.connection.cold.as_ref().is_some_and(|cold| cold.sizes.is_none()));
    host.run(5_000);
    assert_eq!(host.mss(), 1_060);
}

/// A peer that acknowledges part of the cut segment, or more than was sent of
/// it, byte by byte, moves nothing but itself.
#[test]
fn a_peer_that_acknowledges_bytes_lowers_nothing_below_the_least() {
    let mut host = Host::new(true, 0);
    for bytes in 1..400 {
        host.run(700);
        host.got = vec![(0, host.got[0].1 + bytes % 3)];
        host.ack();
        assert!(host.mss() >= 512, "{}", host.mss());
    }
}
