use crate::agreed::Agreed;
use crate::config::Config;
use crate::connection::Connection;
use crate::context::{Context, Path};
use crate::emit::Emit;
use crate::{Counters, Info};
use wire::Time;
use wire::tcp::{Flags as Bits, SackBlocks, SeqNum, TcpHeader, TcpOptions, Timestamps};

const PATH: Path = Path { mtu: 1_500, v6: false };
const MSS: u32 = 1_000;

/// A sender with a peer that says what the test says.
struct Sender {
    connection: Connection,
    config: Config,
    counters: Counters,
    now: Time,
}

impl Sender {
    /// Ten segments in flight of `queued`, with a round trip of 100 ms.
    fn new(sack: bool, timestamps: bool, queued: u32) -> Self {
        let config = Config { pace_start: false, ..Config::default() };
        let mut counters = Counters::default();
        let now = Time::from_millis(1_000);
        let peer_mss = if timestamps { 1_012 } else { 1_000 };
        let agreed =
            Agreed { sack, timestamps: timestamps.then_some(1), ..Agreed::bare(SeqNum(0), SeqNum(0), peer_mss) };
        let mut cx = context(now, &config, &mut counters);
        let mut connection = Connection::accept(&mut cx, PATH, &agreed, 65_535);
        connection.on_handshake_time(100);
        connection.send_bytes(&vec![7; queued as usize]).expect("there is room");
        let mut sender = Self { connection, config, counters, now };
        assert_eq!(sender.poll().len(), 10);
        sender
    }

    fn poll(&mut self) -> Vec<Emit> {
        let mut cx = context(self.now, &self.config, &mut self.counters);
        core::iter::from_fn(|| self.connection.poll_segment(&mut cx, PATH, 0)).collect()
    }

    /// An acknowledgement that echoes what was sent at `echo` milliseconds.
    fn ack(&mut self, ack: u32, echo: u32, blocks: &[(u32, u32)]) -> Vec<Emit> {
        let mut sack = SackBlocks::EMPTY;
        for &(start, end) in blocks {
            sack.push(SeqNum(start), SeqNum(end));
        }
        let timestamps = self.connection.info().timestamps.then_some(Timestamps { value: 1, echo });
        let header = TcpHeader {
            src_port: 1,
            dst_port: 2,
            seq: SeqNum(1),
            ack: SeqNum(ack),
            flags: Bits::ACK,
            window: 65_535,
            urgent: 0,
            options: TcpOptions { timestamps, sack, ..TcpOptions::default() },
        };
        let mut cx = context(self.now, &self.config, &mut self.counters);
        self.connection.on_segment(&mut cx, PATH, &header, &[]);
        self.poll()
    }

    fn at(&mut self, ms: u64) {
        self.now = Time::from_millis(ms);
    }

    /// The timer runs out.
    fn time_out(&mut self) -> Vec<Emit> {
        let due = self.connection.timer().expect("a timer runs");
        self.at(u64::from(due));
        let mut cx = context(self.now, &self.config, &mut self.counters);
        assert_eq!(self.connection.on_timer(&mut cx), None);
        self.poll()
    }

    fn info(&self) -> Info {
        self.connection.info()
    }
}

fn context<'a>(now: Time, config: &'a Config, counters: &'a mut Counters) -> Context<'a> {
    Context { now, now_ms: now.as_millis() as u32, ts_offset: 0, receive_full: false, config, counters }
}

fn starts(sent: &[Emit]) -> Vec<u32> {
    sent.iter().map(|emit| emit.seq.0).collect()
}

/// Eifel (RFC 3522 section 3.2, RFC 4015 section 3.2): the head was late. What
/// acknowledges it echoes a timestamp from before it was sent again.
#[test]
fn late_head_is_told_by_its_timestamp() {
    let mut sender = Sender::new(true, true, 20_000);
    let before = sender.info();
    sender.at(1_100);
    assert_eq!(starts(&sender.ack(1, 1_000, &[(1_001, 5_001)])), [1, 10_001]);
    assert!(sender.info().recovering && sender.info().ssthresh < before.cwnd);
    sender.at(1_110);
    sender.ack(5_001, 1_000, &[]);
    let after = sender.info();
    assert!(!after.recovering);
    assert_eq!((after.ssthresh, after.cwnd >= before.cwnd), (before.ssthresh, true));
    assert_eq!(sender.counters.recoveries_undone, 1);
    // From now on reordering is allowed for: three segments are no proof.
    let sent = starts(&sender.ack(5_001, 1_000, &[(6_001, 10_001)]));
    assert!(!sent.is_empty() && sent.iter().all(|&seq| seq > 10_001), "{sent:?}");
    assert!(!sender.info().recovering);
}

