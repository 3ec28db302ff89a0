use crate::agreed::Agreed;
use crate::asked::SocketOptions;
use crate::config::Config;
use crate::connection::Connection;
use crate::context::{Context, Path};
use crate::emit::Emit;
use crate::sizes::{SizeSearch, Step};
use crate::{Counters, State};
use core::time::Duration;
use wire::Time;
use wire::tcp::{Flags as Bits, SackBlocks, SeqNum, TcpHeader, TcpOptions};

const PATH: Path = Path { mtu: 1_500, v6: false };
const MSS: u32 = 1_000;

/// A sender with a peer that says what the test says.
struct Sender {
    connection: Connection,
    config: Config,
    counters: Counters,
    now: Time,
    /// The window field that the peer sends, in KiB.
    window: u16,
}

impl Sender {
    /// With a round trip of `rtt_ms`, and all given `rate`.
    fn new(rtt_ms: u32, rate: Option<u64>) -> Self {
        let config = Config { max_pacing_rate: rate, receive_limit: 8 << 20, ..Config::default() };
        let mut counters = Counters::default();
        let now = Time::from_millis(1_000);
        let agreed = Agreed { sack: true, peer_shift: Some(10), ..Agreed::bare(SeqNum(0), SeqNum(0), MSS as u16) };
        let mut cx = context(now, &config, &mut counters);
        let mut connection = Connection::accept(&mut cx, PATH, &agreed, 65_535);
        connection.on_handshake_time(rtt_ms);
        Self { connection, config, counters, now, window: 8_000 }
    }

    fn poll(&mut self) -> Vec<Emit> {
        let mut cx = context(self.now, &self.config, &mut self.counters);
        core::iter::from_fn(|| self.connection.poll_segment(&mut cx, PATH, 0)).collect()
    }

    /// Bytes of new data that leave now.
    fn data(&mut self) -> u32 {
        self.poll().iter().map(|emit| emit.len).sum()
    }

    fn write(&mut self, len: usize) {
        self.connection.send_bytes(&vec![7; len]).expect("there is room");
    }

    fn at(&mut self, ms: u64) {
        self.now = Time::from_millis(ms);
    }

    /// Waits for the pacer, and returns for how long.
    fn wait(&mut self) -> Duration {
        let until = self.connection.paced_until().expect("something waits");
        let span = until.since(self.now);
        self.now = until;
        span
    }

    fn take(&mut self, ack: u32, blocks: &[(u32, u32)]) {
        let mut sack = SackBlocks::EMPTY;
        for &(start, end) in blocks {
            sack.push(SeqNum(start), SeqNum(end));
        }
        let (seq, flags, window) = (SeqNum(1), Bits::ACK, self.window);
        let options = TcpOptions { sack, ..TcpOptions::default() };
        let header = TcpHeader { src_port: 1, dst_port: 2, seq, ack: SeqNum(ack), flags, window, urgent: 0, options };
        let mut cx = context(self.now, &self.config, &mut self.counters);
        self.connection.on_segment(&mut cx, PATH, &header, &[]);
    }

    fn rate(&self) -> Option<u64> {
        self.connection.info().pacing_rate
    }

    fn cwnd(&self) -> u32 {
        self.connection.info().cwnd
    }
}

fn context<'a>(now: Time, config: &'a Config, counters: &'a mut Counters) -> Context<'a> {
    Context { now, now_ms: now.as_millis() as u32, ts_offset: 0, receive_full: false, config, counters }
}

/// A given rate holds from the first byte: a quantum at a time, each as soon as
/// the one before is paid for.
#[test]
fn a_given_rate() {
    let mut sender = Sender::new(100, Some(2_000_000));
    assert_eq!(sender.rate(), Some(2_000_000));
    sender.write(100_000);
    // 1 ms at 2 MB/s.
    assert_eq!(sender.data(), 2 * MSS);
    for _ in 0..4 {
        assert_eq!(sender.data(), 0);
        assert_eq!(sender.wait(), Duration::from_millis(1));
        assert_eq!(sender.data(), 2 * MSS);
    }
    // What the window holds back does not wait for the pacer.
    assert_eq!(sender.data(), 0);
    assert_eq!(sender.connection.paced_until(), None);
}

