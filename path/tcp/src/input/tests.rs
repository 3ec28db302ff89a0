//! What a stranger's segments leave of a connection: everything as it was.

use crate::Counters;
use crate::agreed::Agreed;
use crate::config::Config;
use crate::connection::{Connection, segment_len};
use crate::context::{Context, Path};
use crate::emit::{Emit, EmitOptions};
use crate::flags::Flags;
use crate::outcome::{Answer, Outcome};
use crate::state::State;
use random::SplitMix64;
use wire::Time;
use wire::tcp::{Flags as Bits, SackBlocks, SeqNum, TcpHeader, TcpOptions, Timestamps};

const PATH: Path = Path { mtu: 1_500, v6: false };
/// What a connection's clock shows when it begins.
const START_MS: u64 = 100_000;
/// The peer's clock then.
const PEER_MS: u32 = 7_000_000;
/// RCV.NXT and SND.UNA then.
const RCV: u32 = 0xffff_f000;
const SND: u32 = 0x7fff_f800;

fn context<'a>(ms: u64, config: &'a Config, counters: &'a mut Counters) -> Context<'a> {
    let now = Time::from_millis(START_MS + ms);
    Context { now, now_ms: now.as_millis() as u32, ts_offset: 0, receive_full: false, config, counters }
}

/// A connection, and how its peer's next segment looks.
#[derive(Clone)]
struct Host {
    connection: Connection,
    config: Config,
    counters: Counters,
    ms: u64,
}

impl Host {
    fn new(timestamps: bool, sack: bool) -> Self {
        let config = Config::default();
        let mut counters = Counters::default();
        let recent = timestamps.then_some(PEER_MS);
        let agreed =
            Agreed { sack, timestamps: recent, ..Agreed::bare(SeqNum(SND).minus(1), SeqNum(RCV).minus(1), 1_460) };
        let connection = Connection::accept(&mut context(0, &config, &mut counters), PATH, &agreed, 65_535);
        Self { connection, config, counters, ms: 0 }
    }

    fn take(&mut self, header: &TcpHeader, text: &[u8]) -> Outcome {
        let mut cx = context(self.ms, &self.config, &mut self.counters);
        self.connection.on_segment(&mut cx, PATH, header, text)
    }

    fn poll(&mut self) -> Vec<Emit> {
        let mut cx = context(self.ms, &self.config, &mut self.counters);
        core::iter::from_fn(|| self.connection.poll_segment(&mut cx, PATH, 0)).collect()
    }

    fn send(&mut self, bytes: &[u8]) {
        self.connection.send_bytes(bytes).expect("there is room");
        self.poll();
    }

    /// A segment of the peer itself, `ahead` bytes behind RCV.NXT.
    fn peers(&self, ahead: u32, flags: Bits, window: u16) -> TcpHeader {
        let stamp = Timestamps { value: PEER_MS + self.ms as u32, echo: (START_MS + self.ms) as u32 };
        let timestamps = self.connection.flags.has(Flags::TIMESTAMPS).then_some(stamp);
        header(self.connection.rcv_nxt.plus(ahead), self.connection.nxt, flags, window, timestamps)
    }

    /// The application takes what is held.
    fn read(&mut self) {
        if let Some(mut held) = self.connection.take_held() {
            held.consume(held.contiguous().len());
            self.connection.put_held(&self.config, held);
        }
    }

    fn take_peers(&mut self, ahead: u32, flags: Bits, window: u16, text: &[u8]) {
        let header = self.peers(ahead, flags, window);
        self.take(&header, text);
    }
}

fn header(seq: SeqNum, ack: SeqNum, flags: Bits, window: u16, timestamps: Option<Timestamps>) -> TcpHeader {
    let options = TcpOptions { timestamps, ..TcpOptions::default() };
    TcpHeader { src_port: 1, dst_port: 2, seq, ack, flags, window, urgent: 0, options }
}

