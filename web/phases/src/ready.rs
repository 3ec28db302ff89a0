//! Whole responses that are ready, and what they are logged by.

use super::request_state::{Depends, RequestState};
use app::Body;
use configuration::logging::{LogFormat, QuickLine};
use configuration::program::ServerId;
use exchange::{Asked, HeadWriter, Index, JOINED_MAX, Ready, Reply};
use files::Stamp;
use semantics::Status;
use semantics::date::HttpDate;
use std::sync::{Arc, Weak};

/// Responses that there is room for at first, and at most.
const ENTRIES_FIRST: usize = 8 << 10;
const ENTRIES_MAX: usize = 128 << 10;

/// What an entry takes beside its response, about.
const ENTRY_BYTES: usize = size_of::<ReadyEntry>() + size_of::<RequestState>() + 512;

/// Responses that are ready, bounded in number and bytes (CLOCK).
#[derive(Debug)]
pub(crate) struct ReadyTable {
    index: Index,
    keys: [u64; 2],
    entries: Vec<ReadyEntry>,
    hand: usize,
    bytes: usize,
    bytes_max: usize,
    /// Entries that `index` is made for.
    entries_max: usize,
    /// The one that was asked for last.
    pub last: u32,
}

/// A response that is ready. What a look takes is in the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct ReadyEntry {
    /// The unix second that it was made for, or dated.
    second: u64,
    path: Box<[u8]>,
    server: ServerId,
    /// What clients take that it is for.
    class: u8,
    /// It is that of requests without a query.
    no_query: bool,
    used: bool,
    ready: Ready,
    hash: u64,
    /// How it is dated anew; none where it is made anew.
    lasting: Option<Box<Lasting>>,
    /// Whose content it has, which is not held for that: that of another is
    /// another's.
    source: Weak<Vec<u8>>,
    /// What it is logged by.
    pub note: Note,
}

/// What an answer depends on that is the same in all seconds, but for its dates.
#[derive(Debug)]
struct Lasting {
    /// Where paths led that decided of it.
    stamps: Vec<Stamp>,
    /// Where in the head `Expires` has its date, and how many seconds after the
    /// answer's that is.
    expires: Option<(u16, i64)>,
}

/// A request that was answered so, for the log: what all that are have in common,
/// and lines in which that stands already.
#[derive(Debug)]
pub(crate) struct Note {
    pub state: Box<RequestState>,
    /// Those of this second, by their places in the block's list.
    pub lines: Vec<LogFormat>,
    /// The same, each with its log's number, where plain heads have all that is left.
    pub quick: Vec<(u16, QuickLine)>,
    /// The authority of the request that they were prepared at, and its `$host`, of which no
    /// log writes anything otherwise.
    pub host: Option<(Vec<u8>, Vec<u8>)>,
    pub second: u64,
    /// Lines of this second before.
    pub count: u32,
}

impl ReadyTable {
    /// At most `bytes_max` are held; `keys` are secret.
    pub fn new(bytes_max: usize, keys: [u64; 2]) -> Self {
        let index = Index::new(ENTRIES_FIRST, keys);
        Self { index, keys, entries: Vec::new(), hand: 0, bytes: 0, bytes_max, entries_max: ENTRIES_FIRST, last: 0 }
    }

