use super::*;
use core::time::Duration;
use random::SplitMix64;
use wire::Time;

const MSS: u32 = 1_460;

/// Draws numbers of bytes and the like.
struct Rng(SplitMix64);

impl Rng {
    fn below(&mut self, bound: u32) -> u32 {
        self.0.below(bound as usize) as u32
    }
}

/// A sender whose window is always in use, over a path with a fixed RTT.
struct Sender {
    control: Controller,
    now: Time,
    rtt: Duration,
    acked_to: u64,
    /// A window's ACKs come in this part of a round trip.
    part: u32,
    paced: bool,
    /// ACKs on the way back come together, once in so long.
    held: Duration,
    /// Segments are known to overtake each other.
    reordered: bool,
}

impl Sender {
    fn new(algorithm: Algorithm, cwnd: u32, rtt_ms: u64) -> Self {
        Self {
            control: Controller::new(algorithm, MSS, cwnd),
            now: Time::from_millis(1),
            rtt: Duration::from_millis(rtt_ms),
            acked_to: u64::from(u32::MAX) - 10_000,
            part: 1,
            paced: false,
            held: Duration::ZERO,
            reordered: false,
        }
    }

    fn cwnd(&self) -> u32 {
        self.control.window()
    }

    fn ack(&mut self, acked: u32, limited: bool) {
        self.acked_to += u64::from(acked);
        let cwnd = self.cwnd();
        self.control.on_ack(&Delivery {
            now: self.now,
            acked,
            delivered: acked,
            in_flight: if limited { cwnd } else { cwnd / 4 },
            rtt_us: Some(self.rtt.as_micros() as u32),
            srtt_us: self.rtt.as_micros() as u32,
            acked_to: self.acked_to,
            sent_to: self.acked_to + u64::from(cwnd),
            paced: self.paced,
            reordered: self.reordered,
            window_limited: limited,
        });
    }

    /// One window, acknowledged evenly over one RTT or a part of it.
    fn round(&mut self) {
        let start = self.now;
        let acks = (self.cwnd() / MSS).max(1);
        for i in 1..=acks {
            self.now = start + self.rtt * i / acks / self.part;
            self.ack(MSS, true);
        }
        self.now = start + self.rtt;
    }

    /// Slow start over a path of so many bytes per second, by a window that left at
    /// once, and whose ACKs come each `first` after the other. All is paced as is asked
    /// for. Returns the most that stood in the path's queue, in bytes.
    fn start(&mut self, path: u64, first: Duration, rounds: usize) -> u64 {
        let spans = |rate: u64| Duration::from_nanos(u64::from(MSS) * 1_000_000_000 / rate);
        let base = self.rtt;
        let mut acks: Vec<(Time, Duration)> =
            (1..=self.cwnd() / MSS).map(|index| (self.now + base + first * index, base)).collect();
        let (mut leaves, mut passes, mut longest) = (self.now, self.now, Duration::ZERO);
        for _ in 0..rounds {
            let mut next = Vec::new();
            for (due, rtt) in acks {
                let held = due.as_nanos().next_multiple_of(self.held.as_nanos().max(1) as u64) - due.as_nanos();
                let held = Duration::from_nanos(held);
                let at = due + held;
                (self.now, self.rtt) = (at, rtt + held);
                let before = self.cwnd();
                self.ack(MSS, true);
                for _ in 0..1 + (self.cwnd() - before) / MSS {
                    let rate = self.control.pacing_rate(base.as_micros() as u32, false);
                    leaves = at.max(leaves + rate.map_or(Duration::ZERO, spans));
                    longest = longest.max(passes.since(leaves));
                    passes = leaves.max(passes) + spans(path);
                    next.push((passes + base, passes.since(leaves) + base));
                }
            }
            acks = next;
        }
        longest.as_nanos() as u64 * path / 1_000_000_000
    }

    fn recover(&mut self) {
        self.control.on_congestion(Signal::Loss, self.cwnd());
        self.control.on_recovery_end();
    }

