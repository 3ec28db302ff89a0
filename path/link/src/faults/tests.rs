use super::*;
use crate::{Pair, PairConfig, PairLink, Probability};

fn at(micros: u64) -> Time {
    Time::from_micros(micros)
}

fn p(p: f64) -> Probability {
    Probability::new(p)
}

/// A pair whose first end treats what it sends by `impairment`.
fn sender(impairment: Impairment, seed: u64) -> (Faults<PairLink>, PairLink) {
    let (a, b) = Pair::new(PairConfig { ring: 32 * 1024, ..PairConfig::default() });
    let plan = FaultPlan { transmit: impairment, seed, ..FaultPlan::default() };
    (Faults::new(a, plan), b)
}

fn send<L: Link>(link: &mut L, now: Time, frames: impl IntoIterator<Item = u32>) {
    let mut tx = link.split().1;
    for number in frames {
        let slot = tx.slot().unwrap();
        slot[..4].copy_from_slice(&number.to_be_bytes());
        slot[4..100].fill(0x55);
        tx.commit(100, Offload::NONE);
    }
    tx.flush(now);
}

fn take<L: Link>(link: &mut L, now: Time) -> Vec<u32> {
    let mut rx = link.split().0;
    let mut all = Vec::new();
    loop {
        let count = rx.receive(now, 32);
        for i in 0..count {
            all.push(u32::from_be_bytes(rx.frame(i)[..4].try_into().unwrap()));
        }
        rx.release();
        if count == 0 {
            return all;
        }
    }
}

#[test]
fn without_faults_frames_pass_unchanged_at_once_both_ways() {
    let (a, mut b) = Pair::new(PairConfig::default());
    let mut a = Faults::new(a, FaultPlan::default());
    send(&mut a, at(0), 0..100);
    assert_eq!(take(&mut b, at(0)), (0..100).collect::<Vec<_>>());
    send(&mut b, at(0), 0..100);
    assert_eq!(take(&mut a, at(0)), (0..100).collect::<Vec<_>>());
    assert_eq!(a.next_event(), None);
    assert_eq!(a.transmit_faults().passed, 100);
    assert_eq!(a.receive_faults().passed, 100);
}

#[test]
fn loss_has_its_rate_and_a_seed_repeats_it() {
    let impairment = Impairment { loss: p(0.1), ..Impairment::default() };
    let run = |seed| {
        let (mut a, mut b) = sender(impairment, seed);
        send(&mut a, at(0), 0..10_000);
        let taken = take(&mut b, at(0));
        assert_eq!(taken.len() as u64 + a.transmit_faults().lost, 10_000);
        taken
    };
    let first = run(1);
    assert!((8_850..9_150).contains(&first.len()), "{}", first.len());
    assert_eq!(first, run(1));
    assert_ne!(first, run(2));
}

#[test]
fn burst_loss_comes_in_bursts() {
    let burst =
        BurstLoss { fail: p(0.01), recover: p(0.25), loss_good: Probability::NEVER, loss_bad: Probability::ALWAYS };
    let (mut a, mut b) = sender(Impairment { burst_loss: Some(burst), ..Default::default() }, 3);
    send(&mut a, at(0), 0..16_000);
    let taken = take(&mut b, at(0));
    let lost = 16_000 - taken.len();
    // In the bad state for 0.01 / (0.01 + 0.25) of the time.
    assert!((450..800).contains(&lost), "{lost}");
    let bursts = taken.windows(2).filter(|w| w[1] != w[0] + 1).count();
    let mean = lost as f64 / bursts as f64;
    assert!((3.0..5.0).contains(&mean), "bursts of {mean}");
}

