//! Answers that are made as their clients take them: what is known of one, and of all of
//! a silo.

use super::Rest;
use super::placed::Postponed;
use app::Body;
use core::cell::Cell;
use core::ops::Range;
use exchange::{ExchangeId, Replies, Reply, ReplyEnd};
use features::Broken;
use files::RateKept;
use filters::{FilterValues, Pipeline, Ran};
use semantics::Request;
use std::collections::VecDeque;
use std::rc::Rc;

/// Bytes that may be queued towards one client: its share of these, within these
/// bounds. The lower one is above [`app::SEND_LOW_WATER`], at which it is asked again.
const QUEUED: usize = 64 << 20;
const RELAYED: usize = 8 << 20;
const QUEUED_EACH: (usize, usize) = (app::SEND_LOW_WATER + (16 << 10), 1 << 20);

/// Bytes of content that a filter is given at once, however little room there is.
const GIVEN_LEAST: usize = 512;

/// An answer that is being made.
#[derive(Debug)]
pub(crate) struct Filtering {
    pub pipeline: Pipeline,
    /// Content that waits, and whether it is the last of it.
    pub waiting: VecDeque<(Body, Range<u32>)>,
    pub ended: bool,
    /// It is in the list of those that can go on; or among those that wait for a place.
    pub is_ready: bool,
    pub in_line: bool,
    /// Its head is queued.
    pub begun: bool,
    /// All of it is queued.
    pub finished: bool,
    /// What waits is all that there will be, and not all that was to be.
    pub is_cut: bool,
    /// How the end of its body is told.
    pub length: AnswerLength,
    /// Files give the content.
    pub of_file: bool,
    /// No faster than this.
    pub pace: Option<RateKept>,
    /// Bytes of its output that were queued.
    pub told: u64,
    /// It has others within it.
    pub postponed: Option<Box<Postponed>>,
    _counted: Counted,
}

/// How the end of a body is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AnswerLength {
    /// So many bytes.
    Known(u64),
    /// In chunks, where the client knows these; or by the end of the connection.
    Open { chunked: bool },
}

/// What an answer is made with.
#[derive(Debug, Default)]
pub(crate) struct Making {
    pub pipeline: Pipeline,
    /// How long it comes to be, nobody knows.
    pub is_open: bool,
    /// It may have others within it.
    pub postponed: Option<Box<Postponed>>,
}

impl Making {
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether content is not sent as it is.
    pub fn is_needed(&self) -> bool {
        !self.pipeline.is_empty() || self.postponed.is_some()
    }
}

