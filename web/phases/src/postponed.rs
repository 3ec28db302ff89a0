//! Answers that have others within them: what is included stands at its place in the
//! order, whenever it comes.
//!
//! ```text
//!  content ─► filters ─► own ─ sub ─ own ─ sub … ─► coding ─► client
//!                               ▲           ▲
//!                            the answers of subrequests, as they come
//! ```
//!
//! As little is made ahead as keeps clients busy: content of one's own up to
//! [`OWN_MAX`], and [`SUBS_MAX`] subrequests that are not over; where a silo has many, one
//! of what is sent next.
//! What waits of a subrequest's answer bounds how much more of it is made.

use super::filtered_body::Filtering;
use super::placed::{Next, Placed, PlacedSub, Postponed};
use super::request_state::RequestState;
use super::scope::Clock;
use super::subrequest::{SubId, SubUse};
use super::subs::{AskedSub, SubWork};
use super::waits::{On, Pull, SUBS_OF_ALL};
use app::Body;
use core::ops::Range;
use exchange::{ExchangeId, Piece, Replies};
use features::Broken;
use filters::Include;
use semantics::Request;

/// Bytes of own content that wait for their place to be reached.
const OWN_MAX: usize = 64 << 10;

/// Subrequests of one request that are not over.
const SUBS_MAX: usize = 16;

/// Output that is made at once, bytes.
const PIECE: usize = 32 << 10;

impl super::Rest {
    /// Queues at most about `most` bytes more of an answer that has others within it.
    pub(super) fn some_in_order(
        &mut self,
        replies: &mut dyn Replies,
        (token, state): (u32, &mut RequestState),
        filtering: &mut Filtering,
        most: usize,
        (share, clock): (&mut u64, &Clock),
    ) -> Result<Pull, Broken> {
        let Some(mut postponed) = filtering.postponed.take() else { return Err(Broken) };
        let made = self.make_own((token, &mut *state), filtering, &mut postponed, most, (share, clock));
        let queued = self.queue_next(replies, state, &mut postponed, most, (share, clock));
        let pulled = queued.and_then(|queued| match (queued, made) {
            // What was made before is sent first.
            ((queued @ 1.., _), Err(Broken)) => Ok(Pull::Some(queued)),
            (_, Err(broken)) => Err(broken),
            ((queued, true), _) => Ok(Pull::End(queued)),
            ((0, false), Ok(waits)) => Ok(Pull::Waits(waits)),
            ((queued, false), _) => Ok(Pull::Some(queued)),
        });
        filtering.postponed = Some(postponed);
        pulled
    }

    /// Makes own content, and what is included in it, as far as there is room; what more of
    /// it waits for.
    fn make_own(
        &mut self,
        (token, state): (u32, &mut RequestState),
        filtering: &mut Filtering,
        postponed: &mut Postponed,
        most: usize,
        (share, clock): (&mut u64, &Clock),
    ) -> Result<On, Broken> {
        let own_max = OWN_MAX.min(2 * most);
        if let Some(before) = postponed.before.take() {
            self.add_path((token, &mut *state), postponed, &before);
        }
        while !postponed.made && postponed.waits.is_none() && postponed.own < own_max && *share > 0 {
            let unfinished = postponed.unfinished();
            let many = self.subs.alive >= SUBS_OF_ALL;
            if unfinished >= SUBS_MAX || many && unfinished > 0 {
                return Ok(On::Source);
            }
            if many && !self.is_active(state) {
                return Ok(On::Place);
            }
            if filtering.pipeline.is_empty() {
                match filtering.waiting.pop_front() {
                    Some((body, range)) => postponed.push_body(body, range),
                    None if filtering.ended => postponed.made = true,
                    None => return Ok(On::Source),
                }
                continue;
            }
            let mut out = Vec::new();
            let made = state.with_scope(clock, |scope| filtering.step((&mut out, PIECE.min(most)), share, scope));
            postponed.made = made.unwrap_or(Err(Broken))?;
            let moved = !out.is_empty();
            postponed.push_own(out);
            match state.within.include.take() {
                Some(include) => self.place_kept((token, &mut *state), postponed, *include),
                None if !moved && !postponed.made => return Ok(On::Source),
                None => {}
            }
        }
        if postponed.made && postponed.slices && postponed.is_drained() {
            self.ask_slice((token, &mut *state), postponed)?;
        }
        if postponed.made
            && !postponed.slices
            && let Some(after) = postponed.after.take()
        {
            self.add_path((token, state), postponed, &after);
        }
        // What is within it has its turn first.
        Ok(On::Source)
    }

    /// Whether it is what its client waits for: what is made of it is sent next.
    fn is_active(&self, state: &RequestState) -> bool {
        let mut of = state.within.sub.as_deref();
        while let Some(sub) = of {
            let Some(parent) = self.requests.of(sub.parent) else { return false };
            let placed = parent.reply.filtering.as_deref().and_then(|filtering| filtering.postponed.as_deref());
            if !placed.is_some_and(|placed| placed.is_next(sub.id)) {
                return false;
            }
            of = parent.within.sub.as_deref();
        }
        true
    }

