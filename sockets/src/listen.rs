//! Listening sockets: made, or taken over, and dealt out to workers.

mod adopt;
mod unix;

pub use adopt::Origin;

use crate::config::{ListenOptions, Model, StreamOptions};
use crate::endpoint::Endpoint;
use crate::option::{self, OptionError};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with, sockopt};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use unix::File;

/// The listening sockets of all workers.
///
/// They stay open as long as this does, or a worker that has them: drop it
/// when the last has stopped listening, or has been handed on. Files of Unix
/// sockets that it owns are removed then.
#[derive(Debug)]
pub struct Listeners {
    sockets: Vec<Dealt>,
    files: Vec<File>,
    model: Model,
    workers: usize,
}

/// A socket, and whose it is.
#[derive(Debug)]
struct Dealt {
    socket: Arc<Socket>,
    /// One worker's, or everybody's.
    worker: Option<usize>,
}

#[derive(Debug)]
struct Socket {
    fd: OwnedFd,
    endpoint: Endpoint,
    /// Options of its connections, if they are not those of all.
    stream: Option<StreamOptions>,
    /// The kernel's hash chooses, whatever the model is elsewhere.
    hashed: bool,
}

/// A listening socket, as one worker has it.
#[derive(Clone, Debug)]
pub struct Listener {
    socket: Arc<Socket>,
    shared: bool,
    exclusive: bool,
}

impl Listener {
    /// What it listens on, its port as the kernel chose it.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.socket.endpoint
    }

    /// Whether other workers take from the same queue.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        self.shared
    }

    /// Whether one worker is woken for a connection, not all.
    pub(crate) const fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    /// Options of its connections, if they are not those of all.
    pub(crate) fn stream(&self) -> Option<&StreamOptions> {
        self.socket.stream.as_ref()
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.socket.endpoint, Endpoint::Unix(_))
    }
}

impl AsFd for Listener {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.fd.as_fd()
    }
}

/// Why sockets do not listen: the user's, or the machine's, to mend.
#[derive(Debug)]
pub enum BindError {
    /// A step failed; which, and where.
    System(Endpoint, &'static str, io::Error),
    /// An option cannot be had.
    Option(Endpoint, OptionError),
    /// Somebody listens there already.
    InUse(Endpoint),
    /// A descriptor that was handed over is not what was asked for.
    Unfit(Endpoint, &'static str),
    /// Model `blocking` needs a worker for each socket: so many.
    TooFewWorkers(usize),
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(at, step, e) => {
                write!(f, "cannot listen on {at}: {step}: {e}")?;
                match (at, Errno::from_io_error(e)) {
                    (Endpoint::Tcp(address), Some(Errno::ACCESS)) if address.port() < 1024 => {
                        f.write_str(" (ports below net.ipv4.ip_unprivileged_port_start need CAP_NET_BIND_SERVICE)")
                    }
                    _ => Ok(()),
                }
            }
            Self::Option(at, e) => write!(f, "cannot listen on {at}: {e}"),
            Self::InUse(at) => write!(f, "cannot listen on {at}: somebody listens there already"),
            Self::Unfit(at, what) => write!(f, "the socket handed over for {at} {what}"),
            Self::TooFewWorkers(sockets) => {
                write!(f, "model blocking needs a worker for each of {sockets} listening sockets")
            }
        }
    }
}

impl core::error::Error for BindError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::System(_, _, e) => Some(e),
            Self::Option(_, e) => Some(e),
            Self::InUse(_) | Self::Unfit(..) | Self::TooFewWorkers(_) => None,
        }
    }
}

impl Listeners {
    /// Listens on every one of `endpoints`, for so many workers (at least
    /// one). A model with a queue for each worker has a socket for each, in
    /// their order; Unix sockets have one queue always.
    ///
    /// # Errors
    /// See [`BindError`]; nothing listens then.
    pub fn bind(
        endpoints: &[Endpoint],
        options: &ListenOptions,
        model: Model,
        workers: usize,
    ) -> Result<Self, BindError> {
        Self::adopt(Vec::new(), Origin::Predecessor, endpoints, options, model, workers)
    }