/// The echo of the retransmission itself: the loss was one.
#[test]
fn a_loss_is_not_taken_back() {
    let mut sender = Sender::new(true, true, 10_000);
    sender.at(1_100);
    assert_eq!(starts(&sender.ack(1, 1_000, &[(1_001, 10_001)])), [1]);
    sender.at(1_200);
    sender.ack(10_001, 1_100, &[]);
    assert_eq!(sender.counters.recoveries_undone, 0);
    let info = sender.info();
    assert!((info.ssthresh..info.ssthresh + MSS).contains(&info.cwnd) && info.ssthresh == 7 * MSS);
}

/// RFC 3708 section 3: every retransmission arrived twice.
#[test]
fn dsack_takes_back_what_timestamps_cannot() {
    let mut sender = Sender::new(true, false, 10_000);
    let before = sender.info();
    sender.at(1_100);
    assert_eq!(starts(&sender.ack(1, 0, &[(1_001, 10_001)])), [1]);
    sender.at(1_110);
    sender.ack(10_001, 0, &[]);
    assert!(sender.info().cwnd < before.cwnd);
    sender.at(1_200);
    sender.ack(10_001, 0, &[(1, 1_001)]);
    assert_eq!(sender.info().cwnd, before.cwnd);
    assert_eq!((sender.counters.recoveries_undone, sender.counters.dsacks_in), (1, 1));
}

/// Whoever knows no more than addresses and ports can have a peer report as received twice what
/// lies wherever he likes below its window: it answers a segment there, which names us as its
/// sender, so (RFC 2883 section 4). Nothing that was not sent again is taken for sent again in
/// vain, and recoveries of losses are not taken back for it (`tcp_dsack_seen` and `tcp_check_dsack`
/// in Linux's net/ipv4/tcp_input.c).
#[test]
fn what_was_not_sent_again_did_not_come_twice() {
    let far = |back: u32| 0_u32.wrapping_sub(back);
    let reports = [
        // Anywhere, of a segment, and of as much as there are numbers.
        (far(1_000_000), far(999_000)),
        (far(1 << 30), far(1_000)),
        (far(1 << 30), 4_001),
        // What was acknowledged before anything was lost.
        (1_001, 2_001),
    ];
    for report in reports {
        let mut sender = Sender::new(true, false, 10_000);
        sender.at(1_100);
        sender.ack(4_001, 0, &[]);
        assert_eq!(starts(&sender.ack(4_001, 0, &[(5_001, 10_001)])), [4_001]);
        let before = sender.info();
        for _ in 0..3 {
            sender.ack(4_001, 0, &[report, (5_001, 10_001)]);
        }
        assert_eq!((sender.counters.dsacks_in, sender.counters.recoveries_undone), (3, 0), "{report:?}");
        assert!(sender.info().recovering && sender.info().ssthresh == before.ssthresh, "{report:?}");
        // What was sent again and came twice is still known to have.
        sender.ack(10_001, 0, &[]);
        sender.ack(10_001, 0, &[(4_001, 5_001)]);
        assert_eq!(sender.counters.recoveries_undone, 1, "{report:?}");
    }
}

