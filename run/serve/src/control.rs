//! The control socket: how a new process takes the listening sockets of a
//! running one over, on this machine and by the same user (or root) only.
//!
//! ```text
//!  new                                        running
//!   │ ── Hello { version, pid } ───────────────► │  who: SO_PEERCRED (unix(7))
//!   │ ◄─ Main { at } ──────────────────────────── │  where it has a parent
//!   │ ◄─ Sockets { offered, more } + fds ──────── │  until more is false
//!   │      … the new one accepts connections …    │  both do, from the same queues
//!   │ ── Ready ────────────────────────────────► │
//!   │ ◄─ Yours ────────────────────────────────── │  stops accepting, and retires
//! ```
//!
//! Over AF_XDP the queues of an interface change hands, which have one owner at
//! a time ([`driver::Handover`]):
//!
//! ```text
//!  new                                        running
//!   │ ── Hello { version, pid } ───────────────► │
//!   │ ◄─ Port, Queues { count, more } + fds ───── │  until more is false
//!   │      … the new one is ready, and waits …    │
//!   │ ── Ready ────────────────────────────────► │  stops receiving
//!   │ ◄─ Frozen ───────────────────────────────── │
//!   │ ── Taken ────────────────────────────────► │  never receives again
//!   │ ◄─ Yours ────────────────────────────────── │  retires
//!   │      … until the running one has ended, and the channel with it …
//! ```
//!
//! What decides is whether `Taken` could be said: the running process closes
//! the channel before it goes on by itself ([`Channel::revoke`]).
//!
//! Either side may say `Refused` in place of its next message, or go away:
//! until `Yours` the running process serves on as if nobody had asked. The
//! sockets are the same open file descriptions (SCM_RIGHTS), so that no queue
//! is ever without an owner, and no connection in one is lost.
//!
//! Messages are JSON, one in each packet of a SOCK_SEQPACKET socket.

use cpu::Clock;
use rustix::cmsg_space;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recvmsg, sendmsg, socket_with, sockopt,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::Time;

/// What both sides must speak alike.
pub const VERSION: u32 = 1;

/// Sockets in one message; the kernel takes up to 253 (SCM_MAX_FD).
pub const BATCH: usize = 64;

/// Sockets handed over, at most: as many as there are workers, for each
/// address.
pub const SOCKETS_MAX: usize = 16_384;

/// The longest message, bytes: a batch of the longest paths, and more.
const MESSAGE_MAX: usize = 128 << 10;

/// The longest message of somebody who has little to say, bytes: a status of the longest,
/// each of its bytes escaped as two, and more.
const WORDS_MAX: usize = 4 << 10;

// An endpoint is at most a path of 108 bytes, each escaped as six; a name has
// at most 255 printable bytes (sd_listen_fds(3)), and quotes are escaped as two.
const _: () = assert!(BATCH * (6 * 108 + 2 * 255 + 64) + 1_024 <= MESSAGE_MAX);
const _: () = assert!(BATCH <= 253);

/// Who may be waiting to be heard: one is heard at a time.
const BACKLOG: i32 = 4;

/// How long a queue that is full is waited for, and how often it is looked at.
const CROWDED: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(10);

/// What one side tells the other.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum Message {
    /// New to running: wants to take over.
    Hello {
        /// [`VERSION`] of the new process.
        version: u32,
        /// The process to be signalled from then on: itself, or its parent.
        pid: u32,
        /// Whether it takes [`Message::Main`].
        #[serde(default)]
        greets: bool,
        /// Whether it takes [`Message::Metrics`], and says when it [`Message::Answers`].
        #[serde(default)]
        metrics: bool,
    },
    /// Running to new, first: where the process to be signalled from then on greets the
    /// parent of the running one, which believes nobody else.
    Main {
        /// The socket's path.
        at: String,
    },
    /// Running to new, before sockets and ports: what metrics are told by, with the listening socket.
    Metrics,
    /// Running to new: some of the listening sockets, in the order of the
    /// descriptors that come with it.
    Sockets {
        /// What each is.
        offered: Vec<Offered>,
        /// Whether further ones follow, or queues that these are beside.
        more: bool,
    },
    /// Running to new: a port, with the descriptor of its program's attachment.
    Port {
        /// What both must agree on ([`driver::Offer::terms`]).
        terms: String,
    },
    /// Running to new: some queues of that port, with the descriptors of each
    /// ([`driver::QUEUE_DESCRIPTORS`]).
    Queues {
        /// How many.
        count: usize,
        /// Whether further ones, or ports, follow.
        more: bool,
    },
    /// New to running: serves; over AF_XDP: would, with the queues.
    Ready,
    /// Running to new: receives no more, and waits.
    Frozen,
    /// New to running: the queues are its own.
    Taken,
    /// Running to new: accepts no more.
    Yours,
    /// New to running, where that gave what metrics are told by: it tells them now.
    Answers,
    /// Either: no, and why; a sentence for the user.
    Refused {
        /// The reason.
        why: String,
    },
}

