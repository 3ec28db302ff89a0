//! Long answers that are asked for by parts of the same length (`slice`), each by a request
//! of its own: a download that is begun and left costs its upstream no more than it took.
//!
//! ```text
//!  $slice_range ─► upstream: 206 ─► head of the whole ─► its content ─► end
//!                                                          │      ▲
//!                                     (taken by the client)▼      │
//!                                       subrequest for the next slice
//! ```
//!
//! That all slices are of one whole is seen by their tag and by where they say that they
//! stand. What is no such part ends the answer, whose client can tell that it is not whole.

use super::answer::{Answer, AnswerBody};
use super::placed::{Placed, PlacedSub, Postponed};
use super::put::Pieces;
use super::relay::Relay;
use super::request_state::{RequestStage, RequestState};
use super::runner::{Flow, Runner};
use super::scope::Scope;
use super::subrequest::SubUse;
use super::subs::AskedSub;
use configuration::program::Block;
use exchange::{ExchangeId, FieldLines, Stop};
use features::Broken;
use features::ErrorLevel;
use formats::ranges::Ranged;
use formats::text::put_field;
use proxy::slices::first_byte;
use proxy::slices::{PARTIAL, SliceAsked, Slices};
use semantics::{Fields, Known, Method};
use std::sync::Arc;

impl Scope<'_> {
    /// `$slice_range`: asking for it is what makes an answer one of slices.
    pub(super) fn slice_range(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(sub) = self.state.within.sub.as_deref() {
            let SubUse::Slice(asked) = &sub.purpose else { return false };
            out.extend_from_slice(&asked.range);
            return true;
        }
        if self.state.within.slices.is_none() {
            let size = self.block().map_or(0, |block| block.subrequests.slice);
            if size == 0 || self.state.sent.status != 0 {
                return false;
            }
            let range = self.request.known(Known::Range).filter(|_| self.request.known(Known::IfRange).is_none());
            self.state.within.slices = Some(Box::new(Slices::new(size, range.map_or(0, first_byte))));
        }
        if let Some(slices) = &self.state.within.slices {
            out.extend_from_slice(&slices.asked.range);
        }
        true
    }
}

impl Runner<'_> {
    /// Whether the answer whose head came is a slice: of how many bytes in all. An end if it
    /// was to be one, and is not.
    pub(super) fn take_slice(&mut self) -> Result<Option<u64>, Flow> {
        let Some(relay) = self.state.passed.relay.as_deref() else { return Ok(None) };
        let (hidden, length) = (Arc::clone(&relay.rules.hides), relay.ask.length());
        let status = self.state.reply.override_status.unwrap_or(relay.ask.status());
        let asked = match self.state.within.sub.as_deref_mut() {
            Some(sub) => match &mut sub.purpose {
                SubUse::Slice(asked) => &mut **asked,
                _ => return Ok(None),
            },
            None if status != PARTIAL => {
                self.state.within.slices = None;
                return Ok(None);
            }
            None => match self.state.within.slices.as_deref_mut() {
                Some(slices) => &mut slices.asked,
                None => return Ok(None),
            },
        };
        let taken = asked.take(status, &self.state.passed.answered, &hidden);
        let (range, complete) = taken.map_err(|why| self.refuse_slice(status, &why))?;
        let expects = range.end - range.start;
        if let Some(slices) = self.state.within.slices.as_deref_mut() {
            slices.comes = range;
        }
        let has_body = self.state.method != Method::Head;
        if let Some(length) = length.filter(|length| has_body && *length != expects) {
            return Err(self.refuse_slice(status, &odd_length(length, expects)));
        }
        if let Some(relay) = self.relay() {
            relay.expects = Some(expects).filter(|_| has_body);
        }
        Ok(Some(complete))
    }

    /// What came is no slice: nothing is answered, or no more.
    fn refuse_slice(&mut self, status: u16, why: &str) -> Flow {
        match self.state.passed.relay.as_deref() {
            Some(relay) => {
                // As nginx has it, logs are told what would have been answered.
                let mut lines = Vec::new();
                let hidden = &relay.rules.hides;
                for field in Fields::new(&self.state.passed.answered).filter(|field| !hidden.has(field.name)) {
                    put_field(field.name, field.value, &mut lines);
                }
                (self.state.sent.length, self.state.sent.fields) = (relay.ask.length(), lines);
                self.tell_of_upstream(why, "reading response header from upstream");
                self.give_up_relay();
            }
            None => self.tell(ErrorLevel::ERROR, || why.as_bytes().to_vec()),
        }
        (self.state.sent.status, self.state.wait.stage) = (status, RequestStage::Over);
        self.replies.stop(self.state.id, Stop::HangUp);
        Flow::Done
    }

    /// What is answered with this status in place of a slice is none.
    pub(super) fn refuse_unsliced(&mut self, status: u16) -> Option<Flow> {
        let SubUse::Slice(asked) = &self.state.within.sub.as_deref()?.purpose else { return None };
        if asked.came {
            return None;
        }
        Some(self.refuse_slice(status, &format!("unexpected status code {status} in slice response")))
    }

    /// The same of an answer; a main request that is answered with another than one by slices
    /// has none.
    #[inline(always)]
    pub(super) fn sort_out_slices(&mut self, answer: &Answer) -> Option<Flow> {
        // Neither has nearly any request.
        if self.state.within.sub.is_none() && self.state.within.slices.is_none() {
            return None;
        }
        if !self.is_sub() && !matches!(answer.body, AnswerBody::Sliced(..)) {
            self.state.within.slices = None;
        }
        self.refuse_unsliced(answer.status)
    }

    /// Cuts what a client asks for out of an answer by slices, of which the first is there,
    /// perhaps: how many bytes that is, and what of it goes. None if there is no such range.
    pub(super) fn cut_slices(
        &mut self,
        answer: &mut Answer,
        block: &Block,
        fields: &mut FieldLines,
        (complete, first): (u64, Option<Vec<u8>>),
    ) -> Option<(u64, Pieces)> {
        let is_exact = answer.takes_ranges;
        let mut window = 0..complete;
        if is_exact && block.fields.max_ranges != Some(0) {
            // As nginx has it, of several ranges none is looked at.
            match self.ranges(answer, complete, Some(1)) {
                Ranged::Whole => _ = fields.field("Accept-Ranges", b"bytes"),
                Ranged::Unsatisfiable => {
                    self.state.within.slices = None;
                    return None;
                }
                Ranged::Parts(parts) => {
                    window = parts.into_iter().next().unwrap_or(window);
                    fields.content_range(&window, complete);
                    answer.status = PARTIAL;
                }
            }
        }
        let length = window.end - window.start;
        let Some(slices) = self.state.within.slices.as_deref_mut() else { return Some((length, Pieces::None)) };
        slices.begin(window, is_exact);
        Some((length, Pieces::Slices(first.map(|bytes| slices.cut(&bytes).to_vec()))))
    }
}

