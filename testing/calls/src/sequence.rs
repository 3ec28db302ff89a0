//! Sequences of calls at random.

use crate::call::{Call, Choice, HANDLES, LibraryCall, Place, SETS, StrayAddress, StrayCall};
use random::SplitMix64;

/// A call, and on which side.
pub type Step = (usize, Call);

/// How a sequence is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recipe {
    /// Calls.
    pub steps: usize,
    /// Bytes that are sent in all, at most.
    pub bytes: usize,
    /// Whether connections may end by a reset: then what is in no inbox is lost.
    pub resets: bool,
    /// Whether there are calls that are the C library's affair.
    pub library: bool,
}

/// The options that are asked for and set.
const OPTIONS: &[(i32, i32, &[i32])] = &[
    (libc::IPPROTO_TCP, libc::TCP_NODELAY, &[0, 1, 7]),
    (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, &[0, 30, 40_000, -1]),
    (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, &[5, 32_768]),
    (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, &[3, 128]),
    (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &[0, 5_000, -1]),
    (libc::IPPROTO_TCP, libc::TCP_INQ, &[0, 1, 2]),
    (libc::IPPROTO_TCP, 4_711, &[1]),
    (libc::IPPROTO_IP, libc::IP_TOS, &[0, 0x10, 0xb8]),
    (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, &[0, 1]),
    (libc::SOL_SOCKET, libc::SO_REUSEADDR, &[0, 1]),
    (libc::SOL_SOCKET, libc::SO_REUSEPORT, &[0, 1]),
    (libc::SOL_SOCKET, libc::SO_KEEPALIVE, &[0, 1]),
    (libc::SOL_SOCKET, libc::SO_RCVLOWAT, &[0, 1, 100]),
    (libc::SOL_SOCKET, libc::SO_ERROR, &[0]),
    (libc::SOL_SOCKET, libc::SO_TYPE, &[0]),
    (libc::SOL_SOCKET, libc::SO_PROTOCOL, &[1]),
    (libc::SOL_SOCKET, libc::SO_DOMAIN, &[1]),
    (libc::SOL_SOCKET, libc::SO_ACCEPTCONN, &[1]),
    (libc::SOL_SOCKET, 4_711, &[1]),
];

/// The events that are asked for, in sets and by `poll`.
const EVENTS: &[i32] = &[
    libc::EPOLLIN,
    libc::EPOLLOUT,
    libc::EPOLLIN | libc::EPOLLOUT,
    libc::EPOLLIN | libc::EPOLLRDHUP,
    libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP,
    libc::EPOLLRDHUP,
    0,
];
const WAYS: &[i32] = &[
    0,
    libc::EPOLLET,
    libc::EPOLLONESHOT,
    libc::EPOLLET | libc::EPOLLONESHOT,
    libc::EPOLLEXCLUSIVE,
    libc::EPOLLEXCLUSIVE | libc::EPOLLET,
];

const STRAY_CALLS: &[StrayCall] = &[
    StrayCall::Recv,
    StrayCall::Send,
    StrayCall::Readv,
    StrayCall::Writev,
    StrayCall::RecvmsgHeader,
    StrayCall::RecvmsgVectors,
    StrayCall::SendmsgHeader,
    StrayCall::Recvmmsg,
    StrayCall::Getsockname,
    StrayCall::GetsocknameLength,
    StrayCall::Getpeername,
    StrayCall::Connect,
    StrayCall::Setsockopt,
    StrayCall::Getsockopt,
    StrayCall::GetsockoptLength,
    StrayCall::SetNonblocking,
    StrayCall::Readable,
    StrayCall::Accept,
    StrayCall::Control,
    StrayCall::Wait,
    StrayCall::Poll,
    StrayCall::Sendto,
];
const STRAY_ADDRESSES: &[StrayAddress] =
    &[StrayAddress::Null, StrayAddress::Low, StrayAddress::Unmapped, StrayAddress::NotCanonical];

/// Chooses.
pub struct Chooser {
    random: SplitMix64,
    recipe: Recipe,
    sent: usize,
    next_byte: u8,
    /// Handles that were shut down. They are neither connected nor listened on: what
    /// comes of a connection that was shut down before it began is not compared
    /// (docs/differences.md).
    shut: [[bool; HANDLES]; 2],
}

impl Chooser {
    /// By a seed.
    #[must_use]
    pub const fn new(seed: u64, recipe: Recipe) -> Self {
        Self { random: SplitMix64::new(seed), recipe, sent: 0, next_byte: 0, shut: [[false; HANDLES]; 2] }
    }

