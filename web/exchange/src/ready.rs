//! Whole responses that are ready to be sent.

use crate::{Meta, Reply};
use app::Body;
use core::fmt;
use semantics::date::HttpDate;
use std::sync::Arc;

/// Content up to this many bytes is kept behind its head in one body, so that
/// a response is one slice.
pub const JOINED_MAX: usize = 16 << 10;

/// How a response ends its message, and the connection perhaps with it:
/// whether its client speaks HTTP/1.0, whether it goes on, and whether its head says
/// that even where it is what the version means without.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ending(u8);

impl Ending {
    const HTTP10: u8 = 1;
    const LAST: u8 = 2;
    const SAYS: u8 = 4;

    /// To an HTTP/1.1 client that goes on.
    pub const GOES_ON: Self = Self(0);

    /// To an HTTP/1.1 client that asked for the connection to be closed.
    pub const LAST_OF_11: Self = Self(Self::LAST);

    /// To a client of this version that goes on, or does not.
    #[inline]
    #[must_use]
    pub const fn new(http10: bool, goes_on: bool) -> Self {
        let version = if http10 { Self::HTTP10 } else { 0 };
        Self(if goes_on { version } else { version | Self::LAST })
    }

    /// Whether the client speaks HTTP/1.0.
    #[inline]
    #[must_use]
    pub const fn is_http10(self) -> bool {
        self.0 & Self::HTTP10 != 0
    }

    /// Whether another request may follow.
    #[inline]
    #[must_use]
    pub const fn goes_on(self) -> bool {
        self.0 & Self::LAST == 0
    }

    /// The same, as the last on its connection unless `goes_on`.
    #[inline]
    #[must_use]
    pub const fn and(self, goes_on: bool) -> Self {
        if goes_on { self } else { Self(self.0 | Self::LAST) }
    }

    /// The same, and its head says so in any case, if `says`.
    #[inline]
    #[must_use]
    pub const fn saying(self, says: bool) -> Self {
        if says { Self(self.0 | Self::SAYS) } else { self }
    }

    /// What a head says of it (RFC 9112 sections 9.3 and 9.6).
    #[inline]
    #[must_use]
    pub const fn line(self) -> &'static [u8] {
        let says = self.0 & Self::SAYS != 0;
        match (self.is_http10(), self.goes_on()) {
            (true, true) => KEEP_ALIVE,
            (false, true) if says => KEEP_ALIVE,
            (false, false) => CLOSE,
            (true, false) if says => CLOSE,
            (false, true) | (true, false) => b"",
        }
    }

    /// Whether its head says that the connection closes.
    #[inline]
    #[must_use]
    pub const fn says_close(self) -> bool {
        !self.goes_on() && self.0 & (Self::HTTP10 | Self::SAYS) != Self::HTTP10
    }
}

/// What a response says whose connection goes on.
const KEEP_ALIVE: &[u8] = b"Connection: keep-alive\r\n";

/// What the last response on a connection of HTTP/1.1 says more than others.
const CLOSE: &[u8] = b"Connection: close\r\n";

type WriteHead = dyn Fn(&mut Vec<u8>, &Meta, &HttpDate) + Send + Sync;
type WriteReply = fn(&mut Vec<u8>, &Reply<'_>, &HttpDate, CommonFields);

/// What a carrier's heads have beside date and length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CommonFields {
    /// Who serves (`Server`).
    pub server: bool,
    /// Whether the connection goes on, in every head ([`Ending::saying`]).
    pub persistence: bool,
}

/// Writes the head of a 200 response for whole content, as a carrier sends it,
/// and where in it the date stands. Handlers keep what it wrote with their
/// content, and do not look into it.
#[derive(Clone)]
pub struct HeadWriter {
    write: Arc<WriteHead>,
    write_reply: WriteReply,
    common: CommonFields,
    date_at: u16,
}

impl fmt::Debug for HeadWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeadWriter").field("date_at", &self.date_at).finish_non_exhaustive()
    }
}

impl HeadWriter {
    /// `write` appends the head, whose date begins at its byte `date_at`.
    #[must_use]
    pub fn new(date_at: u16, write: impl Fn(&mut Vec<u8>, &Meta, &HttpDate) + Send + Sync + 'static) -> Self {
        Self { write: Arc::new(write), write_reply: |_, _, _, _| {}, common: CommonFields::default(), date_at }
    }

