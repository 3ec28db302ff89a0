//! Whole responses that are ready, and what they are logged by.

use super::course::Course;
use crate::logging::{LogFormat, QuickLine};
use crate::program::ServerId;
use app::Body;
use exchange::{Asked, HeadWriter, Hot, JOINED_MAX, Ready, Reply};
use semantics::Status;
use semantics::date::HttpDate;
use std::sync::{Arc, Weak};

/// Responses that there is room for at first, and at most.
const ENTRIES_FIRST: usize = 8 << 10;
const ENTRIES_MAX: usize = 128 << 10;

/// What an entry takes beside its response, about.
const ENTRY_BYTES: usize = size_of::<ReadyEntry>() + size_of::<Course>() + 512;

/// Responses that are ready, bounded in number and bytes (CLOCK).
#[derive(Debug)]
pub(crate) struct ReadyTable {
    hot: Hot<u32>,
    entries: Vec<ReadyEntry>,
    hand: usize,
    bytes: usize,
    bytes_max: usize,
    /// Entries that `hot` is made for.
    entries_max: usize,
    /// The one that was asked for last.
    pub last: u32,
}

/// A response that is ready.
#[derive(Debug)]
pub(crate) struct ReadyEntry {
    /// The unix second that it was made for.
    second: u64,
    server: ServerId,
    /// What clients take that it is for.
    class: u8,
    /// It is that of requests without a query.
    no_query: bool,
    used: bool,
    ready: Ready,
    path: Box<[u8]>,
    /// Whose content it has, which is not held for that: that of another is
    /// another's.
    source: Weak<Vec<u8>>,
    /// What it is logged by.
    pub note: Note,
}

/// A request that was answered so, for the log: what all that are have in common,
/// and lines in which that stands already.
#[derive(Debug)]
pub(crate) struct Note {
    pub course: Box<Course>,
    /// Those of this second, by their places in the block's list.
    pub lines: Vec<LogFormat>,
    /// The same, each with its log's number, where plain heads have all that is left.
    pub quick: Vec<(u16, QuickLine)>,
    pub second: u64,
    /// Lines of this second before.
    pub count: u32,
}

impl ReadyTable {
    pub fn new(bytes_max: usize) -> Self {
        let hot = Hot::new(ENTRIES_FIRST, u32::MAX);
        Self { hot, entries: Vec::new(), hand: 0, bytes: 0, bytes_max, entries_max: ENTRIES_FIRST, last: 0 }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::new(self.bytes_max);
    }

    fn at<A: Asked>(&self, asked: &A, (server, class): (ServerId, u8)) -> Option<u32> {
        let path = asked.path();
        let at = self.hot.get(path, seed(server, class))?;
        let entry = self.entries.get(at as usize)?;
        (entry.server == server
            && entry.class == class
            && (!entry.no_query || !asked.has_query())
            && *entry.path == *path)
            .then_some(at)
    }

    /// The response to a request, if it is ready in this second.
    #[inline]
    pub fn get<A: Asked>(&mut self, asked: &A, (server, class): (ServerId, u8), second: u64) -> Option<&mut Ready> {
        let path = asked.path();
        let at = self.hot.get(path, seed(server, class))?;
        let entry = self.entries.get_mut(at as usize)?;
        if entry.second != second
            || entry.server != server
            || entry.class != class
            || (entry.no_query && asked.has_query())
        {
            return None;
        }
        entry.used = true;
        self.last = at;
        Some(&mut entry.ready)
    }

    /// Makes a response say that the connection closes.
    pub fn make_closing<A: Asked>(&mut self, asked: &A, whose: (ServerId, u8)) -> bool {
        let Some(at) = self.at(asked, whose) else { return false };
        let room = self.bytes_max.saturating_sub(self.bytes);
        let entry = &mut self.entries[at as usize];
        if entry.note.course.tells_keep_alive() {
            // That it does not.
            return false;
        }
        let Some(length) = entry.ready.make_closing(room) else { return false };
        self.bytes += length;
        true
    }

    /// What the response that was asked for last is logged by.
    /// And how long its head is.
    pub fn noted(&mut self) -> Option<(&mut Note, u64)> {
        let entry = self.entries.get_mut(self.last as usize)?;
        Some((&mut entry.note, entry.ready.head_len.into()))
    }

