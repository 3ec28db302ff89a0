//! The library, called as packetdrill calls it.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::net::Ipv4Addr;
use packetdrill_nearside::{Interface, packetdrill_interface_init};
use wire::checksum::pseudo_v4;
use wire::ipv4::{self, Ipv4Header};
use wire::tcp::{self, Flags, SackBlocks, SeqNum, TcpHeader, TcpOptions};

pub const OURS: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
pub const THEIRS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub const PORT: u16 = 8080;
pub const PEER_PORT: u16 = 40_000;

/// The library, with the arguments of Rust.
pub struct Library(pub Interface);

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
pub(crate) use call;

impl Library {
    pub fn new(flags: &core::ffi::CStr) -> Self {
        let mut table = MaybeUninit::uninit();
        // SAFETY: init writes the whole table.
        unsafe {
            packetdrill_interface_init(flags.as_ptr(), table.as_mut_ptr());
            Self(table.assume_init())
        }
    }

    pub fn listener(&self) -> c_int {
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

    pub fn inject(&self, flags: Flags, seq: u32, ack: u32, payload: &[u8]) {
        self.inject_to(PORT, flags, seq, ack, payload);
    }

    pub fn inject_to(&self, port: u16, flags: Flags, seq: u32, ack: u32, payload: &[u8]) {
        let options = TcpOptions { mss: flags.contains(Flags::SYN).then_some(1000), ..TcpOptions::NONE };
        self.inject_with(port, options, flags, seq, ack, payload);
    }

    /// An acknowledgement with SACK blocks.
    pub fn inject_sack(&self, ack: u32, blocks: &[(u32, u32)]) {
        let mut sack = SackBlocks::EMPTY;
        for &(start, end) in blocks {
            sack.push(SeqNum(start), SeqNum(end));
        }
        self.inject_with(PORT, TcpOptions { sack, ..TcpOptions::NONE }, Flags::ACK, 101, ack, &[]);
    }

    fn inject_with(&self, port: u16, options: TcpOptions, flags: Flags, seq: u32, ack: u32, payload: &[u8]) {
        let header = TcpHeader {
            src_port: PEER_PORT,
            dst_port: port,
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
        self.arrive(&packet);
    }

    /// An IP packet arrives.
    pub fn arrive(&self, packet: &[u8]) {
        assert_eq!(call!(self, netdev_send, packet.as_ptr().cast(), packet.len()), 0);
    }

    /// The next packet: when it was sent, and all of it.
    pub fn sniff_packet(&self) -> (i64, Vec<u8>) {
        let mut packet = vec![0u8; 65_536];
        let mut len = packet.len();
        let mut time = 0;
        assert_eq!(call!(self, netdev_receive, packet.as_mut_ptr().cast(), &raw mut len, &raw mut time), 0);
        assert!(len > 0, "nothing is sent any more");
        packet.truncate(len);
        (time, packet)
    }

    /// The next segment: when it was sent, its header and payload.
    pub fn sniff(&self) -> (i64, TcpHeader, Vec<u8>) {
        let (time, packet) = self.sniff_packet();
        let (ip, segment) = Ipv4Header::parse(&packet).unwrap();
        assert_eq!((ip.src, ip.dst), (OURS, THEIRS));
        let pseudo = pseudo_v4(ip.src, ip.dst, 6, segment.len() as u16);
        let (header, payload, _) = TcpHeader::parse(segment, pseudo).unwrap();
        (time, header, payload.to_vec())
    }

    /// A peer connects; returns our initial sequence number.
    pub fn handshake(&self) -> u32 {
        self.handshake_as(false)
    }

    /// The same with a peer that offers SACK.
    pub fn handshake_with_sack(&self) -> u32 {
        self.handshake_as(true)
    }

    fn handshake_as(&self, sack_permitted: bool) -> u32 {
        let options = TcpOptions { mss: Some(1000), sack_permitted, ..TcpOptions::NONE };
        self.inject_with(PORT, options, Flags::SYN, 100, 0, &[]);
        let (_, header, _) = self.sniff();
        assert_eq!(header.flags, Flags::SYN | Flags::ACK);
        assert_eq!(header.ack, SeqNum(101));
        self.inject(Flags::ACK, 101, header.seq.0.wrapping_add(1), &[]);
        header.seq.0
    }

    pub fn accept(&self, listener: c_int) -> c_int {
        call!(self, accept, listener, core::ptr::null_mut(), core::ptr::null_mut())
    }

    pub fn now(&self) -> i64 {
        let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
        assert_eq!(call!(self, gettimeofday, &raw mut time, core::ptr::null_mut()), 0);
        time.tv_sec * 1_000_000 + time.tv_usec
    }

    pub fn read(&self, fd: c_int) -> Result<Vec<u8>, c_int> {
        let mut bytes = vec![0u8; 4096];
        match call!(self, read, fd, bytes.as_mut_ptr().cast(), bytes.len()) {
            len @ 0.. => Ok(bytes[..len as usize].to_vec()),
            _ => Err(errno()),
        }
    }

    pub fn set(&self, fd: c_int, level: c_int, name: c_int, value: &[u8]) -> Result<(), c_int> {
        let len = value.len() as u32;
        let set = call!(self, setsockopt, fd, level, name, value.as_ptr().cast(), len);
        if set == 0 { Ok(()) } else { Err(errno()) }
    }

    /// The value, with room for `room` bytes.
    pub fn get(&self, fd: c_int, level: c_int, name: c_int, room: usize) -> Result<Vec<u8>, c_int> {
        let mut value = vec![0xaa; room];
        let mut len = room as u32;
        let got = call!(self, getsockopt, fd, level, name, value.as_mut_ptr().cast(), &raw mut len);
        value.truncate(len as usize);
        if got == 0 { Ok(value) } else { Err(errno()) }
    }

    pub fn number(&self, fd: c_int, level: c_int, name: c_int) -> Result<c_int, c_int> {
        Ok(c_int::from_ne_bytes(self.get(fd, level, name, 4)?.try_into().unwrap()))
    }

    pub fn send(&self, fd: c_int, bytes: &[u8], flags: c_int) -> isize {
        call!(self, send, fd, bytes.as_ptr().cast::<c_void>(), bytes.len(), flags)
    }

    pub fn write(&self, fd: c_int, bytes: &[u8]) -> isize {
        call!(self, write, fd, bytes.as_ptr().cast::<c_void>(), bytes.len())
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        call!(self, free);
    }
}

pub fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}
