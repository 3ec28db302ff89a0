//! One connection's state, and the table of them.

use app::ConnId;
use core::time::Duration;
use h1::client::ResponseReader;
use wire::Time;

/// What a connection is about.
///
/// ```text
/// Free ─connect─► Connecting ─on_open─► Idle ◄─┐   (HTTPS: Securing lies between the two)
///                     │                  │send │ response
///                     │                  ▼     │
///                     │                 Busy ──┘
///                     │                  │ last response: peer is to close
///                     │                  ▼
///                     │               Awaiting
///                     ▼ failed           │ FIN, or any failure of the above
///                   Leaving ◄────────────┘
///                     └──on_close──► Free
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum State {
    /// No connection of ours has this slot.
    #[default]
    Free,
    /// Connecting, since [`LoadConnection::since`].
    Connecting,
    /// Established, and a handshake of TLS under way or failed; the connect was started at
    /// [`LoadConnection::since`].
    Securing,
    /// Ready, nothing asked.
    Idle,
    /// Requests under way, the oldest sent at [`LoadConnection::since`].
    Busy,
    /// All is answered, and the peer said that it closes.
    Awaiting,
    /// We finished or aborted it, or are about to; only `on_close` is to
    /// come. No longer one of the connections that the plan asks for.
    Leaving,
}

/// One connection's state.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadConnection {
    /// When the state began; for `Busy`, when the oldest request was sent.
    /// Nanoseconds.
    pub since: u64,
    /// Where in a response we are.
    pub engine: ResponseReader,
    /// The handle's generation.
    pub generation: u32,
    /// What it is about.
    pub state: State,
    /// Requests under way.
    pub asked: u8,
    /// With pipelining, the place of the oldest request's time.
    pub oldest: u8,
    /// Whether the connection's timer is set.
    pub timed: bool,
}

const _: () = assert!(size_of::<LoadConnection>() <= 48, "a million connections are 48 MB");
const _: () = assert!(crate::plan::PIPELINE_LIMIT <= u8::MAX as u16);
const _: () = assert!(crate::plan::CONCURRENT_LIMIT <= u8::MAX as u16);

impl LoadConnection {
    /// Time since `since`.
    #[inline]
    pub fn age(&self, now: Time) -> Duration {
        now.since(Time::from_nanos(self.since))
    }
}

/// What is kept of each request beside its send time, where the plan asks for
/// it: 8, 2 and 4 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    /// When it was due.
    pub due: bool,
    /// Which of several requests it is.
    pub kind: bool,
    /// Of each connection: requests sent on it.
    pub uses: bool,
    /// Requests are answered in any order: each has a place of its own, in place of a turn.
    pub by_place: bool,
}

/// Connections by slot, and what is kept of their requests.
#[derive(Debug)]
pub struct Table {
    conns: Vec<LoadConnection>,
    /// When a request was sent: `depth` entries for each slot, a ring from
    /// [`LoadConnection::oldest`]; empty without pipelining.
    times: Vec<u64>,
    /// When it was due; `depth` entries likewise, or empty.
    dues: Vec<u64>,
    /// Its number among the plan's; likewise.
    kinds: Vec<u16>,
    /// Requests sent on a connection; one for each slot, or empty.
    uses: Vec<u32>,
    depth: usize,
    kept: Kept,
}

impl Table {
    /// A table for `connections` of `depth` requests each, without slots yet.
    pub fn new(connections: u32, depth: u16, kept: Kept) -> Self {
        let (connections, depth) = (connections as usize, usize::from(depth));
        let room = |wanted: bool, each: usize| if wanted { connections * each } else { 0 };
        Self {
            conns: Vec::with_capacity(connections),
            times: Vec::with_capacity(room(depth > 1 || kept.by_place, depth)),
            dues: Vec::with_capacity(room(kept.due, depth)),
            kinds: Vec::with_capacity(room(kept.kind, depth)),
            uses: Vec::with_capacity(room(kept.uses, 1)),
            depth,
            kept,
        }
    }

    /// Takes a slot for a new connection. Slots are dense and bounded by the
    /// data path, so the table grows to its number of slots and no further.
    pub fn take(&mut self, id: ConnId, now: Time) {
        let slot = id.index();
        if slot >= self.conns.len() {
            let slots = slot + 1;
            self.conns.resize(slots, LoadConnection::default());
            if self.depth > 1 || self.kept.by_place {
                self.times.resize(slots * self.depth, 0);
            }
            if self.kept.due {
                self.dues.resize(slots * self.depth, 0);
            }
            if self.kept.kind {
                self.kinds.resize(slots * self.depth, 0);
            }
            if self.kept.uses {
                self.uses.resize(slots, 0);
            }
        }
        if let Some(uses) = self.uses.get_mut(slot) {
            *uses = 0;
        }
        self.conns[slot] = LoadConnection {
            since: now.as_nanos(),
            generation: id.generation(),
            state: State::Connecting,
            ..LoadConnection::default()
        };
    }

    /// The connection with this handle, unless it is not ours or gone.
    #[inline]
    pub fn get_mut(&mut self, id: ConnId) -> Option<&mut LoadConnection> {
        self.conns.get_mut(id.index()).filter(|conn| conn.generation == id.generation())
    }