    /// Whether an endpoint could be bound: a socket that never listens is, and
    /// closed. Of a Unix socket's nothing is found out.
    ///
    /// # Errors
    /// See [`BindError`].
    pub fn try_out(endpoint: &Endpoint, options: &ListenOptions) -> Result<(), BindError> {
        match endpoint {
            Endpoint::Tcp(address) => refuse_if_in_use(*address, options),
            Endpoint::Unix(_) => Ok(()),
        }
    }

    /// The sockets that the worker with this index accepts from.
    #[must_use]
    pub fn for_worker(&self, index: usize) -> Vec<Listener> {
        let blocking = self.model == Model::Blocking;
        let mine = self.sockets.iter().enumerate().filter(|(at, dealt)| match dealt.worker {
            // A thread waits in one accept(2) only.
            None if blocking => index % self.sockets.len() == *at,
            None => true,
            Some(worker) => worker == index,
        });
        mine.map(|(_, dealt)| Listener {
            socket: Arc::clone(&dealt.socket),
            shared: dealt.worker.is_none(),
            exclusive: dealt.worker.is_none() && self.model != Model::Epoll && !blocking,
        })
        .collect()
    }

    /// Has sockets that listen be as these options have it from now on, and their new
    /// connections as `stream` has it: for a change while they serve. What cannot be had
    /// is returned, and left as it was; whether `[::]` takes IPv4 stays.
    pub fn set_options(&self, options: &ListenOptions, stream: &StreamOptions) -> Vec<(Endpoint, OptionError)> {
        let mut refused = Vec::new();
        for Dealt { socket, .. } in &self.sockets {
            let (fd, at) = (socket.fd.as_fd(), &socket.endpoint);
            let unix = matches!(at, Endpoint::Unix(_));
            let set = option::set_listen_again(fd, options.at(at), unix)
                .and_then(|()| option::set_stream(fd, options.stream_at(at).unwrap_or(stream), unix));
            refused.extend(set.err().map(|why| (at.clone(), why)));
        }
        refused
    }

    /// Every socket with what it listens on, in the order of their making: to
    /// hand on.
    pub fn iter(&self) -> impl Iterator<Item = (&Endpoint, BorrowedFd<'_>)> {
        self.sockets.iter().map(|dealt| (&dealt.socket.endpoint, dealt.socket.fd.as_fd()))
    }

    /// What is listened on, once each, ports as the kernel chose them.
    #[must_use]
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let mut all: Vec<Endpoint> = Vec::new();
        for (endpoint, _) in self.iter() {
            if !all.contains(endpoint) {
                all.push(endpoint.clone());
            }
        }
        all
    }

    /// Whether the kernel's hash chooses at this endpoint, whatever the model is
    /// elsewhere.
    pub(crate) fn is_hashed(&self, endpoint: &Endpoint) -> bool {
        self.sockets.iter().any(|dealt| dealt.socket.hashed && dealt.socket.endpoint == *endpoint)
    }

    /// The sockets of an endpoint that has one for each worker, with whose
    /// each is; `None` if all take from one. Of several of one worker, the
    /// first: new connections are for that.
    pub(crate) fn queues(&self, endpoint: &Endpoint) -> Option<Vec<(usize, BorrowedFd<'_>)>> {
        let mut all: Vec<(usize, BorrowedFd<'_>)> = Vec::new();
        for dealt in self.sockets.iter().filter(|dealt| dealt.socket.endpoint == *endpoint) {
            let worker = dealt.worker?;
            if all.iter().all(|(known, _)| *known != worker) {
                all.push((worker, dealt.socket.fd.as_fd()));
            }
        }
        Some(all)
    }

    /// The model that they were dealt out for.
    #[must_use]
    pub const fn model(&self) -> Model {
        self.model
    }

    /// The workers that they were dealt out to.
    #[must_use]
    pub const fn workers(&self) -> usize {
        self.workers
    }

    /// Whoever the sockets were handed on to owns the files of Unix sockets
    /// now: they stay.
    pub fn disown_files(&mut self) {
        for file in self.files.drain(..) {
            file.keep();
        }
    }
}

