//! Connections that another process of the same addresses goes on with, before anything was said
//! on them: those that nobody has accepted.
//!
//! As Linux has it among listeners of one port (`tcp_migrate_req`): a listener that is closed
//! leaves its clients to one that is not.

use super::Tcp;
use super::flows::Owner;
use crate::flow::Flow;
use crate::ip::Ip;
use app::ConnId;
use core::net::SocketAddr;
use tcp::{Agreed, State};

/// What another stack with the same secrets must know of a connection to go on with it. Its clock
/// is the same, so that timestamps go on, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migrant {
    /// The peer.
    pub remote: SocketAddr,
    /// Our end.
    pub local: SocketAddr,
    /// What was agreed on; the sequence numbers before the next ones.
    pub agreed: Agreed,
    /// The peer's window, in bytes.
    pub window: u16,
}

/// Bytes of the timestamps option, with padding (RFC 7323 appendix A).
const TIMESTAMPS_LEN: u16 = 12;

impl Tcp {
    /// What there is to know of a connection, if nothing is under way on it and both sides may
    /// still send.
    pub fn migrant(&self, ip: &Ip, id: ConnId) -> Option<Migrant> {
        let slot = self.slots.get(id).filter(|slot| !slot.is_over())?;
        let (flow, info) = (slot.flow(), slot.tcp.info());
        let idle = info.state == State::Established && info.in_flight == 0 && info.unsent == 0;
        // Bytes that came out of order come again, and so does what is held here and not read.
        let local = ip.addresses.get(flow.local).filter(|_| idle && slot.tcp.buffered() == 0)?;
        let options = if info.timestamps { TIMESTAMPS_LEN } else { 0 };
        let mut agreed = Agreed::bare(info.nxt.minus(1), info.rcv_nxt.minus(1), info.mss.saturating_add(options));
        agreed.sack = info.sack;
        agreed.timestamps = info.timestamps.then_some(info.ts_recent);
        // Both shift, or neither (RFC 7323 section 2.2), and ours is the configuration's.
        let shifts = info.own_shift == self.common.config.window_shift() && info.own_shift > 0;
        agreed.peer_shift = shifts.then_some(info.peer_shift);
        let window = info.snd_wnd.min(0xffff) as u16;
        Some(Migrant {
            remote: SocketAddr::new(flow.remote(), flow.remote_port),
            local: SocketAddr::new(local, flow.local_port),
            agreed,
            window,
        })
    }

    /// Forgets a connection that another stack goes on with: its peer hears nothing of it, and the
    /// application from the caller.
    pub fn emigrate(&mut self, ip: &mut Ip, id: ConnId) {
        let Some(slot) = self.slots.get_mut(id).filter(|slot| !slot.is_over()) else { return };
        let before = slot.tcp.buffered();
        // Nobody is to be reset.
        let _ = slot.tcp.abort();
        self.account(id.index() as u32, before);
        self.free_slot(ip, id.index() as u32);
        self.counters.emigrated += 1;
    }

    /// Goes on with another stack's connection. `None` where there is no room, no such address, or
    /// the flow is somebody's here.
    pub fn immigrate(&mut self, ip: &mut Ip, migrant: &Migrant) -> Option<ConnId> {
        let local = ip.addresses.index(migrant.local.ip())?;
        let (remote, port) = (migrant.remote, migrant.local.port());
        let flow = Flow::new(remote.ip(), remote.port(), local, port);
        let hash = self.flows.hash(&flow);
        if self.slots.is_full() || self.find(hash, &flow).is_some() || !self.admits(&flow) {
            return None;
        }
        let hop = ip.next_hop(remote.ip())?;
        let neighbour = ip.neighbours.resolve(hop, self.common.now);
        let id = self.create(ip, flow, neighbour, &migrant.agreed, migrant.window);
        let slot = id.index() as u32;
        if !self.flows.insert(hash, Owner::Connection(slot)) {
            ip.neighbours.unpin(neighbour);
            self.sources.closed(flow.remote());
            self.slots.remove(slot);
            return None;
        }
        // The other may have owed an acknowledgement.
        self.slots.at_mut(slot).tcp.ask_ack();
        self.make_ready(slot);
        self.counters.accepted += 1;
        self.counters.immigrated += 1;
        Some(id)
    }
}
