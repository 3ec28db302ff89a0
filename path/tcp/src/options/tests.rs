use crate::agreed::{Agreed, agree_on};
use crate::config::Config;
use crate::connection::Connection;
use crate::context::{Context, Path};
use crate::emit::{Emit, EmitOptions};
use crate::options::SocketOptions;
use crate::{CongestionState, Counters};
use app::{Closed, Unreachable};
use wire::Time;
use wire::tcp::{Established, Flags as Bits, Offer, SackBlocks, SeqNum, TcpHeader, TcpOptions};

const PATH: Path = Path { mtu: 1_500, v6: false };
const MSS: usize = 1_000;

/// An accepted connection whose peer says what the test says.
struct Sender {
    connection: Connection,
    config: Config,
    counters: Counters,
    now: Time,
    window: u16,
}

fn context<'a>(now: Time, config: &'a Config, counters: &'a mut Counters) -> Context<'a> {
    Context { now, now_ms: now.as_millis() as u32, ts_offset: 0, receive_full: false, config, counters }
}

impl Sender {
    fn new(window: u16, sack: bool) -> Self {
        let config = Config { pace_start: false, ..Config::default() };
        let (mut counters, now) = (Counters::default(), Time::from_millis(1_000));
        let agreed = Agreed { sack, ..Agreed::bare(SeqNum(0), SeqNum(0), MSS as u16) };
        let mut connection = Connection::accept(&mut context(now, &config, &mut counters), PATH, &agreed, window);
        connection.on_handshake_time(100);
        Self { connection, config, counters, now, window }
    }

    fn write(&mut self, len: usize) -> Vec<Emit> {
        self.connection.send_bytes(&vec![7; len]).expect("there is room");
        self.poll(0)
    }

    fn poll(&mut self, burst: u32) -> Vec<Emit> {
        let mut cx = context(self.now, &self.config, &mut self.counters);
        core::iter::from_fn(|| self.connection.poll_segment(&mut cx, PATH, burst)).collect()
    }

    fn ack(&mut self, ack: u32, blocks: &[(u32, u32)]) -> Vec<Emit> {
        let mut sack = SackBlocks::EMPTY;
        for &(start, end) in blocks {
            sack.push(SeqNum(start), SeqNum(end));
        }
        let options = TcpOptions { sack, ..TcpOptions::default() };
        let window = self.window;
        let (seq, ack) = (SeqNum(1), SeqNum(ack));
        let header = TcpHeader { src_port: 1, dst_port: 2, seq, ack, flags: Bits::ACK, window, urgent: 0, options };
        let mut cx = context(self.now, &self.config, &mut self.counters);
        self.connection.on_segment(&mut cx, PATH, &header, &[]);
        self.poll(0)
    }

    /// The timer runs out. Why the connection ended, or how long it took and
    /// what is sent.
    fn time_out(&mut self) -> Result<(u64, Vec<Emit>), Closed> {
        let due = Time::from_millis(u64::from(self.connection.timer().expect("a timer runs")));
        let waited = due.since(self.now).as_millis() as u64;
        self.now = due;
        match self.connection.on_timer(&mut context(due, &self.config, &mut self.counters)) {
            Some(why) => Err(why),
            None => Ok((waited, self.poll(0))),
        }
    }
}

/// Payload lengths, and whether PSH is set.
fn sent(emits: &[Emit]) -> Vec<(u32, bool)> {
    emits.iter().map(|emit| (emit.len, emit.flags.contains(Bits::PSH))).collect()
}