/// Connections in all that a stranger may find them in.
fn hosts() -> Vec<(&'static str, Host)> {
    const FIN: Bits = Bits(Bits::ACK.0 | Bits::FIN.0);
    let mut hosts = Vec::new();
    for (timestamps, sack) in [(true, true), (true, false), (false, true), (false, false)] {
        let new = || Host::new(timestamps, sack);
        let mut add = |name, change: &dyn Fn(&mut Host)| {
            let mut host = new();
            host.ms = 50;
            change(&mut host);
            hosts.push((name, host));
        };
        add("idle", &|_| {});
        add("heard long ago", &|host| host.ms = 20_000);
        add("flight", &|host| host.send(&[1; 9_000]));
        add("delayed acknowledgement", &|host| host.take_peers(0, Bits::ACK, 65_535, b"text"));
        add("early bytes", &|host| {
            host.take_peers(100, Bits::ACK, 65_535, b"early");
            host.poll();
        });
        add("closed window", &|host| {
            host.take_peers(0, Bits::ACK, 0, b"text");
            host.send(b"answer");
        });
        add("finished", &|host| {
            host.connection.finish();
            host.poll();
        });
        add("finished and acknowledged", &|host| {
            host.connection.finish();
            host.poll();
            host.take_peers(0, Bits::ACK, 65_535, b"");
        });
        add("the peer finished", &|host| {
            host.take_peers(0, FIN, 65_535, b"last");
            host.poll();
        });
        add("lossy", &|host| {
            host.send(&[1; 9_000]);
            let mut ack = host.peers(0, Bits::ACK, 65_535);
            ack.ack = host.connection.una;
            ack.options.sack.push(ack.ack.plus(2_920), ack.ack.plus(5_840));
            host.take(&ack, b"");
            host.poll();
        });
    }
    hosts
}

fn pick<T: Copy>(random: &mut SplitMix64, from: &[T]) -> T {
    from[random.below(from.len())]
}

/// A number near `base` as often as far from it.
fn near(random: &mut SplitMix64, base: SeqNum) -> SeqNum {
    let span = pick(random, &[1, 3, 1_460, 70_000, 3 << 20, u32::MAX]);
    base.plus(random.up_to(span.into()) as u32).minus(span / 2)
}

/// A segment that is not acceptable, from one who knows addresses and ports,
/// and no number but by guessing; `None` where the guess would be a hit.
fn forged(random: &mut SplitMix64, host: &Host) -> Option<(TcpHeader, Vec<u8>)> {
    let connection = &host.connection;
    let seq = near(random, connection.rcv_nxt);
    let ack = pick(random, &[connection.una, connection.nxt]);
    let ack = near(random, ack);
    let recent = connection.ts_recent;
    let (around, any) = (near(random, SeqNum(recent)).0, random.bits() as u32);
    let value = pick(random, &[recent, recent.wrapping_add(1), around, any]);
    let stamp = Timestamps { value, echo: random.bits() as u32 };
    let timestamps = (random.below(8) > 0).then_some(stamp);
    let any = Bits(random.bits() as u8);
    let flags = pick(random, &[Bits::ACK, Bits::ACK, Bits::ACK, any]);
    let mut header = header(seq, ack, flags, random.bits() as u16, timestamps);
    if random.below(3) == 0 {
        let start = near(random, connection.una);
        let mut sack = SackBlocks::EMPTY;
        sack.push(start, near(random, start));
        header.options.sack = sack;
    }
    let len = pick(random, &[0, 0, 1, 700, 1_460]);
    let text = vec![b'x'; len];
    unacceptable(connection, &header, segment_len(&header, &text)).then_some((header, text))
}

/// Whether RFC 9293 section 3.10.7.4, RFC 5961 and RFC 7323 refuse it: written
/// down anew.
fn unacceptable(connection: &Connection, header: &TcpHeader, len: u32) -> bool {
    let window = connection.rcv_adv.forward_from(connection.rcv_nxt);
    let first = header.seq.0.wrapping_sub(connection.rcv_nxt.0);
    if first == 0 {
        // Numbers hit by chance are another matter: a reset would count.
        return false;
    }
    let inside = |offset: u32| offset < window.max(1);
    let overlaps = inside(first) || (len > 0 && window > 0 && first.wrapping_add(len - 1) < first);
    let back = connection.una.0.wrapping_sub(header.ack.0);
    let ahead = header.ack.0.wrapping_sub(connection.nxt.0);
    let bad_ack = (1..1 << 31).contains(&ahead) || (back > connection.snd_wnd.max(65_535) && back < 1 << 31);
    let bad_stamp = connection.flags.has(Flags::TIMESTAMPS)
        && header.options.timestamps.is_none_or(|ts| (ts.value.wrapping_sub(connection.ts_recent) as i32) < 0);
    let control = header.flags.intersects(Bits::SYN | Bits::RST) || !header.flags.contains(Bits::ACK);
    !overlaps || bad_ack || bad_stamp || control
}

