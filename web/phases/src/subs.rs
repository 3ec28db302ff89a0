//! Requests within requests: what is known of each, and of all of a silo.
//!
//! A subrequest is a state as any other: its head is that of the request that made it,
//! its id the engine's own ([`ExchangeSlots::within`]). It runs by [`SubReplies`](super::within::SubReplies),
//! which keeps what it is answered in its record; after each step the engine hands that to
//! the request that asked, which goes on. Nothing runs within the step of another request:
//! what is to be done is queued here, and done in the turn.
//!
//! ```text
//!  parent ── ask_sub ──► work ──► (turn) begin ──► its phases ──► SubReplies ──► record
//!     ▲                                                                            │
//!     └── goes on, or has content at its place in the order ◄──────────────────────┘
//! ```
//!
//! As with nginx the variables that `set` writes are those of the main request: they are
//! lent to whichever subrequest runs.

use super::loaded::Loaded;
use super::request_state::{RequestState, VariableMemory};
use super::runner::Runner;
use super::subrequest::{SubId, SubResult, SubUse, Subrequest};
use super::waits::Line;
use app::Body;
use core::ops::Range;
use exchange::{ExchangeId, ExchangeSlots};
use features::ErrorLevel;
use features::limits::CountedRequest;
use filters::SsiValues;
use semantics::Request;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// Subrequests within each other, at most (`NGX_HTTP_MAX_SUBREQUESTS` of nginx, and one).
const DEPTH_MAX: u8 = 51;

/// Subrequests that one request makes in all, at most, but for slices: a page that includes
/// itself twice would else make 2^50. nginx counts 64,535 at a time.
const COUNT_MAX: u32 = 4_096;

/// Copies of requests that are under way, of one silo, at most.
const MIRRORS_MAX: usize = 1_024;

/// What happened to the answer of a subrequest.
#[derive(Debug)]
pub(super) enum SubEvent {
    /// Some of it.
    Content(Body, Range<u32>),
    /// There is no more.
    Over,
    /// Its connection is to be closed without a word.
    HangUp,
}

/// What is known of a subrequest, apart from its state.
#[derive(Debug)]
pub(super) struct SubRecord {
    /// What its state waits by.
    pub token: u32,
    /// The request that all is for, and who asked.
    pub main: (u32, ExchangeId),
    pub parent: (u32, ExchangeId),
    pub is_mirror: bool,
    /// It is a slice of the answer of who asked: to be whole, or that one ends, too.
    pub is_slice: bool,
    /// Content that is kept for a variable, by its name.
    pub memory: Option<(Vec<u8>, Vec<u8>)>,
    events: Vec<SubEvent>,
    /// Bytes that whoever asked has not taken.
    pub unsent: usize,
    finished: bool,
}

impl SubRecord {
    /// Of a subrequest that is to wait by `token`.
    pub fn new(sub: &Subrequest, token: u32) -> Self {
        let memory = match &sub.purpose {
            SubUse::Memory(name) => Some((name.clone(), Vec::new())),
            _ => None,
        };
        Self {
            token,
            main: sub.main,
            parent: sub.parent,
            is_mirror: matches!(sub.purpose, SubUse::Mirror),
            is_slice: matches!(sub.purpose, SubUse::Slice(_)),
            memory,
            events: Vec::new(),
            unsent: 0,
            finished: false,
        }
    }

    pub fn push(&mut self, event: SubEvent) {
        match &event {
            SubEvent::Content(_, range) => self.unsent += range.len(),
            SubEvent::Over | SubEvent::HangUp if self.finished => return,
            SubEvent::Over | SubEvent::HangUp => {
                // Nobody is to wait for what is known to be all.
                (self.finished, self.unsent) = (true, 0);
            }
        }
        self.events.push(event);
    }

    pub fn take_events(&mut self) -> Vec<SubEvent> {
        core::mem::take(&mut self.events)
    }

    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }
}

pub(super) type SubTable = HashMap<SubId, SubRecord>;

/// What is to be done about subrequests.
#[derive(Debug)]
pub(super) enum SubWork {
    /// One begins.
    Begin(SubId, Box<RequestState>),
    /// Who asked has taken so many bytes of its answer.
    Room(SubId, usize),
    /// Its place was reached: what is made of it is sent next.
    Reached(SubId),
    /// Who asked goes on.
    GoOn(u32, ExchangeId),
}

/// The subrequests of a silo.
#[derive(Debug)]
pub(crate) struct Subs {
    ids: ExchangeSlots,
    pub(super) table: SubTable,
    pub(super) work: VecDeque<SubWork>,
    /// Those that wait for a place.
    pub(super) line: Line,
    mirrors: usize,
    /// Those whose states are not over.
    pub alive: usize,
    /// What is the main request's, while its subrequest that was running is over.
    returned: Option<SharedValues>,
    pub results: Vec<(SubId, SubResult)>,
}

