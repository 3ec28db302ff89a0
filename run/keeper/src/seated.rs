//! The seats at the link: who has each, and who waits for one.

use af_xdp::{HostView, KeptPort};
use core::net::IpAddr;
use driver::Claim;
use link::Reopened;
use rustix::event::{EventfdFlags, eventfd};
use say::Failure;
use seats::Terms;
use sharing::SharedMemory;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tap::Tap;

/// Who waits for a seat, at most: more processes than that are refused one.
const MOST_WAITING: usize = 64;

/// Seats for each worker: when a program changes its workers, the old and the new are there at once.
const SEATS_PER_WORKER: usize = 2;

/// The link, as far as it is this process's affair.
enum Kept {
    /// A queue that all seats share.
    Tap(Box<Tap>),
    /// Queues whose rings all seats map.
    Xdp(Box<KeptPort>),
    /// The worker opens it by itself: there is one seat.
    ByWorker,
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
            Some("memif") => Ok(Self::ByWorker),
            _ => Err(format!("{link}: only tap, af_xdp and memif links carry programs so far").into()),
        }
    }

    fn share(&self) -> io::Result<Reopened> {
        match self {
            Self::Tap(tap) => tap.share(),
            Self::Xdp(port) => port.share(),
            Self::ByWorker => Ok(Reopened::default()),
        }
    }
}

/// Opens an interface for addresses that are not the kernel's: with its own it would answer, too.
fn open_xdp(terms: &Terms) -> Result<KeptPort, Failure> {
    let config: af_xdp::Config = terms.link.parse().map_err(|why: driver::BadConfig| why.to_string())?;
    let interface = config.interface.clone();
    let addresses: Vec<IpAddr> = terms.addresses.iter().map(|own| own.address).collect();
    let kernels = HostView::open(&interface).and_then(|view| view.addresses()).unwrap_or_default();
    if let Some(taken) = addresses.iter().find(|ip| kernels.iter().any(|has| has.ip == **ip)) {
        return Err(format!("{taken} is the kernel's on {interface}: a program has an address of its own there").into());
    }
    let claim = Claim::Own { addresses, aggregated: false };
    let port = KeptPort::open(config, &claim).map_err(|why| why.to_string())?;
    if port.queues() > sharing::QUEUES_MAX {
        let (has, most) = (port.queues(), sharing::QUEUES_MAX);
        return Err(format!("{interface} has {has} queues, and programs share {most} at most (ethtool -L)").into());
    }
    Ok(port)
}

/// The seats.
pub(crate) struct Seats {
    kept: Kept,
    memory: SharedMemory,
    /// What wakes each.
    bells: Vec<OwnedFd>,
    /// The socket of who has each: its other end closes when that process ends.
    taken: Vec<Option<OwnedFd>>,
    waiting: VecDeque<OwnedFd>,
}

impl Seats {
    /// Opens a link with seats for so many workers.
    pub fn open(terms: &Terms, workers: usize) -> Result<Self, Failure> {
        let kept = Kept::open(terms)?;
        let seats = match &kept {
            Kept::Tap(_) | Kept::Xdp(_) => (workers * SEATS_PER_WORKER).clamp(SEATS_PER_WORKER, sharing::SEATS_MAX),
            Kept::ByWorker => 1,
        };
        let fail = |why: io::Error| Failure::from(format!("the seats at the link: {why}"));
        let memory = SharedMemory::create(seats, &random().map_err(fail)?).map_err(fail)?;
        let bell = |_| Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let bells = (0..seats).map(bell).collect::<io::Result<_>>().map_err(fail)?;
        Ok(Self { kept, memory, bells, taken: (0..seats).map(|_| None).collect(), waiting: VecDeque::new() })
    }

    /// The sockets of seats that are taken, by number: readable when their process has ended.
    pub fn taken(&self) -> impl Iterator<Item = (usize, &OwnedFd)> {
        self.taken.iter().enumerate().filter_map(|(seat, held)| Some((seat, held.as_ref()?)))
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
        self.give();
    }

    /// Gives seats that are free to those who wait and are still there, the first first.
    fn give(&mut self) {
        while let Some(seat) = self.taken.iter().position(Option::is_none)
            && let Some(next) = self.waiting.pop_front()
        {
            match self.kept.share() {
                Ok(Reopened { text, descriptors }) => {
                    let memory = self.memory.as_fd();
                    let all = [memory].into_iter().chain(self.bells.iter().map(AsFd::as_fd));
                    let all: Vec<BorrowedFd<'_>> = all.chain(descriptors.iter().map(AsFd::as_fd)).collect();
                    if seats::give_seat(next.as_fd(), Ok((&format!("{seat} {text}"), &all))).is_ok() {
                        self.taken[seat] = Some(next);
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
