//! Those who ask over HTTP: a few at a time, none for long, and so many in a moment.
//!
//! One thread has them all. A client that is slow has its own time only: until it is
//! over, others are answered. At the limit the one that has been there longest
//! gives way.

use core::time::Duration;
use cpu::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, accept_with, bind, listen, recv, send,
    shutdown, socket_with, sockopt,
};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::Time;

/// Clients at a time.
const CLIENTS_MAX: usize = 16;

/// What waits to be accepted.
const BACKLOG: i32 = 16;

/// A request's head is no longer, bytes.
const HEAD_MAX: usize = 8 << 10;

/// Nobody is there for longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Whoever has had so long gives way to one that comes.
const FAIR: Duration = Duration::from_millis(200);

/// Clients that are accepted in one [`WINDOW`]: what more come wait for the next.
const WINDOW_CLIENTS: usize = 64;
const WINDOW: Duration = Duration::from_millis(100);

/// Left alone for so long after it could not be accepted from.
const PAUSE: Duration = Duration::from_secs(1);

/// Where metrics are to be had.
#[derive(Debug)]
pub struct Endpoint {
    socket: OwnedFd,
    address: SocketAddr,
    /// Whether anybody who connects is heard.
    listens: bool,
}

impl Endpoint {
    /// At `address`. A process that follows another has the address beside it, and
    /// listens when it is its turn; any other listens now.
    ///
    /// # Errors
    /// If the address is another's, or none of this machine's.
    pub fn bind(address: SocketAddr, follows: bool) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        if follows {
            sockopt::set_socket_reuseport(&socket, true)?;
        }
        bind(&socket, &address)?;
        // Only a successor may have it as well, not whoever is started by mistake.
        sockopt::set_socket_reuseport(&socket, true)?;
        let address = rustix::net::getsockname(&socket)?.try_into().map_err(|_| Errno::AFNOSUPPORT)?;
        let mut endpoint = Self { socket, address, listens: false };
        if !follows {
            endpoint.listen()?;
        }
        Ok(endpoint)
    }

    /// By a socket that another process listens by at `address`, if it is that: whoever connects is heard by that one
    /// alone, until this one listens, too.
    #[must_use]
    pub fn adopt(socket: OwnedFd, address: SocketAddr) -> Option<Self> {
        let at = SocketAddr::try_from(rustix::net::getsockname(&socket).ok()?).ok()?;
        let is_one = at == address && sockopt::socket_acceptconn(&socket) == Ok(true);
        is_one.then_some(Self { socket, address, listens: false })
    }

    /// The same socket, for another process.
    ///
    /// # Errors
    /// There are no more descriptors.
    pub fn shared(&self) -> io::Result<OwnedFd> {
        self.socket.try_clone()
    }

    /// Listens from now on.
    ///
    /// # Errors
    /// If somebody else does.
    pub fn listen(&mut self) -> io::Result<()> {
        if !self.listens {
            listen(&self.socket, BACKLOG)?;
            self.listens = true;
        }
        Ok(())
    }

    /// Where it is.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// What somebody is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Its status, as `200 OK`.
    pub status: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// What it says.
    pub body: Arc<str>,
}

/// Who asks.
struct Client {
    socket: OwnedFd,
    since: Time,
    head: Vec<u8>,
    /// What is to be sent, once it is known; and how far that has come.
    answer: Option<(Vec<u8>, Arc<str>)>,
    sent: usize,
    /// All was sent: what it still says is not listened to.
    over: bool,
}

/// Clients, and what is listened on.
pub struct Clients {
    endpoint: Option<Endpoint>,
    clients: Vec<Client>,
    /// When the window began, and how many were accepted in it.
    window: (Time, usize),
    paused: Time,
}

impl Clients {
    /// Nobody asks.
    pub const fn new(endpoint: Endpoint) -> Self {
        Self { endpoint: Some(endpoint), clients: Vec::new(), window: (Time::ZERO, 0), paused: Time::ZERO }
    }

    /// Listens from now on, if that is to be.
    pub fn listen(&mut self) -> io::Result<()> {
        self.endpoint.as_mut().map_or(Ok(()), Endpoint::listen)
    }

    /// Listens no more. Who has connected is answered.
    pub fn close(&mut self, answer: &mut dyn FnMut(&str) -> Answer) {
        // Those that the kernel has taken would be reset.
        self.accept(Clock.now(), answer);
        self.endpoint = None;
    }

    /// Nobody asks, and nobody can.
    pub fn is_over(&self) -> bool {
        self.endpoint.is_none() && self.clients.is_empty()
    }

