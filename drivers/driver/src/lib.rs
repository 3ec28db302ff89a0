//! The contract of a driver: what it says of itself and of a link that is written
//! `NAME:…`, and how it opens one. Who runs links knows no more of it.
//!
//! A driver implements [`Driver`] and [`Open`] for its settings, and [`Queue`] for
//! its links. It is one of the program's by its row in `run/host/src/drivers.rs`.

#![forbid(unsafe_code)]

mod handover;
pub mod text;

pub use handover::{Claim, Handover, Offer, QUEUE_DESCRIPTORS};
pub use text::BadConfig;

use core::error::Error;
use link::{Link, Reopened, Reopener, Rss, Wanted};
use std::io;
use std::path::Path;
use std::sync::Arc;
use wire::Mac;

/// What is the same for all links of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// How a link's text begins, before the colon.
    pub name: &'static str,
    /// A link's text, with what is to be chosen in capitals.
    pub form: &'static str,
    /// One that could be typed.
    pub example: &'static str,
    /// A paragraph for the help: what it is, what it needs, its options.
    pub help: &'static str,
    /// The names of what [`Queue::counts`] tells.
    pub counts: &'static [&'static str],
    /// The names of threads that help its links, which do what a silo does.
    pub threads: &'static [&'static str],
    /// What is compiled with its links as a type.
    pub copies: Copies,
    /// Its open links can be given to another process ([`Opened::handover`]).
    pub hands_over: bool,
    /// Its ports spread flows over their queues ([`Driver::spread`]); else the other
    /// side chooses the queue.
    pub spreads: bool,
    /// The host's kernel has its interface, too: what it has for the addresses
    /// served there comes by kernel sockets in the same silos.
    pub beside_kernel: bool,
    /// It pushes back, and is in no need of pause frames.
    pub in_memory: bool,
    /// What its links do while they run that only root may; `None`: nothing.
    pub as_root: Option<&'static str>,
    /// Its links stamp frames where what they are on does ([`Driver::stamps`]):
    /// why one does not is worth telling.
    pub stamps: bool,
}

impl Kind {
    /// A driver of which there is nothing more to say.
    #[must_use]
    pub const fn new(name: &'static str, form: &'static str, example: &'static str, help: &'static str) -> Self {
        let (counts, threads, copies): (&[&str], &[&str], _) = (&[], &[], Copies::Shared);
        let (hands_over, spreads, beside_kernel, in_memory, as_root) = (false, false, false, false, None);
        let stamps = false;
        Self {
            name,
            form,
            example,
            help,
            counts,
            threads,
            copies,
            hands_over,
            spreads,
            beside_kernel,
            in_memory,
            as_root,
            stamps,
        }
    }
}

/// What is compiled with a driver's links as a type. A copy of the stack takes seconds to
/// build and is in the program, whether it is run or not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Copies {
    /// Nothing: it uses the copies for links of any kind, whose calls through a table are
    /// nothing beside what the link costs.
    Shared,
    /// Loops that do nothing but move frames: a call is much beside what they do.
    Loops,
    /// Those, and the stack for silos that have a queue each: memory is all that the link
    /// touches, so that the calls would be seen.
    Stack,
}

/// Which side of a link a process is, where the link's text does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Waits for its peer.
    Server,
    /// Comes to its peer.
    Client,
}

/// Where this machine's kernel is, seen from a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel<'a> {
    /// At neither end.
    Apart,
    /// At the other end, behind the interface of this name.
    Opposite(&'a str),
    /// On our own end: the interface of this name is its, and so are the
    /// Ethernet address and, unless there are others, the IP addresses.
    Beside(&'a str),
}

/// By whom frames are stamped as they come and leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StampedBy {
    /// The kernel, by its clock of the time of day, where it hands a frame to
    /// the driver and takes one from it.
    Kernel,
    /// The NIC, by a clock of its own.
    Nic,
}

/// The clock that a link would stamp frames with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StampClock {
    /// The number of the PTP clock (`/dev/ptpN`); `None`: the kernel's clock, or
    /// the NIC's by [`Driver::own_clock`].
    pub ptp: Option<u32>,
    /// Only event messages of PTP, version 2, are stamped, and no other frame.
    pub only_ptp: bool,
}

/// A clock that nobody but a link's driver can read.
pub trait OwnClock: Send + Sync {
    /// Its time, in nanoseconds.
    ///
    /// # Errors
    /// The driver's, or that the link is not open.
    fn nanos(&self) -> io::Result<u64>;
}

/// A driver's settings for one link.
pub trait Driver {
    /// What is the same for all its links.
    fn kind(&self) -> &'static Kind;

    /// The link as a person would name it: what tells it from others.
    fn name(&self) -> String;

    /// The most queues that it could have.
    fn most_queues(&self) -> u16;

    /// How many queues it has to have where its text does not say; `None`: any.
    fn must_queues(&self) -> Option<u16> {
        None
    }

