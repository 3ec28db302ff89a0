//! From a request to a reply.

use crate::Files;
use crate::faults::ReadOutcome;
use crate::ids::{EntryId, WorkId};
use crate::reader::{ANSWERS_MAX, Done, HANGS, ReadAnswer, ReadFor, Reader};
use crate::store::{Freshness, Kind, NoEntry};
use crate::stream::Stream;
use crate::work::Work;
use crate::worker::Found;
use app::Wake;
use core::time::Duration;
use exchange::{
    Asked, Composed, ExchangeId, ExchangeSettings, FieldLines, Gone, Handler, HandlerRules, Intake, MethodRules, Page,
    Part, Piece, Prepared, Ready, Replies, Reply, RequestBody, Rests, UpstreamHandler, compose, is_selected_whole,
};
use semantics::date::HttpDate;
use semantics::path::encode_directory;
use semantics::{Method, OwnedRequest, Request, Status};
use wire::Time;

/// Requests behind one that waits for the reader, for which it looks as well.
const AHEAD: usize = 16;

/// While the reader is at work, a silo that cannot wait for
/// [`Files::wake_fd`] looks again after this.
const READER_POLL: Duration = Duration::from_micros(200);

/// What is served of a file, to anyone (RFC 9110 section 15.5.6).
const ALLOW: &[u8] = b"Allow: GET, HEAD, OPTIONS\r\n";
const METHODS: MethodRules = MethodRules { answered: &[Method::Get, Method::Head, Method::Options], allow: ALLOW };

/// At a limit of ours: a moment's rest.
const RETRY: &[u8] = b"Retry-After: 1\r\n";

/// Where no answer has come for so long, something that was found before is looked for, and once more after twice
/// as long, so many times.
const PROBED_AFTER: Duration = Duration::from_millis(500);
const PROBES_MAX: u8 = 8;

/// How far a request has come.
enum Answer {
    /// It was answered.
    Done,
    /// It waits for a look at this.
    Waits(EntryId),
    /// What is to be streamed.
    Streams(Box<Stream>),
}

impl Handler for Files {
    fn rules(&self) -> HandlerRules {
        let intake = Intake { methods: METHODS, ..Intake::default() };
        HandlerRules { intake, rests: Rests::Sometimes, ..HandlerRules::default() }
    }

    fn on_request<R: Replies>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>, _body: RequestBody) {
        let answer = self.respond(replies, id, request, None);
        if !matches!(answer, Answer::Done) {
            self.keep(replies, id, answer, (*request).into(), false);
        }
    }

    fn on_room<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) {
        if let Some(work) = self.work_of(id, replies.mark(id)) {
            self.pump(replies, work);
        }
    }

    /// The reader does not answer: a disk or a server behind it hangs.
    fn on_late<R: Replies>(&mut self, replies: &mut R, id: ExchangeId) -> bool {
        let Some(work) = self.work_of(id, replies.mark(id)) else { return false };
        if self.works.get(work).is_none_or(|work| work.request.is_none()) {
            return false;
        }
        self.counters.timeouts_file += 1;
        let Some(Work { request: Some(request), wait, stream, .. }) = self.works.take(work) else { return false };
        self.working -= u32::from(wait.is_some());
        if let Some(stream) = stream {
            self.stream_ended(&stream);
        }
        answer_status(replies, id, &request.get(), (Status::SERVICE_UNAVAILABLE, RETRY));
        false
    }

    fn on_gone(&mut self, id: ExchangeId, mark: Option<u32>, _why: Gone) {
        let Some(work) = self.work_of(id, mark).and_then(|work| self.works.take(work)) else { return };
        self.working -= u32::from(work.wait.is_some());
        if let Some(stream) = work.stream {
            self.stream_ended(&stream);
        }
    }

    fn on_turn<R: Replies>(&mut self, replies: &mut R) -> Wake {
        if self.is_at_rest() {
            return Wake::Idle;
        }
        if self.reader.arrived() {
            self.take_answers(replies);
        }
        self.poll_streams(replies);
        self.end_turn(replies)
    }

    #[inline]
    fn is_at_rest(&self) -> bool {
        self.streams.are_over() && self.reader.is_at_rest() && !self.hangs
    }

    fn on_second(&mut self, second: u64, date: &HttpDate, now: Time) {
        (self.second, self.date) = (second, *date);
        self.store.sweep();
        self.cuts.sweep();
        self.streams.on_second(second, now);
        self.reader.close();
        self.counters.file_silence = self.reader.silence(now).as_secs();
    }

    /// With one look at a time, each would wait for the reader's thread and for
    /// ours.
    fn look_ahead(&mut self, request: &Request<'_>, now: Time) -> bool {
        self.ahead -= 1;
        if !matches!(request.method(), Method::Get | Method::Head) {
            return false;
        }
        // One that is refused needs no look.
        let Ok(entry) = self.store.find(request.path()) else { return self.ahead > 0 };
        let asked = self.store.freshness(entry, now) != Freshness::Wait || self.ask(entry, now);
        asked && self.ahead > 0
    }

    fn has_work(&self) -> bool {
        self.reader.has_line()
    }

    /// Requests whose next step is the file reader's: a new one waits behind
    /// them. What is in memory is answered at once, and a response on its way
    /// waits for its peer: neither makes another wait, however long it takes.
    #[inline]
    fn working(&self) -> u32 {
        self.working
    }
}

