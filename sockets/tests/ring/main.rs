//! The kernel data path over real sockets of this machine, with io_uring: the
//! tests of `tests/all`, which must not tell the difference.

#[path = "../all/anything.rs"]
mod anything;
#[path = "../all/connecting.rs"]
mod connecting;
#[path = "../all/ends.rs"]
mod ends;
#[path = "../all/files.rs"]
mod files;
#[path = "../all/listening.rs"]
mod listening;
#[path = "../all/pressure.rs"]
mod pressure;
#[path = "../all/resuming.rs"]
mod resuming;
#[path = "../all/secured.rs"]
mod secured;
#[path = "../all/serving.rs"]
mod serving;
#[path = "../all/steering.rs"]
mod steering;
#[path = "../all/support/mod.rs"]
mod support;
#[path = "../all/timers.rs"]
mod timers;
#[path = "../all/unix.rs"]
mod unix;

use support::puppet::{Do, Seen, Theatre};

/// What the workers of these tests use.
const ENGINE: sockets::Engine = sockets::Engine::IoUring;

/// They are workers.
const BESIDE: bool = false;

/// Else the rest would show nothing. Without io_uring it says so and passes,
/// unless `CI` or `NEARSIDE_REQUIRE_TOOLS` says that it must run.
#[test]
fn the_ring_is_to_be_had() {
    let config = sockets::Config { engine: ENGINE, ..sockets::Config::default() };
    let worker = sockets::Worker::new(config, Vec::new(), support::Echo::default()).unwrap();
    if let (sockets::Engine::Epoll, Some(why)) = worker.engine() {
        let required = |name| std::env::var_os(name).is_some();
        assert!(!required("CI") && !required("NEARSIDE_REQUIRE_TOOLS"), "{why}");
        println!("skipped: {why}");
    }
}

/// What readiness alone can is refused: the application passes bytes on by itself.
#[test]
fn a_ring_passes_nothing_on() {
    let config = sockets::Config { engine: ENGINE, ..sockets::Config::default() };
    let worker = sockets::Worker::new(config.clone(), Vec::new(), support::Echo::default()).unwrap();
    if worker.engine().0 == sockets::Engine::Epoll {
        return println!("skipped: no ring");
    }
    let (listeners, address) = support::listen(sockets::Model::Reuseport, 1);
    let theatre = Theatre::open(config, listeners.for_worker(0));
    let streams = [support::client(address), support::client(address)];
    let [from, to] = [theatre.opened(), theatre.opened()];
    theatre.tell(Do::Pass(from, to, 1));
    assert_eq!(theatre.next(), Seen::Passes(false));
    drop(streams);
    let _ = theatre.close();
}

/// Model `blocking` waits in accept(2), and says that it does.
#[test]
fn what_cannot_be_had_is_said() {
    let (listeners, _) = support::listen(sockets::Model::Blocking, 1);
    let config = sockets::Config { engine: ENGINE, model: sockets::Model::Blocking, ..sockets::Config::default() };
    let worker = sockets::Worker::new(config, listeners.for_worker(0), support::Echo::default()).unwrap();
    assert_eq!(worker.engine(), (sockets::Engine::Epoll, Some(&sockets::NoRing::Blocking)));
}