    /// Whether its port has so many queues, as far as that is known before it is
    /// opened: what a plan finds out is what opening would.
    ///
    /// # Errors
    /// The same as opening would tell.
    fn check_queues(&self, queues: u16) -> Result<(), Box<dyn Error>> {
        let _ = queues;
        Ok(())
    }

    /// The first of its queues, as its port counts them.
    fn first_queue(&self) -> u16 {
        0
    }

    /// The NUMA domain that its port is in, if any.
    fn domain(&self) -> Option<u16> {
        None
    }

    /// Where the kernel is.
    fn kernel(&self) -> Kernel<'_> {
        Kernel::Apart
    }

    /// The Ethernet address that its port has, as far as that is known.
    fn mac(&self) -> Option<Mac> {
        None
    }

    /// How its port spreads flows over queues, where its [`Kind::spreads`].
    ///
    /// # Errors
    /// If that is not known: a reason for the user.
    fn spread(&self) -> Result<Rss, String> {
        Err("the other side chooses the queue".to_owned())
    }

    /// The socket file that it listens on, if it does.
    fn listens_on(&self) -> Option<&Path> {
        None
    }

    /// The clock by which its link stamps frames in this way.
    ///
    /// # Errors
    /// If it does not: a reason for the user.
    fn stamps(&self, by: StampedBy) -> Result<StampClock, String> {
        let _ = by;
        Err(format!("a link of the kind {} does not stamp frames", self.kind().name))
    }

    /// The NIC's clock that stamps frames, where the kernel has no device of it.
    fn own_clock(&self) -> Option<Arc<dyn OwnClock>> {
        None
    }

    /// Stamps frames in this way, once it is opened.
    fn stamp_by(&mut self, by: StampedBy) {
        let _ = by;
    }

    /// Whether it connects to a socket, again for each peer that comes.
    fn connects(&self) -> bool {
        false
    }

    /// Leaves nothing to the link that the stack can do.
    ///
    /// # Errors
    /// If its text says otherwise: a sentence for the user.
    fn without_offload(&mut self) -> Result<(), &'static str> {
        Ok(())
    }

    /// Opens a link again whose interface was deleted, for another process: all
    /// its `queues`, or where each asks for itself one of them.
    ///
    /// # Errors
    /// The driver's; mostly that there is no such interface yet.
    fn open_for_another(&self, queues: u16, claim: &Claim, wanted: Wanted) -> Result<Reopened, Box<dyn Error>> {
        let _ = (queues, claim, wanted);
        Err("only interfaces come back".into())
    }
}

/// A driver whose links can be opened.
pub trait Open: Driver + Sized {
    /// What [`Driver::kind`] tells.
    const KIND: Kind;

    /// One of a link's queues.
    type Queue: Queue + Send + 'static;

    /// Reads a link's text; `role` counts where that does not say.
    ///
    /// # Errors
    /// What is wrong with it.
    fn read(text: &str, role: Role) -> Result<Self, BadConfig>;

    /// Opens the link.
    ///
    /// # Errors
    /// The driver's.
    fn open(&self, opening: Opening<'_>) -> Result<Opened<Self::Queue>, Box<dyn Error>>;
}

/// What a link is opened for.
#[derive(Debug)]
pub struct Opening<'a> {
    /// How many queues it is to have.
    pub queues: u16,
    /// The frames that are taken. With [`Claim::Whole`] those for others too, as
    /// a wire would have them.
    pub claim: &'a Claim,
    /// The Ethernet address that it answers to; `None`: its own.
    pub mac: Option<Mac>,
    /// What another process leaves of it, if anything.
    pub offer: Option<Offer>,
}

/// An open link.
pub struct Opened<Q> {
    /// Its queues, in order.
    pub queues: Vec<Q>,
    /// What an operator is to hear of it.
    pub report: Option<String>,
    /// How another process may have it.
    pub handover: Option<Arc<dyn Handover>>,
}

impl<Q> From<Vec<Q>> for Opened<Q> {
    fn from(queues: Vec<Q>) -> Self {
        Self { queues, report: None, handover: None }
    }
}

/// A queue of a port, as its driver opened it.
pub trait Queue: Link {
    /// Tells each value that it counts beyond what every link does, in the order
    /// of [`Kind::counts`].
    fn counts(&self, take: &mut dyn FnMut(u64)) {
        let _ = take;
    }

    /// Whether its interface was deleted; `None`: it has none.
    fn is_gone(&self) -> Option<bool> {
        None
    }

    /// How its port spreads flows over queues, and which of them this is;
    /// `None`: not as it would tell.
    fn rss(&self) -> Option<(Rss, u16)> {
        None
    }

    /// From now on an interface that was deleted is opened again by another
    /// process.
    fn set_reopener(&mut self, reopener: Arc<dyn Reopener>) {
        let _ = reopener;
    }
}
