//! Streams of a connection, and their windows (RFC 9113 sections 5.1 and 5.2).

use crate::frame;
use crate::priority::StreamPriority;
use core::cmp::Ordering;
use std::collections::VecDeque;

/// Bytes of the window that both sides begin with (RFC 9113 section 6.9.2).
pub const FIRST_WINDOW: u32 = 65_535;

/// The largest window (RFC 9113 section 6.9.1).
pub const WINDOW_MAX: u32 = (1 << 31) - 1;

/// Bytes that may be sent: by a change of settings less than none (RFC 9113 section 6.9.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window(i32);

impl Window {
    /// So many.
    #[must_use]
    pub const fn new(bytes: u32) -> Self {
        Self(if bytes > WINDOW_MAX { WINDOW_MAX as i32 } else { bytes as i32 })
    }

    /// How many may be sent now.
    #[must_use]
    pub const fn room(self) -> usize {
        if self.0 < 0 { 0 } else { self.0 as usize }
    }

    /// So many were sent, if there was room for them.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.room();
        if fits {
            self.0 -= bytes as i32;
        }
        fits
    }

    /// More, or less, may be sent: whether there may be a window of this size.
    #[must_use]
    pub fn change(&mut self, by: i64) -> bool {
        match i32::try_from(i64::from(self.0) + by) {
            Ok(window) => {
                self.0 = window;
                true
            }
            Err(_) => false,
        }
    }
}

/// A stream that is open on either side.
///
/// ```text
///             HEADERS                 the peer ends         we end
///  (idle) ──────────────► open ──────────────► half closed ────────► (closed)
///                          │        we end                 the peer ends
///                          └───────────────────► half closed ───────►
/// ```
#[derive(Debug)]
pub struct Stream<T> {
    /// Its number.
    pub number: u32,
    /// What its user knows of it.
    pub data: T,
    /// How urgent it is.
    pub priority: StreamPriority,
    /// When it was served last, among others that take turns.
    pub served: u32,
    /// Bytes that we may send.
    pub(crate) send: Window,
    /// Bytes that the peer may send.
    pub(crate) receive: Window,
    /// How large that window is when nothing of it is used.
    pub(crate) target: u32,
    /// Bytes that came and were given back, of which the peer was not told.
    pub(crate) owed: u32,
    /// Bytes of the body that are to come, if that was told.
    pub(crate) left: Option<u64>,
    /// Bytes that it counts of those that heads may have.
    pub(crate) head: u32,
    /// The peer sends no more.
    pub(crate) remote_ended: bool,
    /// It broke what a request may be, of which its user was told, who ends it: what still comes is
    /// dropped.
    pub(crate) malformed: bool,
    /// We send no more, and what still comes is dropped, up to this second.
    pub(crate) dropping: Option<u32>,
}

impl<T> Stream<T> {
    /// Whether its peer has ended it.
    #[must_use]
    pub const fn has_ended(&self) -> bool {
        self.remote_ended
    }

    /// Its peer may send what was given back, and so many bytes more; by how many its window is larger then.
    pub(crate) fn open_window(&mut self, grows: u32, out: &mut Vec<u8>) -> u32 {
        let increment = self.owed + grows;
        if !self.receive.change(increment.into()) {
            return 0;
        }
        (self.owed, self.target) = (0, self.target + grows);
        frame::write_window_update(out, self.number, increment);
        grows
    }

    /// It is malformed from now on; its number.
    pub(crate) const fn spoil(&mut self) -> u32 {
        (self.malformed, self.left) = (true, None);
        self.number
    }
}

/// The streams of a connection, in the order of their numbers, which only grow.
#[derive(Debug)]
pub(crate) struct Streams<T> {
    pub all: VecDeque<Stream<T>>,
    /// The last that were closed, by the lower bits of a count: with the upper bit where it was us
    /// who reset it.
    closed: [u32; CLOSED],
    count: usize,
    /// The last that we reset. What comes of those before it was on its way perhaps, however many they are.
    reset_up_to: u32,
}

/// Streams of which it is known how they were closed.
const CLOSED: usize = 16;

const BY_US: u32 = 1 << 31;

/// How a stream was closed that is none any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closed {
    /// We reset it: what its peer had sent until it knew of that is ignored.
    ByUs,
    /// Its peer ended or reset it.
    ByPeer,
    /// That is not known any more.
    LongAgo,
}

impl<T> Streams<T> {
    pub const fn new() -> Self {
        Self { all: VecDeque::new(), closed: [0; CLOSED], count: 0, reset_up_to: 0 }
    }

