//! What the server sends, frame by frame.

use super::streams::{self, Counted};
use super::{BLOCK_LIMIT, ClientConnection, ClientEvent, Data, WINDOW_LIMIT};
use crate::error::{ErrorCode, FrameError};
use crate::frame::{self, ACK, END_STREAM, Frame, FrameHead, HEAD, Kind, PAYLOAD, setting};
use hpack::Scratch;

type Event<'a> = Result<ClientEvent<'a>, ErrorCode>;

/// Settings that a server may have as many of as it likes; the largest payload that there is.
const PAYLOAD_LIMIT: usize = (1 << 24) - 1;

impl ClientConnection {
    #[inline]
    pub(super) fn receive<'a>(
        &mut self,
        bytes: &'a [u8],
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(usize, ClientEvent<'a>), ErrorCode> {
        if let Some(data) = self.data {
            return Ok(self.on_data(data, bytes, out));
        }
        let Some(head) = FrameHead::read(bytes) else { return Ok((0, ClientEvent::NeedMore)) };
        if head.length as usize > PAYLOAD {
            return Err(ErrorCode::FRAME_SIZE_ERROR);
        }
        let payload = bytes.get(HEAD..).unwrap_or_default();
        self.check_order(head)?;
        if head.kind == Kind::Data {
            let Some(taken) = self.begin_data(head, payload, out)? else { return Ok((0, ClientEvent::NeedMore)) };
            let Some(data) = self.data else { return Ok((taken, ClientEvent::Nothing)) };
            let (more, event) = self.on_data(data, bytes.get(taken..).unwrap_or_default(), out);
            // The frame's own head is taken, whatever is to follow.
            let event = if event == ClientEvent::NeedMore { ClientEvent::Nothing } else { event };
            return Ok((taken + more, event));
        }
        let Some(payload) = payload.get(..head.length as usize) else { return Ok((0, ClientEvent::NeedMore)) };
        let event = match frame::read(head, payload) {
            Ok(frame) => self.on_frame(frame, scratch, out)?,
            Err(FrameError::Connection(code)) => return Err(code),
            Err(FrameError::Stream(stream, code)) => self.fail_stream(stream, code, out),
        };
        Ok((HEAD + payload.len(), event))
    }

    /// The server's settings come first (RFC 9113 section 3.4), and nothing between the frames of
    /// a block (section 4.3).
    #[inline]
    fn check_order(&mut self, head: FrameHead) -> Result<(), ErrorCode> {
        let fits = match self.continues {
            Some((stream, _)) => head.kind == Kind::Continuation && head.stream == stream,
            None => head.kind != Kind::Continuation,
        };
        let first = self.settled || head.kind == Kind::Settings && head.flags & ACK == 0;
        if fits && first { Ok(()) } else { Err(ErrorCode::PROTOCOL_ERROR) }
    }

    /// A stream that was never opened (RFC 9113 section 5.1, idle).
    fn is_idle(&self, stream: u32) -> bool {
        stream.is_multiple_of(2) || stream >= self.next
    }

    /// DATA's payload begins: bytes taken; nothing where the length of its padding is still to come.
    #[inline]
    fn begin_data(&mut self, head: FrameHead, payload: &[u8], out: &mut Vec<u8>) -> Result<Option<usize>, ErrorCode> {
        let padding = match frame::data_padding(head, payload.first().copied()) {
            Ok(Some(padding)) => padding,
            Ok(None) => return Ok(None),
            Err(FrameError::Connection(code) | FrameError::Stream(_, code)) => return Err(code),
        };
        if self.is_idle(head.stream) {
            return Err(ErrorCode::PROTOCOL_ERROR);
        }
        // All of the payload counts (section 6.9.1), whatever becomes of the stream.
        match streams::count(&mut self.received, head.length, self.settings.connection_window.max(65_535)) {
            Counted::Fine => {}
            Counted::GiveBack(bytes) => frame::write_window_update(out, 0, bytes),
            Counted::Beyond => return Err(ErrorCode::FLOW_CONTROL_ERROR),
        }
        let ends = head.has(END_STREAM);
        let place = self.streams.find(head.stream);
        if let Some(place) = place
            && head.length > 0
        {
            let counted = if !self.settings.held {
                self.streams.receive(place, head.length, self.settings.stream_window)
            } else if self.streams.spend(place, head.length) {
                Counted::Fine
            } else {
                Counted::Beyond
            };
            match counted {
                Counted::Fine => {}
                Counted::GiveBack(bytes) if !ends => frame::write_window_update(out, head.stream, bytes),
                Counted::GiveBack(_) => {}
                Counted::Beyond => return Err(ErrorCode::FLOW_CONTROL_ERROR),
            }
        }
        let (before, behind) = padding;
        self.data = Some(Data { place, content: head.length - before - behind, padding: behind, ends });
        Ok(Some(HEAD + before as usize))
    }

