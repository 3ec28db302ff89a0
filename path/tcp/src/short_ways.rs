//! What short ways must not overlook: each of these segments looks like the
//! expected one, and is not.

use crate::agreed::Agreed;
use crate::config::Config;
use crate::connection::Connection;
use crate::context::{Context, Path};
use crate::emit::Emit;
use crate::{Counters, Outcome};
use wire::Time;
use wire::tcp::{Established, Flags as Bits, SeqNum, TcpHeader, TcpOptions, Timestamps};

const PATH: Path = Path { mtu: 1_500, v6: false };
const START_MS: u64 = 1_000;

/// A connection with nothing in flight, and a peer that says what the test
/// says. Our numbers and the peer's begin with 1.
struct Host {
    connection: Connection,
    config: Config,
    counters: Counters,
    now: Time,
}

impl Host {
    fn new(timestamps: bool, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::default();
        change(&mut config);
        let mut counters = Counters::default();
        let now = Time::from_millis(START_MS);
        let timestamps = timestamps.then_some(1);
        let agreed = Agreed { sack: true, timestamps, ..Agreed::bare(SeqNum(0), SeqNum(0), 1_460) };
        let mut cx = context(now, &config, &mut counters);
        let mut connection = Connection::accept(&mut cx, PATH, &agreed, 65_535);
        connection.on_handshake_time(1);
        Self { connection, config, counters, now }
    }

    fn at(&mut self, ms: u64) {
        self.now = Time::from_millis(START_MS + ms);
    }

    fn poll(&mut self) -> Vec<Emit> {
        let mut cx = context(self.now, &self.config, &mut self.counters);
        core::iter::from_fn(|| self.connection.poll_segment(&mut cx, PATH, 0)).collect()
    }

    fn send(&mut self, bytes: &[u8]) -> Vec<Emit> {
        self.connection.send_bytes(bytes).expect("there is room");
        self.poll()
    }

    /// A segment, the way that the stack takes it: by a short way, if one does.
    fn take(&mut self, segment: Segment, text: &[u8]) -> Outcome {
        let Segment { seq, ack, window, flags, echo } = segment;
        let timestamps = echo.map(|echo| Timestamps { value: 1, echo });
        let (seq, ack) = (SeqNum(seq), SeqNum(ack));
        let light = Established { src_port: 1, dst_port: 2, seq, ack, flags, window, timestamps };
        let options = TcpOptions { timestamps, ..TcpOptions::default() };
        let header = TcpHeader { src_port: 1, dst_port: 2, seq, ack, flags, window, urgent: 0, options };
        let mut cx = context(self.now, &self.config, &mut self.counters);
        let connection = &mut self.connection;
        if connection.on_light(&mut cx, || 0, &light, text).is_some() {
            return Outcome { len: text.len() as u32, ..Outcome::default() };
        }
        if let Some(outcome) = connection.on_orderly(&mut cx, &light, text) {
            return outcome;
        }
        connection.on_segment(&mut cx, PATH, &header, text)
    }

    /// The timer runs out.
    fn time_out(&mut self) {
        self.now = Time::from_millis(u64::from(self.connection.timer().expect("a timer runs")));
        let mut cx = context(self.now, &self.config, &mut self.counters);
        assert_eq!(self.connection.on_timer(&mut cx), None);
    }

    /// Milliseconds until the timer runs out.
    fn timer_in(&self) -> Option<u32> {
        self.connection.timer().map(|at| at.wrapping_sub(self.now.as_millis() as u32))
    }
}

#[derive(Clone, Copy)]
struct Segment {
    seq: u32,
    ack: u32,
    window: u16,
    flags: Bits,
    echo: Option<u32>,
}

/// The next segment of a peer that has sent nothing so far.
const NEXT: Segment = Segment { seq: 1, ack: 1, window: 65_535, flags: Bits::ACK, echo: None };

fn context<'a>(now: Time, config: &'a Config, counters: &'a mut Counters) -> Context<'a> {
    Context { now, now_ms: now.as_millis() as u32, ts_offset: 0, receive_full: false, config, counters }
}

/// RFC 9293 section 3.10.7.4: SND.WL1 keeps a segment that was overtaken from
/// bringing an older window back, whichever way it takes.
#[test]
fn an_overtaken_segment_brings_no_old_window_back() {
    for flags in [Bits::ACK, Bits::ACK | Bits::FIN] {
        let mut host = Host::new(false, |_| {});
        host.take(Segment { seq: 6, window: 500, ..NEXT }, b"");
        assert_eq!(host.connection.info().snd_wnd, 500);
        let outcome = host.take(Segment { flags, window: 9_000, ..NEXT }, b"first");
        assert_eq!((outcome.len, outcome.finished), (5, flags.contains(Bits::FIN)));
        assert_eq!(host.connection.info().snd_wnd, 500);
    }
}

/// RFC 9293 section 3.8.4: probes that were lost say nothing of the network
/// once the peer is heard. What is sent then is retransmitted after one
/// timeout, not after four, and as often as any other.
#[test]
fn what_a_peer_sends_ends_the_back_off_of_keepalive() {
    let mut host = Host::new(false, |config| config.keepalive_idle = 10_000);
    for _ in 0..2 {
        host.time_out();
        assert_eq!(host.poll().len(), 1, "a probe");
    }
    assert_eq!(host.connection.info().backoff, 2);
    host.take(NEXT, b"request");
    assert_eq!(host.connection.info().backoff, 0);
    host.send(b"response");
    assert_eq!(host.timer_in(), Some(host.connection.rto(&host.config)));
    assert!(host.timer_in() < Some(2 * host.config.rto_min));
}