    /// Where it stands. Numbers grow by two at least: so many streams at most stand before it, and behind it, and where
    /// none between the first and the last is over, that is its place.
    pub fn find(&self, number: u32) -> Option<usize> {
        let (first, last) = (self.all.front()?.number, self.all.back()?.number);
        let end = self.all.len() - 1;
        let mut high = end.min((number.checked_sub(first)? / 2) as usize);
        let mut low = end.saturating_sub((last.checked_sub(number)? / 2) as usize);
        while low <= high {
            let middle = usize::midpoint(low, high);
            match self.all.get(middle)?.number.cmp(&number) {
                Ordering::Equal => return Some(middle),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle.checked_sub(1)?,
            }
        }
        None
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut Stream<T>> {
        let at = self.find(number)?;
        self.all.get_mut(at)
    }

    pub fn get(&self, number: u32) -> Option<&Stream<T>> {
        self.all.get(self.find(number)?)
    }

    /// It is over.
    pub fn remove(&mut self, number: u32, by_us: bool) -> Option<Stream<T>> {
        let at = self.find(number)?;
        self.note_closed(number, by_us);
        let stream = self.all.remove(at)?;
        if self.all.is_empty() {
            // A connection without streams is to be small.
            self.all.shrink_to(4);
        }
        Some(stream)
    }

    pub const fn note_closed(&mut self, number: u32, by_us: bool) {
        self.closed[self.count % CLOSED] = number | if by_us { BY_US } else { 0 };
        self.count = self.count.wrapping_add(1);
        if by_us && number > self.reset_up_to {
            self.reset_up_to = number;
        }
    }

    /// How one was closed that is none any more.
    pub fn closed(&self, number: u32) -> Closed {
        match self.closed.iter().find(|one| **one & !BY_US == number) {
            Some(one) if one & BY_US != 0 => Closed::ByUs,
            Some(_) => Closed::ByPeer,
            None if number <= self.reset_up_to => Closed::ByUs,
            None => Closed::LongAgo,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9113 sections 6.9.1 and 6.9.2.
    #[test]
    fn a_window_may_be_less_than_nothing_and_no_larger_than_there_is() {
        let mut window = Window::new(10);
        assert!(window.take(4) && !window.take(7) && window.room() == 6);
        assert!(window.change(-10) && window.room() == 0 && !window.take(1) && window.take(0));
        assert!(window.change(5) && window.room() == 1);
        assert!(!window.change(WINDOW_MAX.into()) && window.room() == 1);
        assert!(window.change(i64::from(WINDOW_MAX) - 1) && window.room() == WINDOW_MAX as usize);
        assert_eq!(Window::new(u32::MAX).room(), WINDOW_MAX as usize);
    }

    /// Whatever was closed between them.
    #[test]
    fn streams_are_found_by_their_numbers() {
        let mut random = 7_u32;
        for begun in [1, 2, 3, 9, 40] {
            let mut streams: Streams<()> = Streams::new();
            let mut there = Vec::new();
            for at in 0..begun {
                random = random.wrapping_mul(0x9e37_79b1).wrapping_add(12_345);
                there.push(there.last().map_or(5, |last| last + 2 + 2 * (random >> 30)));
                streams.all.push_back(stream(there[at]));
            }
            while !there.is_empty() {
                for number in 0..there[there.len() - 1] + 4 {
                    assert_eq!(streams.find(number), there.binary_search(&number).ok(), "{number} of {there:?}");
                }
                random = random.wrapping_mul(0x9e37_79b1).wrapping_add(12_345);
                let number = there.remove((random >> 8) as usize % there.len());
                assert_eq!(streams.remove(number, false).map(|stream| stream.number), Some(number));
            }
            assert_eq!(streams.find(5), None);
        }
    }

    fn stream(number: u32) -> Stream<()> {
        Stream {
            number,
            data: (),
            priority: StreamPriority::default(),
            served: 0,
            send: Window::new(0),
            receive: Window::new(0),
            target: 0,
            owed: 0,
            left: None,
            head: 0,
            remote_ended: false,
            malformed: false,
            dropping: None,
        }
    }

    #[test]
    fn how_the_last_streams_were_closed_is_known() {
        let mut streams: Streams<()> = Streams::new();
        for number in (1..81).step_by(2) {
            streams.note_closed(number, number % 4 == 1);
        }
        assert_eq!((streams.closed(77), streams.closed(79)), (Closed::ByUs, Closed::ByPeer));
        // Of others it is known that they were before one that we reset.
        assert_eq!((streams.closed(49), streams.closed(47)), (Closed::ByUs, Closed::ByUs));
        (81..121).step_by(2).for_each(|number| streams.note_closed(number, false));
        assert_eq!((streams.closed(79), streams.closed(77)), (Closed::LongAgo, Closed::ByUs));
    }
}
