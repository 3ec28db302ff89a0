//! How the main thread has queues change hands.

use super::super::control::{Channel, ChannelError};
use super::super::orders::Orders;
use super::super::supervisor::DataPath;
use super::super::takeover::Predecessor;
use super::own_ports::OwnPorts;
use super::serving::ServingSilos;
use core::time::Duration;
use page::Page;
use rustix::event::{PollFd, PollFlags};
use say::Failure;

/// Silos over links, for the main thread.
pub struct LinkPath<'a> {
    pub silos: &'a ServingSilos<'a>,
    pub page: &'a mut Page,
    pub own_ports: &'a OwnPorts,
    pub predecessor: Option<&'a Predecessor>,
}

impl<'a> DataPath for LinkPath<'a> {
    type Prepare = ServingSilos<'a>;

    /// The queues are the successor's own by then.
    const GOES_BACK: bool = false;

    fn takes_work(&self) -> bool {
        self.predecessor.is_some()
    }

    fn follow(&mut self) -> Result<Option<(u32, Option<Duration>)>, Failure> {
        let Some(predecessor) = self.predecessor else { return Ok(None) };
        let waited = self.own_ports.take_over(predecessor)?;
        if let Err(why) = predecessor.wait_for_places() {
            say::warning(format_args!("the process before this one ended early: {why}"));
        }
        Ok(Some((predecessor.pid(), Some(waited))))
    }

    fn on_answering(&mut self) {
        let _ = self.predecessor.map(Predecessor::answers);
    }

    fn offer(&self, channel: &Channel) -> Result<(), ChannelError> {
        self.silos.beside.offer(channel)?;
        self.own_ports.offer(channel)
    }

    fn on_followed(&mut self) {
        self.silos.beside.stop_listening();
    }

    fn on_stop(&mut self) {
        self.silos.beside.stop_listening();
    }

    fn hand_over(&mut self, channel: Option<&Channel>) -> Result<(), String> {
        self.own_ports.hand_over(channel.ok_or("the successor went away")?)
    }

    fn resume(&self) {
        self.own_ports.resume();
    }

    fn poll_fds<'f>(&'f self, fds: &mut Vec<PollFd<'f>>) {
        if let Some(predecessor) = self.predecessor.filter(|_| self.own_ports.relays()) {
            fds.push(PollFd::new(predecessor, PollFlags::IN));
        }
    }

    fn look(&mut self, orders: &Orders, is_coming: bool) {
        if self.own_ports.relays() && self.predecessor.is_some_and(Predecessor::has_ended) {
            self.own_ports.on_predecessor_gone();
            orders.ring_workers();
        }
        // A silo that sleeps is to hear of what it is asked.
        orders.set_restless(is_coming);
    }

    fn parts(&mut self) -> (&ServingSilos<'a>, &mut Page) {
        (self.silos, self.page)
    }
}
