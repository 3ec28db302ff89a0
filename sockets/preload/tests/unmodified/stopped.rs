//! A worker is stopped (SIGSTOP) while there is much to do, and goes on later.

use crate::server::{CURL, LARGE, NGINX, Over, Server, ask, send, worker};
use interop::{Program, Raised, in_namespace, wait_for};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const NEEDED: &[Program] = &[NGINX, CURL];

/// How often a worker is stopped: some of the times it is amid a turn at the link.
const TIMES: usize = 40;

/// A connection that is kept, and the worker that has it.
struct Kept {
    stream: TcpStream,
    worker: i32,
}

impl Kept {
    fn open() -> Self {
        let stream = TcpStream::connect("10.9.0.2:80").unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut this = Self { stream, worker: 0 };
        this.worker = this.ask();
        this
    }

    /// Asks which process answers.
    fn ask(&mut self) -> i32 {
        self.stream.write_all(b"GET /pid HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> i32 {
        let mut answer = String::new();
        loop {
            let mut some = [0; 512];
            let len = self.stream.read(&mut some).unwrap();
            assert!(len > 0, "{answer}");
            answer.push_str(std::str::from_utf8(&some[..len]).unwrap());
            if let Some((head, body)) = answer.split_once("\r\n\r\n")
                && head.contains(&format!("Content-Length: {}\r\n", body.len()))
            {
                return body.parse().unwrap();
            }
        }
    }
}

fn workers() -> BTreeSet<i32> {
    (0..40).map(|_| ask("/pid").unwrap().parse().unwrap()).collect()
}

/// Other workers' connections, and new ones, are served meanwhile, wherever the one stands; its own go on
/// with it.
pub fn a_worker_that_is_stopped_keeps_nobody_else(over: Over) {
    in_namespace(NEEDED, move || {
        let mut server = Server::start(over, "stopped");
        server.configure(|text| {
            let text = text.replace("worker_processes 1", "worker_processes 2");
            text.replace("sendfile on;", "sendfile on; keepalive_requests 1000000000;")
        });
        let old = worker();
        server.command("reload");
        wait_for("two workers", || !workers().contains(&old) && workers().len() == 2);
        let stopped = workers().pop_first().unwrap();
        let (mut its, mut others) = (Vec::new(), Vec::new());
        while its.len() < 2 || others.len() < 4 {
            let kept = Kept::open();
            if kept.worker == stopped { its.push(kept) } else { others.push(kept) }
        }
        let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let stop = Raised(&done);
            for kept in others {
                let (done, answered) = (&done, &answered);
                scope.spawn(move || {
                    let mut kept = kept;
                    while !done.load(Ordering::Relaxed) {
                        assert_ne!(kept.ask(), stopped);
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            // Whoever is stopped has much to do, too.
            let done = &done;
            let download = scope.spawn(move || {
                let mut fetched = 0;
                while !done.load(Ordering::Relaxed) {
                    let mut kept = Kept::open();
                    kept.stream.write_all(b"GET /large HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").unwrap();
                    let mut answer = Vec::new();
                    kept.stream.read_to_end(&mut answer).unwrap();
                    assert!(answer.len() > LARGE, "{} bytes", answer.len());
                    fetched += 1;
                }
                fetched
            });
            for time in 0..TIMES {
                // At another moment each time.
                std::thread::sleep(Duration::from_micros(3_000 + 137 * time as u64));
                send(stopped, Signal::STOP);
                let before = answered.load(Ordering::Relaxed);
                wait_for("answers of the other worker", || answered.load(Ordering::Relaxed) > before + 8);
                if time % 8 == 0 {
                    // New connections find who is there; the first may have to ask again.
                    (0..4).for_each(|_| assert_ne!(ask("/pid").unwrap(), stopped.to_string()));
                }
                if time % 4 == 0 {
                    its[0].stream.write_all(b"GET /pid HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
                }
                send(stopped, Signal::CONT);
                if time % 4 == 0 {
                    assert_eq!(its[0].answer(), stopped);
                }
            }
            drop(stop);
            assert!(download.join().unwrap() > 0);
        });
        its.iter_mut().for_each(|kept| assert_eq!(kept.ask(), stopped));
        server.command("quit");
        server.ended();
    });
}