    /// Whether nothing is ready.
    #[inline(always)]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::new(self.bytes_max, self.keys);
    }

    #[inline(always)]
    fn at(&self, path: &[u8], (server, class): (ServerId, u8)) -> Option<u32> {
        let hash = self.index.hash(path, seed(server, class));
        self.index.find(hash, |at| self.entries.get(at as usize).is_some_and(|entry| entry.is(path, (server, class))))
    }

    /// Where the response to a request is, if there is one.
    #[inline(always)]
    pub fn find<A: Asked>(&self, asked: &A, whose: (ServerId, u8)) -> Option<u32> {
        let at = self.at(asked.path(), whose)?;
        let entry = self.entries.get(at as usize)?;
        (!entry.no_query || !asked.has_query()).then_some(at)
    }

    /// The response at this place, if it is ready in this second.
    #[inline(always)]
    pub fn take(&mut self, at: u32, second: u64) -> Option<&mut Ready> {
        let entry = self.entries.get_mut(at as usize)?;
        if entry.second != second {
            return None;
        }
        entry.used = true;
        self.last = at;
        Some(&mut entry.ready)
    }

    /// Whether that at this place is of an earlier second, and may be of this one if
    /// it is dated anew.
    #[inline(always)]
    pub fn is_lasting(&self, at: u32, second: u64) -> bool {
        self.entries.get(at as usize).is_some_and(|entry| entry.second != second && entry.lasting.is_some())
    }

    /// Dates that at this place anew, if all paths that decided of it lead where they
    /// led.
    #[cold]
    #[inline(never)]
    pub fn date_anew(&mut self, at: u32, (second, date): (u64, &HttpDate), mut is_still: impl FnMut(Stamp) -> bool) {
        let Some(entry) = self.entries.get_mut(at as usize) else { return };
        let Some(lasting) = &entry.lasting else { return };
        // All are asked for that are old.
        let changed = lasting.stamps.iter().filter(|stamp| !is_still(**stamp)).count();
        if changed > 0 {
            entry.lasting = None;
            return;
        }
        let expires = lasting.expires.map(|(at, after)| (at, dated_after(second, after)));
        if let Some((_, date)) = &expires {
            let fields = &mut entry.note.state.sent.fields;
            if let Some(place) = expires_in(fields).and_then(|at| fields.get_mut(at..at + date.as_bytes().len())) {
                place.copy_from_slice(date.as_bytes());
            }
        }
        entry.ready.set_dates(date, expires, drop);
        entry.second = second;
    }

    /// Makes a response say that the connection closes.
    pub fn make_closing<A: Asked>(&mut self, asked: &A, whose: (ServerId, u8)) -> bool {
        let Some(at) = self.find(asked, whose) else { return false };
        let room = self.bytes_max.saturating_sub(self.bytes);
        let entry = &mut self.entries[at as usize];
        if entry.note.state.tells_keep_alive() {
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
        state: &RequestState,
        (source, start, length): (&Body, u32, u64),
        heads: &HeadWriter,
        (second, date): (u64, &HttpDate),
    ) {
        let fields = &state.sent.fields;
        let known = self.at(raw, (state.route.server, class));
        if let Some(at) = known {
            let entry = &mut self.entries[at as usize];
            let same = entry.source.as_ptr().addr() == source.identity()
                && entry.note.state.sent.fields == *fields
                && entry.note.state.route.block == state.route.block
                && entry.no_query == no_query;
            if same {
                entry.ready.set_date(date, drop);
                entry.second = second;
                entry.lasting = lasting(state, entry.ready.head(), second);
                return;
            }
        }
        let Some(mut ready) = composed((source, start, length), fields, heads, date) else { return };
        if ready.message_len as usize + ready.content.as_ref().map_or(0, |body| body.len() as usize)
            > self.bytes_max / 4
        {
            return;
        }
        ready.series = state.settings.series.unwrap_or(Ready::OF_HOST);
        ready.terms = state.loaded.program.terms.of_block(state.route.block);
        let hash = self.index.hash(raw, seed(state.route.server, class));
        let entry = ReadyEntry {
            second,
            path: raw.into(),
            server: state.route.server,
            class,
            no_query,
            used: false,
            lasting: lasting(state, ready.head(), second),
            ready,
            hash,
            source: Arc::downgrade(&source.bytes()),
            note: Note {
                state: Box::new(state.noted()),
                lines: Vec::new(),
                quick: Vec::new(),
                host: None,
                second: u64::MAX,
                count: 0,
            },
        };
        self.bytes += entry.bytes();
        let at = match known {
            Some(at) => self.replace(at as usize, entry),
            None => self.place(entry),
        };
        if known.is_none() {
            self.index.insert(hash, at);
        }
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
                self.index.remove(self.entries[self.hand].hash, self.hand as u32);
                return self.replace(self.hand, entry);
            }
        }
    }

    /// Makes room for twice as many: with many hosts all are asked for.
    #[cold]
    fn grow(&mut self) {
        self.entries_max *= 2;
        self.index = Index::new(self.entries_max, self.keys);
        for (at, entry) in self.entries.iter().enumerate() {
            self.index.insert(entry.hash, at as u32);
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
            entry.lasting = None;
            entry.ready = Ready::new(Vec::new(), 0, 0, None);
            entry.source = Weak::new();
            self.bytes -= bytes;
        }
    }
}