    /// Whether nothing has ended it yet.
    fn in_first_slow_start(&self) -> bool {
        self.control.ssthresh() == u32::MAX
    }
}

fn segments(count: u32) -> u32 {
    count * MSS
}

/// RFC 6928 section 2.
#[test]
fn initial_windows() {
    for (mss, window) in [(1_460, 14_600), (1_220, 12_200), (536, 5_360), (2_190, 14_600), (8_960, 17_920)] {
        assert_eq!(initial_window(mss), window);
    }
}

/// RFC 9438 section 4.2: the curve W(t) = 0.4 (t - K)³ + W_max, with W_max =
/// 1,000 segments and so K = cbrt(750) = 9.086 s.
#[test]
fn cubic_follows_its_curve() {
    let mut sender = Sender::new(Algorithm::Cubic, segments(1_000), 100);
    sender.recover();
    assert_eq!(sender.cwnd(), segments(700));
    let start = sender.now;
    let k = 750f64.cbrt();
    let mut seen_plateau = false;
    while sender.now.since(start) < Duration::from_secs(14) {
        sender.round();
        let t = sender.now.since(start).as_secs_f64();
        let curve = 0.4 * (t - k).powi(3) + 1_000.0;
        let window = f64::from(sender.cwnd()) / f64::from(MSS);
        assert!((window - curve).abs() / curve < 0.01, "t {t}: {window}, not {curve}");
        seen_plateau |= (t - k).abs() < 0.5 && (window - 1_000.0).abs() < 2.0;
    }
    assert!(seen_plateau);
}

/// A large window grows by less than a byte for a small ACK: parts of bytes
/// add up.
#[test]
fn cubic_counts_parts_of_bytes() {
    let mut sender = Sender::new(Algorithm::Cubic, segments(20_000), 100);
    sender.recover();
    let start = sender.cwnd();
    // 6,000 segments below the plateau, K is cbrt(15,000) = 24.7 s, and the
    // slope there 3 C K² = 730 segments a second.
    for _ in 0..1_000 {
        for _ in 0..14 {
            sender.ack(100, true);
        }
        sender.now = sender.now + Duration::from_micros(10);
    }
    let grown = f64::from(sender.cwnd() - start) / f64::from(MSS);
    // 959 segments of 14,000, of what one round trip is to bring: 73.
    assert!((4.5..5.5).contains(&grown), "{grown}");
}

/// RFC 9438 section 4.3: on a short path CUBIC grows as Reno would, by 9/17 of
/// a segment per window until the window before the loss, then by one.
#[test]
fn cubic_is_friendly_to_reno() {
    let mut sender = Sender::new(Algorithm::Cubic, segments(20), 5);
    sender.recover();
    assert_eq!(sender.cwnd(), segments(14));
    for _ in 0..10 {
        sender.round();
    }
    // Acknowledged in whole segments, a window takes a little more than a
    // round, hence the margin.
    let grown = f64::from(sender.cwnd() - segments(14)) / f64::from(MSS);
    assert!((4.6..=5.4).contains(&grown), "{grown}");
    while sender.cwnd() < segments(20) {
        sender.round();
    }
    let before = sender.cwnd();
    for _ in 0..10 {
        sender.round();
    }
    let grown = f64::from(sender.cwnd() - before) / f64::from(MSS);
    assert!((9.0..=10.5).contains(&grown), "{grown}");
}

