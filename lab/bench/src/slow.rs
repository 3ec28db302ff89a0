//! A long answer that is passed on to a client which takes it slowly: what the proxy holds
//! of it, and how far its upstream is ahead of the client. Upstream and client are plain
//! programs on the kernel's sockets, on both sides of a veth pair; what is between them
//! beside the proxy are the buffers of those sockets.

use crate::BenchError;
use crate::kernel::word;
use crate::ordinary::passing;
use crate::program::Scratch;
use crate::site::PROCESS;
use core::time::Duration;
use cpu::Clock;
use demo::child::Interrupt;
use demo::field::{Field, Link};
use demo::machine::with_children;
use demo::netns::Namespaces;
use demo::stand::{Stand, two_cores};
use rustix::thread::LinkNameSpaceType;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// What is measured.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct Plan {
    /// Bytes of the answer
    #[arg(long, value_name = "N", default_value_t = 1_000_000_000)]
    pub bytes: u64,
    /// What the client takes, Mbit/s
    #[arg(long, value_name = "MBIT", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub rate: u64,
    /// These data paths
    #[arg(long, value_enum, value_name = "PATH,…", value_delimiter = ',', default_value = "kernel,af-xdp")]
    pub paths: Vec<SlowPath>,
    /// The program to measure [default: nearside beside this one]
    #[arg(long, value_name = "PROGRAM")]
    pub nearside: Option<PathBuf>,
}

/// What the client's side of the proxy is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum SlowPath {
    /// Kernel sockets
    Kernel,
    /// A link of its own
    AfXdp,
}

/// Of the upstream, on loopback.
const PORT: u16 = 18_080;

/// What the proxy's memory may grow by, and how far its upstream may be ahead of the client:
/// of the latter the kernel's sockets hold most.
const GROWTH: u64 = 16 << 20;
const AHEAD: u64 = 48 << 20;

/// How often the client takes some, and it is looked at what the proxy holds.
const STEP: Duration = Duration::from_millis(20);
const LOOK: Duration = Duration::from_millis(200);

/// How often it is told how far it is.
const TELL: Duration = Duration::from_secs(60);

/// Time for anything but the transfer.
const PATIENCE: Duration = Duration::from_secs(60);

/// How far the answer has come.
#[derive(Debug, Default)]
struct Transfer {
    /// Bytes that the upstream is rid of, and that the client has.
    sent: AtomicU64,
    taken: AtomicU64,
    over: AtomicBool,
}

/// What was seen of it.
struct Seen {
    took: Duration,
    /// Bytes of memory: before, and at most.
    memory: (u64, u64),
    /// Bytes that the upstream was ahead, at most.
    ahead: u64,
    /// Bytes that it had sent when the client had half of them.
    at_half: u64,
}

/// Measures and prints. Returns whether the bounds are kept.
///
/// # Errors
/// If it cannot be measured.
pub fn run(plan: &Plan, nearside: &Path) -> Result<bool, BenchError> {
    let interrupt = Interrupt::watch()?;
    let stand = Stand::new(Some(nearside), two_cores()?)?;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    println!("An answer of {:.0} MB passed on to a client that takes {} Mbit/s", mb(plan.bytes), plan.rate);
    let mut kept = true;
    for path in &plan.paths {
        let Seen { took, memory: (before, most), ahead, at_half } = measure(plan, *path, &stand, &interrupt)?;
        let growth = most.saturating_sub(before);
        let holds = growth <= GROWTH && ahead <= AHEAD;
        kept &= holds;
        let name = link(*path).name();
        let row = |what: String| println!("  {:15} {what}", "");
        println!("  {name:15} took {:.1} s; the proxy's memory grew by {:.2} MB", took.as_secs_f64(), mb(growth));
        row(format!("its upstream was at most {:.2} MB ahead of the client,", mb(ahead)));
        row(format!("and had sent {:.1} MB when that had half of them", mb(at_half)));
        row(format!("at most {:.0} MB and {:.0} MB: {}", mb(GROWTH), mb(AHEAD), word(holds)));
    }
    Ok(kept)
}

const fn link(path: SlowPath) -> Link {
    match path {
        SlowPath::Kernel => Link::Kernel,
        SlowPath::AfXdp => Link::AfXdp,
    }
}

