//! The control socket: a Unix socket of sequenced packets, each a message and
//! perhaps a file descriptor.

use crate::config::Address;
use crate::message::{MESSAGE_SIZE, Message};
use core::mem::MaybeUninit;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 8;
/// File descriptors per message: the protocol has one. What is more is closed.
const DESCRIPTORS_PER_MESSAGE: usize = 1;

/// A connected control socket.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: OwnedFd,
}

/// What a look at the socket brought.
#[derive(Debug)]
pub(crate) enum Received {
    /// Nothing now.
    Nothing,
    /// The peer is gone.
    Closed,
    /// A packet that is no message.
    Malformed,
    /// A message, with the file descriptor that came with it.
    Message(Message, Option<OwnedFd>),
}

impl Channel {
    /// Connects, without waiting: a server whose backlog is full is an error.
    pub(crate) fn connect(address: &Address) -> io::Result<Self> {
        let socket = new_socket()?;
        rustix::net::connect(&socket, &socket_address(address)?)?;
        Ok(Self { socket })
    }

    /// Whose process the other end is: of a client that connected, or of the
    /// one that listened.
    pub(crate) fn peer_uid(&self) -> io::Result<u32> {
        Ok(rustix::net::sockopt::socket_peercred(&self.socket)?.uid.as_raw())
    }

    pub(crate) fn send(&self, message: &Message, attachment: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = message.encode();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_MESSAGE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let attached = attachment.as_slice();
        if !attached.is_empty() && !control.push(SendAncillaryMessage::ScmRights(attached)) {
            return Err(io::Error::other("no space for the file descriptor"));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        rustix::net::sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut control, flags)?;
        Ok(())
    }

    /// Takes one message; one system call.
    pub(crate) fn receive(&self) -> Received {
        let mut bytes = [0; MESSAGE_SIZE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_PER_MESSAGE))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let got = match rustix::net::recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(got) => got,
            Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
            Err(_) => return Received::Closed,
        };
        let mut attached = None;
        for ancillary in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = ancillary {
                attached = descriptors.last();
            }
        }
        match got.bytes {
            0 => Received::Closed,
            MESSAGE_SIZE if !got.flags.contains(ReturnFlags::TRUNC) => {
                Message::decode(&bytes).map_or(Received::Malformed, |message| Received::Message(message, attached))
            }
            _ => Received::Malformed,
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A listening control socket; removes its file when dropped.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: OwnedFd,
    address: Address,
    /// Device and inode of the socket file that we made.
    identity: Option<(u64, u64)>,
}

/// Why a server cannot listen.
#[derive(Debug)]
pub(crate) enum ListenError {
    /// Another process does.
    InUse,
    /// The path is something else.
    NotASocket,
    Io(&'static str, io::Error),
}

impl Listener {
    /// Listens at `address`, with a file of these permissions.
    pub(crate) fn new(address: &Address, mode: u32) -> Result<Self, ListenError> {
        let socket = new_socket().map_err(|e| ListenError::Io("make a socket", e))?;
        let name = socket_address(address).map_err(|e| ListenError::Io("name the socket", e))?;
        // The file is made with what the socket has (unix_bind_bsd in net/unix/af_unix.c), less the umask: it is never
        // there with more.
        rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode))
            .map_err(|e| ListenError::Io("set the socket's permissions", e.into()))?;
        match rustix::net::bind(&socket, &name) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => {
                remove_stale(address)?;
                rustix::net::bind(&socket, &name).map_err(|e| ListenError::Io("bind", e.into()))?;
            }
            Err(error) => return Err(ListenError::Io("bind", error.into())),
        }
        let listener = Self { socket, identity: identity(address), address: address.clone() };
        listener.widen(mode).map_err(|e| ListenError::Io("set the socket file's permissions", e))?;
        rustix::net::listen(&listener.socket, BACKLOG).map_err(|e| ListenError::Io("listen", e.into()))?;
        Ok(listener)
    }

    /// Gives the file what the umask took.
    fn widen(&self, mode: u32) -> io::Result<()> {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let Address::Path(path) = &self.address else { return Ok(()) };
        // The file itself, and no other that somebody puts in its place, nor what a link leads to.
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path.as_path(), flags, Mode::empty())?;
        let held = format!("/proc/self/fd/{}", file.as_raw_fd());
        let metadata = std::fs::File::from(file.try_clone()?).metadata()?;
        if Some((metadata.dev(), metadata.ino())) != self.identity || metadata.mode() & 0o777 == mode {
            return Ok(());
        }
        std::fs::set_permissions(held, std::fs::Permissions::from_mode(mode))
    }

    /// Takes the next connection, if there is one; one system call.
    pub(crate) fn accept(&self) -> Option<Channel> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        rustix::net::accept_with(&self.socket, flags).ok().map(|socket| Channel { socket })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Only our own file: a successor may have put its own there.
        if let Address::Path(path) = &self.address
            && self.identity.is_some()
            && identity(&self.address) == self.identity
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes a socket file on which nobody listens any more.
fn remove_stale(address: &Address) -> Result<(), ListenError> {
    use std::os::unix::fs::FileTypeExt;
    let Address::Path(path) = address else {
        return Err(ListenError::InUse); // Abstract names go with their process.
    };
    let metadata = std::fs::symlink_metadata(path).map_err(|e| ListenError::Io("inspect the socket file", e))?;
    if !metadata.file_type().is_socket() {
        return Err(ListenError::NotASocket);
    }
    let probe = new_socket().map_err(|e| ListenError::Io("make a socket", e))?;
    let name = socket_address(address).map_err(|e| ListenError::Io("name the socket", e))?;
    match rustix::net::connect(&probe, &name) {
        Err(Errno::CONNREFUSED) => {
            std::fs::remove_file(path).map_err(|e| ListenError::Io("remove the stale socket file", e))
        }
        // Connected, or its backlog is full, or it is of another socket type: somebody is there.
        _ => Err(ListenError::InUse),
    }
}

fn identity(address: &Address) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let Address::Path(path) = address else { return None };
    std::fs::symlink_metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

fn socket_address(address: &Address) -> io::Result<SocketAddrUnix> {
    Ok(match address {
        Address::Path(path) => SocketAddrUnix::new(path.as_path())?,
        Address::Abstract(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
    })
}