/// Listens on one endpoint, for `queues` workers of their own or for all.
fn open(
    endpoint: &Endpoint,
    options: &ListenOptions,
    queues: Option<usize>,
) -> Result<(Vec<OwnedFd>, Endpoint, Option<File>), BindError> {
    match endpoint {
        Endpoint::Unix(path) => {
            let (fd, file) = unix::open(path, options)?;
            Ok((vec![fd], endpoint.clone(), file))
        }
        Endpoint::Tcp(address) => {
            let (fds, address) = open_tcp(*address, options, queues)?;
            Ok((fds, Endpoint::Tcp(address), None))
        }
    }
}

fn open_tcp(
    mut address: SocketAddr,
    options: &ListenOptions,
    queues: Option<usize>,
) -> Result<(Vec<OwnedFd>, SocketAddr), BindError> {
    let everywhere = address.ip() == IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED);
    if everywhere && !options.v6_only && !has_ipv6() {
        // All addresses of both families, of which there is one.
        address.set_ip(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    }
    if address.port() != 0 && queues.is_some() && !options.follows {
        refuse_if_in_use(address, options)?;
    }
    let mut fds = Vec::new();
    for _ in 0..queues.unwrap_or(1) {
        let fd = one_tcp(address, options, queues.is_some())?;
        address = bound(fd.as_fd()).ok_or_else(|| {
            BindError::System(Endpoint::Tcp(address), "getsockname", io::ErrorKind::InvalidData.into())
        })?;
        fds.push(fd);
    }
    Ok((fds, address))
}

/// One more socket that listens on `address`.
fn one_tcp(address: SocketAddr, options: &ListenOptions, reuse_port: bool) -> Result<OwnedFd, BindError> {
    let at = || Endpoint::Tcp(address);
    let step = |step| move |e: Errno| failed(Endpoint::Tcp(address), step, e);
    let fd = tcp_socket(address, options).map_err(step("socket"))?;
    if reuse_port {
        sockopt::set_socket_reuseport(&fd, true).map_err(step("SO_REUSEPORT"))?;
    }
    option::set_listen(fd.as_fd(), options).map_err(|e| BindError::Option(at(), e))?;
    bind(&fd, &address).map_err(step("bind"))?;
    listen(&fd, i32::try_from(options.backlog).unwrap_or(i32::MAX)).map_err(step("listen"))?;
    Ok(fd)
}

fn tcp_socket(address: SocketAddr, options: &ListenOptions) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let fd = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    // TIME_WAITs of a server before us are no reason to fail.
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if address.is_ipv6() {
        // Said either way: net.ipv6.bindv6only may be set.
        sockopt::set_ipv6_v6only(&fd, options.v6_only)?;
    }
    if let Some(interface) = &options.local_at {
        option::bind_to_interface(fd.as_fd(), interface)?;
        option::take_local_alone(fd.as_fd())?;
    }
    Ok(fd)
}

/// With SO_REUSEPORT another process of the same user would share the port
/// without a word. So it is tried first without.
fn refuse_if_in_use(address: SocketAddr, options: &ListenOptions) -> Result<(), BindError> {
    let tried = tcp_socket(address, options).and_then(|fd| bind(&fd, &address));
    tried.map_err(|e| failed(Endpoint::Tcp(address), "bind", e))
}

fn failed(at: Endpoint, step: &'static str, e: Errno) -> BindError {
    match e {
        Errno::ADDRINUSE => BindError::InUse(at),
        e => BindError::System(at, step, e.into()),
    }
}

/// Whether this machine has IPv6, by whether a socket can be bound.
fn has_ipv6() -> bool {
    let any = SocketAddr::from((core::net::Ipv6Addr::UNSPECIFIED, 0));
    tcp_socket(any, &ListenOptions::default()).and_then(|fd| bind(&fd, &any)).is_ok()
}

fn bound(fd: BorrowedFd<'_>) -> Option<SocketAddr> {
    getsockname(fd).ok()?.try_into().ok()
}

/// A thread that is to wait in accept(2) needs a socket that lets it; any
/// other needs one that does not. The flag belongs to the socket, not to the
/// descriptor: a process that the socket came from sees it change.
fn set_blocking(fd: BorrowedFd<'_>, blocking: bool) -> Result<(), Errno> {
    let flags = fcntl_getfl(fd)?;
    let wanted = if blocking { flags - OFlags::NONBLOCK } else { flags | OFlags::NONBLOCK };
    if wanted == flags { Ok(()) } else { fcntl_setfl(fd, wanted) }
}
