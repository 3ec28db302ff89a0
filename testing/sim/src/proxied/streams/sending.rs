//! What an upstream that speaks HTTP/2 sends on all streams of a connection, by their windows.

use super::script::Step;
use super::{Link, Work};
use crate::proxied::frames::{LONGEST, encoded};
use crate::proxied::plan::stamped;
use app::SEND_LOW_WATER;
use h2::frame::{self, Kind};
use hpack::Encoder;
use wire::Time;

/// What is due came to.
#[derive(Default)]
pub(super) struct Sent {
    /// What is to be sent.
    pub out: Vec<u8>,
    /// When more is due.
    pub wakes: Option<Time>,
    /// What ends the connection.
    pub end: Option<Step>,
}

/// How a stream goes on.
enum Next {
    More,
    Waits,
    /// It is answered.
    Over,
}

impl Link {
    /// Sends what is due on all streams, as far as windows and the queue let, of which so many
    /// bytes are taken.
    pub fn send(&mut self, queued: usize, now: Time) -> Sent {
        let mut sent = Sent::default();
        let mut over = Vec::new();
        let Self { streams, encoder, window, manner, is_over, .. } = self;
        'streams: for (number, work) in streams.iter_mut() {
            loop {
                if *is_over || queued + sent.out.len() > SEND_LOW_WATER {
                    break 'streams;
                }
                if let Some(until) = work.until.filter(|until| *until > now) {
                    sent.wakes = Some(sent.wakes.map_or(until, |other| other.min(until)));
                    break;
                }
                work.until = None;
                let room = (*window).min(work.window).min(manner.piece as i64).max(0) as usize;
                let before = work.window;
                let next = work.step((*number, room), encoder, &mut sent, now);
                *window -= before - work.window;
                *is_over |= sent.end.is_some();
                match next {
                    Next::More => {}
                    Next::Waits => break,
                    Next::Over => {
                        over.push(*number);
                        break;
                    }
                }
            }
        }
        for number in over {
            streams.remove(&number);
        }
        sent
    }
}

impl Work {
    fn step(&mut self, (number, room): (u32, usize), encoder: &mut Encoder, sent: &mut Sent, now: Time) -> Next {
        match self.steps.front_mut() {
            None | Some(Step::Hang) => return Next::Waits,
            Some(Step::Data(bytes, ends)) => {
                if room == 0 && !bytes.is_empty() {
                    return Next::Waits;
                }
                let some: Vec<u8> = bytes.drain(..room.min(bytes.len())).collect();
                let (is_last, ends) = (bytes.is_empty(), *ends && bytes.is_empty());
                frame::write(&mut sent.out, Kind::Data, if ends { frame::END_STREAM } else { 0 }, number, &some);
                self.window -= some.len() as i64;
                if is_last {
                    self.steps.pop_front();
                }
                return if ends { Next::Over } else { Next::More };
            }
            Some(Step::Endless(stamp, at)) => {
                if room == 0 {
                    return Next::Waits;
                }
                let one = format!("<{stamp}>").len();
                let bytes = stamped(*stamp, *at % one + room);
                frame::write(&mut sent.out, Kind::Data, 0, number, &bytes[*at % one..]);
                *at += room;
                self.window -= room as i64;
                return Next::More;
            }
            Some(_) => {}
        }
        match self.steps.pop_front() {
            Some(Step::Fields(fields, ends)) => {
                let block = encoded(encoder, fields.iter().map(|(name, value)| (&**name, &**value)));
                frame::write_headers(&mut sent.out, number, &block, ends, LONGEST);
                if ends { Next::Over } else { Next::More }
            }
            Some(Step::Pause(span)) => {
                self.until = Some(now + span);
                Next::More
            }
            Some(Step::Reset(code)) => {
                frame::write_reset(&mut sent.out, number, code);
                Next::Over
            }
            Some(Step::Raw(bytes)) => {
                sent.out.extend_from_slice(&bytes);
                Next::More
            }
            Some(step @ (Step::Close | Step::Abort)) => {
                sent.end = Some(step);
                Next::Waits
            }
            Some(Step::Data(..) | Step::Endless(..) | Step::Hang) | None => Next::Waits,
        }
    }
}