#[test]
fn delay_holds_frames_until_due_and_tells_when() {
    let delay = Duration::from_millis(20);
    let (mut a, mut b) = sender(Impairment { delay, ..Default::default() }, 1);
    send(&mut a, at(1_000), [1]);
    send(&mut a, at(2_000), [2]);
    assert_eq!(a.next_event(), Some(at(21_000)));
    send(&mut a, at(20_999), []);
    assert!(take(&mut b, at(20_999)).is_empty());
    send(&mut a, at(21_000), []);
    assert_eq!(take(&mut b, at(21_000)), [1]);
    assert_eq!(a.next_event(), Some(at(22_000)));
    send(&mut a, at(50_000), []);
    assert_eq!(take(&mut b, at(50_000)), [2]);
    assert_eq!(a.next_event(), None);
}

#[test]
fn delay_on_receiving_counts_from_the_pull() {
    let (a, mut b) = Pair::new(PairConfig::default());
    let receive = Impairment { delay: Duration::from_millis(5), ..Default::default() };
    let mut a = Faults::new(a, FaultPlan { receive, ..Default::default() });
    send(&mut b, at(0), [7]);
    assert!(take(&mut a, at(100)).is_empty());
    assert_eq!(a.next_event(), Some(at(5_100)));
    assert_eq!(take(&mut a, at(5_100)), [7]);
}

#[test]
fn jitter_varies_within_its_bounds_and_keeps_the_order() {
    let impairment =
        Impairment { delay: Duration::from_millis(10), jitter: Duration::from_millis(4), ..Default::default() };
    let (mut a, mut b) = sender(impairment, 5);
    let mut delays = Vec::new();
    for i in 0..500 {
        let sent = at(u64::from(i) * 20_000);
        send(&mut a, sent, [i]);
        let due = a.next_event().unwrap();
        delays.push(due.since(sent).as_micros());
        send(&mut a, due, []);
        assert_eq!(take(&mut b, due), [i]);
    }
    let (min, max) = (delays.iter().min().unwrap(), delays.iter().max().unwrap());
    assert!((6_000..6_500).contains(min) && (13_500..14_001).contains(max), "{min} {max}");

    let (mut a, mut b) = sender(impairment, 6);
    for i in 0..500 {
        send(&mut a, at(u64::from(i) * 100), [i]);
    }
    send(&mut a, at(1_000_000), []);
    assert_eq!(take(&mut b, at(1_000_000)), (0..500).collect::<Vec<_>>());
}

#[test]
fn reordering_lets_later_frames_overtake_and_loses_none() {
    let impairment = Impairment { reorder: p(0.05), ..Default::default() };
    let (mut a, mut b) = sender(impairment, 8);
    let mut taken = Vec::new();
    for i in 0..2_000 {
        let now = at(u64::from(i) * 50);
        send(&mut a, now, [i]);
        taken.extend(take(&mut b, now));
    }
    send(&mut a, at(200_000), []);
    taken.extend(take(&mut b, at(200_000)));
    let inversions = taken.windows(2).filter(|w| w[1] < w[0]).count();
    assert!((50..160).contains(&inversions), "{inversions}");
    taken.sort_unstable();
    assert_eq!(taken, (0..2_000).collect::<Vec<_>>());
}

#[test]
fn duplicates_are_copies() {
    let (mut a, mut b) = sender(Impairment { duplicate: p(0.1), ..Default::default() }, 9);
    send(&mut a, at(0), 0..2_000);
    let mut taken = take(&mut b, at(0));
    let extra = taken.len() as u64 - 2_000;
    assert_eq!(extra, a.transmit_faults().duplicated);
    assert!((150..250).contains(&extra), "{extra}");
    taken.dedup();
    assert_eq!(taken, (0..2_000).collect::<Vec<_>>());
}

