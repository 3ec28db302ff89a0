//! Files for a handler that decides by itself which file a request is answered
//! with: it asks where a path of the file system leads, takes content from
//! memory, or has it streamed. What has to be waited for, it is told of later.

use crate::Files;
use crate::config::{Directory, SMALL_CHUNK};
use crate::cut::{CutOutcome, cut_memory};
use crate::cuts::{CutAsked, Cutting};
use crate::excerpt::Excerpt;
use crate::folder::{Listing, RealPath};
use crate::ids::{EntryId, Stamp, WorkId};
use crate::reader::{CutOf, Job};
use crate::store::{Entry, FileHead, Freshness, Kind};
use crate::stream::{Layout, Rate, RateKept};
use crate::work::Work;
use crate::worker::{LookError, Unread};
use app::Body;
use exchange::{Composed, ExchangeId, ExchangeSettings, Meta, Replies};
use mp4::{Cutter, Span};
use semantics::Request;
use std::sync::Arc;
use wire::Time;

/// Files that are being cut at once, for each of which so much may be held as the largest head
/// has; others wait.
const AT_ONCE: usize = 4;

/// Content in memory of up to so many bytes is cut at once.
const AT_HAND: u64 = 64 << 10;

/// Where a path leads, known within the turn in which it was asked for.
#[derive(Clone, Copy, Debug)]
pub struct FileId(EntryId);

/// Whether it is known where a path leads.
#[derive(Clone, Copy, Debug)]
pub enum Look {
    /// It is.
    Known(FileId),
    /// It will be: [`Files::next_woken`] tells. Until then the exchange has this
    /// mark for [`exchange::Handler::on_gone`].
    Waits(u32),
    /// There is too much to do.
    Full,
}

/// What a path leads to.
#[derive(Clone, Copy, Debug)]
pub enum Lead<'a> {
    /// A file.
    File(&'a Meta),
    /// A directory.
    Directory,
    /// Nothing.
    Missing,
    /// What may not be read, or come to.
    Forbidden,
    /// What is there, and may not be read.
    Unread(Unread),
    /// What could not be looked at, and what the system said; trying again may help.
    Failed(Option<LookError>),
}

/// Content in memory: a body, and which of its bytes.
#[derive(Clone, Copy, Debug)]
pub struct InMemory<'a> {
    /// Whose bytes.
    pub body: &'a Body,
    /// Where they begin.
    pub start: u32,
}

/// What of a file is streamed, and how.
#[derive(Debug)]
pub struct Streamed {
    /// Its head, and which parts.
    pub composed: Composed,
    /// What is sent in its place, of which the parts are then.
    pub excerpt: Option<Excerpt>,
    /// No faster than this.
    pub rate: Option<Rate>,
    /// It is read a piece at a time though the data path sends files by itself: its
    /// bytes are looked at on their way.
    pub is_read: bool,
}

/// Why a file is not streamed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overloaded;

impl Directory {
    /// Everything that the file system has, by whole paths: for a handler that
    /// has rules of its own.
    #[must_use]
    pub fn everything() -> Self {
        Self { index: Vec::new(), symlinks: crate::Symlinks::On, ..Self::new("/") }
    }
}

impl Files {
    /// Where `path` leads, from the root on and without a slash at either end.
    /// If it is to be waited for, `waiter` is told, who has then `waited`.
    pub fn look(&mut self, id: ExchangeId, path: &[u8], now: Time, waiter: u32, waited: bool) -> Look {
        let Ok(entry) = self.store.find_exact(path) else { return self.full() };
        let known = !matches!(self.store.entry(entry).kind, Kind::Unknown);
        match self.store.freshness(entry, now) {
            _ if waited && known => {}
            Freshness::Fresh => {}
            Freshness::Check => _ = self.ask(entry, now),
            Freshness::Wait if self.is_sent_old(entry) => {
                self.counters.stale += 1;
                _ = self.ask(entry, now);
            }
            Freshness::Wait => return self.wait_for(id, entry, now, waiter),
        }
        if !waited {
            self.counters.cache_hits += 1;
            self.store.mark_used(entry);
        }
        Look::Known(FileId(entry))
    }

    fn wait_for(&mut self, id: ExchangeId, entry: EntryId, now: Time, waiter: u32) -> Look {
        if !self.may_wait(entry, now) {
            return self.full();
        }
        let work = self.works.add(Work {
            id,
            request: None,
            wait: Some(entry),
            stream: None,
            again: false,
            guest: Some(waiter),
        });
        self.store.entry(entry).waiters.push(work);
        Look::Waits(work.place)
    }