    /// As [`Table::get_mut`], to read.
    #[inline]
    pub fn get(&self, id: ConnId) -> Option<&LoadConnection> {
        self.conns.get(id.index()).filter(|conn| conn.generation == id.generation())
    }

    /// Slots that have been in use.
    #[inline]
    pub fn slots(&self) -> usize {
        self.conns.len()
    }

    /// The connection in a slot, and its handle.
    #[inline]
    pub fn at(&self, slot: usize) -> (ConnId, &LoadConnection) {
        let conn = &self.conns[slot];
        (ConnId::new(slot as u32, conn.generation), conn)
    }

    /// All slots.
    pub fn iter(&self) -> impl Iterator<Item = &LoadConnection> {
        self.conns.iter()
    }

    /// Notes a request sent at `now` on a connection, and sees to it that the
    /// connection is timed. Answers whether its timer was set before.
    #[inline]
    pub fn push(&mut self, id: ConnId, now: Time) -> bool {
        let conn = &mut self.conns[id.index()];
        conn.state = State::Busy;
        if conn.asked == 0 {
            conn.since = now.as_nanos();
        }
        if self.depth > 1 {
            let place = (usize::from(conn.oldest) + usize::from(conn.asked)) % self.depth;
            self.times[id.index() * self.depth + place] = now.as_nanos();
        }
        conn.asked += 1;
        core::mem::replace(&mut conn.timed, true)
    }

    /// As [`Table::push`], and keeps when it was due and which one it is.
    pub fn push_kept(&mut self, id: ConnId, now: Time, due: Time, kind: u16) -> bool {
        let conn = &self.conns[id.index()];
        let place = (usize::from(conn.oldest) + usize::from(conn.asked)) % self.depth;
        let at = id.index() * self.depth + place;
        if let Some(kept) = self.dues.get_mut(at) {
            *kept = due.as_nanos();
        }
        if let Some(kept) = self.kinds.get_mut(at) {
            *kept = kind;
        }
        if let Some(uses) = self.uses.get_mut(id.index()) {
            *uses = uses.saturating_add(1);
        }
        self.push(id, now)
    }

    /// As [`Table::push_kept`], at a place of its own.
    pub fn push_at(&mut self, id: ConnId, place: u16, now: Time, due: Time, kind: u16) -> bool {
        let conn = &mut self.conns[id.index()];
        conn.state = State::Busy;
        if conn.asked == 0 {
            conn.since = now.as_nanos();
        }
        conn.asked += 1;
        let timed = core::mem::replace(&mut conn.timed, true);
        let at = id.index() * self.depth + usize::from(place);
        self.times[at] = now.as_nanos();
        if let Some(kept) = self.dues.get_mut(at) {
            *kept = due.as_nanos();
        }
        if let Some(kept) = self.kinds.get_mut(at) {
            *kept = kind;
        }
        if let Some(uses) = self.uses.get_mut(id.index()) {
            *uses = uses.saturating_add(1);
        }
        timed
    }

    /// The request at a place is the next that ends.
    #[inline]
    pub fn set_oldest(&mut self, id: ConnId, place: u16) {
        // There are 250 places.
        self.conns[id.index()].oldest = place as u8;
    }

    /// When the request at a place was sent.
    pub fn sent_at(&self, id: ConnId, place: u16) -> u64 {
        self.times.get(id.index() * self.depth + usize::from(place)).copied().unwrap_or(0)
    }

    /// Which one the request at a place is.
    pub fn kind_at(&self, id: ConnId, place: u16) -> u16 {
        self.kinds.get(id.index() * self.depth + usize::from(place)).copied().unwrap_or(0)
    }

    /// Since when the oldest request is under way, where it was looked for.
    pub fn set_since(&mut self, id: ConnId, since: u64) {
        self.conns[id.index()].since = since;
    }

    /// When the oldest request of a connection was due, if that is kept.
    pub fn oldest_due(&self, id: ConnId) -> Option<u64> {
        self.dues.get(self.oldest_at(id)?).copied()
    }

    /// Which one the oldest request of a connection is.
    pub fn oldest_kind(&self, id: ConnId) -> u16 {
        self.oldest_at(id).and_then(|at| self.kinds.get(at)).copied().unwrap_or(0)
    }

    fn oldest_at(&self, id: ConnId) -> Option<usize> {
        let conn = self.conns.get(id.index())?;
        Some(id.index() * self.depth + usize::from(conn.oldest))
    }

    /// Requests sent on a connection, if that is kept.
    pub fn uses(&self, id: ConnId) -> u32 {
        self.uses.get(id.index()).copied().unwrap_or(0)
    }

    /// Requests that may be under way on a connection.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Takes the oldest request off, and answers when it was sent.
    #[inline]
    pub fn pop(&mut self, id: ConnId) -> u64 {
        let conn = &mut self.conns[id.index()];
        let mut sent = conn.since;
        conn.asked -= 1;
        if self.kept.by_place {
            sent = self.times[id.index() * self.depth + usize::from(conn.oldest)];
        } else if self.depth > 1 {
            let oldest = (usize::from(conn.oldest) + 1) % self.depth;
            conn.oldest = oldest as u8;
            conn.since = self.times[id.index() * self.depth + oldest];
        }
        if conn.asked == 0 {
            conn.state = State::Idle;
        }
        sent
    }
}