impl Default for Subs {
    fn default() -> Self {
        Self {
            ids: ExchangeSlots::within(),
            table: SubTable::default(),
            work: VecDeque::new(),
            line: Line::default(),
            mirrors: 0,
            alive: 0,
            returned: None,
            results: Vec::new(),
        }
    }
}

impl Subs {
    /// Whether there is anything to look after.
    pub fn is_idle(&self) -> bool {
        self.table.is_empty() && self.work.is_empty()
    }

    /// One that was to begin does not.
    pub(super) fn forget(&mut self, id: SubId) {
        self.ids.end(id.exchange_id());
    }

    pub(super) fn remove(&mut self, id: SubId) -> Option<SubRecord> {
        let record = self.table.remove(&id)?;
        self.mirrors -= usize::from(record.is_mirror);
        self.ids.end(id.exchange_id());
        Some(record)
    }

    pub fn take_result(&mut self, id: SubId) -> SubResult {
        let at = self.results.iter().position(|(known, _)| *known == id);
        // One that was cut short has none.
        at.map_or(SubResult { status: 500, ..SubResult::default() }, |at| self.results.swap_remove(at).1)
    }
}

/// What subrequests share with their main request.
#[derive(Debug, Default)]
pub(crate) struct SharedValues {
    values: VariableMemory,
    limits: CountedRequest,
    ssi: Option<Box<SsiValues>>,
}

impl SharedValues {
    fn swap(&mut self, state: &mut RequestState) {
        core::mem::swap(&mut self.values, &mut state.values);
        core::mem::swap(&mut self.limits, &mut state.features.limits);
        core::mem::swap(&mut self.ssi, &mut state.within.ssi);
    }
}

/// A subrequest that is asked for.
pub(super) struct AskedSub<'a> {
    pub uri: &'a [u8],
    pub args: &'a [u8],
    pub purpose: SubUse,
    /// It has the body of the request that asks, if that was read.
    pub has_body: bool,
}

/// Why there is no such subrequest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SubRefusal {
    Cycle,
    TooMany,
    InMemory,
}

impl SubRefusal {
    /// For the error log.
    pub fn told(self, uri: &[u8]) -> (ErrorLevel, Vec<u8>) {
        match self {
            Self::Cycle => (ErrorLevel::ERROR, [b"subrequests cycle while processing \"", uri, b"\""].concat()),
            Self::TooMany => {
                let what = &b"request reference counter overflow while processing \""[..];
                (ErrorLevel::CRIT, [what, uri, b"\""].concat())
            }
            Self::InMemory => (ErrorLevel::ERROR, [b"nested in-memory subrequest \"", uri, b"\""].concat()),
        }
    }
}

impl super::Rest {
    /// Makes a subrequest, which begins in this turn.
    pub(super) fn ask_sub(
        &mut self,
        (token, parent): (u32, &mut RequestState),
        request: &Request<'_>,
        asked: AskedSub<'_>,
    ) -> Result<SubId, SubRefusal> {
        if let Some(why) = parent.refuses_sub() {
            return Err(why);
        }
        let of = parent.within.sub.as_deref();
        let left = of.map_or(DEPTH_MAX, |sub| sub.left);
        let is_mirror = matches!(asked.purpose, SubUse::Mirror);
        if is_mirror && self.subs.mirrors >= MIRRORS_MAX {
            return Err(SubRefusal::TooMany);
        }
        let main = of.map_or((token, parent.id), |sub| sub.main);
        let children = match of {
            None => parent.within.children.get_or_insert_default(),
            Some(_) => match self.requests.of_mut(main) {
                Some(state) => state.within.children.get_or_insert_default(),
                None => return Err(SubRefusal::TooMany),
            },
        };
        if children.count >= COUNT_MAX {
            return Err(SubRefusal::TooMany);
        }
        let id = self.subs.ids.begin().and_then(SubId::of).ok_or(SubRefusal::TooMany)?;
        children.count += 1;
        self.subs.mirrors += usize::from(is_mirror);
        self.subs.alive += 1;
        let loaded = Rc::clone(&parent.loaded);
        let mut state =
            self.spare.state().unwrap_or_else(|| Box::new(RequestState::new(Rc::clone(&loaded), id.exchange_id())));
        state.begin_within(parent, &loaded, id.exchange_id());
        state.started = self.clock.now;
        state.route.uri.extend_from_slice(asked.uri);
        state.route.args.extend_from_slice(asked.args);
        state.request = Some((*request).into());
        state.body = parent.body.as_ref().filter(|_| asked.has_body).and_then(|body| body.share());
        let of = parent.within.sub.as_deref();
        if is_mirror {
            state.method = parent.method;
            // It may outlive the request, and has its variables as they are now.
            state.values.slots.clone_from(&parent.values.slots);
            state.features.limits.said = parent.features.limits.said;
        }
        if matches!(asked.purpose, SubUse::Slice(_)) {
            state.method = parent.method;
            state.route.go_on_as(&parent.route);
        }
        state.within.sub = Some(Box::new(Subrequest {
            id,
            parent: (token, parent.id),
            main,
            purpose: asked.purpose,
            method: of.map_or(parent.method, |sub| sub.method),
            media_type: bare_type(&parent.sent.fields),
            left: left - 1,
        }));
        self.subs.work.push_back(SubWork::Begin(id, state));
        Ok(id)
    }

