//! Connections that are secured: what arrives is opened before the application has it,
//! and what it queues is sealed on its way to the kernel (`sealing`).
//!
//! The queue keeps plaintext. Records are sealed into a buffer of the worker's, handed to
//! the kernel at once, and what that did not take is kept as it is: a record is sealed
//! once, so that no number is ever used for two.

use crate::dispatch;
use crate::net::Sockets;
use crate::sealing;
use crate::table::Flags;
use app::{App, Closed, ConnId};
use core::fmt;
use seal::{Ask, Layer, Unsealed};
use wire::Time;

/// What secures a connection, and what of that is under way. Boxed, beside the table.
pub(crate) struct Secured {
    pub(crate) layer: Box<dyn Layer>,
    /// Of the next record.
    pub(crate) epoch: u8,
    pub(crate) number: u64,
    /// Bytes first in the queue that go as they are: queued before all this.
    pub(crate) clear: u64,
    /// Sealed bytes that the kernel did not take yet, and how many of these it took since.
    pub(crate) kept: Vec<u8>,
    pub(crate) taken: usize,
    /// Plaintext since the connection last rested, and when it last sent some.
    pub(crate) run: usize,
    pub(crate) sent_at: Time,
    /// Plaintext of a record that fills a segment.
    pub(crate) segment: u16,
    /// What is to be said before more of the queue.
    pub(crate) due: Due,
    /// Bytes that arrived of a record that is not whole.
    begun: Vec<u8>,
    /// What the peer will still say.
    heard: Heard,
}

/// What a connection is to say by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Due {
    #[default]
    Nothing,
    /// The next keys: the peer asked for them, or those in use have sealed enough.
    Update,
    /// That is all: nothing more is sent.
    EndSaid,
}

/// What the peer will still say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    /// More.
    Open,
    /// Nothing: it said so.
    Ended,
    /// Nothing, and it did not say so.
    Cut,
}

/// What came of bytes that arrived.
enum Came {
    Plain,
    /// The peer's end, which it said.
    End,
    /// Nothing more can be opened: what the peer is told, if anything.
    Failed(Option<u8>),
}

impl fmt::Debug for Secured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secured").field("epoch", &self.epoch).field("number", &self.number).finish_non_exhaustive()
    }
}

impl Secured {
    /// Of a queue whose first `clear` bytes go as they are.
    pub(crate) fn new(layer: Box<dyn Layer>, clear: u64, segment: u16, now: Time) -> Self {
        Self {
            layer,
            epoch: 0,
            number: 0,
            clear,
            kept: Vec::new(),
            taken: 0,
            run: 0,
            sent_at: now,
            segment,
            due: Due::Nothing,
            begun: Vec::new(),
            heard: Heard::Open,
        }
    }

    /// Sealed bytes that the kernel did not take.
    pub(crate) fn kept(&self) -> usize {
        self.kept.len() - self.taken
    }

    /// Whether part of a record has arrived, or several that were not opened yet.
    pub(crate) fn is_amid(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Whether the peer went without a word.
    pub(crate) fn was_cut(&self) -> bool {
        self.heard == Heard::Cut
    }

    /// Nothing is sent any more.
    pub(crate) fn give_up(&mut self) {
        (self.kept, self.taken, self.clear) = (Vec::new(), 0, 0);
    }

    /// Keeps what arrived before and was not opened.
    pub(crate) fn keep_unopened(&mut self, bytes: &[u8]) {
        self.begun.extend_from_slice(bytes);
    }

    /// Opens all records that are whole, those that were kept first.
    fn open(&mut self, data: &[u8], plain: &mut Vec<u8>) -> Came {
        let mut rest = data;
        while !self.begun.is_empty() && self.heard == Heard::Open {
            match self.layer.open(&self.begun, plain) {
                Unsealed::Needs(len) => {
                    let lacks = len.saturating_sub(self.begun.len()).min(rest.len());
                    if lacks == 0 {
                        return Came::Plain;
                    }
                    let (here, behind) = rest.split_at(lacks);
                    self.begun.extend_from_slice(here);
                    rest = behind;
                }
                other => match self.take(other) {
                    // A connection that rests keeps no room for what it does not have.
                    Ok(consumed) if consumed >= self.begun.len() => self.begun = Vec::new(),
                    Ok(consumed) => drop(self.begun.drain(..consumed)),
                    Err(came) => return came,
                },
            }
        }
        while self.heard == Heard::Open {
            match self.layer.open(rest, plain) {
                Unsealed::Needs(_) => {
                    self.begun.extend_from_slice(rest);
                    break;
                }
                other => match self.take(other) {
                    Ok(consumed) => rest = &rest[consumed.min(rest.len())..],
                    Err(came) => return came,
                },
            }
        }
        Came::Plain
    }

    /// Notes what a record meant, and returns how long it was.
    fn take(&mut self, unsealed: Unsealed) -> Result<usize, Came> {
        match unsealed {
            Unsealed::Needs(_) => Ok(0),
            Unsealed::Data { consumed } => Ok(consumed),
            Unsealed::Control { consumed, ask } => {
                // One answer is for all that asked since the last (RFC 8446 section 4.6.3).
                if ask == Ask::Update && self.due == Due::Nothing {
                    self.due = Due::Update;
                }
                Ok(consumed)
            }
            Unsealed::End { .. } => {
                self.heard = Heard::Ended;
                self.begun = Vec::new();
                Err(Came::End)
            }
            Unsealed::Failed(alert) => {
                self.heard = Heard::Cut;
                self.begun = Vec::new();
                Err(Came::Failed(alert))
            }
        }
    }

    /// The peer's FIN is in. What is said afterwards is not heard.
    pub(crate) fn on_fin(&mut self) {
        if self.heard == Heard::Open {
            self.heard = Heard::Cut;
        }
        self.begun = Vec::new();
    }
}

/// Gives the application what is in the records that arrived.
pub(crate) fn deliver<A: App>(app: &mut A, net: &mut Sockets, id: ConnId, data: &[u8]) {
    let mut plain = core::mem::take(&mut net.records.plain);
    plain.clear();
    let (came, asked) = match net.table.secured_mut(id) {
        Some((_, secured)) => (secured.open(data, &mut plain), secured.due == Due::Update),
        None => (Came::Plain, false),
    };
    if !plain.is_empty() {
        net.counters.opened_bytes += plain.len() as u64;
        dispatch::deliver_plain(app, net, id, &plain);
    }
    net.records.plain = plain;
    if asked {
        net.mark_dirty(id);
    }
    match came {
        Came::Plain => {}
        Came::End => dispatch::ended(app, net, id),
        Came::Failed(alert) => refuse(net, id, alert),
    }
}

/// Opens what arrived before the connection was secured, or was left then.
#[cold]
pub(crate) fn deliver_kept<A: App>(app: &mut A, net: &mut Sockets, id: ConnId) {
    if net.table.secured_mut(id).is_some_and(|(_, secured)| secured.is_amid()) {
        deliver(app, net, id, &[]);
    }
}

/// Nothing that follows can be opened: the peer is told why, and the connection is over.
#[cold]
fn refuse(net: &mut Sockets, id: ConnId, alert: Option<u8>) {
    net.counters.records_refused += u64::from(alert.is_some());
    if let Some(alert) = alert
        && let Some((conn, secured)) = net.table.secured_mut(id)
    {
        conn.queue.clear();
        // A reset that follows at once would take it back from the peer.
        conn.flags.set(Flags::REFUSED);
        sealing::send_last(conn, secured, &mut net.records, alert);
    }
    net.end(id, if alert.is_some() { Closed::Aborted } else { Closed::Reset });
}
