//! Made-up streams of events: what each gap must be called.

use super::*;

const WATCHED: u32 = 100;

fn name(text: &str) -> Name {
    text.into()
}

fn timer() -> Frame {
    Frame::Vector(Vector::LocalTimer)
}

fn tick() -> Frame {
    Frame::Timer(name("tick_nohz_handler"), true)
}

fn softirq(text: &str) -> Frame {
    Frame::Softirq(name(text))
}

fn to(thread: u32, text: &str) -> Event {
    Event::Switch { thread, name: name(text) }
}

fn timeline(events: &[(u64, Event)]) -> Timeline {
    let mut timeline = Timeline::new(WATCHED, false);
    for (at, event) in events {
        timeline.on_event(*at, event.clone());
    }
    timeline
}

fn verdict(events: &[(u64, Event)], from: u64, until: u64) -> Attribution {
    timeline(events).verdict(from, until, &mut Beyond::default())
}

use Event::{Does, Enter, Leave};

#[test]
fn a_tick_has_its_interrupt_and_its_softirqs_are_told_apart() {
    let events = [
        (10_500, Enter(timer())),
        (10_700, Enter(tick())),
        (12_700, Leave(Frame::Timer(name(""), false))),
        (12_900, Leave(timer())),
        (13_000, Enter(softirq("RCU"))),
        (13_500, Leave(softirq("RCU"))),
    ];
    let found = verdict(&events, 10_000, 14_000);
    assert_eq!(found.cause, Cause::Tick);
    // Its own, what the interrupt took beside it, and entering and leaving.
    assert_eq!(found.parts, [(Cause::Tick, 3_500), (Cause::Softirq(name("RCU")), 500)]);
    assert!(!found.incomplete);
}

#[test]
fn another_timer_is_named_by_its_function() {
    let function = Frame::Timer(name("timerfd_tmrproc"), false);
    let events = [
        (10_500, Enter(timer())),
        (10_600, Enter(function.clone())),
        (10_900, Leave(function)),
        (11_900, Leave(timer())),
    ];
    assert_eq!(verdict(&events, 10_000, 12_500).cause, Cause::Timer(Some(name("timerfd_tmrproc"))));
    // Nothing expired: the clock was set again.
    let empty = [(10_500, Enter(timer())), (11_900, Leave(timer()))];
    assert_eq!(verdict(&empty, 10_000, 12_500).cause, Cause::Timer(None));
}

#[test]
fn a_storm_is_the_softirqs_and_not_the_interrupts_that_raised_it() {
    let ipi = Frame::Vector(Vector::CallFunctionSingle);
    let events = [
        (10_200, Enter(ipi.clone())),
        (10_300, Event::Calls(name("rps_trigger_softirq"))),
        (10_400, Leave(ipi)),
        (10_500, Enter(softirq("NET_RX"))),
        (40_000, Leave(softirq("NET_RX"))),
    ];
    let found = verdict(&events, 10_000, 40_500);
    assert_eq!(found.cause, Cause::Softirq(name("NET_RX")));
    assert!(found.parts.iter().any(|(cause, _)| cause.to_string() == "IPI call function: rps_trigger_softirq"));
}

#[test]
fn threads_are_named_with_their_work_and_interrupts_within_are_not_theirs() {
    let disk = Frame::Interrupt(36, name("nvme0q1"));
    let events = [
        (11_000, to(7, "kworker/1:0")),
        (12_000, Does(name("vmstat_update"))),
        (12_500, Event::Calls(name("flush_tlb_func"))),
        (20_000, Enter(disk.clone())),
        (26_000, Leave(disk)),
        (30_000, to(9, "migration/1")),
        (31_000, to(WATCHED, "nearside")),
    ];
    let found = verdict(&events, 10_000, 32_000);
    let texts: Vec<(String, u64)> = found.parts.iter().map(|(cause, nanos)| (cause.to_string(), *nanos)).collect();
    assert_eq!(
        texts,
        [
            ("thread kworker/1:0 (vmstat_update)".to_owned(), 15_000),
            ("interrupt 36 (nvme0q1)".to_owned(), 6_000),
            ("thread migration/1 (9)".to_owned(), 1_000)
        ]
    );
    // The kernel counts it as the time of the thread that had the core.
    assert_eq!(found.interrupted, [(7, 6_000)]);
    let before = [(11_000, Enter(timer())), (12_000, Leave(timer())), (12_000, to(7, "x")), (13_000, to(WATCHED, "y"))];
    assert_eq!(verdict(&before, 10_000, 14_000).interrupted, []);
}

