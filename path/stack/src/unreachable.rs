//! ICMP errors about segments of ours: a smaller path MTU, or no way to the
//! peer. They count only if they quote what is in flight (RFC 5927 section 4):
//! what is not told by them is that anything was lost.

use crate::Stack;
use crate::flow::{Flow, Owner};
use app::{Closed, Unreachable};
use wire::icmpv4::Icmpv4;
use wire::icmpv6::Icmpv6;
use wire::{Original, protocol};

/// What an error says of the peer; `None` for one that says nothing of it
/// (Linux: `icmp_err_convert` in net/ipv4/icmp.c, `tcp_v4_err` in
/// net/ipv4/tcp_ipv4.c).
pub(crate) const fn of_v4(message: &Icmpv4<'_>) -> Option<Unreachable> {
    Some(match message {
        Icmpv4::DestinationUnreachable { code, .. } => match code {
            0 | 6 | 9 | 11 => Unreachable::Network,
            1 | 10 | 12..=15 => Unreachable::Host,
            2 => Unreachable::Protocol,
            3 => Unreachable::Port,
            5 => Unreachable::SourceRoute,
            7 => Unreachable::NoHost,
            8 => Unreachable::Isolated,
            _ => return None,
        },
        Icmpv4::TimeExceeded { .. } => Unreachable::Host,
        Icmpv4::ParameterProblem { .. } => Unreachable::Header,
        _ => return None,
    })
}

/// The same over IPv6 (`icmpv6_err_convert` in Linux's net/ipv6/icmp.c).
pub(crate) const fn of_v6(message: &Icmpv6<'_>) -> Option<Unreachable> {
    Some(match message {
        Icmpv6::DestinationUnreachable { code, .. } => match code {
            0 => Unreachable::Network,
            1 | 5 | 6 => Unreachable::Prohibited,
            2 | 3 => Unreachable::Host,
            4 => Unreachable::Port,
            _ => Unreachable::Header,
        },
        Icmpv6::TimeExceeded { .. } => Unreachable::Host,
        Icmpv6::ParameterProblem { .. } => Unreachable::Header,
        _ => return None,
    })
}

/// Whether an error that says this ends a handshake that a peer began: not
/// one of what is open or not there, for the peer has just asked
/// (`tcp_req_err` in Linux's net/ipv4/tcp_ipv4.c).
const fn ends_handshake(why: Unreachable) -> bool {
    matches!(why, Unreachable::Network | Unreachable::Host | Unreachable::Header)
}

impl Stack {
    /// An error that may say that a peer cannot be reached.
    pub(crate) fn on_icmp_error(&mut self, original: Option<Original>, why: Option<Unreachable>) {
        let is_error = original.is_some() || why.is_some();
        let used = why.is_some_and(|why| self.on_unreachable(original, why));
        self.counters.icmp_ignored += u64::from(is_error && !used);
    }

    /// A packet of ours was too long for the path to its destination.
    pub(crate) fn on_smaller_path_told(&mut self, original: Option<Original>, mtu: u32) {
        match self.in_flight(original) {
            Some((Owner::Connection(slot), quoted)) => self.on_smaller_path(slot, quoted.dst, mtu),
            _ => self.counters.icmp_ignored += 1,
        }
    }

    /// There is no way to the peer that a packet of ours was for. Whether
    /// that ended anything, or was noted.
    pub(crate) fn on_unreachable(&mut self, original: Option<Original>, why: Unreachable) -> bool {
        match self.in_flight(original) {
            Some((Owner::Connection(slot), _)) => {
                let before = self.slots.at(slot).tcp.buffered();
                let id = self.slots.id(slot);
                if self.with(slot, |tcp, cx, _| tcp.on_unreachable(cx.config, why)) {
                    self.note_over(id, Closed::Unreachable(why));
                }
                self.account(slot, before);
                true
            }
            Some((Owner::Syn(entry), _)) if ends_handshake(why) => {
                self.counters.half_open_unreachable += 1;
                self.drop_half_open(entry);
                true
            }
            _ => false,
        }
    }

    /// What a packet of ours was sent for, if it has not been acknowledged.
    fn in_flight(&self, original: Option<Original>) -> Option<(Owner, Original)> {
        let quoted = original.filter(|quoted| quoted.protocol == protocol::TCP)?;
        let local = self.addresses.index(quoted.src)?;
        let flow = Flow::new(quoted.dst, quoted.dst_port, local, quoted.src_port);
        let owner = self.find(self.hasher.hash(&flow), &flow)?;
        let flies = match owner {
            Owner::Connection(slot) => self.slots.at(slot).tcp.quotes_flight(quoted.seq),
            Owner::Syn(entry) => self.syns.get(entry).agreed.iss == quoted.seq,
            Owner::TimeWait(_) => false,
        };
        flies.then_some((owner, quoted))
    }
}
