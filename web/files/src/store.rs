//! What is known of the paths below the root, and the content in memory.
//!
//! ```text
//!            ask            found
//!  (unknown) ───► (asked) ─────────► known ── revalidate passed ──► asked,
//!                                     ▲  still served meanwhile       │
//!                                     └───────────────────────────────┘
//! ```
//!
//! Bounded three ways: paths (CLOCK, those without a file included), bytes
//! (CLOCK), and bytes of content that was replaced or evicted while
//! connections still send it.

mod held;
mod late;
mod messages;

pub use messages::FileHead;

use crate::config::Directory;
use crate::identity::Identity;
use crate::ids::{EntryId, MessageId, Stamp, WorkId};
use crate::prepared::{Others, PreparedFile, retire};
use crate::shared_content::{Shared, SharedContent};
use crate::source::Source;
use crate::target::Key;
use crate::worker::{FileContent, Found, Known, LookError, Unread};
use app::{Body, Reads};
use core::time::Duration;
use exchange::{Hot, Meta, Ready};
use semantics::date::HttpDate;
use semantics::path::{PathError, normalise};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};
use wire::Time;

/// A path, and where it leads. What a ready response takes is in the first
/// cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Entry {
    /// The unix second in which `prepared` may be sent without another look;
    /// [`NEVER`] where there is more to it.
    second: u64,
    prepared: Option<PreparedFile>,
    /// Which message that is, of all that there were: none is 0, which those that have no
    /// head have, too.
    serial: u32,
    /// Sent since CLOCK's hand last passed.
    used: bool,
    /// The reader is looking.
    asked: bool,
    /// What it will find may have been so before [`Store::expire`] only.
    early: bool,
    generation: u32,
    /// How often what is known of it was replaced.
    version: u32,
    /// Which look it is that the reader is at, or was.
    look: u32,
    /// That look takes too long, and of which device it is, if that is known.
    late: Option<Option<u64>>,
    /// When the reader was last asked, with an answer.
    checked: Time,
    asked_at: Time,
    /// None in a vacant place.
    key: Option<Key>,
    known: Option<Known>,
    pub kind: Kind,
    pub waiters: Vec<WorkId>,
}

const _: () = assert!(core::mem::offset_of!(Entry, serial) < 60 && core::mem::offset_of!(Entry, used) < 64);

/// No second: see [`Entry::second`].
const NEVER: u64 = u64::MAX;

/// Where a path leads.
#[derive(Debug)]
pub enum Kind {
    /// Not known yet.
    Unknown,
    /// Content in memory: see [`Entry::prepared`].
    Content(Meta),
    /// A file to be streamed.
    Large { meta: Meta, identity: Identity, path: Arc<[u8]>, live: Weak<Source> },
    /// A directory, asked for without its slash.
    Directory,
    /// Nothing.
    Missing,
    /// Not to be served.
    Forbidden,
    /// The same, and it is known what it is.
    Unread(Unread),
    /// The file system failed.
    Failed(Option<LookError>),
}

/// How an entry may be used now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freshness {
    /// As it is.
    Fresh,
    /// As it is, but it is to be checked.
    Check,
    /// Not before it was checked.
    Wait,
}

/// Every place for a path is taken by one that is being looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// Why a path has no entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoEntry {
    Refused(PathError),
    Full(Full),
}

/// The paths below one root.
#[derive(Debug)]
pub struct Store {
    pub hot: Hot<MessageId>,
    /// The serial of the next message, and of the first that is still to be sent.
    next_serial: u32,
    first_serial: u32,
    entries: Vec<Entry>,
    free: Vec<u32>,
    by_key: HashMap<Key, u32>,
    /// CLOCK's hand.
    hand: usize,
    /// Content in memory, and what of it is only held for being sent.
    bytes: usize,
    retired: Vec<Body>,
    retired_bytes: usize,
    pub asked: usize,
    pub looks: u64,
    pub evictions: u64,
    bytes_max: usize,
    entries_max: usize,
    revalidate: Duration,
    scratch: Vec<u8>,
    others: Option<Others>,
    /// [`SharedContent::taken_off`] when it was last looked at.
    taken_off: u64,
    looking: late::Looking,
}

