use crate::agreed::Agreed;
use crate::config::Config;
use crate::connection::Connection;
use crate::context::{Context, Path};
use crate::emit::Emit;
use crate::{Counters, Outcome, Steady};
use core::time::Duration;
use random::SplitMix64;
use wire::Time;
use wire::tcp::{Established, Flags as Bits, SeqNum, TcpHeader, TcpOptions, Timestamps};

const PATH: Path = Path { mtu: 1_500, v6: false };
const MSS: u32 = 1_000;

/// How often each short way was taken.
#[derive(Debug, Default)]
struct Taken {
    sent: u32,
    waited: u32,
    heard: u32,
    /// Turns that were left out because the connection only waits.
    idle: u32,
}

/// A paced sender on two copies: one takes the short ways, the other the long ones.
struct Pair {
    short: Connection,
    long: Connection,
    config: Config,
    counters: [Counters; 2],
    now: Time,
    taken: Taken,
}

impl Pair {
    fn new(rate: u64, timestamps: bool) -> Self {
        let config = Config { max_pacing_rate: Some(rate), ..Config::default() };
        let mut counters = Counters::default();
        let now = Time::from_millis(1_000);
        let timestamps = timestamps.then_some(1);
        let bare = Agreed::bare(SeqNum(u32::MAX - 20_000), SeqNum(0), MSS as u16);
        let agreed = Agreed { sack: true, peer_shift: Some(10), timestamps, ..bare };
        let mut cx = context(now, &config, &mut counters);
        let mut short = Connection::accept(&mut cx, PATH, &agreed, 60_000);
        short.on_handshake_time(20);
        let long = short.clone();
        Self { short, long, config, counters: [counters; 2], now, taken: Taken::default() }
    }

    fn each(&mut self, what: impl Fn(&mut Connection)) {
        what(&mut self.short);
        what(&mut self.long);
    }

    /// A turn to send of each, of at most `most` segments: they send the same.
    fn turn(&mut self, most: usize) {
        let [counters, others] = &mut self.counters;
        let mut cx = context(self.now, &self.config, counters);
        let (mut sent, mut until) = (Vec::new(), None);
        while sent.len() < most && until.is_none() {
            match self.short.poll_steady(&mut cx) {
                Some(Steady::Send(emit)) => {
                    self.taken.sent += 1;
                    sent.push(emit);
                    until = self.short.wait_steady(&cx);
                }
                Some(Steady::Wait(at)) => until = Some(at),
                None => break,
            }
        }
        self.taken.waited += u32::from(until.is_some());
        if until.is_none() {
            sent.extend(polled(&mut self.short, &mut cx, most - sent.len()));
        }
        let mut cx = context(self.now, &self.config, others);
        let expected = polled(&mut self.long, &mut cx, most);
        let [sent, expected] =
            [sent, expected].map(|emits| emits.iter().map(|emit| format!("{emit:?}")).collect::<Vec<_>>());
        assert_eq!(sent, expected);
        self.compare();
    }

    /// A segment of the peer, for each.
    fn take(&mut self, header: &Established) {
        let [counters, others] = &mut self.counters;
        let mut cx = context(self.now, &self.config, counters);
        let taken = self.short.on_steady(&mut cx, header, b"");
        self.taken.heard += u32::from(taken.is_some());
        let options = TcpOptions { timestamps: header.timestamps, ..TcpOptions::default() };
        let Established { src_port, dst_port, seq, ack, flags, window, .. } = *header;
        let full = TcpHeader { src_port, dst_port, seq, ack, flags, window, urgent: 0, options };
        let in_full = |connection: &mut Connection, cx: &mut Context<'_>| -> Outcome {
            connection.on_segment_in_full(cx, PATH, &full, b"")
        };
        let outcome = taken.unwrap_or_else(|| in_full(&mut self.short, &mut cx));
        let expected = in_full(&mut self.long, &mut context(self.now, &self.config, others));
        assert_eq!(outcome, expected);
        self.compare();
    }

    /// What is said to wait for the pacer alone has nothing to send, and waits as long as before.
    fn look(&mut self) {
        let Some(until) = self.short.paced_until().filter(|at| *at > self.now && !self.short.wants_poll()) else {
            return;
        };
        self.taken.idle += 1;
        let mut copy = self.short.clone();
        let mut counters = Counters::default();
        let mut cx = context(self.now, &self.config, &mut counters);
        assert!(copy.poll_segment(&mut cx, PATH, 0).is_none());
        assert_eq!(copy.paced_until(), Some(until));
    }

    fn compare(&mut self) {
        assert_eq!(self.short.differences(&self.long), Vec::<String>::new());
        let [mut counters, others] = self.counters;
        counters.fast_path = others.fast_path;
        assert_eq!(counters.iter().collect::<Vec<_>>(), others.iter().collect::<Vec<_>>());
        self.look();
    }
}

