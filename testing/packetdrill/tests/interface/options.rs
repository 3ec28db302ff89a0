//! Socket options, and what they do on the wire.

use crate::library::{Library, call, errno};
use core::ffi::c_int;
use libc::{
    IP_TOS, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPV6_TCLASS, SOL_SOCKET, TCP_CORK, TCP_INQ, TCP_MAXSEG, TCP_NODELAY,
    TCP_NOTSENT_LOWAT, TCP_USER_TIMEOUT,
};
use wire::ipv4::Ipv4Header;
use wire::tcp::Flags;

fn on() -> [u8; 4] {
    1i32.to_ne_bytes()
}

/// An accepted connection: its descriptor, and our next sequence number.
fn accepted(library: &Library) -> (c_int, u32) {
    let listener = library.listener();
    let iss = library.handshake();
    (library.accept(listener), iss.wrapping_add(1))
}

#[test]
fn options_are_read_as_they_were_set() {
    let library = Library::new(c"");
    let (fd, _) = accepted(&library);
    let numbers = [
        (IPPROTO_TCP, TCP_NODELAY, 1),
        (IPPROTO_TCP, TCP_CORK, 1),
        (IPPROTO_TCP, TCP_NOTSENT_LOWAT, -1),
        (IPPROTO_TCP, TCP_USER_TIMEOUT, 3_000),
        (IPPROTO_TCP, TCP_INQ, 1),
        (IPPROTO_IP, IP_TOS, 0x28),
        (IPPROTO_IPV6, IPV6_TCLASS, 0x48),
    ];
    for (level, name, value) in numbers {
        assert_eq!(library.number(fd, level, name), Ok(0), "{level} {name}");
        assert_eq!(library.set(fd, level, name, &c_int::to_ne_bytes(value)), Ok(()), "{level} {name}");
        assert_eq!(library.number(fd, level, name), Ok(value), "{level} {name}");
    }
    let wrong = [
        (IPPROTO_TCP, TCP_MAXSEG, 87),
        (IPPROTO_TCP, TCP_MAXSEG, 40_000),
        (IPPROTO_TCP, TCP_USER_TIMEOUT, -1),
        (IPPROTO_TCP, TCP_INQ, 2),
        (IPPROTO_IPV6, IPV6_TCLASS, 256),
    ];
    for (level, name, value) in wrong {
        let set = library.set(fd, level, name, &c_int::to_ne_bytes(value));
        assert_eq!(set, Err(libc::EINVAL), "{level} {name} {value}");
    }
}

/// As in Linux: IPv4's options may be a byte, no others.
#[test]
fn values_under_four_bytes() {
    let library = Library::new(c"");
    let (fd, _) = accepted(&library);
    assert_eq!(library.set(fd, IPPROTO_IP, IP_TOS, &[0x2b]), Ok(()));
    assert_eq!(library.get(fd, IPPROTO_IP, IP_TOS, 1).unwrap(), [0x28], "less ECN's bits");
    assert_eq!(library.get(fd, IPPROTO_IP, IP_TOS, 4).unwrap(), 0x28i32.to_ne_bytes());
    for (level, name) in [(IPPROTO_TCP, TCP_NODELAY), (SOL_SOCKET, libc::SO_SNDBUF), (IPPROTO_IPV6, IPV6_TCLASS)] {
        assert_eq!(library.set(fd, level, name, &[1, 0, 0]), Err(libc::EINVAL), "{level} {name}");
        assert_eq!(library.get(fd, level, name, 2).unwrap().len(), 2, "{level} {name}");
    }
    assert_eq!(library.set(fd, IPPROTO_IP, IP_TOS, &[]), Err(libc::EINVAL));
}

#[test]
fn the_largest_segment_of_a_listener_is_announced_and_kept_to() {
    let library = Library::new(c"timestamps=off");
    let listener = library.listener();
    assert_eq!(library.number(listener, IPPROTO_TCP, TCP_MAXSEG), Ok(536));
    library.set(listener, IPPROTO_TCP, TCP_MAXSEG, &700i32.to_ne_bytes()).unwrap();
    assert_eq!(library.number(listener, IPPROTO_TCP, TCP_MAXSEG), Ok(700));
    library.inject(Flags::SYN, 100, 0, &[]);
    let (_, header, _) = library.sniff();
    assert_eq!(header.options.mss, Some(700));
    library.inject(Flags::ACK, 101, header.seq.0.wrapping_add(1), &[]);
    let fd = library.accept(listener);
    assert_eq!(library.number(fd, IPPROTO_TCP, TCP_MAXSEG), Ok(700));
    assert_eq!(library.write(fd, &[7; 1_400]), 1_400);
    assert_eq!([700, 700], [(); 2].map(|()| library.sniff().2.len()));
}

