//! Whose turn it is.

use crate::asking::{self, Asker};
use crate::order::{StapleOrder, are_taken, take_orders};
use crate::times::{after_answer, after_failures};
use core::time::Duration;
use helper::Behind;
use resolver::Resolver;
use rustix::event::{EventfdFlags, eventfd};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Starts the thread on `cpus`, if there is none yet: by whoever may start threads.
///
/// # Errors
/// The system has no more threads or descriptors.
pub fn start(cpus: &[usize]) -> std::io::Result<()> {
    if are_taken() {
        return Ok(());
    }
    let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
    let resolver = Resolver::start(cpus)?;
    resolver.wake_by(&event);
    // Another silo may have been faster.
    let Some(receiver) = take_orders() else { return Ok(()) };
    let asker = Asker { resolver, event, ticket: 0 };
    helper::spawn_behind("stapler", cpus, Behind::Last, move || run(&receiver, asker)).map(drop)
}

/// An order, and when it is asked next.
struct Due {
    order: Weak<StapleOrder>,
    at: Instant,
    failures: u32,
}

#[expect(clippy::disallowed_methods, reason = "the thread waits, and knows for how long; no silo does")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "answers are valid by the wall clock")]
fn unix_second() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

fn run(orders: &Receiver<Weak<StapleOrder>>, mut asker: Asker) {
    let mut all: Vec<Due> = Vec::new();
    loop {
        all.retain(|due| due.order.strong_count() > 0);
        let next = all.iter().map(|due| due.at).min();
        let wait = next.map_or(Duration::from_secs(3_600), |at| at.saturating_duration_since(now()));
        match orders.recv_timeout(wait) {
            Ok(order) => all.push(Due { order, at: now(), failures: 0 }),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let due = all.iter_mut().filter(|due| due.at <= now()).min_by_key(|due| due.at);
        if let Some(due) = due
            && let Some(order) = due.order.upgrade()
        {
            let wait = ask(&order, &mut asker, &mut due.failures);
            due.at = now() + Duration::from_secs(wait);
        }
    }
}

/// Asks once. Returns in how many seconds it is asked again.
fn ask(order: &StapleOrder, asker: &mut Asker, failures: &mut u32) -> u64 {
    let answer = asking::ask(order, asker);
    let second = unix_second();
    let taken =
        answer.and_then(|(answer, peer)| order.take(answer, second).map_err(|why| (why.to_string(), Some(peer))));
    match taken {
        Ok(good) => {
            *failures = 0;
            after_answer(second, good.next_update)
        }
        Err((why, peer)) => {
            order.note_fault(&why, peer);
            *failures = failures.saturating_add(1);
            after_failures(*failures)
        }
    }
}
