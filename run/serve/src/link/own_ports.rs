//! Queues that change hands: what a running process gives to its successor,
//! and how this one takes them from its predecessor.

use super::super::control::{BATCH, Channel, ChannelError, Message};
use super::super::takeover::Predecessor;
use core::error::Error;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use driver::{Handover, Offer, QUEUE_DESCRIPTORS};
use host::HostPlan;
use host::Layout;
use say::Failure;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How long silos may take to look up, or to stop, each: with `--idle sleep`
/// they do so once a second.
const SILOS: Duration = Duration::from_secs(3);

/// How long nobody may receive while the successor makes up its mind: it has
/// nothing else to do.
const FROZEN: Duration = Duration::from_secs(2);

/// Queues described in one message.
const QUEUES: usize = BATCH / QUEUE_DESCRIPTORS;

/// The ports of this process, and what it takes over.
#[derive(Debug, Default)]
pub struct OwnPorts {
    /// What a predecessor leaves, by link, until it is taken.
    offer: Mutex<Vec<Option<Offer>>>,
    handles: Mutex<Vec<Arc<dyn Handover>>>,
    /// A predecessor has connections left, whose frames pass through here.
    relays: AtomicBool,
}

impl OwnPorts {
    /// With what a predecessor leaves, of links like the plan's.
    ///
    /// # Errors
    /// If the two processes are not to do the same.
    pub fn new(offer: Vec<Offer>, host: &HostPlan, layout: &Layout) -> Result<Self, String> {
        if !offer.is_empty() && offer.len() != host.links.len() {
            let (theirs, ours) = (offer.len(), host.links.len());
            return Err(format!("the running process serves over {theirs} links, this one over {ours}"));
        }
        if !offer.is_empty() && layout.seats.iter().any(|seat| seat.queues.is_empty()) {
            return Err("a successor needs a queue for each silo".to_owned());
        }
        let offer = Mutex::new(offer.into_iter().map(Some).collect());
        Ok(Self { offer, ..Self::default() })
    }

    /// What is left of the `index`th link.
    pub fn take(&self, index: usize) -> Option<Offer> {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner).get_mut(index).and_then(Option::take)
    }

    /// A port is open.
    pub fn add(&self, handle: Arc<dyn Handover>) {
        self.handles().push(handle);
    }

    fn handles(&self) -> MutexGuard<'_, Vec<Arc<dyn Handover>>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes everything from a predecessor whose queues wait, mapped. Returns
    /// for how long nobody received.
    ///
    /// # Errors
    /// If it, or this process, cannot: then the predecessor serves on.
    pub fn take_over(&self, predecessor: &Predecessor) -> Result<Duration, Failure> {
        let gave_up = |why: ChannelError| format!("the process that serves did not hand over: {why}");
        predecessor.stop_receiving().map_err(gave_up)?;
        let handles = self.handles();
        if let Err(why) = handles.iter().try_for_each(|handle| handle.check()) {
            predecessor.refuse(&why.to_string());
            return Err(why);
        }
        // From here on the predecessor never receives again.
        predecessor.take().map_err(gave_up)?;
        self.relays.store(true, Ordering::Relaxed);
        handles.iter().for_each(|handle| handle.take());
        let waited = handles.iter().map(|handle| handle.waited(SILOS)).collect::<Result<Vec<_>, _>>()?;
        let waited = waited.into_iter().max().unwrap_or_default();
        if let Some(first) = handles.first() {
            first.set_waited(waited);
        }
        for handle in handles.iter() {
            if let Err(why) = handle.attach_own() {
                // It does the same; only new addresses of the host are not known to it.
                say::warning(format_args!("the XDP program of the process before this one stays: {why}"));
            }
        }
        Ok(waited)
    }

    /// Whether a predecessor lives, whose connections would end with this
    /// process.
    pub fn relays(&self) -> bool {
        self.relays.load(Ordering::Relaxed)
    }

    /// Nothing is passed on to the predecessor any more.
    pub fn on_predecessor_gone(&self) {
        self.relays.store(false, Ordering::Relaxed);
        self.handles().iter().for_each(|handle| handle.on_predecessor_gone());
    }

    /// Offers everything to a successor.
    ///
    /// # Errors
    /// If it cannot be offered, or said.
    pub fn offer(&self, channel: &Channel) -> Result<(), ChannelError> {
        let offers = self.handles().iter().map(|handle| handle.offer(SILOS)).collect::<Result<Vec<_>, _>>();
        let offers = offers.map_err(|why: Box<dyn Error>| {
            // Whether it hears that is its own affair.
            let _ = channel.send(&Message::Refused { why: why.to_string() }, &[]);
            ChannelError::Withheld(why.to_string())
        })?;
        let mut ports = offers.iter().peekable();
        while let Some(port) = ports.next() {
            channel.send(&Message::Port { terms: port.terms.clone() }, &[port.attachment.as_fd()])?;
            let mut batches = port.queues.chunks(QUEUES).peekable();
            while let Some(batch) = batches.next() {
                let descriptors: Vec<BorrowedFd<'_>> = batch.iter().flatten().map(OwnedFd::as_fd).collect();
                let more = batches.peek().is_some() || ports.peek().is_some();
                channel.send(&Message::Queues { count: batch.len(), more }, &descriptors)?;
            }
        }
        Ok(())
    }

    /// Stops receiving, and hands everything over: it is the successor's when
    /// this returns.
    ///
    /// # Errors
    /// If it does not take it; [`OwnPorts::resume`] is next.
    pub fn hand_over(&self, channel: &Channel) -> Result<(), String> {
        let handles = self.handles();
        handles.iter().for_each(|handle| handle.freeze());
        handles.iter().try_for_each(|handle| handle.frozen(SILOS)).map_err(|why| why.to_string())?;
        if let Err(why) = Self::await_taken(channel) {
            // It may have said so at the last moment: that counts.
            channel.revoke();
            if !matches!(channel.receive(), Ok(Some(last)) if last.message == Message::Taken) {
                return Err(format!("the successor failed: {why}"));
            }
        }
        handles.iter().for_each(|handle| handle.leave());
        Ok(())
    }

    fn await_taken(channel: &Channel) -> Result<(), ChannelError> {
        channel.send(&Message::Frozen, &[])?;
        match channel.wait(FROZEN)?.message {
            Message::Taken => Ok(()),
            _ => Err(ChannelError::Nonsense),
        }
    }

    /// Goes on, or back to where it was before a successor asked.
    pub fn resume(&self) {
        self.handles().iter().for_each(|handle| handle.resume());
    }
}
