//! What an answer is put together of that has others within it, in order.

use super::subrequest::SubId;
use app::Body;
use core::ops::Range;
use filters::Pipeline;
use std::collections::VecDeque;

/// What an answer is put together of.
#[derive(Debug, Default)]
pub(crate) struct Postponed {
    pub items: VecDeque<Placed>,
    pub own: usize,
    /// Of its own there is no more.
    pub made: bool,
    /// Behind its own, slices follow.
    pub slices: bool,
    /// The one of them that is asked for.
    pub slice: Option<SubId>,
    /// Nothing is made before this is over.
    pub waits: Option<SubId>,
    /// What stands before it, and behind it (`addition`).
    pub before: Option<Box<[u8]>>,
    pub after: Option<Box<[u8]>>,
    /// What all of it passes.
    pub coding: Pipeline,
}

/// Something at its place.
#[derive(Debug)]
pub(crate) enum Placed {
    Own(Body, Range<u32>),
    Sub(PlacedSub),
}

/// The answer of a subrequest, as far as it came.
#[derive(Debug)]
pub(crate) struct PlacedSub {
    pub id: SubId,
    content: VecDeque<(Body, Range<u32>)>,
    over: bool,
    /// It had some content.
    any: bool,
    /// It knows that its place was reached.
    told: bool,
    /// What it is if it had none.
    stub: Option<Vec<u8>>,
}

impl PlacedSub {
    pub const fn new(id: SubId, stub: Option<Vec<u8>>) -> Self {
        Self { id, content: VecDeque::new(), over: false, any: false, told: false, stub }
    }
}

impl Postponed {
    /// Whether it is more than its own content.
    pub const fn adds(&self) -> bool {
        self.before.is_some() || self.after.is_some() || self.slices
    }

    pub fn push_own(&mut self, out: Vec<u8>) {
        if !out.is_empty() {
            let body = Body::new(out);
            let length = body.len();
            self.push_body(body, 0..length);
        }
    }

    pub fn push_body(&mut self, body: Body, range: Range<u32>) {
        self.own += range.len();
        self.items.push_back(Placed::Own(body, range));
    }

    fn sub(&mut self, id: SubId) -> Option<&mut PlacedSub> {
        self.items.iter_mut().find_map(|item| match item {
            Placed::Sub(sub) if sub.id == id => Some(sub),
            _ => None,
        })
    }

    /// Some of a subrequest's answer. Whether it has a place here.
    pub fn add(&mut self, id: SubId, body: Body, range: Range<u32>) -> bool {
        let Some(sub) = self.sub(id) else { return false };
        sub.any |= !range.is_empty();
        sub.content.push_back((body, range));
        true
    }

    /// All of it came.
    pub fn end(&mut self, id: SubId) {
        if let Some(sub) = self.sub(id) {
            sub.over = true;
        }
        if self.waits == Some(id) {
            self.waits = None;
        }
    }

    /// Whether what follows is of this subrequest.
    pub fn is_next(&self, id: SubId) -> bool {
        matches!(self.items.front(), Some(Placed::Sub(sub)) if sub.id == id)
    }

    /// Whether all of it that came was taken, and nothing more of it comes.
    pub fn is_drained(&self) -> bool {
        self.items.iter().all(|item| matches!(item, Placed::Sub(sub) if sub.over && sub.content.is_empty()))
    }

    /// The subrequest whose answer is next.
    pub fn next_sub(&self) -> Option<SubId> {
        match self.items.front() {
            Some(Placed::Sub(sub)) => Some(sub.id),
            _ => None,
        }
    }

    /// Whether something within it is not over.
    pub fn has_unfinished(&self) -> bool {
        self.waits.is_some() || self.items.iter().any(|item| matches!(item, Placed::Sub(sub) if !sub.over))
    }

    pub fn unfinished(&self) -> usize {
        self.items.iter().filter(|item| matches!(item, Placed::Sub(sub) if !sub.over)).count()
    }

    /// The next of it, at most so many bytes; how many were left of a subrequest's answer.
    pub fn next(&mut self, most: usize) -> Next {
        loop {
            let stub = match self.items.front_mut() {
                None if self.made && !self.slices => return Next::Over,
                None => return Next::Waits,
                Some(Placed::Own(body, range)) => {
                    let length = range.len().min(most) as u32;
                    let piece = (body.clone(), range.start..range.start + length);
                    range.start += length;
                    self.own -= length as usize;
                    if range.start >= range.end {
                        self.items.pop_front();
                    }
                    return Next::Piece(piece.0, piece.1, None);
                }
                Some(Placed::Sub(sub)) => match sub.content.front_mut() {
                    Some((body, range)) => {
                        let length = range.len().min(most) as u32;
                        let piece = (body.clone(), range.start..range.start + length);
                        range.start += length;
                        if range.start >= range.end {
                            sub.content.pop_front();
                        }
                        return Next::Piece(piece.0, piece.1, Some(sub.id));
                    }
                    None if !sub.over => {
                        let told = core::mem::replace(&mut sub.told, true);
                        return if told { Next::Waits } else { Next::Reached(sub.id) };
                    }
                    None => sub.stub.take().filter(|_| !sub.any),
                },
            };
            self.items.pop_front();
            if let Some(stub) = stub.filter(|stub| !stub.is_empty()) {
                let body = Body::new(stub);
                let length = body.len();
                self.own += length as usize;
                self.items.push_front(Placed::Own(body, 0..length));
            }
        }
    }
}

/// What follows of an answer.
pub(crate) enum Next {
    /// This, of a subrequest, perhaps.
    Piece(Body, Range<u32>, Option<SubId>),
    Waits,
    /// The same, for this, whose place was not reached before.
    Reached(SubId),
    Over,
}