/// What is queued in little pieces has the rate of what is queued at once.
#[test]
fn little_pieces() {
    let mut sender = Sender::new(100, Some(100_000));
    let mut sent = 0;
    for ms in 0..1_000 {
        sender.at(1_000 + ms);
        sender.write(200);
        sent += sender.data();
        let acked = sender.connection.info().nxt.0;
        sender.take(acked, &[]);
    }
    assert!((99_000..=102_000).contains(&sent), "{sent}");
}

/// Acknowledgements, a FIN alone and probes wait for nothing.
#[test]
fn what_never_waits() {
    let mut sender = Sender::new(100, Some(1_000));
    sender.write(1_500);
    assert_eq!(sender.data(), 1_000);
    sender.connection.ask_ack();
    assert_eq!(sender.poll().len(), 1, "an acknowledgement");
    assert!(sender.connection.paced_until().is_some());
    // The loss probe (RFC 8985 section 7.3): new data at once.
    let timer = sender.connection.timer().expect("a probe is due");
    sender.at(u64::from(timer));
    let mut cx = context(sender.now, &sender.config, &mut sender.counters);
    assert_eq!(sender.connection.on_timer(&mut cx), None);
    assert_eq!(sender.data(), 500);
    assert_eq!(sender.counters.loss_probes, 1);
    sender.connection.finish();
    let fin = sender.poll();
    assert!(fin.len() == 1 && fin[0].flags.contains(Bits::FIN), "{fin:?}");
    assert_eq!(sender.connection.state(), State::FinWait1);
}

/// A FIN behind data waits with that.
#[test]
fn a_fin_behind_data() {
    let mut sender = Sender::new(100, Some(100_000));
    sender.write(2_000);
    sender.connection.finish();
    assert_eq!(sender.data(), 1_000);
    assert_eq!(sender.wait(), Duration::from_millis(10));
    let last = sender.poll();
    assert!(last.len() == 1 && last[0].len == 1_000 && last[0].flags.contains(Bits::FIN), "{last:?}");
}

/// RFC 7661 section 4.3: a window that the pacer keeps from being filled does
/// not grow.
#[test]
fn a_paced_window_does_not_grow() {
    let mut sender = Sender::new(100, Some(20_000));
    sender.write(1_000_000);
    for _ in 0..200 {
        let nxt = sender.connection.info().nxt.0;
        if sender.data() == 0 {
            sender.wait();
        }
        sender.take(nxt, &[]);
    }
    assert_eq!(sender.cwnd(), 10 * MSS);
}

/// What is sent again spends, and waits for a quantum at most; the first segment
/// in flight waits for nothing.
#[test]
fn retransmissions() {
    let mut sender = Sender::new(100, Some(1_000_000));
    sender.write(100_000);
    let mut sent = sender.data();
    while sent < 10_000 {
        sender.wait();
        sent += sender.data();
    }
    sender.at(1_110);
    // The first five are lost.
    sender.take(1, &[(5_001, 10_001)]);
    let before = sender.counters.retransmits;
    let first = sender.poll();
    assert!(first[0].seq == SeqNum(1), "{first:?}");
    let mut waits = Vec::new();
    while sender.counters.retransmits < before + 3 {
        waits.push(sender.wait());
        sender.poll();
        assert!(waits.len() < 10, "{waits:?}");
    }
    assert!(waits.iter().all(|wait| *wait <= Duration::from_nanos(1_000_001)), "{waits:?}");
}

