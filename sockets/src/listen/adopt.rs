//! Sockets that others opened: systemd, or the process before this one.

use super::{BindError, Dealt, File, Listeners, Socket, bound, failed, one_tcp, open, set_blocking};
use crate::config::{ListenOptions, Model, StreamOptions};
use crate::endpoint::{Endpoint, unix_path};
use crate::option;
use rustix::net::{SocketType, sockopt};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

/// Who opened a socket that is taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A service manager, which keeps it, and the file of a Unix socket, when
    /// we stop.
    Manager,
    /// The process before this one, which leaves both to us.
    Predecessor,
}

impl Listeners {
    /// As [`Listeners::bind`], with `sockets` that others opened. What is
    /// missing is made: for the rest of `endpoints`, and for workers beyond
    /// the sockets of a model with a queue for each. Are there more sockets
    /// than workers, a worker has several: connections that wait in any of
    /// them are served.
    ///
    /// A socket without SO_REUSEPORT (a service manager's usually) can have
    /// none beside it: all workers take from it.
    ///
    /// # Errors
    /// See [`BindError`]; what was handed over is closed then.
    pub fn adopt(
        sockets: Vec<OwnedFd>,
        origin: Origin,
        endpoints: &[Endpoint],
        options: &ListenOptions,
        model: Model,
        workers: usize,
    ) -> Result<Self, BindError> {
        let workers = workers.max(1);
        let mut all = Self { sockets: Vec::new(), files: Vec::new(), model, workers };
        let mut left: Vec<(Endpoint, OwnedFd)> = Vec::new();
        for fd in sockets {
            left.push((check(fd.as_fd())?, fd));
        }
        while let Some((endpoint, _)) = left.first() {
            let endpoint = endpoint.clone();
            let (same, others) = left.into_iter().partition(|(at, _)| *at == endpoint);
            left = others;
            all.take_over(&endpoint, same, origin, options)?;
        }
        for endpoint in endpoints {
            if !all.listens_on(endpoint, options.at(endpoint).v6_only) {
                all.open(endpoint, options)?;
            }
        }
        let blocking = model == Model::Blocking;
        if blocking && all.sockets.len() > workers {
            return Err(BindError::TooFewWorkers(all.sockets.len()));
        }
        for Dealt { socket, .. } in &all.sockets {
            set_blocking(socket.fd.as_fd(), blocking).map_err(|e| failed(socket.endpoint.clone(), "fcntl", e))?;
        }
        Ok(all)
    }

    /// Whether a socket is there for `endpoint`. One for all addresses of both
    /// families may have been opened as IPv4's, where there is no IPv6.
    fn listens_on(&self, endpoint: &Endpoint, v6_only: bool) -> bool {
        self.sockets.iter().any(|dealt| match (&dealt.socket.endpoint, endpoint) {
            (Endpoint::Tcp(is), Endpoint::Tcp(wanted)) => {
                let both = is.ip().is_unspecified() && wanted.ip().is_unspecified() && wanted.is_ipv6() && !v6_only;
                wanted.port() != 0 && is.port() == wanted.port() && (is.ip() == wanted.ip() || both)
            }
            (is, wanted) => is == wanted,
        })
    }

    fn open(&mut self, endpoint: &Endpoint, options: &ListenOptions) -> Result<(), BindError> {
        let hashed = options.at(endpoint).hashed;
        let queues = (hashed || !self.model.is_shared()).then_some(self.workers);
        let stream = options.stream_at(endpoint);
        let (fds, endpoint, file) = open(endpoint, options.at(endpoint), queues)?;
        self.files.extend(file);
        let own = queues.is_some() && matches!(endpoint, Endpoint::Tcp(_));
        self.deal(&endpoint, fds, (own, hashed), stream);
        Ok(())
    }

    /// Deals out the sockets of one endpoint that came from others, and tops
    /// them up.
    fn take_over(
        &mut self,
        endpoint: &Endpoint,
        sockets: Vec<(Endpoint, OwnedFd)>,
        origin: Origin,
        options: &ListenOptions,
    ) -> Result<(), BindError> {
        let mut fds: Vec<OwnedFd> = sockets.into_iter().map(|(_, fd)| fd).collect();
        let (mut own, hashed) = (false, options.at(endpoint).hashed);
        match endpoint {
            Endpoint::Unix(path) if origin == Origin::Predecessor => self.files.extend(File::of(path)),
            Endpoint::Unix(_) => {}
            Endpoint::Tcp(address) => {
                let may_have_others = fds.iter().all(|fd| sockopt::socket_reuseport(fd).unwrap_or(false));
                own = (hashed || !self.model.is_shared()) && (may_have_others || fds.len() >= self.workers);
                while own && fds.len() < self.workers {
                    fds.push(one_tcp(*address, options.at(endpoint), true)?);
                }
            }
        }
        // A manager's are as it has them.
        if origin == Origin::Predecessor {
            for fd in &fds {
                let unix = matches!(endpoint, Endpoint::Unix(_));
                let set = option::set_listen_again(fd.as_fd(), options.at(endpoint), unix);
                set.map_err(|why| BindError::Option(endpoint.clone(), why))?;
            }
        }
        self.deal(endpoint, fds, (own, hashed), options.stream_at(endpoint));
        Ok(())
    }

    /// To one worker each if they are its `own`.
    fn deal(
        &mut self,
        endpoint: &Endpoint,
        fds: Vec<OwnedFd>,
        (own, hashed): (bool, bool),
        stream: Option<&StreamOptions>,
    ) {
        for (index, fd) in fds.into_iter().enumerate() {
            let socket = Arc::new(Socket { fd, endpoint: endpoint.clone(), stream: stream.cloned(), hashed });
            self.sockets.push(Dealt { socket, worker: own.then_some(index % self.workers) });
        }
    }
}

/// What a socket listens on, if it does.
fn check(fd: BorrowedFd<'_>) -> Result<Endpoint, BindError> {
    let endpoint = endpoint_of(fd).unwrap_or_else(|| Endpoint::Unix(PathBuf::from("?")));
    let is_stream = sockopt::socket_type(fd).is_ok_and(|kind| kind == SocketType::STREAM);
    if !is_stream {
        return Err(BindError::Unfit(endpoint, "is no stream socket (SO_TYPE)"));
    }
    if !sockopt::socket_acceptconn(fd).unwrap_or(false) {
        return Err(BindError::Unfit(endpoint, "does not listen (SO_ACCEPTCONN)"));
    }
    match endpoint_of(fd) {
        Some(endpoint) => Ok(endpoint),
        None => Err(BindError::Unfit(endpoint, "is neither TCP nor a named Unix socket (getsockname)")),
    }
}

fn endpoint_of(fd: BorrowedFd<'_>) -> Option<Endpoint> {
    if let Some(address) = bound(fd) {
        return Some(Endpoint::Tcp(address));
    }
    Some(Endpoint::Unix(PathBuf::from(std::ffi::OsString::from_vec(unix_path(fd)?))))
}
