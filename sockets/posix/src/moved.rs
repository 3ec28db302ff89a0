//! Connections that nobody has accepted, and that another process's listener is left with.

use crate::calls::Calls;
use crate::slab::NONE;
use crate::socket::{INBOX, Socket};
use app::Net;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use stack::Migrant;
use tcp::Agreed;
use wire::tcp::SeqNum;

/// What another process's sockets need to have such a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MovedConnection {
    /// What the stack needs.
    pub migrant: Migrant,
    /// What came and was not read.
    pub data: Vec<u8>,
}

/// Bytes before the data.
const HEAD: usize = 54;

impl MovedConnection {
    /// As bytes, for another process on this machine.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Migrant { remote, local, agreed, window } = &self.migrant;
        let mut bytes = Vec::with_capacity(HEAD + self.data.len());
        for end in [remote, local] {
            let ip = match end.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            bytes.extend_from_slice(&ip.octets());
            bytes.extend_from_slice(&end.port().to_be_bytes());
        }
        bytes.extend_from_slice(&agreed.iss.0.to_be_bytes());
        bytes.extend_from_slice(&agreed.irs.0.to_be_bytes());
        bytes.extend_from_slice(&agreed.timestamps.unwrap_or(0).to_be_bytes());
        bytes.extend_from_slice(&agreed.peer_mss.to_be_bytes());
        bytes.extend_from_slice(&window.to_be_bytes());
        bytes.push(agreed.peer_shift.unwrap_or(u8::MAX));
        bytes.push(u8::from(agreed.sack) | u8::from(agreed.timestamps.is_some()) << 1);
        bytes.extend_from_slice(&self.data);
        bytes
    }

    /// What those bytes say; `None` for others.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, data) = bytes.split_first_chunk::<HEAD>()?;
        let end = |at: usize| {
            let ip: [u8; 16] = head[at..at + 16].try_into().ok()?;
            let port = u16::from_be_bytes([head[at + 16], head[at + 17]]);
            Some(SocketAddr::new(Ipv6Addr::from(ip).to_canonical(), port))
        };
        let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let mut agreed = Agreed::bare(SeqNum(word(36)), SeqNum(word(40)), half(48));
        agreed.peer_shift = (head[52] != u8::MAX).then_some(head[52]);
        agreed.sack = head[53] & 1 != 0;
        agreed.timestamps = (head[53] & 2 != 0).then_some(word(44));
        let (remote, local) = (end(0)?, end(18)?);
        let possible = remote.is_ipv4() == local.is_ipv4() && data.len() <= INBOX;
        possible.then(|| Self { migrant: Migrant { remote, local, agreed, window: half(50) }, data: data.to_vec() })
    }
}

/// What becomes of a connection whose listener was closed before somebody accepted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bequest {
    /// Another process's sockets have it.
    Taken,
    /// None are there yet, and some are to be: it waits.
    Waits,
    /// Nobody is to have it: it is reset.
    Refused,
}

impl Calls<'_> {
    /// Connections whose listener was closed before somebody accepted them: `give` has each taken by
    /// another process's sockets. One on which something is under way is reset.
    pub fn give_unclaimed(&mut self, mut give: impl FnMut(&MovedConnection) -> Bequest) {
        for at in core::mem::take(&mut self.table.unclaimed) {
            let Some(stream) = self.table.sockets.get(at).and_then(Socket::stream) else { continue };
            let (id, is_over) = (stream.id, stream.closed.is_some());
            let is_whole = !is_over && stream.held == 0 && !stream.ended;
            let migrant = if is_whole { self.stack.migrant(id) } else { None };
            let moved = migrant.map(|migrant| MovedConnection { migrant, data: stream.inbox.bytes().to_vec() });
            let bequest = moved.map_or(Bequest::Refused, |moved| give(&moved));
            if bequest == Bequest::Waits {
                self.table.unclaimed.push(at);
                continue;
            }
            self.table.sockets.remove(at);
            if is_over {
                continue;
            }
            self.table.set_connection(id, NONE);
            if bequest == Bequest::Taken {
                self.stack.emigrate(id);
                self.table.note_ended(id);
            } else {
                self.stack.abort(id);
            }
        }
    }

    /// A connection that another process's listener was closed before: it waits to be accepted here.
    /// Whether there was room for it.
    pub fn take_moved(&mut self, moved: &MovedConnection) -> bool {
        let Some(id) = self.stack.immigrate(&moved.migrant) else { return false };
        self.table.queue_accepted(self.stack, id);
        let at = self.table.socket_of(id);
        let table = &mut *self.table;
        if let Some(stream) = table.sockets.get_mut(at).and_then(Socket::stream_mut) {
            let taken = stream.inbox.put(&moved.data, &mut table.spares);
            debug_assert_eq!(taken, moved.data.len(), "an empty inbox has room for what one had");
        }
        at != NONE
    }
}
