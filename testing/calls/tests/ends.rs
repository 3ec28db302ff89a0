//! How connections end: with a descriptor that lingers, with nobody who accepts, with their process; and
//! what is told of sets to who comes after.

use calls::{Ours, address};
use core::net::SocketAddr;
use core::time::Duration;
use posix::{Calls, Defaults, Errno, Gather, Scatter};
use std::io::{IoSlice, IoSliceMut};

const LISTENER: i32 = 10;
const SET: i32 = 11;
const SERVER: i32 = 12;
const CLIENT: i32 = 20;

/// Side 0 listens, and side 1 has connections there, so many.
fn connected(clients: i32) -> Ours {
    let mut world = Ours::new(Defaults::default());
    let place = SocketAddr::new(address(0), 80);
    let mut server = world.ends[0].calls();
    server.socket(LISTENER, false, true);
    server.bind(LISTENER, place).unwrap();
    server.listen(LISTENER, 16).unwrap();
    for at in 0..clients {
        let mut client = world.ends[1].calls();
        client.socket(CLIENT + at, false, true);
        assert_eq!(client.connect(CLIENT + at, place), Err(Errno(libc::EINPROGRESS)));
        world.pass(Duration::from_millis(50));
    }
    world
}

fn send(calls: &mut Calls<'_>, fd: i32, len: usize) -> usize {
    let bytes = vec![7; len];
    let slices = [IoSlice::new(&bytes)];
    let mut from = Gather::new(&slices, len);
    calls.send(fd, &mut from, 0).unwrap();
    from.taken()
}

/// What is there to be read: bytes, or why not.
fn read(calls: &mut Calls<'_>, fd: i32) -> Result<usize, Errno> {
    let mut room = vec![0; 1 << 20];
    let mut slices = [IoSliceMut::new(&mut room)];
    let mut out = Scatter::new(&mut slices, usize::MAX);
    calls.recv(fd, &mut out, 0).map(|_| out.filled())
}

fn set_linger(calls: &mut Calls<'_>, fd: i32, seconds: i32) {
    let value: Vec<u8> = [1, seconds].iter().flat_map(|word: &i32| word.to_ne_bytes()).collect();
    calls.set_option(fd, libc::SOL_SOCKET, libc::SO_LINGER, &value).unwrap();
}

/// Whoever lingers waits until the peer has what was written and our end, and for no other reason.
#[test]
fn who_lingers_waits_until_the_peer_has_all() {
    let mut world = connected(2);
    let mut client = world.ends[1].calls();
    assert_eq!(client.lingers(CLIENT), None, "by default nobody does");
    set_linger(&mut client, CLIENT, 0);
    assert_eq!(client.lingers(CLIENT), None, "it resets");
    set_linger(&mut client, CLIENT, 5);
    let (id, limit) = client.lingers(CLIENT).expect("it lingers");
    assert_eq!(limit, Duration::from_secs(5));
    client.dup(CLIENT, 30).unwrap();
    assert_eq!(client.lingers(CLIENT), None, "another descriptor has it");
    client.close(30).unwrap();
    assert!(client.has_all(id), "nothing is under way");
    assert_eq!(send(&mut client, CLIENT, 1_000), 1_000);
    client.close(CLIENT).unwrap();
    assert!(!client.has_all(id) && client.untaken() == 1);
    world.pass(Duration::from_millis(50));
    let client = world.ends[1].calls();
    assert!(client.has_all(id) && client.untaken() == 0, "the peer has it, whether or not it reads");
}