fn polled(connection: &mut Connection, cx: &mut Context<'_>, most: usize) -> Vec<Emit> {
    core::iter::from_fn(|| connection.poll_segment(cx, PATH, 0)).take(most).collect()
}

fn context<'a>(now: Time, config: &'a Config, counters: &'a mut Counters) -> Context<'a> {
    Context { now, now_ms: now.as_millis() as u32, ts_offset: 0, receive_full: false, config, counters }
}

/// Whatever is queued, acknowledged, lost and told, at any rate: both ways send the same, at the
/// same times, and leave the same. Each is taken often.
#[test]
fn both_ways_are_the_same() {
    let mut taken = [0; 4];
    for seed in 0..60 {
        let mut random = SplitMix64::new(seed);
        let rate = 20_000 << random.below(11);
        let mut pair = Pair::new(rate, random.below(2) == 0);
        let (mut window, losses) = (2_000, random.below(3) == 0);
        for _ in 0..400 {
            let wait = Duration::from_micros(random.below(20_000) as u64);
            pair.now = match pair.short.paced_until() {
                // To the moment, as the calendar has it, or a little later.
                Some(at) if random.below(2) == 0 => at.max(pair.now) + wait / 1_000,
                _ => pair.now + wait,
            };
            let now_ms = pair.now.as_millis() as u32;
            if pair.short.timer().is_some_and(|at| at.wrapping_sub(now_ms) as i32 <= 0) {
                let (now, config) = (pair.now, pair.config.clone());
                pair.each(|connection| {
                    let mut counters = Counters::default();
                    assert_eq!(connection.on_timer(&mut context(now, &config, &mut counters)), None);
                });
            }
            match random.below(8) {
                0..3 => {
                    let len = 1 + random.below(4_000);
                    let room = pair.short.unsent() < 60_000;
                    pair.each(|connection| {
                        if room {
                            connection.send_bytes(&vec![7; len]).expect("there is room");
                        }
                    });
                }
                // The peer is silent, and what was sent may be sent again.
                3 if losses => {}
                3 if random.below(4) == 0 => window = [0, 1, 3, 2_000][random.below(4)],
                _ => {
                    let info = pair.short.info();
                    let in_flight = info.nxt.forward_from(info.una);
                    let part = random.below(in_flight as usize + 1) as u32;
                    let acked = if random.below(3) == 0 { part } else { in_flight.min(2 * MSS) };
                    let echo = now_ms.wrapping_sub(20);
                    let timestamps = info.timestamps.then_some(Timestamps { value: now_ms, echo });
                    let (seq, ack, flags) = (SeqNum(1), info.una.plus(acked), Bits::ACK);
                    pair.take(&Established { src_port: 1, dst_port: 2, seq, ack, flags, window, timestamps });
                }
            }
            if random.below(12) == 0 {
                pair.each(Connection::ask_ack);
            }
            if random.below(4) > 0 {
                pair.turn(16);
            }
        }
        let Taken { sent, waited, heard, idle } = pair.taken;
        taken = [taken[0] + sent, taken[1] + waited, taken[2] + heard, taken[3] + idle];
    }
    assert!(taken.iter().all(|times| *times > 1_000), "{taken:?}");
}

/// A flow at a low rate takes nothing but the short ways once it is under way, and what it hears
/// gives it no turn to send that it does not need.
#[test]
fn a_steady_flow_takes_the_short_ways() {
    let mut pair = Pair::new(100_000, true);
    pair.each(|connection| connection.send_bytes(&[7; 200_000]).expect("there is room"));
    pair.turn(16);
    for round in 1..=50 {
        pair.now = pair.short.paced_until().expect("it waits for its pacer");
        let sent = pair.taken.sent;
        pair.turn(16);
        assert_eq!(pair.taken.sent, sent + 1);
        pair.now = pair.now + Duration::from_millis(3);
        let (info, now_ms) = (pair.short.info(), pair.now.as_millis() as u32);
        let timestamps = Some(Timestamps { value: now_ms, echo: now_ms.wrapping_sub(3) });
        let (seq, ack, flags) = (SeqNum(1), info.nxt, Bits::ACK);
        pair.take(&Established { src_port: 1, dst_port: 2, seq, ack, flags, window: 2_000, timestamps });
        assert_eq!(pair.taken.heard, round);
        assert!(!pair.short.wants_poll());
    }
}

/// What waits for its pacer has its turn as soon as it is to wait for less.
#[test]
fn another_rate_gives_a_turn_to_send() {
    let mut pair = Pair::new(20_000, false);
    pair.each(|connection| connection.send_bytes(&[7; 20_000]).expect("there is room"));
    pair.turn(16);
    assert!(!pair.short.wants_poll());
    let (now, config) = (pair.now, Config { max_pacing_rate: Some(1_000_000), ..pair.config.clone() });
    pair.each(|connection| connection.steer_pacing(&config, now));
    assert!(pair.short.wants_poll());
}
