//! Any number of logs with one writer.

use super::*;
use crate::places::{Buffering, LogPlace, OpenFiles, SyslogPlace, SyslogServer};
use crate::tests::Folder;
use crate::{BUFFER_FULL, FLUSH_AFTER};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::io::Read;
use std::path::Path;

fn file(path: &Path, buffering: Option<Buffering>) -> LogPlace {
    LogPlace::File { path: path.to_owned(), buffering }
}

fn set(places: &[LogPlace]) -> LogSet {
    LogSet::start(&OpenLogs::open(places).expect("opened"), 4 * (BUFFER_FULL + LINE_MAX), &[]).expect("started")
}

fn put(set: &mut LogSet, log: u16, line: &str) {
    set.line(log, Time::ZERO, |out| out.extend_from_slice(line.as_bytes()));
}

/// Waits for what a writer does.
fn wait(mut until: impl FnMut() -> bool) {
    // A machine may be busy for long.
    for _ in 0..60_000 {
        if until() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it did not happen");
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn lines_go_to_their_logs() {
    let folder = Folder::new("set");
    let paths: Vec<_> = (0..300).map(|at| folder.0.join(at.to_string())).collect();
    let places: Vec<_> = paths.iter().map(|path| file(path, None)).collect();
    let (mut one, mut expected) = (set(&places), vec![String::new(); 300]);
    // Two silos write to the same logs.
    let mut two = LogSet::start(&one.logs, 4 * (BUFFER_FULL + LINE_MAX), &[]).expect("started");
    for at in 0..3_000 {
        let (log, line) = (at * 7 % 300, format!("line {at}"));
        put(if at % 2 == 0 { &mut one } else { &mut two }, log, &line);
        expected[usize::from(log)].push_str(&(line + "\n"));
    }
    drop(one);
    assert_eq!(two.drops(), 0);
    drop(two);
    for (path, expected) in paths.iter().zip(expected) {
        let sorted = |text: &str| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(&text(path)), sorted(&expected), "{path:?}");
    }
}

#[test]
fn what_is_buffered_waits() {
    let folder = Folder::new("buffered");
    let [full, late, end, packed] = ["full", "late", "end", "packed"].map(|name| folder.0.join(name));
    let buffering = |bytes, flush, gzip| Some(Buffering { bytes, flush, gzip });
    let mut set = set(&[
        file(&full, buffering(10, None, None)),
        file(&late, buffering(1 << 20, Some(Duration::from_millis(1)), None)),
        file(&end, buffering(1 << 20, None, None)),
        file(&packed, buffering(1 << 20, None, Some(6))),
    ]);
    for line in ["one", "two", "three", "longer than the buffer"] {
        (0..4).for_each(|log| put(&mut set, log, line));
    }
    set.on_turn(Time::ZERO + FLUSH_AFTER);
    let all = "one\ntwo\nthree\nlonger than the buffer\n";
    wait(|| text(&full) == all && text(&late) == all);
    assert_eq!((text(&end), std::fs::read(&packed).expect("there")), (String::new(), Vec::new()));
    drop(set);
    assert_eq!(text(&end), all);
    assert_eq!(gzip::members(&std::fs::read(&packed).expect("there"), 1 << 20).as_deref(), Ok(all.as_bytes()));
}

#[test]
fn a_syslog_server_gets_a_datagram_for_each_line() {
    let folder = Folder::new("syslog");
    let path = folder.0.join("socket");
    let tag = "nginx".to_owned();
    let server = SyslogServer::Unix(path.clone());
    let place = LogPlace::Syslog(SyslogPlace { server, facility: 23, severity: 6, tag, hostname: false });
    let mut set = set(&[place, LogPlace::Named { open: None, symlinks: true }]);
    set.set_time(&HttpDate::from_unix(784_111_777));
    put(&mut set, 0, "nobody is there");
    set.on_turn(Time::ZERO + FLUSH_AFTER);
    wait(|| set.drops() == 1);
    let socket = std::os::unix::net::UnixDatagram::bind(&path).expect("bound");
    put(&mut set, 0, "one");
    put(&mut set, 0, "two");
    drop(set);
    let mut bytes = [0; 100];
    for line in ["<190>Nov  6 08:49:37 nginx: one", "<190>Nov  6 08:49:37 nginx: two"] {
        let length = socket.recv(&mut bytes).expect("a line");
        assert_eq!(String::from_utf8_lossy(&bytes[..length]), line);
    }
}

#[test]
fn a_syslog_server_may_begin_anew() {
    let folder = Folder::new("syslog-again");
    let unix = folder.0.join("socket");
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
    let at = udp.local_addr().expect("an address");
    let place = |server| {
        LogPlace::Syslog(SyslogPlace { server, facility: 0, severity: 6, tag: "t".to_owned(), hostname: false })
    };
    let first = std::os::unix::net::UnixDatagram::bind(&unix).expect("bound");
    let mut set = set(&[place(SyslogServer::Unix(unix.clone())), place(SyslogServer::Udp(at))]);
    for round in 0..2 {
        (0..2).for_each(|log| put(&mut set, log, "before"));
        wait(|| set.on_turn(Time::ZERO + FLUSH_AFTER).is_none());
        let mut bytes = [0; 100];
        if round == 0 {
            first.recv(&mut bytes).expect("a line");
            udp.recv(&mut bytes).expect("a line");
        }
    }
    drop((first, udp));
    std::fs::remove_file(&unix).expect("removed");
    // Nobody is there: lines are lost, one by one.
    for _ in 0..3 {
        let before = set.drops();
        put(&mut set, 0, "lost");
        wait(|| {
            set.on_turn(Time::ZERO + FLUSH_AFTER);
            set.drops() > before
        });
        put(&mut set, 1, "perhaps lost");
    }
    let again = std::os::unix::net::UnixDatagram::bind(&unix).expect("bound");
    let udp = std::net::UdpSocket::bind(at).expect("bound");
    (0..2).for_each(|log| put(&mut set, log, "after"));
    drop(set);
    let mut bytes = [0; 100];
    let length = again.recv(&mut bytes).expect("a line");
    assert!(bytes[..length].ends_with(b": after"));
    loop {
        let length = udp.recv(&mut bytes).expect("a line");
        if bytes[..length].ends_with(b": after") {
            break;
        }
    }
}

#[test]
fn files_that_requests_name_are_made_where_their_root_is() {
    use std::os::unix::ffi::OsStrExt;
    let rules = OpenFiles { most: 2, inactive: Duration::from_secs(60), valid: Duration::from_secs(60), uses: 1 };
    for open in [None, Some(rules)] {
        let folder = Folder::new(if open.is_some() { "kept" } else { "named" });
        let mut set =
            set(&[LogPlace::Named { open: open.clone(), symlinks: true }, LogPlace::Named { open, symlinks: false }]);
        let [root, link] = ["www", "link"].map(|name| folder.0.join(name));
        std::fs::create_dir(&root).expect("a folder");
        std::os::unix::fs::symlink(folder.0.join("a"), &link).expect("a link");
        let path = |name: &str| folder.0.join(name);
        let mut put = |log, name: &str, root: &Path| {
            let (path, root) = (path(name), root.as_os_str().as_bytes());
            set.named_line(log, path.as_os_str().as_bytes(), root, Time::ZERO, |out| {
                out.extend_from_slice(name.as_bytes())
            });
        };
        for name in ["a", "b", "c", "a", "a", "c", "link"] {
            put(0, name, &root);
        }
        put(1, "d", &root);
        // No folder of this name; a link that is not to be followed; no path.
        put(0, "e", &path("none"));
        put(1, "link", &root);
        put(0, "x\0y", &root);
        set.on_turn(Time::ZERO + FLUSH_AFTER);
        wait(|| set.drops() == 3);
        drop(set);
        let lines = |name| text(&path(name));
        assert_eq!([lines("a"), lines("b"), lines("c"), lines("d")], ["a\na\na\nlink\n", "b\n", "c\nc\n", "d\n"]);
        assert!(!path("e").exists());
    }
}

#[test]
fn files_are_opened_again() {
    let folder = Folder::new("again");
    let [log, old] = ["log", "log.1"].map(|name| folder.0.join(name));
    let mut set = set(&[file(&log, Some(Buffering { bytes: 100, flush: None, gzip: None })), LogPlace::Stderr]);
    put(&mut set, 0, "before");
    set.on_turn(Time::ZERO + FLUSH_AFTER);
    std::fs::rename(&log, &old).expect("renamed");
    set.reopen();
    wait(|| log.exists());
    put(&mut set, 0, "after");
    drop(set);
    assert_eq!((text(&old), text(&log)), ("before\n".into(), "after\n".into()));
}

/// A full disk and a pipe that nobody reads lose their own lines.
#[test]
fn what_cannot_be_written_is_counted_and_holds_no_other_up() {
    let folder = Folder::new("others");
    let [pipe, log] = ["pipe", "log"].map(|name| folder.0.join(name));
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    let mut reader = std::fs::File::options().read(true).write(true).open(&pipe).expect("opened");
    let mut set = set(&[file(Path::new("/dev/full"), None), file(&pipe, None), file(&log, None)]);
    let long = "x".repeat(10_000);
    for _ in 0..20 {
        for (log, line) in [(0, "full"), (1, &*long), (2, "whole")] {
            wait(|| set.handing.empty.slots() > 0 || set.handing.buffer.len() <= BUFFER_FULL);
            put(&mut set, log, line);
        }
    }
    wait(|| {
        set.on_turn(Time::ZERO + FLUSH_AFTER);
        text(&log).lines().count() == 20
    });
    let writing = Arc::clone(&set.handing.writing);
    drop(set);
    // The pipe holds six, of which the last is torn.
    let lost = writing.drops.load(Ordering::Relaxed);
    let mut piped = vec![0; 1 << 20];
    let read = reader.read(&mut piped).expect("what the pipe holds");
    let whole = piped[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
    assert_eq!(lost, 20 + 20 - whole);
}