impl ReadyEntry {
    #[inline(always)]
    fn is(&self, path: &[u8], (server, class): (ServerId, u8)) -> bool {
        self.server == server && self.class == class && exchange::equal_paths(&self.path, path)
    }

    fn bytes(&self) -> usize {
        if self.ready.message_len == 0 {
            // It was let go of.
            return 0;
        }
        let others = [self.ready.content.as_ref(), self.ready.closing.as_ref()].into_iter().flatten();
        ENTRY_BYTES + self.ready.message_len as usize + others.map(|body| body.len() as usize).sum::<usize>()
    }
}

/// A whole response with these fields, of content that begins at `start` of `source`.
fn composed(
    (source, start, length): (&Body, u32, u64),
    fields: &[u8],
    heads: &HeadWriter,
    date: &HttpDate,
) -> Option<Ready> {
    let content = source.as_slice().get(start as usize..start as usize + length as usize)?;
    let joined = content.len() <= JOINED_MAX;
    let mut message = Vec::with_capacity(512 + fields.len() + if joined { content.len() } else { 0 });
    heads.write_reply(&mut message, &Reply { status: Status::OK, length: Some(length), fields, reason: None }, date);
    let head_len = message.len();
    let apart = if joined {
        message.extend_from_slice(content);
        None
    } else if start == 0 && source.len() as u64 == length {
        Some(source.clone())
    } else {
        return None;
    };
    Some(Ready::new(message, head_len, heads.date_at(), apart))
}

/// How the answer to a request is dated anew, if it can be: whose files are known, or that is
/// text, and whose dates are, in this `head`.
fn lasting(state: &RequestState, head: &[u8], second: u64) -> Option<Box<Lasting>> {
    if state.reuse.depends.has(Depends::SECOND) || state.reuse.stamps.is_empty() && !state.sent.is_text {
        return None;
    }
    let expires = match state.reuse.expires_after {
        None => None,
        Some(after) => {
            let at = expires_in(head)?;
            // Somebody else may have written it.
            let is_dated = head.get(at..)?.starts_with(dated_after(second, after).as_bytes());
            Some((is_dated.then_some(u16::try_from(at).ok()?)?, after))
        }
    };
    Some(Box::new(Lasting { stamps: state.reuse.stamps.clone(), expires }))
}

/// Where the value of the one `Expires` begins.
fn expires_in(lines: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"Expires: ";
    let begins = |at: usize| at == 0 || lines.get(at - 1) == Some(&b'\n');
    let mut found = lines.windows(NAME.len()).enumerate().filter(|(at, here)| *here == NAME && begins(*at));
    let (at, _) = found.next()?;
    found.next().is_none().then_some(at + NAME.len())
}

/// The date so many seconds after this one.
fn dated_after(second: u64, after: i64) -> HttpDate {
    HttpDate::from_unix(second.saturating_add_signed(after))
}

/// Keeps one path of several servers and codings apart.
const fn seed(server: ServerId, class: u8) -> u64 {
    ((server.0 as u64) << 8 | class as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests;
