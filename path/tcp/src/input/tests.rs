use crate::agreed::Agreed;
use crate::config::Config;
use crate::connection::Connection;
use crate::context::{Context, Path};
use crate::emit::Emit;
use crate::flags::Flags;
use crate::{Counters, Outcome};
use random::SplitMix64;
use wire::Time;
use wire::tcp::{Flags as Bits, SackBlocks, SeqNum, TcpHeader, TcpOptions, Timestamps};

const PATH: Path = Path { mtu: 1_500, v6: false };
/// What the peer's clock says first.
const STAMP: u32 = 5_000;

struct Receiver {
    connection: Connection,
    config: Config,
    counters: Counters,
    now: Time,
}

impl Receiver {
    /// A connection whose peer's first byte is number 1, as ours is.
    fn new(sack: bool, timestamps: bool) -> Self {
        let config = Config::default();
        let mut counters = Counters::default();
        let now = Time::from_millis(1_000);
        let agreed =
            Agreed { sack, timestamps: timestamps.then_some(STAMP), ..Agreed::bare(SeqNum(0), SeqNum(0), 1_012) };
        let mut cx = context(now, &config, &mut counters);
        let mut connection = Connection::accept(&mut cx, PATH, &agreed, 65_535);
        connection.on_handshake_time(10);
        Self { connection, config, counters, now }
    }

    fn take(&mut self, header: &TcpHeader, payload: &[u8]) -> Outcome {
        let mut cx = context(self.now, &self.config, &mut self.counters);
        self.connection.on_segment(&mut cx, PATH, header, payload)
    }

    fn poll(&mut self) -> Vec<Emit> {
        let mut cx = context(self.now, &self.config, &mut self.counters);
        core::iter::from_fn(|| self.connection.poll_segment(&mut cx, PATH, 0)).collect()
    }
}

fn context<'a>(now: Time, config: &'a Config, counters: &'a mut Counters) -> Context<'a> {
    Context { now, now_ms: now.as_millis() as u32, ts_offset: 0, receive_full: false, config, counters }
}

fn segment(seq: SeqNum, ack: SeqNum, flags: Bits, stamp: Option<u32>) -> TcpHeader {
    let timestamps = stamp.map(|value| Timestamps { value, echo: 1_000 });
    let options = TcpOptions { timestamps, ..TcpOptions::default() };
    TcpHeader { src_port: 1, dst_port: 2, seq, ack, flags, window: 65_535, urgent: 0, options }
}

/// RFC 7323 section 4.3: the answer to what came twice echoes the timestamp of the second, and
/// nothing after it does. TS.Recent is that of what was acceptable (section 5.3).
#[test]
fn what_came_twice_has_its_own_timestamp_echoed_once() {
    let mut receiver = Receiver::new(true, true);
    let text = [7; 500];
    receiver.take(&segment(SeqNum(1), SeqNum(1), Bits::ACK, Some(STAMP + 10)), &text);
    receiver.connection.flags.set(Flags::ACK_NOW);
    assert_eq!(receiver.poll()[0].timestamps.map(|(_, echo)| echo), Some(STAMP + 10));
    receiver.take(&segment(SeqNum(1), SeqNum(1), Bits::ACK, Some(STAMP + 300)), &text);
    assert_eq!(receiver.poll()[0].timestamps.map(|(_, echo)| echo), Some(STAMP + 300));
    assert_eq!(receiver.connection.info().ts_recent, STAMP + 10);
    receiver.connection.flags.set(Flags::ACK_NOW);
    assert_eq!(receiver.poll()[0].timestamps.map(|(_, echo)| echo), Some(STAMP + 10));
    assert!(receiver.connection.cold.is_none(), "and nothing is kept of it");
}

/// A stranger who knows addresses and ports: what it sends left or right of the window moves
/// nothing but what answers it, and PAWS refuses none of the peer's segments afterwards.
#[test]
fn what_lies_outside_the_window_moves_nothing() {
    let mut taken_after = 0;
    for seed in 0..5_000 {
        let mut random = SplitMix64::new(seed);
        let (sack, timestamps) = (random.below(2) == 0, random.below(4) > 0);
        let mut receiver = Receiver::new(sack, timestamps);
        let mut stamp = STAMP;
        live(&mut receiver, &mut random, &mut stamp);
        let before = receiver.connection.clone();
        for _ in 0..3 {
            let (header, payload) = outside(&before, &mut random, timestamps);
            let outcome = receiver.take(&header, &payload);
            assert!(!outcome.opened && outcome.len == 0 && !outcome.finished && outcome.closed.is_none(), "{seed}");
            unmoved(&before, &receiver.connection, seed, &header);
        }
        // The peer goes on.
        receiver.now = receiver.now + core::time::Duration::from_millis(1);
        let next = segment(before.rcv_nxt, before.una, Bits::ACK, timestamps.then_some(stamp + 1));
        let refused = receiver.counters.paws_rejected;
        if receiver.take(&next, b"next").len == 4 || before.cold.is_some() {
            taken_after += 1;
        }
        assert_eq!(receiver.counters.paws_rejected, refused, "seed {seed}: the peer's own segment");
    }
    assert_eq!(taken_after, 5_000);
}

