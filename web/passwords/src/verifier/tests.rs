use super::*;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::path::PathBuf;

/// A file of users that goes away.
struct Users(PathBuf);

impl Users {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nearside-users-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("written");
        Self(path)
    }

    fn of(&self, user: &str, password: &str) -> Credentials {
        let file = self.0.as_os_str().as_encoded_bytes().into();
        Credentials { file, user: user.as_bytes().into(), password: password.as_bytes().into() }
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

struct Asked {
    verifier: Verifier,
    event: Arc<OwnedFd>,
}

impl Asked {
    fn new(limits: VerifierLimits) -> Self {
        let event = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).expect("an event"));
        Self { verifier: Verifier::start(limits, &event, &[]).expect("started"), event }
    }

    /// As a silo that sleeps does.
    fn next(&mut self) -> (u64, Verdict) {
        loop {
            if self.verifier.arrived()
                && let Some(done) = self.verifier.take()
            {
                // There may be more.
                self.verifier.seen = self.verifier.seen.wrapping_sub(1);
                return done;
            }
            poll(&mut [PollFd::new(&*self.event, PollFlags::IN)], None).expect("an event");
            let _ = rustix::io::read(&*self.event, &mut [0; 8]);
        }
    }

    fn ask(&mut self, credentials: Credentials, now: u64) -> Verdict {
        let now = Time::ZERO + Duration::from_secs(now);
        self.verifier.submit(7, None, credentials, now).expect("room");
        let (ticket, verdict) = self.next();
        assert_eq!(ticket, 7);
        verdict
    }
}

#[test]
fn verdicts_are_those_of_the_file() {
    let users = Users::new("verdicts", "a:{PLAIN}right\nb:$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1\nc:!nohash\n");
    let mut asked = Asked::new(VerifierLimits::default());
    for (user, password, verdict) in [
        ("a", "right", Verdict::Right),
        ("a", "wrong", Verdict::Mismatch),
        ("b", "secret", Verdict::Right),
        ("b", "right", Verdict::Mismatch),
        ("c", "secret", Verdict::Unusable),
        ("d", "right", Verdict::NoUser),
    ] {
        assert_eq!(asked.ask(users.of(user, password), 0), verdict, "{user} {password}");
    }
    let of = |file: &str| Credentials { file: file.as_bytes().into(), ..users.of("a", "right") };
    assert_eq!(asked.ask(of("/nonexistent/users"), 0), Verdict::NoFile);
    assert_eq!(asked.ask(of("/tmp"), 0), Verdict::Unreadable);
    assert_eq!(asked.ask(of("/dev/zero"), 0), Verdict::Unreadable);
    assert_eq!(format!("{:?}", users.of("a", "right")).find("right"), None);
}

/// Known for a moment, and no longer when the file is another.
#[test]
fn a_file_that_changed_is_read_again() {
    let users = Users::new("changes", "a:{PLAIN}right\n");
    let mut asked = Asked::new(VerifierLimits::default());
    assert_eq!(asked.ask(users.of("a", "right"), 0), Verdict::Right);
    assert_eq!(asked.ask(users.of("a", "right"), 5), Verdict::Right);
    // As an editor does it: another file takes its place.
    let other = Users::new("changed", "a:{PLAIN}other\n");
    std::fs::rename(&other.0, &users.0).expect("renamed");
    assert_eq!(asked.ask(users.of("a", "right"), 6), Verdict::Mismatch);
    assert_eq!(asked.ask(users.of("a", "other"), 6), Verdict::Right);
}

#[test]
fn what_was_right_is_known_for_a_moment() {
    let limits = VerifierLimits { known: Duration::from_secs(10), known_most: 2, ..VerifierLimits::default() };
    let at = |second| Time::ZERO + Duration::from_secs(second);
    let keys = [std::hash::RandomState::new(), std::hash::RandomState::new()];
    let mut known = worker_known(keys);
    known.add(1, at(0), &limits);
    assert!(known.has(1, at(9)) && !known.has(1, at(10)) && !known.has(2, at(0)));
    known.add(1, at(9), &limits);
    known.add(2, at(9), &limits);
    assert!(known.has(1, at(18)) && known.has(2, at(18)));
    known.add(3, at(9), &limits);
    assert!(known.has(3, at(9)) && known.until.len() <= 2 && known.order.len() <= 2);
}

fn worker_known(keys: [std::hash::RandomState; 2]) -> worker::Known {
    worker::Known { keys, until: Default::default(), order: Default::default() }
}

#[test]
fn a_client_has_only_so_many_in_line() {
    let users = Users::new("busy", "a:{PLAIN}right\n");
    let mut asked = Asked::new(VerifierLimits { all: 5, source: 3, ..VerifierLimits::default() });
    let (one, other) = ("2001:db8::1".parse().ok(), "2001:db8:0:1::1".parse().ok());
    // Nothing is taken meanwhile: what is found out counts as waiting.
    let mut submit = |ticket, source| asked.verifier.submit(ticket, source, users.of("a", "right"), Time::ZERO);
    assert!((0..3).all(|ticket| submit(ticket, one).is_ok()));
    assert_eq!(submit(3, "2001:db8::2".parse().ok()), Err(Busy::Source));
    assert!((4..6).all(|ticket| submit(ticket, other).is_ok()));
    assert_eq!(submit(6, None), Err(Busy::All));
    let mut tickets: Vec<_> = (0..5).map(|_| asked.next().0).collect();
    tickets.sort_unstable();
    assert_eq!(tickets, [0, 1, 2, 4, 5]);
    assert_eq!((asked.verifier.waiting(), asked.verifier.sources.len()), (0, 0));
    assert_eq!(asked.ask(users.of("a", "right"), 0), Verdict::Right);
}

/// A client with a long line does not hold up another.
#[test]
fn clients_take_turns() {
    let users = Users::new("turns", "a:{PLAIN}right\n");
    let limits = VerifierLimits { all: 64, source: 32, ..VerifierLimits::default() };
    let (mut jobs, jobs_out) = RingBuffer::new(64);
    let (done_in, mut done) = RingBuffer::new(64);
    let event = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).expect("an event"));
    let shared = Arc::new(Shared::default());
    for ticket in 0..33 {
        // The last one is another's.
        let source = Some((false, u64::from(ticket == 32)));
        let job = Job { ticket, source, credentials: users.of("a", "right"), now: Time::ZERO };
        jobs.push(job).expect("room");
    }
    let mut worker = Worker::new(limits, jobs_out, done_in, Arc::clone(&shared), event);
    // All that there is, and no more.
    worker.work();
    assert_eq!(shared.posted.load(Ordering::Acquire), 33);
    let order: Vec<_> = core::iter::from_fn(|| done.pop().ok()).map(|done| done.ticket).collect();
    assert_eq!((order.len(), &order[..3]), (33, &[0, 32, 1][..]));
}
