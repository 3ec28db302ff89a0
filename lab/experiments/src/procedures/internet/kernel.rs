//! An end of the path that is Linux's: a thread in a network namespace with a
//! TAP, whose other side is the path's.

use super::PATIENCE;
use crate::Failure;
use core::net::SocketAddr;
use demo::netns::Alone;
use rustix::net::sockopt::set_tcp_congestion;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tap::{Config, Tap};

/// The sender's address, and the receiver's with its port, whoever they are.
pub(super) const SENDER: &str = "10.79.0.1";
pub(super) const RECEIVER: &str = "10.79.0.2";
pub(super) const PORT: u16 = 5001;

/// The address of who sends beside the sender, and the receiver's port for that.
const NEIGHBOUR: &str = "10.79.0.3";
const NEIGHBOUR_PORT: u16 = 5002;

/// How long a neighbour waits for room, or for bytes, before it looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// A flow beside the one that is measured, as both of its ends know it.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    /// Bytes that were received.
    pub received: Arc<AtomicU64>,
    /// It is to end.
    pub over: Arc<AtomicBool>,
}

/// What an end does.
pub(super) enum Role {
    /// It sends so many bytes, with this congestion control.
    Sender { bytes: u64, congestion: String },
    /// It receives so many, and what a neighbour sends, if there is one.
    Receiver { bytes: u64, beside: Option<Beside> },
    /// It sends beside the sender until it is told to end, with this congestion control.
    Neighbour { congestion: String, beside: Beside },
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
            let (address, ports): (&str, &[u16]) = match &role {
                Role::Sender { .. } => (SENDER, &[]),
                Role::Neighbour { .. } => (NEIGHBOUR, &[]),
                Role::Receiver { beside: None, .. } => (RECEIVER, &[PORT]),
                Role::Receiver { beside: Some(_), .. } => (RECEIVER, &[PORT, NEIGHBOUR_PORT]),
            };
            let opened = open(&path, address);
            let bind = |port: &u16| TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], *port)));
            let mut listeners = ports.iter().map(bind).collect::<std::io::Result<Vec<_>>>()?.into_iter();
            let failed = opened.is_err();
            let _ = told.send(opened);
            if failed {
                return Ok(());
            }
            let mut counting = None;
            let result = match role {
                Role::Sender { bytes, congestion } => send(bytes, &congestion),
                Role::Neighbour { congestion, beside } => send_beside(&congestion, &beside),
                Role::Receiver { bytes, beside } => listeners.next().map_or(Ok(()), |listener| {
                    // A thread that this one starts is in the same namespace.
                    counting = beside
                        .zip(listeners.next())
                        .map(|(beside, listener)| thread::spawn(move || receive_beside(&listener, &beside)));
                    receive(bytes, &listener)
                }),
            };
            tell_done.store(true, Ordering::Release);
            match counting.map(JoinHandle::join) {
                Some(Ok(counted)) => result.and(counted),
                Some(Err(_)) => Err(ErrorKind::Other.into()),
                None => result,
            }
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

/// A connection to the receiver with this congestion control from its first segment on. A connection that begins with
/// the machine's own keeps what that has set up: one that began with BBR is paced for good, whatever follows.
fn connect(port: u16, congestion: &str) -> std::io::Result<TcpStream> {
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_tcp_congestion(&socket, congestion)?;
    let to: SocketAddr = format!("{RECEIVER}:{port}").parse().map_err(|_| ErrorKind::InvalidInput)?;
    rustix::net::connect(&socket, &to)?;
    Ok(socket.into())
}

fn send(bytes: u64, congestion: &str) -> std::io::Result<()> {
    let mut stream = connect(PORT, congestion)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    demo::bulk::give(&mut stream, bytes)
}

/// Sends until it is to end, or the path is gone.
fn send_beside(congestion: &str, beside: &Beside) -> std::io::Result<()> {
    let mut stream = connect(NEIGHBOUR_PORT, congestion)?;
    stream.set_write_timeout(Some(LOOK))?;
    let piece = [7; 1 << 16];
    while !beside.over.load(Ordering::Acquire) {
        match stream.write(&piece) {
            Ok(_) => {}
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(why) => return unless_over(beside, why),
        }
    }
    Ok(())
}

/// Counts what a neighbour sends until it is to end.
fn receive_beside(listener: &TcpListener, beside: &Beside) -> std::io::Result<()> {
    let mut stream = accept(listener)?;
    stream.set_read_timeout(Some(LOOK))?;
    let mut piece = vec![0; 1 << 18];
    while !beside.over.load(Ordering::Acquire) {
        match stream.read(&mut piece) {
            // It ends first: what was received counts.
            Ok(0) => return Ok(()),
            Ok(read) => drop(beside.received.fetch_add(read as u64, Ordering::AcqRel)),
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(why) => return unless_over(beside, why),
        }
    }
    Ok(())
}

/// What went wrong, unless the path has gone because all is over, which is told right after.
fn unless_over(beside: &Beside, why: std::io::Error) -> std::io::Result<()> {
    thread::sleep(LOOK);
    if beside.over.load(Ordering::Acquire) { Ok(()) } else { Err(why) }
}