/// The same where we have finished and the peer has not.
#[test]
fn what_a_peer_sends_ends_the_back_off_in_fin_wait_2() {
    let mut host = Host::new(false, |config| config.fin_wait2 = 5_000);
    host.connection.finish();
    assert_eq!(host.poll().len(), 1);
    host.take(Segment { ack: 2, ..NEXT }, b"");
    host.time_out();
    assert_eq!((host.poll().len(), host.connection.info().backoff), (1, 1));
    host.take(Segment { ack: 2, ..NEXT }, b"still here");
    assert_eq!(host.connection.info().backoff, 0);
}

/// RFC 9293 section 3.10.7.4: the peer looks at nothing in a probe, whose
/// sequence number is old. What it sent again at the very time of the probe is
/// acknowledged beside that, and so is what waits for its acknowledgement.
#[test]
fn a_probe_stands_for_no_acknowledgement() {
    let mut host = Host::new(false, |config| config.keepalive_idle = 10_000);
    host.take(NEXT, b"request");
    assert_eq!(host.poll().len(), 0, "its acknowledgement is delayed");
    host.time_out();
    host.connection.on_delayed_ack();
    let sent = host.poll();
    assert!(sent.iter().any(|emit| (emit.seq, emit.ack) == (SeqNum(1), SeqNum(8))), "{sent:?}");
    for _ in 0..3 {
        host.time_out();
        host.take(NEXT, b"request");
        let sent = host.poll();
        assert!(sent.iter().any(|emit| (emit.seq, emit.ack) == (SeqNum(1), SeqNum(8))), "{sent:?}");
    }
}

/// RFC 9293 section 3.8.6.1: a window that closes behind the last
/// acknowledgement is probed after a retransmission timeout, not when
/// keepalive's time has come.
#[test]
fn a_window_that_closes_is_probed_beside_keepalive() {
    let mut host = Host::new(false, |config| config.keepalive_idle = 7_200_000);
    assert_eq!(host.send(&[7; 1_000]).len(), 1);
    host.connection.send_bytes(&[7; 1_000]).expect("there is room");
    host.take(Segment { ack: 1_001, window: 0, ..NEXT }, b"");
    assert_eq!(host.poll().len(), 0);
    assert!(host.timer_in() < Some(1_000), "{:?}", host.timer_in());
    host.time_out();
    let probe = host.poll();
    assert_eq!((probe.len(), host.counters.probes), (1, 1));
    // It opens: the response goes on, and what follows it is timed anew.
    host.take(Segment { ack: 1_001, ..NEXT }, b"more");
    assert_eq!(host.connection.info().backoff, 0);
    assert_eq!(host.poll().iter().map(|emit| emit.len).sum::<u32>(), 1_000);
}

/// RFC 6298 section 3: a round trip is not overlooked because another segment
/// came in the same millisecond as its acknowledgement, except where it takes
/// no millisecond; and the short way takes what the order of the RFC takes.
#[test]
fn the_second_segment_of_a_millisecond_is_timed_alike_on_both_ways() {
    for (handshake, timed) in [(1, false), (20, true)] {
        let mut host = Host::new(true, |_| {});
        host.connection.on_handshake_time(handshake);
        if handshake == 1 {
            for _ in 0..100 {
                host.connection.on_handshake_time(1);
            }
        }
        host.send(b"question");
        host.at(40);
        let echo = Some(START_MS as u32);
        host.take(Segment { ack: 1, echo, ..NEXT }, b"first");
        let before = host.connection.info().srtt_us;
        let mut full = host.connection.clone();
        let taken = host.counters.fast_path;
        host.take(Segment { seq: 6, ack: 9, echo, ..NEXT }, b"second");
        assert_eq!(host.counters.fast_path, taken + 1);
        assert_eq!(host.connection.info().srtt_us != before, timed, "{before}");
        let timestamps = Some(Timestamps { value: 1, echo: START_MS as u32 });
        let options = TcpOptions { timestamps, ..TcpOptions::default() };
        let (seq, ack, flags, window) = (SeqNum(6), SeqNum(9), Bits::ACK, 65_535);
        let header = TcpHeader { src_port: 1, dst_port: 2, seq, ack, flags, window, urgent: 0, options };
        let mut cx = context(host.now, &host.config, &mut host.counters);
        full.on_segment_in_full(&mut cx, PATH, &header, b"second");
        assert_eq!(host.connection.differences(&full), Vec::<String>::new());
    }
}

/// RFC 8985 section 7.2: the probe's time after a round trip of a millisecond
/// or less is the one that is computed for any other.
#[test]
fn the_probe_after_a_short_round_trip_has_the_same_time() {
    let mut short = 0;
    for (srtt_us, rto_min) in [(0, 200), (1, 200), (1_000, 200), (1_001, 300), (1_000, 300), (300, 5), (9_000, 300)] {
        for (len, backoff, sack) in
            [(1, 0, true), (1_460, 0, true), (1_461, 0, true), (4_000, 1, true), (4_000, 0, false)]
        {
            let mut host = Host::new(false, |config| config.rto_min = rto_min);
            host.connection.rtt = crate::rtt::Rtt::new();
            if srtt_us > 0 {
                host.connection.rtt.on_sample(srtt_us);
            }
            host.connection.nxt = host.connection.una.plus(len);
            host.connection.backoff = backoff;
            if !sack {
                host.connection.flags.clear(crate::flags::Flags::SACK);
            }
            short += usize::from(host.connection.rtt.is_short());
            let mut full = host.connection.clone();
            let cx = context(host.now, &host.config, &mut host.counters);
            host.connection.arm_probe(&cx);
            full.arm_longer_probe(&cx);
            assert_eq!(host.connection.timer(), full.timer(), "{srtt_us} {rto_min} {len} {backoff} {sack}");
        }
    }
    assert!(short > 0);
}