#[test]
fn a_corked_segment_waits_for_the_cork_or_the_timer() {
    let mut sender = Sender::new(60_000, true);
    sender.connection.set_cork(&sender.config, true);
    assert_eq!(sent(&sender.write(2_040)), [(1_000, false), (1_000, false)]);
    assert_eq!(sent(&sender.ack(2_001, &[])), [], "nothing in flight lets a corked segment go");
    let (waited, emits) = sender.time_out().unwrap();
    assert_eq!(sent(&emits), [(40, true)]);
    assert!((200..=400).contains(&waited), "{waited} ms");
    assert_eq!(sent(&sender.ack(2_041, &[])), []);

    assert_eq!(sent(&sender.write(40)), []);
    assert_eq!(sent(&sender.write(40)), []);
    sender.connection.set_cork(&sender.config, false);
    assert_eq!(sent(&sender.poll(0)), [(80, true)]);
    sender.ack(2_121, &[]);
    assert!(!sender.connection.has_cold(), "nothing is asked for any more");
}

/// Linux: `tcp_mss_split_point` in net/ipv4/tcp_output.c.
#[test]
fn a_burst_for_the_link_to_cut_leaves_the_corked_rest() {
    let mut sender = Sender::new(60_000, true);
    sender.connection.set_cork(&sender.config, true);
    sender.connection.send_bytes(&[7; 3_100]).unwrap();
    assert_eq!(sender.poll(8_000).iter().map(|emit| emit.len).collect::<Vec<_>>(), [3_000]);
    sender.connection.set_cork(&sender.config, false);
    assert_eq!(sent(&sender.poll(8_000)), [(100, true)]);
}

/// Linux: `__tcp_sock_set_nodelay` in net/ipv4/tcp.c.
/// A head and the file behind it, as nginx sends them with `tcp_nopush`: their end does not wait for an
/// acknowledgement, which a peer may hold back for 40 ms.
#[test]
fn what_a_cork_held_goes_behind_full_segments_when_it_is_taken_back() {
    let mut sender = Sender::new(60_000, true);
    sender.connection.set_nagle(true);
    for _ in 0..3 {
        sender.connection.set_cork(&sender.config, true);
        assert_eq!(sent(&sender.write(240)), []);
        assert_eq!(sent(&sender.write(2_649)), [(1_000, false), (1_000, false)]);
        sender.connection.set_cork(&sender.config, false);
        let last = sender.poll(0);
        assert_eq!(sent(&last), [(889, true)]);
        let end = last[0].seq.0 + last[0].len;
        assert_eq!(sent(&sender.ack(end, &[])), []);
    }
}

#[test]
fn switching_nagle_off_lets_go_once_what_is_corked() {
    let mut sender = Sender::new(60_000, true);
    sender.connection.set_cork(&sender.config, true);
    assert_eq!(sent(&sender.write(40)), []);
    sender.connection.set_nagle(false);
    assert_eq!(sent(&sender.poll(0)), [(40, true)]);
    sender.ack(41, &[]);
    assert_eq!(sent(&sender.write(40)), [], "it is corked still");
}

#[test]
fn what_is_to_be_continued_waits_for_more_or_for_the_peer() {
    let mut sender = Sender::new(60_000, true);
    sender.connection.set_more(&sender.config, true);
    assert_eq!(sent(&sender.write(100)), []);
    assert_eq!(sent(&sender.write(160)), []);
    sender.connection.set_more(&sender.config, false);
    assert_eq!(sent(&sender.write(5)), [(265, true)]);
    sender.ack(266, &[]);

    sender.connection.set_more(&sender.config, true);
    assert_eq!(sent(&sender.write(3_050)), [(1_000, false); 3]);
    assert_eq!(sent(&sender.ack(2_266, &[])), [(50, false)], "an acknowledgement lets it go, but it is no end");
    sender.ack(3_316, &[]);
    sender.connection.set_more(&sender.config, true);
    assert_eq!(sent(&sender.write(20)), []);
    let (waited, emits) = sender.time_out().unwrap();
    assert_eq!(sent(&emits), [(20, true)]);
    assert!((200..=400).contains(&waited), "{waited} ms");
}