/// Nor does loss detection become more patient for it (RFC 8985 section 6.2 step 4), whatever
/// is reported: a network that doubles segments tells nothing of their order.
#[test]
fn patience_is_learned_from_what_was_sent_again_alone() {
    let widened = |sender: &Sender| sender.connection.cold.as_ref().map_or(0, |cold| cold.rack.widened);
    let mut sender = Sender::new(true, false, 10_000);
    sender.at(1_100);
    sender.ack(4_001, 0, &[]);
    for (start, end) in [(0_u32.wrapping_sub(1_000_000), 0_u32.wrapping_sub(999_000)), (1_001, 2_001)] {
        sender.ack(4_001, 0, &[(start, end)]);
        assert_eq!(widened(&sender), 0);
    }
    assert_eq!(starts(&sender.ack(4_001, 0, &[(5_001, 10_001)])), [4_001]);
    sender.ack(4_001, 0, &[(0_u32.wrapping_sub(1_000_000), 0_u32.wrapping_sub(999_000)), (5_001, 10_001)]);
    assert_eq!(widened(&sender), 0, "one was sent again, and it was another");
    sender.ack(10_001, 0, &[]);
    sender.ack(10_001, 0, &[(4_001, 5_001)]);
    assert_eq!(widened(&sender), 1);
}

/// F-RTO (RFC 5682 section 3.1): after the timeout something arrives that was
/// sent only once.
#[test]
fn spurious_timeout() {
    let mut sender = Sender::new(true, false, 10_000);
    let before = sender.info();
    // The probe, then the timeout.
    assert_eq!(starts(&sender.time_out()), [9_001]);
    assert_eq!(starts(&sender.time_out()), [1]);
    assert_eq!((sender.info().backoff, sender.counters.timeouts), (1, 1));
    // Sooner than an answer to what was sent again can come.
    sender.now = sender.now + core::time::Duration::from_millis(10);
    sender.ack(3_001, 0, &[]);
    let after = sender.info();
    assert_eq!((after.backoff, after.recovering, after.cwnd), (0, false, before.cwnd));
    assert_eq!(sender.counters.recoveries_undone, 1);
}

/// RFC 8985 section 7.4.2: a probe that filled a hole was a loss, which
/// congestion control hears of; one that arrived twice was not.
#[test]
fn what_a_probe_repaired_counts() {
    for lost in [true, false] {
        let mut sender = Sender::new(true, false, 11_000);
        let before = sender.info();
        sender.at(1_100);
        assert_eq!(starts(&sender.ack(10_001, 0, &[])), [10_001]);
        assert_eq!(starts(&sender.time_out()), [10_001]);
        assert_eq!((sender.counters.loss_probes, sender.counters.timeouts), (1, 0));
        let twice: &[(u32, u32)] = if lost { &[] } else { &[(10_001, 11_001)] };
        sender.ack(11_001, 0, twice);
        sender.connection.send_bytes(&[1; 500]).expect("there is room");
        sender.poll();
        sender.ack(11_501, 0, &[]);
        assert_eq!(sender.counters.loss_probe_recoveries, u64::from(lost));
        assert_eq!(sender.info().ssthresh < before.cwnd, lost);
    }
}

/// RFC 6675 section 5: the scoreboard learns of blocks with any acknowledgement, one that
/// another overtook as well; of a block below SND.UNA by now it learns nothing, and no block
/// is taken for a report of what came twice that is none.
#[test]
fn an_overtaken_acknowledgement_tells_what_arrived() {
    let mut sender = Sender::new(true, true, 10_000);
    sender.at(1_100);
    assert!(sender.ack(2_001, 1_000, &[]).is_empty());
    assert_eq!(starts(&sender.ack(1_001, 1_000, &[(1_501, 2_001), (3_001, 8_001)])), [2_001]);
    assert_eq!((sender.info().recovering, sender.counters.dsacks_in), (true, 0));
    // What it tells twice is no news.
    assert!(sender.ack(1_001, 1_000, &[(3_001, 8_001)]).is_empty());
    // One that an attacker made up, far in the past, tells nothing.
    let mut blind = Sender::new(true, true, 10_000);
    blind.at(1_100);
    blind.ack(2_001, 1_000, &[]);
    blind.ack(0_u32.wrapping_sub(70_000), 1_000, &[(3_001, 8_001)]);
    assert_eq!((blind.info().recovering, blind.counters.bad_ack), (false, 1));
    // A report of a duplicate is one, however late it comes.
    let mut late = Sender::new(true, true, 10_000);
    late.at(1_100);
    late.ack(4_001, 1_000, &[]);
    late.ack(3_001, 1_000, &[(1_001, 2_001)]);
    assert_eq!(late.counters.dsacks_in, 1);
}

