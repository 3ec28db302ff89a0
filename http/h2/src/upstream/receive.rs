//! What an upstream sends, frame by frame.

use super::{BLOCK_MAX, Data, Memory, Told, UpstreamConnection, UpstreamFault, UpstreamTold, unexpected};
use crate::connection::Offer;
use crate::error::{ErrorCode, FrameError};
use crate::flood::Flood;
use crate::frame::{self, END_STREAM, Frame, FrameHead, HEAD, Kind, PAYLOAD};
use std::borrow::Cow;

/// Bytes of the connection's window of which the server is told at once.
const OWED_MAX: u32 = 1 << 20;

impl<T: Copy> UpstreamConnection<T> {
    /// Takes some of what is offered, from the front, and says how much and what that means. What the
    /// server is to be told at once is written to `out`.
    ///
    /// # Errors
    /// The connection is of no use any more, which the server is told by what is written to `out`.
    pub fn on_bytes<'a>(
        &mut self,
        offer: Offer<'a>,
        out: &mut Vec<u8>,
    ) -> Result<(usize, UpstreamTold<'a, T>), UpstreamFault> {
        self.budgets.refill(offer.second);
        let read = self.receive(offer.bytes, offer.memory, out);
        if let Err(fault) = &read {
            frame::write_go_away(out, 0, fault.code);
        }
        read
    }

    fn receive<'a>(
        &mut self,
        bytes: &'a [u8],
        memory: Memory<'a>,
        out: &mut Vec<u8>,
    ) -> Result<(usize, UpstreamTold<'a, T>), UpstreamFault> {
        if let Some(data) = self.data {
            return Ok(self.more_data(data, bytes));
        }
        let Some(head) = FrameHead::read(bytes) else { return Ok((0, UpstreamTold::NeedMore)) };
        self.check(head)?;
        let payload = bytes.get(HEAD..).unwrap_or_default();
        if head.kind == Kind::Data {
            return self.begin_data(head, payload, out);
        }
        let Some(payload) = payload.get(..head.length as usize) else { return Ok((0, UpstreamTold::NeedMore)) };
        let is_useful = matches!(head.kind, Kind::Headers | Kind::Continuation);
        self.budgets.note(HEAD as u64 + u64::from(head.length), if is_useful { head.length.into() } else { 0 })?;
        let told = match frame::read(head, payload) {
            Ok(frame) => self.on_frame(frame, memory, out)?,
            // Nothing follows from it (section 5.3.2), whatever it says.
            Err(FrameError::Stream(..)) if head.kind == Kind::Priority => {
                self.budgets.spend(Flood::Priority)?;
                UpstreamTold::Nothing
            }
            Err(FrameError::Connection(code)) => return Err(UpstreamFault::new(code, frame_fault(head))),
            Err(FrameError::Stream(stream, code)) => self.fail(stream, code, frame_fault(head), out)?,
        };
        Ok((HEAD + payload.len(), told))
    }

    /// The server's settings come first (RFC 9113 section 3.4), and nothing between the frames of a block
    /// (section 4.3).
    fn check(&self, head: FrameHead) -> Result<(), UpstreamFault> {
        if head.length as usize > PAYLOAD {
            let told = format!("upstream sent too large http2 frame: {}", head.length);
            return Err(UpstreamFault::new(ErrorCode::FRAME_SIZE_ERROR, told));
        }
        let fits = match self.continues {
            Some((stream, _)) => head.kind == Kind::Continuation && head.stream == stream,
            None => head.kind != Kind::Continuation,
        };
        if fits && (self.settled || head.kind == Kind::Settings) { Ok(()) } else { Err(unexpected(head.kind)) }
    }

    fn begin_data<'a>(
        &mut self,
        head: FrameHead,
        payload: &'a [u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, UpstreamTold<'a, T>), UpstreamFault> {
        let (before, padding) = match frame::data_padding(head, payload.first().copied()) {
            Ok(Some(padding)) => padding,
            Ok(None) => return Ok((0, UpstreamTold::NeedMore)),
            Err(FrameError::Connection(code) | FrameError::Stream(_, code)) => {
                let told = format!("upstream sent http2 frame with too long padding in frame {}", head.length);
                return Err(UpstreamFault::new(code, told));
            }
        };
        if self.is_idle(head.stream) {
            let told = format!("upstream sent data frame for unknown stream {}", head.stream);
            return Err(UpstreamFault::new(ErrorCode::PROTOCOL_ERROR, told));
        }
        let content = head.length - before - padding;
        let ends = head.has(END_STREAM);
        self.budgets.note(HEAD as u64 + u64::from(head.length), content.into())?;
        if content == 0 && !ends {
            self.budgets.spend(if head.length > 0 { Flood::Padding } else { Flood::Empty })?;
        }
        // All of the payload counts (section 6.9.1), whatever becomes of the stream.
        if !self.receive.take(head.length as usize) {
            return Err(beyond("connection", head.length, self.receive.room()));
        }
        self.owed += head.length;
        self.give_back_owed(out);
        let begun = HEAD + before as usize;
        let data = Data { stream: head.stream, left: content, padding, ends };
        self.data = Some(data);
        if let Err(fault) = self.admit(head, before + padding, content, ends) {
            let told = self.fail(head.stream, fault.code, fault.told, out)?;
            // What is still to come of it is nobody's.
            return Ok((begun, told));
        }
        // What is there of it comes along: of one without content nothing else would.
        let (taken, told) = self.more_data(data, payload.get(before as usize..).unwrap_or_default());
        Ok((begun + taken, if matches!(told, UpstreamTold::NeedMore) { UpstreamTold::Nothing } else { told }))
    }

    /// Whether DATA may come on its stream: what is wrong ends that alone.
    fn admit(&mut self, head: FrameHead, around: u32, content: u32, ends: bool) -> Result<(), UpstreamFault> {
        let Some(stream) = self.streams.get_mut(&head.stream) else { return Ok(()) };
        if stream.remote_ended {
            let told = format!("upstream sent frame for closed stream {}", head.stream);
            return Err(UpstreamFault::new(ErrorCode::STREAM_CLOSED, told));
        }
        if stream.status < 200 {
            return Err(unexpected(Kind::Data));
        }
        let window = stream.receive.room();
        if !stream.receive.take(head.length as usize) {
            return Err(beyond("stream", head.length, window));
        }
        stream.owed += around;
        let Some(left) = &mut stream.left else { return Ok(()) };
        match left.checked_sub(content.into()) {
            None => {
                let told = "upstream sent response body larger than indicated content length";
                Err(UpstreamFault::new(ErrorCode::PROTOCOL_ERROR, told))
            }
            Some(rest) if rest > 0 && ends => {
                Err(UpstreamFault::new(ErrorCode::PROTOCOL_ERROR, "upstream prematurely closed stream"))
            }
            Some(rest) => {
                *left = rest;
                Ok(())
            }
        }
    }

    /// Gives back of the connection's window what came, now and then: it bounds nothing that streams'
    /// windows do not.
    fn give_back_owed(&mut self, out: &mut Vec<u8>) {
        if self.owed >= OWED_MAX && self.receive.change(self.owed.into()) {
            frame::write_window_update(out, 0, core::mem::take(&mut self.owed));
        }
    }

    /// What of DATA is there.
    fn more_data<'a>(&mut self, mut data: Data, bytes: &'a [u8]) -> (usize, UpstreamTold<'a, T>) {
        let (content, taken) = data.take(bytes);
        let is_over = data.is_over();
        self.data = (!is_over).then_some(data);
        let ends = is_over && data.ends;
        let Some(stream) = self.streams.get_mut(&data.stream) else {
            let told = if taken == 0 && !is_over { UpstreamTold::NeedMore } else { UpstreamTold::Nothing };
            return (taken, told);
        };
        if content.is_empty() && !ends {
            return (taken, if taken == 0 && !is_over { UpstreamTold::NeedMore } else { UpstreamTold::Nothing });
        }
        let told = UpstreamTold::Data { data: stream.data, stream: data.stream, bytes: content, ends };
        self.budgets.give_back(Flood::Ping);
        if ends {
            self.end_remote(data.stream);
        }
        (taken, told)
    }

    fn on_frame<'a>(&mut self, frame: Frame<'_>, memory: Memory<'a>, out: &mut Vec<u8>) -> Told<'a, T> {
        match frame {
            Frame::Headers { stream, block, ends_stream, ends_headers, .. } => {
                if self.is_idle(stream) {
                    return Err(unknown(stream));
                }
                self.budgets.clear(Flood::Continuation);
                if ends_headers {
                    return self.on_block(stream, block, ends_stream, memory, out);
                }
                self.block.clear();
                self.block.extend_from_slice(block);
                self.continues = Some((stream, ends_stream));
                Ok(UpstreamTold::Nothing)
            }
            Frame::Continuation { stream, block, ends_headers } => {
                self.budgets.spend(Flood::Continuation)?;
                if self.block.len() + block.len() > BLOCK_MAX {
                    return Err(UpstreamFault::new(ErrorCode::ENHANCE_YOUR_CALM, "upstream sent too big header"));
                }
                self.block.extend_from_slice(block);
                if !ends_headers {
                    return Ok(UpstreamTold::Nothing);
                }
                let ends = self.continues.take().is_some_and(|(_, ends)| ends);
                // The memory of a long block is not kept.
                let block = core::mem::take(&mut self.block);
                self.on_block(stream, &block, ends, memory, out)
            }
            Frame::Reset { stream, .. } | Frame::WindowUpdate { stream, .. } if stream != 0 && self.is_idle(stream) => {
                Err(unknown(stream))
            }
            Frame::Reset { stream, code } => self.on_reset(stream, code),
            Frame::Settings { entries } => self.on_settings(entries, out),
            Frame::SettingsAck => {
                self.budgets.spend(Flood::Empty)?;
                // Before its own settings nothing else may come.
                if self.settled { Ok(UpstreamTold::Nothing) } else { Err(unexpected(Kind::Settings)) }
            }
            Frame::Ping { data } => {
                self.budgets.spend(Flood::Ping)?;
                frame::write(out, Kind::Ping, frame::ACK, 0, &data);
                Ok(UpstreamTold::Nothing)
            }
            Frame::PingAck { data } if data == super::PING => Ok(UpstreamTold::Ponged),
            Frame::GoAway { last, code, .. } => {
                self.budgets.spend(Flood::Empty)?;
                // It may say so again, of less (section 6.8).
                self.going = Some(self.going.unwrap_or(last).min(last));
                Ok(UpstreamTold::GoAway { code })
            }
            Frame::WindowUpdate { stream, increment } => self.on_window(stream, increment, out),
            Frame::Priority { .. } => self
                .budgets
                .spend(Flood::Priority)
                .map_or_else(|flood| Err(flood.into()), |()| Ok(UpstreamTold::Nothing)),
            Frame::PingAck { .. } | Frame::Other => {
                self.budgets.spend(Flood::Empty)?;
                Ok(UpstreamTold::Nothing)
            }
            // RFC 9113 section 8.4: they are off.
            Frame::PushPromise { .. } => {
                Err(UpstreamFault::new(ErrorCode::PROTOCOL_ERROR, "upstream sent unexpected push promise frame"))
            }
            // RFC 9218 section 7.1: servers send none.
            Frame::PriorityUpdate { .. } => Err(unexpected(Kind::PriorityUpdate)),
        }
    }

    /// The server ends a stream. Behind all of an answer, without an error, it wants no more of the body
    /// (section 8.1).
    fn on_reset<'a>(&mut self, number: u32, code: ErrorCode) -> Told<'a, T> {
        match self.forget(number) {
            Some(asked) => Ok(UpstreamTold::Reset { data: asked.data, code }),
            None => {
                self.budgets.spend(Flood::Empty)?;
                Ok(UpstreamTold::Nothing)
            }
        }
    }
}

