use super::*;

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn seq(n: u32) -> SeqNum {
    SeqNum(n)
}

/// Ten segments of ten bytes, one a millisecond from 100 ms on.
fn ten() -> Rack {
    let mut rack = Rack::default();
    for i in 0..10 {
        rack.on_sent(seq(10 * (i + 1)), ms(100 + u64::from(i)), SendState::default());
    }
    rack
}

/// With the tens that the peer has got.
fn verdict_with(rack: &Rack, now: Time, dup_thresh: bool, got: &[u32]) -> Verdict {
    let missing = |start: SeqNum, end: SeqNum| (start.0..end.0).any(|byte| !got.contains(&(byte / 10)));
    let judge = rack.judge(now, dup_thresh, 20_000);
    judge.map_or(Verdict::default(), |judge| rack.verdict(&judge, seq(0), missing))
}

/// The fourth segment arrived.
fn verdict(rack: &Rack, now: Time, dup_thresh: bool) -> Verdict {
    verdict_with(rack, now, dup_thresh, &[3])
}

/// RFC 8985 section 6.2 step 5: what was sent before what arrived is lost
/// after a round trip and the window for reordering, a quarter of the least
/// round trip.
#[test]
fn loss_by_time() {
    let mut rack = ten();
    assert_eq!(verdict(&rack, ms(500), true), Verdict::default());
    rack.on_arrived(seq(40), ms(123), |_| true);
    // Of 100, 101 and 102 ms; the round trip is 20 ms.
    assert_eq!(verdict(&rack, ms(123), false).edge, None);
    assert_eq!(verdict(&rack, ms(123), false).wait, Some(Duration::from_millis(2)));
    assert_eq!(verdict(&rack, ms(126), false).edge, Some(seq(20)));
    assert_eq!(verdict(&rack, ms(127), false), Verdict { edge: Some(seq(30)), wait: None });
}

/// Section 6.2 step 4: with three segments above the hole, and no reordering
/// seen, there is no window; once seen, there is.
#[test]
fn no_window_without_reordering() {
    let mut rack = ten();
    rack.on_arrived(seq(40), ms(123), |_| true);
    assert_eq!(verdict(&rack, ms(123), true).edge, Some(seq(30)));
    rack.on_reordered();
    assert_eq!(verdict(&rack, ms(123), true).edge, None);
}

/// Section 6.2 step 4: each round with a DSACK widens the window by a quarter
/// of the least round trip, up to the smoothed one; sixteen recoveries
/// without bring it back.
#[test]
fn dsack_widens_the_window() {
    let mut rack = ten();
    rack.on_arrived(seq(40), ms(123), |_| true);
    rack.on_reordered();
    let wait = |rack: &Rack| verdict(rack, ms(123), false).wait.map(|wait| wait.as_millis());
    assert_eq!(wait(&rack), Some(2));
    rack.on_dsack(seq(100));
    assert_eq!(wait(&rack), Some(7));
    rack.on_dsack(seq(120));
    assert_eq!(wait(&rack), Some(7), "once a round");
    for round in 0..9 {
        rack.dsack_round = None;
        rack.on_dsack(seq(100 + round));
    }
    assert_eq!(wait(&rack), Some(17), "no longer than the smoothed round trip");
    for _ in 0..REO_WND_PERSIST {
        assert_eq!(wait(&rack), Some(17));
        rack.on_recovered();
    }
    assert_eq!(wait(&rack), Some(2));
}

/// Section 6.2 step 2: segments of one time left in the order of their
/// numbers.
#[test]
fn a_burst_is_in_order() {
    let mut rack = Rack::default();
    for end in [10, 20, 30, 40] {
        rack.on_sent(seq(end), ms(100), SendState::default());
    }
    assert_eq!(rack.sent.len(), 1);
    rack.on_arrived(seq(30), ms(120), |_| true);
    let lost = |rack: &Rack, got: &[u32]| verdict_with(rack, ms(120), true, got).edge;
    // The last byte is of what arrived.
    assert_eq!(lost(&rack, &[2]), Some(seq(29)));
    assert_eq!(lost(&rack, &[0, 1, 2]), None);
    rack.on_arrived(seq(40), ms(120), |_| true);
    assert_eq!(lost(&rack, &[2, 3]), Some(seq(39)));
}

