//! The kernel as the host under test: sockets in a network namespace of its
//! own, the script at the other end of a TAP device, in real time.
#![expect(clippy::disallowed_methods, reason = "this target is the kernel: its clock is the machine's")]

use crate::frames::{Family, OUR_IP, PEER_IP, PREFIX_LEN, SERVICE_PORT, pattern};
use crate::run::{Act, Target, Told};
use crate::script::Script;
use app::{Closed, Unreachable};
use core::net::SocketAddr;
use core::time::Duration;
use link::{Link, Receive, Transmit};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use socket2::{Domain, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::time::Instant;
use tap::{Config, Tap};
use wire::{Offload, Time};

/// What scheduling may add to a time that a script names.
const SLACK: Duration = Duration::from_millis(80);

/// Sockets are looked at this often.
const STEP: Duration = Duration::from_millis(1);

/// A kernel with a listener or a connecting socket.
pub struct Linux {
    tap: Tap,
    start: Instant,
    listener: Option<Socket>,
    socket: Option<Socket>,
    /// A connect is under way.
    connecting: bool,
    hold: bool,
    finished: bool,
    /// Bytes of the pattern queued by the script, and taken by the kernel.
    queued: u32,
    sent: u32,
    told: Told,
}

impl Linux {
    /// Moves the calling thread into a network namespace of its own, which
    /// ends with the thread, and makes the device there.
    ///
    /// # Errors
    /// Why the kernel cannot be tested here, in words: usually no root.
    pub fn new(script: &Script) -> Result<Self, String> {
        // SAFETY: NEWNET gives this thread another network namespace; memory
        // and file descriptors, which `unshare` could pull from under other
        // threads, stay shared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(|e| format!("no network namespace: {e}"))?;
        for (key, value) in script.settings.iter().filter(|(key, _)| key.starts_with("net.")) {
            let path = format!("/proc/sys/{}", key.replace('.', "/"));
            std::fs::write(&path, value).map_err(|e| format!("cannot set {key}: {e}"))?;
        }
        let mut config = Config::new("conformance").map_err(|e| e.to_string())?;
        config.offload = false;
        config.addresses.push(format!("{OUR_IP}/{PREFIX_LEN}").parse().map_err(|e| format!("{e}"))?);
        let tap = Tap::open(&config).map_err(|e| e.to_string())?;
        Ok(Self {
            tap,
            start: Instant::now(),
            listener: None,
            socket: None,
            connecting: false,
            hold: false,
            finished: false,
            queued: 0,
            sent: 0,
            told: Told::default(),
        })
    }

    fn listen(&mut self) -> io::Result<()> {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        listener.set_reuse_address(true)?;
        listener.bind(&SocketAddr::from((OUR_IP, SERVICE_PORT)).into())?;
        listener.listen(16)?;
        listener.set_nonblocking(true)?;
        self.listener = Some(listener);
        Ok(())
    }

    fn connect(&mut self) -> io::Result<()> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&SocketAddr::from((PEER_IP, SERVICE_PORT)).into()) {
            Err(e) if e.raw_os_error() != Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => return Err(e),
            _ => {}
        }
        self.connecting = true;
        self.adopt(socket)
    }

    /// Takes a socket over as the connection under test.
    fn adopt(&mut self, socket: Socket) -> io::Result<()> {
        // Small segments leave at once, as our stack sends them by default.
        socket.set_tcp_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let opened = self.told.opened;
        self.told = Told { opened, ..Told::default() };
        (self.queued, self.sent, self.finished) = (0, 0, false);
        self.socket = Some(socket);
        Ok(())
    }

    fn act_on_socket(&mut self, act: Act) -> io::Result<()> {
        match act {
            Act::Listen => self.listen()?,
            Act::Connect => self.connect()?,
            Act::Send(len) => self.queued += len,
            Act::Hold(hold) => self.hold = hold,
            Act::Finish => self.finished = true,
            Act::Abort => {
                if let Some(socket) = self.socket.take() {
                    socket.set_linger(Some(Duration::ZERO))?;
                    self.told.closed = Some(Closed::Aborted);
                }
            }
        }
        self.pump();
        Ok(())
    }

    /// What an application does that waits for its sockets.
    fn pump(&mut self) {
        if let Some((socket, _)) = self.listener.as_ref().and_then(|listener| listener.accept().ok())
            && self.adopt(socket).is_ok()
        {
            self.told.opened += 1;
        }
        let Some(socket) = self.socket.take() else { return };
        if self.connecting {
            self.connecting = false;
            match (socket.take_error(), socket.peer_addr()) {
                (Ok(None), Ok(_)) => self.told.opened += 1,
                (Ok(None), Err(_)) => self.connecting = true,
                (Ok(Some(error)) | Err(error), _) => self.fail(&error),
            }
        }
        if !self.connecting && self.told.closed.is_none() {
            self.exchange(&socket);
        }
        self.socket = Some(socket);
    }

    fn exchange(&mut self, mut socket: &Socket) {
        while self.sent < self.queued {
            let bytes: Vec<u8> = (self.sent..self.queued).map(pattern).collect();
            match socket.write(&bytes) {
                Ok(len) => self.sent += len as u32,
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return self.fail(&e),
            }
        }
        if self.finished && self.sent == self.queued && self.told.closed.is_none() {
            let _ = socket.shutdown(std::net::Shutdown::Write);
        }
        let mut bytes = [0; 4_096];
        while !self.hold && !self.told.ended {
            match socket.read(&mut bytes) {
                Ok(0) => self.told.ended = true,
                Ok(len) => self.take(&bytes[..len]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return self.fail(&e),
            }
        }
        if let Ok(Some(e)) = socket.take_error() {
            self.fail(&e);
        } else if self.finished && self.told.ended {
            // All that a socket tells of a connection's orderly end.
            self.told.closed = Some(Closed::Finished);
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte != pattern(self.told.received as u32) && self.told.wrong.is_none() {
                self.told.wrong = Some(self.told.received);
            }
            self.told.received += 1;
        }
    }

    fn fail(&mut self, error: &io::Error) {
        self.told.closed = Some(match error.kind() {
            ErrorKind::ConnectionRefused => Closed::Refused,
            ErrorKind::TimedOut => Closed::TimedOut,
            ErrorKind::HostUnreachable => Closed::Unreachable(Unreachable::Host),
            ErrorKind::NetworkUnreachable => Closed::Unreachable(Unreachable::Network),
            _ => Closed::Reset,
        });
    }
}

impl Target for Linux {
    fn now(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    fn family(&self) -> Family {
        Family::V4
    }

    fn inject(&mut self, frame: &[u8]) {
        let now = self.now();
        let tx = self.tap.split().1;
        if let Some(slot) = tx.slot() {
            let len = frame.len().min(slot.len());
            slot[..len].copy_from_slice(&frame[..len]);
            tx.commit(len, Offload::NONE);
        }
        tx.flush(now);
    }

    fn next_frame(&mut self, until: Time) -> Option<(Time, Vec<u8>)> {
        loop {
            self.pump();
            let now = self.now();
            let rx = self.tap.split().0;
            let frame = (rx.receive(now, 1) > 0).then(|| rx.frame(0).to_vec());
            rx.release();
            if let Some(frame) = frame {
                return Some((now, frame));
            }
            if now >= until {
                return None;
            }
            self.tap.wait(None, STEP.min(until.since(now))).ok()?;
        }
    }

    fn act(&mut self, act: Act) -> Result<(), String> {
        self.act_on_socket(act).map_err(|e| format!("the kernel refuses: {e}"))
    }

    fn told(&mut self) -> Told {
        self.pump();
        self.told.clone()
    }

    fn slack(&self) -> Duration {
        SLACK
    }
}