impl UpstreamHandler for Files {}

impl Prepared for Files {
    #[inline(always)]
    fn ready<'a>(&mut self, path: &[u8], _host: impl FnOnce() -> &'a [u8], second: u64) -> Option<&mut Ready> {
        let message = self.store.hot.get(path)?;
        self.store.ready(message, second)
    }

    #[cold]
    fn make_closing<A: Asked>(&mut self, asked: &A) -> bool {
        let entry = self.store.hot.get(asked.path()).and_then(|message| self.store.entry_of(message));
        entry.is_some_and(|entry| self.store.make_closing(entry))
    }
}

impl Files {
    /// Tells `each` the address ranges of what requests go through, but for what is known to be in
    /// another NUMA domain.
    pub fn memory(&self, each: &mut dyn FnMut(core::ops::Range<usize>)) {
        self.store.memory(each);
    }

    /// The end of a turn: the reader gets what there is to do. When there will be
    /// more of it for us.
    pub fn end_turn<R: Replies + ?Sized>(&mut self, replies: &mut R) -> Wake {
        if self.is_at_rest() {
            self.counters.file_silence = 0;
            return Wake::Idle;
        }
        self.reader.hand_over();
        let now = replies.now();
        let waits = self.reader.waits(now);
        if self.reader.hangs(now) != self.hangs {
            self.on_hang(replies);
        }
        if waits {
            self.watch_looks(replies, now);
        } else {
            self.counters.file_silence = 0;
        }
        // All that are sent are looked at in each turn.
        let due = self.streams.due_after(now);
        self.streams.next_due = due;
        match (waits, due) {
            (true, _) if self.reader.is_inline() => Wake::Now,
            (true, _) => Wake::At(now + READER_POLL),
            (false, Some(due)) => Wake::At(due),
            (false, None) => Wake::Idle,
        }
    }

    fn work_of(&mut self, id: ExchangeId, mark: Option<u32>) -> Option<WorkId> {
        self.works.at(mark?, id)
    }

    /// Keeps a request that was not answered at once.
    fn keep<R: Replies + ?Sized>(
        &mut self,
        replies: &mut R,
        id: ExchangeId,
        answer: Answer,
        request: OwnedRequest,
        again: bool,
    ) {
        let (wait, stream) = match answer {
            Answer::Done => return,
            Answer::Waits(entry) => (Some(entry), None),
            Answer::Streams(stream) => (None, Some(stream)),
        };
        let work = self.works.add(Work { id, request: Some(request), wait, stream, again, guest: None });
        self.ahead = AHEAD;
        let looks_ahead = core::mem::take(&mut self.looks_ahead);
        replies.set(id, &ExchangeSettings { looks_ahead, ..ExchangeSettings::marked(work.place) });
        match wait {
            Some(entry) => self.store.entry(entry).waiters.push(work),
            None => {
                self.streams.add(work);
                self.pump(replies, work);
            }
        }
    }

