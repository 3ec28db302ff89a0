//! Short runs on this machine: what they find is its own, how it is told is not.

use super::*;
use perf::clock;

fn plan(plain: bool) -> Plan {
    let core = threads::allowed().expect("the kernel tells")[0];
    let (time, threshold) = (Duration::from_millis(300), Duration::from_micros(1));
    Plan { cores: vec![core], time, threshold, fifo: None, plain, osnoise: !plain }
}

/// A loop that is away for 5 ms, ten times.
fn away(_: u16) -> Option<Each> {
    let mut next = clock::raw() + 20_000_000;
    let mut left = 10;
    Some(Box::new(move |_| {
        // Seldom enough that the loop stays a loop.
        if left > 0 && clock::raw() > next {
            left -= 1;
            while clock::raw() < next + 5_000_000 {}
            next = clock::raw() + 5_000_000;
        }
    }))
}

/// In a thread of its own, since who listens steps aside.
fn ran(plan: Plan) -> (NoiseReport, u64) {
    let running = thread::spawn(move || {
        let mut told = 0;
        let stop = Arc::new(AtomicBool::new(false));
        let report = run(&plan, &stop, away, &mut |_, _| told += 1).expect("a report");
        (report, told)
    });
    running.join().expect("no panic")
}

#[test]
fn a_run_tells_every_gap_once_with_rights_and_without() {
    for plain in [false, true] {
        let (report, told) = ran(plan(plain));
        let [core] = report.cores.as_slice() else { panic!("one core: {report}") };
        assert_eq!(told, core.gaps);
        assert!(core.seconds > 0.25 && core.step_nanos > 0.0, "{report}");
        assert!(core.longest_nanos >= 5_000_000 && core.gap_nanos >= core.longest_nanos, "{report}");
        assert_eq!(report.sources.len(), 18);
        assert!(!plain || (core.cost.hits == 0 && core.cost.nanos_per_hit.is_none()), "{report}");
        assert!(!plain || report.notes.iter().any(|note| note.starts_with("no tracepoints (not asked for)")));
        let parts: u64 = core.causes.iter().map(|cause| cause.nanos).sum();
        assert_eq!(parts, core.gap_nanos, "each gap went to something, and all of it: {report}");
    }
}

#[test]
fn a_core_that_cannot_be_had_is_refused() {
    let refused = thread::spawn(|| {
        let plan = Plan { cores: vec![1_023], ..plan(true) };
        run(&plan, &Arc::new(AtomicBool::new(false)), |_| None, &mut |_, _| {}).map(|_| ())
    });
    let why = refused.join().expect("no panic").expect_err("there is no such core");
    assert!(why.to_string().starts_with("core 1023 cannot be had: "), "{why}");
}

#[test]
fn a_run_ends_when_it_is_told_to() {
    let ended = thread::spawn(|| {
        let plan = Plan { time: Duration::from_secs(3_600), ..plan(true) };
        let report = run(&plan, &Arc::new(AtomicBool::new(true)), |_| None, &mut |_, _| {}).expect("a report");
        report.seconds
    });
    assert!(ended.join().expect("no panic") < 60.0);
}