/// A listening socket, as it is described to a successor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Offered {
    /// What it listens on, as `--listen` takes it.
    pub endpoint: String,
    /// A service manager opened it, and keeps it.
    pub managed: bool,
    /// The name that the service manager gave it.
    pub name: Option<String>,
}

/// A message, and the descriptors that came with it.
#[derive(Debug)]
pub struct Received {
    /// What was said.
    pub message: Message,
    /// At most [`BATCH`].
    pub descriptors: Vec<OwnedFd>,
}

/// Why the other side could not be understood.
#[derive(Debug)]
pub enum ChannelError {
    /// It went away.
    Gone,
    /// It said nothing for this long.
    Silent(Duration),
    /// It said what is no message.
    Nonsense,
    /// It said no, and why.
    Refused(String),
    /// What it asked for cannot be given: why.
    Withheld(String),
    /// The operating system's answer.
    Io(io::Error),
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the other process went away"),
            Self::Silent(span) => write!(f, "the other process did not answer within {span:?}"),
            Self::Nonsense => f.write_str("the other process sent what is no message of this protocol"),
            Self::Refused(why) => write!(f, "the other process refused: {why}"),
            Self::Withheld(why) => write!(f, "what it asked for cannot be handed over: {why}"),
            Self::Io(why) => why.fmt(f),
        }
    }
}

impl std::error::Error for ChannelError {}

impl From<Errno> for ChannelError {
    fn from(error: Errno) -> Self {
        match error {
            Errno::PIPE | Errno::CONNRESET => Self::Gone,
            other => Self::Io(other.into()),
        }
    }
}