#[test]
fn corruption_flips_one_bit_and_withdraws_the_vouching() {
    use wire::offload::PartialChecksum;
    let (a, mut b) = Pair::new(PairConfig { checksum_offload: true, ..Default::default() });
    let receive = Impairment { corrupt: p(0.5), ..Default::default() };
    let mut a = Faults::new(a, FaultPlan { receive, seed: 4, ..Default::default() });
    assert!(!a.capabilities().transmit_checksum, "damage must not get a good checksum");
    let tx = b.split().1;
    let checksum = Some(PartialChecksum { start: 0, field: 98 });
    for _ in 0..200 {
        tx.slot().unwrap()[..100].fill(0);
        tx.commit(100, Offload { checksum, segment: None });
    }
    tx.flush(at(0));
    let rx = a.split().0;
    let count = rx.receive(at(0), 200);
    assert_eq!(count, 200);
    let mut damaged = 0;
    for i in 0..count {
        let ones: u32 = rx.frame(i).iter().map(|b| b.count_ones()).sum();
        // Whole frames carry the checksum of zeroes: sixteen ones.
        assert_eq!(ones == 16, rx.verified(i));
        damaged += u64::from(ones.abs_diff(16) == 1);
    }
    rx.release();
    assert_eq!(damaged, a.receive_faults().corrupted);
    assert!((70..130).contains(&damaged), "{damaged}");
}

#[test]
fn a_rate_spaces_frames_and_its_queue_drops_at_the_tail() {
    let rate = Some(Rate { bytes_per_second: 1_000_000, queue_bytes: 1_000 });
    let (mut a, mut b) = sender(Impairment { rate, ..Default::default() }, 1);
    // 100 bytes take 100 µs; ten frames fit the queue.
    send(&mut a, at(0), 0..15);
    assert_eq!(a.transmit_faults().queue_dropped, 5);
    for i in 0..10 {
        let due = at((u64::from(i) + 1) * 100);
        assert_eq!(a.next_event(), Some(due));
        send(&mut a, due, []);
        assert_eq!(take(&mut b, due), [i]);
    }
    send(&mut a, at(2_000), [20]);
    assert_eq!(a.next_event(), Some(at(2_100)));
}

#[test]
fn a_rate_of_zero_passes_nothing_and_does_not_panic() {
    let rate = Some(Rate { bytes_per_second: 0, queue_bytes: u64::MAX });
    let (mut a, mut b) = sender(Impairment { rate, ..Default::default() }, 1);
    send(&mut a, at(0), 0..5);
    send(&mut a, Time::MAX, []);
    assert!(take(&mut b, Time::MAX).is_empty());
    assert_eq!(a.transmit_faults().queue_dropped, 5);
}

