//! ICMP errors about segments of ours: a smaller path MTU, or no way to the
//! peer. They count only if they quote what is in flight (RFC 5927 section 4):
//! what is not told by them is that anything was lost.

use super::Tcp;
use super::flows::Owner;
use crate::flow::Flow;
use crate::ip::{Ip, Trouble};
use app::{Closed, Unreachable};
use tcp::{Narrowed, Path};
use wire::Original;

/// Whether an error that says this ends a handshake that a peer began: not
/// one of what is open or not there, for the peer has just asked
/// (`tcp_req_err` in Linux's net/ipv4/tcp_ipv4.c).
const fn ends_handshake(why: Unreachable) -> bool {
    matches!(why, Unreachable::Network | Unreachable::Host | Unreachable::Header)
}

impl Tcp {
    /// The network has trouble with a segment of ours. Whether that changed
    /// anything.
    pub fn on_error(&mut self, ip: &mut Ip, original: Original, trouble: Trouble) -> bool {
        match trouble {
            Trouble::TooBig(mtu) => match self.in_flight(ip, original) {
                Some(Owner::Connection(slot)) => {
                    let narrowed = ip.on_smaller_path(original.dst, mtu);
                    self.shrink_segments(ip, slot, narrowed);
                    true
                }
                _ => false,
            },
            Trouble::Unreachable(why) => self.on_unreachable(ip, original, why),
        }
    }

    /// There is no way to the peer that a segment of ours was for. Whether
    /// that ended anything, or was noted.
    fn on_unreachable(&mut self, ip: &mut Ip, original: Original, why: Unreachable) -> bool {
        match self.in_flight(ip, original) {
            Some(Owner::Connection(slot)) => {
                let before = self.slots.at(slot).tcp.buffered();
                let id = self.slots.id(slot);
                if self.with(ip, slot, |tcp, cx, _| tcp.on_unreachable(cx.config, why)) {
                    self.note_over(id, Closed::Unreachable(why));
                }
                self.account(slot, before);
                true
            }
            Some(Owner::Syn(entry)) if ends_handshake(why) => {
                self.counters.half_open_unreachable += 1;
                self.drop_half_open(ip, entry);
                true
            }
            _ => false,
        }
    }

    /// A connection's segments are to fit a path from now on.
    pub fn shrink_segments(&mut self, ip: &Ip, slot: u32, narrowed: Narrowed) {
        let before = self.slots.at(slot).tcp.buffered();
        let shrunk = self.with(ip, slot, |tcp, cx, _| tcp.on_path_mtu(cx, narrowed));
        self.account(slot, before);
        if shrunk {
            self.make_ready(slot);
            self.schedule(slot);
        }
    }

    /// The link's MTU is smaller from now on.
    pub fn shrink_all(&mut self, ip: &Ip, mtu: u16) {
        let ids: Vec<_> = self.slots.ids().collect();
        for id in ids {
            let slot = id.index() as u32;
            let v6 = !self.slots.at(slot).flow().is_v4();
            self.shrink_segments(ip, slot, Narrowed { path: Path { mtu, v6 }, below_least: false });
        }
    }

    /// What a segment of ours was sent for, if it has not been acknowledged.
    fn in_flight(&self, ip: &Ip, quoted: Original) -> Option<Owner> {
        let local = ip.addresses.index(quoted.src)?;
        let flow = Flow::new(quoted.dst, quoted.dst_port, local, quoted.src_port);
        let owner = self.find(self.flows.hash(&flow), &flow)?;
        let flies = match owner {
            Owner::Connection(slot) => self.slots.at(slot).tcp.quotes_flight(quoted.seq),
            Owner::Syn(entry) => self.syns.get(entry).agreed.iss == quoted.seq,
            Owner::TimeWait(_) => false,
        };
        flies.then_some(owner)
    }
}