    /// `write_reply` appends the head of any reply on a connection that goes on, which has
    /// the fields of `common`.
    #[must_use]
    pub fn with_replies(self, write_reply: WriteReply, common: CommonFields) -> Self {
        Self { write_reply, common, ..self }
    }

    /// Appends the head of a reply with status 200 whose fields are known.
    pub fn write_reply(&self, out: &mut Vec<u8>, reply: &Reply<'_>, date: &HttpDate) {
        (self.write_reply)(out, reply, date, self.common);
    }

    /// Writes no heads: for content that is kept without one.
    #[must_use]
    pub fn nothing() -> Self {
        Self::new(0, |_, _, _| {})
    }

    /// Appends the head.
    pub fn write(&self, out: &mut Vec<u8>, meta: &Meta, date: &HttpDate) {
        (self.write)(out, meta, date);
    }

    /// Where in it the date begins.
    #[must_use]
    pub const fn date_at(&self) -> u16 {
        self.date_at
    }
}

/// A 200 response, ready to be sent.
#[derive(Debug)]
pub struct Ready {
    /// The head, and behind it the content if it is short.
    pub message: Body,
    /// Its length.
    pub message_len: u32,
    /// Of that the head's.
    pub head_len: u32,
    /// Where in the head the date begins.
    date_at: u16,
    /// The length of the line at the head's end that says that the connection goes on.
    going_on: u8,
    /// The content, if it is not in `message`.
    pub content: Option<Body>,
    /// As `message`, and says that the connection closes; made when it is
    /// first asked for.
    pub closing: Option<Body>,
    /// The series that its latency is counted with ([`crate::ExchangeSettings::series`]); the
    /// carrier's own for the host is [`Ready::OF_HOST`].
    pub series: u16,
    /// The terms that its connection has then ([`crate::ExchangeSettings::terms`]).
    pub terms: u8,
}

impl Ready {
    /// No series of a location.
    pub const OF_HOST: u16 = u16::MAX;

    /// A response whose head, with the date at `date_at`, is the first
    /// `head_len` bytes of `message`; the content is behind it, or apart. What the head
    /// says of its connection ([`Ending::line`]), if it does, it says at its end.
    #[must_use]
    pub fn new(message: Vec<u8>, head_len: usize, date_at: u16, content: Option<Body>) -> Self {
        let fields = message.get(..head_len.saturating_sub(2)).unwrap_or_default();
        Self {
            going_on: if fields.ends_with(KEEP_ALIVE) { KEEP_ALIVE.len() as u8 } else { 0 },
            message_len: message.len() as u32,
            message: Body::new(message).keeping_sums(),
            head_len: head_len as u32,
            date_at,
            content,
            closing: None,
            series: Self::OF_HOST,
            terms: 0,
        }
    }

    /// The content, and where in its body it begins.
    #[must_use]
    pub const fn content(&self) -> (&Body, u32) {
        match &self.content {
            Some(content) => (content, 0),
            None => (&self.message, self.head_len),
        }
    }