/// RFC 9438 sections 4.1 to 4.5 in rational numbers, against the integers.
#[test]
fn cubic_agrees_with_the_formulas() {
    for seed in 0..20 {
        let mut rng = Rng(SplitMix64::new(seed));
        let top = segments(10 + rng.below(2_000));
        let rtt = 1 + u64::from(rng.below(200));
        let mut sender = Sender::new(Algorithm::Cubic, top, rtt);
        sender.recover();
        let mut cwnd = f64::from(sender.cwnd());
        let (mss, w_max, start) = (f64::from(MSS), f64::from(top), sender.now);
        let k = ((w_max - cwnd) / mss / 0.4).cbrt();
        let mut w_est = cwnd;
        for step in 0..5_000 {
            let acked = 1 + rng.below(2 * MSS);
            sender.now = sender.now + sender.rtt * acked / sender.cwnd();
            sender.ack(acked, true);
            // The first ACK begins the stage.
            let t = if step == 0 { 0.0 } else { sender.now.since(start).as_secs_f64() };
            let curve = |t: f64| w_max + 0.4 * mss * (t - k).powi(3);
            let alpha = if w_est < w_max { 9.0 / 17.0 } else { 1.0 };
            w_est += alpha * mss * f64::from(acked) / cwnd;
            if curve(t) < w_est {
                cwnd = cwnd.max(w_est);
            } else {
                let target = curve(t + sender.rtt.as_secs_f64()).clamp(cwnd, 1.5 * cwnd);
                cwnd += (target - cwnd) * f64::from(acked) / cwnd;
            }
            let error = (f64::from(sender.cwnd()) - cwnd).abs() / cwnd;
            assert!(error < 0.005, "seed {seed} step {step}: {} not {cwnd}", sender.cwnd());
        }
    }
}

/// RFC 9438 section 4.7: a second loss below the last plateau lowers it
/// further, to 0.85 of the window.
#[test]
fn cubic_converges_fast() {
    let mut sender = Sender::new(Algorithm::Cubic, segments(1_000), 100);
    sender.recover();
    sender.recover();
    assert_eq!(sender.cwnd(), segments(490));
    // The plateau is now at 595 segments: K = cbrt(105 / 0.4) = 6.4 s.
    let start = sender.now;
    while sender.now.since(start) < Duration::from_millis(6_400) {
        sender.round();
    }
    let window = sender.cwnd() / MSS;
    assert!((592..=597).contains(&window), "{window}");
}

/// An ACK never shrinks the window, whatever came before, and never grows it
/// beyond what TCP can express.
#[test]
fn acks_never_shrink_the_window() {
    for seed in 0..200 {
        let mut rng = Rng(SplitMix64::new(seed));
        let algorithm = if seed % 2 == 0 { Algorithm::Cubic } else { Algorithm::NewReno };
        let first = 1 + rng.below(1 << (4 + seed % 26));
        let rtt = u64::from(rng.below(2_000));
        let mut sender = Sender::new(algorithm, first, rtt);
        for _ in 0..500 {
            let wait = 1 << rng.below(20);
            sender.now = sender.now + Duration::from_micros(u64::from(rng.below(wait)));
            match rng.below(100) {
                0 => sender.recover(),
                1 => {
                    let signal = if rng.below(2) == 0 { Signal::Timeout } else { Signal::RepeatedTimeout };
                    sender.control.on_congestion(signal, first);
                }
                2 => sender.control.on_idle(),
                _ => {
                    let before = sender.cwnd();
                    let acked = rng.below(sender.cwnd().saturating_mul(2));
                    sender.ack(acked, rng.below(4) != 0);
                    assert!(sender.cwnd() >= before);
                }
            }
            assert!((1..=MAX_WINDOW).contains(&sender.cwnd()));
            assert!(sender.control.ssthresh() >= 2 * MSS);
        }
    }
}

/// RFC 9438 section 5.8: time in which the window was not used does not move
/// the curve on.
#[test]
fn unused_time_does_not_count() {
    let mut steady = Sender::new(Algorithm::Cubic, segments(1_000), 100);
    steady.recover();
    for _ in 0..20 {
        steady.round();
    }
    let mut paused = Sender::new(Algorithm::Cubic, segments(1_000), 100);
    paused.recover();
    for _ in 0..10 {
        paused.round();
    }
    let before = paused.cwnd();
    for _ in 0..600 {
        paused.ack(MSS, false);
        paused.now = paused.now + Duration::from_millis(100);
    }
    assert_eq!(paused.cwnd(), before, "a window that is not used does not grow");
    for _ in 0..10 {
        paused.round();
    }
    assert!(paused.cwnd().abs_diff(steady.cwnd()) < segments(3));
}

