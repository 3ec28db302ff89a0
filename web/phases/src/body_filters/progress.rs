//! Answers that are made a piece at a time go on, as their clients take them, within a budget of
//! each turn.

use crate::body_filters::send::{PIECE, TURN};
use crate::filtered_body::{Filtering, Makings};
use crate::passing::Passing;
use crate::request_state::RequestState;
use crate::scope::Clock;
use crate::waits::{On, Pull};
use crate::{Engine, Rest};
use app::{Body, Wake};
use exchange::{ExchangeId, Gone, Handler, Piece, Replies, Stop};
use features::Broken;

/// What filters may cost for one answer before others have their turn, in about nanoseconds.
const SHARE: u64 = 200_000;

/// Answers that are looked after in a turn, at most.
const POLLED: usize = 32;

/// What comes of an answer in a turn.
enum Progress {
    /// It waits for this.
    Waits(On),
    /// There was no time for more.
    Hungry,
    /// All is queued.
    Finished,
    /// It cannot be sent to its end.
    Broken,
    /// It ends before its end.
    Cut,
}

impl Makings {
    /// A turn begins: so much time there is for all of them.
    pub(crate) const fn begin_turn(&mut self) {
        self.left = TURN;
    }
}

impl Engine {
    /// An answer that is made has its first turn.
    pub(crate) fn begin_making(&mut self, replies: &mut dyn Replies, token: u32) {
        let Some(id) = self.rest.requests.get(token).map(|state| state.id) else {
            return;
        };
        self.make_more(replies, token);
        if self.rest.is_made(token, id) {
            self.rest.makings.list.push((token, id));
        }
    }

    /// Each turn: those who can go on do, as far as there is time. The data path tells
    /// of room only when the queue is nearly empty: some of the others are asked.
    pub(crate) fn make_all(&mut self, replies: &mut dyn Replies) -> Wake {
        self.rest.makings.begin_turn();
        if !self.rest.subs.line.is_empty() {
            self.rest.wake_line();
        }
        while self.rest.makings.left > 0
            && let Some(token) = self.rest.makings.ready.pop_front()
        {
            self.with_any(replies, token, |engine, replies| engine.make_more(replies, token));
        }
        let mut left = POLLED.min(self.rest.makings.list.len());
        while left > 0 && self.rest.makings.left > 0 {
            let makings = &mut self.rest.makings;
            makings.next = if makings.next < makings.list.len() { makings.next } else { 0 };
            let Some((token, id)) = makings.list.get(makings.next).copied() else { break };
            if self.rest.is_made(token, id) {
                left -= 1;
                self.rest.makings.next += 1;
                self.with_any(replies, token, |engine, replies| engine.make_more(replies, token));
            } else {
                let makings = &mut self.rest.makings;
                makings.list.swap_remove(makings.next);
            }
        }
        let makings = &mut self.rest.makings;
        if makings.ready.is_empty() && !makings.moved {
            return Wake::Idle;
        }
        makings.moved = false;
        Wake::Now
    }

    /// Makes some more of an answer.
    pub(crate) fn make_more(&mut self, replies: &mut dyn Replies, token: u32) {
        let now = replies.now();
        self.rest.clock.now = now;
        let Some(state) = self.rest.requests.get_mut(token) else { return };
        let Some(mut filtering) = state.reply.filtering.take() else { return };
        filtering.is_ready = false;
        let (id, inner, of_file) = (state.id, state.wait.inner, filtering.of_file);
        let progress = self.rest.progress(replies, token, &mut filtering);
        match progress {
            // What came of it is sent, and its client can tell that it is not all.
            Progress::Cut => {
                self.rest.end(replies, token, false);
                replies.stop(id, Stop::Cut);
                return;
            }
            Progress::Broken => {
                if of_file {
                    self.files.on_gone(id, inner, Gone::Cut);
                }
                self.rest.end(replies, token, false);
                replies.stop(id, Stop::Cut);
                return;
            }
            Progress::Finished => {
                // The file has given all. That its client has taken all is not waited for,
                // who may be gone by then.
                if of_file {
                    self.files.on_gone(id, inner, Gone::Cut);
                }
                self.rest.end(replies, token, true);
                replies.end(id);
                return;
            }
            Progress::Hungry => {
                filtering.is_ready = true;
                self.rest.makings.ready.push_back(token);
            }
            // One that waits for its time already goes on then.
            Progress::Waits(On::Clock(at)) if self.rest.waits_untimed(token) => self.rest.later(token, at),
            Progress::Waits(On::Place) if !core::mem::replace(&mut filtering.in_line, true) => {
                self.rest.stand_in_line(token, id);
            }
            Progress::Waits(On::Clock(_) | On::Place | On::Room | On::Source | On::Helper) => {}
        }
        if let Some(state) = self.rest.requests.get_mut(token) {
            state.reply.filtering = Some(filtering);
        }
        self.rest.read_more(replies, token);
        if of_file {
            // It asks for more, or is over.
            let mut passing = Passing { replies, rest: &mut self.rest };
            self.files.on_room(&mut passing, id);
        }
    }
}