/// Some of what happens to a connection: text in order and ahead of a gap, text of ours that
/// is on its way, acknowledgements of it.
fn live(receiver: &mut Receiver, random: &mut SplitMix64, stamp: &mut u32) {
    for _ in 0..random.below(5) {
        receiver.now = receiver.now + core::time::Duration::from_millis(random.up_to(49) + 1);
        *stamp += random.below(50) as u32;
        let timestamp = receiver.connection.info().timestamps.then_some(*stamp);
        let (next, una) = (receiver.connection.rcv_nxt, receiver.connection.una);
        let text = vec![1; random.below(1_000) + 1];
        match random.below(4) {
            0 => drop(receiver.take(&segment(next, una, Bits::ACK, timestamp), &text)),
            1 => drop(receiver.take(&segment(next.plus(1_500), una, Bits::ACK, timestamp), &text)),
            2 => drop(receiver.connection.send_bytes(&text)),
            _ => {
                receiver.poll();
                let nxt = receiver.connection.nxt;
                receiver.take(&segment(next, nxt, Bits::ACK, timestamp), &[]);
            }
        }
        receiver.poll();
    }
}

/// A segment that none of the four cases of RFC 9293 section 3.4 takes, with whatever else.
fn outside(of: &Connection, random: &mut SplitMix64, timestamps: bool) -> (TcpHeader, Vec<u8>) {
    let window = of.rcv_adv.forward_from(of.rcv_nxt);
    let payload = vec![9; if random.below(3) == 0 { 0 } else { random.below(1_400) + 1 }];
    let far = random.below(1 << 20) as u32;
    let seq = match random.below(3) {
        // It ends before what is expected, as a repeated segment does.
        0 => of.rcv_nxt.minus(payload.len() as u32 + 1 + random.below(3) as u32 * far),
        1 => of.rcv_adv.plus(far),
        _ => of.rcv_nxt.plus(window + random.below(1 << 31) as u32),
    };
    let ack = match random.below(4) {
        0 => of.una,
        1 => of.nxt,
        2 => of.una.minus(random.below(70_000) as u32),
        _ => SeqNum(random.bits() as u32),
    };
    let flags =
        [Bits::ACK, Bits::ACK.union(Bits::PSH), Bits::RST, Bits::ACK.union(Bits::SYN), Bits::ACK.union(Bits::FIN)];
    let flags = flags[random.below(flags.len())];
    let stamp = match random.below(3) {
        0 => of.ts_recent,
        1 => of.ts_recent.wrapping_add(random.below(1 << 31) as u32),
        _ => random.bits() as u32,
    };
    let mut header = segment(seq, ack, flags, timestamps.then_some(stamp));
    header.window = random.bits() as u16;
    if random.below(2) == 0 {
        let start = of.una.plus(random.below(3_000) as u32);
        header.options.sack = SackBlocks::EMPTY;
        header.options.sack.push(start, start.plus(random.below(3_000) as u32 + 1));
    }
    (header, payload)
}

/// Nothing differs but what makes up the answer.
fn unmoved(before: &Connection, after: &Connection, seed: u64, header: &TcpHeader) {
    let mut answered = after.clone();
    if let Some(cold) = &mut answered.cold {
        cold.repeated = None;
        cold.dsack = before.cold.as_ref().and_then(|cold| cold.dsack);
        if before.cold.is_none() && cold.undisturbed() && cold.disposable() {
            answered.cold = None;
        }
    }
    answered.unacked = before.unacked;
    for bit in [Flags::ACK_NOW, Flags::SLOW] {
        if before.flags.has(bit) {
            answered.flags.set(bit);
        } else {
            answered.flags.clear(bit);
        }
    }
    assert_eq!(before.differences(&answered), Vec::<String>::new(), "seed {seed}: {header:?}");
}
