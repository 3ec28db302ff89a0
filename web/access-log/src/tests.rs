//! Lines of the access log.

use super::sink::{Patience, TORN};
use super::*;
use core::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

fn line(peer: IpAddr, request: &[u8]) -> String {
    let line =
        Line { peer: Some(SocketAddr::new(peer, 1)), request, status: 206, referer: None, agent: Some(b"curl/8") };
    let mut out = Vec::new();
    put_before(&mut out, &time_of(&HttpDate::from_unix(784_111_777)), &line);
    put_bytes(&mut out, 18_446_744_073_709_551_615);
    put_after(&mut out, &line);
    String::from_utf8(out).expect("text")
}

#[test]
fn addresses_of_both_families() {
    let rest = "- - [06/Nov/1994:08:49:37 +0000] \"GET / HTTP/1.1\" 206 18446744073709551615 \"-\" \"curl/8\"\n";
    for octet in 0..=255 {
        let v4 = Ipv4Addr::new(octet, 255 - octet, 10, octet);
        assert_eq!(line(v4.into(), b"GET / HTTP/1.1"), format!("{v4} {rest}"));
        assert_eq!(line(v4.to_ipv6_mapped().into(), b"GET / HTTP/1.1"), format!("{v4} {rest}"));
    }
    let v6: Ipv6Addr = "2001:db8::1".parse().expect("an address");
    assert_eq!(line(v6.into(), b"GET / HTTP/1.1"), format!("{v6} {rest}"));
}

#[test]
fn every_byte_is_printable_and_quotes_cannot_be_ended() {
    for length in 1..40 {
        for byte in 0..=255_u8 {
            let mut text = vec![b'a'; length];
            text[length / 2] = byte;
            let mut out = Vec::new();
            put_text(&mut out, &text);
            assert!(out.iter().all(|&byte| (0x20..0x7f).contains(&byte) && byte != b'"'));
            let escaped = !(0x20..0x7f).contains(&byte) || byte == b'"' || byte == b'\\';
            assert_eq!(out.len(), length + if escaped { 3 } else { 0 });
        }
    }
}

#[test]
fn a_line_is_bounded() {
    let text = [b'"'; 60_000];
    let line = Line { peer: None, request: &text, status: 400, referer: Some(&text), agent: Some(&text) };
    let mut out = Vec::new();
    put_before(&mut out, &time_of(&HttpDate::from_unix(0)), &line);
    put_bytes(&mut out, 1);
    put_after(&mut out, &line);
    assert!(out.len() <= LINE_MAX);
}

/// Nobody is to stop.
static GO: AtomicBool = AtomicBool::new(false);

/// A folder that goes away.
pub(crate) struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("nearside-log-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What was left by a process that was killed, or by a disk that was full.
#[test]
fn half_a_line_is_not_joined_by_the_next() {
    let folder = Folder::new("half");
    let path = folder.0.join("log");
    std::fs::write(&path, "whole\nha").expect("written");
    let read = || std::fs::read_to_string(&path).expect("a log");
    let (mut one, mut other) = (Appended::open(&path).expect("opened"), Appended::open(&path).expect("opened"));
    one.append(b"first\n", &GO, &mut Patience::default()).expect("appended");
    assert_eq!(read(), "whole\nha\nfirst\n");
    other.append(b"second\n", &GO, &mut Patience::default()).expect("appended");
    one.append(b"third\n", &GO, &mut Patience::default()).expect("appended");
    assert_eq!(read(), "whole\nha\nfirst\nsecond\nthird\n", "nothing is looked for twice");
    // The disk is full in the middle of one's line, and the other goes on.
    one.file.write_all(b"fou").expect("written");
    let mut full = Appended::open(Path::new("/dev/full")).expect("opened");
    assert!(full.append(b"a line\n", &GO, &mut Patience::default()).is_err());
    other.append(b"fifth\n", &GO, &mut Patience::default()).expect("appended");
    one.append(b"sixth\n", &GO, &mut Patience::default()).expect("appended");
    assert_eq!(read(), "whole\nha\nfirst\nsecond\nthird\nfou\nfifth\nsixth\n");
}

/// A pipe in place of a file is only written to.
#[test]
fn a_log_may_be_a_pipe() {
    let folder = Folder::new("pipe");
    let path = folder.0.join("log");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    let reader = std::thread::spawn({
        let path = path.clone();
        move || std::fs::read_to_string(path)
    });
    let mut log = Appended::open(&path).expect("opened");
    log.append(b"one\n", &GO, &mut Patience::default()).expect("appended");
    TORN.fetch_add(1, Ordering::AcqRel);
    log.append(b"two\n", &GO, &mut Patience::default()).expect("appended");
    drop(log);
    assert_eq!(reader.join().expect("no panic").expect("read"), "one\ntwo\n");
}

/// A pipe that nobody reads holds nobody up but its writer, and the end of that
/// only for a moment.
#[test]
fn a_pipe_that_nobody_reads_loses_lines_and_holds_nobody_up() {
    let folder = Folder::new("stuck");
    let path = folder.0.join("log");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
    let reader = std::fs::File::options().read(true).write(true).open(&path).expect("opened");
    let kind = AccessLog::File(path);
    let mut log = Log::start(&kind, 4 * (BUFFER_FULL + LINE_MAX), &[]).expect("started").expect("a log");
    let line = Line { peer: None, request: &[b'x'; 1_000], status: 200, referer: None, agent: None };
    // Far more than ring and pipe hold.
    for _ in 0..1_000 {
        log.line(&line, 1, Time::ZERO);
    }
    let lost = log.drops();
    assert!(lost > 500, "{lost}");
    let writing = Arc::clone(&log.handing.writing);
    drop(log);
    // What was handed over and not read is counted as well; the rest of the
    // lines stand in the pipe, whole but for the last.
    let lost = lost + writing.drops.load(Ordering::Relaxed);
    let mut piped = vec![0; 1 << 20];
    let read = std::io::Read::read(&mut &reader, &mut piped).expect("what the pipe holds");
    let lines = piped[..read].split(|&byte| byte == b'\n').count();
    assert!(lines < 1_000 && lost + lines as u64 >= 1_000, "{lost} lost, {lines} in the pipe");
}