impl Rest {
    /// Whether an answer is being made.
    fn is_made(&self, token: u32, id: ExchangeId) -> bool {
        self.requests.of((token, id)).is_some_and(|state| state.reply.filtering.is_some())
    }

    /// Whether a request waits for no time.
    fn waits_untimed(&self, token: u32) -> bool {
        let state = self.requests.get(token);
        state.is_some_and(|state| state.wait.ticket.is_none())
    }

    fn progress(&mut self, replies: &mut dyn Replies, token: u32, filtering: &mut Filtering) -> Progress {
        let clock = self.clock;
        let queued_max = self.makings.queued_max();
        let mut share = SHARE.min(self.makings.left);
        let before = share;
        let Some(mut state) = self.requests.take(token) else {
            return Progress::Broken;
        };
        let progress = loop {
            if filtering.finished || !filtering.begun {
                break if filtering.finished { Progress::Finished } else { Progress::Waits(On::Source) };
            }
            let flow = replies.flow(state.id);
            let mut room = queued_max.saturating_sub(flow.unsent).min(flow.room);
            if room == 0 {
                break Progress::Waits(On::Room);
            }
            if let Some(rate) = &mut filtering.pace {
                match rate.room(replies, state.id) {
                    Ok(allowed) => room = room.min(usize::try_from(allowed).unwrap_or(usize::MAX)),
                    Err(later) => break Progress::Waits(On::Clock(later)),
                }
            }
            let most = room.min(PIECE);
            let made = if filtering.postponed.is_some() {
                self.some_in_order(replies, (token, &mut state), filtering, most, (&mut share, &clock))
            } else {
                state.some(replies, filtering, most, (&mut share, &clock))
            };
            let (length, ended) = match made {
                Err(Broken) => break Progress::Broken,
                Ok(Pull::Some(length)) => (length, false),
                Ok(Pull::End(length)) => (length, true),
                Ok(Pull::Waits(_)) if share == 0 => break Progress::Hungry,
                // What waits is all that there will be: what is within it comes first.
                Ok(Pull::Waits(On::Source)) if filtering.is_all_of_cut() || !state.has_source(filtering) => {
                    break Progress::Cut;
                }
                Ok(Pull::Waits(on)) => break Progress::Waits(on),
            };
            filtering.told += length;
            if let Some(rate) = &mut filtering.pace {
                rate.queue(length);
            }
            self.makings.moved |= length > 0 && filtering.postponed.is_some();
            state.sent.body += length;
            if ended {
                state.features.compression.lengths = filtering.encoded().map(|whole| (whole, filtering.told));
                let trailers = state.trailers(&clock);
                replies.finish(state.id, &trailers);
                filtering.finished = true;
            } else if share == 0 {
                break Progress::Hungry;
            }
        };
        self.requests.put(token, state);
        self.makings.left = self.makings.left.saturating_sub(before - share);
        if filtering.finished {
            filtering.pipeline.give_back(&mut self.encoders);
            if let Some(postponed) = &mut filtering.postponed {
                postponed.coding.give_back(&mut self.encoders);
            }
        }
        progress
    }
}

impl RequestState {
    /// Queues at most about `most` bytes more.
    pub(crate) fn some(
        &mut self,
        replies: &mut dyn Replies,
        filtering: &mut Filtering,
        most: usize,
        (share, clock): (&mut u64, &Clock),
    ) -> Result<Pull, Broken> {
        let id = self.id;
        if filtering.pipeline.is_empty() {
            let Some((body, range)) = filtering.waiting.front_mut() else {
                return Ok(if filtering.ended { Pull::End(0) } else { Pull::Waits(On::Source) });
            };
            let length = range.len().min(most) as u32;
            replies.body(id, Piece::Body(body, (range.start, range.start + length)));
            range.start += length;
            if range.start >= range.end {
                filtering.waiting.pop_front();
            }
            let ended = filtering.ended && filtering.waiting.is_empty();
            return Ok(if ended { Pull::End(length.into()) } else { Pull::Some(length.into()) });
        }
        let mut out = Vec::new();
        let made = self.with_scope(clock, |scope| filtering.step((&mut out, most), share, scope));
        let ended = made.unwrap_or(Err(Broken))?;
        let length = out.len() as u64;
        if length > 0 {
            let body = Body::new(out);
            replies.body(id, Piece::Body(&body, (0, body.len())));
        }
        Ok(match length {
            _ if ended => Pull::End(length),
            0 => Pull::Waits(On::Source),
            _ => Pull::Some(length),
        })
    }
}
