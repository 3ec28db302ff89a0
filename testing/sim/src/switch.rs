//! A learning Ethernet switch between the hosts' links.

use link::{Link, PairLink, Receive, Transmit};
use wire::{Mac, Offload, Time};

/// Frames taken from a port at a time.
const BURST: usize = 64;

/// Addresses learned at most: the oldest is forgotten.
const ADDRESSES: usize = 1_024;

/// The switch.
#[derive(Default)]
pub struct Switch {
    ports: Vec<PairLink>,
    /// Where an address was last seen as a source.
    learned: Vec<(Mac, usize)>,
    frame: Vec<u8>,
    /// Frames forwarded.
    pub forwarded: u64,
    /// Frames dropped because the port's ring was full.
    pub dropped: u64,
}

impl Switch {
    /// Connects a link; what is sent on its other end comes in here.
    pub fn connect(&mut self, port: PairLink) {
        self.ports.push(port);
    }

    /// Whether frames wait to be forwarded.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.ports.iter().any(|port| port.waiting() > 0)
    }

    /// Forwards what waits at each port, a burst of it.
    pub fn turn(&mut self, now: Time) {
        for from in 0..self.ports.len() {
            let count = self.ports[from].split().0.receive(now, BURST);
            for index in 0..count {
                self.frame.clear();
                self.frame.extend_from_slice(self.ports[from].split().0.frame(index));
                self.forward(from);
            }
            self.ports[from].split().0.release();
        }
        for port in &mut self.ports {
            port.split().1.flush(now);
        }
    }

    fn forward(&mut self, from: usize) {
        let (Some(dst), Some(src)) = (mac(&self.frame, 0), mac(&self.frame, 6)) else { return };
        if !src.is_multicast() {
            self.learn(src, from);
        }
        let known = self.learned.iter().find(|(mac, _)| *mac == dst).map(|(_, port)| *port);
        match known.filter(|_| !dst.is_multicast()) {
            Some(to) if to == from => {}
            Some(to) => self.send(to),
            None => {
                for to in (0..self.ports.len()).filter(|&to| to != from) {
                    self.send(to);
                }
            }
        }
    }

    fn learn(&mut self, mac: Mac, port: usize) {
        if let Some(entry) = self.learned.iter_mut().find(|(known, _)| *known == mac) {
            entry.1 = port;
            return;
        }
        if self.learned.len() >= ADDRESSES {
            self.learned.remove(0);
        }
        self.learned.push((mac, port));
    }

    fn send(&mut self, to: usize) {
        let tx = self.ports[to].split().1;
        let Some(slot) = tx.slot().and_then(|slot| slot.get_mut(..self.frame.len())) else {
            self.dropped += 1;
            return;
        };
        slot.copy_from_slice(&self.frame);
        tx.commit(self.frame.len(), Offload::NONE);
        self.forwarded += 1;
    }
}

fn mac(frame: &[u8], at: usize) -> Option<Mac> {
    frame.get(at..)?.first_chunk::<6>().map(|bytes| Mac(*bytes))
}