/// One end of a conversation.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    /// Asks the process whose control socket is at `path`.
    ///
    /// # Errors
    /// If there is none.
    pub fn connect(path: &Path) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let address = SocketAddrUnix::new(path)?;
        let until = Clock.now() + CROWDED;
        // One whose queue is full would have whoever connects wait for as long as it likes.
        while let Err(why) = connect(&socket, &address) {
            if why != Errno::AGAIN || Clock.now() >= until {
                return Err(why.into());
            }
            std::thread::sleep(LOOK);
        }
        Ok(Self(socket))
    }

    /// The process at the other end, as the kernel knows it.
    ///
    /// # Errors
    /// If the operating system does not tell.
    pub fn peer(&self) -> Result<u32, ChannelError> {
        Ok(sockopt::socket_peercred(&self.0)?.pid.as_raw_nonzero().get().unsigned_abs())
    }

    /// Whether the process at the other end is this user's, or root's: what it
    /// says and hands over is believed then.
    ///
    /// # Errors
    /// If the operating system does not tell.
    pub fn is_trusted(&self) -> Result<bool, ChannelError> {
        let peer = sockopt::socket_peercred(&self.0)?;
        Ok(peer.uid.is_root() || peer.uid == rustix::process::geteuid())
    }

    /// The conversation that goes on by this descriptor.
    pub const fn from_fd(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Two ends that are joined.
    ///
    /// # Errors
    /// If the operating system gives none.
    pub fn pair() -> io::Result<(Self, Self)> {
        let kind = (AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let (one, other) = rustix::net::socketpair(kind.0, kind.1, kind.2, None)?;
        Ok((Self(one), Self(other)))
    }

    /// Says `message`; never waits. `descriptors` are at most [`BATCH`].
    ///
    /// # Errors
    /// If the other side is gone, or listens so badly that it cannot be said.
    pub fn send<M: Serialize>(&self, message: &M, descriptors: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        let text = serde_json::to_vec(message).map_err(|_| ChannelError::Nonsense)?;
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(BATCH))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fits = descriptors.len() <= BATCH && text.len() <= MESSAGE_MAX;
        if !fits || !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(ChannelError::Nonsense);
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg(&self.0, &[IoSlice::new(&text)], &mut control, flags)?;
        Ok(())
    }

    /// Neither side can say anything from now on; what was said before is
    /// still heard.
    pub fn revoke(&self) {
        // Fails only if the other side has gone.
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }

    /// What was said, or `None` if nothing was yet.
    ///
    /// # Errors
    /// If the other side is gone, refuses, or cannot be understood.
    pub fn receive(&self) -> Result<Option<Received>, ChannelError> {
        match self.hear()? {
            None => Ok(None),
            Some((Message::Refused { why }, _)) => Err(ChannelError::Refused(why)),
            Some((message, descriptors)) => Ok(Some(Received { message, descriptors })),
        }
    }

    /// The same, in the words of another conversation, with the descriptors.
    ///
    /// # Errors
    /// If the other side is gone, or cannot be understood.
    pub fn hear<M: DeserializeOwned>(&self) -> Result<Option<(M, Vec<OwnedFd>)>, ChannelError> {
        self.hear_within(MESSAGE_MAX)
    }

    fn hear_within<M: DeserializeOwned>(&self, most: usize) -> Result<Option<(M, Vec<OwnedFd>)>, ChannelError> {
        let mut text = vec![0; most];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(BATCH))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let got = match recvmsg(&self.0, &mut [IoSliceMut::new(&mut text)], &mut control, flags) {
            Ok(got) => got,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(other) => return Err(other.into()),
        };
        // Taken first: what is dropped here is closed.
        let mut descriptors = Vec::new();
        for part in control.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = part {
                descriptors.extend(some);
            }
        }
        let cut = got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) || descriptors.len() > BATCH;
        let message = match serde_json::from_slice(&text[..got.bytes]) {
            Ok(message) if !cut => message,
            _ => {
                close_elsewhere(descriptors);
                return Err(if got.bytes == 0 { ChannelError::Gone } else { ChannelError::Nonsense });
            }
        };
        Ok(Some((message, descriptors)))
    }

    /// The same, of somebody who has little to say, and no descriptors to send: one who
    /// does otherwise is not understood.
    ///
    /// # Errors
    /// As [`Channel::hear`].
    pub fn hear_words<M: DeserializeOwned>(&self) -> Result<Option<M>, ChannelError> {
        match self.hear_within(WORDS_MAX)? {
            Some((message, descriptors)) if descriptors.is_empty() => Ok(Some(message)),
            Some((_, descriptors)) => {
                close_elsewhere(descriptors);
                Err(ChannelError::Nonsense)
            }
            None => Ok(None),
        }
    }

    /// Descriptors that are sent to this end are refused from now on, to whoever sends
    /// them, where the kernel knows how (Linux 6.16).
    pub fn refuse_descriptors(&self) {
        let off: libc::c_int = 0;
        // SAFETY: the value is valid for its size, and read only. Where the option is not
        // known, what comes is closed (`close_elsewhere`).
        let _ = unsafe {
            libc::setsockopt(
                self.0.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_PASSRIGHTS,
                (&raw const off).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
    }

    /// What is said within `limit`.
    ///
    /// # Errors
    /// As [`Channel::receive`], or if nothing is.
    pub fn wait(&self, limit: Duration) -> Result<Received, ChannelError> {
        loop {
            if let Some(received) = self.receive()? {
                return Ok(received);
            }
            // A message in pieces does not exist, so each wait is the last.
            let span = Timespec::try_from(limit).map_err(|_| ChannelError::Silent(limit))?;
            if poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&span))? == 0 {
                return Err(ChannelError::Silent(limit));
            }
        }
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.0
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// `SO_PASSRIGHTS` of asm-generic/socket.h.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Closes what nobody asked for on a thread of its own: to close a socket may take as
/// long as whoever sent it likes (SO_LINGER of socket(7)).
fn close_elsewhere(descriptors: Vec<OwnedFd>) {
    if !descriptors.is_empty() {
        // Without a thread they are closed here.
        let _ = std::thread::Builder::new().name("closing".to_owned()).spawn(move || drop(descriptors));
    }
}

/// Whether somebody listens at `path`, who may be too busy to be asked.
pub fn is_listened_on(path: &Path) -> bool {
    match Channel::connect(path) {
        Ok(_) => true,
        Err(why) => why.kind() == io::ErrorKind::WouldBlock,
    }
}

/// A control socket that listens; its file goes when it is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// The file's device and inode: what is removed must still be this one.
    identity: (u64, u64),
    /// From when on it is looked at.
    from: Time,
}

