//! A call, and what it came to.

/// Sockets and sets of one side of a world, by number.
pub const HANDLES: usize = 8;
/// Sets of one side.
pub const SETS: usize = 2;

/// What a socket is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Its side's own address.
    Own,
    /// Any address.
    Any,
    /// An address that neither side has.
    Foreign,
}

/// A socket option, by what it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Its level.
    pub level: i32,
    /// Its name.
    pub name: i32,
}

/// A call on one side. Sockets never block.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "fields have the names of the calls' arguments")]
pub enum Call {
    /// `socket` with `O_NONBLOCK` and `TCP_NODELAY`.
    Socket { handle: usize },
    /// `bind`, to one of the side's ports; `None`: any.
    Bind { handle: usize, place: Place, port: Option<u16> },
    /// `listen`.
    Listen { handle: usize, backlog: i32 },
    /// `accept4` with `SOCK_NONBLOCK`.
    Accept { handle: usize, new: usize },
    /// `connect` to a port of the other side.
    Connect { handle: usize, port: u16 },
    /// `connect` to `AF_UNSPEC`.
    Disconnect { handle: usize },
    /// `send`, of bytes that count on from `first`.
    Send { handle: usize, first: u8, len: usize, flags: i32 },
    /// `writev` in two pieces.
    Writev { handle: usize, first: u8, lens: [usize; 2] },
    /// `recv`.
    Recv { handle: usize, len: usize, flags: i32 },
    /// `readv` in two pieces.
    Readv { handle: usize, lens: [usize; 2] },
    /// `shutdown`.
    Shutdown { handle: usize, how: i32 },
    /// `close`.
    Close { handle: usize },
    /// `dup`.
    Dup { handle: usize, new: usize },
    /// `getsockopt` of a number.
    Option { handle: usize, choice: Choice },
    /// `setsockopt` of a number.
    SetOption { handle: usize, choice: Choice, value: i32 },
    /// `SO_LINGER`.
    Linger { handle: usize, on: i32, seconds: i32 },
    /// `getsockname`.
    LocalAddress { handle: usize },
    /// `getpeername`.
    PeerAddress { handle: usize },
    /// `FIONREAD`.
    Readable { handle: usize },
    /// `poll` of one descriptor.
    Poll { handle: usize, events: i16 },
    /// `epoll_create1`.
    CreateSet { set: usize },
    /// `close` of a set.
    CloseSet { set: usize },
    /// `epoll_ctl`; what a watch is known by is its handle.
    Control { set: usize, op: i32, handle: usize, events: u32 },
    /// `epoll_wait` without waiting.
    Wait { set: usize, most: usize },
    /// `poll` of a set.
    PollSet { set: usize },
    /// What a program has of the C library, and not of the calls themselves.
    Library { handle: usize, what: LibraryCall },
}

/// Calls whose making is the C library's affair, or that of whoever stands in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "fields have the names of the calls' arguments")]
pub enum LibraryCall {
    /// `FIOCLEX` or `FIONCLEX`, and what `F_GETFD` says then.
    CloseOnExec { on: bool },
    /// `FIONBIO`, and what `F_GETFL` says then.
    Nonblocking,
    /// `F_SETFL`, likewise.
    SetFlags,
    /// `SIOCATMARK`.
    AtMark,
    /// A request that no socket knows.
    UnknownControl,
    /// `F_DUPFD` or `F_DUPFD_CLOEXEC`, and what `F_GETFD` says of the new one, which is closed.
    Double { close_on_exec: bool },
    /// `recvmmsg`.
    ReceiveMany { lens: [usize; 2], flags: i32 },
    /// `sendmmsg`.
    SendMany { first: u8, lens: [usize; 2] },
    /// The state that `TCP_INFO` has.
    State,
    /// What `fstat` says that it is.
    Kind,
    /// `dprintf`.
    Print { number: i32 },
    /// `fdopen` of a copy, `fputs` and `fclose`.
    PutLine { number: i32 },
    /// A call with an address where there is no memory.
    Stray { call: StrayCall, at: StrayAddress },
    /// `recv` of a byte that is waited for, with a limit (`SO_RCVTIMEO`), and a signal meanwhile whose
    /// handler was installed with `SA_RESTART` or not.
    Interrupted { restarts: bool },
}

/// Calls that are given an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "they are named after the calls")]
pub enum StrayCall {
    Recv,
    Send,
    Readv,
    Writev,
    RecvmsgHeader,
    RecvmsgVectors,
    SendmsgHeader,
    Recvmmsg,
    Getsockname,
    GetsocknameLength,
    Getpeername,
    Connect,
    Setsockopt,
    Getsockopt,
    GetsockoptLength,
    SetNonblocking,
    Readable,
    Accept,
    Control,
    Wait,
    Poll,
    Sendto,
}

/// Addresses of no memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StrayAddress {
    /// Null.
    Null,
    /// One that no program has.
    Low,
    /// A page that was given back.
    Unmapped,
    /// One that the processor does not know.
    NotCanonical,
}

/// What a call came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// What it returned: for what makes a descriptor, 0; -1 for a failure.
    pub result: i64,
    /// `errno` of a failure.
    pub errno: i32,
    /// Bytes that were received.
    pub bytes: Vec<u8>,
    /// Events, in order, and what they are known by.
    pub events: Vec<(u64, u32)>,
    /// An address, with names for what differs between worlds.
    pub address: String,
}

impl Outcome {
    /// Success, with a number.
    #[must_use]
    pub fn of(result: i64) -> Self {
        Self { result, ..Self::default() }
    }

    /// A failure.
    #[must_use]
    pub fn failed(errno: i32) -> Self {
        Self { result: -1, errno, ..Self::default() }
    }
}

/// Whose calls are made: both sides are in one world.
pub trait World {
    /// Makes a call on a side, 0 or 1.
    fn call(&mut self, side: usize, call: &Call) -> Outcome;

    /// Lets everything that was sent arrive.
    fn settle(&mut self);
}

/// Bytes that count on from a first one.
#[must_use]
pub fn counted(first: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| first.wrapping_add((at % 251) as u8)).collect()
}