/// All of a segment but what tells of the one that it answers.
fn bare(emit: &Emit) -> (SeqNum, SeqNum, Bits, u16, Option<u32>, u32, u32) {
    let Emit { seq, ack, flags, window, timestamps, options: _, offset, len } = *emit;
    (seq, ack, flags, window, timestamps.map(|(value, _)| value), offset, len)
}

/// RFC 9293 section 3.10.7.4, RFC 5961, RFC 7323 section 5.3: of a segment that
/// is not acceptable nothing stays but counters, and the acknowledgement that
/// answers it: with that on its way, the connection is the one that it was,
/// and takes the peer's next segment as it would have.
#[test]
fn a_strangers_segment_leaves_everything_as_it_was() {
    let (mut sent, mut challenged, mut answered, mut echoed) = (0, 0, 0, 0);
    for (seed, (name, start)) in hosts().into_iter().enumerate() {
        let mut random = SplitMix64::new(seed as u64);
        for _ in 0..1_000 {
            let Some((header, text)) = forged(&mut random, &start) else { continue };
            let (mut host, mut twin) = (start.clone(), start.clone());
            let outcome = host.take(&header, &text);
            let what = format!("{name}: {header:?} with {} bytes", text.len());
            let expected = if outcome.answer == Answer::Challenge {
                challenged += 1;
                Outcome::answer(Answer::Challenge)
            } else {
                Outcome::NONE
            };
            assert_eq!(format!("{outcome:?}"), format!("{expected:?}"), "{what}");
            if host.connection.flags.has(Flags::ACK_NOW) {
                answered += 1;
                twin.connection.ask_ack();
            }
            let (ours, theirs) = (host.poll(), twin.poll());
            echoed += usize::from(ours.iter().zip(&theirs).any(|(a, b)| a.timestamps != b.timestamps));
            assert_eq!(
                ours.iter().map(bare).collect::<Vec<_>>(),
                theirs.iter().map(bare).collect::<Vec<_>>(),
                "{what}"
            );
            assert_eq!(host.connection.differences(&twin.connection), Vec::<String>::new(), "{what}");
            for host in [&mut host, &mut twin] {
                host.ms += 30;
                host.take_peers(0, Bits::ACK, 60_000, b"next");
            }
            assert_eq!(host.connection.differences(&twin.connection), Vec::<String>::new(), "{what}, then the peer's");
            sent += 1;
        }
    }
    let all = [sent, challenged, answered, echoed];
    assert!(sent > 20_000 && challenged > 2_000 && answered > 2_000 && echoed > 10, "{all:?}");
}

/// RFC 7323 section 4.3: what comes again, because its acknowledgement was
/// lost, has its own timestamp echoed, once; and TS.Recent stays.
#[test]
fn a_repeat_is_answered_with_its_own_timestamp_and_moves_nothing() {
    for sack in [true, false] {
        let mut host = Host::new(true, sack);
        host.take_peers(0, Bits::ACK, 65_535, b"request");
        host.send(b"response");
        assert_eq!(host.connection.ts_recent, PEER_MS);
        let mut again = host.peers(0, Bits::ACK, 65_535);
        again.seq = again.seq.minus(7);
        again.ack = host.connection.una;
        again.options.timestamps = Some(Timestamps { value: PEER_MS + 1_000, echo: START_MS as u32 });
        host.take(&again, b"request");
        let echoes = |host: &mut Host| host.poll().iter().map(|emit| emit.timestamps.expect("agreed").1).collect();
        let answer: Vec<u32> = echoes(&mut host);
        assert_eq!(answer, [PEER_MS + 1_000]);
        assert_eq!(host.connection.ts_recent, PEER_MS);
        // What the peer sends next, not long after what came first, is taken.
        host.ms = 1;
        host.take_peers(0, Bits::ACK, 65_535, b"more");
        assert_eq!(host.connection.ts_recent, PEER_MS + 1);
        host.connection.ask_ack();
        let answer: Vec<u32> = echoes(&mut host);
        assert_eq!(answer, [PEER_MS + 1]);
        assert!(host.connection.is_undisturbed());
    }
}

