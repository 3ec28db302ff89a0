//! Runs of hours in virtual time, and what of them is left when the process is
//! killed.

use super::*;
use packet::kept::Kept;
use packet::tester::fill;
use wire::Time;

/// A tick is a microsecond.
const HZ: u64 = 1_000_000;
const HOURS: u64 = 8;

/// What a process had written when it was killed: the file is the last whole
/// one, whatever was being written.
fn left(path: &std::path::Path) -> TrialResult {
    let text = std::fs::read_to_string(path).expect("a file");
    serde_json::from_str::<Kept>(&text).expect("a whole one").result
}

#[test]
fn eight_hours_lose_no_record_whenever_the_process_is_killed() {
    let stream =
        |name: &str, pacing| Stream { name: name.to_owned(), shape: Shape::default(), pacing, ways: [true, true] };
    let streams = vec![
        stream("probe", Pacing::Probe(Some(1_000))),
        stream("background", Pacing::Rate { milli: 10_000, burst: 1 }),
    ];
    // The first frames are due before the first step.
    let (duration, give_up) = (Duration::from_secs(HOURS * 3_600), Duration::from_secs(1));
    let plan = Plan { streams, duration, give_up, ..Plan::default() };
    let (near, far) = Pair::new(PairConfig::default());
    let mut links = [near, far];
    let mut tester = Tester::new(plan, 2, HZ, 0);
    let watch = Watch::default();
    let mut totals = Vec::new();
    let folder = std::env::temp_dir().join(format!("nearside-hours-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("run.json");
    let (mut now, mut checkpoints, mut kills) = (0_u64, 0_u64, 0_u64);
    let mut before = 0;
    while tester.stage(now) != TrialStage::Over {
        // A frame is due each tenth of a second, and takes the time of a turn.
        now += 50_000;
        // What was sent comes in the same step.
        tester.turn(&mut links, &mut || now, Time::ZERO);
        tester.turn(&mut links, &mut || now, Time::ZERO);
        if !now.is_multiple_of(1_000_000) {
            continue;
        }
        watch.leave(&mut tester, now);
        let taken = watch.take(&mut totals);
        // Every two minutes a checkpoint.
        if let Some(mut result) = taken.filter(|_| now.is_multiple_of(120_000_000)) {
            fill(&mut result, &totals);
            checkpoints += 1;
            let clock = packet::kept::Clock { told: String::new() };
            let (command, links) = (Vec::new(), Vec::new());
            let kept = Kept { command, complete: false, clock, links, threshold_ns: 0, late_limit: None, result };
            results::write_whole(&path, &serde_json::to_string(&kept).expect("JSON")).expect("written");
        }
        // Killed at any moment: what the file has is whole, and no older than two checkpoints.
        if checkpoints > 0 && now.is_multiple_of(977_000_000) {
            kills += 1;
            let found = left(&path);
            assert!(now as f64 / 1e6 - found.seconds <= 121.0, "{} at {now}", found.seconds);
            for lane in &found.lanes {
                assert_eq!(lane.latency.samples, lane.arrivals.unique);
                assert!(lane.sent.frames - lane.arrivals.unique <= 1 && lane.losses.frames == 0);
            }
            let all: u64 = found.lanes.iter().map(|lane| lane.latency.samples).sum();
            assert!(all >= before, "no record goes again");
            before = all;
        }
    }
    watch.leave_last(&mut tester, now);
    let mut result = watch.take(&mut totals).expect("the last");
    fill(&mut result, &totals);
    assert!(checkpoints > 200 && kills > 20, "{checkpoints} {kills}");
    for lane in &result.lanes {
        let due = HOURS * 3_600 * if lane.probe { 1 } else { 10 };
        assert_eq!((lane.sent.frames, lane.received, lane.lost()), (due, due, 0), "{}", lane.stream);
        assert_eq!(lane.latency.samples, due);
    }
    let _ = std::fs::remove_dir_all(&folder);
}
