//! Both sides at work at once: neither keeps the other from it, and a silo that
//! sleeps is woken by either.

use crate::support::beside::{address, half, run, silo_on};
use crate::support::{Echo, PATIENCE, client, listen, start_echo};
use app::{App, ConnId, Net, Opened};
use core::net::SocketAddr;
use cpu::Clock;
use link::{Pair, PairConfig};
use sockets::{Composite, Config, ConnectRoutes, Model};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const PORT: u16 = 80;

/// Asks again as soon as it is answered.
#[derive(Debug, Default)]
struct Asker {
    answers: u64,
    /// How much it asks at once.
    size: usize,
    got: usize,
}

impl App for Asker {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _: Opened) {
        net.send_bytes(id, &vec![b'n'; self.size]);
    }

    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        assert!(data.iter().all(|&byte| byte == b'n'));
        self.got += data.len();
        if self.got >= self.size {
            self.got -= self.size;
            self.answers += 1;
            net.send_bytes(id, &vec![b'n'; self.size]);
        }
        data.len()
    }
}

/// One floods, the other asks: whoever asks is answered, on either side, and
/// whoever floods goes on too.
#[test]
fn a_side_that_floods_does_not_starve_the_other() {
    const ANSWERS: u64 = 200;
    for (near_size, far_size) in [(10, 1 << 20), (64 * 1024, 10)] {
        let (listeners, at) = listen(Model::Reuseport, 1);
        let stop = Arc::new(AtomicBool::new(false));
        let far_answers = Arc::new(AtomicU64::new(0));
        let floods: Vec<_> = (0..4)
            .map(|_| {
                let (stop, answers) = (Arc::clone(&stop), Arc::clone(&far_answers));
                thread::spawn(move || {
                    let mut stream = client(at);
                    let reader = stream.try_clone().unwrap();
                    let (asked, mut got) = (vec![b'f'; far_size], vec![0; far_size]);
                    thread::scope(|scope| {
                        let answers = &answers;
                        scope.spawn(move || {
                            let mut reader = reader;
                            while reader.read_exact(&mut got).is_ok() {
                                assert!(got.iter().all(|&byte| byte == b'f'));
                                answers.fetch_add(1, Ordering::Relaxed);
                            }
                        });
                        while !stop.load(Ordering::Relaxed) && stream.write_all(&asked).is_ok() {}
                        let _ = stream.shutdown(std::net::Shutdown::Write);
                    });
                })
            })
            .collect();
        let (near, far) = Pair::new(PairConfig::default());
        let echo =
            Composite::new(Echo::default(), half(Config::default(), listeners.for_worker(0)), ConnectRoutes::default());
        let mut server = silo_on(near, 1, vec![PORT], echo);
        let mut asker = silo_on(far, 2, Vec::new(), Asker { size: near_size, ..Asker::default() });
        for _ in 0..4 {
            asker.stack.connect(None, SocketAddr::new(address(1), PORT)).unwrap();
        }
        let began = Clock.now();
        let (mut near_before, mut far_before) = (0, 0);
        // Both go on, from one end of this to the other.
        for round in 1..=4 {
            loop {
                let now = Clock.now();
                assert!(now.since(began) < PATIENCE, "round {round}: {near_before} {far_before}");
                asker.turn(now);
                server.turn(now);
                let far = far_answers.load(Ordering::Relaxed);
                if asker.app.answers >= near_before + ANSWERS / 4 && far >= far_before + 2 {
                    (near_before, far_before) = (asker.app.answers, far);
                    break;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        while floods.iter().any(|flood| !flood.is_finished()) {
            let now = Clock.now();
            assert!(now.since(began) < PATIENCE, "the floods to end");
            asker.turn(now);
            server.turn(now);
        }
        floods.into_iter().for_each(|flood| flood.join().unwrap());
        assert_eq!(server.app.app.opened, 8);
    }
}

/// With nothing else to end it, a sleep is ended by what comes over the kernel's
/// sockets: new connections and requests, each while the silo sleeps or on its way
/// there.
#[test]
fn a_silo_that_sleeps_is_woken_for_each() {
    let (listeners, at) = listen(Model::Reuseport, 1);
    let running = start_echo(Config::default(), listeners.for_worker(0));
    let mut kept = client(at);
    for round in 0..200_u32 {
        if round % 8 == 0 {
            // So that it is asleep for some, and falls asleep for others.
            thread::sleep(core::time::Duration::from_millis(2));
        }
        let mut fresh = client(at);
        for stream in [&mut fresh, &mut kept] {
            stream.write_all(&round.to_ne_bytes()).unwrap();
            let mut back = [0; 4];
            stream.read_exact(&mut back).unwrap();
            assert_eq!(back, round.to_ne_bytes());
        }
    }
    drop(kept);
    let (echo, counters) = running.stop();
    assert_eq!((echo.opened, echo.closed.len()), (201, 201));
    assert!(counters.waits < 200_000, "asked {} times: it did not sleep", counters.waits);
}

/// What an application asks of the kernel's connections when one of the stack's
/// ends is carried out, though no turn follows by itself.
#[test]
fn what_is_asked_for_outside_of_a_turn_wakes_the_silo() {
    use crate::support::beside::{Quiet, Strings};
    use silo::{Next, Silo};
    use std::net::TcpListener;
    use std::os::fd::{AsFd, BorrowedFd};

    /// Opens a connection, and ends it, from outside of a turn.
    #[derive(Default)]
    struct Outside {
        told: Vec<&'static str>,
    }
    impl App for Outside {
        fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _: Opened) {
            self.told.push("open");
            net.set_timer(id, Some(net.now() + core::time::Duration::from_millis(5)));
        }
        fn on_data<N: Net>(&mut self, _: &mut N, _: ConnId, data: &[u8]) -> usize {
            data.len()
        }
        fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
            self.told.push("timer");
            net.abort(id);
        }
        fn on_close<N: Net>(&mut self, _: &mut N, _: ConnId, _: app::Closed) {
            self.told.push("close");
        }
    }
    struct Once(SocketAddr, bool);
    impl Strings<Outside> for Once {
        const RINGS: bool = true;
        fn attend(&mut self, silo: &mut Silo<Quiet, Composite<Outside>>) -> Next {
            let Silo { stack, app, .. } = silo;
            if !core::mem::replace(&mut self.1, true) {
                let to = self.0;
                app.with(stack, |_, net| net.connect(None, to)).unwrap();
            }
            if app.app.told.last() == Some(&"close") { Next::Stop } else { Next::Go }
        }
        fn wake<'a>(&'a self, app: &'a Composite<Outside>) -> Option<BorrowedFd<'a>> {
            Some(app.half().as_fd())
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let silo = thread::spawn(move || run(Config::default(), Vec::new(), Outside::default(), Once(at, false)));
    let (app, counters) = silo.join().unwrap();
    assert_eq!(app.told, ["open", "timer", "close"]);
    assert_eq!((counters.connects, counters.closed), (1, 1));
}
