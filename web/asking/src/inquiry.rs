//! A question that nobody's exchange waits for: whether a server is well, what an issuer says
//! of a certificate.

use crate::ask::{Ask, AskStage, AskStep, AskTurn};
use crate::body::{BodyEnd, BodyStep};
use crate::groups::ServerGroups;
use crate::head::HeadEvent;
use crate::rules::AskSpec;
use exchange::UpstreamEvent;
use proxy::next::Failure;
use wire::Time;

/// A question, of whose answer no more than a few bytes are kept, until that is whole.
#[derive(Debug)]
pub struct Inquiry {
    ask: Ask,
    /// The answer's body so far, and the most of it.
    body: Vec<u8>,
    most: usize,
    /// By when it is to be answered.
    until: Time,
}

/// What an inquiry came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The answer's status.
    pub status: u16,
    /// Its fields, as lines.
    pub fields: Vec<u8>,
    /// Its body.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InquiryFault {
    /// No server has given one.
    Failed(Failure),
    /// It was not whole in time.
    Late,
    /// It is longer than it may be.
    TooLong,
    /// It will not be whole.
    Cut(String),
    /// What the server is to be shown cannot be had.
    NoCertificate,
}

impl Inquiry {
    /// Begins to ask. An answer whose body has more than `most` bytes is none, nor is one that
    /// is not whole at `until`: who asks sees to that it is [looked at](Self::look) then.
    /// Why there will be no answer is known at once, where nobody can be asked.
    pub fn begin(
        turn: &mut AskTurn<'_>,
        spec: AskSpec<'_>,
        (most, until): (usize, Time),
    ) -> (Self, Option<InquiryFault>) {
        let ask = Ask::new(spec, turn.groups, turn.now);
        let mut inquiry = Self { ask, body: Vec::new(), most, until };
        let step = inquiry.ask.ask(turn);
        // There is no answer yet.
        let fault = inquiry.on_step(turn, step).and_then(Result::err);
        (inquiry, fault)
    }

    /// What is asked, for what there is to say of it.
    #[must_use]
    pub const fn ask(&self) -> &Ask {
        &self.ask
    }

    /// By when it is to be answered.
    #[must_use]
    pub const fn until(&self) -> Time {
        self.until
    }

    /// Whether it is late, and over by that.
    pub fn look(&mut self, turn: &mut AskTurn<'_>) -> Option<InquiryFault> {
        if turn.now < self.until {
            return None;
        }
        self.ask.end(turn);
        Some(InquiryFault::Late)
    }

    /// Something happened at its connection. Of bytes, how many were taken; and what it came
    /// to, once it is over.
    pub fn on_event(
        &mut self,
        turn: &mut AskTurn<'_>,
        event: UpstreamEvent<'_>,
    ) -> (usize, Option<Result<Finding, InquiryFault>>) {
        let UpstreamEvent::Data(bytes) = event else {
            let over = match self.ask.stage() {
                AskStage::Body => self.on_body_event(turn, event),
                _ => {
                    let step = self.ask.on_event(turn, event);
                    self.on_step(turn, step)
                }
            };
            return (0, over);
        };
        let mut at = 0;
        while self.ask.stage() != AskStage::Body {
            let (taken, event) = self.ask.read_head(turn, bytes.get(at..).unwrap_or_default());
            at += taken;
            let over = match event {
                HeadEvent::Interim(_) => continue,
                HeadEvent::More => return (at, None),
                HeadEvent::Step(step) => self.on_step(turn, step),
                HeadEvent::Head => self.on_head(turn),
            };
            if over.is_some() || self.ask.stage() != AskStage::Body {
                return (bytes.len(), over);
            }
        }
        let (taken, over) = self.read(turn, bytes.get(at..).unwrap_or_default());
        if over.is_some() { (bytes.len(), over) } else { (at + taken, over) }
    }

    fn on_step(&mut self, turn: &mut AskTurn<'_>, step: AskStep) -> Option<Result<Finding, InquiryFault>> {
        let why = match step {
            AskStep::Waits => return None,
            AskStep::Failed(failure) => InquiryFault::Failed(failure),
            AskStep::NoCertificate => InquiryFault::NoCertificate,
            // Nobody would find out names for it, nor does it have a body that is elsewhere.
            AskStep::WantsNames | AskStep::WantsPiece(_) | AskStep::WantsBody | AskStep::NoBody => {
                InquiryFault::Failed(Failure::Error)
            }
        };
        self.ask.end(turn);
        Some(Err(why))
    }

    /// The head is whole: with it all is, perhaps.
    fn on_head(&mut self, turn: &mut AskTurn<'_>) -> Option<Result<Finding, InquiryFault>> {
        if let Some(whole) = self.ask.take_whole() {
            self.body = whole;
        }
        self.ask.is_complete().then(|| self.end(turn))
    }

    fn on_body_event(
        &mut self,
        turn: &mut AskTurn<'_>,
        event: UpstreamEvent<'_>,
    ) -> Option<Result<Finding, InquiryFault>> {
        match self.ask.on_body_event(turn, event, false) {
            BodyStep::Waits => None,
            BodyStep::Ends => self.read(turn, b"").1,
            BodyStep::Cut(why) => Some(self.cut(turn, InquiryFault::Cut(why))),
        }
    }

    /// Reads some of the body.
    fn read(&mut self, turn: &mut AskTurn<'_>, bytes: &[u8]) -> (usize, Option<Result<Finding, InquiryFault>>) {
        let mut at = 0;
        loop {
            // One byte more is too many, and is seen.
            let room = self.most.saturating_sub(self.body.len()) + 1;
            let (body, rest) = (&mut self.body, bytes.get(at..).unwrap_or_default());
            let (taken, end) = self.ask.read_body(turn.now, rest, room, &mut |bytes| body.extend_from_slice(bytes));
            at += taken;
            let over = match end {
                _ if self.body.len() > self.most => self.cut(turn, InquiryFault::TooLong),
                // What frames a body has no room of its own.
                BodyEnd::Not if taken > 0 && at < bytes.len() => continue,
                BodyEnd::Not => {
                    self.ask.watch_body(turn, false);
                    return (at, None);
                }
                BodyEnd::Whole(_) => self.end(turn),
                BodyEnd::Cut(why) => self.cut(turn, InquiryFault::Cut(why)),
            };
            return (at, Some(over));
        }
    }

    fn cut(&mut self, turn: &mut AskTurn<'_>, why: InquiryFault) -> Result<Finding, InquiryFault> {
        self.ask.refuse_body();
        self.ask.end(turn);
        Err(why)
    }

    fn end(&mut self, turn: &mut AskTurn<'_>) -> Result<Finding, InquiryFault> {
        let (status, fields) = (self.ask.status(), self.ask.fields().to_vec());
        self.ask.end(turn);
        let body = core::mem::take(&mut self.body);
        if body.len() > self.most { Err(InquiryFault::TooLong) } else { Ok(Finding { status, fields, body }) }
    }

    /// It is over before it is answered, by who asks: what was chosen is released.
    pub fn abandon(&mut self, kept: &mut crate::KeptLinks, groups: &ServerGroups, now: Time) {
        self.ask.abandon(kept, groups, now);
    }
}