    /// Waits for clients, or until `wake` is readable, and gives everybody what they
    /// ask for, by the path.
    ///
    /// # Errors
    /// If the operating system does not wait.
    pub fn turn(&mut self, wake: BorrowedFd<'_>, answer: &mut dyn FnMut(&str) -> Answer) -> io::Result<()> {
        let now = Clock.now();
        let accepts = self.accepts_at(now);
        let ends = self.clients.iter().map(|client| client.since + PATIENCE);
        let until = ends.chain(accepts.filter(|at| *at > now)).min();
        let mut fds = vec![PollFd::new(&wake, PollFlags::IN)];
        fds.extend(self.clients.iter().map(|client| PollFd::new(&client.socket, client.waits_for())));
        let listening =
            self.endpoint.as_ref().filter(|endpoint| endpoint.listens && accepts.is_some_and(|at| at <= now));
        fds.extend(listening.map(|endpoint| PollFd::new(&endpoint.socket, PollFlags::IN)));
        // Rounded up: a deadline is over when this returns.
        let span = until.map(|until| Timespec::try_from(until.since(now) + Duration::from_millis(1)));
        let span = span.transpose().map_err(io::Error::other)?;
        match poll(&mut fds, span.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
        let happened = |place: usize| fds.get(place).is_some_and(|fd| !fd.revents().is_empty());
        let ready: Vec<bool> = (1..=self.clients.len()).map(happened).collect();
        let comes = happened(self.clients.len() + 1);
        drop(fds);
        let now = Clock.now();
        let mut ready = ready.into_iter();
        self.clients.retain_mut(|client| {
            let goes_on = !ready.next().unwrap_or(false) || client.go_on(answer);
            goes_on && now.since(client.since) < PATIENCE
        });
        if comes {
            self.accept(now, answer);
        }
        Ok(())
    }

    /// From when on clients are accepted; `None`: from nobody any more.
    fn accepts_at(&self, now: Time) -> Option<Time> {
        self.endpoint.as_ref().filter(|endpoint| endpoint.listens)?;
        let (begun, count) = self.window;
        let window = if count >= WINDOW_CLIENTS { begun + WINDOW } else { now };
        let room = match self.clients.iter().map(|client| client.since).min() {
            Some(oldest) if self.clients.len() >= CLIENTS_MAX => oldest + FAIR,
            _ => now,
        };
        Some(window.max(room).max(self.paused))
    }

    fn accept(&mut self, now: Time, answer: &mut dyn FnMut(&str) -> Answer) {
        while self.accepts_at(now).is_some_and(|at| at <= now) {
            let Some(endpoint) = &self.endpoint else { return };
            match accept_with(&endpoint.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => {
                    if now.since(self.window.0) >= WINDOW {
                        self.window = (now, 0);
                    }
                    self.window.1 += 1;
                    if self.clients.len() >= CLIENTS_MAX
                        && let Some(oldest) = (0..self.clients.len()).min_by_key(|at| self.clients[*at].since)
                    {
                        drop(self.clients.remove(oldest));
                    }
                    let mut client =
                        Client { socket, since: now, head: Vec::new(), answer: None, sent: 0, over: false };
                    // Mostly its request is there.
                    if client.go_on(answer) {
                        self.clients.push(client);
                    }
                }
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                // As for want of descriptors: it stays readable.
                Err(_) => {
                    self.paused = now + PAUSE;
                    return;
                }
            }
        }
    }
}

impl Client {
    fn waits_for(&self) -> PollFlags {
        if self.answer.is_some() && !self.over { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Reads and writes as far as that goes; whether more is to come.
    fn go_on(&mut self, answer: &mut dyn FnMut(&str) -> Answer) -> bool {
        if self.answer.is_none() {
            match self.read() {
                Read::More => return true,
                Read::Gone => return false,
                Read::Whole => self.answer = Some(respond(&self.head, answer)),
            }
        }
        if !self.over && !self.write() {
            return false;
        }
        !self.over || self.discard()
    }

    fn read(&mut self) -> Read {
        let mut part = [0; 2_048];
        loop {
            match recv(&self.socket, &mut part[..], RecvFlags::empty()) {
                Ok((0, _)) => return Read::Gone,
                Ok((length, _)) => {
                    let from = self.head.len().saturating_sub(3);
                    self.head.extend_from_slice(&part[..length]);
                    if self.head.get(from..).is_some_and(|new| new.windows(4).any(|end| end == b"\r\n\r\n")) {
                        return Read::Whole;
                    }
                    if self.head.len() > HEAD_MAX {
                        return Read::Gone;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Read::More,
                Err(_) => return Read::Gone,
            }
        }
    }

    /// Whether the client is still there.
    fn write(&mut self) -> bool {
        let Some((head, body)) = &self.answer else { return true };
        loop {
            let rest = match head.get(self.sent..).filter(|rest| !rest.is_empty()) {
                Some(rest) => rest,
                None => body.as_bytes().get(self.sent - head.len()..).unwrap_or_default(),
            };
            if rest.is_empty() {
                self.over = true;
                // What it sends from now on is read until it has closed: a socket
                // closed with bytes unread resets what the client has not read.
                return shutdown(&self.socket, Shutdown::Write).is_ok();
            }
            match send(&self.socket, rest, SendFlags::NOSIGNAL) {
                Ok(length) => self.sent += length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Whether the client has not closed yet.
    fn discard(&self) -> bool {
        let mut part = [0; 2_048];
        loop {
            match recv(&self.socket, &mut part[..], RecvFlags::empty()) {
                Ok((0, _)) => return false,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return true,
                Err(_) => return false,
            }
        }
    }
}

enum Read {
    More,
    Whole,
    Gone,
}

impl AsFd for Endpoint {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn respond(head: &[u8], answer: &mut dyn FnMut(&str) -> Answer) -> (Vec<u8>, Arc<str>) {
    let first = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = first.split(|byte| *byte == b' ');
    let method = words.next().unwrap_or_default();
    let path = words.next().unwrap_or_default().split(|byte| *byte == b'?').next().unwrap_or_default();
    let Answer { status, media_type, body } = match (method, core::str::from_utf8(path)) {
        (b"GET" | b"HEAD", Ok(path)) => answer(path),
        (b"GET" | b"HEAD", Err(_)) => Answer::text("404 Not Found", "there is nothing here\n"),
        _ => Answer::text("405 Method Not Allowed", "only GET and HEAD are answered\n"),
    };
    let length = body.len();
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {length}\r\n\
         Cache-Control: no-store\r\n{allow}Connection: close\r\n\r\n"
    );
    (head.into_bytes(), if method == b"HEAD" { Arc::from("") } else { body })
}

impl Answer {
    /// A plain one.
    #[must_use]
    pub fn text(status: &'static str, text: &str) -> Self {
        Self { status, media_type: "text/plain; charset=utf-8", body: Arc::from(text) }
    }
}

#[cfg(test)]
mod tests;