#[test]
fn the_type_of_service_is_in_each_packet_from_then_on() {
    let library = Library::new(c"");
    let (fd, _) = accepted(&library);
    for (asked, sent) in [(0x10, 0x10), (0xff, 0xfc), (0, 0)] {
        library.set(fd, IPPROTO_IP, IP_TOS, &[asked]).unwrap();
        library.set(fd, IPPROTO_TCP, TCP_NODELAY, &on()).unwrap();
        assert_eq!(library.write(fd, b"data"), 4);
        let (_, packet) = library.sniff_packet();
        assert_eq!(Ipv4Header::parse(&packet).unwrap().0.dscp_ecn, sent);
    }
}

#[test]
fn a_cork_holds_what_is_no_whole_segment() {
    let library = Library::new(c"timestamps=off");
    let (fd, una) = accepted(&library);
    library.set(fd, IPPROTO_TCP, TCP_CORK, &on()).unwrap();
    assert_eq!(library.write(fd, &[7; 1_040]), 1_040);
    assert_eq!(library.sniff().2.len(), 1_000);
    library.inject(Flags::ACK, 101, una.wrapping_add(1_000), &[]);
    let start = library.now();
    // It waits for the timer, here of a round trip of next to nothing.
    let (at, header, payload) = library.sniff();
    assert_eq!((payload.len(), header.flags), (40, Flags::ACK | Flags::PSH));
    assert!((200_000..250_000).contains(&(at - start)), "{}", at - start);
    library.inject(Flags::ACK, 101, una.wrapping_add(1_040), &[]);
    assert_eq!(library.write(fd, &[7; 40]), 40);
    library.set(fd, IPPROTO_TCP, TCP_CORK, &0i32.to_ne_bytes()).unwrap();
    let before = library.now();
    assert_eq!((library.sniff().2.len(), library.now() - before < 100), (40, true));
}

#[test]
fn what_more_follows_waits_for_it() {
    let library = Library::new(c"timestamps=off");
    let (fd, _) = accepted(&library);
    let start = library.now();
    assert_eq!(library.send(fd, b"head ", libc::MSG_MORE), 5);
    assert_eq!(library.send(fd, b"body", 0), 4);
    let (at, header, payload) = library.sniff();
    assert_eq!((payload.as_slice(), header.flags), (&b"head body"[..], Flags::ACK | Flags::PSH));
    assert!(at - start < 1_000);
}

/// Linux: `tcp_stream_memory_free` in include/net/tcp.h.
#[test]
fn a_socket_takes_no_more_than_may_wait_to_be_sent() {
    for flags in [c"timestamps=off", c"timestamps=off,notsent-lowat=4000"] {
        let library = Library::new(flags);
        let (fd, una) = accepted(&library);
        assert_eq!(call!(library, fcntl, fd, libc::F_SETFL, libc::O_NONBLOCK.into()), 0);
        if flags == c"timestamps=off" {
            library.set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &4_000i32.to_ne_bytes()).unwrap();
        }
        let ready = || {
            let mut watched = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
            call!(library, poll, &raw mut watched, 1, 0)
        };
        assert_eq!((ready(), library.write(fd, &[7; 59_000])), (1, 14_000), "the first window, and what may wait");
        assert_eq!((ready(), library.write(fd, &[7; 1]), errno()), (0, -1, libc::EAGAIN));
        // Two segments of the four that wait: the half is not worth a wake-up.
        library.inject(Flags::ACK, 101, una.wrapping_add(1_000), &[]);
        assert_eq!(ready(), 0);
        library.inject(Flags::ACK, 101, una.wrapping_add(4_000), &[]);
        assert_eq!(ready(), 1);
    }
}

/// An edge is told once, when there is room again.
#[test]
fn room_to_send_is_an_edge_for_epoll() {
    let library = Library::new(c"timestamps=off,send-limit=20000");
    let (fd, una) = accepted(&library);
    assert_eq!(call!(library, fcntl, fd, libc::F_SETFL, libc::O_NONBLOCK.into()), 0);
    let epoll = call!(library, epoll_create, 1);
    let mut event = libc::epoll_event { events: (libc::EPOLLOUT | libc::EPOLLET) as u32, u64: 4 };
    assert_eq!(call!(library, epoll_ctl, epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event), 0);
    let told = || {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        call!(library, epoll_wait, epoll, &raw mut event, 1, 0)
    };
    assert_eq!((told(), told()), (1, 0));
    assert_eq!(library.write(fd, &[7; 30_000]), 20_000);
    assert_eq!(told(), 0);
    library.inject(Flags::ACK, 101, una.wrapping_add(2_000), &[]);
    assert_eq!(told(), 0, "less than a third is free");
    library.inject(Flags::ACK, 101, una.wrapping_add(10_000), &[]);
    assert_eq!((told(), told()), (1, 0));
}

