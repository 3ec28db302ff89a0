//! The table of functions, called as packetdrill calls it.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::net::Ipv4Addr;
use packetdrill_nearside::{Interface, packetdrill_interface_init};
use wire::checksum::pseudo_v4;
use wire::ipv4::{self, Ipv4Header};
use wire::tcp::{self, Flags, SeqNum, TcpHeader, TcpOptions};

const OURS: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PORT: u16 = 8080;
const PEER_PORT: u16 = 40_000;

/// The library, with the arguments of Rust.
struct Library(Interface);

// SAFETY: packetdrill calls the table from two threads; the state behind it
// has its own lock.
unsafe impl Sync for Library {}

/// Calls a slot with its state.
macro_rules! call {
    ($library:expr, $slot:ident $(, $argument:expr)*) => {
        // SAFETY: the arguments are as the slot's C function takes them, and
        // the state is freed only when the library is dropped.
        unsafe { ($library.0.$slot)($library.0.userdata $(, $argument)*) }
    };
}

impl Library {
    fn new(flags: &core::ffi::CStr) -> Self {
        let mut table = MaybeUninit::uninit();
        // SAFETY: init writes the whole table.
        unsafe {
            packetdrill_interface_init(flags.as_ptr(), table.as_mut_ptr());
            Self(table.assume_init())
        }
    }

    fn listener(&self) -> c_int {
        let fd = call!(self, socket, libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_TCP);
        assert!(fd >= 0);
        let address = libc::sockaddr_in {
            sin_family: libc::AF_INET as u16,
            sin_port: PORT.to_be(),
            sin_addr: libc::in_addr { s_addr: OURS.to_bits().to_be() },
            sin_zero: [0; 8],
        };
        assert_eq!(call!(self, bind, fd, (&raw const address).cast(), size_of_val(&address) as u32), 0);
        assert_eq!(call!(self, listen, fd, 5), 0);
        fd
    }

    fn inject(&self, flags: Flags, seq: u32, ack: u32, payload: &[u8]) {
        let options = TcpOptions { mss: flags.contains(Flags::SYN).then_some(1000), ..TcpOptions::NONE };
        let header = TcpHeader {
            src_port: PEER_PORT,
            dst_port: PORT,
            seq: SeqNum(seq),
            ack: SeqNum(ack),
            flags,
            window: 30_000,
            urgent: 0,
            options,
        };
        let head = header.header_len();
        let mut packet = vec![0; ipv4::HEADER_LEN + head];
        packet.extend_from_slice(payload);
        let len = (head + payload.len()) as u16;
        let ip = Ipv4Header {
            src: THEIRS,
            dst: OURS,
            protocol: 6,
            ttl: 64,
            dscp_ecn: 0,
            identification: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            header_len: ipv4::HEADER_LEN as u8,
            payload_len: len,
        };
        ip.emit(&mut packet);
        let segment = &mut packet[ipv4::HEADER_LEN..];
        header.emit(segment);
        let sum = pseudo_v4(THEIRS, OURS, 6, len).add(wire::checksum::sum(&segment[head..]));
        tcp::set_checksum(&mut segment[..head], sum);
        assert_eq!(call!(self, netdev_send, packet.as_ptr().cast(), packet.len()), 0);
    }

    /// The next segment: when it was sent, its header and payload.
    fn sniff(&self) -> (i64, TcpHeader, Vec<u8>) {
        let mut packet = vec![0u8; 65_536];
        let mut len = packet.len();
        let mut time = 0;
        assert_eq!(call!(self, netdev_receive, packet.as_mut_ptr().cast(), &raw mut len, &raw mut time), 0);
        assert!(len > 0, "nothing is sent any more");
        let (ip, segment) = Ipv4Header::parse(&packet[..len]).unwrap();
        assert_eq!((ip.src, ip.dst), (OURS, THEIRS));
        let pseudo = pseudo_v4(ip.src, ip.dst, 6, segment.len() as u16);
        let (header, payload, _) = TcpHeader::parse(segment, pseudo).unwrap();
        (time, header, payload.to_vec())
    }

    /// A peer connects; returns our initial sequence number.
    fn handshake(&self) -> u32 {
        self.inject(Flags::SYN, 100, 0, &[]);
        let (_, header, _) = self.sniff();
        assert_eq!(header.flags, Flags::SYN | Flags::ACK);
        assert_eq!(header.ack, SeqNum(101));
        self.inject(Flags::ACK, 101, header.seq.0.wrapping_add(1), &[]);
        header.seq.0
    }

    fn accept(&self, listener: c_int) -> c_int {
        call!(self, accept, listener, core::ptr::null_mut(), core::ptr::null_mut())
    }

    fn now(&self) -> i64 {
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        assert_eq!(call!(self, gettimeofday, &raw mut time, core::ptr::null_mut()), 0);
        time.tv_sec * 1_000_000 + time.tv_usec
    }

    fn read(&self, fd: c_int) -> Result<Vec<u8>, c_int> {
        let mut bytes = vec![0u8; 4096];
        match call!(self, read, fd, bytes.as_mut_ptr().cast(), bytes.len()) {
            len @ 0.. => Ok(bytes[..len as usize].to_vec()),
            _ => Err(errno()),
        }
    }

    fn write(&self, fd: c_int, bytes: &[u8]) -> isize {
        call!(self, write, fd, bytes.as_ptr().cast::<c_void>(), bytes.len())
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        call!(self, free);
    }
}

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

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
    let cork = 1;
    let set = call!(library, setsockopt, fd, libc::IPPROTO_TCP, libc::TCP_CORK, (&raw const cork).cast(), 4);
    assert_eq!((set, errno()), (-1, libc::ENOPROTOOPT));
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