    /// Answers a request. `waited` is what it has waited for, if it has.
    fn respond<R: Replies + ?Sized>(
        &mut self,
        replies: &mut R,
        id: ExchangeId,
        request: &Request<'_>,
        waited: Option<EntryId>,
    ) -> Answer {
        let status = |replies: &mut R, status, fields| {
            answer_status(replies, id, request, (status, fields));
            Answer::Done
        };
        if let Some((refused, fields)) = METHODS.refuse(request.method()) {
            return status(replies, refused, fields);
        }
        if request.method() == Method::Options {
            // RFC 9110 section 9.3.7.
            let reply = Reply { status: Status::NO_CONTENT, length: None, fields: ALLOW, reason: None };
            replies.reply(id, request, &reply, &[]);
            return Answer::Done;
        }
        if let Some(message) = self.store.hot.get(request.path())
            && self.store.ready(message, self.second).is_some()
            && let Some(entry) = self.store.entry_of(message)
        {
            self.counters.cache_hits += 1;
            return self.respond_content(replies, id, request, entry);
        }
        let now = replies.now();
        let entry = match self.store.find(request.path()) {
            Ok(entry) => entry,
            Err(NoEntry::Refused(_)) => return status(replies, Status::BAD_REQUEST, b""),
            Err(NoEntry::Full(_)) => return self.overloaded(replies, id, request),
        };
        let waited = waited == Some(entry);
        match self.store.freshness(entry, now) {
            // However long the look took: its answer is for those who waited.
            _ if waited => {}
            Freshness::Fresh => {}
            // If the reader has too much to do, the next request asks again.
            Freshness::Check => _ = self.ask(entry, now),
            // Old, but there is nothing newer to be had.
            Freshness::Wait if self.is_sent_old(entry) => {
                self.counters.stale += 1;
                _ = self.ask(entry, now);
            }
            Freshness::Wait => return self.park(replies, id, request, entry),
        }
        if !waited {
            self.counters.cache_hits += 1;
            self.store.mark_used(entry);
        }
        match &self.store.entry(entry).kind {
            Kind::Content(_) => {
                self.store.refresh(entry, self.second, &self.date);
                self.store.remember_path(request.path(), entry);
                self.respond_content(replies, id, request, entry)
            }
            Kind::Large { .. } => self.respond_large(replies, id, request, entry),
            Kind::Directory => self.redirect(replies, id, request, entry),
            Kind::Missing => status(replies, Status::NOT_FOUND, b""),
            Kind::Forbidden | Kind::Unread(_) => status(replies, Status::FORBIDDEN, b""),
            // `Unknown` always waits.
            Kind::Failed(_) | Kind::Unknown => status(replies, Status::INTERNAL_SERVER_ERROR, b""),
        }
    }

    /// The request waits until the reader knows more of `entry`.
    fn park<R: Replies + ?Sized>(
        &mut self,
        replies: &mut R,
        id: ExchangeId,
        request: &Request<'_>,
        entry: EntryId,
    ) -> Answer {
        if !self.may_wait(entry, replies.now()) {
            return self.overloaded(replies, id, request);
        }
        Answer::Waits(entry)
    }

    fn take_answers<R: Replies + ?Sized>(&mut self, replies: &mut R) {
        // All that there can be: of what is left nobody would be told again.
        for _ in 0..ANSWERS_MAX {
            let Some(done) = Reader::take(&mut self.reader) else { return };
            match done {
                Done::LookUp { entry, found } => self.on_found(replies, entry, found),
                Done::Looked { work, outcome } => self.on_looked(replies, work, outcome),
                Done::Read(ReadAnswer { whom: ReadFor::Stream(work), buffer, outcome, .. }) => {
                    self.on_chunk(replies, work, buffer, outcome);
                }
                Done::Read(ReadAnswer { whom: ReadFor::Block(block), buffer, from, outcome, .. }) => {
                    self.on_block(replies, block, (buffer, from), outcome);
                }
                Done::Listed { work, listing } => self.on_listed(work, listing),
                Done::RealPath { work, path, found } => self.on_real_path(work, path, found),
                Done::Cut { work, outcome } => self.on_cut(work, outcome),
                // The reader's own.
                Done::Reopened(_) | Done::Opened(_) | Done::Unchecked(_) | Done::Closed => {}
            }
        }
    }