impl Relay {
    /// What is wrong with the length of a slice that is said to be whole.
    pub(super) fn odd_slice(&self) -> Option<String> {
        let (came, expects) = (self.ask.body_len(), self.expects?);
        (came != expects).then(|| odd_length(came, expects))
    }
}

fn odd_length(came: u64, expected: u64) -> String {
    format!("unexpected length of slice response: {came}, expected: {expected}")
}

impl super::Rest {
    /// Asks for the next slice, or finds that there is none.
    pub(super) fn ask_slice(
        &mut self,
        (token, state): (u32, &mut RequestState),
        postponed: &mut Postponed,
    ) -> Result<(), Broken> {
        let Some(asked) = state.within.slices.as_deref_mut().and_then(Slices::ask) else {
            (state.within.slices, postponed.slices) = (None, false);
            return Ok(());
        };
        let (uri, args) = (state.route.uri.clone(), state.route.args.clone());
        let request = state.request.take().ok_or(Broken)?;
        let purpose = SubUse::Slice(Box::new(asked));
        let asked = AskedSub { uri: &uri, args: &args, purpose, has_body: true };
        let made = self.ask_sub((token, &mut *state), &request.get(), asked);
        if let Err(why) = made {
            let (level, text) = why.told(&uri);
            super::errors::tell((&state.loaded, state), &request.get(), &self.clock, (level, || text));
        }
        state.request = Some(request);
        let id = made.map_err(|_| Broken)?;
        postponed.slice = Some(id);
        postponed.items.clear();
        postponed.items.push_back(Placed::Sub(PlacedSub::new(id, None)));
        Ok(())
    }

    /// A slice is over, which came to this. Whether the answer goes on.
    pub(super) fn end_slice(&mut self, (token, id): (u32, ExchangeId), came: Option<Box<SliceAsked>>) -> bool {
        let Some(state) = self.requests.of_mut((token, id)) else { return false };
        if let Some(children) = state.within.children.as_deref_mut() {
            // It may have any number of them, one after the other.
            children.count = children.count.saturating_sub(1);
        }
        let Some(slices) = state.within.slices.as_deref_mut() else { return false };
        if let Some(came) = came.filter(|came| came.came) {
            slices.asked = *came;
            return true;
        }
        if let Some(request) = &state.request {
            let text = || b"missing slice response".to_vec();
            super::errors::tell((&state.loaded, state), &request.get(), &self.clock, (ErrorLevel::ERROR, text));
        }
        false
    }
}