/// With keepalive the timer runs already, for two hours.
#[test]
fn keepalive_does_not_stand_in_for_the_persist_timer() {
    for corked in [true, false] {
        let mut sender = Sender::new(if corked { 60_000 } else { 0 }, true);
        sender.config.keepalive_idle = 7_200_000;
        sender.connection.arm_keepalive(&context(sender.now, &sender.config, &mut sender.counters));
        if corked {
            sender.connection.set_cork(&sender.config, true);
        }
        assert_eq!(sent(&sender.write(40)), []);
        let (waited, emits) = sender.time_out().unwrap();
        assert_eq!(sent(&emits), [if corked { (40, true) } else { (0, false) }]);
        assert!((200..=1_000).contains(&waited), "{waited} ms");
    }
}

/// RFC 9293 section 3.7.4: Nagle's algorithm waits for more to gather, and
/// after a FIN there is none.
#[test]
fn nothing_small_waits_before_a_fin() {
    for cork in [false, true] {
        let mut sender = Sender::new(60_000, true);
        sender.connection.set_nagle(true);
        // A small one waits for small ones alone.
        assert_eq!(sent(&sender.write(1_040)), [(1_000, false), (40, true)]);
        if cork {
            sender.connection.set_cork(&sender.config, true);
        }
        assert_eq!(sent(&sender.write(40)), []);
        sender.connection.finish();
        let last = sender.poll(0);
        assert_eq!(sent(&last), [(40, true)]);
        assert!(last[0].flags.contains(Bits::FIN));
    }
}

/// RFC 9293 section 3.9.1.2: the end of each write is pushed, also where
/// another write stands behind it.
#[test]
fn the_end_of_each_write_is_pushed() {
    let mut sender = Sender::new(60_000, true);
    assert_eq!(sent(&sender.write(12_500)).iter().filter(|(_, push)| *push).count(), 0);
    // Beyond what the first chunk of the queue takes, so that it is its own.
    assert_eq!(sent(&sender.write(17_000)), []);
    let next: Vec<_> = (0..4).flat_map(|i| sender.ack(2_001 + 2_000 * i, &[])).collect();
    let pushed: Vec<_> = next.iter().filter(|emit| emit.flags.contains(Bits::PSH)).map(|emit| emit.seq.0).collect();
    assert_eq!(pushed, [12_001], "the first write ends at 12,501");
}

/// A peer whose window is small may have to hand on what it has before it can
/// open it further.
#[test]
fn each_half_of_the_largest_window_is_pushed() {
    let mut sender = Sender::new(8_000, true);
    let emits = sender.write(30_000);
    let ends = |emits: &[Emit]| {
        emits.iter().filter(|emit| emit.flags.contains(Bits::PSH)).map(|e| e.seq.0 + e.len).collect::<Vec<_>>()
    };
    assert_eq!((emits.len(), ends(&emits)), (8, vec![4_001, 8_001]));
    // A smaller window later is no other measure.
    sender.window = 4_000;
    let emits: Vec<_> = (0..4).flat_map(|i| sender.ack(6_001 + 2_000 * i, &[])).collect();
    assert_eq!(ends(&emits), [12_001, 16_001]);
}

/// A response that fits into the window is not cut into pushes, and takes no
/// memory for them.
#[test]
fn a_short_response_is_pushed_at_its_end_only() {
    let mut sender = Sender::new(60_000, true);
    let emits = sender.write(4_500);
    assert_eq!(sent(&emits), [(1_000, false), (1_000, false), (1_000, false), (1_000, false), (500, true)]);
    assert!(!sender.connection.has_cold());
}

/// Linux: `__tcp_transmit_skb` in net/ipv4/tcp_output.c.
#[test]
fn what_the_link_cuts_is_pushed() {
    let mut sender = Sender::new(60_000, true);
    sender.connection.send_bytes(&[7; 13_000]).unwrap();
    assert_eq!(sent(&sender.poll(4_000)), [(4_000, true), (4_000, true), (2_000, true)]);
}