fn measure(plan: &Plan, path: SlowPath, stand: &Stand, interrupt: &Interrupt) -> Result<Seen, BenchError> {
    let names = Namespaces::make()?;
    let folder = Scratch::in_memory()?;
    // Others have the cores, too.
    let cores = [stand.cores.0, stand.cores.1];
    let field = Field { stand, veth: Some(&names), tap: None, servers: &cores, mtu: None, interrupt };
    let configuration = folder.path().join("nginx.conf");
    let text = passing(PROCESS, &format!("127.0.0.1:{PORT}"));
    fs::write(&configuration, text.replace("FOLDER", &folder.path().display().to_string()))?;
    let listener = in_namespace(&names.server, || Ok(TcpListener::bind(("127.0.0.1", PORT))?))?;
    let server = field.serve_configuration(link(path), &configuration)?;
    let to = (Field::address(link(path)), 80);
    let end = Clock.now() + PATIENCE;
    let client = loop {
        // It tells that it serves before its last worker does.
        match in_namespace(&names.client, move || Ok(TcpStream::connect(to)?)) {
            Err(_) if Clock.now() < end => interrupt.sleep(LOOK)?,
            connected => break connected?,
        }
    };
    client.set_read_timeout(Some(PATIENCE))?;
    let (transfer, begun) = (Transfer::default(), Clock.now());
    thread::scope(|scope| {
        let transfer = &transfer;
        scope.spawn(move || {
            // What goes wrong here is seen by what the client gets.
            let _ = send(&listener, plan.bytes, transfer);
        });
        let taker = scope.spawn(move || {
            let took = take(&client, plan, transfer).map_err(|why| why.to_string());
            transfer.over.store(true, Ordering::Relaxed);
            took
        });
        // The one that serves is the last.
        let serving = with_children(server.pid()).last().copied().unwrap_or(server.pid());
        let seen = watch(plan, serving, transfer, interrupt);
        // Whoever was interrupted does not wait.
        transfer.over.store(true, Ordering::Relaxed);
        taker.join().map_err(|_| "a thread panicked")??;
        Ok(Seen { took: Clock.now().since(begun), ..seen? })
    })
}

/// Makes something in a network namespace.
pub(crate) fn in_namespace<T: Send>(
    name: &str,
    make: impl FnOnce() -> Result<T, BenchError> + Send,
) -> Result<T, BenchError> {
    let namespace = File::open(Path::new("/run/netns").join(name))?;
    let made = thread::scope(|scope| {
        let there = scope.spawn(move || {
            rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|why| why.to_string())?;
            make().map_err(|why| why.to_string())
        });
        there.join()
    });
    Ok(made.map_err(|_| "a thread panicked")??)
}

/// The upstream: answers one request, as fast as it is let.
fn send(listener: &TcpListener, bytes: u64, transfer: &Transfer) -> Result<(), BenchError> {
    let mut stream = listener.accept()?.0;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut one = [0; 1024];
        match stream.read(&mut one)? {
            0 => return Err("the proxy has left".into()),
            length => head.extend_from_slice(&one[..length]),
        }
    }
    stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").as_bytes())?;
    let piece = [b'x'; 64 << 10];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(piece.len() as u64);
        let sent = stream.write(&piece[..length as usize])? as u64;
        transfer.sent.fetch_add(sent, Ordering::Relaxed);
        left -= sent;
    }
    Ok(())
}

/// The client: asks, and takes what it gets no faster than it may.
fn take(mut stream: &TcpStream, plan: &Plan, transfer: &Transfer) -> Result<(), BenchError> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")?;
    let mut piece = vec![0; 64 << 10];
    let mut head = Vec::new();
    let at = loop {
        if let Some(at) = head.windows(4).position(|four: &[u8]| four == b"\r\n\r\n") {
            break at + 4;
        }
        match stream.read(&mut piece[..1024])? {
            0 => return Err("the proxy has left".into()),
            length => head.extend_from_slice(&piece[..length]),
        }
    };
    if !head.starts_with(b"HTTP/1.1 200") {
        return Err(format!("the proxy says {}", head[..at].escape_ascii()).into());
    }
    let mut taken = (head.len() - at) as u64;
    let begun = Clock.now();
    while taken < plan.bytes && !transfer.over.load(Ordering::Relaxed) {
        let since = Clock.now().since(begun);
        let due = (since.as_secs_f64() * plan.rate as f64 * 1e6 / 8.0) as u64;
        if due <= taken {
            thread::sleep(STEP);
            continue;
        }
        let most = piece.len().min((due - taken) as usize);
        match stream.read(&mut piece[..most])? {
            0 => return Err(format!("the answer ends after {taken} bytes").into()),
            length => taken += length as u64,
        }
        transfer.taken.store(taken, Ordering::Relaxed);
    }
    if taken == plan.bytes { Ok(()) } else { Err(format!("{taken} bytes came").into()) }
}

/// Looks on until it is over.
fn watch(plan: &Plan, pid: u32, transfer: &Transfer, interrupt: &Interrupt) -> Result<Seen, BenchError> {
    let before = resident(pid)?;
    let (mut most, mut ahead, mut at_half) = (before, 0, None);
    let mut told = Clock.now();
    while !transfer.over.load(Ordering::Relaxed) {
        let taken = transfer.taken.load(Ordering::Relaxed);
        let sent = transfer.sent.load(Ordering::Relaxed);
        most = most.max(resident(pid)?);
        ahead = ahead.max(sent.saturating_sub(taken));
        if taken >= plan.bytes / 2 {
            at_half.get_or_insert(sent);
        }
        if Clock.now().since(told) >= TELL {
            told = Clock.now();
            eprintln!("  the client has {taken} bytes, the upstream has sent {sent}; memory: {most} bytes at most");
        }
        interrupt.sleep(LOOK)?;
    }
    Ok(Seen { took: Duration::ZERO, memory: (before, most), ahead, at_half: at_half.unwrap_or(0) })
}

/// What of a process is in memory, bytes (proc_pid_status(5)).
fn resident(pid: u32) -> Result<u64, BenchError> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let told = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).map(str::trim);
    let kib = told.and_then(|text| text.strip_suffix(" kB")).and_then(|text| text.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| "nothing tells what a process holds".into())
}
