//! The server's side of a connection: what its client sends, and what that means.
//!
//! ```text
//!  bytes ─► on_bytes ─► one event after the other: a request, some of its body, its end …
//!                └────► what is to be answered to settings and pings, at the end of `out`
//!  head, DATA, end ─► (sending) ─► `out`
//! ```
//!
//! The caller offers bytes until nothing of them is taken. What is written to `out` is sent in
//! order, whatever else is.

use crate::connection::{Done, Failure, Offer, PROTOCOL, Section, ServerConnection, ServerEvent, Stage, Wrong};
use crate::error::ErrorCode;
use crate::flood::Flood;
use crate::frame::{self, Frame, FrameHead, HEAD, Kind, PAYLOAD, PREFACE};
use crate::head::HeadMemory;

impl<T: Default> ServerConnection<T> {
    /// Takes some of what is offered, from the front, and says how much and what that means. Where
    /// nothing of it was taken, more has to come.
    pub fn on_bytes<'a>(&mut self, offer: Offer<'a>, out: &mut Vec<u8>) -> (usize, ServerEvent<'a, T>) {
        let Offer { bytes, second, memory } = offer;
        self.budgets.refill(second);
        let (taken, done) = match self.stage {
            Stage::Failed => return (bytes.len(), ServerEvent::Nothing),
            Stage::Preface => self.preface(bytes),
            Stage::Settings | Stage::Frames if self.data.is_some() => self.more_data(bytes, out),
            Stage::Settings | Stage::Frames => self.frame(bytes, memory, out),
        };
        self.give_back_owed(out);
        let wrong = match done {
            Ok(event) => return (taken, event),
            Err(wrong) => wrong,
        };
        let wrong = match wrong {
            Wrong::Stream(stream, code) => match self.budgets.spend(Flood::MadeReset) {
                Ok(()) => {
                    frame::write_reset(out, stream, code);
                    let event = self.take(stream, true).map(|stream| ServerEvent::Reset(stream.data));
                    return (taken, event.unwrap_or(ServerEvent::Nothing));
                }
                Err(flood) => Wrong::Flood(flood),
            },
            Wrong::Malformed(stream) => match self.budgets.spend(Flood::MadeReset) {
                Ok(()) => return (taken, ServerEvent::Malformed { stream }),
                Err(flood) => Wrong::Flood(flood),
            },
            wrong => wrong,
        };
        let failure = match wrong {
            Wrong::Flood(flood) => Failure { code: ErrorCode::ENHANCE_YOUR_CALM, flood: Some(flood) },
            Wrong::Connection(code) | Wrong::Stream(_, code) => Failure { code, flood: None },
            Wrong::Malformed(_) => Failure { code: ErrorCode::PROTOCOL_ERROR, flood: None },
        };
        self.stage = Stage::Failed;
        frame::write_go_away(out, self.last, failure.code);
        (bytes.len(), ServerEvent::Failed(failure))
    }

    fn preface<'a>(&mut self, bytes: &'a [u8]) -> (usize, Done<'a, T>) {
        let some = bytes.len().min(PREFACE.len());
        if bytes.get(..some) != PREFACE.get(..some) {
            return (0, Err(PROTOCOL));
        }
        if some < PREFACE.len() {
            return (0, Ok(ServerEvent::Nothing));
        }
        self.stage = Stage::Settings;
        (PREFACE.len(), Ok(ServerEvent::Nothing))
    }

    fn frame<'a>(&mut self, bytes: &'a [u8], memory: &'a mut HeadMemory, out: &mut Vec<u8>) -> (usize, Done<'a, T>) {
        let Some(head) = FrameHead::read(bytes) else { return (0, Ok(ServerEvent::Nothing)) };
        if let Err(wrong) = self.check(head) {
            return (0, Err(wrong));
        }
        let rest = bytes.get(HEAD..).unwrap_or_default();
        if head.kind == Kind::Data {
            return match frame::data_padding(head, rest.first().copied()) {
                Ok(None) => (0, Ok(ServerEvent::Nothing)),
                Ok(Some(around)) => {
                    let begun = HEAD + around.0 as usize;
                    // What is there of it comes along: of one without content nothing else would.
                    match self.on_data(head, around) {
                        Ok(()) => {
                            let (taken, done) = self.more_data(bytes.get(begun..).unwrap_or_default(), out);
                            (begun + taken, done)
                        }
                        Err(wrong) => (begun, Err(wrong)),
                    }
                }
                Err(error) => (0, Err(error.into())),
            };
        }
        let Some(payload) = rest.get(..head.length as usize) else { return (0, Ok(ServerEvent::Nothing)) };
        let done = frame::read(head, payload).map_err(Wrong::from);
        let done = self.noted(head).and(done).and_then(|frame| self.on_frame(frame, memory, out));
        (HEAD + payload.len(), done)
    }

    /// What is wrong with a frame by its head alone.
    fn check(&self, head: FrameHead) -> Result<(), Wrong> {
        let expected = match (self.stage, &self.section) {
            // As nginx, an answer to ours will do.
            (Stage::Settings, _) => head.kind == Kind::Settings,
            // RFC 9113 section 6.10.
            (_, Some(section)) => head.kind == Kind::Continuation && head.stream == section.stream,
            (_, None) => head.kind != Kind::Continuation,
        };
        match () {
            () if head.length as usize > PAYLOAD => Err(Wrong::Connection(ErrorCode::FRAME_SIZE_ERROR)),
            // RFC 9113 section 8.4.
            () if !expected || head.kind == Kind::PushPromise => Err(PROTOCOL),
            () => Ok(()),
        }
    }

    /// A whole frame that is no DATA: what it is of all bytes.
    fn noted(&mut self, head: FrameHead) -> Result<(), Wrong> {
        let is_useful = matches!(head.kind, Kind::Headers | Kind::Continuation);
        self.budgets.note(HEAD as u64 + u64::from(head.length), if is_useful { head.length.into() } else { 0 })?;
        Ok(())
    }

    fn on_frame<'a>(&mut self, frame: Frame<'a>, memory: &'a mut HeadMemory, out: &mut Vec<u8>) -> Done<'a, T> {
        match frame {
            Frame::Headers { stream, block, priority, ends_stream, ends_headers } => {
                let section = Section { stream, block: Vec::new(), priority, ends_stream };
                self.budgets.clear(Flood::Continuation);
                if ends_headers {
                    return self.on_section(&section, block, memory, out);
                }
                self.section = Some(Box::new(Section { block: block.to_vec(), ..section }));
            }
            Frame::Continuation { block, ends_headers, .. } => {
                self.budgets.spend(Flood::Continuation)?;
                let Some(section) = &mut self.section else { return Err(PROTOCOL) };
                section.block.extend_from_slice(block);
                // One that is longer than it may be is answered, as long as that costs little.
                if section.block.len() > 2 * usize::from(self.settings.head.bytes) {
                    return Err(Wrong::Flood(Flood::Continuation));
                }
                if ends_headers && let Some(section) = self.section.take() {
                    return self.on_section(&section, &section.block, memory, out);
                }
            }
            // RFC 9113 section 5.3.2: nothing follows from it.
            Frame::Priority { .. } => self.budgets.spend(Flood::Priority)?,
            Frame::PriorityUpdate { stream, value } => return self.on_priority(stream, value),
            Frame::Reset { stream, .. } => return self.on_reset(stream),
            Frame::Settings { entries } => {
                self.budgets.spend(Flood::Settings)?;
                self.on_settings(entries)?;
                self.stage = Stage::Frames;
                frame::write(out, Kind::Settings, frame::ACK, 0, &[]);
            }
            Frame::Ping { data } => {
                self.budgets.spend(Flood::Ping)?;
                frame::write(out, Kind::Ping, frame::ACK, 0, &data);
            }
            Frame::PingAck { .. } => return Ok(ServerEvent::Ponged),
            Frame::WindowUpdate { stream, increment } => self.on_window(stream, increment)?,
            // RFC 9113 section 8.4.
            Frame::PushPromise { .. } => return Err(PROTOCOL),
            Frame::SettingsAck => {
                self.budgets.spend(Flood::Empty)?;
                (self.stage, self.is_known) = (Stage::Frames, true);
            }
            // Nothing is pushed that an end would concern.
            Frame::GoAway { .. } | Frame::Other => self.budgets.spend(Flood::Empty)?,
        }
        Ok(ServerEvent::Nothing)
    }
}
