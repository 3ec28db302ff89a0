//! Several workers at once: reloads, another number of them, one that is killed, another binary.

use crate::server::{LARGE, Over, Server, ask, get, is_followed, send, worker};
use interop::{Program, Raised, in_namespace, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const NEEDED: &[Program] = &[crate::server::NGINX, crate::server::CURL];

/// A download at leisure.
struct Download {
    stream: TcpStream,
    got: Vec<u8>,
}

impl Download {
    fn begin() -> Self {
        let mut stream = TcpStream::connect("10.9.0.2:80").unwrap();
        stream.write_all(b"GET /large HTTP/1.0\r\n\r\n").unwrap();
        Self { stream, got: Vec::new() }
    }

    /// The same, of a worker that says which it is.
    fn begin_with() -> (i32, Self) {
        let mut stream = TcpStream::connect("10.9.0.2:80").unwrap();
        stream.write_all(b"GET /pid HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        let mut answer = String::new();
        let is_whole = |answer: &str| {
            let (head, body) = answer.split_once("\r\n\r\n")?;
            let length = head.split_once("Content-Length: ")?.1.lines().next()?;
            (length.parse() == Ok(body.len())).then(|| body.parse().ok())?
        };
        let worker = loop {
            let mut some = [0; 512];
            let len = stream.read(&mut some).unwrap();
            assert!(len > 0, "{answer}");
            answer.push_str(std::str::from_utf8(&some[..len]).unwrap());
            if let Some(worker) = is_whole(&answer) {
                break worker;
            }
        };
        stream.write_all(b"GET /large HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").unwrap();
        let mut download = Self { stream, got: Vec::new() };
        download.read(1_000);
        (worker, download)
    }

    /// Reads so many bytes more.
    fn read(&mut self, bytes: usize) {
        let from = self.got.len();
        self.got.resize(from + bytes, 0);
        self.stream.read_exact(&mut self.got[from..]).unwrap();
    }

    /// Reads what is left, and looks whether all came.
    fn end(mut self, server: &Server) {
        self.stream.read_to_end(&mut self.got).unwrap();
        let body = self.got.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
        let whole = fs::read(server.folder.join("html/large")).unwrap();
        assert!(self.got[body..] == whole, "{} of {LARGE} bytes", self.got.len() - body);
    }
}

/// The processes that answer, as many requests tell.
fn workers(requests: usize) -> BTreeSet<i32> {
    (0..requests).map(|_| ask("/pid").unwrap().parse().unwrap()).collect()
}

pub fn a_download_outlives_three_reloads(over: Over) {
    in_namespace(NEEDED, move || {
        let mut server = Server::start(over, "download");
        let mut download = Download::begin();
        for _ in 0..3 {
            download.read(200_000);
            let old = worker();
            server.command("reload");
            wait_for("a worker of the new configuration", || is_followed(old));
        }
        download.end(&server);
        server.command("quit");
        server.ended();
    });
}

pub fn workers_become_more_and_fewer(over: Over) {
    in_namespace(NEEDED, move || {
        let mut server = Server::start(over, "number");
        for count in [3, 1, 2] {
            let before = workers(20);
            server.configure(|text| {
                let (_, rest) = text.split_once(';').unwrap();
                format!("worker_processes {count};{rest}")
            });
            server.command("reload");
            wait_for("as many workers as are configured", || {
                let now = workers(40);
                now.is_disjoint(&before) && now.len() == count
            });
        }
        server.command("quit");
        server.ended();
    });
}

/// What one worker has is its own, whatever becomes of another.
pub fn one_of_two_workers_is_killed(over: Over) {
    in_namespace(NEEDED, move || {
        let mut server = Server::start(over, "one-of-two");
        server.configure(|text| text.replace("worker_processes 1", "worker_processes 2"));
        let old = worker();
        server.command("reload");
        wait_for("two workers", || !workers(1).contains(&old) && workers(40).len() == 2);
        for killed in workers(40) {
            // Two of each worker's.
            let mut of_killed = Vec::new();
            let mut of_other = Vec::new();
            while of_killed.len() < 2 || of_other.len() < 2 {
                let (worker, download) = Download::begin_with();
                if worker == killed { of_killed.push(download) } else { of_other.push(download) }
            }
            send(killed, Signal::KILL);
            wait_for("another worker", || {
                let now = (0..40).map(|_| ask("/pid").ok()?.parse().ok()).collect::<Option<BTreeSet<i32>>>();
                now.is_some_and(|now| !now.contains(&killed) && now.len() == 2)
            });
            of_other.into_iter().for_each(|download| download.end(&server));
            for mut download in of_killed {
                // It says nothing, and hears of it nonetheless.
                download.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                let failed = download.stream.read_to_end(&mut download.got).expect_err("it is reset");
                assert_eq!(failed.kind(), ErrorKind::ConnectionReset, "{failed}");
                assert!(download.got.len() < LARGE, "what it had is all that came");
            }
        }
        server.command("quit");
        server.ended();
    });
}

/// No request fails: not one of those that wait to be accepted when a worker closes its listener,
/// and not one that comes while workers follow each other.
pub fn nobody_notices_a_reload(over: Over) {
    in_namespace(NEEDED, move || {
        let mut server = Server::start(over, "noticed");
        let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let stop = Raised(&done);
            for _ in 0..4 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        assert_eq!(ask("/small").unwrap(), "a small file\n");
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..5 {
                let (old, before) = (worker(), answered.load(Ordering::Relaxed));
                server.command("reload");
                wait_for("a worker of the new configuration", || worker() != old);
                wait_for("more answers", || answered.load(Ordering::Relaxed) > before + 20);
            }
            drop(stop);
        });
        server.command("quit");
        server.ended();
    });
}

