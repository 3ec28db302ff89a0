//! The conversation that sets a connection up, without its I/O: messages in,
//! messages to send out.
//!
//! ```text
//! server                 client
//!   HELLO ───────────────►
//!   ◄──────────────── INIT
//!   ACK ─────────────────►
//!   ◄────────── ADD_REGION   (with the memory)
//!   ACK ─────────────────►
//!   ◄──────────── ADD_RING   (with its eventfd; once per ring)
//!   ACK ─────────────────►
//!   ◄───────────── CONNECT
//!   CONNECTED ───────────►
//! ```
//!
//! The client sends one message per answer, because DPDK's and VPP's servers
//! read one message per event.

use crate::config::{Config, LOG2_RING_SIZE_MAX};
use crate::message::{Direction, Limits, MODE_ETHERNET, Message, VERSION};
use std::collections::VecDeque;

/// Most regions of one connection; DPDK's limit.
pub(crate) const REGIONS_LIMIT: usize = 256;
/// Largest region. A mapping costs us address space only, so the limit is
/// there to catch nonsense.
pub(crate) const REGION_SIZE_LIMIT: u64 = 1 << 36;

/// Why a conversation, or the connection after it, ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The peer said so, with its reason.
    Said(String),
    /// The peer closed without a word.
    Vanished,
    /// We cannot go on, and tell the peer why.
    Refused(String),
}

impl End {
    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self::Refused(reason.into())
    }
}

fn unexpected(message: &Message) -> End {
    match message {
        Message::Disconnect { reason, .. } => End::Said(reason.clone()),
        _ => End::refused("unexpected message"),
    }
}

/// A ring as a client offered it. `F` is a file descriptor.
#[derive(Debug)]
pub(crate) struct RingOffer<F> {
    pub(crate) region: u16,
    pub(crate) offset: u32,
    pub(crate) log2_size: u8,
    pub(crate) event: F,
}

/// All that a client offered.
#[derive(Debug)]
pub(crate) struct Offer<F> {
    pub(crate) peer: String,
    pub(crate) regions: Vec<(F, u64)>,
    /// Per queue: the ring that the server receives from, the one it sends to.
    pub(crate) queues: Vec<(RingOffer<F>, RingOffer<F>)>,
}

/// What a server does next.
#[derive(Debug)]
pub(crate) enum ServerStep<F> {
    /// Send this and go on listening.
    Answer(Message),
    /// Map the memory; if that works, send CONNECTED and be up.
    Connect(Offer<F>),
}

/// The server's side of the conversation.
#[derive(Debug)]
pub(crate) struct ServerHandshake<F> {
    peer: Option<String>,
    regions: Vec<(F, u64)>,
    to_server: Vec<Option<RingOffer<F>>>,
    to_client: Vec<Option<RingOffer<F>>>,
}

impl<F> ServerHandshake<F> {
    pub(crate) fn new(config: &Config) -> Self {
        let rings = || (0..config.queues).map(|_| None).collect();
        Self { peer: None, regions: Vec::new(), to_server: rings(), to_client: rings() }
    }

    /// The first message of a connection.
    pub(crate) fn hello(config: &Config) -> Message {
        Message::Hello {
            name: config.name.clone(),
            min_version: VERSION,
            max_version: VERSION,
            limits: Limits {
                region: (REGIONS_LIMIT - 1) as u16,
                ring_to_client: config.queues - 1,
                ring_to_server: config.queues - 1,
                log2_ring_size: LOG2_RING_SIZE_MAX,
            },
        }
    }

    pub(crate) fn on_message(
        &mut self,
        config: &Config,
        message: Message,
        fd: Option<F>,
    ) -> Result<ServerStep<F>, End> {
        match (message, &self.peer) {
            (Message::Init { version, id, mode, secret, name }, None) => {
                check_init(config, version, id, mode, &secret)?;
                self.peer = Some(name);
            }
            (Message::AddRegion { index, size }, Some(_)) => {
                let fd = fd.ok_or_else(|| End::refused("region without a file descriptor"))?;
                if usize::from(index) != self.regions.len() || self.regions.len() == REGIONS_LIMIT {
                    return Err(End::refused("region index out of order or beyond the limit"));
                }
                if size == 0 || size > REGION_SIZE_LIMIT {
                    return Err(End::refused("region size out of range"));
                }
                self.regions.push((fd, size));
            }
            (Message::AddRing { direction, index, region, offset, log2_size }, Some(_)) => {
                let event = fd.ok_or_else(|| End::refused("ring without a file descriptor"))?;
                if log2_size > LOG2_RING_SIZE_MAX {
                    return Err(End::refused("ring size beyond the limit"));
                }
                let rings = match direction {
                    Direction::ToServer => &mut self.to_server,
                    Direction::ToClient => &mut self.to_client,
                };
                let place = rings.get_mut(usize::from(index)).ok_or_else(|| {
                    End::refused(format!("ring index beyond the {} configured queues", config.queues))
                })?;
                if place.is_some() {
                    return Err(End::refused("ring added twice"));
                }
                *place = Some(RingOffer { region, offset, log2_size, event });
            }
            (Message::Connect { .. }, Some(peer)) => {
                let peer = peer.clone();
                return self.offer(peer).map(ServerStep::Connect);
            }
            (other, _) => return Err(unexpected(&other)),
        }
        Ok(ServerStep::Answer(Message::Ack))
    }