/// RFC 5681 section 3.1 and RFC 9438 section 4.8: a timeout leaves one
/// segment and slow start up to ssthresh, from where K = 0.
#[test]
fn timeout() {
    for (algorithm, ssthresh) in [(Algorithm::Cubic, 70), (Algorithm::NewReno, 50)] {
        let mut sender = Sender::new(algorithm, segments(100), 100);
        sender.control.on_congestion(Signal::Timeout, segments(100));
        assert_eq!(sender.cwnd(), MSS);
        assert_eq!(sender.control.ssthresh(), segments(ssthresh));
        // Repeated, it leaves ssthresh alone.
        sender.control.on_congestion(Signal::RepeatedTimeout, MSS);
        assert_eq!(sender.control.ssthresh(), segments(ssthresh));
        // RFC 3465 section 2.3: one segment per ACK, however much it covers.
        sender.ack(segments(20), true);
        assert_eq!(sender.cwnd(), segments(2));
        let mut rounds = 0;
        while sender.cwnd() < segments(ssthresh) {
            sender.round();
            rounds += 1;
        }
        assert!(rounds <= 6, "{rounds} rounds from 2 to {ssthresh} segments");
        let start = sender.cwnd();
        for _ in 0..10 {
            sender.round();
        }
        let grown = (sender.cwnd() - start) / MSS;
        // NewReno: a segment per round. CUBIC with K = 0: 0.4 t³ is less, so
        // it is the friendly 9/17 a round.
        let expected = if algorithm == Algorithm::Cubic { 4..=6 } else { 9..=10 };
        assert!(expected.contains(&grown), "{grown}");
    }
}

/// RFC 5681 section 3.1: half the flight on loss, a segment per window after.
#[test]
fn newreno() {
    let mut sender = Sender::new(Algorithm::NewReno, segments(100), 50);
    sender.recover();
    assert_eq!(sender.cwnd(), segments(50));
    for _ in 0..20 {
        sender.round();
    }
    assert!((segments(69)..=segments(70)).contains(&sender.cwnd()));
}

/// RFC 5681 equation 4: never below two segments.
#[test]
fn ssthresh_has_a_floor() {
    for algorithm in [Algorithm::Cubic, Algorithm::NewReno] {
        let mut sender = Sender::new(algorithm, MSS, 50);
        sender.recover();
        assert_eq!(sender.cwnd(), segments(2));
    }
}

/// RFC 9438 section 4.6: a loss in a flight that did not fill the window takes ssthresh
/// no lower than its part of the initial window; RFC 5681 knows no such floor, and a
/// window in use has none.
#[test]
fn a_small_flight_keeps_its_part_of_the_initial_window() {
    for (algorithm, cwnd, limited, ssthresh) in [
        (Algorithm::Cubic, 10, false, 7),
        (Algorithm::Cubic, 40, false, 7),
        (Algorithm::Cubic, 5, false, 4),
        (Algorithm::Cubic, 40, true, 29),
        (Algorithm::NewReno, 10, false, 2),
    ] {
        for signal in [Signal::Loss, Signal::Timeout] {
            let mut sender = Sender::new(algorithm, segments(cwnd), 50);
            sender.ack(MSS, limited);
            sender.control.on_congestion(signal, segments(2));
            assert_eq!(sender.control.ssthresh(), segments(ssthresh), "{algorithm:?} {cwnd} {limited} {signal:?}");
        }
    }
}