impl Store {
    pub fn new(directory: &Directory) -> Self {
        let others = directory.shared_content.clone().map(Others::new);
        // Nobody is to aim at a bucket.
        let keys = RandomState::new();
        Self {
            hot: Hot::new(directory.cache_entries, [keys.hash_one(0), keys.hash_one(1)]),
            next_serial: 1,
            first_serial: 1,
            entries: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            hand: 0,
            bytes: 0,
            retired: Vec::new(),
            retired_bytes: 0,
            asked: 0,
            looks: 0,
            evictions: 0,
            bytes_max: directory.cache_bytes,
            entries_max: directory.cache_entries,
            revalidate: directory.revalidate,
            scratch: Vec::new(),
            taken_off: 0,
            looking: late::Looking::default(),
            others,
        }
    }

    /// The message to send as it is, if it is fit for that in this unix second.
    #[inline]
    pub fn ready(&mut self, id: MessageId, second: u64) -> Option<&mut Ready> {
        let found = self.entries.get_mut(id.slot as usize)?;
        if found.second != second || found.serial != id.serial {
            return None;
        }
        found.used = true;
        Some(&mut found.prepared.as_mut()?.ready)
    }

    /// Content of other domains that was sent, by domain.
    pub fn far_reads(&self) -> impl Iterator<Item = (u16, &Reads)> {
        let domains = self.others.iter().flat_map(|others| &others.domains);
        domains.map(|(domain, reads)| (*domain, &**reads))
    }

    /// The entry for a path as sent, made if there is none.
    pub fn find(&mut self, path: &[u8]) -> Result<EntryId, NoEntry> {
        let mut key = core::mem::take(&mut self.scratch);
        let found =
            normalise(path, &mut key).map_err(NoEntry::Refused).and_then(|()| match self.by_key.get(key.as_slice()) {
                Some(&slot) => Ok(slot),
                None => self.add(Key::of(&key)).map_err(NoEntry::Full),
            });
        self.scratch = key;
        found.map(|slot| EntryId { slot, generation: self.entries[slot as usize].generation })
    }

    /// The entry of a path that is a key as it is.
    pub fn find_exact(&mut self, key: &[u8]) -> Result<EntryId, Full> {
        let slot = match self.by_key.get(key) {
            Some(&slot) => slot,
            None => self.add(Key::of(key))?,
        };
        Ok(EntryId { slot, generation: self.entries[slot as usize].generation })
    }

    /// What is known of a path that is a key as it is turned out to be wrong.
    pub fn forget_exact(&mut self, key: &[u8]) {
        if let Ok(id) = self.find_exact(key) {
            self.forget_entry(id);
        }
    }

    /// CLOCK passes the entry by once. Not done for the request that made it:
    /// a client that asks for ever other paths replaces its own entries first.
    pub fn mark_used(&mut self, id: EntryId) {
        self.entries[id.slot as usize].used = true;
    }

    pub fn entry(&mut self, id: EntryId) -> &mut Entry {
        &mut self.entries[id.slot as usize]
    }

    /// What is known of it now.
    pub fn stamp(&self, id: EntryId) -> Stamp {
        Stamp { entry: id, version: self.entries[id.slot as usize].version }
    }

    /// Whether what is known of it is what was known then.
    pub fn is_still(&self, stamp: Stamp) -> bool {
        let entry = self.entries.get(stamp.entry.slot as usize);
        entry.is_some_and(|entry| (entry.generation, entry.version) == (stamp.entry.generation, stamp.version))
    }