    /// Queue pairs from index 0 up to the first that is incomplete. A peer may
    /// have more rings one way than the other; the odd ones stay unused.
    fn offer(&mut self, peer: String) -> Result<Offer<F>, End> {
        let rings = self.to_server.drain(..).zip(self.to_client.drain(..));
        let queues: Vec<_> = rings.map_while(|(rx, tx)| rx.zip(tx)).collect();
        if queues.is_empty() {
            return Err(End::refused("no ring in each direction"));
        }
        Ok(Offer { peer, regions: core::mem::take(&mut self.regions), queues })
    }
}

fn check_init(config: &Config, version: u16, id: u32, mode: u8, secret: &str) -> Result<(), End> {
    if version != VERSION {
        return Err(End::refused("incompatible version, only 2.0 is spoken"));
    }
    if id != config.id {
        return Err(End::refused(format!("no interface {id} on this socket, there is {}", config.id)));
    }
    if mode != MODE_ETHERNET {
        return Err(End::refused("only Ethernet mode is spoken"));
    }
    match &config.secret {
        Some(wanted) if !same(wanted.as_bytes(), secret.as_bytes()) => Err(End::refused("wrong or missing secret")),
        _ => Ok(()),
    }
}

/// Compares in a time that does not tell how much was right.
fn same(wanted: &[u8], given: &[u8]) -> bool {
    let differing = wanted.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
    wanted.len() == given.len() && core::hint::black_box(differing) == 0
}

/// The file descriptor that goes with a client's message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attachment {
    None,
    Memory,
    Event(Direction, u16),
}

/// What the two agreed on, as far as a client needs to know to lay its memory out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) peer: String,
    pub(crate) queues: u16,
    pub(crate) log2_ring_size: u8,
}

/// Where a client put a ring, and how large its memory is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) size: u64,
    /// Per queue: offset of the ring to the server, of the one to the client.
    pub(crate) rings: Vec<(u32, u32)>,
    pub(crate) log2_ring_size: u8,
}

/// What a client does next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ClientStep {
    /// Make memory and rings, then call [`ClientHandshake::offer`].
    MakeMemory(Plan),
    /// Send this and go on listening.
    Send(Message, Attachment),
    /// Frames may flow.
    Up,
}

/// The client's side of the conversation.
#[derive(Debug, Default)]
pub(crate) struct ClientHandshake {
    greeted: bool,
    /// What is left to send, one per answer.
    queue: VecDeque<(Message, Attachment)>,
}

impl ClientHandshake {
    pub(crate) fn on_message(&mut self, config: &Config, message: Message) -> Result<ClientStep, End> {
        match message {
            Message::Hello { name, min_version, max_version, limits } if !self.greeted => {
                if !(min_version..=max_version).contains(&VERSION) {
                    return Err(End::refused("incompatible version, only 2.0 is spoken"));
                }
                self.greeted = true;
                let highest = limits.ring_to_client.min(limits.ring_to_server);
                Ok(ClientStep::MakeMemory(Plan {
                    peer: name,
                    queues: config.queues.min(highest.saturating_add(1)),
                    log2_ring_size: config.log2_ring_size.min(limits.log2_ring_size),
                }))
            }
            Message::Ack => match self.queue.pop_front() {
                Some((message, attachment)) => Ok(ClientStep::Send(message, attachment)),
                None => Err(End::refused("unexpected message")),
            },
            Message::Connected { .. } if self.greeted && self.queue.is_empty() => Ok(ClientStep::Up),
            other => Err(unexpected(&other)),
        }
    }

    /// Puts what is to be said in order, and returns the first of it.
    pub(crate) fn offer(&mut self, config: &Config, layout: &Layout) -> Message {
        self.queue.push_back((Message::AddRegion { index: 0, size: layout.size }, Attachment::Memory));
        for direction in [Direction::ToServer, Direction::ToClient] {
            for (index, (to_server, to_client)) in (0_u16..).zip(&layout.rings) {
                let offset = if direction == Direction::ToServer { *to_server } else { *to_client };
                let log2_size = layout.log2_ring_size;
                let ring = Message::AddRing { direction, index, region: 0, offset, log2_size };
                self.queue.push_back((ring, Attachment::Event(direction, index)));
            }
        }
        self.queue.push_back((Message::Connect { name: config.name.clone() }, Attachment::None));
        Message::Init {
            version: VERSION,
            id: config.id,
            mode: MODE_ETHERNET,
            secret: config.secret.clone().unwrap_or_default(),
            name: config.name.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