/// RFC 5681 section 4.1: idle for longer than the RTO.
#[test]
fn idle_restarts_from_the_initial_window() {
    let mut sender = Sender::new(Algorithm::Cubic, segments(1_000), 100);
    sender.recover();
    sender.control.on_idle();
    assert_eq!(sender.cwnd(), segments(10));
    assert!(sender.control.in_slow_start());
    // A smaller window stays as it is.
    sender.control.set_window(segments(3));
    sender.control.on_idle();
    assert_eq!(sender.cwnd(), segments(3));
}

/// RFC 9406: steady round trips leave slow start alone, and the window
/// doubles in a round.
#[test]
fn slow_start_doubles() {
    let mut sender = Sender::new(Algorithm::Cubic, segments(10), 50);
    sender.part = 4;
    for round in 1..=8 {
        sender.round();
        assert_eq!(sender.cwnd(), segments(10 << round));
    }
    assert_eq!(sender.control.ssthresh(), u32::MAX);
}

/// RFC 9406 section 4.2: a round trip that grew by more than 1/8 ends slow start.
#[test]
fn hystart_leaves_slow_start_when_the_queue_builds() {
    let mut sender = Sender::new(Algorithm::Cubic, segments(10), 50);
    sender.part = 4;
    for _ in 0..3 {
        sender.round();
    }
    assert!(sender.in_first_slow_start());
    sender.rtt = Duration::from_millis(57);
    sender.round();
    assert!(!sender.in_first_slow_start() && !sender.control.in_slow_start());
    assert!(sender.cwnd() < segments(100), "{}", sender.cwnd() / MSS);
}

/// Acknowledgements that come within two milliseconds of each other for half a round
/// trip end slow start; with a pause between them, or in a shorter time, they do not.
#[test]
fn hystart_leaves_slow_start_when_the_path_is_full() {
    for (every_us, acks, ends) in [(1_000, 60, true), (2_100, 60, false), (400, 60, false)] {
        let mut sender = Sender::new(Algorithm::Cubic, segments(64), 100);
        sender.ack(MSS, true);
        // A new round.
        sender.ack(segments(64), true);
        let before = sender.cwnd();
        for _ in 0..acks {
            sender.now = sender.now + Duration::from_micros(every_us);
            sender.ack(MSS, true);
        }
        assert_eq!(sender.in_first_slow_start(), !ends, "{every_us}");
        if ends {
            assert_eq!(sender.control.ssthresh(), before + segments(50));
        }
    }
}

/// A paced flow leaves slow start once its window is what the path was seen to deliver in a
/// round trip and a fourth more, whatever window it began with, and never has more than
/// two thirds of that in the path's queue.
#[test]
fn a_paced_flow_leaves_slow_start_with_a_full_path() {
    for path in [2_500_000_u64, 4_000_000, 12_500_000, 100_000_000] {
        for begins in [12, 14, 16, 19] {
            let mut sender = Sender::new(Algorithm::Cubic, segments(begins), 40);
            sender.paced = true;
            let queued = sender.start(path, Duration::from_nanos(u64::from(MSS) * 1_000_000_000 / path), 12);
            let full = path * 40 / 1_000;
            let left = u64::from(sender.control.ssthresh());
            assert!((full..=full * 3 / 2).contains(&left), "{path} {begins}: {left} of {full}");
            assert!(queued < full * 2 / 3, "{path} {begins}: {queued} of {full}");
        }
    }
}

/// A first window that came slowly, for another's traffic was among it, does not end slow
/// start on a fast path: what leaves as slowly as that allows shows better.
#[test]
fn a_pacers_own_trains_do_not_end_slow_start() {
    for gap_us in [100, 200, 300, 400, 500, 700, 900, 1_200] {
        let mut sender = Sender::new(Algorithm::Cubic, segments(16), 40);
        sender.paced = true;
        sender.start(2_000_000_000, Duration::from_micros(gap_us), 8);
        assert!(sender.in_first_slow_start(), "{gap_us}: {}", sender.control.ssthresh() / MSS);
    }
}