    /// Queues what follows, as far as it is there.
    fn queue_next(
        &mut self,
        replies: &mut dyn Replies,
        state: &mut RequestState,
        postponed: &mut Postponed,
        most: usize,
        (share, clock): (&mut u64, &Clock),
    ) -> Result<(u64, bool), Broken> {
        let id = state.id;
        let mut queued = 0;
        while queued < most as u64 && *share > 0 {
            let (piece, of, last) = match postponed.next(most - queued as usize) {
                Next::Waits => break,
                Next::Reached(of) => {
                    self.subs.work.push_back(SubWork::Reached(of));
                    break;
                }
                Next::Piece(body, range, of) => (Some((body, range)), of, false),
                Next::Over => (None, None, true),
            };
            let length = piece.as_ref().map_or(0, |(_, range)| range.len());
            if let Some(of) = of {
                self.subs.work.push_back(SubWork::Room(of, length));
            }
            if postponed.coding.is_empty() {
                *share = share.saturating_sub(64);
                queued += length as u64;
                if let Some((body, range)) = piece.filter(|_| length > 0) {
                    replies.body(id, Piece::Body(&body, (range.start, range.end)));
                }
            } else {
                queued += code(replies, state, postponed, piece, (&mut *share, clock))?;
            }
            if last {
                return Ok((queued, true));
            }
        }
        Ok((queued, false))
    }

    /// What is at a path stands here.
    fn add_path(&mut self, (token, state): (u32, &mut RequestState), postponed: &mut Postponed, uri: &[u8]) {
        let include = Include { uri: uri.to_vec(), args: Vec::new(), waits: false, set: None, stub: None };
        self.place_kept((token, state), postponed, include);
    }

    /// The same where the request is kept with its state.
    fn place_kept(&mut self, (token, state): (u32, &mut RequestState), postponed: &mut Postponed, include: Include) {
        let Some(request) = state.request.take() else { return };
        self.place((token, &mut *state), &request.get(), postponed, include);
        state.request = Some(request);
    }

    /// Something is included here.
    pub(super) fn place(
        &mut self,
        (token, state): (u32, &mut RequestState),
        request: &Request<'_>,
        postponed: &mut Postponed,
        include: Include,
    ) {
        let Include { uri, args, waits, set, stub } = include;
        let purpose = match set {
            Some(name) => SubUse::Memory(name),
            None => SubUse::Content(stub.clone()),
        };
        let asked = AskedSub { uri: &uri, args: &args, purpose, has_body: true };
        match self.ask_sub((token, &mut *state), request, asked) {
            Ok(id) => {
                if waits {
                    postponed.waits = Some(id);
                }
                postponed.items.push_back(Placed::Sub(PlacedSub::new(id, stub)));
            }
            Err(why) => {
                let (level, text) = why.told(&uri);
                super::errors::tell((&state.loaded, state), request, &self.clock, (level, || text));
            }
        }
    }

    /// Some of the answer of a subrequest is for `parent`. Whether it has a place.
    pub(super) fn add_placed(&mut self, (token, id): (u32, ExchangeId), sub: SubId, (body, range): (Body, Range<u32>)) {
        let Some(state) = self.requests.of_mut((token, id)) else { return };
        let Some(postponed) = state.reply.filtering.as_deref_mut().and_then(|one| one.postponed.as_deref_mut()) else {
            return;
        };
        let slices = state.within.slices.as_deref_mut().filter(|_| postponed.slice == Some(sub));
        let came = range.len();
        let range = slices.map_or(range.clone(), |slices| slices.cut_of(range));
        if range.len() < came {
            // The rest is nobody's.
            self.subs.work.push_back(SubWork::Room(sub, came - range.len()));
        }
        if !range.is_empty() && postponed.add(sub, body, range) {
            self.make_ready(token);
        }
    }

    /// All of it came.
    pub(super) fn end_placed(&mut self, (token, id): (u32, ExchangeId), sub: SubId) {
        let Some(state) = self.requests.of_mut((token, id)) else { return };
        if let Some(postponed) = state.reply.filtering.as_deref_mut().and_then(|one| one.postponed.as_deref_mut()) {
            postponed.end(sub);
            self.make_ready(token);
        }
    }
}

/// Queues what becomes of a piece in the answer's coding; without one, of its end.
fn code(
    replies: &mut dyn Replies,
    state: &mut RequestState,
    postponed: &mut Postponed,
    piece: Option<(Body, Range<u32>)>,
    (share, clock): (&mut u64, &Clock),
) -> Result<u64, Broken> {
    let id = state.id;
    let last = piece.is_none();
    let mut bytes: &[u8] = &[];
    if let Some((body, range)) = &piece {
        bytes = body.as_slice().get(range.start as usize..range.end as usize).unwrap_or_default();
    }
    let mut queued = 0;
    loop {
        let mut out = Vec::new();
        // A piece is short: it is taken as a whole, whatever that costs.
        let mut budget = u64::MAX;
        let ran =
            state.with_scope(clock, |scope| postponed.coding.run((bytes, last), (&mut out, PIECE), &mut budget, scope));
        let ran = ran.unwrap_or(Err(Broken))?;
        *share = share.saturating_sub(u64::MAX - budget);
        bytes = bytes.get(ran.taken..).unwrap_or_default();
        let moved = ran.taken > 0 || !out.is_empty();
        if !out.is_empty() {
            queued += out.len() as u64;
            let body = Body::new(out);
            let length = body.len();
            replies.body(id, Piece::Body(&body, (0, length)));
        }
        if last && ran.ended || bytes.is_empty() && !last {
            return Ok(queued);
        }
        if !moved {
            return Err(Broken);
        }
    }
}