    fn full(&mut self) -> Look {
        self.counters.overloads += 1;
        Look::Full
    }

    /// Asks what is in the folder at `path`: `waiter` is told, and takes it. Nothing
    /// if there is too much to do; else the exchange's mark.
    pub fn list(&mut self, id: ExchangeId, path: &[u8], waiter: u32) -> Option<u32> {
        let work = self.ask_reader(id, waiter)?;
        self.reader.submit(Job::List { work, path: path.into() });
        Some(work.place)
    }

    /// Asks where `path` lies once no link is left in it; the rest is as of
    /// [`Files::list`].
    pub fn real_path(&mut self, id: ExchangeId, path: &[u8], waiter: u32) -> Option<u32> {
        let work = self.ask_reader(id, waiter)?;
        self.reader.submit(Job::RealPath { work, path: path.into() });
        Some(work.place)
    }

    /// Who waits for something that is looked for once, unless there is too much to do.
    fn ask_reader(&mut self, id: ExchangeId, waiter: u32) -> Option<WorkId> {
        if self.store.asked >= self.limits.waiting {
            self.counters.overloads += 1;
            return None;
        }
        self.working += 1;
        self.store.asked += 1;
        let guest = Some(waiter);
        Some(self.works.add(Work { id, request: None, wait: None, stream: None, again: false, guest }))
    }

    /// What is in the folder that `waiter` asked for.
    pub fn take_listing(&mut self, waiter: u32) -> Option<Listing> {
        let at = self.listings.iter().position(|(whose, _)| *whose == waiter)?;
        Some(self.listings.swap_remove(at).1)
    }

    /// The path that `waiter` asked for, and where it lies.
    pub fn take_real_path(&mut self, waiter: u32) -> Option<(Box<[u8]>, RealPath)> {
        let at = self.real_paths.iter().position(|(whose, ..)| *whose == waiter)?;
        let (_, path, found) = self.real_paths.swap_remove(at);
        Some((path, found))
    }

    pub(crate) fn on_listed(&mut self, work: WorkId, listing: Listing) {
        if let Some(waiter) = self.wake_asker(work) {
            self.listings.push((waiter, listing));
        }
    }

    pub(crate) fn on_real_path(&mut self, work: WorkId, path: Box<[u8]>, found: RealPath) {
        if let Some(waiter) = self.wake_asker(work) {
            self.real_paths.push((waiter, path, found));
        }
    }

    /// Who waits for this goes on, if it is still there.
    fn wake_asker(&mut self, work: WorkId) -> Option<u32> {
        self.store.asked -= 1;
        self.working -= 1;
        let Work { guest: Some(waiter), .. } = self.works.take(work)? else { return None };
        self.woken.push_back(waiter);
        Some(waiter)
    }

    /// Whether [`Files::next_woken`] or [`Files::next_fault`] has something to tell.
    #[must_use]
    pub fn has_news(&self) -> bool {
        !self.woken.is_empty() || !self.faults.is_empty()
    }

    /// Who waited, and now knows, or has to look again.
    pub fn next_woken(&mut self) -> Option<u32> {
        self.woken.pop_front()
    }

    /// What is known of it, to be remembered.
    pub fn stamp(&self, file: FileId) -> Stamp {
        self.store.stamp(file.0)
    }

    /// Whether a path still leads to what it led to, as [`Files::look`] would find it
    /// without waiting. If what is known of it is old, the reader is asked, as there.
    pub fn is_still(&mut self, stamp: Stamp, now: Time) -> bool {
        if !self.store.is_still(stamp) {
            return false;
        }
        match self.store.freshness(stamp.entry, now) {
            Freshness::Fresh => {}
            Freshness::Check => _ = self.ask(stamp.entry, now),
            Freshness::Wait => return false,
        }
        self.counters.cache_hits += 1;
        self.store.mark_used(stamp.entry);
        true
    }

