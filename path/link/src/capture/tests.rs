use super::*;
use crate::{Pair, PairConfig, PairLink};
use std::process::{Command, Stdio};

/// A file that the test can read while the capture owns its other end.
#[derive(Clone, Default)]
struct File(Arc<Mutex<Vec<u8>>>);

impl File {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }
}

impl Write for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // In small pieces, so that partial writes are met.
        let count = bytes.len().min(1000);
        self.0.lock().unwrap().extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const EPOCH: Duration = Duration::from_secs(1_700_000_000);

fn captured(config: CaptureConfig) -> (Capture<PairLink, File>, PairLink, File) {
    let (a, b) = Pair::new(PairConfig::default());
    let file = File::default();
    (Capture::new(a, file.clone(), config), b, file)
}

fn config() -> CaptureConfig {
    CaptureConfig { epoch: EPOCH, ..CaptureConfig::default() }
}

fn send<L: Link>(link: &mut L, now: Time, len: usize) {
    let mut tx = link.split().1;
    let slot = tx.slot().unwrap();
    slot[..len].fill(0);
    slot[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5]);
    tx.commit(len, Offload::NONE);
    tx.flush(now);
}

fn take<L: Link>(link: &mut L, now: Time) -> Vec<Vec<u8>> {
    let mut rx = link.split().0;
    let count = rx.receive(now, 32);
    let frames = (0..count).map(|i| rx.frame(i).to_vec()).collect();
    rx.release();
    frames
}

/// The blocks of a capture: type and body, the lengths checked.
fn blocks(bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut all) = (0, Vec::new());
    while at < bytes.len() {
        let len = word(at + 4) as usize;
        assert_eq!(len % 4, 0);
        assert_eq!(word(at + len - 4) as usize, len);
        all.push((word(at), bytes[at + 8..at + len - 4].to_vec()));
        at += len;
    }
    all
}

#[test]
fn frames_pass_and_are_captured_both_ways() {
    let (mut a, mut b, file) = captured(config());
    send(&mut a, Time::from_nanos(5), 61);
    assert_eq!(take(&mut b, Time::ZERO).len(), 1);
    send(&mut b, Time::ZERO, 99);
    let got = take(&mut a, Time::from_nanos(9));
    assert_eq!(got[0].len(), 99);
    assert!(file.bytes().is_empty(), "the packet path does not write");
    a.poll_control(Time::ZERO);
    let blocks = blocks(&file.bytes());
    let kinds: Vec<_> = blocks.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 6, 6]);
    assert_eq!(blocks[3].1[20..20 + 99], got[0]);
    assert_eq!(a.capture_counters().captured, 2);
    a.finish().unwrap();
}

#[test]
fn wireshark_opens_a_capture() {
    let (mut a, mut b, file) = captured(CaptureConfig { snap_len: 80, ..config() });
    send(&mut a, Time::ZERO, 61);
    a.poll_control(Time::from_nanos(1_000_000_001));
    send(&mut b, Time::ZERO, 99);
    take(&mut a, Time::from_nanos(1_000_000_007));
    a.finish().unwrap();

    let tshark = Command::new("tshark")
        .args(["-r", "-", "-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len"])
        .args(["-e", "frame.cap_len", "-e", "frame.interface_name", "-e", "frame.p2p_dir"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut tshark = match tshark {
        Ok(child) => child,
        Err(e) => {
            let required = |name| std::env::var_os(name).is_some();
            assert!(
                !required("CI") && !required("NEARSIDE_REQUIRE_TOOLS"),
                "tshark (Debian package tshark) is required here: {e}"
            );
            println!("skipped: tshark (Debian package tshark) does not start: {e}");
            return;
        }
    };
    tshark.stdin.take().unwrap().write_all(&file.bytes()).unwrap();
    let out = tshark.wait_with_output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<Vec<_>> = text.lines().map(|l| l.split('\t').collect()).collect();
    assert_eq!(lines.len(), 2, "{text}{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(lines[0][..4], ["1700000000.000000000", "61", "61", "nearside"]);
    assert_eq!(lines[1][..4], ["1700000001.000000007", "99", "80", "nearside"]);
    assert!(out.status.success());
}

#[test]
fn a_full_buffer_leaves_frames_out_of_the_capture_only() {
    let (mut a, mut b, file) = captured(CaptureConfig { buffer: 4_000, ..config() });
    for _ in 0..10 {
        send(&mut a, Time::ZERO, 1_000);
    }
    assert_eq!(take(&mut b, Time::ZERO).len(), 10);
    let counters = a.capture_counters();
    assert_eq!((counters.captured, counters.dropped), (3, 7));
    a.poll_control(Time::ZERO);
    send(&mut a, Time::ZERO, 1_000);
    assert_eq!(a.capture_counters().captured, 4);
    a.finish().unwrap();
    let blocks = blocks(&file.bytes());
    let (kind, body) = blocks.last().unwrap();
    // Statistics: seen and left out.
    assert_eq!(*kind, 5);
    assert_eq!(body[16..24], 11u64.to_ne_bytes());
    assert_eq!(body[28..36], 7u64.to_ne_bytes());
}

/// A disk that is full after some bytes.
struct FullDisk(usize);

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(self.0);
        self.0 -= count;
        if count == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(count) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_failed_write_ends_the_capture_and_not_the_traffic() {
    let (a, mut b) = Pair::new(PairConfig::default());
    let mut a = Capture::new(a, FullDisk(300), config());
    for _ in 0..3 {
        send(&mut a, Time::ZERO, 500);
        a.poll_control(Time::ZERO);
    }
    assert_eq!(take(&mut b, Time::ZERO).len(), 3);
    let counters = a.capture_counters();
    assert_eq!((counters.captured, counters.dropped), (1, 2));
    assert_eq!(counters.failed, Some(io::ErrorKind::StorageFull));
    assert_eq!(a.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
}

/// A pipe whose reader is slow.
struct Blocked;

impl Write for Blocked {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_would_block_stops_nothing() {
    let (a, mut b) = Pair::new(PairConfig::default());
    let mut a = Capture::new(a, Blocked, CaptureConfig { buffer: 1_000, ..config() });
    for _ in 0..50 {
        send(&mut a, Time::ZERO, 100);
        a.poll_control(Time::ZERO);
    }
    assert_eq!(take(&mut b, Time::ZERO).len(), 32);
    let counters = a.capture_counters();
    assert_eq!(counters.failed, None);
    assert!(counters.captured < 10 && counters.captured + counters.dropped == 50);
}

#[test]
fn a_full_inner_ring_is_passed_on() {
    let (a, _b) = Pair::new(PairConfig { ring: 1, ..PairConfig::default() });
    let mut a = Capture::new(a, File::default(), config());
    send(&mut a, Time::ZERO, 60);
    assert!(a.split().1.slot().is_none());
    assert_eq!(a.split().1.room(), 0);
    assert_eq!(a.counters().tx_full, 1);
}