    /// How the entry may be used at `now`.
    pub fn freshness(&self, id: EntryId, now: Time) -> Freshness {
        let entry = &self.entries[id.slot as usize];
        if matches!(entry.kind, Kind::Unknown) {
            return Freshness::Wait;
        }
        let age = now.since(entry.checked);
        if age < self.revalidate {
            Freshness::Fresh
        } else if age < self.revalidate + Duration::from_secs(1) && !matches!(entry.kind, Kind::Failed(_)) {
            Freshness::Check
        } else {
            Freshness::Wait
        }
    }

    /// Makes the entry's message carry `date`, the date of `second`, and be
    /// sent by [`Store::ready`] until the second is over. In place, unless
    /// the message is still on its way to someone.
    pub fn refresh(&mut self, id: EntryId, second: u64, date: &HttpDate) {
        let entry = &mut self.entries[id.slot as usize];
        let Some(prepared) = &mut entry.prepared else { return };
        entry.second = second;
        prepared.ready.set_date(date, |old| {
            // The new one counts in its place.
            self.retired_bytes += old.len() as usize;
            self.retired.push(old);
        });
    }

    /// Makes the entry's message for connections that close; false if there
    /// is no message, or no room in memory for another.
    pub fn make_closing(&mut self, id: EntryId) -> bool {
        let room = self.bytes_max.saturating_sub(self.bytes);
        let Some(prepared) = &mut self.entries[id.slot as usize].prepared else { return false };
        let Some(length) = prepared.ready.make_closing(room) else { return false };
        self.bytes += length;
        true
    }

    /// The look at `entry` begins; what to tell the reader.
    pub fn ask(&mut self, id: EntryId, now: Time) -> Option<(Key, Option<Known>)> {
        let entry = &mut self.entries[id.slot as usize];
        let key = entry.key.clone()?;
        self.asked += 1;
        entry.asked = true;
        entry.asked_at = now;
        entry.look = self.looking.begin(id, now);
        Some((key, entry.known.clone()))
    }

    /// What the look found. Returns who waited for it, and whether content
    /// that was known before is now another.
    pub fn on_found(&mut self, id: EntryId, found: Found) -> (Vec<WorkId>, bool) {
        self.asked -= 1;
        self.looks += 1;
        self.end_look(id);
        let before = self.etag(id);
        let entry = &mut self.entries[id.slot as usize];
        entry.asked = false;
        entry.checked = entry.asked_at;
        let still = match (&entry.kind, &found) {
            (Kind::Missing, Found::Missing)
            | (Kind::Directory, Found::Directory)
            | (Kind::Forbidden, Found::Forbidden) => true,
            (Kind::Unread(before), Found::Unread(now)) => before == now,
            _ => false,
        };
        if !matches!(found, Found::Unchanged) {
            entry.version = entry.version.wrapping_add(u32::from(!still));
            entry.second = NEVER;
            entry.known = None;
            let old = entry.prepared.take();
            entry.kind = Kind::Unknown;
            self.retire(old);
            self.take_in(id, found);
        }
        let changed = before.is_some() && before != self.etag(id);
        (core::mem::take(&mut self.entries[id.slot as usize].waiters), changed)
    }

    /// Who waits for a look at what is in memory.
    pub fn take_waiters(&mut self) -> Vec<(EntryId, Vec<WorkId>)> {
        let waited = |(slot, entry): (usize, &mut Entry)| {
            let waits = entry.is_in_memory() && !entry.waiters.is_empty();
            let id = EntryId { slot: slot as u32, generation: entry.generation };
            waits.then(|| (id, core::mem::take(&mut entry.waiters)))
        };
        self.entries.iter_mut().enumerate().filter_map(waited).collect()
    }

    /// Whether the look that is over began before what is known was to be
    /// looked at again; told once.
    pub fn take_early(&mut self, id: EntryId) -> bool {
        core::mem::take(&mut self.entries[id.slot as usize].early)
    }

    /// What is known of a path turned out to be wrong.
    pub fn forget(&mut self, path: &[u8]) {
        if let Ok(id) = self.find(path) {
            self.forget_entry(id);
        }
    }

