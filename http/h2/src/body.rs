//! Bodies of requests, and the windows that they come through (RFC 9113 sections 5.2 and 6.9).

use crate::connection::{Data, Done, PROTOCOL, ServerConnection, ServerEvent, Wrong};
use crate::error::ErrorCode;
use crate::flood::Flood;
use crate::frame::{self, FrameHead, HEAD};
use crate::stream::Closed;

/// Bytes of a stream's window that follow from its body being read, at most, and of all.
const GROWN_MAX: u32 = 1 << 20;
const ALL_GROWN_MAX: u32 = 4 << 20;

/// Bytes of the window of a stream whose body is read, at least: what may come before that is less where its server
/// says so.
const READ_WINDOW: u32 = 64 << 10;

/// What there is of that for each, however much others have.
const READ_WINDOW_LEAST: u32 = 16 << 10;

/// Bytes of the connection's window of which its client is told at once.
const OWED_MAX: u32 = 1 << 20;

impl<T> ServerConnection<T> {
    /// The head of DATA, with the bytes before its content and behind it.
    pub(crate) fn on_data(&mut self, head: FrameHead, (before, padding): (u32, u32)) -> Result<(), Wrong> {
        let left = head.length - before - padding;
        self.budgets.note(HEAD as u64 + u64::from(head.length), left.into())?;
        let ends = head.has(frame::END_STREAM);
        if left == 0 && !ends {
            self.budgets.spend(if padding > 0 { Flood::Padding } else { Flood::Empty })?;
        }
        // RFC 9113 section 6.9.1: padding counts.
        if !self.receive.take(head.length as usize) {
            return Err(Wrong::Connection(ErrorCode::FLOW_CONTROL_ERROR));
        }
        // Where it has nothing, nothing of it is to be passed over either.
        let data = Data { stream: head.stream, left, padding, ends };
        self.data = (left + padding > 0).then_some(data);
        self.owed = self.owed.saturating_add(before + padding);
        if head.stream > self.last {
            return Err(PROTOCOL);
        }
        let Some(stream) = self.streams.get_mut(head.stream) else {
            return match self.streams.closed(head.stream) {
                Closed::ByUs => {
                    self.data = Some(data);
                    Ok(())
                }
                Closed::ByPeer | Closed::LongAgo => Err(Wrong::Stream(head.stream, ErrorCode::STREAM_CLOSED)),
            };
        };
        if stream.malformed {
            // Its end is on its way.
            self.data = Some(data);
            return Ok(());
        }
        if stream.remote_ended {
            return Err(Wrong::Stream(head.stream, ErrorCode::STREAM_CLOSED));
        }
        if !stream.receive.take(head.length as usize) {
            return Err(Wrong::Stream(head.stream, ErrorCode::FLOW_CONTROL_ERROR));
        }
        stream.owed += before + padding;
        if let Some(told) = &mut stream.left {
            // RFC 9113 section 8.1.1: as many as Content-Length says.
            match told.checked_sub(left.into()) {
                Some(rest) if rest == 0 || !ends => *told = rest,
                _ if stream.dropping.is_some() => {
                    return Err(Wrong::Stream(head.stream, ErrorCode::PROTOCOL_ERROR));
                }
                _ => return Err(Wrong::Malformed(stream.spoil())),
            }
        }
        self.data = Some(data);
        Ok(())
    }

    /// What of DATA is there.
    pub(crate) fn more_data<'a>(&mut self, bytes: &'a [u8], out: &mut Vec<u8>) -> (usize, Done<'a, T>) {
        let Some(mut data) = self.data.take() else { return (0, Ok(ServerEvent::Nothing)) };
        let (content, taken) = data.take(bytes);
        let is_over = data.is_over();
        let ends = is_over && data.ends;
        if !is_over {
            self.data = Some(data);
        }
        let Some(stream) = self.streams.get_mut(data.stream).filter(|stream| !stream.remote_ended && !stream.malformed)
        else {
            // Nobody's.
            self.owed = self.owed.saturating_add(content.len() as u32);
            return (taken, Ok(ServerEvent::Nothing));
        };
        stream.remote_ended = ends;
        if stream.dropping.is_some() {
            if ends {
                self.take(data.stream, false);
            } else {
                self.give_back(data.stream, content.len(), out);
            }
            return (taken, Ok(ServerEvent::Nothing));
        }
        if content.is_empty() && !ends {
            return (taken, Ok(ServerEvent::Nothing));
        }
        self.budgets.give_back(Flood::Ping);
        (taken, Ok(ServerEvent::Body { stream: data.stream, bytes: content, ends }))
    }

    /// Gives back of the connection's window what nobody holds any more, now and then: it bounds nothing
    /// that streams' windows do not.
    pub(crate) fn give_back_owed(&mut self, out: &mut Vec<u8>) {
        if self.owed >= OWED_MAX {
            let owed = core::mem::take(&mut self.owed);
            if self.receive.change(owed.into()) {
                frame::write_window_update(out, 0, owed);
            }
        }
    }

    /// A body's reader has taken so many bytes of it: its client may send more, of which it is told
    /// now and then. A window that is read grows.
    pub fn give_back(&mut self, number: u32, bytes: usize, out: &mut Vec<u8>) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let room = ALL_GROWN_MAX.saturating_sub(self.grown);
        // Of one that is over all was given back.
        let Some(stream) = self.streams.get_mut(number) else { return };
        self.owed = self.owed.saturating_add(bytes);
        stream.owed = stream.owed.saturating_add(bytes);
        if stream.remote_ended || stream.owed < stream.target / 2 {
            return;
        }
        // Who reads all that comes is to be sent more within a round trip.
        let most = GROWN_MAX.max(stream.target) - stream.target;
        let grows = if bytes > 0 { stream.target.min(most).min(room) } else { 0 };
        self.grown += stream.open_window(grows, out);
    }

    /// A body is read from now on: as much of it may come as of others.
    pub fn open_window(&mut self, number: u32, out: &mut Vec<u8>) {
        let room = ALL_GROWN_MAX.saturating_sub(self.grown).max(READ_WINDOW_LEAST);
        let Some(stream) = self.streams.get_mut(number) else { return };
        let grows = READ_WINDOW.saturating_sub(stream.target).min(room);
        if grows == 0 || stream.remote_ended {
            return;
        }
        self.grown += stream.open_window(grows, out);
    }
}