    /// The reader found where `entry` leads: those who waited go on.
    fn on_found<R: Replies + ?Sized>(&mut self, replies: &mut R, entry: EntryId, found: Found) {
        self.counters.file_errors += u64::from(matches!(found, Found::Failed(_)));
        let (waiters, changed) = self.store.on_found(entry, found);
        self.counters.cache_refreshes += u64::from(changed);
        // Those who waited may have come after a reload, which is not what was
        // looked at.
        if self.store.take_early(entry) && !waiters.is_empty() && self.ask(entry, replies.now()) {
            self.store.entry(entry).waiters = waiters;
            return;
        }
        for work in waiters {
            self.go_on(replies, work, entry);
        }
    }

    /// The file system hangs, or does no longer. Those who wait for a look at
    /// what is in memory get it as it is.
    #[cold]
    fn on_hang<R: Replies + ?Sized>(&mut self, replies: &mut R) {
        self.hangs = !self.hangs;
        if !self.hangs {
            return;
        }
        self.counters.file_hangs += 1;
        for (entry, waiters) in self.store.take_waiters() {
            self.counters.stale += waiters.len() as u64;
            for work in waiters {
                self.go_on(replies, work, entry);
            }
        }
    }

    /// Whether `entry` is sent as it is in memory, however old that is: the file system, or the device that it
    /// lies on, does not say whether it is still so.
    pub(crate) fn is_sent_old(&mut self, entry: EntryId) -> bool {
        (self.hangs || self.store.is_late(entry)) && self.store.entry(entry).is_in_memory()
    }

    /// While anything is looked for: what takes too long, and whether anything else would be answered.
    fn watch_looks<R: Replies + ?Sized>(&mut self, replies: &mut R, now: Time) {
        while let Some(entry) = self.store.next_late(now, HANGS) {
            self.on_late_look(replies, entry);
        }
        let silence = self.reader.silence(now);
        if silence < PROBED_AFTER {
            self.probes = 0;
        } else if self.probes < PROBES_MAX && silence >= PROBED_AFTER * (1 << self.probes) {
            self.probes += 1;
            // One that hangs says nothing of the others, if nobody asks for them.
            if let Some(entry) = self.store.next_probed() {
                self.ask(entry, now);
                self.reader.hand_over();
            }
        }
    }

    /// A look takes too long: those who wait for it get what is in memory.
    #[cold]
    fn on_late_look<R: Replies + ?Sized>(&mut self, replies: &mut R, entry: EntryId) {
        self.counters.file_hangs += u64::from(!self.hangs && self.store.late_looks() == 1);
        if !self.store.entry(entry).is_in_memory() {
            return;
        }
        let waiters = core::mem::take(&mut self.store.entry(entry).waiters);
        self.counters.stale += waiters.len() as u64;
        for work in waiters {
            self.go_on(replies, work, entry);
        }
    }

    /// One that has waited for `entry` is answered.
    fn go_on<R: Replies + ?Sized>(&mut self, replies: &mut R, work: WorkId, entry: EntryId) {
        if self.works.get(work).is_none_or(|work| work.wait != Some(entry)) {
            return;
        }
        self.working -= 1;
        if self.wake_guest(work) {
            return;
        }
        if let Some(Work { id, request: Some(request), again, .. }) = self.works.take(work) {
            let answer = self.respond(replies, id, &request.get(), Some(entry));
            self.keep(replies, id, answer, request, again);
        }
    }

    /// A file that has to be read was not what it was when it was found, and
    /// nothing was sent yet: looked up once more.
    pub(crate) fn respond_anew<R: Replies + ?Sized>(&mut self, replies: &mut R, work: Work, outcome: ReadOutcome) {
        let Work { id, request: Some(request), again, .. } = work else { return };
        if outcome == ReadOutcome::Changed && !again {
            self.store.forget(request.get().path());
            let answer = self.respond(replies, id, &request.get(), None);
            self.keep(replies, id, answer, request, true);
        } else {
            self.counters.file_errors += u64::from(outcome == ReadOutcome::Changed);
            answer_status(replies, id, &request.get(), (Status::SERVICE_UNAVAILABLE, RETRY));
        }
    }

