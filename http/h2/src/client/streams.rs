//! The requests under way, by place and by stream.

use std::ops::Range;

/// A free place's stream.
const FREE: u32 = 0;

/// No length is known.
const UNKNOWN: u64 = u64::MAX;

/// A request under way.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    id: u32,
    /// The status of the final head, once that has come.
    status: u16,
    is_head: bool,
    /// It waits its turn to send content.
    queued: bool,
    /// What the server said that the content has.
    told: u64,
    /// Bytes of content that came.
    content: u64,
    /// Bytes that came since its window was last opened.
    received: u32,
    /// Bytes that may come, where windows are opened by who takes them.
    opened: u32,
    /// Bytes that the server takes.
    window: i64,
    /// Bytes of the request's content, and how many of them are still to be sent.
    whole: u64,
    left: u64,
}

/// What a request's stream begins with.
pub(super) struct Content {
    pub left: u64,
    pub is_head: bool,
    pub window: i64,
}

/// What became of bytes that came.
pub(super) enum Counted {
    /// Nothing is to be said.
    Fine,
    /// The window is half used: this much is to be given back.
    GiveBack(u32),
    /// More came than the window allowed.
    Beyond,
}

#[derive(Debug)]
pub(super) struct Streams {
    places: Vec<Stream>,
    free: Vec<u16>,
    /// Where a stream is likely to be, by the lowest bits of its number.
    likely: Box<[u16]>,
}

impl Streams {
    pub fn new(most: u16) -> Self {
        let likely = (2 * usize::from(most)).next_power_of_two();
        Self {
            places: vec![Stream::default(); usize::from(most)],
            free: (0..most).rev().collect(),
            likely: vec![0; likely].into(),
        }
    }

    #[inline]
    pub fn open(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub fn places(&self) -> impl Iterator<Item = u16> {
        (0..).zip(&self.places).filter(|(_, stream)| stream.id != FREE).map(|(place, _)| place)
    }

    #[inline]
    fn likely_at(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.likely.len() - 1)
    }

    #[inline]
    pub fn take(&mut self, id: u32, content: Content) -> Option<u16> {
        let place = self.free.pop()?;
        let at = self.likely_at(id);
        self.likely[at] = place;
        let Content { left, is_head, window } = content;
        self.places[usize::from(place)] =
            Stream { id, is_head, told: UNKNOWN, window, whole: left, left, ..Stream::default() };
        Some(place)
    }

    /// The place of a stream that is open.
    #[inline]
    pub fn find(&self, id: u32) -> Option<u16> {
        let likely = self.likely[self.likely_at(id)];
        if self.places.get(usize::from(likely))?.id == id {
            return Some(likely);
        }
        // Another that began much later has its place there.
        self.places().find(|place| self.places[usize::from(*place)].id == id)
    }

    #[inline]
    pub fn release(&mut self, place: u16) {
        self.places[usize::from(place)].id = FREE;
        self.free.push(place);
    }

    pub fn above(&self, last: u32) -> Option<u16> {
        self.places().find(|place| self.places[usize::from(*place)].id > last)
    }

    #[inline]
    fn get(&mut self, place: u16) -> &mut Stream {
        &mut self.places[usize::from(place)]
    }

    /// The status of the answer; 0 before its head.
    #[inline]
    pub fn status(&self, place: u16) -> u16 {
        self.places[usize::from(place)].status
    }

    #[inline]
    pub fn set_head(&mut self, place: u16, status: u16, told: Option<u64>) {
        let stream = self.get(place);
        stream.status = status;
        stream.told = told.unwrap_or(UNKNOWN);
    }

    /// Bytes of content that came.
    #[inline]
    pub fn content(&self, place: u16) -> u64 {
        self.places[usize::from(place)].content
    }

    #[inline]
    pub fn add_content(&mut self, place: u16, bytes: usize) {
        self.get(place).content += bytes as u64;
    }

    /// Whether the content is as long as its head said (RFC 9113 section 8.1.1).
    #[inline]
    pub fn is_whole(&self, place: u16) -> bool {
        let stream = &self.places[usize::from(place)];
        // Such answers have the length that another would have (RFC 9110 section 8.6).
        let none = stream.is_head || stream.status == 304;
        stream.told == UNKNOWN || stream.told == stream.content || none && stream.content == 0
    }

    /// A request's content that is not sent, though it is answered.
    #[inline]
    pub fn unsent(&self, place: u16) -> bool {
        self.places[usize::from(place)].left > 0
    }

    #[inline]
    pub fn id(&self, place: u16) -> u32 {
        self.places[usize::from(place)].id
    }

    /// Payload came on a stream of ours, whose window is `most`.
    #[inline]
    pub fn receive(&mut self, place: u16, length: u32, most: u32) -> Counted {
        let stream = self.get(place);
        count(&mut stream.received, length, most)
    }

    /// Payload came on a stream whose window is opened by who takes what comes. Whether it had room for it.
    #[inline]
    pub fn spend(&mut self, place: u16, length: u32) -> bool {
        let stream = self.get(place);
        let left = stream.opened.checked_sub(length);
        stream.opened = left.unwrap_or(0);
        left.is_some()
    }

    /// Bytes that may come on such a stream.
    pub fn opened(&self, place: u16) -> u32 {
        self.places[usize::from(place)].opened
    }

    pub fn open_window(&mut self, place: u16, bytes: u32) {
        self.get(place).opened += bytes;
    }

    pub fn set_queued(&mut self, place: u16, queued: bool) {
        self.get(place).queued = queued;
    }

    /// The next of a request's content, `most` bytes: its stream, which bytes, and whether they are
    /// the last. Its turn is over.
    pub fn take_content(&mut self, place: u16, most: i64) -> Option<(u32, Range<u64>, bool)> {
        let stream = self.get(place);
        stream.queued = false;
        let length = most.min(stream.window).min(i64::try_from(stream.left).unwrap_or(i64::MAX));
        if stream.id == FREE || length <= 0 {
            return None;
        }
        let from = stream.whole - stream.left;
        stream.left -= length as u64;
        stream.window -= length;
        Some((stream.id, from..from + length as u64, stream.left == 0))
    }

    /// The server takes more on a stream. Whether that has content to send, and was not waiting for
    /// its turn; nothing where the window is too large.
    pub fn widen(&mut self, place: u16, more: i64) -> Option<bool> {
        let stream = self.get(place);
        stream.window += more;
        if stream.window > super::WINDOW_LIMIT {
            return None;
        }
        let waits = stream.window > 0 && stream.left > 0 && !stream.queued;
        stream.queued |= waits;
        Some(waits)
    }
}

/// Counts what came against a window of `most`.
#[inline]
pub(super) fn count(received: &mut u32, length: u32, most: u32) -> Counted {
    *received += length;
    if *received > most {
        Counted::Beyond
    } else if *received > most / 2 {
        Counted::GiveBack(core::mem::take(received))
    } else {
        Counted::Fine
    }
}