    /// The head.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        self.message.as_slice().get(..self.head_len as usize).unwrap_or_default()
    }

    /// The date that the head has.
    #[must_use]
    pub fn date(&self) -> &[u8] {
        self.head().get(usize::from(self.date_at)..).and_then(|rest| rest.get(..DATE_LEN)).unwrap_or_default()
    }

    /// The fields of the head but for what is its carrier's to say, as [`crate::FieldLines`] writes
    /// them: neither date nor server, neither length nor connection.
    #[must_use]
    pub fn field_lines(&self) -> Vec<u8> {
        let lines = self.head().split_inclusive(|byte| *byte == b'\n').skip(1);
        let is_carriers = |line: &&[u8]| {
            let names = [&b"Date: "[..], b"Server: ", b"Content-Length: ", b"Connection: ", b"\r\n"];
            !names.iter().any(|name| line.starts_with(name))
        };
        lines.filter(is_carriers).flatten().copied().collect()
    }

    /// Makes the response carry `date`: in place, unless it is still on its way
    /// to someone; what was replaced then is given to `retire`.
    pub fn set_date(&mut self, date: &HttpDate, retire: impl FnMut(Body)) {
        self.set_dates(date, None, retire);
    }

    /// As [`Ready::set_date`], and another date at that byte of the head.
    pub fn set_dates(&mut self, date: &HttpDate, other: Option<(u16, HttpDate)>, mut retire: impl FnMut(Body)) {
        let at = self.date_at;
        let set = |bytes: &mut [u8]| {
            for (at, date) in [Some((at, date)), other.as_ref().map(|(at, date)| (*at, date))].into_iter().flatten() {
                if let Some(place) = date_in(bytes, usize::from(at)) {
                    place.copy_from_slice(date.as_bytes());
                }
            }
        };
        for message in [Some(&mut self.message), self.closing.as_mut()].into_iter().flatten() {
            if let Some(bytes) = message.get_mut() {
                set(bytes);
                continue;
            }
            let mut bytes = message.as_slice().to_vec();
            set(&mut bytes);
            retire(core::mem::replace(message, Body::new(bytes).keeping_sums()));
        }
    }

    /// Makes the message for connections that close, if it is at most `room`
    /// bytes; its length.
    pub fn make_closing(&mut self, room: usize) -> Option<usize> {
        let message = self.message.as_slice();
        // In front of the empty line, and in place of what says that it does not.
        let (fields, rest) = message.split_at_checked((self.head_len as usize).saturating_sub(2))?;
        let fields = fields.get(..self.fields_len() as usize)?;
        let closing = [fields, CLOSE, rest].concat();
        let length = closing.len();
        if length > room {
            return None;
        }
        self.closing = Some(Body::new(closing).keeping_sums());
        Some(length)
    }

    /// Bytes of the head that the response begins with for `ending`.
    #[must_use]
    pub const fn head_len(&self, ending: Ending) -> usize {
        self.head_len as usize - self.going_on as usize + ending.line().len()
    }

    /// Bytes of the head before what it says of its connection, and the empty line.
    #[must_use]
    pub const fn fields_len(&self) -> u32 {
        self.head_len.saturating_sub(2 + self.going_on as u32)
    }
}

/// Bytes of a date.
const DATE_LEN: usize = 29;

fn date_in(bytes: &mut [u8], at: usize) -> Option<&mut [u8]> {
    bytes.get_mut(at..)?.get_mut(..DATE_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9112 section 9.3.
    #[test]
    fn persistence_is_said_where_it_is_not_the_default() {
        for (http10, goes_on, expected) in [
            (false, true, &b""[..]),
            (false, false, b"Connection: close\r\n"),
            (true, true, b"Connection: keep-alive\r\n"),
            (true, false, b""),
        ] {
            assert_eq!(Ending::new(http10, goes_on).line(), expected);
            assert_eq!(Ending::new(http10, true).and(goes_on).line(), expected);
            assert_eq!(Ending::new(http10, goes_on).says_close(), expected == CLOSE);
            let said = Ending::new(http10, goes_on).saying(true);
            assert_eq!((said.line(), said.says_close()), (if goes_on { KEEP_ALIVE } else { CLOSE }, !goes_on));
        }
        assert_eq!(Ending::LAST_OF_11.line(), b"Connection: close\r\n");
    }

    /// What goes on in one message closes in the other, whatever the first says of it.
    #[test]
    fn a_message_that_closes_says_that_and_nothing_else() {
        for said in ["", "Connection: keep-alive\r\n"] {
            let head = format!("HTTP/1.1 200 OK\r\nA: b\r\n{said}\r\n");
            let mut ready = Ready::new(format!("{head}body").into_bytes(), head.len(), 0, None);
            let length = ready.make_closing(usize::MAX);
            let closing = b"HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\nbody";
            assert_eq!((ready.closing.as_ref().map(Body::as_slice), length), (Some(&closing[..]), Some(closing.len())));
            let ending = Ending::LAST_OF_11.saying(!said.is_empty());
            assert_eq!(ready.head_len(ending), closing.len() - 4);
            assert_eq!(ready.head_len(Ending::GOES_ON.saying(!said.is_empty())), head.len());
        }
    }
}