/// RFC 8985 section 7.2: twice the smoothed round trip after the last new
/// data; with one segment in flight as long as its acknowledgement may be
/// delayed, but no longer than the retransmission timer.
#[test]
fn when_a_probe_is_sent() {
    let sender = Sender::new(true, false, 10_000);
    assert_eq!(sender.connection.timer(), Some(1_000 + 2 * 100));
    let mut single = Sender::new(true, false, 11_000);
    single.at(1_100);
    single.ack(10_001, 0, &[]);
    let rto = single.connection.rto(&single.config);
    assert_eq!(single.connection.timer(), Some(1_100 + rto));
    let without = Sender::new(false, false, 10_000);
    assert_eq!(without.connection.timer(), Some(1_000 + without.connection.rto(&without.config)));
}

/// RFC 3042: without SACK two duplicates let a new segment go each, the third
/// the lost one.
#[test]
fn limited_transmit() {
    let mut sender = Sender::new(false, false, 20_000);
    sender.at(1_100);
    assert_eq!(starts(&sender.ack(1, 0, &[])), [10_001]);
    assert_eq!(starts(&sender.ack(1, 0, &[])), [11_001]);
    assert_eq!(starts(&sender.ack(1, 0, &[])), [1]);
}

/// Karn's algorithm: a probe's acknowledgement is no round trip.
#[test]
fn a_probe_gives_no_round_trip() {
    let mut sender = Sender::new(true, false, 11_000);
    sender.at(1_100);
    sender.ack(10_001, 0, &[]);
    let before = sender.info().srtt_us;
    sender.time_out();
    sender.ack(11_001, 0, &[]);
    assert_eq!(sender.info().srtt_us, before);
}

/// Acknowledges two segments every 100 ms, so that the round trip grows with
/// what is in flight. Returns the window at the end, in segments.
fn window_behind_a_queue(sack: bool, timestamps: bool) -> u32 {
    let mut sender = Sender::new(sack, timestamps, 400_000);
    let mut left: Vec<u32> = vec![1_000; 10];
    for pair in 1..=60 {
        let now = 1_000 + 100 * pair;
        sender.at(u64::from(now));
        let echo = left[2 * (pair as usize - 1)];
        let sent = sender.ack(1 + 2 * MSS * pair, echo, &[]);
        left.extend(sent.iter().map(|_| now));
    }
    assert_eq!(sender.counters.timeouts, 0);
    sender.info().cwnd / MSS
}

/// HyStart++ wants eight samples in a round trip (RFC 9406 section 4.2), and
/// gets them whether or not the peer knows timestamps or SACK: every segment
/// is timed.
#[test]
fn slow_start_ends_without_timestamps_as_with_them() {
    let with = window_behind_a_queue(true, true);
    assert!(with < 70, "{with} segments");
    for sack in [true, false] {
        let without = window_behind_a_queue(sack, false);
        assert!(without.abs_diff(with) <= 3, "{without} segments without timestamps, {with} with them");
    }
}

/// Karn's algorithm (RFC 6298 section 3): of what was sent twice no round trip
/// is taken, of what was sent once it is, even in recovery.
#[test]
fn what_was_sent_once_is_timed_in_recovery() {
    let mut sender = Sender::new(true, false, 40_000);
    for pair in 1..=5 {
        sender.at(1_100);
        sender.ack(1 + 2 * MSS * pair, 0, &[]);
    }
    // Twenty left at 1,100 ms; the first of them was lost.
    sender.at(1_200);
    assert_eq!(starts(&sender.ack(10_001, 0, &[(11_001, 14_001)]))[0], 10_001);
    let before = sender.info().srtt_us;
    assert!(before.abs_diff(100_000) < 100, "{before} µs");
    sender.at(1_900);
    sender.ack(10_001, 0, &[(11_001, 15_001)]);
    let with = sender.info().srtt_us;
    assert_eq!(with, before + (800_000 - before) / 8, "a SACKed first transmission");
    sender.at(2_000);
    sender.ack(15_001, 0, &[]);
    assert_eq!(sender.info().srtt_us, with, "the retransmission");
}

