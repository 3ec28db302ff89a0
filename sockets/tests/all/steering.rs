//! Workers that tell what they have, and the program that deals out by it.

use crate::support::{Echo, PATIENCE, Until, ask, client, listen, on_engine};
use sockets::steer::{SteerError, Steering};
use sockets::{Config, Model, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Waits until the program sees `wanted`, in all.
fn settle(steering: &Steering, wanted: i64) {
    let mut left = PATIENCE;
    while steering.outstanding().iter().sum::<i64>() != wanted {
        assert!(!left.is_zero(), "{:?}", steering.outstanding());
        std::thread::sleep(Duration::from_millis(5));
        left = left.saturating_sub(Duration::from_millis(5));
    }
}

#[test]
fn what_workers_have_is_what_the_program_sees() {
    let (listeners, address) = listen(Model::Least, 2);
    let steering = match Steering::attach(&listeners, &[None, None], &topology::Topology::here().unwrap()) {
        Ok(steering) => steering.unwrap(),
        Err(SteerError::Kernel(e)) if std::env::var_os("NEARSIDE_REQUIRE_TOOLS").is_none() => {
            return println!("skipped: {e}; run as root");
        }
        Err(e) => panic!("{e}"),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let running: Vec<_> = (0..2)
        .map(|index| {
            let (listeners, seat) = (listeners.for_worker(index), steering.seat(index));
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let config = Config { model: Model::Least, ..Config::default() };
                let mut worker = Worker::new(on_engine(config), listeners, Echo::default()).unwrap();
                worker.set_seat(seat);
                worker.run(&mut Until(stop)).unwrap();
                worker.app.opened
            })
        })
        .collect();
    for _ in 0..3 {
        let mut clients: Vec<_> = (0..20).map(|_| client(address)).collect();
        clients.iter_mut().for_each(|client| ask(client, b"least"));
        assert_eq!(steering.outstanding(), [10, 10]);
        drop(clients);
        settle(&steering, 0);
    }
    assert_eq!(steering.chosen().unwrap().any, 60);
    stop.store(true, Ordering::Relaxed);
    let opened: Vec<u64> = running.into_iter().map(|thread| thread.join().unwrap()).collect();
    assert_eq!(opened, [30, 30]);
    // Workers that ended are chosen no more.
    assert!(steering.outstanding().iter().all(|work| *work >= 1 << 30));
}