    /// What it leads to.
    pub fn lead(&mut self, file: FileId) -> Lead<'_> {
        match &self.store.entry(file.0).kind {
            Kind::Content(meta) | Kind::Large { meta, .. } => Lead::File(meta),
            Kind::Directory => Lead::Directory,
            Kind::Missing => Lead::Missing,
            Kind::Forbidden => Lead::Forbidden,
            Kind::Unread(what) => Lead::Unread(*what),
            Kind::Failed(why) => Lead::Failed(*why),
            Kind::Unknown => Lead::Failed(None),
        }
    }

    /// Whether it is a file that somebody may execute.
    pub fn is_executable(&mut self, file: FileId) -> bool {
        self.store.entry(file.0).mode().is_some_and(|mode| mode & 0o111 != 0)
    }

    /// Its content, if that is in memory.
    pub fn in_memory(&mut self, file: FileId) -> Option<InMemory<'_>> {
        let entry: &Entry = self.store.entry(file.0);
        let (body, start) = entry.prepared()?.ready.content();
        Some(InMemory { body, start })
    }

    /// From now on a plain GET for `path` is answered with all of a file's content, behind
    /// this head, by [`exchange::Prepared::ready`] of the files. False if the content is not
    /// in memory, or stands behind another head.
    pub fn answer_path(&mut self, path: &[u8], file: FileId, head: FileHead) -> bool {
        if !self.store.put_head(file.0, head) {
            return false;
        }
        let (second, date) = (self.second, self.date);
        self.store.refresh(file.0, second, &date);
        self.store.remember_path(path, file.0);
        true
    }

    /// Whether the message for `path` may be sent in this second: one of an earlier second
    /// is dated anew, if its file is known to be what it was. If what is known of that is
    /// old, the reader is asked.
    pub fn renews_path(&mut self, path: &[u8], now: Time) -> bool {
        let Some(message) = self.store.hot.get(path) else { return false };
        let (second, date) = (self.second, self.date);
        if self.store.ready(message, second).is_some() {
            return true;
        }
        let Some(entry) = self.store.entry_of(message) else { return false };
        match self.store.freshness(entry, now) {
            Freshness::Fresh => {}
            Freshness::Check => _ = self.ask(entry, now),
            Freshness::Wait => return false,
        }
        self.counters.cache_hits += 1;
        self.store.mark_used(entry);
        self.store.refresh(entry, second, &date);
        true
    }

    /// No path is answered any more: heads are to be made anew.
    pub fn forget_paths(&mut self) {
        self.store.forget_paths();
    }

    /// The path of a file that is not in memory, from the root on, and what it is
    /// known by as it is now.
    pub fn on_disk(&mut self, file: FileId) -> Option<(Arc<[u8]>, &Meta)> {
        match &self.store.entry(file.0).kind {
            Kind::Large { meta, path, .. } => Some((Arc::clone(path), meta)),
            _ => None,
        }
    }

    /// What is sent of an mp4 file for a span: at once, if the file is in memory. `waiter` is
    /// told when that is known otherwise, and asks again.
    pub fn cut(&mut self, id: ExchangeId, file: FileId, (rules, span): (mp4::Rules, Span), waiter: u32) -> Cutting {
        let stamp = self.stamp(file);
        if let Some(outcome) = self.cuts.take(waiter, (stamp, span)) {
            return outcome.into();
        }
        let (of, size) = match self.cut_of(file) {
            None => return Cutting::Failed,
            Some((CutOf::Memory(bytes, start), size)) if size <= AT_HAND => {
                let content = bytes.get(start..).unwrap_or_default();
                return cut_memory(content, Cutter::new(rules, span, size)).into();
            }
            Some(found) => found,
        };
        let Some(work) = self.ask_reader(id, waiter) else { return Cutting::Full };
        let cutter = Box::new(Cutter::new(rules, span, size));
        self.cuts.line.push_back(CutAsked { work, wanted: (stamp, span), of, cutter });
        self.cut_next();
        Cutting::Waits(work.place)
    }

    /// What is known of a file is wrong.
    pub fn look_anew(&mut self, file: FileId) {
        self.store.forget_entry(file.0);
    }

    /// What is cut of a file, and how many bytes that has.
    fn cut_of(&mut self, file: FileId) -> Option<(CutOf, u64)> {
        let Lead::File(Meta { size, .. }) = self.lead(file) else { return None };
        let size = *size;
        if let Some(memory) = self.in_memory(file) {
            return Some((CutOf::Memory(memory.body.bytes(), memory.start as usize), size));
        }
        Some((CutOf::File(self.source_of(file.0)?), size))
    }

    /// The reader gets some of those that wait.
    fn cut_next(&mut self) {
        while self.cuts.under_way.len() < AT_ONCE
            && let Some(CutAsked { work, wanted, of, cutter }) = self.cuts.line.pop_front()
        {
            if self.works.get(work).is_none() {
                // Nobody waits for it any more.
                self.wake_asker(work);
                continue;
            }
            self.cuts.under_way.push((work, wanted));
            self.reader.submit(Job::Cut { work, of, cutter });
        }
    }

    /// The reader has cut one.
    pub(crate) fn on_cut(&mut self, work: WorkId, outcome: CutOutcome) {
        let at = self.cuts.under_way.iter().position(|(whose, ..)| *whose == work);
        let of = at.map(|at| self.cuts.under_way.swap_remove(at));
        if let (Some(waiter), Some((_, wanted))) = (self.wake_asker(work), of) {
            self.cuts.done.retain(|(whose, ..)| *whose != waiter);
            self.cuts.done.push((waiter, wanted, outcome));
        }
        self.cut_next();
    }

    /// Sends `what` of a file that is not in memory. If the file is another before
    /// anything was sent, `waiter` is told.
    ///
    /// # Errors
    /// There are too many streams.
    pub fn send_stream<R: Replies + ?Sized>(
        &mut self,
        replies: &mut R,
        (id, request): (ExchangeId, &Request<'_>),
        file: FileId,
        what: Streamed,
        waiter: u32,
    ) -> Result<(), Overloaded> {
        if self.counters.streams_open >= self.limits.streams as u64 {
            self.counters.overloads += 1;
            return Err(Overloaded);
        }
        let Streamed { composed, excerpt, rate, is_read } = what;
        let before = excerpt.as_ref().map_or(0, |excerpt| excerpt.before.len() as usize);
        let full = before > SMALL_CHUNK && self.streams.held + before > self.limits.stream_bytes;
        // Those whose clients have taken nothing for long give way.
        if full && !self.make_room(replies, None, before) {
            self.counters.overloads += 1;
            return Err(Overloaded);
        }
        let Some(mut stream) = self.new_stream(replies, id, file.0, composed) else { return Err(Overloaded) };
        stream.layout = excerpt.map_or_else(Layout::default, Layout::of);
        stream.is_read = is_read;
        stream.rate = rate.map(|rate| RateKept::begin(rate, replies, id));
        let request = Some((*request).into());
        let work =
            self.works.add(Work { id, request, wait: None, stream: Some(stream), again: false, guest: Some(waiter) });
        replies.set(id, &ExchangeSettings::marked(work.place));
        self.streams.add(work);
        self.pump(replies, work);
        Ok(())
    }

    /// One that has waited goes on.
    pub(crate) fn wake_guest(&mut self, work: WorkId) -> bool {
        let Some(Work { guest: Some(waiter), .. }) = self.works.get(work) else { return false };
        self.woken.push_back(*waiter);
        self.works.take(work);
        true
    }

    /// What is streamed to one turned out to be another file.
    pub(crate) fn wake_again(&mut self, waiter: u32, path: &Arc<[u8]>) {
        self.store.forget_exact(path);
        self.woken.push_back(waiter);
    }

    /// Whether another may wait for a look at `entry`, which is asked for.
    pub(crate) fn may_wait(&mut self, entry: EntryId, now: Time) -> bool {
        let found = self.store.entry(entry);
        if found.waiters.len() >= self.limits.waiting {
            let works = &mut self.works;
            found.waiters.retain(|&waiter| works.get(waiter).is_some_and(|work| work.wait == Some(entry)));
        }
        let full = found.waiters.len() >= self.limits.waiting;
        self.looks_ahead = !found.is_asked();
        if full || self.store.is_clogged() || !self.ask(entry, now) {
            return false;
        }
        self.counters.cache_misses += 1;
        self.working += 1;
        true
    }

    /// Has the reader look at `entry`, unless it does. False if it has enough
    /// to do.
    pub(crate) fn ask(&mut self, entry: EntryId, now: Time) -> bool {
        if self.store.entry(entry).is_asked() {
            return true;
        }
        let (asked, found) = (self.store.asked, self.store.entry(entry));
        if asked >= self.limits.waiting || self.reader.is_full_of(found.path(), found.known(), self.limits.waiting) {
            return false;
        }
        let Some((key, known)) = self.store.ask(entry, now) else { return false };
        self.reader.submit(Job::LookUp { entry, key, known, now: self.second });
        true
    }
}
