//! What a worker does while there is nothing to do (`--idle`), and when its frames leave (`--tx-delay`).

use crate::server::{CURL, LARGE, NGINX, Over, Server, ask, is_followed, worker};
use interop::{Program, in_namespace, wait_for};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const NEEDED: &[Program] = &[NGINX, CURL];

/// Hundredths of a second that a process has taken of its core (proc(5), fields 14 and 15).
fn ticks(process: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Asks so often on one connection, each time after the answer before.
fn ask_in_turn(requests: usize) {
    let mut stream = TcpStream::connect("10.9.0.2:80").unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    for _ in 0..requests {
        stream.write_all(b"GET /small HTTP/1.1\r\nHost: here\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"a small file\n") {
            let mut some = [0; 512];
            let len = stream.read(&mut some).unwrap();
            assert!(len > 0, "{}", String::from_utf8_lossy(&answer));
            answer.extend_from_slice(&some[..len]);
        }
    }
}

/// Fetches the large file.
fn fetch_large() {
    let mut stream = TcpStream::connect("10.9.0.2:80").unwrap();
    stream.write_all(b"GET /large HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.len() > LARGE, "{} bytes", answer.len());
}

/// How long that takes.
#[expect(clippy::disallowed_methods, reason = "how long something takes at least is what is promised")]
fn took(act: impl FnOnce()) -> Duration {
    let began = Instant::now();
    act();
    began.elapsed()
}

/// One that polls takes its core while nobody asks, and a signal ends its call as it does on the
/// kernel; one with a policy that sleeps does neither hear less nor take a core.
pub fn a_worker_that_polls_takes_its_core_and_hears_signals(over: Over) {
    in_namespace(NEEDED, move || {
        let mut server = Server::start_with(over, "polls", &["--idle", "spin"]);
        let old = worker();
        let before = ticks(old);
        wait_for("time of its core", || ticks(old) >= before + 30);
        // SIGHUP to the master, SIGQUIT to the worker, which asks for nothing meanwhile.
        server.command("reload");
        wait_for("another worker", || is_followed(old));
        wait_for("the old one's end", || fs::metadata(format!("/proc/{old}")).is_err());
        server.command("quit");
        server.ended();
    });
}

/// What comes while it sleeps waits until the time is up.
pub fn a_worker_sleeps_by_the_clock(over: Over) {
    in_namespace(NEEDED, move || {
        let mut server = Server::start_with(over, "by-the-clock", &["--idle", "sleep:100ms"]);
        // Each comes after a pause, when the worker sleeps: one that comes sooner may find it awake still,
        // on one core most do.
        let mut waited = Duration::ZERO;
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(37));
            waited += took(|| ask_in_turn(1));
        }
        assert!(waited >= Duration::from_millis(100) * 3, "20 requests waited {waited:?}");
        // Signals do not wait for it, nor does what is the kernel's: nginx's channel.
        let old = worker();
        server.command("reload");
        wait_for("another worker", || is_followed(old));
        let process = worker();
        let before = ticks(process);
        std::thread::sleep(Duration::from_millis(500));
        let spent = ticks(process) - before;
        assert!(spent <= 25, "it sleeps most of the time, and took {spent} of 50");
        server.command("quit");
        server.ended();
    });
}

/// An answer leaves so much later, and no later than that by itself.
pub fn frames_are_held_back(over: Over) {
    in_namespace(NEEDED, move || {
        let mut server = Server::start_with(over, "held", &["--tx-delay", "20ms"]);
        let took = took(|| ask_in_turn(10));
        assert!(took >= Duration::from_millis(180), "10 requests, each after the answer before, took {took:?}");
        // What fills half of the room leaves at once.
        fetch_large();
        server.command("quit");
        server.ended();
    });
}

/// All policies serve, reload and end.
pub fn every_pace_serves(over: Over) {
    for options in [
        ["--idle", "spin:50us", "--tx-delay", "100us"],
        ["--idle", "adaptive:100us", "--tx-delay", "0"],
        ["--idle", "sleep:1ms", "--tx-delay", "5ms"],
    ] {
        // Each has a link of its own.
        in_namespace(NEEDED, move || {
            let mut server = Server::start_with(over, "every-pace", &options);
            (0..5).for_each(|_| assert_eq!(ask("/small").unwrap(), "a small file\n"));
            fetch_large();
            let old = worker();
            server.command("reload");
            wait_for("another worker", || is_followed(old));
            // What is in its handshake with the old one as that lets go is reset.
            wait_for("the old one's end", || fs::metadata(format!("/proc/{old}")).is_err());
            ask_in_turn(20);
            server.command("quit");
            server.ended();
        });
    }
}