    /// More of DATA's payload.
    #[inline]
    fn on_data<'a>(&mut self, mut data: Data, bytes: &'a [u8], out: &mut Vec<u8>) -> (usize, ClientEvent<'a>) {
        let all = bytes.get(..data.content as usize).unwrap_or(bytes);
        if data.content > 0 {
            data.content -= all.len() as u32;
            let over = data.content == 0 && data.padding == 0 && !data.ends;
            self.data = if over { None } else { Some(data) };
            return match data.place {
                _ if all.is_empty() => (0, ClientEvent::NeedMore),
                Some(place) if self.streams.status(place) != 0 => {
                    self.streams.add_content(place, all.len());
                    (all.len(), ClientEvent::Data { place, bytes: all })
                }
                // Content before its head makes the answer malformed, which its end tells.
                _ => (all.len(), ClientEvent::Nothing),
            };
        }
        if bytes.len() < data.padding as usize {
            return (0, ClientEvent::NeedMore);
        }
        self.data = None;
        let event = match data.place.filter(|_| data.ends) {
            Some(place) => self.end(place, None, out),
            None => ClientEvent::Nothing,
        };
        (data.padding as usize, event)
    }

    /// The server's side of a stream ends.
    #[inline]
    fn end<'a>(&mut self, place: u16, grpc_status: Option<u16>, out: &mut Vec<u8>) -> ClientEvent<'a> {
        let (status, content) = (self.streams.status(place), self.streams.content(place));
        if status == 0 || !self.streams.is_whole(place) {
            return self.malformed(place, out);
        }
        if self.streams.unsent(place) {
            // RFC 9113 section 8.1: the rest of the request is not wanted.
            frame::write_reset(out, self.streams.id(place), ErrorCode::CANCEL);
        }
        self.streams.release(place);
        ClientEvent::Over { place, status, content, grpc_status }
    }

    #[cold]
    fn malformed<'a>(&mut self, place: u16, out: &mut Vec<u8>) -> ClientEvent<'a> {
        frame::write_reset(out, self.streams.id(place), ErrorCode::PROTOCOL_ERROR);
        self.streams.release(place);
        ClientEvent::Malformed { place }
    }

    #[cold]
    fn fail_stream<'a>(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>) -> ClientEvent<'a> {
        frame::write_reset(out, stream, code);
        match self.streams.find(stream) {
            Some(place) => {
                self.streams.release(place);
                ClientEvent::Malformed { place }
            }
            None => ClientEvent::Nothing,
        }
    }

    #[inline]
    fn on_frame<'a>(&mut self, frame: Frame<'_>, scratch: &mut Scratch, out: &mut Vec<u8>) -> Event<'a> {
        match frame {
            Frame::Headers { stream, block, ends_stream, ends_headers, .. } => {
                if self.is_idle(stream) {
                    return Err(ErrorCode::PROTOCOL_ERROR);
                }
                if ends_headers {
                    return self.on_block(stream, block, ends_stream, scratch, out);
                }
                self.block.clear();
                self.block.extend_from_slice(block);
                self.continues = Some((stream, ends_stream));
                Ok(ClientEvent::Nothing)
            }
            Frame::Continuation { stream, block, ends_headers } => {
                if self.block.len() + block.len() > BLOCK_LIMIT {
                    return Err(ErrorCode::ENHANCE_YOUR_CALM);
                }
                self.block.extend_from_slice(block);
                if !ends_headers {
                    return Ok(ClientEvent::Nothing);
                }
                let ends = self.continues.take().is_some_and(|(_, ends)| ends);
                let block = core::mem::take(&mut self.block);
                let event = self.on_block(stream, &block, ends, scratch, out);
                self.block = block;
                event
            }
            Frame::Reset { stream, code } if !self.is_idle(stream) => match self.streams.find(stream) {
                Some(place) => {
                    self.streams.release(place);
                    let beyond_limit = code == ErrorCode::REFUSED_STREAM && stream < self.bounded;
                    Ok(ClientEvent::Reset { place, code, beyond_limit })
                }
                None => Ok(ClientEvent::Nothing),
            },
            Frame::Settings { entries } => self.on_settings(entries, out),
            Frame::SettingsAck => {
                self.decoder.set_limit(self.settings.decoder_table);
                Ok(ClientEvent::Nothing)
            }
            Frame::Ping { data } => {
                frame::write(out, Kind::Ping, ACK, 0, &data);
                Ok(ClientEvent::Nothing)
            }
            Frame::GoAway { last, code, .. } => {
                // It may say so again, of less (section 6.8).
                self.going = Some(self.going.unwrap_or(last).min(last));
                Ok(ClientEvent::GoAway { code })
            }
            Frame::WindowUpdate { stream: 0, increment } => {
                self.window += i64::from(increment);
                if self.window > WINDOW_LIMIT { Err(ErrorCode::FLOW_CONTROL_ERROR) } else { Ok(ClientEvent::Room) }
            }
            Frame::WindowUpdate { stream, increment } if !self.is_idle(stream) => {
                Ok(self.on_stream_window(stream, increment, out))
            }
            Frame::Priority { .. } | Frame::PingAck { .. } | Frame::Other => Ok(ClientEvent::Nothing),
            // Pushes are off (section 8.4), streams that were not opened have no frames, and
            // servers send no PRIORITY_UPDATE (RFC 9218 section 7.1).
            _ => Err(ErrorCode::PROTOCOL_ERROR),
        }
    }

    fn on_stream_window<'a>(&mut self, stream: u32, increment: u32, out: &mut Vec<u8>) -> ClientEvent<'a> {
        let Some(place) = self.streams.find(stream) else { return ClientEvent::Nothing };
        match self.streams.widen(place, increment.into()) {
            None => self.fail_stream(stream, ErrorCode::FLOW_CONTROL_ERROR, out),
            Some(waits) => {
                if waits {
                    self.sending.push_back(place);
                }
                ClientEvent::Room
            }
        }
    }

    fn on_settings<'a>(&mut self, entries: &[u8], out: &mut Vec<u8>) -> Event<'a> {
        if !self.settled {
            // None that bounds them is none (section 6.5.2).
            (self.settled, self.allowed) = (true, u32::MAX);
        }
        for (name, value) in frame::settings(entries) {
            match name {
                setting::HEADER_TABLE_SIZE => self.encoder.set_limit(value),
                setting::ENABLE_PUSH if value != 0 => return Err(ErrorCode::PROTOCOL_ERROR),
                setting::MAX_CONCURRENT_STREAMS => {
                    self.allowed = value;
                    if self.streams.open() > value as usize {
                        // Any of these may be refused (section 5.1.2).
                        self.bounded = self.next;
                    }
                }
                setting::INITIAL_WINDOW_SIZE => self.on_first_window(value)?,
                setting::MAX_FRAME_SIZE => {
                    let value = value as usize;
                    if !(PAYLOAD..=PAYLOAD_LIMIT).contains(&value) {
                        return Err(ErrorCode::PROTOCOL_ERROR);
                    }
                    self.payload = value;
                }
                _ => {}
            }
        }
        frame::write(out, Kind::Settings, ACK, 0, &[]);
        Ok(ClientEvent::Room)
    }

    /// The window of new streams changes, and by as much that of those that are open (section
    /// 6.9.2).
    fn on_first_window(&mut self, value: u32) -> Result<(), ErrorCode> {
        let change = i64::from(value) - self.first_window;
        self.first_window = value.into();
        let places: Vec<u16> = self.streams.places().collect();
        for place in places {
            match self.streams.widen(place, change) {
                None => return Err(ErrorCode::FLOW_CONTROL_ERROR),
                Some(true) => self.sending.push_back(place),
                Some(false) => {}
            }
        }
        if i64::from(value) > WINDOW_LIMIT { Err(ErrorCode::FLOW_CONTROL_ERROR) } else { Ok(()) }
    }

    /// A block of fields: of an answer's head, interim or final, or its trailers.
    #[inline]
    fn on_block<'a>(
        &mut self,
        stream: u32,
        block: &[u8],
        ends: bool,
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Event<'a> {
        let place = self.streams.find(stream);
        let is_final = place.is_some_and(|place| self.streams.status(place) != 0);
        let seen = self.known[usize::from(is_final)].decode(&mut self.decoder, block, scratch)?;
        let Some(place) = place else { return Ok(ClientEvent::Nothing) };
        Ok(match seen.status {
            // Trailers have no status, and end the stream.
            None if is_final && ends && !seen.wrong => self.end(place, seen.grpc_status, out),
            Some(status) if !is_final && !seen.wrong => match status {
                200.. => {
                    self.streams.set_head(place, status, seen.length);
                    let grpc_encoding = seen.grpc_encoding;
                    if ends {
                        self.end(place, seen.grpc_status, out)
                    } else {
                        ClientEvent::Head { place, status, grpc_encoding }
                    }
                }
                100..200 if !ends && status != 101 => ClientEvent::Nothing,
                _ => self.malformed(place, out),
            },
            _ => self.malformed(place, out),
        })
    }
}