fn unknown(stream: u32) -> UpstreamFault {
    UpstreamFault::new(ErrorCode::PROTOCOL_ERROR, format!("upstream sent frame for unknown stream {stream}"))
}

fn beyond(what: &str, length: u32, window: usize) -> UpstreamFault {
    let told = format!("upstream violated {what} flow control, received {length} data frame with window {window}");
    UpstreamFault::new(ErrorCode::FLOW_CONTROL_ERROR, told)
}

/// What is wrong with a frame by its form.
fn frame_fault(head: FrameHead) -> Cow<'static, str> {
    let FrameHead { length, stream, .. } = head;
    match head.kind {
        Kind::WindowUpdate if length == 4 => "upstream sent zero window update".into(),
        Kind::WindowUpdate => format!("upstream sent window update frame with invalid length: {length}").into(),
        Kind::Reset if stream != 0 => format!("upstream sent rst stream frame with invalid length: {length}").into(),
        Kind::Settings if stream != 0 => {
            format!("upstream sent settings frame with non-zero stream id: {stream}").into()
        }
        Kind::Settings => format!("upstream sent settings frame with invalid length: {length}").into(),
        Kind::Ping if stream != 0 => format!("upstream sent ping frame with non-zero stream id: {stream}").into(),
        Kind::Ping => format!("upstream sent ping frame with invalid length: {length}").into(),
        Kind::GoAway if stream != 0 => format!("upstream sent goaway frame with non-zero stream id: {stream}").into(),
        Kind::GoAway => format!("upstream sent goaway frame with invalid length: {length}").into(),
        Kind::Headers if stream != 0 => format!("upstream sent headers frame with invalid length: {length}").into(),
        other => format!("upstream sent unexpected http2 frame: {}", other.byte()).into(),
    }
}