    /// Keeps the answer to a request, of content that begins at `start` of
    /// `source`.
    pub fn insert(
        &mut self,
        (raw, no_query, class): (&[u8], bool, u8),
        course: &Course,
        (source, start, length): (&Body, u32, u64),
        heads: &HeadWriter,
        (second, date): (u64, &HttpDate),
    ) {
        let fields = &course.sent.fields;
        let known = self.hot.get(raw, seed(course.server, class)).filter(|at| {
            let entry = &self.entries[*at as usize];
            entry.server == course.server && entry.class == class && *entry.path == *raw
        });
        if let Some(at) = known {
            let entry = &mut self.entries[at as usize];
            let same = entry.source.as_ptr().addr() == source.identity()
                && entry.note.course.sent.fields == *fields
                && entry.note.course.block == course.block
                && entry.no_query == no_query;
            if same {
                entry.ready.set_date(date, drop);
                entry.second = second;
                return;
            }
        }
        let Some(content) = source.as_slice().get(start as usize..start as usize + length as usize) else { return };
        let joined = content.len() <= JOINED_MAX;
        let mut message = Vec::with_capacity(512 + fields.len() + if joined { content.len() } else { 0 });
        heads.write_reply(&mut message, &Reply { status: Status::OK, length: Some(length), fields }, date);
        let head_len = message.len();
        let apart = if joined {
            message.extend_from_slice(content);
            None
        } else if start == 0 && source.len() as u64 == length {
            Some(source.clone())
        } else {
            return;
        };
        let bytes = message.len() + apart.as_ref().map_or(0, |body| body.len() as usize);
        if bytes > self.bytes_max / 4 {
            return;
        }
        let mut ready = Ready::new(message, head_len, heads.date_at(), apart);
        ready.series = course.series;
        ready.terms = course.loaded.program.terms.of_block(course.block);
        let entry = ReadyEntry {
            second,
            server: course.server,
            class,
            no_query,
            used: false,
            ready,
            path: raw.into(),
            source: Arc::downgrade(&source.bytes()),
            note: Note {
                course: Box::new(course.noted()),
                lines: Vec::new(),
                quick: Vec::new(),
                second: u64::MAX,
                count: 0,
            },
        };
        self.bytes += entry.bytes();
        let at = match known {
            Some(at) => self.replace(at as usize, entry),
            None => self.place(entry),
        };
        self.hot.insert(raw, seed(course.server, class), at);
        self.make_room(at as usize);
    }

    fn replace(&mut self, at: usize, entry: ReadyEntry) -> u32 {
        let old = core::mem::replace(&mut self.entries[at], entry);
        self.bytes -= old.bytes();
        at as u32
    }

    /// A place for one more.
    fn place(&mut self, entry: ReadyEntry) -> u32 {
        if self.entries.len() == self.entries_max && self.entries_max < ENTRIES_MAX {
            self.grow();
        }
        if self.entries.len() < self.entries_max {
            self.entries.push(entry);
            return self.entries.len() as u32 - 1;
        }
        loop {
            self.hand = (self.hand + 1) % self.entries.len();
            if !core::mem::take(&mut self.entries[self.hand].used) {
                return self.replace(self.hand, entry);
            }
        }
    }

    /// Makes room for twice as many: with many hosts all are asked for.
    #[cold]
    fn grow(&mut self) {
        self.entries_max *= 2;
        self.hot = Hot::new(self.entries_max, u32::MAX);
        for (at, entry) in self.entries.iter().enumerate() {
            self.hot.insert(&entry.path, seed(entry.server, entry.class), at as u32);
        }
    }

    /// Lets go of others until what is held is within its bounds.
    fn make_room(&mut self, but: usize) {
        let mut left = 2 * self.entries.len();
        while self.bytes > self.bytes_max && left > 0 {
            left -= 1;
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &mut self.entries[self.hand];
            if self.hand == but || core::mem::take(&mut entry.used) || entry.ready.message_len == 0 {
                continue;
            }
            let bytes = entry.bytes();
            entry.second = u64::MAX;
            entry.ready = Ready::new(Vec::new(), 0, 0, None);
            entry.source = Weak::new();
            self.bytes -= bytes;
        }
    }
}

impl ReadyEntry {
    fn bytes(&self) -> usize {
        if self.ready.message_len == 0 {
            // It was let go of.
            return 0;
        }
        let others = [self.ready.content.as_ref(), self.ready.closing.as_ref()].into_iter().flatten();
        ENTRY_BYTES + self.ready.message_len as usize + others.map(|body| body.len() as usize).sum::<usize>()
    }
}

/// Keeps one path of several servers and codings apart.
const fn seed(server: ServerId, class: u8) -> u64 {
    ((server.0 as u64) << 8 | class as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