/// RFC 9293 section 3.7.1, Linux's `TCP_MAXSEG`.
#[test]
fn segments_are_no_longer_than_asked_for_in_both_directions() {
    let (config, mut counters) = (Config::default(), Counters::default());
    let now = Time::from_millis(1_000);
    let mut cx = context(now, &config, &mut counters);
    let mut client = Connection::open(&mut cx, PATH, SeqNum(0));
    client.set_options(&config, Time::ZERO, SocketOptions { max_segment: Some(900), ..SocketOptions::default() });
    assert!(client.poll_opening(&mut cx, PATH).is_none(), "the short way does not ask");
    let syn = client.poll_segment(&mut cx, PATH, 0).unwrap();
    assert!(matches!(syn.options, EmitOptions::Syn(Offer { mss: 900, .. })));
    let options = TcpOptions { mss: Some(1_460), ..TcpOptions::default() };
    let flags = Bits::SYN | Bits::ACK;
    let (seq, ack) = (SeqNum(0), SeqNum(1));
    let header = TcpHeader { src_port: 1, dst_port: 2, seq, ack, flags, window: 60_000, urgent: 0, options };
    assert!(client.on_segment(&mut cx, PATH, &header, &[]).opened);
    assert_eq!((client.mss(), client.info().cwnd), (900, 9_000));

    let agreed = agree_on(&config, false, SeqNum(0), SeqNum(0), &options);
    let mut server = Connection::accept(&mut cx, PATH, &agreed, 60_000);
    server.inherit(&config, Time::ZERO, SocketOptions { max_segment: Some(20), ..SocketOptions::default() });
    assert_eq!(server.mss(), 88, "not less than the least");
}

/// A peer that asks for less than Linux's `TCP_MIN_MSS` agrees on that much, whatever is made of
/// it: a SYN queue and a cookie keep what was agreed. One of none at all is none given.
#[test]
fn no_handshake_agrees_on_less_than_the_least() {
    let config = Config::default();
    let agreed = |v6: bool, mss: Option<u16>| {
        let options = TcpOptions { mss, ..TcpOptions::default() };
        agree_on(&config, v6, SeqNum(0), SeqNum(0), &options).peer_mss
    };
    for v6 in [false, true] {
        for (mss, least) in [(1, 48), (47, 48), (48, 48), (49, 49), (1_460, 1_460), (u16::MAX, u16::MAX)] {
            assert_eq!(agreed(v6, Some(mss)), least);
        }
    }
    for (v6, default) in [(false, 536), (true, 1_220)] {
        assert_eq!([agreed(v6, None), agreed(v6, Some(0))], [default; 2]);
    }
}

/// What differs from the defaults takes no short way; taken back, it does.
#[test]
fn options_move_a_connection_off_the_short_ways() {
    let mut sender = Sender::new(60_000, true);
    let asked = SocketOptions { traffic_class: 0xb9, ..SocketOptions::default() };
    sender.connection.set_options(&sender.config, sender.now, asked);
    assert_eq!(sender.connection.traffic_class(), 0xb8, "without ECN's bits");
    sender.connection.send_bytes(b"answer").unwrap();
    let header = Established {
        src_port: 1,
        dst_port: 2,
        seq: SeqNum(1),
        ack: SeqNum(1),
        flags: Bits::ACK,
        window: 60_000,
        timestamps: None,
    };
    let mut cx = context(sender.now, &sender.config, &mut sender.counters);
    assert!(sender.connection.poll_light(&mut cx).is_none());
    assert!(sender.connection.on_light(&mut cx, || 0, &header, b"question").is_none());
    sender.connection.set_options(&sender.config, sender.now, SocketOptions::default());
    let mut cx = context(sender.now, &sender.config, &mut sender.counters);
    assert!(sender.connection.on_light(&mut cx, || 0, &header, b"question").is_some());
    assert!(sender.connection.poll_light(&mut cx).is_some());
}