/// Slow start beyond the initial window is paced at four times the window per round
/// trip, and nothing else that has acknowledgements to go by.
#[test]
fn slow_start_is_paced() {
    let mut sender = Sender::new(100, None);
    sender.write(1_000_000);
    assert_eq!((sender.data(), sender.rate()), (10 * MSS, None), "the initial window leaves at once (RFC 6928)");
    sender.at(1_100);
    sender.take(2_001, &[]);
    assert_eq!(sender.cwnd(), 12 * MSS);
    assert_eq!(sender.rate(), Some(480_000));
    assert_eq!(sender.data(), MSS);
    assert_eq!(sender.wait(), Duration::from_nanos(2_083_334));
    assert_eq!(sender.data(), MSS);
    // A loss ends slow start (RFC 9438 section 4.6), and with it the pacing.
    sender.take(2_001, &[(4_001, 10_001)]);
    assert_eq!((sender.rate(), sender.connection.paced_until()), (None, None));
}

/// Where a quantum is the window, nothing is paced.
#[test]
fn short_round_trips_are_not_paced() {
    let mut sender = Sender::new(1, None);
    sender.write(1_000_000);
    assert_eq!(sender.data(), 10 * MSS);
    sender.at(1_001);
    sender.take(2_001, &[]);
    assert_eq!((sender.cwnd(), sender.rate()), (12 * MSS, None));
    assert_eq!(sender.data(), 4 * MSS);
}

/// RFC 9406 section 4.3: a paced window grows by all that an acknowledgement
/// covers; one that is not, by eight segments.
#[test]
fn a_long_acknowledgement() {
    for (rtt, grown) in [(100, 20), (1, 18)] {
        let mut sender = Sender::new(rtt, None);
        sender.write(1_000_000);
        sender.data();
        sender.at(1_000 + u64::from(rtt));
        sender.take(1_001, &[]);
        sender.take(10_001, &[]);
        let first = sender.cwnd() / MSS;
        assert_eq!(first, if rtt == 100 { grown } else { 19 });
    }
}

/// A flight that starts on an empty path with a large window: the initial window
/// at once, the rest at a fifth more than the window per round trip.
#[test]
fn after_idle() {
    let mut sender = Sender::new(100, None);
    sender.write(60_000);
    sender.data();
    let mut acked = 1;
    let mut ms = 1_000;
    while acked < 60_001 {
        ms += 100;
        sender.at(ms);
        acked = sender.connection.info().nxt.0;
        sender.take(acked, &[]);
        sender.data();
        while sender.connection.paced_until().is_some() {
            sender.wait();
            sender.data();
        }
    }
    let window = sender.cwnd();
    assert!(window > 20 * MSS, "{window}");
    // Not for so long that the window is given up (RFC 5681 section 4.1).
    sender.at(ms + 50);
    sender.write(100_000);
    assert_eq!(sender.data(), 10 * MSS);
    assert_eq!(sender.rate(), Some(u64::from(window) * 4 * 1_000_000 / u64::from(sender.connection.srtt_us())));
    let wait = sender.wait();
    assert!(wait > Duration::from_millis(3), "{wait:?}");
}

/// What is asked of a connection counts beside what is given to all; nothing is
/// taken for a byte per second; and it may be taken back.
#[test]
fn asked_for() {
    let mut sender = Sender::new(100, Some(1_000_000));
    let ask = |sender: &mut Sender, pacing_rate| {
        let options = SocketOptions { pacing_rate, ..SocketOptions::default() };
        sender.connection.set_options(&sender.config, sender.now, options);
        sender.rate()
    };
    assert_eq!(ask(&mut sender, Some(500_000)), Some(500_000));
    assert_eq!(ask(&mut sender, Some(5_000_000)), Some(1_000_000));
    assert_eq!(ask(&mut sender, Some(0)), Some(1));
    sender.write(2_000);
    assert_eq!((sender.data(), sender.data()), (1_000, 0));
    assert_eq!(sender.wait(), Duration::from_secs(1_000));
    sender.at(1_000);
    let mut free = Sender::new(100, None);
    assert_eq!(ask(&mut free, Some(7)), Some(7));
    assert_eq!(ask(&mut free, None), None);
    assert!(!free.connection.has_cold(), "nothing is kept of it");
    free.write(10_000);
    assert_eq!(free.data(), 10_000);
}

