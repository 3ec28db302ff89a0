//! An open link that another process goes on with.

use core::error::Error;
use core::fmt::Debug;
use core::net::IpAddr;
use core::time::Duration;
use std::os::fd::OwnedFd;

/// Which traffic a link takes from its interface, where it shares that with the
/// kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Claim {
    /// TCP to these ports of the host's own addresses on the interface, and
    /// ICMP errors about it. Everything else stays with the kernel, whose
    /// neighbours, routes and addresses are used.
    Host {
        /// The served ports.
        ports: Vec<u16>,
    },
    /// Everything for these addresses, which the kernel does not have: IP,
    /// ARP, neighbour discovery.
    Own {
        /// Our addresses.
        addresses: Vec<IpAddr>,
        /// The port is to be aggregated: what the control protocol of link
        /// aggregation says (IEEE 802.1AX-2014 clause 6.4) is taken too.
        aggregated: bool,
    },
    /// Every frame, to whomever it is: the interface receives promiscuously,
    /// and the kernel gets nothing of these queues. For who measures, or
    /// forwards.
    Whole,
}

/// Descriptors of one queue that changes hands.
pub const QUEUE_DESCRIPTORS: usize = 5;

/// What another process needs to go on with a link.
#[derive(Debug)]
pub struct Offer {
    /// What both must agree on, in the driver's words.
    pub terms: String,
    /// What holds the link as a whole.
    pub attachment: OwnedFd,
    /// Of each queue: its descriptors, in the driver's order.
    pub queues: Vec<[OwnedFd; QUEUE_DESCRIPTORS]>,
}

/// An open link, for whoever hands it to another process or takes it from one:
///
/// ```text
///  old process                         new process
///  offer ────── Offer ───────────────► Open::open     maps all, touches nothing
///  freeze, frozen
///        ────── frozen ──────────────► check          no frame lost, none twice
///        ◄───────────────────── taken  take           each queue goes on
///  leave                               waited, set_waited, attach_own
///     … what the old one's connections say and hear passes by the driver …
///                                      on_predecessor_gone
/// ```
///
/// Until `taken` the old process keeps everything, and [`Handover::resume`] has
/// it go on as if nobody had asked. How the two talk is the callers' affair. The
/// errors are the driver's, and sentences for the user.
pub trait Handover: Debug + Send + Sync {
    /// Describes the link to a successor. It works on.
    ///
    /// # Errors
    /// Mostly a queue that is not at work `limit` later.
    fn offer(&self, limit: Duration) -> Result<Offer, Box<dyn Error>>;

    /// Has each queue stop.
    fn freeze(&self);

    /// Waits until each has.
    ///
    /// # Errors
    /// If one has not within `limit`; [`Handover::resume`] has the others go on.
    fn frozen(&self, limit: Duration) -> Result<(), Box<dyn Error>>;

    /// Nobody takes over: all go on.
    fn resume(&self);

    /// The queues are another process's: nothing of them is kept.
    fn leave(&self);

    /// Looks at queues that have stopped.
    ///
    /// # Errors
    /// If nothing is to be taken.
    fn check(&self) -> Result<(), Box<dyn Error>>;

    /// Has each queue go on. Only once the predecessor keeps off for good.
    fn take(&self);

    /// For how long nobody received, at the queue for which it was longest.
    ///
    /// # Errors
    /// If a queue has not begun within `limit`.
    fn waited(&self, limit: Duration) -> Result<Duration, Box<dyn Error>>;

    /// What is to be told with the first queue's statistics.
    fn set_waited(&self, waited: Duration);

    /// Puts what this process attached in the place of its predecessor's. No
    /// frame falls between the two.
    ///
    /// # Errors
    /// If the predecessor's stays at work.
    fn attach_own(&self) -> Result<(), Box<dyn Error>>;

    /// The predecessor has ended: nothing is passed on any more.
    fn on_predecessor_gone(&self);
}