    /// A whole sequence: both sides have a set, and one a listener, before anything is
    /// left to chance.
    pub fn sequence(&mut self) -> Vec<Step> {
        let mut steps = vec![
            (0, Call::CreateSet { set: 0 }),
            (1, Call::CreateSet { set: 0 }),
            (0, Call::Socket { handle: 0 }),
            (0, Call::Bind { handle: 0, place: Place::Own, port: Some(0) }),
            (0, Call::Listen { handle: 0, backlog: 16 }),
        ];
        for _ in 0..self.recipe.steps {
            let side = self.random.below(2);
            let call = self.call(side);
            steps.push((side, call));
        }
        steps
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.below(all.len())]
    }

    fn handle(&mut self) -> usize {
        // Few, so that calls meet.
        let among = HANDLES / 2 + self.random.below(HANDLES / 2) + 1;
        self.random.below(among)
    }

    fn set(&mut self) -> usize {
        if self.random.below(5) == 0 { self.random.below(SETS) } else { 0 }
    }

    fn call(&mut self, side: usize) -> Call {
        let handle = self.handle();
        if self.recipe.library && self.random.below(4) == 0 {
            return Call::Library { handle, what: self.library_call() };
        }
        match self.random.below(100) {
            0..4 => {
                self.shut[side][handle] = false;
                Call::Socket { handle }
            }
            4..7 => {
                let place = self.of(&[Place::Own, Place::Own, Place::Any, Place::Foreign]);
                // The ports of a side are its own: in the kernel both share one host. And so are those
                // of any address: where one that was bound to any had a connection, Linux forgets
                // that it has the others, too (docs/differences.md).
                let ports: &[_] = if place == Place::Any { &[None, Some(2)] } else { &[None, Some(0), Some(1)] };
                let port = self.of(ports).map(|port| port + 3 * side as u16);
                Call::Bind { handle, place, port }
            }
            7..9 if self.shut[side][handle] => Call::LocalAddress { handle },
            7..9 => Call::Listen { handle, backlog: self.of(&[16, 16, 100, -1]) },
            9..17 => Call::Accept { handle, new: self.handle() },
            17..27 if self.shut[side][handle] => self.receiving(handle),
            17..27 => {
                let port = if side == 1 { self.of(&[0, 0, 0, 1]) } else { self.of(&[3, 4, 5]) };
                Call::Connect { handle, port }
            }
            27 if self.recipe.resets => Call::Disconnect { handle },
            27..37 => self.sending(handle),
            37..47 => self.receiving(handle),
            47..51 => {
                self.shut[side][handle] = true;
                Call::Shutdown { handle, how: self.of(&[0, 1, 2, 1, 3]) }
            }
            51..54 if self.recipe.resets => Call::Close { handle },
            54..56 => {
                let others = 1 + self.random.below(HANDLES - 1);
                let new = (handle + others) % HANDLES;
                self.shut[side][new] = true;
                Call::Dup { handle, new }
            }
            56..60 => {
                let (level, name, _) = self.of(OPTIONS);
                Call::Option { handle, choice: Choice { level, name } }
            }
            60..63 => {
                let (level, name, values) = self.of(OPTIONS);
                Call::SetOption { handle, choice: Choice { level, name }, value: self.of(values) }
            }
            63 if self.recipe.resets => Call::Linger { handle, on: self.of(&[0, 1]), seconds: 0 },
            63..65 => Call::LocalAddress { handle },
            65..67 => Call::PeerAddress { handle },
            67..69 => Call::Readable { handle },
            69..74 => Call::Poll { handle, events: self.of(EVENTS) as i16 },
            74 => Call::CreateSet { set: self.set() },
            75 => Call::CloseSet { set: self.random.below(SETS) },
            76..86 => {
                let op = self.of(&[libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD, libc::EPOLL_CTL_DEL]);
                let events = (self.of(EVENTS) | self.of(WAYS)).cast_unsigned();
                Call::Control { set: self.set(), op, handle, events }
            }
            86..88 => Call::PollSet { set: self.set() },
            _ => Call::Wait { set: self.set(), most: self.of(&[64, 64, 64, 1, 2]) },
        }
    }

    fn library_call(&mut self) -> LibraryCall {
        let flags = self.of(&[0, libc::MSG_PEEK, libc::MSG_DONTWAIT]);
        let lens = self.of(&[[1, 3], [5, 0], [100, 100]]);
        match self.random.below(32) {
            0 => LibraryCall::CloseOnExec { on: true },
            1 => LibraryCall::CloseOnExec { on: false },
            2 => LibraryCall::Nonblocking,
            3 => LibraryCall::SetFlags,
            4 => LibraryCall::AtMark,
            5 => LibraryCall::UnknownControl,
            6 => LibraryCall::Double { close_on_exec: false },
            7 => LibraryCall::Double { close_on_exec: true },
            8..10 => LibraryCall::ReceiveMany { lens, flags },
            10..12 => {
                let first = self.next_byte;
                self.next_byte = self.next_byte.wrapping_add(31);
                LibraryCall::SendMany { first, lens }
            }
            12..14 => LibraryCall::State,
            14 => LibraryCall::Kind,
            15..17 => LibraryCall::Print { number: self.of(&[0, 4_711]) },
            17..19 => LibraryCall::PutLine { number: self.of(&[0, 4_711]) },
            19 => LibraryCall::Interrupted { restarts: self.of(&[false, true]) },
            _ => LibraryCall::Stray { call: self.of(STRAY_CALLS), at: self.of(STRAY_ADDRESSES) },
        }
    }

    fn sending(&mut self, handle: usize) -> Call {
        let most = self.recipe.bytes / 8 + 1;
        let mut len = self.of(&[0, 1, 5, 100, 1448, 4000, 30_000]).min(most);
        if self.sent + 2 * len > self.recipe.bytes {
            len = 0;
        }
        let first = self.next_byte;
        self.next_byte = self.next_byte.wrapping_add(31);
        self.sent += len;
        if self.random.below(3) == 0 {
            self.sent += 3;
            return Call::Writev { handle, first, lens: self.of(&[[len, 3], [0, len], [len, 0]]) };
        }
        Call::Send { handle, first, len, flags: self.of(&[0, 0, libc::MSG_DONTWAIT, libc::MSG_EOR]) }
    }

    fn receiving(&mut self, handle: usize) -> Call {
        let len = self.of(&[0, 1, 5, 100, 5_000, 100_000]);
        if self.random.below(3) == 0 {
            return Call::Readv { handle, lens: self.of(&[[len, 3], [1, len]]) };
        }
        let flags = self.of(&[
            0,
            0,
            libc::MSG_PEEK,
            libc::MSG_TRUNC,
            libc::MSG_PEEK | libc::MSG_TRUNC,
            libc::MSG_DONTWAIT,
            libc::MSG_WAITALL,
            libc::MSG_OOB,
        ]);
        Call::Recv { handle, len, flags }
    }
}
