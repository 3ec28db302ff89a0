//! The table of functions, called as packetdrill calls it.

mod library;
mod network;
mod options;

use crate::library::{Library, call, errno};
use wire::tcp::{Flags, SeqNum};

#[test]
fn a_connection_is_served() {
    let library = Library::new(c"timestamps=off");
    let listener = library.listener();
    let iss = library.handshake();
    let fd = library.accept(listener);
    assert!(fd >= 0);
    library.inject(Flags::ACK | Flags::PSH, 101, iss.wrapping_add(1), b"question");
    assert_eq!(library.read(fd).unwrap(), b"question");
    assert_eq!(library.sniff().1.ack, SeqNum(109));
    assert_eq!(library.write(fd, b"answer"), 6);
    let (_, header, payload) = library.sniff();
    assert_eq!((header.seq, payload.as_slice()), (SeqNum(iss.wrapping_add(1)), &b"answer"[..]));

    let mut info = [0u8; 280];
    let mut len = info.len() as u32;
    let asked =
        call!(library, getsockopt, fd, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len);
    assert_eq!((asked, len), (0, 280));
    let word = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().unwrap());
    assert_eq!((info[0], word(16), word(24), word(80)), (1, 1000, 1, 10), "ESTABLISHED, MSS, unacked, cwnd");

    assert_eq!(call!(library, close, fd), 0);
    assert!(library.sniff().1.flags.contains(Flags::FIN));
}

/// RFC 6298 section 5.5: the virtual clock moves by the time-out and twice
/// that, and a wait for a packet takes no more.
#[test]
fn waiting_moves_the_clock_to_the_retransmission() {
    let library = Library::new(c"timestamps=off");
    let listener = library.listener();
    library.handshake();
    let fd = library.accept(listener);
    assert_eq!(library.write(fd, b"lost"), 4);
    let (first, header, _) = library.sniff();
    let (second, again, _) = library.sniff();
    let (third, ..) = library.sniff();
    assert_eq!(header.seq, again.seq);
    assert_eq!(third - second, 2 * (second - first));
    assert!((third..third + 10).contains(&library.now()));
    let before = library.now();
    assert_eq!(call!(library, usleep, 1_000_000), 0);
    assert!((1_000_000..1_000_010).contains(&(library.now() - before)));
}

#[test]
fn calls_that_would_block_say_so() {
    let library = Library::new(c"");
    let listener = library.listener();
    assert_eq!(call!(library, fcntl, listener, libc::F_SETFL, libc::O_NONBLOCK.into()), 0);
    assert_eq!((library.accept(listener), errno()), (-1, libc::EAGAIN));
    library.handshake();
    let fd = library.accept(listener);
    assert!(fd >= 0);
    assert_eq!(call!(library, fcntl, fd, libc::F_SETFL, libc::O_NONBLOCK.into()), 0);
    assert_eq!(library.read(fd), Err(libc::EAGAIN));
    let mut watched = libc::pollfd { fd, events: libc::POLLIN | libc::POLLOUT, revents: 0 };
    assert_eq!(call!(library, poll, &raw mut watched, 1, 0), 1);
    assert_eq!(watched.revents, libc::POLLOUT);
    let none_yet = library.set(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, &1i32.to_ne_bytes());
    assert_eq!(none_yet, Err(libc::ENOPROTOOPT));
    assert_eq!((library.read(9999), call!(library, close, 9999), errno()), (Err(libc::EBADF), -1, libc::EBADF));
}

/// A call on a second thread waits, and sees the time at which its packet came.
#[test]
fn a_blocked_call_ends_with_its_packet() {
    let library = Library::new(c"timestamps=off");
    let listener = library.listener();
    let iss = library.handshake();
    let fd = library.accept(listener);
    let start = library.now();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| (library.read(fd).unwrap(), library.now()));
        library.inject(Flags::ACK | Flags::PSH, 101, iss.wrapping_add(1), b"late");
        let (bytes, at) = reader.join().unwrap();
        assert_eq!(bytes, b"late");
        assert!((start..start + 100).contains(&at));
    });
}

/// On the only thread, a call that nothing can end fails instead of hanging.
#[test]
fn a_call_that_nothing_can_end_fails() {
    let library = Library::new(c"");
    let listener = library.listener();
    assert_eq!((library.accept(listener), errno()), (-1, libc::EDEADLK));
}