    /// Content in memory.
    fn respond_content<R: Replies + ?Sized>(
        &mut self,
        replies: &mut R,
        id: ExchangeId,
        request: &Request<'_>,
        entry: EntryId,
    ) -> Answer {
        let serial = self.next_serial(request);
        let entry = self.store.entry(entry);
        let (Kind::Content(meta), Some(prepared)) = (&entry.kind, entry.prepared()) else { return Answer::Done };
        if is_selected_whole(meta, request, self.second) {
            replies.reply_ready(id, request, &prepared.ready);
            return Answer::Done;
        }
        match compose(meta, request, self.second, serial) {
            Ok(Composed { status, length, fields, parts }) => {
                let (body, base) = prepared.ready.content();
                let pieces: Vec<_> = parts
                    .iter()
                    .map(|part| match part {
                        Part::Bytes(bytes) => Piece::Bytes(bytes),
                        // Content in memory is below 4 GiB.
                        Part::Content(range) => Piece::Body(body, (base + range.start as u32, base + range.end as u32)),
                    })
                    .collect();
                replies.reply(id, request, &Reply { status, length, fields: fields.as_bytes(), reason: None }, &pieces);
            }
            Err((status, fields)) => answer_status(replies, id, request, (status, fields.as_bytes())),
        }
        Answer::Done
    }

    /// A file that is streamed.
    fn respond_large<R: Replies + ?Sized>(
        &mut self,
        replies: &mut R,
        id: ExchangeId,
        request: &Request<'_>,
        entry: EntryId,
    ) -> Answer {
        let serial = self.next_serial(request);
        let Kind::Large { meta, .. } = &self.store.entry(entry).kind else { return Answer::Done };
        match compose(meta, request, self.second, serial) {
            Ok(Composed { status, length, fields, parts }) if parts.is_empty() => {
                replies.reply(id, request, &Reply { status, length, fields: fields.as_bytes(), reason: None }, &[]);
                Answer::Done
            }
            Ok(_) if self.counters.streams_open >= self.limits.streams as u64 => self.overloaded(replies, id, request),
            Ok(composed) => match self.new_stream(replies, id, entry, composed) {
                Some(stream) => Answer::Streams(stream),
                None => Answer::Done,
            },
            Err((status, fields)) => {
                answer_status(replies, id, request, (status, fields.as_bytes()));
                Answer::Done
            }
        }
    }

    /// A directory was asked for without its slash: relative links in its
    /// index file would lead to its parent.
    fn redirect<R: Replies + ?Sized>(
        &mut self,
        replies: &mut R,
        id: ExchangeId,
        request: &Request<'_>,
        entry: EntryId,
    ) -> Answer {
        let mut location = Vec::new();
        encode_directory(self.store.entry(entry).path(), &mut location);
        if let Some(query) = request.query() {
            location.push(b'?');
            location.extend_from_slice(query);
        }
        let mut fields = FieldLines::new();
        fields.field("Location", &location);
        answer_status(replies, id, request, (Status::MOVED_PERMANENTLY, fields.as_bytes()));
        Answer::Done
    }

    /// At a limit of ours: 503, and a moment's rest.
    fn overloaded<R: Replies + ?Sized>(&mut self, replies: &mut R, id: ExchangeId, request: &Request<'_>) -> Answer {
        self.counters.overloads += 1;
        answer_status(replies, id, request, (Status::SERVICE_UNAVAILABLE, RETRY));
        Answer::Done
    }

    /// Of the boundary of a request for several ranges.
    fn next_serial(&mut self, request: &Request<'_>) -> u32 {
        let serial = self.serial;
        self.serial = serial.wrapping_add(u32::from(!request.is_plain()));
        serial
    }
}

/// A page for a status, with these fields more.
fn answer_status<R: Replies + ?Sized>(
    replies: &mut R,
    id: ExchangeId,
    request: &Request<'_>,
    (status, fields): (Status, &[u8]),
) {
    let page = Page::new(status, fields);
    replies.reply(id, request, &page.reply(), &page.body());
}