    /// Lends the main request's values to a subrequest that is to run. Whether it has them.
    pub(super) fn lend(&mut self, id: SubId) -> bool {
        let Some(record) = self.subs.table.get(&id).filter(|record| !record.is_mirror) else { return false };
        let (sub, main) = ((record.token, id.exchange_id()), record.main);
        if self.requests.of(sub).is_none() {
            return false;
        }
        let mut values = SharedValues::default();
        let Some(main) = self.requests.of_mut(main) else { return false };
        values.swap(main);
        if let Some(sub) = self.requests.of_mut(sub) {
            values.swap(sub);
        }
        true
    }

    /// The main request has its values again.
    pub(super) fn return_values(&mut self, (token, id): (u32, SubId), main: (u32, ExchangeId)) {
        let mut values = SharedValues::default();
        match self.requests.of_mut((token, id.exchange_id())) {
            Some(state) => values.swap(state),
            // It is over.
            None => values = self.subs.returned.take().unwrap_or_default(),
        }
        if let Some(main) = self.requests.of_mut(main) {
            values.swap(main);
        }
    }

    /// A subrequest is over: what it had on loan goes back.
    pub(super) fn end_sub(&mut self, state: &mut RequestState) {
        let Some(sub) = state.within.sub.take() else { return };
        self.subs.alive = self.subs.alive.saturating_sub(1);
        if !matches!(sub.purpose, SubUse::Mirror) {
            let mut values = SharedValues::default();
            values.swap(state);
            self.subs.returned = Some(values);
        }
    }

    /// Those whom nobody waits for any more: all that a request has made, but for its copies.
    pub(super) fn subs_of(&self, main: ExchangeId) -> Vec<SubId> {
        let of = |(id, record): (&SubId, &SubRecord)| (record.main.1 == main && !record.is_mirror).then_some(*id);
        self.subs.table.iter().filter_map(of).collect()
    }

    /// The subrequest that waits by a token, if it is one.
    pub(super) fn sub_at(&self, token: u32) -> Option<SubId> {
        if self.subs.table.is_empty() {
            return None;
        }
        Some(self.requests.get(token)?.within.sub.as_deref()?.id)
    }
}

/// The media type that an answer's fields tell, without what is told beside it.
fn bare_type(fields: &[u8]) -> Vec<u8> {
    let told = semantics::Fields::new(fields).find(|field| field.is("content-type"));
    let told = told.map(|field| field.value).unwrap_or_default();
    told.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii().to_vec()
}

impl RequestState {
    /// Why it may make no subrequest, as far as it knows.
    pub(super) fn refuses_sub(&self) -> Option<SubRefusal> {
        let sub = self.within.sub.as_deref()?;
        if sub.left == 0 {
            return Some(SubRefusal::Cycle);
        }
        matches!(sub.purpose, SubUse::Memory(_)).then_some(SubRefusal::InMemory)
    }

    /// Begins as a subrequest of another.
    fn begin_within(&mut self, parent: &Self, loaded: &Rc<Loaded>, id: ExchangeId) {
        *self = Self::new(Rc::clone(loaded), id);
        self.values.slots.resize(loaded.program.variables.slots(), None);
        (self.about, self.settings.series, self.reuse.class) =
            (parent.about, parent.settings.series, parent.reuse.class);
        self.client.begin_within(&parent.client);
        self.route.begin_within(&parent.route);
        let server = loaded.program.server(self.route.server);
        if let Some(server) = server {
            self.route.settle(server.block);
        }
        self.reuse.depends.on(super::request_state::Depends::OTHER);
    }
}

impl Runner<'_> {
    /// Makes a subrequest of this request.
    pub(super) fn ask_sub(&mut self, asked: AskedSub<'_>) -> Option<SubId> {
        self.state.reuse.depends.on(super::request_state::Depends::OTHER);
        let uri = asked.uri.to_vec();
        let made = self.rest.ask_sub((self.token, self.state), self.request, asked);
        match made {
            Ok(id) => {
                self.state.settings.patient = true;
                self.replies.set(self.state.id, &self.state.settings);
                Some(id)
            }
            Err(why) => {
                let (level, text) = why.told(&uri);
                self.tell(level, || text);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