/// RFC 8985 sections 7.2 and 7.3: a flight that leaves in one piece, as a link
/// that segments takes it, is probed for as one that leaves in segments, and
/// the probe is its last segment.
#[test]
fn a_flight_in_one_piece_is_probed() {
    let mut sender = Sender::new(true, false, 10_000);
    sender.at(1_100);
    assert!(sender.ack(10_001, 0, &[]).is_empty());
    sender.connection.send_bytes(&[7; 5_500]).expect("there is room");
    let mut cx = context(sender.now, &sender.config, &mut sender.counters);
    let emit = sender.connection.poll_segment(&mut cx, PATH, 60_000).expect("it may leave");
    assert_eq!((emit.seq.0, emit.len), (10_001, 5_500));
    assert_eq!(sender.connection.timer(), Some(1_100 + 2 * 100));
    let probe = sender.time_out();
    assert_eq!((starts(&probe), probe[0].len), (vec![15_001], 500));
    assert_eq!((sender.counters.loss_probes, sender.counters.timeouts), (1, 0));
}

/// RFC 7661 section 4.3: once the application is what limits, a window that it
/// was the limit of before does not grow any further, though something is
/// always in flight.
#[test]
fn growth_ends_with_the_need() {
    let mut sender = Sender::new(true, false, 30_000);
    let mut acked = 1;
    // The rest leaves as the window grows; four segments stay in flight.
    for pair in 1..=13 {
        sender.at(1_100 + pair);
        acked += 2 * MSS;
        sender.ack(acked, 0, &[]);
    }
    let full = sender.info().cwnd;
    assert_eq!((sender.info().in_flight, full > 2 * 4 * MSS), (4 * MSS, true));
    for round in 1..=60 {
        // Two segments each half of a round trip.
        sender.at(1_150 + 50 * round);
        sender.connection.send_bytes(&[7; 2 * MSS as usize]).expect("there is room");
        assert_eq!(sender.poll().len(), 2);
        acked += 2 * MSS;
        sender.ack(acked, 0, &[]);
        assert_eq!(sender.info().in_flight, 4 * MSS);
    }
    let (now, round) = (sender.info().cwnd, 6 * MSS);
    assert!(now <= full + round, "{now}, and was {full}");
}

/// RFC 8985 section 6.2 step 2, with RFC 7323 section 4.3: what is SACKed out of
/// order has an acknowledgement that echoes an older segment's timestamp. It was
/// sent again all the same, and shows that what was sent again before it is lost.
#[test]
fn a_sacked_retransmission_shows_one_before_it_lost() {
    let mut sender = Sender::new(true, true, 30_000);
    sender.at(1_100);
    // The first two are lost, and are sent again.
    let again = starts(&sender.ack(1, 1_000, &[(2_001, 10_001)]));
    assert_eq!(again.first(), Some(&1));
    sender.at(1_105);
    let more = starts(&sender.ack(1, 1_000, &[(2_001, 11_001)]));
    assert!(again.contains(&1_001) || more.contains(&1_001), "{again:?} {more:?}");
    // The second one's arrives, the first one's does not.
    sender.at(1_210);
    let sent = starts(&sender.ack(1, 1_000, &[(1_001, 11_001)]));
    assert!(sent.contains(&1), "{sent:?}");
    assert_eq!(sender.counters.timeouts, 0);
}

/// What one connection found of reordering, another to the same peer begins
/// with: three segments are no proof, and the window is as wide.
#[test]
fn another_connection_expects_the_reordering_that_one_found() {
    let mut first = Sender::new(true, true, 30_000);
    assert_eq!(first.connection.take_reordering(), None);
    first.at(1_100);
    first.ack(1, 1_000, &[(1_001, 3_001)]);
    first.at(1_105);
    // The head was overtaken by two.
    first.ack(3_001, 1_000, &[]);
    let found = first.connection.take_reordering();
    assert_eq!((found, first.connection.take_reordering()), (Some(0), None));
    let sent = |expects: Option<u8>| {
        let mut other = Sender::new(true, true, 30_000);
        if let Some(widened) = expects {
            other.connection.expect_reordering(&other.config, widened);
        }
        other.at(1_100);
        other.ack(1, 1_000, &[(1_001, 5_001)]);
        assert_eq!(other.connection.take_reordering(), None, "it is no news");
        other.info().recovering
    };
    assert_eq!((sent(None), sent(found)), (true, false));
}