/// A rate that is taken back stays that of what was queued with it, and of nothing behind that.
#[test]
fn a_rate_ends_with_what_was_queued_at_it() {
    let mut sender = Sender::new(100, None);
    sender.connection.set_rate(&sender.config, sender.now, Some(100_000));
    sender.write(3_000);
    assert_eq!(sender.data(), 1_000);
    sender.connection.set_rate(&sender.config, sender.now, None);
    sender.write(5_000);
    assert_eq!((sender.data(), sender.rate()), (0, Some(100_000)));
    sender.at(1_010);
    assert_eq!(sender.data(), 1_000);
    sender.at(1_020);
    assert_eq!(sender.data(), 1_000);
    sender.take(2_001, &[]);
    assert_eq!((sender.data(), sender.rate()), (0, Some(100_000)));
    sender.take(3_001, &[]);
    assert_eq!((sender.data(), sender.rate()), (5_000, None));
    sender.take(8_001, &[]);
    assert!(!sender.connection.has_cold(), "nothing is kept of it");
    // With nothing on its way it goes at once.
    sender.connection.set_rate(&sender.config, sender.now, Some(1));
    sender.connection.set_rate(&sender.config, sender.now, None);
    sender.write(4_000);
    assert_eq!(sender.data(), 4_000);
}

/// Keepalive's timer does not send what waits for the pacer.
#[test]
fn a_slow_rate_beside_keepalive() {
    let mut sender = Sender::new(100, Some(1));
    sender.config.keepalive_idle = 10_000;
    sender.write(1_000);
    assert_eq!(sender.data(), 1_000);
    sender.at(1_100);
    sender.take(1_001, &[]);
    sender.write(1_000);
    assert_eq!(sender.data(), 0);
    for _ in 0..3 {
        let Some(timer) = sender.connection.timer() else { break };
        sender.at(u64::from(timer));
        let mut cx = context(sender.now, &sender.config, &mut sender.counters);
        assert_eq!(sender.connection.on_timer(&mut cx), None);
        assert_eq!(sender.data(), 0);
    }
}

/// The delivery rate of a path is known from what was acknowledged, where it was
/// asked for more than it delivers.
#[test]
fn delivery_rate() {
    let mut sender = Sender::new(100, Some(1_000_000));
    // Ten segments in each 21 ms, by the peer's window.
    sender.window = 10;
    sender.take(1, &[]);
    sender.write(200_000);
    let mut due = std::collections::VecDeque::new();
    for ms in 1_000..1_400 {
        sender.at(ms);
        if sender.data() > 0 {
            due.push_back((ms + 20, sender.connection.info().nxt.0));
        }
        while due.front().is_some_and(|(at, _)| *at <= ms) {
            let (_, ack) = due.pop_front().expect("it is there");
            sender.take(ack, &[]);
        }
    }
    let rate = sender.connection.info().delivery_rate.expect("a sample").rate();
    assert!((470_000..=500_000).contains(&rate), "{rate}");
}

/// A probe of a longer segment waits for the pacer as other new data does, and all of it is
/// paid for.
#[test]
fn a_probe_of_size() {
    let mut sender = Sender::new(100, Some(1_000_000));
    sender.write(100_000);
    assert_eq!(sender.data(), MSS);
    let cold = sender.connection.cold.as_mut().expect("it is paced");
    let (low, most) = (MSS as u16, 1_400);
    cold.sizes = Some(Box::new(SizeSearch { most, low, high: most, lost: 0, told: None, step: Step::Due }));
    assert_eq!(sender.data(), 0);
    assert_eq!(sender.wait(), Duration::from_millis(1));
    assert_eq!(sender.data(), 1_400);
    assert_eq!(sender.counters.path_mtu_probes, 1);
    assert_eq!(sender.wait(), Duration::from_micros(1_400));
    assert_eq!(sender.data(), MSS);
}
