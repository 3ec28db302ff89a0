//! A start that does not arrive is told again, by whichever controller is there.

use control::{Action, ChannelId, Control, ControlRules, Part, Progress};
use core::time::Duration;
use messages::{Beat, Echo, FromWorker, Hello, Readiness, Standing, ToWorker, Token};
use wire::Time;

const CHANNEL: ChannelId = ChannelId(1);

fn control(now: Time) -> Control<u64> {
    let rules = ControlRules {
        token: Token::new(7),
        version: "1".to_owned(),
        setups: vec!["plan".to_owned()],
        prepare: Duration::from_secs(10),
        load: Duration::from_secs(5),
        start_tolerance: Duration::from_millis(50),
    };
    Control::new(rules, now)
}

fn say(control: &mut Control<u64>, word: FromWorker<Part<u64>, ()>, now: Time) {
    control.on_message(CHANNEL, word, now, now);
}

/// What is sent now, probes answered by a clock that is an hour ahead.
fn sent(control: &mut Control<u64>, now: &mut Time) -> Vec<ToWorker> {
    let mut all = Vec::new();
    while let Some(action) = control.poll_action() {
        let Action::Send { message, .. } = action else { continue };
        if let ToWorker::Probe { number } = message {
            let at = now.as_nanos() + 3_600_000_000_000;
            *now = *now + Duration::from_micros(100);
            say(control, FromWorker::Echo(Echo { number, received_ns: at, sent_ns: at }), *now);
        } else {
            all.push(message);
        }
    }
    all
}

/// A worker that came, whose clock is known.
fn came(control: &mut Control<u64>, now: &mut Time) {
    control.on_connected(CHANNEL, *now);
    let hello = Hello { token: Token::new(7).of_worker(0), worker: 0, instance: 5, version: "1".to_owned() };
    say(control, FromWorker::Hello(hello), *now);
    for _ in 0..20 {
        assert_eq!(sent(control, now), []);
        *now = *now + Duration::from_millis(25);
        control.on_time(*now);
    }
}

#[test]
fn a_start_is_told_until_the_worker_says_that_it_knows() {
    let mut now = Time::from_millis(1_000);
    let mut control = control(now);
    came(&mut control, &mut now);
    let ready = Readiness { open: 4, silos: 1, setup: "plan".to_owned() };
    say(&mut control, FromWorker::Ready(ready), now);
    assert_eq!(sent(&mut control, &mut now), [], "an earlier controller may have told it a start: it is to say so");
    let beat = |standing, start_ns| FromWorker::Beat(Beat { standing, start_ns, ..Beat::default() });
    say(&mut control, beat(Standing::Ready, None), now);
    let first = sent(&mut control, &mut now);
    let [ToWorker::Start { at_ns }] = first[..] else { panic!("{first:?}") };
    let start = control.start().expect("it is set");
    assert!(at_ns.abs_diff(start.as_nanos() + 3_600_000_000_000) <= 50_000, "by its own clock");
    for _ in 0..3 {
        now = now + Duration::from_millis(900);
        say(&mut control, beat(Standing::Ready, None), now);
        assert_eq!(sent(&mut control, &mut now), [], "not yet");
        now = now + Duration::from_millis(101);
        control.on_time(now);
        assert_eq!(sent(&mut control, &mut now), first, "the same time");
    }
    say(&mut control, beat(Standing::Loading, Some(at_ns)), now);
    now = now + Duration::from_millis(1_100);
    control.on_time(now);
    assert_eq!((sent(&mut control, &mut now), control.progress()), (Vec::new(), Progress::Loading));
}

#[test]
fn a_controller_that_takes_anothers_place_keeps_the_start_that_was_told() {
    let mut now = Time::from_millis(1_000);
    let mut control = control(now);
    came(&mut control, &mut now);
    let told = now.as_nanos() + 3_600_000_000_000 - 200_000_000;
    let beat = Beat { standing: Standing::Loading, start_ns: Some(told), ..Beat::default() };
    say(&mut control, FromWorker::Beat(beat), now);
    assert_eq!((sent(&mut control, &mut now), control.progress()), (Vec::new(), Progress::Loading));
    let start = control.start().expect("it was told").as_nanos();
    assert!(start.abs_diff(told - 3_600_000_000_000) <= 50_000, "{start}");
}