#[test]
fn a_stall_that_ends_with_a_tick_is_not_the_ticks() {
    let events = [(5_010_000, Enter(timer())), (5_012_000, Leave(timer()))];
    let timeline = || timeline(&events);
    assert_eq!(timeline().verdict(10_000, 5_013_000, &mut Beyond::default()).cause, Cause::Unknown);
    let mut stolen = Beyond { stolen: true, smis: 0 };
    assert_eq!(timeline().verdict(10_000, 5_013_000, &mut stolen).cause, Cause::Stolen);
    // Of two stalls in an interval with one SMI, one was it.
    let mut smi = Beyond { stolen: false, smis: 1 };
    let mut one = timeline();
    assert_eq!(one.verdict(10_000, 5_013_000, &mut smi).cause, Cause::Smi);
    assert_eq!(one.verdict(6_000_000, 7_000_000, &mut smi).cause, Cause::Unknown);
}

#[test]
fn what_entering_and_leaving_takes_is_learnt_and_stalls_are_not() {
    // Where an interrupt takes 20 us beside its handler, and every eighth gap is
    // a stall with one in it.
    let mut timeline = Timeline::new(WATCHED, false);
    let mut named = Vec::new();
    for at in 0..64_u64 {
        let from = at * 10_000_000;
        let length = if at % 8 == 7 { 5_000_000 } else { 22_000 };
        timeline.on_event(from + length - 4_000, Enter(timer()));
        timeline.on_event(from + length - 2_000, Leave(timer()));
        named.push(timeline.verdict(from, from + length, &mut Beyond::default()).cause);
    }
    assert_eq!(named[0], Cause::Unknown, "it is not known yet");
    assert!(named[16..].iter().enumerate().all(|(at, cause)| (*cause == Cause::Unknown) == (at % 8 == 7)), "{named:?}");
    // In a virtual machine it is taken for granted that there is a hypervisor.
    let mut timeline = Timeline::new(WATCHED, true);
    timeline.on_event(20_000, Enter(timer()));
    timeline.on_event(22_000, Leave(timer()));
    assert_eq!(timeline.verdict(2_000, 24_000, &mut Beyond::default()).cause, Cause::Timer(None));
}

#[test]
fn page_faults_count_in_the_gap_that_they_began() {
    let faults = [(10_100, Event::PageFault), (10_900, Event::PageFault), (11_700, Event::PageFault)];
    let mut timeline = timeline(&faults);
    assert_eq!(timeline.verdict(10_000, 12_500, &mut Beyond::default()).cause, Cause::PageFault);
    // A stall much later has no events of its own.
    assert_eq!(timeline.verdict(50_000, 90_000, &mut Beyond::default()).cause, Cause::Unknown);
    // Somebody else's fault is that thread's time.
    let other = [(20_100, to(7, "x")), (21_000, Event::PageFault), (25_000, to(WATCHED, "nearside"))];
    assert_eq!(verdict(&other, 20_000, 25_500).cause.kind(), "thread");
}

#[test]
fn points_name_what_nothing_else_explains() {
    let events = [(20_000, Event::Frequency)];
    assert_eq!(verdict(&events, 10_000, 30_000).cause, Cause::Frequency);
    assert_eq!(verdict(&events, 40_000, 60_000).cause, Cause::Unknown);
    let check = [(20_000, Event::MachineCheck)];
    assert_eq!(verdict(&check, 10_000, 30_000).cause, Cause::MachineCheck);
}

#[test]
fn nmis_are_told_when_they_are_over() {
    let found = verdict(&[(13_000, Event::Nmi(2_000))], 10_500, 13_500);
    assert_eq!(found.parts, [(Cause::Nmi, 3_000)]);
    // In a handler.
    let disk = Frame::Interrupt(36, name("nvme0q1"));
    let events = [(11_000, Enter(disk.clone())), (13_000, Event::Nmi(1_500)), (20_000, Leave(disk))];
    let parts = verdict(&events, 10_500, 20_500).parts;
    assert_eq!(
        parts.iter().map(|(cause, nanos)| (cause.kind(), *nanos)).collect::<Vec<_>>(),
        [("interrupt", 8_500), ("nmi", 1_500)]
    );
}