/// Nor does one fail whose handshake is under way with a worker that lets its listener go, and ends, for it has nobody
/// else: answers to SYNs wait here.
pub fn no_handshake_fails_where_its_worker_ends(over: Over) {
    in_namespace(NEEDED, move || {
        let mut server = Server::start_with(over, "handshakes", &["--tx-delay", "100ms"]);
        server.configure(|text| text.replace("worker_processes 1", "worker_processes 2"));
        server.command("reload");
        let workers = || {
            let children = Command::new("pgrep").args(["-P", &server.master().unwrap().to_string()]).output().unwrap();
            let children = String::from_utf8(children.stdout).unwrap();
            children.lines().map(|child| child.parse().unwrap()).collect::<Vec<i32>>()
        };
        for _ in 0..12 {
            wait_for("two workers that have nobody", || {
                // What was there before is over.
                std::thread::sleep(Duration::from_millis(500));
                workers().len() == 2
            });
            let asks = std::thread::spawn(|| ask("/small"));
            std::thread::sleep(Duration::from_millis(40));
            // Its master starts another.
            let one = workers()[0];
            send(one, Signal::QUIT);
            assert_eq!(asks.join().unwrap().unwrap(), "a small file\n");
            wait_for("its end", || {
                // A signal that comes before it sleeps is seen with the next event, as with the kernel's calls.
                std::thread::sleep(Duration::from_millis(100));
                let _ = Pid::from_raw(one).map(|one| kill_process(one, Signal::QUIT));
                !workers().contains(&one)
            });
        }
        server.command("quit");
        server.ended();
    });
}

/// Asks on one connection, again and again, until that ends: whether its end came in order.
fn ask_until_the_end(at: u64, asked: &AtomicUsize) -> bool {
    let mut stream = TcpStream::connect("10.9.0.2:80").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    for round in 0.. {
        let sent = stream.write_all(b"GET /small HTTP/1.1\r\nHost: here\r\n\r\n");
        let (mut answer, mut some) = (Vec::new(), [0; 4_096]);
        while !answer.ends_with(b"a small file\n") {
            match stream.read(&mut some) {
                Ok(0) if answer.is_empty() => return true,
                Ok(0) => panic!("half an answer"),
                Ok(length) => answer.extend_from_slice(&some[..length]),
                Err(why) if why.kind() == ErrorKind::ConnectionReset => return false,
                Err(why) => panic!("{why}, {sent:?}"),
            }
        }
        asked.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis((at * 13 + round * 7) % 50));
    }
    unreachable!("there is no end of numbers")
}

/// A worker that ends closes connections that rest, while their clients may just ask for more: as on the kernel's
/// sockets the end reaches them, and a reset only whom it had heard and not read, which are few.
pub fn kept_connections_end_in_order_at_a_reload(over: Over) {
    const CLIENTS: u64 = 20;
    in_namespace(NEEDED, move || {
        let mut server = Server::start(over, "kept");
        let mut orderly = Vec::new();
        for _ in 0..6 {
            let asked = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                let asked = &asked;
                let clients: Vec<_> =
                    (0..CLIENTS).map(|at| scope.spawn(move || ask_until_the_end(at, asked))).collect();
                wait_for("answers", || asked.load(Ordering::Relaxed) > 5 * CLIENTS as usize);
                server.command("reload");
                orderly.extend(clients.into_iter().map(|client| client.join().unwrap()));
            });
        }
        let resets = orderly.iter().filter(|orderly| !**orderly).count();
        assert!(resets * 20 <= orderly.len(), "{resets} of {} were reset", orderly.len());
        server.command("quit");
        server.ended();
    });
}

/// The old binary's master is killed amid the change: its workers go on, and so does the new one.
pub fn the_old_master_is_killed_amid_the_change(over: Over) {
    in_namespace(NEEDED, move || {
        let mut server = Server::start(over, "change");
        let (old_master, old_worker) = (server.master().unwrap(), worker());
        server.signal(Signal::USR2);
        wait_for("a master of the new binary", || server.master().is_some_and(|master| master != old_master));
        wait_for("workers of both", || workers(20).len() == 2);
        send(old_master, Signal::KILL);
        wait_for("its end", || !Path::new(&format!("/proc/{old_master}/exe")).exists());
        let mut download = Download::begin();
        download.read(1_000);
        send(old_worker, Signal::QUIT);
        wait_for("the new worker alone", || !workers(20).contains(&old_worker));
        download.end(&server);
        assert_eq!(get(&["/small"]), "a small file\n");
        server.command("quit");
        server.ended();
    });
}