/// RFC 8985 section 6.2 step 4: what came twice is told a round trip after it was
/// sent again, when something else may have been since. It widens the window all
/// the same.
#[test]
fn what_came_twice_is_believed_after_another_retransmission() {
    let mut sender = Sender::new(true, true, 40_000);
    let widened = |sender: &Sender| sender.connection.cold.as_ref().map_or(0, |cold| cold.rack.widened);
    sender.at(1_100);
    assert_eq!(starts(&sender.ack(1, 1_000, &[(1_001, 5_001)])).first(), Some(&1));
    // It was late.
    sender.at(1_105);
    sender.ack(5_001, 1_000, &[]);
    // And so is another, which is sent again later, with the window that there is by then.
    sender.at(1_110);
    sender.ack(5_001, 1_000, &[(6_001, 10_001)]);
    sender.at(1_180);
    let again = starts(&sender.time_out());
    assert!(again.contains(&5_001), "{again:?}");
    assert_eq!(widened(&sender), 0);
    sender.ack(10_001, 1_000, &[(1, 1_001)]);
    assert_eq!(widened(&sender), 1);
}

/// RFC 9937 section 6: RecoverFS is what was outstanding before the acknowledgement that
/// begins recovery, though that one covers much that was SACKed before: less is sent than
/// arrives.
#[test]
fn a_recovery_sends_less_than_arrives() {
    let mut sender = Sender::new(true, true, 60_000);
    sender.connection.expect_reordering(&sender.config, 0);
    sender.at(1_100);
    assert_eq!(sender.ack(1, 1_000, &[(1_001, 10_001)]).len(), 9);
    // The head was late: the window is as large as what arrived by then lets it be.
    sender.at(1_110);
    sender.ack(10_001, 1_000, &[]);
    let flight = sender.info().in_flight / MSS;
    assert!(flight >= 17, "{flight}");
    // Of the nine one is late, and one is lost.
    sender.at(1_200);
    assert_eq!(sender.ack(10_001, 1_010, &[(11_001, 17_001), (18_001, 19_001)]).len(), 7);
    sender.at(1_230);
    assert_eq!(starts(&sender.ack(17_001, 1_100, &[(18_001, 19_001)])), [17_001]);
    let ssthresh = sender.info().ssthresh / MSS;
    let mut sent = 1;
    for segment in 1..=8 {
        sender.at(1_310);
        sent += sender.ack(17_001, 1_100, &[(18_001, 19_001 + 1_000 * segment)]).len() as u32;
    }
    // With what the first brought that is nine.
    assert_eq!(sent, 9 * ssthresh / flight, "{ssthresh} of {flight}");
}

/// What waits for the next keys has no record: the probe is what was sent last, a key update that
/// nobody has heard of, without which these keys never come.
#[test]
fn a_probe_before_new_keys_is_what_was_sent_last() {
    let mut sender = Sender::new(true, true, 10_000);
    sender.at(1_100);
    sender.ack(10_001, 1_000, &[]);
    assert!(sender.connection.secure((22, 16_384), 100));
    sender.connection.say(rope::Message::KeyUpdate);
    sender.connection.wait_for_keys();
    let update = sender.poll();
    assert_eq!((starts(&update), update[0].len), (vec![10_001], 27));
    sender.connection.send_bytes(&[7; 15]).expect("there is room");
    assert_eq!(starts(&sender.poll()), [0; 0]);
    let probe = sender.time_out();
    assert_eq!((starts(&probe), probe[0].len, sender.counters.loss_probes), (vec![10_001], 27, 1));
    let again = sender.time_out();
    assert_eq!((starts(&again), again[0].len, sender.counters.timeouts), (vec![10_001], 27, 1));
}
