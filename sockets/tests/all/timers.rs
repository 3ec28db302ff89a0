//! Timers of the application, over the real clock.

use crate::support::puppet::{Do, Seen, Theatre};
use crate::support::{client, listen};
use sockets::{Config, Model};
use std::time::Duration;

/// Never early; the last setting counts.
#[test]
fn timers_are_never_early() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let stream = client(address);
    let id = theatre.opened();
    for micros in [0, 1, 300, 999, 1_000, 1_001, 2_500, 7_000, 30_000, 80_000] {
        theatre.tell(Do::Timer(id, Some(Duration::from_secs(3_600))));
        theatre.tell(Do::Timer(id, Some(Duration::from_micros(micros))));
        let Seen::Timer(at, wanted, now) = theatre.next() else { panic!("the timer") };
        assert_eq!(at, id);
        assert!(now >= wanted, "{micros} µs: {:?} early", wanted.since(now));
    }
    // In one turn, because on a busy machine the first may run out before the
    // second is told.
    let cleared = [Some(Duration::from_millis(20)), None, Some(Duration::from_millis(60))];
    theatre.tell(Do::All(cleared.map(|after| Do::Timer(id, after)).into()));
    let Seen::Timer(_, wanted, now) = theatre.next() else { panic!("the timer") };
    assert!(now >= wanted, "the one that was cleared did not run out");
    drop(stream);
    assert_eq!(theatre.next(), Seen::End(id, 0));
    assert_eq!(theatre.close().timers, 11);
}
