//! What the main thread has the queues of a port do where it changes hands.

use crate::config::Config;
use crate::error::{HandoverError, XdpError};
use crate::relay::{Account, Receiver, Relay, Sender, Way, ring};
use crate::socket::{Rings, Socket};
use crate::terms::Terms;
use crate::umem::Umem;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use driver::QUEUE_DESCRIPTORS;
use ebpf::XdpAttachment;
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What a queue is to do, and does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Receive and send.
    Serve,
    /// The same, with a bell that wakes it.
    Offer,
    /// Stop between two turns: what comes and goes, passes by the relay.
    Freeze,
    /// Forget the queue.
    Leave,
    /// Wait for another process's queue.
    Await,
    /// Go on with it.
    Take,
}

/// One side's ends of a relay.
#[derive(Debug)]
pub(crate) struct Ends {
    pub receiver: Receiver,
    pub sender: Sender,
    /// Wakes this side.
    pub bell: Arc<OwnedFd>,
    pub relay: Arc<Relay>,
}

/// A queue of another process, mapped.
#[derive(Debug)]
pub(crate) struct Inherited {
    pub socket: Arc<Socket>,
    pub rings: Rings,
    pub umem: Arc<Umem>,
    pub account: Option<Account>,
}

/// What the main thread and one queue tell each other.
#[derive(Debug)]
pub(crate) struct QueueMailbox {
    pub order: Order,
    /// The last order that the queue has followed.
    pub done: Order,
    /// The process before this one has ended.
    pub alone: bool,
    /// What the queue is to take with its next order.
    pub ends: Option<Ends>,
    pub inherited: Option<Inherited>,
    /// What the queue has, to be offered.
    pub has: Option<(Arc<Socket>, Arc<Umem>)>,
    /// Wakes the queue, on this side of the relay to a successor, and on this
    /// side of that to a predecessor: while there are any.
    pub upper_bell: Option<Arc<OwnedFd>>,
    pub lower_bell: Option<Arc<OwnedFd>>,
    pub relay: Option<Arc<Relay>>,
    /// When the first burst was taken; 0 before.
    pub began: Arc<AtomicU64>,
}

impl QueueMailbox {
    fn new(order: Order) -> Self {
        Self {
            order,
            done: order,
            alone: false,
            ends: None,
            inherited: None,
            has: None,
            upper_bell: None,
            lower_bell: None,
            relay: None,
            began: Arc::default(),
        }
    }
}

/// Orders to the queues of a port.
#[derive(Debug)]
pub(crate) struct Orders {
    /// Grows with each order, for queues to notice.
    pub changes: AtomicU32,
    seats: Mutex<Vec<QueueMailbox>>,
    /// A queue has followed.
    pub followed: Condvar,
    /// For how long nobody received when this process took over, in
    /// nanoseconds.
    pub waited: AtomicU64,
}

impl Orders {
    /// For so many queues of our own.
    pub fn new(queues: u16) -> Self {
        Self::with((0..queues).map(|_| QueueMailbox::new(Order::Serve)).collect())
    }

    fn with(seats: Vec<QueueMailbox>) -> Self {
        let (changes, followed, waited) = (AtomicU32::new(0), Condvar::new(), AtomicU64::new(0));
        Self { changes, seats: Mutex::new(seats), followed, waited }
    }

    pub fn seats(&self) -> MutexGuard<'_, Vec<QueueMailbox>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has all queues do something, and wakes them.
    pub fn give(&self, change: impl Fn(&mut QueueMailbox)) {
        let mut seats = self.seats();
        seats.iter_mut().for_each(&change);
        self.changes.fetch_add(1, Ordering::Release);
        let bells = seats.iter().flat_map(|seat| [&seat.upper_bell, &seat.lower_bell]);
        bells.flatten().for_each(|bell| ring(bell));
    }

    /// Nobody takes over: all go on, and nothing is kept of the attempt but
    /// what a queue has taken, which it lets go of when it goes on.
    pub fn resume(&self) {
        self.give(|seat| {
            if seat.order != Order::Leave {
                seat.order = Order::Serve;
                seat.ends = None;
            }
        });
        for seat in self.seats().iter_mut().filter(|seat| seat.order != Order::Leave) {
            seat.upper_bell = None;
        }
    }

    /// Waits until all have followed.
    pub fn wait(&self, what: &'static str, limit: Duration) -> Result<(), HandoverError> {
        let busy = |seats: &mut Vec<QueueMailbox>| seats.iter().any(|seat| seat.done != seat.order);
        let waited = self.followed.wait_timeout_while(self.seats(), limit, busy);
        let (seats, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match seats.iter().position(|seat| seat.done != seat.order) {
            Some(queue) => Err(HandoverError::Silent { queue, what }),
            None => Ok(()),
        }
    }
}

/// Maps what another process offers, and touches none of it.
pub(crate) fn adopt(
    config: &Config,
    terms: &Terms,
    attachment: OwnedFd,
    queues: Vec<[OwnedFd; QUEUE_DESCRIPTORS]>,
) -> Result<(Orders, XdpAttachment), XdpError> {
    let count = queues.len();
    if Some(count) != config.queues.map(usize::from) {
        return Err(HandoverError::Descriptor("queues").into());
    }
    let memory = |fd| {
        let share = if config.shared_umem { count as u32 } else { 1 };
        let umem = Umem::adopt(fd, config, terms.frame, share);
        umem.map(Arc::new).map_err(|_| XdpError::from(HandoverError::Descriptor("memory")))
    };
    let mut common: Option<Arc<Umem>> = None;
    let mut seats = Vec::new();
    for [socket, umem, relay, down, up] in queues {
        let (socket, rings) = Socket::adopt(socket, config)?;
        let umem = match &common {
            Some(umem) => Arc::clone(umem),
            None => memory(umem)?,
        };
        if config.shared_umem {
            common.get_or_insert_with(|| Arc::clone(&umem));
        }
        let relay = Relay::open(relay, terms.frame).map(Arc::new).ok_or(HandoverError::Descriptor("a relay"))?;
        let (down, up) = (Arc::new(down), Arc::new(up));
        // SAFETY: the predecessor has the other ends, and nobody else any.
        let (receiver, sender) = unsafe {
            let receiver = Receiver::new(Arc::clone(&relay), Way::Up);
            (receiver, Sender::new(Arc::clone(&relay), Way::Down, down))
        };
        let mut seat = QueueMailbox::new(Order::Await);
        seat.lower_bell = Some(Arc::clone(&up));
        seat.ends = Some(Ends { receiver, sender, bell: up, relay: Arc::clone(&relay) });
        seat.relay = Some(relay);
        seat.inherited = Some(Inherited { socket: Arc::new(socket), rings, umem, account: None });
        seats.push(seat);
    }
    Ok((Orders::with(seats), XdpAttachment::from_fd(attachment)))
}

pub(crate) fn bell() -> Result<Arc<OwnedFd>, HandoverError> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    rustix::event::eventfd(0, flags).map(Arc::new).map_err(system("make an eventfd"))
}

pub(crate) fn system(what: &'static str) -> impl Fn(Errno) -> HandoverError {
    move |source| HandoverError::System { what, source }
}

#[cfg(test)]
mod tests;