/// While a connection is opened, what acknowledges nothing of ours may only
/// have the SYN sent again earlier: any number of such segments do not keep
/// its time from coming.
#[test]
fn a_strangers_segments_do_not_hold_a_syn_back() {
    let config = Config::default();
    let mut counters = Counters::default();
    let mut connection = Connection::open(&mut context(0, &config, &mut counters), PATH, SeqNum(SND));
    let mut cx = context(0, &config, &mut counters);
    assert!(connection.poll_segment(&mut cx, PATH, 0).is_some_and(|emit| matches!(emit.options, EmitOptions::Syn(_))));
    let first = connection.timer().expect("a timer runs");
    for tick in 0..20 {
        let mut cx = context(tick / 10, &config, &mut counters);
        let forged = header(SeqNum(1), SeqNum(9), Bits::ACK, 1_000, None);
        connection.on_segment(&mut cx, PATH, &forged, b"");
    }
    let due = connection.timer().expect("a timer runs");
    assert!(due <= first && due <= START_MS as u32 + 1, "{due} of {first}");
    assert_eq!(connection.state(), State::SynSent);
}

/// The echo that a segment of earlier bytes leads to, `back` bytes before RCV.NXT.
fn echo_after(host: &mut Host, back: u32, text: &[u8], change: impl FnOnce(&mut TcpHeader)) -> u32 {
    let mut again = host.peers(0, Bits::ACK, 65_535);
    again.seq = again.seq.minus(back);
    again.options.timestamps = Some(Timestamps { value: PEER_MS + 1_000, echo: START_MS as u32 });
    change(&mut again);
    host.take(&again, text);
    host.connection.ask_ack();
    let sent = host.poll();
    sent.first().and_then(|emit| emit.timestamps).expect("an answer with timestamps").1
}

/// RFC 7323 section 4.3: the timestamp of what came again is echoed only where
/// all of it came before, where it may be the peer's, and where nothing newer
/// waits to be acknowledged: that one's is echoed first.
#[test]
fn not_every_repeat_has_its_timestamp_echoed() {
    let host = || {
        let mut host = Host::new(true, true);
        host.take_peers(0, Bits::ACK, 65_535, b"request");
        host.send(b"response");
        host
    };
    assert_eq!(echo_after(&mut host(), 7, b"request", |_| {}), PEER_MS + 1_000);
    // What came first waits to be acknowledged.
    let mut waits = Host::new(true, true);
    waits.take_peers(0, Bits::ACK, 65_535, b"request");
    assert_eq!(echo_after(&mut waits, 7, b"request", |_| {}), PEER_MS);
    // Nobody who knows the connection acknowledges that, or nothing.
    assert_eq!(echo_after(&mut host(), 7, b"request", |again| again.ack = again.ack.plus(1)), PEER_MS);
    assert_eq!(echo_after(&mut host(), 7, b"request", |again| again.ack = again.ack.minus(0x1_0100)), PEER_MS);
    assert_eq!(echo_after(&mut host(), 7, b"request", |again| again.flags = Bits::PSH), PEER_MS);
    // A probe, and at a closed window what is in part new.
    assert_eq!(echo_after(&mut host(), 1, b"", |_| {}), PEER_MS);
    let mut closed = host();
    closed.connection.rcv_adv = closed.connection.rcv_nxt;
    assert_eq!(echo_after(&mut closed, 3, b"request", |_| {}), PEER_MS);
}

/// Two sides with closed windows hear of each other's progress; but no
/// acknowledgement of what was never sent counts there either.
#[test]
fn at_a_closed_window_only_plausible_acknowledgements_count() {
    for timestamps in [true, false] {
        for (ahead, plausible) in [(0, true), (1, false), (70_000, false)] {
            let mut host = Host::new(timestamps, true);
            host.send(&[1; 2_000]);
            host.connection.rcv_adv = host.connection.rcv_nxt;
            let una = host.connection.una;
            let mut header = host.peers(0, Bits::ACK, 65_535);
            header.ack = header.ack.plus(ahead);
            let outcome = host.take(&header, b"text");
            assert_eq!(outcome.answer == Answer::Challenge, !plausible, "{ahead}");
            assert_eq!(host.connection.una, if plausible { host.connection.nxt } else { una }, "{ahead}");
        }
    }
}