/// RFC 5482: the user timeout is a connection's own.
#[test]
fn a_connection_has_a_user_timeout_of_its_own() {
    let give_up = |options| {
        let mut sender = Sender::new(60_000, true);
        sender.connection.set_options(&sender.config, sender.now, options);
        sender.write(100);
        let start = sender.now;
        let why = (0..100).find_map(|_| sender.time_out().err());
        (why, sender.now.since(start).as_secs())
    };
    let (why, after) = give_up(SocketOptions { user_timeout: Some(3_000), ..SocketOptions::default() });
    assert_eq!(why, Some(Closed::TimedOut));
    assert!((3..=6).contains(&after), "{after} s");
    assert!(give_up(SocketOptions::default()).1 > 600);
}

/// RFC 1122 section 4.2.3.9, RFC 5461 section 2.
#[test]
fn what_the_network_said_is_the_reason_unless_the_peer_answers_after_it() {
    for answers in [false, true] {
        let mut sender = Sender::new(60_000, true);
        sender.write(100);
        assert!(!sender.connection.on_unreachable(&sender.config, Unreachable::Network), "it outlives that");
        if answers {
            sender.ack(101, &[]);
            sender.write(100);
        }
        let why = (0..100).find_map(|_| sender.time_out().err());
        assert_eq!(why, Some(if answers { Closed::TimedOut } else { Closed::Unreachable(Unreachable::Network) }));
    }
    let (config, mut counters) = (Config::default(), Counters::default());
    let mut opening = Connection::open(&mut context(Time::from_millis(1), &config, &mut counters), PATH, SeqNum(0));
    assert!(opening.on_unreachable(&config, Unreachable::Port));
}

/// Linux's names: include/uapi/linux/tcp.h.
#[test]
fn info_tells_what_is_sacked_and_lost_and_the_state_of_recovery() {
    let state = |sender: &Sender| {
        let info = sender.connection.info();
        (info.congestion_state, info.sacked, info.lost, info.retrans)
    };
    let mut sender = Sender::new(60_000, true);
    sender.write(10_000);
    assert_eq!(state(&sender), (CongestionState::Open, 0, 0, 0));
    sender.now = Time::from_millis(1_100);
    sender.ack(1, &[(1_001, 2_001)]);
    assert_eq!(state(&sender), (CongestionState::Disorder, 1, 0, 0));
    sender.now = Time::from_millis(1_101);
    sender.ack(1, &[(1_001, 4_001)]);
    assert_eq!(state(&sender), (CongestionState::Recovery, 3, 1, 1));
    assert_eq!(sender.connection.info().reordering, 3);
    while sender.connection.info().backoff == 0 {
        sender.time_out().unwrap();
    }
    let (recovery, sacked, lost, _) = state(&sender);
    assert_eq!((recovery, sacked, lost), (CongestionState::Loss, 3, 7));
}

/// A segment that five others overtook.
#[test]
fn info_tells_how_far_segments_were_overtaken() {
    let mut sender = Sender::new(60_000, true);
    sender.write(6_000);
    sender.now = Time::from_millis(1_100);
    sender.ack(1, &[(5_001, 6_001)]);
    sender.ack(1, &[(1_001, 2_001), (5_001, 6_001)]);
    assert_eq!(sender.connection.info().reordering, 5);
    // RFC 8985 section 6.2 step 3: that is not forgotten with the flight.
    sender.ack(6_001, &[]);
    assert_eq!((sender.connection.in_flight(), sender.connection.info().reordering), (0, 6));
}

/// Without SACK a duplicate acknowledgement stands for a segment.
#[test]
fn info_counts_duplicates_without_sack() {
    let mut sender = Sender::new(60_000, false);
    sender.write(10_000);
    sender.now = Time::from_millis(1_100);
    sender.ack(1, &[]);
    let info = sender.connection.info();
    assert_eq!((info.congestion_state, info.sacked, info.lost), (CongestionState::Disorder, 1, 0));
}