    /// What is known of an entry turned out to be wrong.
    pub fn forget_entry(&mut self, id: EntryId) {
        let entry = &mut self.entries[id.slot as usize];
        entry.version = entry.version.wrapping_add(1);
        entry.second = NEVER;
        entry.known = None;
        entry.kind = Kind::Unknown;
        let old = entry.prepared.take();
        self.retire(old);
    }

    /// At most so many bytes of content from now on.
    pub fn set_limit(&mut self, bytes: usize) {
        self.bytes_max = bytes;
        self.make_room(0);
    }

    /// Nothing is sent any more without another look at its file.
    pub fn expire(&mut self) {
        for entry in &mut self.entries {
            entry.second = NEVER;
            entry.checked = Time::ZERO;
            // A look that is under way may have been too early.
            entry.asked_at = Time::ZERO;
            entry.early = entry.asked;
        }
    }

    fn take_in(&mut self, id: EntryId, found: Found) {
        let (kind, known) = match found {
            Found::File(file) => {
                let FileContent { meta, identity, racy, message, head_len, date_at, content } = *file;
                let known = Known { identity, racy, content: content.clone() };
                let prepared = PreparedFile::new((message, head_len, date_at), content, self.others.as_ref());
                self.make_room(prepared.bytes());
                self.bytes += prepared.bytes();
                let serial = if head_len > 0 { self.new_serial() } else { 0 };
                let entry = &mut self.entries[id.slot as usize];
                (entry.prepared, entry.serial) = (Some(prepared), serial);
                (Kind::Content(meta), Some(known))
            }
            Found::Large { meta, identity, path } => (
                Kind::Large { meta, identity, path, live: Weak::new() },
                Some(Known { identity, racy: false, content: None }),
            ),
            Found::Directory => (Kind::Directory, None),
            Found::Missing => (Kind::Missing, None),
            Found::Forbidden => (Kind::Forbidden, None),
            Found::Unread(what) => (Kind::Unread(what), None),
            // `Unchanged` is told only of what is known.
            Found::Unchanged => (Kind::Failed(None), None),
            Found::Failed(why) => (Kind::Failed(why), None),
        };
        let entry = &mut self.entries[id.slot as usize];
        entry.kind = kind;
        entry.known = known;
    }

    fn etag(&self, id: EntryId) -> Option<String> {
        match &self.entries[id.slot as usize].kind {
            Kind::Content(meta) | Kind::Large { meta, .. } => Some(meta.file.as_ref()?.etag.clone()),
            _ => None,
        }
    }

    /// Once per second: lets go of what is no longer being sent, and of what
    /// was taken off the shelves.
    pub fn sweep(&mut self) {
        let retired_bytes = &mut self.retired_bytes;
        self.retired.retain(|body| {
            let free = body.is_free();
            *retired_bytes -= if free { body.len() as usize } else { 0 };
            !free
        });
        let Some(shared_content) = self.others.as_ref().map(|others| &others.member.shared_content) else { return };
        let taken_off = SharedContent::taken_off(shared_content);
        if taken_off != self.taken_off {
            self.let_go(taken_off);
        }
    }

    /// Forgets content that was taken off the shelves.
    #[cold]
    fn let_go(&mut self, taken_off: u64) {
        let mut all = true;
        for entry in &mut self.entries {
            let content = entry.known.as_ref().and_then(|known| known.content.as_ref());
            if content.is_none_or(Shared::is_kept) {
                continue;
            }
            if entry.asked {
                // The answer says what is to come in its place; if that is
                // nothing, the next time.
                all = false;
                continue;
            }
            entry.version = entry.version.wrapping_add(1);
            entry.second = NEVER;
            entry.known = None;
            entry.kind = Kind::Unknown;
            let old = entry.prepared.take();
            retire(old, &mut self.bytes, &mut self.retired, &mut self.retired_bytes);
        }
        if all {
            self.taken_off = taken_off;
        }
    }