/// Acknowledgements that come together, for the way back or a machine holds them up, say
/// neither that a path is slow nor that it is fast: slow start ends between the window that
/// fills it and half of one more.
#[test]
fn acknowledgements_in_bunches_end_slow_start_in_time() {
    for path in [2_500_000_u64, 12_500_000] {
        for held_us in [300, 700, 1_000, 1_500, 2_000, 3_000] {
            let mut sender = Sender::new(Algorithm::Cubic, segments(10), 40);
            (sender.paced, sender.held) = (true, Duration::from_micros(held_us));
            sender.start(path, Duration::from_nanos(u64::from(MSS) * 1_000_000_000 / path), 14);
            let full = path * 40 / 1_000;
            let left = u64::from(sender.control.ssthresh());
            assert!((full..=full * 3 / 2).contains(&left), "{path} {held_us}: {left} of {full}");
        }
    }
}

/// Where segments overtake each other, a train is as long as some of it are late, and says too
/// little: slow start goes on until more stands in the queue.
#[test]
fn trains_of_late_segments_end_slow_start_later() {
    let run = |reordered| {
        let mut sender = Sender::new(Algorithm::Cubic, segments(10), 40);
        (sender.paced, sender.reordered) = (true, reordered);
        sender.start(2_500_000, Duration::from_micros(584), 14);
        sender.control.ssthresh()
    };
    let [plain, reordered] = [false, true].map(run);
    assert!((100_000..150_000).contains(&plain) && (150_000..200_000).contains(&reordered), "{plain} {reordered}");
}

/// Slow start leaves no faster than what the path was seen to deliver, but at 2.3
/// times the window in a round trip at least, and at four times at most.
#[test]
fn slow_start_is_paced_by_what_the_path_delivers() {
    let rate = |path: u64| {
        let mut sender = Sender::new(Algorithm::Cubic, segments(16), 40);
        assert_eq!(sender.control.pacing_rate(40_000, false), Some(u64::from(segments(16)) * 100));
        sender.paced = true;
        sender.start(1 << 40, Duration::from_nanos(u64::from(MSS) * 1_000_000_000 / path), 1);
        assert_eq!(sender.cwnd(), segments(32));
        sender.control.pacing_rate(40_000, false).expect("it is paced")
    };
    let window = u64::from(segments(32));
    assert_eq!(rate(1_500_000), window * 230 / 4);
    assert!((3_000_000..3_001_000).contains(&rate(3_000_000)), "{}", rate(3_000_000));
    assert_eq!(rate(100_000_000), window * 100);
}

/// Nor is a path that is shorter than ten milliseconds judged by trains.
#[test]
fn hystart_leaves_short_paths_alone() {
    let mut sender = Sender::new(Algorithm::Cubic, segments(64), 9);
    for _ in 0..200 {
        sender.now = sender.now + Duration::from_micros(100);
        sender.ack(MSS, true);
    }
    assert!(sender.in_first_slow_start());
}

/// A window of less than 16 segments is not judged by trains.
#[test]
fn hystart_leaves_small_windows_alone() {
    let mut sender = Sender::new(Algorithm::Cubic, segments(4), 20);
    for _ in 0..8 {
        sender.now = sender.now + Duration::from_millis(2);
        sender.ack(MSS, true);
    }
    assert!(sender.in_first_slow_start());
}

/// RFC 9406 section 4.3: growth of less than 4 ms, or with less than eight
/// samples in the round, counts for nothing.
#[test]
fn hystart_ignores_noise() {
    let mut sender = Sender::new(Algorithm::Cubic, segments(10), 10);
    sender.part = 4;
    for round in 0..8u64 {
        sender.rtt = Duration::from_micros(10_000 + (round % 2) * 3_900);
        sender.round();
        assert!(sender.in_first_slow_start());
    }
    let mut few = Sender::new(Algorithm::Cubic, segments(4), 10);
    few.ack(MSS, true);
    few.rtt = Duration::from_millis(100);
    for _ in 0..6 {
        few.ack(MSS, true);
        assert!(few.in_first_slow_start());
    }
}
