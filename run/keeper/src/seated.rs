//! The seats at the link: who has each, and who waits for one.

use crate::board::Board;
use af_xdp::{HostView, KeptXdp};
use core::net::IpAddr;
use core::time::Duration;
use driver::Claim;
use link::Reopened;
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{PidfdFlags, pidfd_open};
use say::Failure;
use seats::Terms;
use sharing::SharedMemory;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tap::Tap;
use wire::Time;

/// Who waits for a seat, at most: more processes than that are refused one.
const MOST_WAITING: usize = 64;

/// Seats for each worker: when a program changes its workers, the old and the new are there at once.
const SEATS_PER_WORKER: usize = 2;

/// The link, as far as it is this process's affair.
enum Kept {
    /// A queue that all seats share.
    Tap(Box<Tap>),
    /// Queues whose rings all seats map.
    Xdp(Box<KeptXdp>),
    /// Queues whose rings all seats map, of whichever peer there is.
    Memif(Box<memif::KeptMemif>),
}

impl Kept {
    fn open(terms: &Terms) -> Result<Self, Failure> {
        let link = &terms.link;
        match link.split(':').next() {
            Some("tap") => {
                let config: tap::Config = link.parse().map_err(|why: driver::BadConfig| why.to_string())?;
                let tap = Tap::open(&config).map_err(|why| why.to_string())?;
                Ok(Self::Tap(Box::new(tap)))
            }
            Some("af_xdp") => open_xdp(terms).map(|port| Self::Xdp(Box::new(port))),
            Some("memif") => open_memif(link).map(|port| Self::Memif(Box::new(port))),
            _ => Err(format!("{link}: only tap, af_xdp and memif links carry programs so far").into()),
        }
    }

    fn share(&self) -> io::Result<Reopened> {
        match self {
            Self::Tap(tap) => tap.share(),
            Self::Xdp(port) => port.share(),
            Self::Memif(port) => port.share(),
        }
    }
}

/// Opens a memif interface: as a server unless its text says otherwise, as `nearside serve` does.
fn open_memif(link: &str) -> Result<memif::KeptMemif, Failure> {
    let config = <memif::Config as driver::Open>::read(link, driver::Role::Server).map_err(|why| why.to_string())?;
    if config.queues > memif::SHARED_QUEUES {
        let (has, most) = (config.queues, memif::SHARED_QUEUES);
        return Err(format!("{link}: {has} queues, and programs share {most} at most over memif").into());
    }
    Ok(memif::KeptMemif::open(config).map_err(|why| why.to_string())?)
}

/// Opens an interface for addresses that are not the kernel's: with its own it would answer, too.
fn open_xdp(terms: &Terms) -> Result<KeptXdp, Failure> {
    let config: af_xdp::Config = terms.link.parse().map_err(|why: driver::BadConfig| why.to_string())?;
    let interface = config.interface.clone();
    let addresses: Vec<IpAddr> = terms.addresses.iter().map(|own| own.address).collect();
    let kernels = HostView::open(&interface).and_then(|view| view.addresses()).unwrap_or_default();
    if let Some(taken) = addresses.iter().find(|ip| kernels.iter().any(|has| has.ip == **ip)) {
        return Err(format!("{taken} is the kernel's on {interface}: a program has an address of its own there").into());
    }
    let claim = Claim::Own { addresses, aggregated: false };
    let port = KeptXdp::open(config, &claim).map_err(|why| why.to_string())?;
    if port.queues() > sharing::QUEUES_MAX {
        let (has, most) = (port.queues(), sharing::QUEUES_MAX);
        return Err(format!("{interface} has {has} queues, and programs share {most} at most (ethtool -L)").into());
    }
    Ok(port)
}

/// Who has a seat.
struct Holder {
    /// Its other end closes when the process ends, or becomes another program.
    socket: OwnedFd,
    /// The process. A child of its has the socket's other end as well, and may outlive it.
    process: Option<OwnedFd>,
}

impl Holder {
    fn new(socket: OwnedFd) -> Self {
        // Who made the pair is who asked.
        let asked = rustix::net::sockopt::socket_peercred(&socket).ok();
        let process = asked.and_then(|of| pidfd_open(of.pid, PidfdFlags::empty()).ok());
        Self { socket, process }
    }
}

/// The seats.
pub(crate) struct Seats {
    kept: Kept,
    memory: SharedMemory,
    board: Board,
    /// What wakes each.
    bells: Vec<OwnedFd>,
    /// Who has each.
    taken: Vec<Option<Holder>>,
    waiting: VecDeque<OwnedFd>,
}

impl Seats {
    /// Opens a link with seats for so many workers.
    pub fn open(terms: &Terms, workers: usize, program: &str) -> Result<Self, Failure> {
        let kept = Kept::open(terms)?;
        let seats = (workers * SEATS_PER_WORKER).clamp(SEATS_PER_WORKER, sharing::SEATS_MAX);
        let fail = |why: io::Error| Failure::from(format!("the seats at the link: {why}"));
        let memory = SharedMemory::create(seats, &random().map_err(fail)?).map_err(fail)?;
        let bell = |_| Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let bells = (0..seats).map(bell).collect::<io::Result<_>>().map_err(fail)?;
        let board = Board::new(program, seats)?;
        Ok(Self { kept, memory, board, bells, taken: (0..seats).map(|_| None).collect(), waiting: VecDeque::new() })
    }

