//! Files by sendfile(2).

use crate::support::puppet::{Do, Seen, Theatre};
use crate::support::{client, listen};
use app::Closed;
use sockets::{Config, Endpoint, ListenOptions, Listeners, Model};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

const LARGE: usize = 100 << 20;

/// Most bytes that a connection hands over at once: so that others have their
/// turn.
const PIECE: usize = 2 << 20;

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

fn file(bytes: &[u8]) -> Arc<OwnedFd> {
    let fd = rustix::fs::memfd_create("files", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes).unwrap();
    Arc::new(file.into())
}

#[test]
fn a_large_file_arrives_behind_its_head() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let mut stream = client(address);
    let id = theatre.opened();
    let bytes = content(LARGE);
    theatre.tell(Do::SendFile(id, b"head".to_vec(), file(&bytes), 0..LARGE as u64));
    theatre.tell(Do::Send(id, b"tail".to_vec()));
    theatre.tell(Do::Finish(id));
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!(all.starts_with(b"head") && all.ends_with(b"tail"));
    assert!(all[4..all.len() - 4] == bytes);
    let counters = theatre.close();
    assert_eq!(counters.sent_file_bytes, LARGE as u64);
    assert_eq!(counters.sent_bytes, LARGE as u64 + 8);
    // How much of a piece the kernel takes at once is for it to say.
    assert!(counters.sends >= (LARGE / PIECE) as u64, "{} sends", counters.sends);
}

/// The end of a long file does not wait for the 200 ms after which the kernel
/// lets go of what is corked, nor does the next answer.
#[test]
fn what_follows_a_long_file_leaves_at_once() {
    const ANSWERS: u32 = 20;
    const LONG: usize = 150_001;
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let mut stream = client(address);
    let id = theatre.opened();
    let (bytes, begins) = (content(LONG), cpu::Clock.now());
    for _ in 0..ANSWERS {
        theatre.tell(Do::SendFile(id, b"head".to_vec(), file(&bytes), 0..LONG as u64));
        let mut buffer = vec![0; LONG + 4];
        stream.read_exact(&mut buffer).unwrap();
        assert!(buffer[4..] == bytes);
        theatre.tell(Do::Send(id, b"tail".to_vec()));
        stream.read_exact(&mut buffer[..4]).unwrap();
        assert_eq!(buffer[..4], *b"tail");
    }
    let took = cpu::Clock.now().since(begins);
    assert!(took < core::time::Duration::from_millis(100) * ANSWERS, "{took:?}");
    theatre.close();
}

/// Segments with data that a socket received (TCP_INFO).
fn segments(stream: &TcpStream) -> u32 {
    // SAFETY: all zeros is a value of it, as of any struct of numbers.
    let mut info: libc::tcp_info = unsafe { core::mem::zeroed() };
    let mut len = size_of_val(&info) as libc::socklen_t;
    let (fd, at) = (stream.as_raw_fd(), (&raw mut info).cast());
    // SAFETY: `info` has room for the `len` bytes that the kernel may write.
    let outcome = unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, at, &raw mut len) };
    assert_eq!(outcome, 0);
    info.tcpi_data_segs_in
}

/// The head waits for the file: both share the first segment. The kernel holds
/// it back for 200 ms at most, which a busy machine may take now and then.
#[test]
fn a_head_and_a_small_file_share_a_segment() {
    const ANSWERS: u32 = 20;
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let mut stream = client(address);
    let id = theatre.opened();
    for _ in 0..ANSWERS {
        theatre.tell(Do::SendFile(id, b"head".to_vec(), file(&content(1_000)), 100..200));
        let mut buffer = [0; 104];
        stream.read_exact(&mut buffer).unwrap();
        assert_eq!(buffer[4..], content(1_000)[100..200]);
    }
    let segments = segments(&stream);
    assert!((ANSWERS..ANSWERS * 3 / 2).contains(&segments), "{segments} for {ANSWERS} heads and files");
    theatre.close();
}

#[test]
fn a_file_that_is_too_short_resets() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let mut stream = client(address);
    let id = theatre.opened();
    theatre.tell(Do::SendFile(id, b"head".to_vec(), file(&content(1_000)), 0..2_000));
    let mut all = Vec::new();
    assert_eq!(stream.read_to_end(&mut all).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(theatre.closed(), Closed::Aborted);
    assert_eq!(theatre.close().files_truncated, 1);
}

/// Also while it is sent, and the peer takes it slowly.
#[test]
fn a_file_that_shrinks_resets() {
    let (listeners, address) = listen(Model::Reuseport, 1);
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let mut stream = client(address);
    let id = theatre.opened();
    let source = file(&content(LARGE));
    theatre.tell(Do::SendFile(id, Vec::new(), Arc::clone(&source), 0..LARGE as u64));
    stream.read_exact(&mut [0; 1_000]).unwrap();
    rustix::fs::ftruncate(&source, 4_096).unwrap();
    let outcome = std::io::copy(&mut stream, &mut std::io::sink());
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(theatre.closed(), Closed::Aborted);
    assert_eq!(theatre.close().files_truncated, 1);
}

#[test]
fn a_file_goes_over_a_unix_socket() {
    let name = format!("@nearside-files-{}", std::process::id());
    let endpoint = Endpoint::Unix(name.clone().into());
    let listeners = Listeners::bind(&[endpoint], &ListenOptions::default(), Model::Reuseport, 1).unwrap();
    let theatre = Theatre::open(Config::default(), listeners.for_worker(0));
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&name[1..]);
    let mut stream = UnixStream::connect_addr(&address.unwrap()).unwrap();
    let id = theatre.opened();
    let bytes = content(3_000_000);
    theatre.tell(Do::SendFile(id, b"head".to_vec(), file(&bytes), 0..3_000_000));
    theatre.tell(Do::Finish(id));
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    assert!(all.starts_with(b"head") && all[4..] == bytes);
    drop(stream);
    assert_eq!(theatre.next(), Seen::Sent(id));
    assert_eq!(theatre.next(), Seen::End(id, 0));
    theatre.close();
}