/// What comes for a connection that was closed while it was under way is answered by a reset, behind our end: the kernel
/// sends that from within close(2).
#[test]
fn an_end_goes_before_the_reset_of_what_came_meanwhile() {
    for finish in [false, true] {
        let mut world = connected(1);
        assert!(world.ends[0].calls().accept(LISTENER, SERVER, true).unwrap().is_some());
        assert_eq!(send(&mut world.ends[1].calls(), CLIENT, 100), 100);
        // It is on the link when the server ends.
        world.turn(1);
        let mut server = world.ends[0].calls();
        if finish {
            server.shutdown(SERVER, libc::SHUT_RDWR).unwrap();
        } else {
            server.close(SERVER).unwrap();
        }
        world.pass(Duration::from_millis(50));
        let mut client = world.ends[1].calls();
        assert_eq!(read(&mut client, CLIENT), Ok(0), "the end is what it reads first");
    }
}

/// Who cannot be accepted is reset, the first that came first.
#[test]
fn whom_nobody_can_accept_is_reset() {
    let mut world = connected(2);
    let mut server = world.ends[0].calls();
    assert_eq!(server.reset_first_waiting(LISTENER), Ok(true));
    assert_eq!(server.reset_first_waiting(CLIENT), Err(Errno(libc::EBADF)));
    world.pass(Duration::from_millis(50));
    let mut client = world.ends[1].calls();
    assert_eq!(read(&mut client, CLIENT), Err(Errno(libc::ECONNRESET)));
    assert!(client.peer_address(CLIENT + 1).is_ok());
    let mut server = world.ends[0].calls();
    assert_eq!(server.reset_first_waiting(LISTENER), Ok(true));
    assert_eq!(server.reset_first_waiting(LISTENER), Ok(false), "nobody waits any more");
}

/// What a peer has not taken is counted after its process closed it, until it has, or is reset.
#[test]
fn what_is_not_taken_is_counted_and_reset() {
    let mut world = connected(2);
    let mut server = world.ends[0].calls();
    for fd in [SERVER, SERVER + 1] {
        assert!(server.accept(LISTENER, fd, true).unwrap().is_some());
        // More than a peer takes that does not read.
        server.set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &(8i32 << 20).to_ne_bytes()).unwrap();
        assert_eq!(send(&mut server, fd, 6 << 20), 6 << 20);
    }
    world.pass(Duration::from_secs(1));
    let mut server = world.ends[0].calls();
    [SERVER, SERVER + 1].iter().for_each(|fd| server.close(*fd).unwrap());
    world.pass(Duration::from_secs(1));
    assert_eq!(world.ends[0].calls().untaken(), 2, "their clients do not read");
    for _ in 0..100 {
        while read(&mut world.ends[1].calls(), CLIENT).is_ok_and(|len| len > 0) {}
        world.pass(Duration::from_millis(100));
    }
    assert_eq!(world.ends[0].calls().untaken(), 1);
    world.ends[0].calls().abort_all();
    world.pass(Duration::from_millis(50));
    assert_eq!(world.ends[0].calls().untaken(), 0);
    let mut client = world.ends[1].calls();
    let end = loop {
        match read(&mut client, CLIENT + 1) {
            Ok(len) if len > 0 => {}
            end => break end,
        }
    };
    assert_eq!(end, Err(Errno(libc::ECONNRESET)));
}

/// Of a set that watches nothing but listeners, what it watches is told.
#[test]
fn sets_of_listeners_are_told() {
    let mut world = connected(1);
    let mut server = world.ends[0].calls();
    server.create_set(SET);
    assert_eq!(server.table.watched_listeners(SET), Some(Vec::new()));
    let events = (libc::EPOLLIN | libc::EPOLLET).cast_unsigned();
    server.control(SET, libc::EPOLL_CTL_ADD, LISTENER, events, 99).unwrap();
    let told = server.table.watched_listeners(SET).unwrap();
    let [(fd, found, data)] = told[..] else { panic!("{told:?}") };
    assert_eq!((fd, found & events, data), (LISTENER, events, 99));
    assert!(server.accept(LISTENER, SERVER, true).unwrap().is_some());
    server.control(SET, libc::EPOLL_CTL_ADD, SERVER, events, 0).unwrap();
    assert_eq!(server.table.watched_listeners(SET), None);
    assert_eq!(server.table.watched_listeners(LISTENER), None, "that is no set");
}