    /// What becomes readable when the process of a seat has ended, with the seat's number.
    pub fn taken(&self) -> impl Iterator<Item = (usize, &OwnedFd)> {
        let holders = self.taken.iter().enumerate().filter_map(|(seat, holder)| Some((seat, holder.as_ref()?)));
        holders.flat_map(|(seat, Holder { socket, process })| {
            [Some(socket), process.as_ref()].into_iter().flatten().map(move |fd| (seat, fd))
        })
    }

    /// What becomes readable when the link has something to do, and the longest time until then.
    pub fn link(&self) -> (Option<BorrowedFd<'_>>, Duration) {
        match &self.kept {
            Kept::Tap(_) | Kept::Xdp(_) => (None, Duration::MAX),
            Kept::Memif(port) => (port.readable(), port.patience()),
        }
    }

    /// Looks after the link.
    pub fn look_after_link(&mut self, now: Time) {
        let Kept::Memif(port) = &mut self.kept else { return };
        if port.poll(now)
            && let Ok(shared) = port.share()
            && let Some(epoch) = shared.text.split(' ').next().and_then(|epoch| epoch.parse().ok())
        {
            self.memory.set_link_epoch(epoch);
            self.wake_all();
        }
    }

    /// The workers look around.
    fn wake_all(&self) {
        for bell in &self.bells {
            // Fails only when its counter is full, and then it is readable anyway.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }

    /// A worker has found the link's peer to break the protocol.
    pub fn on_refused(&mut self, epoch: u32) {
        if let Kept::Memif(port) = &mut self.kept
            && port.refuse(epoch)
        {
            say::warning("the link's peer breaks its protocol, or took its memory away: its connection is ended");
        }
    }

    /// A worker asks for the link's descriptors as they are now.
    pub fn on_asked_for_link(&self, to: &OwnedFd) {
        let shared = self.kept.share();
        // Who asked may be gone.
        let _ = match &shared {
            Ok(Reopened { text, descriptors }) => {
                let all: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
                seats::give_seat(to.as_fd(), Ok((text, &all)))
            }
            Err(why) => seats::give_seat(to.as_fd(), Err(&why.to_string())),
        };
    }

    /// A process asks for a seat.
    pub fn on_asked(&mut self, to: OwnedFd) {
        if self.waiting.len() >= MOST_WAITING {
            let why = "too many processes wait for a seat";
            // Who asked may be gone.
            let _ = seats::give_seat(to.as_fd(), Err(why));
            return;
        }
        self.waiting.push_back(to);
        self.give();
        if !self.waiting.is_empty() {
            let taken = self.taken.len();
            say::warning(format_args!(
                "a process of the program waits for a seat at the link, until one of {taken} others ends (--workers)"
            ));
        }
    }

    /// The process that had a seat has ended.
    pub fn on_left(&mut self, seat: usize) {
        if let Some(held) = self.taken.get_mut(seat) {
            *held = None;
        }
        self.memory.vacate(seat);
        self.board.clear(seat);
        self.give();
        // Whoever sleeps may have relied on it.
        self.wake_all();
    }

    /// Gives seats that are free to those who wait and are still there, the first first.
    fn give(&mut self) {
        // One whose connections others are still ending is given last.
        let free = |this: &Self| {
            let free = (0..this.taken.len()).filter(|seat| this.taken[*seat].is_none());
            free.min_by_key(|seat| this.memory.has_flows(*seat))
        };
        while let Some(seat) = free(self)
            && let Some(next) = self.waiting.pop_front()
        {
            match self.kept.share() {
                Ok(Reopened { text, descriptors }) => {
                    let common = [self.memory.as_fd(), self.board.as_fd()];
                    let all = common.into_iter().chain(self.bells.iter().map(AsFd::as_fd));
                    let all: Vec<BorrowedFd<'_>> = all.chain(descriptors.iter().map(AsFd::as_fd)).collect();
                    if seats::give_seat(next.as_fd(), Ok((&format!("{seat} {text}"), &all))).is_ok() {
                        self.taken[seat] = Some(Holder::new(next));
                    }
                }
                Err(why) => {
                    let _ = seats::give_seat(next.as_fd(), Err(&why.to_string()));
                }
            }
        }
    }
}

/// Random words, from the system.
fn random() -> io::Result<[u64; 14]> {
    let mut file = File::open("/dev/urandom")?;
    let mut words = [0; 14];
    for word in &mut words {
        let mut bytes = [0; 8];
        file.read_exact(&mut bytes)?;
        *word = u64::from_ne_bytes(bytes);
    }
    Ok(words)
}