#[test]
fn the_hold_limit_bounds_memory_and_counts() {
    let delay = Duration::from_secs(1);
    let (mut a, mut b) = sender(Impairment { delay, hold_limit: 10, ..Default::default() }, 1);
    assert_eq!(a.split().1.room(), 10);
    send(&mut a, at(0), 0..8);
    send(&mut a, at(1), 8..30);
    assert_eq!(a.transmit_faults().overflowed, 20);
    send(&mut a, at(2_000_000), []);
    assert_eq!(take(&mut b, at(2_000_000)), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_full_inner_ring_delays_and_loses_nothing() {
    let (a, mut b) = Pair::new(PairConfig { ring: 4, ..Default::default() });
    let mut a = Faults::new(a, FaultPlan::default());
    send(&mut a, at(0), 0..10);
    assert_eq!(a.next_event(), Some(at(0)));
    let mut taken = Vec::new();
    for _ in 0..3 {
        taken.extend(take(&mut b, at(1)));
        send(&mut a, at(1), []);
    }
    assert_eq!(taken, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_link_can_be_cut_and_mended() {
    let (mut a, mut b) = sender(Impairment::default(), 1);
    let cut = Impairment { loss: Probability::ALWAYS, ..Default::default() };
    a.set_impairments(cut, cut);
    send(&mut a, at(0), 0..5);
    assert!(take(&mut b, at(0)).is_empty());
    a.set_impairments(Impairment::default(), Impairment::default());
    send(&mut a, at(1), [5]);
    assert_eq!(take(&mut b, at(1)), [5]);
}

#[test]
fn extreme_settings_do_not_panic() {
    let wild = Impairment {
        duplicate: Probability::ALWAYS,
        corrupt: Probability::ALWAYS,
        reorder: Probability::ALWAYS,
        reorder_by: Duration::MAX,
        delay: Duration::MAX,
        jitter: Duration::MAX,
        rate: Some(Rate { bytes_per_second: u64::MAX, queue_bytes: u64::MAX }),
        ..Default::default()
    };
    let (mut a, _b) = sender(wild, u64::MAX);
    send(&mut a, Time::MAX, 0..10);
    send(&mut a, at(0), 0..10);
    let wild = Impairment { rate: Some(Rate { bytes_per_second: 1, queue_bytes: u64::MAX }), ..wild };
    a.set_impairments(wild, wild);
    send(&mut a, at(5), 0..10);
    assert!(a.next_event().is_some());
}

/// Nothing appears from nowhere, nothing vanishes uncounted.
#[test]
fn every_frame_is_accounted_for() {
    for seed in 0..50 {
        let mut random = random::SplitMix64::new(seed);
        let mut share = |most: f64| p(random.up_to(1_000) as f64 / 1_000.0 * most);
        let impairment = Impairment {
            loss: share(0.5),
            burst_loss: Some(BurstLoss {
                fail: share(0.1),
                recover: share(0.5),
                loss_good: share(0.1),
                loss_bad: share(1.0),
            }),
            duplicate: share(0.5),
            corrupt: share(0.5),
            reorder: share(0.5),
            reorder_by: Duration::from_micros(random.up_to(5_000)),
            delay: Duration::from_micros(random.up_to(5_000)),
            jitter: Duration::from_micros(random.up_to(5_000)),
            rate: (seed % 2 == 0).then_some(Rate { bytes_per_second: 1_000_000, queue_bytes: 5_000 }),
            queue_frames: (seed % 3 == 0).then_some(20),
            longest_packet: (seed % 5 == 0).then_some(85),
            hold_limit: 40,
        };
        let (mut a, mut b) = sender(impairment, seed);
        let mut delivered = 0;
        for turn in 0..300 {
            let now = at(turn * 100);
            send(&mut a, now, 0..random.up_to(8) as u32);
            delivered += take(&mut b, now).len() as u64;
        }
        while let Some(due) = a.next_event() {
            send(&mut a, due, []);
            delivered += take(&mut b, due).len() as u64;
        }
        let c = a.transmit_faults();
        assert_eq!(c.passed, delivered, "seed {seed}: {c:?}");
        let gone = c.lost + c.queue_dropped + c.overflowed + c.swallowed;
        assert_eq!(c.entered + c.duplicated, delivered + gone, "seed {seed}: {c:?}");
    }
}

/// Wrappers compose, and one's view of a frame is the other's.
#[test]
fn a_captured_link_can_have_faults_and_be_captured_again() {
    use crate::{Capture, CaptureConfig};
    let (a, mut b) = Pair::new(PairConfig::default());
    let near = Capture::new(a, Vec::new(), CaptureConfig::default());
    let loss = Impairment { loss: p(0.5), ..Default::default() };
    let faults = Faults::new(near, FaultPlan::both(loss, 2));
    let mut far = Capture::new(faults, Vec::new(), CaptureConfig::default());
    send(&mut far, at(0), 0..100);
    let passed = take(&mut b, at(0)).len() as u64;
    send(&mut b, at(1), 0..100);
    let received = take(&mut far, at(1)).len() as u64;
    assert!(passed < 70 && received < 70);
    assert_eq!(far.capture_counters().captured, 100 + received);
}

#[test]
fn a_queue_may_be_of_frames() {
    // A frame takes 100 us.
    let rate = Some(Rate { bytes_per_second: 1_000_000, queue_bytes: u64::MAX });
    let (mut a, mut b) = sender(Impairment { rate, queue_frames: Some(3), ..Default::default() }, 1);
    send(&mut a, at(0), 0..5);
    assert_eq!(a.transmit_faults().queue_dropped, 2);
    // The first has left: there is room for one.
    send(&mut a, at(100), 5..8);
    assert_eq!(a.transmit_faults().queue_dropped, 4);
    send(&mut a, at(400), []);
    assert_eq!(take(&mut b, at(400)), [0, 1, 2, 5]);
    // None waited, then one by 100 us, one by 200, and the last by 200 again.
    assert_eq!(a.transmit_faults().queued, 100 * 500_000);
}

#[test]
fn what_is_too_long_for_a_black_hole_vanishes() {
    // A frame of 100 bytes carries a packet of 86.
    for (longest, passes) in [(86, 4), (85, 0)] {
        let (mut a, mut b) = sender(Impairment { longest_packet: Some(longest), ..Default::default() }, 1);
        send(&mut a, at(0), 0..4);
        assert_eq!(take(&mut b, at(0)).len(), passes);
        assert_eq!(a.transmit_faults().swallowed, 4 - passes as u64);
    }
}

#[test]
fn what_goes_another_way_overtakes() {
    let far = Impairment { delay: Duration::from_millis(50), ..Default::default() };
    let near = Impairment { delay: Duration::from_millis(10), ..Default::default() };
    for (reroute, expected) in [(true, [2, 3, 1]), (false, [1, 2, 3])] {
        let (mut a, mut b) = sender(far, 1);
        send(&mut a, at(0), [1]);
        if reroute {
            a.reroute(Impairment::default(), near);
        } else {
            a.set_impairments(Impairment::default(), near);
        }
        send(&mut a, at(1_000), [2]);
        send(&mut a, at(2_000), [3]);
        let mut taken = Vec::new();
        for micros in [11_000, 12_000, 50_000] {
            send(&mut a, at(micros), []);
            taken.extend(take(&mut b, at(micros)));
        }
        assert_eq!(taken, expected, "{reroute}");
    }
}

#[test]
fn a_path_joins_two_links() {
    let pair = || Pair::new(PairConfig { ring: 1_024, ..PairConfig::default() });
    let ((mut a, near), (mut b, far)) = (pair(), pair());
    let there = Impairment { delay: Duration::from_millis(20), loss: p(0.5), ..Default::default() };
    let back = Impairment { delay: Duration::from_millis(5), ..Default::default() };
    let mut path = EmulatedPath::new(near, far, there, back, 7);
    assert_eq!((path.turn(at(0)), path.next_event()), (0, None));
    send(&mut a, at(0), 0..100);
    send(&mut b, at(0), 0..50);
    // A burst of each is taken in, and the rest is due.
    assert_eq!(path.turn(at(0)), 64 + 50);
    assert_eq!(path.next_event(), Some(at(0)));
    assert_eq!(path.turn(at(1_000)), 36);
    // What is due first is what comes back.
    assert_eq!(path.next_event(), Some(at(5_000)));
    path.turn(at(5_000));
    assert_eq!(take(&mut a, at(5_000)), (0..50).collect::<Vec<_>>());
    assert_eq!(path.next_event(), Some(at(20_000)));
    path.turn(at(21_000));
    let [to_far, to_near] = path.counters();
    assert_eq!(take(&mut b, at(21_000)).len() as u64, to_far.passed);
    assert_eq!((to_far.entered, to_far.passed + to_far.lost), (100, 100));
    assert!((30..70).contains(&to_far.lost), "{}", to_far.lost);
    assert_eq!((to_near.passed, to_near.lost), (50, 0));
    path.set_impairments(Impairment { loss: Probability::ALWAYS, ..there }, back);
    send(&mut a, at(30_000), 0..10);
    path.turn(at(30_000));
    assert_eq!((path.counters()[0].lost - to_far.lost, path.next_event()), (10, None));
}
