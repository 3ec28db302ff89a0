//! Workers that end before their time, or fall silent together: the test ends then, and each is named with the reason.

use control::{Action, ChannelId, Control, ControlRules, Gone, Part, ProblemKind, Progress};
use core::time::Duration;
use messages::{Beat, Echo, FromWorker, Hello, Readiness, Standing, ToWorker, Token};
use wire::Time;

const WORKERS: u32 = 3;

struct Run {
    control: Control<u64>,
    now: Time,
    /// Who still says something.
    alive: [bool; WORKERS as usize],
}

impl Run {
    /// A load of a minute that has begun.
    fn loading() -> Self {
        let now = Time::from_millis(1_000);
        let rules = ControlRules {
            token: Token::new(7),
            version: "1".to_owned(),
            setups: vec!["plan".to_owned(); WORKERS as usize],
            prepare: Duration::from_secs(10),
            load: Duration::from_secs(60),
            start_tolerance: Duration::from_secs(9),
        };
        let mut run = Self { control: Control::new(rules, now), now, alive: [true; WORKERS as usize] };
        for worker in 0..WORKERS {
            run.control.on_connected(channel(worker), now);
            let hello = Hello { token: Token::new(7).of_worker(worker), worker, instance: 5, version: "1".to_owned() };
            run.say(worker, FromWorker::Hello(hello));
        }
        run.pass(500);
        for worker in 0..WORKERS {
            let ready = Readiness { open: 4, silos: 1, setup: "plan".to_owned() };
            run.say(worker, FromWorker::Ready(ready));
        }
        run.pass(2_000);
        assert_eq!(run.control.progress(), Progress::Loading);
        run
    }

    fn say(&mut self, worker: u32, word: FromWorker<Part<u64>, ()>) {
        self.control.on_message(channel(worker), word, self.now, self.now);
    }

    fn measured(&mut self, worker: u32) {
        let part = Part { measured: 1, begun_ns: vec![self.now.as_nanos()], faults: Vec::new() };
        self.say(worker, FromWorker::Measured(part));
    }

    /// Time goes on; who is alive answers, says so twice a second, and says what it measured when it is told to stop.
    fn pass(&mut self, ms: u32) {
        for step in 0..ms / 10 {
            self.now = self.now + Duration::from_millis(10);
            let standing = if self.control.start().is_some() { Standing::Loading } else { Standing::Ready };
            if step % 40 == 0 {
                let alive = self.alive;
                for worker in (0..WORKERS).filter(|worker| alive[*worker as usize]) {
                    let start_ns = self.control.start().map(Time::as_nanos);
                    self.say(worker, FromWorker::Beat(Beat { standing, start_ns, ..Beat::default() }));
                }
            }
            self.control.on_time(self.now);
            while let Some(action) = self.control.poll_action() {
                let Action::Send { channel: to, message } = action else { continue };
                let worker = (0..WORKERS).find(|worker| channel(*worker) == to).expect("one of them");
                if !self.alive[worker as usize] {
                    continue;
                }
                match message {
                    ToWorker::Probe { number } => {
                        let at = self.now.as_nanos();
                        self.say(worker, FromWorker::Echo(Echo { number, received_ns: at, sent_ns: at }));
                    }
                    ToWorker::Stop => self.measured(worker),
                    _ => {}
                }
            }
        }
    }

    fn problems(self) -> Vec<(Option<u32>, ProblemKind, String)> {
        assert_eq!(self.control.progress(), Progress::Over, "it ends then, and not with the load");
        let problems = self.control.into_outcome().problems;
        problems.into_iter().map(|one| (one.worker, one.kind, one.what)).collect()
    }
}

fn channel(worker: u32) -> ChannelId {
    ChannelId(u64::from(worker) + 1)
}

#[test]
fn a_load_that_ends_before_its_time_ends_the_test_and_is_named() {
    let mut run = Run::loading();
    run.measured(1);
    run.pass(4_000);
    let problems = run.problems();
    let [(Some(1), ProblemKind::OutOfStep, what)] = &problems[..] else { panic!("{problems:?}") };
    assert!(what.starts_with("its load ended 58.") && what.ends_with(" s before its time"), "{what}");
}

#[test]
fn whose_place_was_taken_from_it_is_named_so_though_it_said_what_it_had() {
    let mut run = Run::loading();
    run.measured(1);
    run.pass(1_500);
    assert_eq!(run.control.progress(), Progress::Loading, "it may be known soon why");
    let now = run.now;
    run.control.on_gone(1, Gone::Evicted, now);
    run.pass(100);
    let problems = run.problems();
    let [(Some(1), ProblemKind::Evicted, what)] = &problems[..] else { panic!("{problems:?}") };
    assert!(what.starts_with("its place was taken from it: its load ended 58."), "{what}");
}

#[test]
fn of_workers_that_fall_silent_together_each_is_named_and_no_other() {
    for gap in [10, 100, 400] {
        let mut run = Run::loading();
        // The last word of one is a little later than that of the other.
        run.alive[0] = false;
        run.pass(gap);
        run.alive[2] = false;
        run.pass(6_000);
        let lost: Vec<(Option<u32>, ProblemKind)> = run.problems().into_iter().map(|one| (one.0, one.1)).collect();
        assert_eq!(lost, [(Some(0), ProblemKind::Lost), (Some(2), ProblemKind::Lost)], "{gap}");
    }
}