/// RFC 5482.
#[test]
fn a_user_timeout_ends_what_gets_no_answer() {
    let library = Library::new(c"timestamps=off");
    let (fd, _) = accepted(&library);
    library.set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &3_000i32.to_ne_bytes()).unwrap();
    assert_eq!(library.write(fd, b"lost"), 4);
    assert_eq!(call!(library, usleep, 2_500_000), 0);
    assert_eq!(library.write(fd, b"more"), 4);
    assert_eq!(call!(library, usleep, 5_000_000), 0);
    assert_eq!((library.write(fd, b"more"), errno()), (-1, libc::ETIMEDOUT));
}

/// RFC 9293 section 3.9.1.2, Linux's `forced_push`.
#[test]
fn writes_and_half_windows_are_pushed() {
    let library = Library::new(c"timestamps=off");
    let (fd, una) = accepted(&library);
    // The peer's window is 30,000 and its MSS 1,000.
    assert_eq!(library.write(fd, &[7; 40_000]), 40_000);
    let mut pushed = Vec::new();
    let mut next = una;
    while next != una.wrapping_add(40_000) {
        let (_, header, payload) = library.sniff();
        next = header.seq.0.wrapping_add(payload.len() as u32);
        if header.flags.contains(Flags::PSH) {
            pushed.push(next.wrapping_sub(una));
        }
        library.inject(Flags::ACK, 101, next, &[]);
    }
    assert!(pushed.len() >= 2 && pushed.ends_with(&[40_000]), "{pushed:?}");
    assert!(pushed.windows(2).all(|pair| pair[1] - pair[0] <= 16_000), "{pushed:?}");
}

#[test]
fn what_is_left_to_read_is_told_with_what_was_read() {
    let library = Library::new(c"timestamps=off");
    let (fd, una) = accepted(&library);
    library.set(fd, IPPROTO_TCP, TCP_INQ, &on()).unwrap();
    library.inject(Flags::ACK, 101, una, &[7; 900]);
    let read = |len: usize| {
        let mut bytes = vec![0u8; len];
        let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: len };
        let mut control = [0u64; 4];
        // SAFETY: all zero is a message header without anything.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (&raw mut vector, 1);
        (message.msg_control, message.msg_controllen) = ((&raw mut control).cast(), size_of_val(&control));
        let got = call!(library, recvmsg, fd, &raw mut message, 0);
        // SAFETY: the library filled in the header and its one message.
        let left = unsafe {
            let head = libc::CMSG_FIRSTHDR(&raw const message).as_ref().expect("a control message");
            assert_eq!((head.cmsg_level, head.cmsg_type), (IPPROTO_TCP, libc::TCP_CM_INQ));
            libc::CMSG_DATA(head).cast::<c_int>().read_unaligned()
        };
        (got, left)
    };
    assert_eq!(read(200), (200, 700));
    assert_eq!(read(700), (700, 0));
    library.inject(Flags::ACK | Flags::FIN, 1_001, una, &[7; 10]);
    assert_eq!(read(10), (10, 1), "the end is still to be read");
}

/// `SO_MAX_PACING_RATE`: a segment at a time, each when the one before is paid for.
#[test]
fn a_rate_spreads_what_is_written() {
    let library = Library::new(c"timestamps=off");
    let (fd, una) = accepted(&library);
    let rate = |fd| library.get(fd, SOL_SOCKET, libc::SO_MAX_PACING_RATE, 8);
    assert_eq!(rate(fd), Ok(u64::MAX.to_ne_bytes().to_vec()), "none");
    library.set(fd, SOL_SOCKET, libc::SO_MAX_PACING_RATE, &20_000u32.to_ne_bytes()).unwrap();
    assert_eq!(rate(fd), Ok(20_000u64.to_ne_bytes().to_vec()));
    assert_eq!(library.get(fd, SOL_SOCKET, libc::SO_MAX_PACING_RATE, 4), Ok(20_000u32.to_ne_bytes().to_vec()));
    assert_eq!(library.write(fd, &[7; 4_000]), 4_000);
    let mut times = Vec::new();
    for segment in 0..4 {
        let (at, header, payload) = library.sniff();
        assert_eq!((header.seq.0, payload.len()), (una.wrapping_add(1_000 * segment), 1_000));
        times.push(at);
    }
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // In microseconds; the calendar is up to 66 late, and makes up for it.
    assert!(gaps.iter().all(|gap| (49_900..50_100).contains(gap)), "{gaps:?}");
    library.set(fd, SOL_SOCKET, libc::SO_MAX_PACING_RATE, &(-1i32).to_ne_bytes()).unwrap();
    assert_eq!(rate(fd), Ok(u64::MAX.to_ne_bytes().to_vec()));
    library.inject(Flags::ACK, 101, una.wrapping_add(4_000), &[]);
    assert_eq!(library.write(fd, &[7; 3_000]), 3_000);
    let times = [0; 3].map(|_| library.sniff().0);
    assert_eq!((times[1] - times[0], times[2] - times[0]), (0, 0));
}