#[test]
fn a_core_with_nobody_on_it_was_held_back() {
    let events = [(11_000, to(0, "swapper/1")), (30_011_000, to(WATCHED, "nearside"))];
    assert_eq!(verdict(&events, 10_000, 30_012_000).cause, Cause::Held);
}

#[test]
fn lost_events_make_no_story() {
    // The leave of the softirq was lost, and with it the rest.
    let events = [
        (11_000, Enter(softirq("NET_RX"))),
        (500_000, Event::Lost(12)),
        (600_000, Enter(timer())),
        (602_000, Leave(timer())),
    ];
    let mut timeline = timeline(&events);
    assert!(timeline.verdict(10_500, 15_000, &mut Beyond::default()).incomplete);
    let later = timeline.verdict(599_500, 602_500, &mut Beyond::default());
    assert_eq!((later.cause, later.incomplete), (Cause::Timer(None), false));
    // A leave alone is nothing; a frame that was never left is not the time's
    // that the watched thread ran in.
    let stale = [(10_000, Leave(timer())), (11_000, Enter(softirq("RCU")))];
    let mut timeline = self::timeline(&stale);
    assert_eq!(timeline.verdict(90_000, 99_000, &mut Beyond::default()).cause, Cause::Unknown);
    // Nor does it hide what comes much later.
    timeline.on_event(90_001_000, Enter(softirq("NET_RX")));
    timeline.on_event(90_009_000, Leave(softirq("NET_RX")));
    let later = timeline.verdict(90_000_500, 90_009_500, &mut Beyond::default());
    assert_eq!(later.cause, Cause::Softirq(name("NET_RX")));
}

#[test]
fn a_gap_that_is_not_over_for_its_events_is_named_by_what_runs() {
    let events = [(11_000, to(7, "hog"))];
    assert_eq!(verdict(&events, 10_000, 50_000).cause.to_string(), "thread hog (7)");
    // Without rights.
    let hidden = verdict(&[(11_000, to(u32::MAX, "another"))], 10_000, 50_000).cause;
    assert_eq!(hidden.to_string(), "another thread: which one is not permitted to see");
}

#[test]
fn memory_is_bounded_and_what_is_forgotten_is_said() {
    let mut timeline = Timeline::new(WATCHED, false);
    let mut at = 0;
    for _ in 0..STRETCHES_LIMIT + 10 {
        timeline.on_event(at, Enter(timer()));
        timeline.on_event(at + 100, Leave(timer()));
        timeline.on_event(at + 200, Event::Frequency);
        at += 1_000;
    }
    assert_eq!((timeline.stretches.len(), timeline.points.len()), (STRETCHES_LIMIT, STRETCHES_LIMIT));
    assert!(timeline.verdict(1_500, 2_500, &mut Beyond::default()).incomplete);
    timeline.forget(at);
    assert!(timeline.stretches.is_empty() && timeline.points.is_empty());
    // Nor do frames grow that are never left.
    for _ in 0..1_000 {
        timeline.on_event(at, Enter(timer()));
    }
    assert!(timeline.frames.len() <= DEPTH_LIMIT);
}

#[test]
fn any_order_of_events_gives_parts_that_fit_the_gap() {
    // A small generator of its own: the crate draws no randomness.
    let mut state = 1_u64;
    let mut next = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let frames = [timer(), tick(), softirq("RCU"), Frame::Interrupt(3, name("x")), Frame::Vector(Vector::Reschedule)];
    for _ in 0..2_000 {
        let mut timeline = Timeline::new(WATCHED, false);
        let mut at = 1_000;
        for _ in 0..next(30) {
            // Also events that come too early.
            at = (at + next(3_000)).saturating_sub(200);
            let frame = frames[next(5) as usize].clone();
            let event = match next(9) {
                0 | 1 => Enter(frame),
                2 | 3 => Leave(frame),
                4 => to([0, 7, WATCHED][next(3) as usize], "x"),
                5 => Event::PageFault,
                6 => Event::Nmi(next(2_000)),
                7 => Event::Calls(name("call")),
                _ => Does(name("work")),
            };
            timeline.on_event(at, event);
        }
        let from = next(20_000);
        let until = from + 1 + next(20_000);
        let found = timeline.verdict(from, until, &mut Beyond::default());
        assert_eq!(found.parts.iter().map(|(_, nanos)| nanos).sum::<u64>(), until - from);
        assert_eq!(found.parts[0].0, found.cause);
        assert!(found.parts.windows(2).all(|two| two[0].1 >= two[1].1));
    }
}