/// Section 6.2 step 2: a retransmission that is acknowledged sooner than can
/// be, or whose timestamp is not the one echoed, tells nothing.
#[test]
fn ambiguous_acknowledgements_tell_nothing() {
    let mut rack = ten();
    rack.on_arrived(seq(100), ms(130), |_| true);
    let before = rack.newest;
    let again = Departure { at: ms(131), end: seq(10) };
    rack.on_arrived_again(again, ms(140), |_| true);
    assert_eq!(rack.newest, before);
    rack.on_arrived_again(again, ms(155), |_| false);
    assert_eq!(rack.newest, before);
    rack.on_arrived_again(again, ms(155), |_| true);
    assert_eq!(rack.newest, Some(again));
}

/// A probe gives the end of the queue a new time.
#[test]
fn a_probe_is_the_last_to_leave() {
    let mut rack = ten();
    rack.on_probe(seq(85), seq(100), ms(150));
    let ends: Vec<_> = rack.sent.iter().map(|sent| (sent.end.0, sent.at, sent.again)).collect();
    assert_eq!(ends[7..], [(80, ms(107), false), (85, ms(108), false), (100, ms(150), true)]);
    rack.on_arrived(seq(100), ms(170), |_| true);
    assert_eq!(verdict_with(&rack, ms(170), true, &[9]).edge, Some(seq(99)));
    let mut whole = ten();
    whole.on_probe(seq(0), seq(100), ms(150));
    assert_eq!(whole.sent.len(), 1);
}

/// When what left before anybody took notes did so is not known: it is no sample of the least
/// round trip, by which the window for reordering goes.
#[test]
fn a_guessed_departure_is_no_round_trip() {
    let mut rack = Rack::default();
    rack.assume(seq(20), ms(90), Duration::from_millis(40));
    let mut rack = Rack { sent: VecDeque::new(), ..rack };
    rack.begin(seq(0), seq(20), ms(130));
    rack.on_sent(seq(30), ms(130), SendState::default());
    rack.on_arrived(seq(20), ms(131), |_| true);
    assert_eq!(rack.min_rtt(), Duration::from_millis(40));
    rack.on_arrived(seq(30), ms(169), |_| true);
    assert_eq!(rack.min_rtt(), Duration::from_millis(39));
}

/// Section 6.3: what is younger than a round trip is not lost by the timer.
#[test]
fn the_timer_spares_the_young() {
    let mut rack = ten();
    rack.on_arrived(seq(10), ms(120), |_| true);
    assert_eq!(rack.verdict_of_timer(ms(128), 20_000), Some(seq(40)));
    assert_eq!(rack.verdict_of_timer(ms(110), 20_000), None);
}

/// The queue is bounded: what is too much shares the last time.
#[test]
fn bounded() {
    let mut rack = Rack::default();
    for i in 0..3 * MAX_SENT as u32 {
        rack.on_sent(seq(i + 1), ms(u64::from(i)), SendState::default());
    }
    assert_eq!(rack.sent.len(), MAX_SENT);
    assert_eq!(rack.sent.back().map(|sent| sent.end), Some(seq(3 * MAX_SENT as u32)));
    rack.on_acked(seq(3 * MAX_SENT as u32));
    assert!(rack.sent.is_empty());
}

/// The least round trip is forgotten after one to two windows.
#[test]
fn the_least_round_trip_is_of_late() {
    let mut min = MinRtt::default();
    let at = |windows: f64| Time::ZERO + MIN_RTT_WINDOW.mul_f64(windows);
    min.on_sample(Duration::from_millis(5), at(0.1));
    min.on_sample(Duration::from_millis(9), at(1.2));
    assert_eq!(min.get(), Duration::from_millis(5));
    min.on_sample(Duration::from_millis(8), at(2.5));
    assert_eq!(min.get(), Duration::from_millis(8));
}
