//! A cable between the two sides of a memif that can be pulled: it carries the
//! control channel, on whose end both sides end the link.

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Longer than any message of the protocol.
const MESSAGE_LIMIT: usize = 512;

/// What a look at the sockets may come late.
const NAP: Duration = Duration::from_millis(2);

/// A cable, plugged in at first.
#[derive(Debug)]
pub struct Cable {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    server: PathBuf,
    plugged: AtomicBool,
    over: AtomicBool,
    joined: AtomicUsize,
}

impl Cable {
    /// Clients that connect to `end` are led to the server that listens at
    /// `server`.
    ///
    /// # Panics
    /// If there can be no socket at `end`.
    #[must_use]
    pub fn new(end: &Path, server: &Path) -> Self {
        // One that a test before left behind.
        let _ = std::fs::remove_file(end);
        let listener = socket();
        rustix::net::bind(&listener, &SocketAddrUnix::new(end).expect("a short path")).expect("a new socket");
        rustix::net::listen(&listener, 8).expect("a socket that listens");
        let state = State {
            server: server.to_owned(),
            plugged: AtomicBool::new(true),
            over: AtomicBool::new(false),
            joined: AtomicUsize::new(0),
        };
        let state = Arc::new(state);
        let of_thread = Arc::clone(&state);
        let thread = thread::spawn(move || carry(&of_thread, &listener));
        Self { state, thread: Some(thread) }
    }

    /// Pulls it, or plugs it in again.
    pub fn plug(&self, plugged: bool) {
        self.state.plugged.store(plugged, Ordering::Relaxed);
    }

    /// How often a client was led to the server.
    #[must_use]
    pub fn joined(&self) -> usize {
        self.state.joined.load(Ordering::Relaxed)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn carry(state: &State, listener: &OwnedFd) {
    let mut sides: Option<[OwnedFd; 2]> = None;
    while !state.over.load(Ordering::Relaxed) {
        let plugged = state.plugged.load(Ordering::Relaxed);
        if let Ok(client) = rustix::net::accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)
            && plugged
            && let Some(server) = connect(&state.server)
        {
            state.joined.fetch_add(1, Ordering::Relaxed);
            sides = Some([client, server]);
        }
        let whole = sides.as_ref().is_some_and(|[client, server]| pass(client, server) && pass(server, client));
        if !plugged || !whole {
            sides = None;
        }
        thread::sleep(NAP);
    }
}

fn socket() -> OwnedFd {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a Unix socket")
}

fn connect(server: &Path) -> Option<OwnedFd> {
    let socket = socket();
    rustix::net::connect(&socket, &SocketAddrUnix::new(server).ok()?).ok()?;
    Some(socket)
}

/// Passes on all messages that wait, with their descriptors. Whether both
/// sides are still there.
fn pass(from: &OwnedFd, to: &OwnedFd) -> bool {
    loop {
        let mut bytes = [0; MESSAGE_LIMIT];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = match rustix::net::recvmsg(from, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
            Ok(got) if got.bytes > 0 => got.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return true,
            _ => return false,
        };
        let attached: Vec<OwnedFd> = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        let attached: Vec<_> = attached.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !attached.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&attached));
        }
        if rustix::net::sendmsg(to, &[IoSlice::new(&bytes[..got])], &mut control, SendFlags::NOSIGNAL).is_err() {
            return false;
        }
    }
}