/// Before room is made for text, all that would refuse it is asked: others
/// would give way for nothing.
#[test]
fn text_that_will_be_refused_may_not_be_taken() {
    let host = Host::new(true, true);
    let may = |change: fn(&mut TcpHeader)| {
        let mut header = host.peers(0, Bits::ACK, 65_535);
        change(&mut header);
        host.connection.may_take((START_MS + host.ms) as u32, &header, b"text")
    };
    assert!(may(|_| {}) && may(|header| header.seq = header.seq.plus(1_000)));
    let refused: [fn(&mut TcpHeader); 9] = [
        |header| header.options.timestamps = None,
        |header| header.options.timestamps = Some(Timestamps { value: PEER_MS - 1, echo: START_MS as u32 }),
        |header| header.seq = header.seq.minus(4),
        |header| header.seq = header.seq.plus(2 << 20),
        |header| header.ack = header.ack.plus(1),
        |header| header.ack = header.ack.minus(0x1_0001),
        |header| header.flags = Bits(Bits::ACK.0 | Bits::RST.0),
        |header| header.flags = Bits(Bits::ACK.0 | Bits::SYN.0),
        |header| header.flags = Bits::PSH,
    ];
    for (at, change) in refused.into_iter().enumerate() {
        assert!(!may(change), "case {at}");
    }
}

/// A segment of ten bytes from `at` bytes behind where the connection began, as the peer sent
/// it at that time by its clock. Returns whether it was taken, or held.
fn take_late(host: &mut Host, at: u32, peer_ms: u32) -> bool {
    let mut late = host.peers(0, Bits::ACK, 65_535);
    late.seq = SeqNum(RCV).plus(at);
    late.options.timestamps = Some(Timestamps { value: PEER_MS.wrapping_add(peer_ms), echo: START_MS as u32 });
    let refused = host.counters.paws_rejected;
    host.take(&late, &[b'x'; 10]);
    host.read();
    host.poll();
    host.counters.paws_rejected == refused
}

/// RFC 7323 section 5.3: what left before a retransmission and arrives after it is late, and no
/// duplicate of an earlier turn. It moves TS.Recent by nothing (R3).
#[test]
fn what_a_retransmission_overtook_is_taken() {
    let mut host = Host::new(true, true);
    host.ms = 60;
    assert!(take_late(&mut host, 0, 0));
    // The second is lost, the third and fifth are late, and the second comes again.
    assert!(take_late(&mut host, 30, 3));
    assert!(take_late(&mut host, 10, 50));
    assert_eq!(host.connection.rcv_nxt, SeqNum(RCV).plus(20));
    assert!(take_late(&mut host, 20, 2), "late by a gap");
    assert_eq!(host.connection.rcv_nxt, SeqNum(RCV).plus(40));
    assert!(take_late(&mut host, 40, 4), "late without a gap");
    assert_eq!((host.connection.rcv_nxt, host.connection.ts_recent), (SeqNum(RCV).plus(50), PEER_MS + 50));
    // What left before the last that came before the gap did is of an earlier turn.
    assert!(!take_late(&mut host, 50, u32::MAX));
    // So is what comes long after.
    host.ms += 501;
    assert!(!take_late(&mut host, 50, 5));
    assert!(take_late(&mut host, 50, 51));
}

/// Once a window has passed since, what is older than the gap's end is of an earlier turn again;
/// and nothing is kept of it.
#[test]
fn nothing_is_late_by_more_than_a_window() {
    let mut host = Host::new(true, true);
    host.ms = 60;
    assert!(take_late(&mut host, 0, 0) && take_late(&mut host, 20, 2) && take_late(&mut host, 10, 50));
    let window = host.connection.rcv_adv.forward_from(host.connection.rcv_nxt);
    let mut sent = 51;
    while host.connection.cold.as_ref().is_some_and(|cold| cold.late.is_some()) {
        let mut next = host.peers(0, Bits::ACK, 65_535);
        next.options.timestamps = Some(Timestamps { value: PEER_MS + sent, echo: START_MS as u32 });
        host.take(&next, &[b'x'; 1_448]);
        host.read();
        host.connection.ask_ack();
        host.poll();
        sent += 1;
    }
    // Two windows, for what was sent within the one that the gap's end opened may be late, too.
    let windows = host.connection.rcv_nxt.forward_from(SeqNum(RCV)) / window;
    assert_eq!(windows, 2);
    let at = host.connection.rcv_nxt.forward_from(SeqNum(RCV));
    assert!(!take_late(&mut host, at, 49));
    assert!(!take_late(&mut host, at, sent - 2));
    assert!(take_late(&mut host, at, sent));
}
