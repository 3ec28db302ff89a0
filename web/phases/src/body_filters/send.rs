//! Answers whose content passes filters on its way, or is sent in chunks for another
//! reason: they are made a piece at a time, as their clients take them, within a
//! budget of each turn.

use crate::filtered_body::{AnswerLength, Filtering, Made, Making};
use crate::request_state::RequestStage;
use crate::runner::{Flow, Runner};
use app::Body;
use configuration::program::Block;
use core::ops::Range;
use exchange::{Piece, Reply};
use features::Broken;
use files::{Rate, RateKept};

/// What filters may cost in a turn, for all answers together, in about nanoseconds.
pub(super) const TURN: u64 = 500_000;

/// Output that is made at once, bytes.
pub(super) const PIECE: usize = 32 << 10;

/// Content up to so many bytes that is at hand, and what becomes of it up to so many,
/// is answered as a whole.
const WHOLE_MAX: u64 = 32 << 10;
const WHOLE_OUT_MAX: usize = 256 << 10;

impl Runner<'_> {
    /// Sends what is made of content: at once, if that is short and at hand; else its
    /// head, and the rest as it is taken.
    pub(crate) fn make(
        &mut self,
        making: Making,
        (length, pace): (AnswerLength, Option<Rate>),
        content: Vec<(Body, Range<u32>)>,
        (of_file, comes): (bool, bool),
    ) -> Made {
        let bytes: usize = content.iter().map(|(_, range)| range.len()).sum();
        let pace = pace.map(|rate| RateKept::begin(rate, self.replies, self.state.id));
        let mut filtering =
            Filtering::new(&self.rest.makings, making.pipeline, (length, pace), content, (of_file, comes));
        let adds = making.postponed.as_ref().is_some_and(|postponed| postponed.adds());
        filtering.postponed = making.postponed;
        // Nothing is made of it that its client does not take.
        let fits = bytes <= self.replies.flow(self.state.id).welcome();
        let whole = !of_file && !comes && bytes as u64 <= WHOLE_MAX && pace.is_none() && !adds && fits;
        if whole && !filtering.pipeline.is_empty() && !self.expects_trailers() {
            let mut out = Vec::new();
            let mut budget = TURN;
            if filtering.postponed.is_some() {
                return self.make_with_includes(filtering);
            }
            match filtering.step((&mut out, WHOLE_OUT_MAX), &mut budget, &mut self.scope()) {
                Ok(true) => {
                    self.state.features.compression.lengths = filtering.pipeline.encoded().map(|whole| (whole, 0));
                    filtering.pipeline.give_back(&mut self.rest.encoders);
                    return Made::Whole(out);
                }
                Ok(false) => {
                    let out = Body::new(out);
                    return Made::Begun(filtering, Some(out).filter(|out| !out.is_empty()));
                }
                Err(Broken) => return Made::Broken,
            }
        }
        Made::Begun(filtering, None)
    }

    /// The same of content that may have others within it: if it has none, it is whole.
    fn make_with_includes(&mut self, mut filtering: Filtering) -> Made {
        let (mut out, mut budget) = (Vec::new(), TURN);
        let made = filtering.step((&mut out, WHOLE_OUT_MAX), &mut budget, &mut self.scope());
        let Ok(ended) = made else { return Made::Broken };
        let Some(postponed) = &mut filtering.postponed else { return Made::Broken };
        let include = self.state.within.include.take();
        if ended && include.is_none() {
            let mut coded = Vec::new();
            let whole = out.len();
            if postponed.coding.is_empty() {
                coded = out;
            } else {
                let mut at = 0;
                loop {
                    let input = out.get(at..).unwrap_or_default();
                    let mut budget = u64::MAX;
                    let ran =
                        postponed.coding.run((input, true), (&mut coded, usize::MAX), &mut budget, &mut self.scope());
                    match ran {
                        Ok(ran) if ran.ended => break,
                        Ok(ran) if ran.taken > 0 => at += ran.taken,
                        _ => return Made::Broken,
                    }
                }
                self.state.features.compression.lengths = Some((whole as u64, 0));
                postponed.coding.give_back(&mut self.rest.encoders);
            }
            filtering.pipeline.give_back(&mut self.rest.encoders);
            return Made::Whole(coded);
        }
        postponed.push_own(out);
        if let Some(include) = include {
            self.state.reuse.depends.on(crate::request_state::Depends::OTHER);
            self.state.settings.patient = true;
            self.replies.set(self.state.id, &self.state.settings);
            self.rest.place((self.token, self.state), self.request, postponed, *include);
        }
        Made::Begun(filtering, None)
    }

    /// Begins an answer whose content comes as it is made.
    pub(crate) fn begin_made(&mut self, mut filtering: Filtering, first: Option<&Body>, reply: &Reply<'_>) -> Flow {
        let id = self.state.id;
        self.state.sent.head = filtering.begin(self.replies, id, self.request, reply);
        if let Some(body) = first {
            self.replies.body(id, Piece::Body(body, (0, body.len())));
            self.state.sent.body += u64::from(body.len());
            filtering.told += u64::from(body.len());
        }
        self.state.reply.filtering = Some(Box::new(filtering));
        self.state.wait.stage = RequestStage::Sends;
        Flow::Done
    }

    /// Content is not made with this: what is used again is.
    pub(crate) fn spare(&mut self, mut making: Making) {
        making.pipeline.give_back(&mut self.rest.encoders);
    }

    /// Whether fields follow the body.
    pub(crate) fn expects_trailers(&self) -> bool {
        let block = self.loaded.program.block(self.state.route.block).filter(|_| self.state.within.sub.is_none());
        block.is_some_and(|block| expects_trailers(block, self.state.sent.status))
    }
}

/// Whether fields follow the body of an answer with this status.
fn expects_trailers(block: &Block, status: u16) -> bool {
    let safe = crate::reply::is_added_to(status);
    block.fields.trailers.iter().any(|field| safe || field.always)
}