/// How long it is left alone after it could not be accepted from, as for want
/// of descriptors: it stays ready, and to look at it again and again would only
/// burn the core.
const PAUSE: Duration = Duration::from_secs(1);

impl Listener {
    /// Listens at `path`. The file of a process that is gone, or that is
    /// `replaced`, gives way; that of any other does not.
    ///
    /// # Errors
    /// If a living process listens there, or the file cannot be made.
    pub fn bind(path: &Path, replaces: bool) -> io::Result<Self> {
        match std::fs::symlink_metadata(path) {
            Ok(_) if !replaces && is_listened_on(path) => {
                let why = format!("a running process has its control socket at {}", path.display());
                return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
            }
            Ok(data) if !std::os::unix::fs::FileTypeExt::is_socket(&data.file_type()) => {
                let why = format!("{} is there and no socket", path.display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
            }
            _ => {}
        }
        // Bound beside its place and moved there, so that at each moment one
        // of both processes can be asked.
        let mut draft = path.as_os_str().to_owned();
        draft.push(format!(".{}", std::process::id()));
        let draft = PathBuf::from(draft);
        let _ = std::fs::remove_file(&draft);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        // The file is made with this mode, and with no other.
        rustix::fs::fchmod(&socket, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
        bind(&socket, &SocketAddrUnix::new(&draft)?)?;
        let made = listen(&socket, BACKLOG)
            .map_err(io::Error::from)
            .and_then(|()| std::fs::rename(&draft, path))
            .and_then(|()| std::fs::symlink_metadata(path));
        let data = made.inspect_err(|_| {
            let _ = std::fs::remove_file(&draft);
        })?;
        Ok(Self { socket, path: path.to_owned(), identity: (data.dev(), data.ino()), from: Time::ZERO })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What tells that somebody asks, unless that is left alone now.
    pub fn poll_fd(&self, now: Time) -> Option<PollFd<'_>> {
        (now >= self.from).then(|| PollFd::new(self, PollFlags::IN))
    }

    /// The next that asks and may, if any; it is left alone for a while after
    /// it could not be asked.
    pub fn next(&mut self, now: Time) -> Option<Channel> {
        if now < self.from {
            return None;
        }
        self.accept().unwrap_or_else(|why| {
            say::error(format_args!("control socket: {why}"));
            self.from = now + PAUSE;
            None
        })
    }

    /// The next that asks and may: same user, or root. Others are told that
    /// they may not.
    ///
    /// # Errors
    /// If the operating system refuses, as for want of descriptors.
    fn accept(&self) -> io::Result<Option<Channel>> {
        let channel = match accept_with(&self.socket, SocketFlags::CLOEXEC) {
            Ok(socket) => Channel(socket),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
            Err(other) => return Err(other.into()),
        };
        let trusted = channel.is_trusted().map_err(|why| io::Error::other(why.to_string()))?;
        if !trusted {
            // Whether it hears that is its own affair.
            let _ = channel.send(&Message::Refused { why: "this is another user's process".to_owned() }, &[]);
            return Ok(None);
        }
        Ok(Some(channel))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let here = std::fs::symlink_metadata(&self.path).map(|data| (data.dev(), data.ino()));
        if here.is_ok_and(|here| here == self.identity) {
            // Nobody is left to tell; a file left behind is seen to be dead.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests;