    /// Every path is looked up before it is used again, whatever is known.
    pub fn forget_all(&mut self) {
        for entry in &mut self.entries {
            if entry.asked || entry.key.is_none() {
                continue;
            }
            entry.version = entry.version.wrapping_add(1);
            entry.second = NEVER;
            entry.known = None;
            entry.kind = Kind::Unknown;
            let old = entry.prepared.take();
            retire(old, &mut self.bytes, &mut self.retired, &mut self.retired_bytes);
        }
    }

    /// A place for a new path.
    fn add(&mut self, key: Key) -> Result<u32, Full> {
        if self.by_key.len() >= self.entries_max {
            self.evict(|_| true).ok_or(Full)?;
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.entries.push(Entry::vacant());
                self.entries.len() as u32 - 1
            }
        };
        self.entries[slot as usize].key = Some(key.clone());
        self.by_key.insert(key, slot);
        Ok(slot)
    }

    /// Another than all before, as far as anybody remembers.
    fn new_serial(&mut self) -> u32 {
        let serial = self.next_serial;
        self.next_serial = serial.wrapping_add(1).max(1);
        serial
    }

    /// Evicts until `bytes` more fit.
    fn make_room(&mut self, bytes: usize) {
        while self.bytes + bytes > self.bytes_max && self.evict(|entry| entry.prepared.is_some()).is_some() {}
    }

    /// CLOCK: takes out the first entry under the hand that is `fit` for it
    /// and was not used since the hand last passed.
    fn evict(&mut self, fit: impl Fn(&Entry) -> bool) -> Option<()> {
        for _ in 0..2 * self.entries.len() {
            self.hand = (self.hand + 1) % self.entries.len();
            let entry = &mut self.entries[self.hand];
            let Some(key) = &entry.key else { continue };
            let stays = entry.asked || !fit(entry);
            if stays || core::mem::take(&mut entry.used) {
                continue;
            }
            self.by_key.remove(key);
            let generation = entry.generation.wrapping_add(1);
            let old = core::mem::replace(entry, Entry { generation, ..Entry::vacant() });
            self.free.push(self.hand as u32);
            self.retire(old.prepared);
            self.evictions += 1;
            return Some(());
        }
        None
    }

    fn retire(&mut self, old: Option<PreparedFile>) {
        retire(old, &mut self.bytes, &mut self.retired, &mut self.retired_bytes);
    }
}

impl Entry {
    fn vacant() -> Self {
        Self {
            second: NEVER,
            prepared: None,
            serial: 0,
            generation: 0,
            used: false,
            asked: false,
            early: false,
            version: 0,
            look: 0,
            late: None,
            checked: Time::ZERO,
            asked_at: Time::ZERO,
            key: None,
            known: None,
            kind: Kind::Unknown,
            waiters: Vec::new(),
        }
    }

    /// The 200 response, if the content is in memory.
    pub fn prepared(&self) -> Option<&PreparedFile> {
        self.prepared.as_ref()
    }

    /// Whether it can be answered without the file system, however old it is.
    pub fn is_in_memory(&self) -> bool {
        match self.kind {
            Kind::Content(_) | Kind::Directory | Kind::Missing | Kind::Forbidden | Kind::Unread(_) => true,
            Kind::Unknown | Kind::Large { .. } | Kind::Failed(_) => false,
        }
    }

    /// Whether the reader is looking.
    pub fn is_asked(&self) -> bool {
        self.asked
    }

    /// What was found, if it is a file.
    pub fn known(&self) -> Option<&Known> {
        self.known.as_ref()
    }

    /// The mode of the file that it leads to.
    pub fn mode(&self) -> Option<u32> {
        self.known.as_ref().map(|known| known.identity.attributes.1)
    }

    /// The normalised path.
    pub fn path(&self) -> &[u8] {
        self.key.as_ref().map_or(b"", |key| key.as_bytes())
    }
}