/// Answers under way: each counts for as long as it is.
#[derive(Debug)]
struct Counted(Rc<Cell<usize>>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Answers under way of one silo.
#[derive(Debug, Default)]
pub(crate) struct Makings {
    count: Rc<Cell<usize>>,
    /// By what their requests wait by; some may be over.
    pub list: Vec<(u32, ExchangeId)>,
    pub next: usize,
    /// Those that can go on.
    pub ready: VecDeque<u32>,
    /// What is left of the turn's budget.
    pub left: u64,
    /// An answer that has others within it was queued as far as there was room: there may
    /// be more as soon as that is sent.
    pub moved: bool,
}

impl Makings {
    fn begin(&self) -> Counted {
        self.count.set(self.count.get() + 1);
        Counted(Rc::clone(&self.count))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.get()
    }

    /// Whether there is none, nor a trace of one that is over.
    pub fn is_idle(&self) -> bool {
        self.count() == 0 && self.list.is_empty() && self.ready.is_empty() && !self.moved
    }

    /// Bytes that may be queued towards one client.
    pub fn queued_max(&self) -> usize {
        self.share_of(QUEUED)
    }

    /// The same of what upstreams send, which is fresh in the processor's caches, and
    /// stays there as long as not much of it waits.
    pub fn relayed_max(&self) -> usize {
        self.share_of(RELAYED)
    }

    fn share_of(&self, all: usize) -> usize {
        (all / self.count.get().max(1)).clamp(QUEUED_EACH.0, QUEUED_EACH.1)
    }
}

impl Filtering {
    /// One whose content, as far as it is known, is this; `of_file`: more of it comes.
    pub fn new(
        makings: &Makings,
        pipeline: Pipeline,
        (length, pace): (AnswerLength, Option<RateKept>),
        content: Vec<(Body, Range<u32>)>,
        (of_file, comes): (bool, bool),
    ) -> Self {
        Self {
            pipeline,
            waiting: content.into(),
            ended: !(of_file || comes),
            is_cut: false,
            begun: false,
            finished: false,
            is_ready: false,
            in_line: false,
            length,
            of_file,
            pace,
            told: 0,
            postponed: None,
            _counted: makings.begin(),
        }
    }

    /// Whether what comes now may go to its client as it is: nothing is before it, changes
    /// it or delays it.
    pub fn is_direct(&self) -> bool {
        self.begun
            && !self.finished
            && self.pace.is_none()
            && self.pipeline.is_empty()
            && self.waiting.is_empty()
            && self.postponed.is_none()
    }

    /// Whether all that is left of it are so many bytes that may do so.
    pub fn passes_as_it_is(&self, left: u64) -> bool {
        let whole = self.told.checked_add(left).map(AnswerLength::Known) == Some(self.length);
        whole && self.is_direct() && !self.ended && !self.of_file
    }

    /// Queues the head of its answer; bytes of that.
    pub fn begin(
        &mut self,
        replies: &mut dyn Replies,
        id: ExchangeId,
        request: &Request<'_>,
        reply: &Reply<'_>,
    ) -> u64 {
        self.begun = true;
        match self.length {
            AnswerLength::Known(_) => replies.begin(id, request, reply, ReplyEnd::Length),
            AnswerLength::Open { chunked } => {
                let end = if chunked { ReplyEnd::Chunk } else { ReplyEnd::Connection };
                replies.begin(id, request, &Reply { length: None, ..*reply }, end)
            }
        }
    }

    /// Some of the content.
    pub fn add(&mut self, body: &Body, range: Range<u32>) {
        self.waiting.push_back((body.clone(), range));
    }

    /// The same of bytes, which are copied.
    pub fn add_copy(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let body = Body::new(bytes.to_vec());
            let all = 0..body.len();
            self.waiting.push_back((body, all));
        }
    }

    /// There is no more; whether that is news.
    pub const fn end(&mut self) -> bool {
        !core::mem::replace(&mut self.ended, true)
    }

    /// No content comes but what is there. An answer that has told of more than that ends as
    /// one of which something is missing: to HEAD, which an upstream may be asked in place of
    /// GET (`proxy_method`), a length is told of content that does not come (RFC 9110 section
    /// 9.3.2).
    pub fn end_whole(&mut self) {
        let there = self.told.saturating_add(self.waiting_bytes() as u64);
        let lacks = matches!(self.length, AnswerLength::Known(length) if length > there);
        match lacks && !self.ended {
            true => self.is_cut = true,
            false => _ = self.end(),
        }
    }

    /// Bytes that were compressed, if any are.
    pub fn encoded(&self) -> Option<u64> {
        let coding = self.postponed.as_ref().map_or(&self.pipeline, |postponed| &postponed.coding);
        coding.encoded()
    }

    /// Whether it was cut, and nothing of it comes any more: what others have within it may.
    pub fn is_all_of_cut(&self) -> bool {
        self.is_cut && !self.postponed.as_deref().is_some_and(Postponed::has_unfinished)
    }

    /// Bytes that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.waiting.iter().map(|(_, range)| range.len()).sum()
    }

    /// Bytes that wait; at least one until all is queued.
    pub fn pending(&self) -> usize {
        self.waiting_bytes().max(usize::from(!self.finished))
    }

    /// Makes some more: at most about `most` bytes, appended to `out`. Whether that was
    /// all.
    pub fn step(
        &mut self,
        (out, most): (&mut Vec<u8>, usize),
        budget: &mut u64,
        values: &mut dyn FilterValues,
    ) -> Result<bool, Broken> {
        // A filter makes of what it is given, not of what there is room for.
        let given = most.max(GIVEN_LEAST);
        loop {
            let (input, last): (&[u8], bool) = match self.waiting.front() {
                Some((body, range)) => {
                    let bytes = body.as_slice().get(range.start as usize..range.end as usize).unwrap_or_default();
                    let some = bytes.get(..bytes.len().min(given)).unwrap_or_default();
                    (some, self.ended && self.waiting.len() == 1 && some.len() == bytes.len())
                }
                None => (&[], self.ended),
            };
            let Ran { taken, ended } = self.pipeline.run((input, last), (out, most), budget, values)?;
            if let Some((_, range)) = self.waiting.front_mut() {
                range.start += taken as u32;
                let is_over = range.start >= range.end && (ended || !last);
                if is_over {
                    self.waiting.pop_front();
                }
                if !ended && (is_over || taken > 0 && !last) && *budget > 0 && out.len() < most {
                    continue;
                }
            }
            return Ok(ended);
        }
    }
}

/// What came of content at first.
pub(crate) enum Made {
    /// All of it.
    Whole(Vec<u8>),
    /// Some of it; the rest follows.
    Begun(Filtering, Option<Body>),
    /// It is not what it is said to be.
    Broken,
}

impl Rest {
    /// An answer can go on: it does, in this turn or one of the next.
    pub(super) fn make_ready(&mut self, token: u32) {
        let state = self.requests.get_mut(token);
        if let Some(filtering) = state.and_then(|state| state.reply.filtering.as_mut())
            && !core::mem::replace(&mut filtering.is_ready, true)
        {
            self.makings.ready.push_back(token);
        }
    }
}
