//! One process takes a port over from another: its sockets, their memory and
//! the program's attachment, as they are ([`driver::Handover`]). What the old one's
//! connections say and hear passes by the relay meanwhile.
//!
//! Rings and frames stay where they are: positions stand in the rings, which
//! the kernel lets two processes map since Linux 6.4. What stands nowhere is
//! which frames to send are in none of the rings; that is the account.

use crate::error::{HandoverError, XdpError};
use crate::orders::{Ends, Order, bell, system};
use crate::relay::{Receiver, Relay, Sender, Way};
use crate::shared::Shared;
use core::error::Error;
use core::sync::atomic::Ordering;
use core::time::Duration;
use driver::{Handover, Offer};
use rustix::io::Errno;
use std::sync::{Arc, PoisonError};

/// How often a queue's first burst is looked for.
const LOOK: Duration = Duration::from_micros(200);

/// An open port, for whoever hands it to another process or takes it from one.
#[derive(Clone, Debug)]
pub struct Handle(pub(crate) Arc<Shared>);

impl Handle {
    /// The port as it is now: its interface may have been another one.
    fn port(&self) -> &Arc<Shared> {
        let mut port = &self.0;
        while let Some(renewed) = port.renewed.get() {
            port = renewed;
        }
        port
    }

    fn try_offer(&self, limit: Duration) -> Result<Offer, HandoverError> {
        let shared = self.port();
        let frame = shared.facts.frame;
        let mut given = Vec::new();
        {
            let mut seats = shared.orders.seats();
            for seat in seats.iter_mut() {
                let relay = Arc::new(Relay::create(frame).map_err(system("make memory for a relay"))?);
                let (down, up) = (bell()?, bell()?);
                // SAFETY: the memory is new; the successor has the other ends.
                let (receiver, sender) = unsafe {
                    let receiver = Receiver::new(Arc::clone(&relay), Way::Down);
                    (receiver, Sender::new(Arc::clone(&relay), Way::Up, Arc::clone(&up)))
                };
                seat.ends = Some(Ends { receiver, sender, bell: Arc::clone(&down), relay: Arc::clone(&relay) });
                given.push((relay, down, up));
            }
        }
        shared.orders.give(|seat| seat.order = Order::Offer);
        // It may sleep without a bell until now.
        shared.orders.wait("get ready to stop", limit)?;
        let copy = |fd: std::os::fd::BorrowedFd<'_>| {
            fd.try_clone_to_owned().map_err(|source| HandoverError::System {
                what: "copy a descriptor",
                source: Errno::from_io_error(&source).unwrap_or(Errno::IO),
            })
        };
        use std::os::fd::AsFd;
        let mut queues = Vec::new();
        let mut seats = shared.orders.seats();
        for (queue, (seat, (relay, down, up))) in seats.iter_mut().zip(given).enumerate() {
            let Some((socket, umem)) = &seat.has else {
                return Err(HandoverError::Silent { queue, what: "begin" });
            };
            seat.upper_bell = Some(Arc::clone(&down));
            let all = [socket.as_fd(), umem.file(), (*relay).as_fd(), down.as_fd(), up.as_fd()];
            let [a, b, c, d, e] = all.map(copy);
            queues.push([a?, b?, c?, d?, e?]);
        }
        let attachment = shared.attachment.lock().unwrap_or_else(PoisonError::into_inner);
        let attachment = attachment.as_ref().ok_or(HandoverError::Descriptor("an attachment"))?;
        let attachment = copy(attachment.as_fd())?;
        Ok(Offer { terms: shared.terms().to_string(), attachment, queues })
    }
}

impl Handover for Handle {
    fn offer(&self, limit: Duration) -> Result<Offer, Box<dyn Error>> {
        Ok(self.try_offer(limit).inspect_err(|_| self.resume())?)
    }

    fn freeze(&self) {
        self.port().orders.give(|seat| seat.order = Order::Freeze);
    }

    fn frozen(&self, limit: Duration) -> Result<(), Box<dyn Error>> {
        Ok(self.port().orders.wait("stop", limit)?)
    }

    fn resume(&self) {
        self.port().orders.resume();
    }

    fn leave(&self) {
        self.port().orders.give(|seat| {
            seat.order = Order::Leave;
            seat.has = None;
        });
        *self.port().umem.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // However the successor ends, its program ends with it.
        *self.port().attachment.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn check(&self) -> Result<(), Box<dyn Error>> {
        let ring = self.port().config.ring;
        for (queue, seat) in self.port().orders.seats().iter_mut().enumerate() {
            let wrong = HandoverError::Account { queue };
            let account = seat.relay.as_ref().and_then(|relay| relay.account(ring));
            let (Some(account), Some(inherited)) = (account, &mut seat.inherited) else { return Err(wrong.into()) };
            // SAFETY: the rings are mapped as long as the socket is held.
            let in_rings = unsafe { inherited.rings.sent() };
            if account.free.len() as u64 + u64::from(in_rings) > u64::from(ring) {
                return Err(wrong.into());
            }
            inherited.account = Some(account);
        }
        Ok(())
    }

    fn take(&self) {
        self.port().orders.give(|seat| seat.order = Order::Take);
    }

    fn waited(&self, limit: Duration) -> Result<Duration, Box<dyn Error>> {
        let mut left = limit;
        loop {
            let seats = self.port().orders.seats();
            let spans = seats.iter().map(|seat| {
                let began = seat.began.load(Ordering::Acquire);
                let last = seat.relay.as_ref()?.account(self.port().config.ring)?.last;
                (began > 0).then(|| began.saturating_sub(last))
            });
            let spans: Vec<Option<u64>> = spans.collect();
            let Some(queue) = spans.iter().position(Option::is_none) else {
                let longest = spans.into_iter().flatten().max().unwrap_or(0);
                return Ok(Duration::from_nanos(longest));
            };
            if left.is_zero() {
                return Err(HandoverError::Silent { queue, what: "begin" }.into());
            }
            drop(self.port().orders.followed.wait_timeout(seats, LOOK));
            left = left.saturating_sub(LOOK);
        }
    }

    fn set_waited(&self, waited: Duration) {
        self.port().orders.waited.store(waited.as_nanos().min(u128::from(u64::MAX)) as u64, Ordering::Relaxed);
    }

    fn attach_own(&self) -> Result<(), Box<dyn Error>> {
        let attachment = self.port().attachment.lock().unwrap_or_else(PoisonError::into_inner);
        let both = attachment.as_ref().zip(self.port().filter.as_ref());
        Ok(both.map_or(Ok(()), |(attachment, filter)| attachment.replace(&filter.program)).map_err(XdpError::from)?)
    }

    fn on_predecessor_gone(&self) {
        self.port().orders.give(|seat| seat.alone = true);
        self.port().orders.seats().iter_mut().for_each(|seat| seat.lower_bell = None);
    }
}
