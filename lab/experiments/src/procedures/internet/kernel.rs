//! An end of the path that is Linux's: a thread in a network namespace with a
//! TAP, whose other side is the path's.

use super::PATIENCE;
use crate::Failure;
use core::net::SocketAddr;
use demo::netns::Alone;
use rustix::net::sockopt::set_tcp_congestion;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tap::{Config, Tap};

/// The sender's address, and the receiver's with its port, whoever they are.
pub(super) const SENDER: &str = "10.79.0.1";
pub(super) const RECEIVER: &str = "10.79.0.2";
pub(super) const PORT: u16 = 5001;

/// What an end does.
pub(super) enum Role {
    /// It sends so many bytes, with this congestion control.
    Sender { bytes: u64, congestion: String },
    /// It receives so many.
    Receiver { bytes: u64 },
}

/// An end under way.
pub(super) struct Kernel {
    thread: JoinHandle<std::io::Result<()>>,
    done: Arc<AtomicBool>,
    _namespace: Alone,
}

impl Kernel {
    /// Starts it in a namespace of its own, and returns its TAP: once the
    /// receiver listens, and before the sender connects.
    pub fn start(name: &str, role: Role) -> Result<(Self, Tap), Failure> {
        let namespace = Alone::make(&format!("path-{name}"))?;
        let path = format!("/run/netns/{}", namespace.name());
        let done = Arc::new(AtomicBool::new(false));
        let (told, taps) = channel();
        let tell_done = Arc::clone(&done);
        let thread = thread::spawn(move || {
            let (address, listens) = match &role {
                Role::Sender { .. } => (SENDER, false),
                Role::Receiver { .. } => (RECEIVER, true),
            };
            let opened = open(&path, address);
            let listener = listens.then(|| TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], PORT)))).transpose()?;
            let failed = opened.is_err();
            let _ = told.send(opened);
            if failed {
                return Ok(());
            }
            let result = match (role, listener) {
                (Role::Sender { bytes, congestion }, _) => send(bytes, &congestion),
                (Role::Receiver { bytes }, Some(listener)) => receive(bytes, &listener),
                (Role::Receiver { .. }, None) => Ok(()),
            };
            tell_done.store(true, Ordering::Release);
            result
        });
        let tap = taps.recv().map_err(|_| "the thread of a namespace has ended")??;
        Ok((Self { thread, done, _namespace: namespace }, tap))
    }

    /// Whether it has done what it was to do, or failed.
    pub fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Waits for its end. The path is gone by then, so that it comes.
    pub fn end(self) -> Result<(), Failure> {
        match self.thread.join() {
            Ok(result) => Ok(result?),
            Err(_) => Err("the thread of a namespace has panicked".into()),
        }
    }
}

fn open(namespace: &str, address: &str) -> Result<Tap, String> {
    let file = File::open(namespace).map_err(|why| format!("{namespace}: {why}"))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|why| format!("cannot enter {namespace}: {why}"))?;
    let mut config = Config::new("path0").map_err(|why| why.to_string())?;
    config.addresses = vec![format!("{address}/24").parse().map_err(|_| "no address")?];
    // Frames as they are on a wire: a path must not meet half-made ones.
    config.offload = false;
    Tap::open(&config).map_err(|why| why.to_string())
}

/// The first connection that comes, within as long as a transfer may stand still.
fn accept(listener: &TcpListener) -> std::io::Result<TcpStream> {
    const NAP: Duration = Duration::from_millis(1);
    listener.set_nonblocking(true)?;
    for _ in 0..PATIENCE.as_millis() / NAP.as_millis() {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(why) if why.kind() == std::io::ErrorKind::WouldBlock => thread::sleep(NAP),
            Err(why) => return Err(why),
        }
    }
    Err(std::io::ErrorKind::TimedOut.into())
}

fn receive(bytes: u64, listener: &TcpListener) -> std::io::Result<()> {
    let mut stream = accept(listener)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    demo::bulk::take(&mut stream, bytes, 1 << 18)
}

fn send(bytes: u64, congestion: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(format!("{RECEIVER}:{PORT}"))?;
    set_tcp_congestion(&stream, congestion)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    demo::bulk::give(&mut stream, bytes)
}
