//! Calls that are rarely made, with arguments that are rarely given: one program makes all of them on
//! the kernel's sockets and on our stack, and they come to the same but for what is told here.

use crate::server::library;
use interop::{Nearside, Program, Running, in_namespace, output, wait_for};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;

const SCRIPT: &str = include_str!("rare.py");

/// What differs, and why: lines that begin so. docs/differences.md has the same for people.
const DIFFERENT: &[(&str, &str)] = &[
    // What would change packets, or who may read them, is refused, and what is told of it stays as it was.
    ("setsockopt SO_MARK", "marks are the kernel's routing's"),
    ("setsockopt SO_BINDTODEVICE", "there is one link"),
    ("setsockopt SO_PEEK_OFF", "not done"),
    ("setsockopt SO_ZEROCOPY", "what is written is copied"),
    ("setsockopt TCP_REPAIR", "connections are not taken apart"),
    ("setsockopt TCP_SAVE_SYN", "SYNs are not kept"),
    ("setsockopt IP_TTL", "all packets have 64"),
    ("setsockopt IP_MTU_DISCOVER", "packets are never to be fragmented on their way"),
    ("setsockopt IP_TRANSPARENT", "addresses are those of --addr"),
    // Linux has more room, and counts time in its timer's ticks.
    ("setsockopt SO_RCVLOWAT", "half of what an inbox holds"),
    ("setsockopt SO_RCVTIMEO (0, ", "a microsecond is one"),
    // Listeners are the kernel's, bound to an address that it has not.
    ("getsockopt IP_FREEBIND", "it is to take an address of ours"),
    // Options of IPv4 that are none are refused before anything is looked at.
    ("setsockopt none of IP from nowhere", "what is given is looked at first"),
    ("setsockopt IP_MTU from nowhere", "what is given is looked at first"),
    // Of files.
    ("file fsync", "the number is no open file's"),
    ("file fdatasync", "the number is no open file's"),
    ("file posix_fadvise", "the number is no open file's"),
    ("file fallocate", "the number is no open file's"),
    ("file sendfile out of it", "splice does that"),
    ("file sendfile from nobody", "the connection is looked at first"),
    // Nobody is signalled, nothing is locked, and no file is behind it.
    ("control ioctl 0x2", "there is no file system"),
    ("control fcntl 5 at nowhere", "the number is no open file's"),
    ("control fcntl 6 at nowhere", "the number is no open file's"),
    ("control F_SETFL", "flags of files are not kept, and O_ASYNC is refused"),
];

/// Accepts at a port of the kernel's, and serves each connection on a thread of its own.
fn serve(port: u16, each: fn(TcpStream)) {
    let listener = TcpListener::bind(("0.0.0.0", port)).unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let _ = stream.set_nodelay(true);
            thread::spawn(move || each(stream));
        }
    });
}

/// Reads all, answers nothing, and holds a connection until its peer resets it.
fn hold(mut stream: TcpStream) {
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
    let mut entry = libc::pollfd { fd: stream.as_raw_fd(), events: 0, revents: 0 };
    // SAFETY: the entry is a local, and the descriptor open.
    unsafe { libc::poll(&raw mut entry, 1, 60_000) };
}

fn says_abc(mut stream: TcpStream) {
    let _ = stream.write_all(b"abc");
    hold(stream);
}

fn ends(stream: TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    hold(stream);
}

/// Ends before it has read what came, which resets it.
fn reset(stream: TcpStream) {
    let _ = stream.peek(&mut [0]);
}

/// Connects to the port that it is told, at its peer's address.
fn calls(mut stream: TcpStream) {
    let (mut line, Ok(peer)) = ([0; 16], stream.peer_addr()) else { return };
    let len = stream.read(&mut line).unwrap_or(0);
    let Ok(port) = String::from_utf8_lossy(&line[..len]).trim().parse::<u16>() else { return };
    let caller = TcpStream::connect((peer.ip(), port));
    hold(stream);
    drop(caller);
}

/// Lines by what was called in which state, each with what it came to.
fn read(said: &str) -> BTreeMap<(usize, String), String> {
    let line = |(at, line): (usize, &str)| {
        let (state, rest) = line.split_once(": ")?;
        let (what, came) = rest.split_once(": ").or_else(|| rest.strip_suffix(':').map(|what| (what, "")))?;
        Some(((at, format!("{what} ({state})")), came.to_owned()))
    };
    said.lines().enumerate().filter_map(line).collect()
}

#[test]
fn rare_calls_come_to_the_same() {
    in_namespace(&[Program::new("python3", "python3")], || {
        let peers: [(u16, fn(TcpStream)); 5] =
            [(8105, reset), (8108, hold), (8110, ends), (8111, calls), (8112, says_abc)];
        peers.into_iter().for_each(|(port, each)| serve(port, each));
        let mut command =
            Nearside::command(["run", "--link", "tap:near0,addr=10.9.0.1/24", "--addr", "10.9.0.2/24", "--library"]);
        command.arg(library()).args(["--", "python3", "-c", SCRIPT, "10.9.0.1", "10.9.0.2"]);
        let mut ours = Running::start(&mut command);
        let kernels = output(Command::new("python3").args(["-c", SCRIPT, "127.0.0.1", "127.0.0.1"]));
        wait_for("the program's end", || ours.has_ended());
        let said = ours.said();
        assert!(said.contains("\nEND\n") && kernels.contains("\nEND\n"), "it did not come to its end: {said}");
        let (kernels, ours) = (read(&kernels), read(&said));
        assert!(kernels.len() > 6_000 && kernels.keys().eq(ours.keys()), "other calls were made");
        let is_known = |what: &str| DIFFERENT.iter().any(|(known, _)| what.starts_with(known));
        let differs: Vec<String> = kernels
            .iter()
            .filter(|(key @ (_, what), came)| ours[*key] != **came && !is_known(what))
            .map(|(key, came)| format!("{}: {came} on the kernel, {} on ours", key.1, ours[key]))
            .collect();
        assert!(differs.is_empty(), "{} calls differ:\n{}", differs.len(), differs.join("\n"));
        for (known, why) in DIFFERENT {
            let still = kernels.iter().any(|(key, came)| key.1.starts_with(known) && ours[key] != *came);
            assert!(still, "'{known}' does not differ any more ({why})");
        }
    });
}
