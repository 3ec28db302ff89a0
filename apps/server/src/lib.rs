//! The web server: one application for both data paths.
//!
//! [`Server`] implements [`app::App`]: it serves a directory or a fixed
//! response, holds content in memory, and streams what is too large for that.
//! Nothing it does for a request waits: the file system is read by a helper
//! thread ([`files`]), the access log written by another ([`log`]).
//!
//! A GET for content in memory takes the short way ([`ready`]): parsed, looked
//! up by the path as it was sent, and answered with one shared body that holds
//! head and content. No allocation, no lock, no system call. Everything else
//! goes through [`answer`].
//!
//! | module | for |
//! | --- | --- |
//! | [`Config`], [`WallClock`], [`Counters`] | what goes in and what comes out |
//! | `conn` | a connection's state, 64 bytes |
//! | `ready` | from a request to a response that is ready |
//! | `answer` | from a request to a response |
//! | `stream` | large files, a piece at a time |
//! | `deadlines` | timers, draining |
//! | `change` | settings that change meanwhile |
//! | `files` | paths, content cache, file reader |
//! | `log` | access log |
#![forbid(unsafe_code)]

mod answer;
mod change;
mod clock;
mod config;
mod conn;
mod counters;
mod deadlines;
mod files;
mod head;
mod helper;
mod log;
mod ready;
mod stream;

pub use change::{Change, Replaced};
pub use clock::WallClock;
pub use config::RESPOND_SIZE_MAX;
pub use config::{AccessLog, Config, ConfigError, Content, Directory, Limits, ReaderKind, Respond, Symlinks, Timeouts};
pub use counters::Counters;
pub use files::shared_content::{Held, Member, SharedContent};

use app::{App, Closed, ConnId, Net, Opened, Reads, Wake};
use conn::{DRY, ENDED, FIRST, PARTIAL, PAUSED, ServedConnection, State, Tick};
use core::time::Duration;
use files::FileReader;
use files::reader::{Done, EntryId, Job, Reader};
use files::store::Store;
use h1::server::{Event, Waiting};
use head::Meta;
use log::{Line, Log};
use rustix::fd::BorrowedFd;
use semantics::date::HttpDate;
use semantics::{Known, Request, Status};
use wire::Time;

/// Answers of the reader taken in one turn.
const DONE_MAX: usize = 64;

/// While the reader is at work, a silo that cannot wait for
/// [`Server::wake_fd`] looks again after this.
const READER_POLL: Duration = Duration::from_micros(200);

/// The server application of one silo. Not `Send`: made on the silo's thread.
pub struct Server {
    // What the short way touches comes first.
    conns: Vec<ServedConnection>,
    store: Store,
    /// The only entry, where everything is answered alike.
    fixed: Option<EntryId>,
    /// The unix second, its date, and when it ends.
    second: u64,
    date: HttpDate,
    next_second: Time,
    /// Requests after which a connection is closed; 0 while draining.
    requests_max: u32,
    /// See [`Limits::unsent_bytes`].
    unsent_max: usize,
    /// Requests served the short way: each a 2xx and a cache hit, too.
    ready: u64,
    counters: Counters,
    log: Option<Log>,
    http_limits: h1::server::Limits,
    limits: Limits,
    timeouts: Timeouts,
    reader: Option<Reader>,
    streams: stream::Active,
    clock: WallClock,
    server_header: bool,
    draining: Option<deadlines::Drain>,
    /// The next connection whose timer is to be set by shorter limits.
    unsettled: Option<usize>,
    /// Scratch for heads and short responses.
    scratch: Vec<u8>,
    /// The head of the request that takes the long way, in memory that is
    /// ours alone.
    head: Vec<u8>,
    /// Makes multipart boundaries and stream serials differ.
    serial: u32,
    /// Requests that wait for the file reader: to be looked up, or for the
    /// next piece of what they are sent.
    working: u32,
    /// Whether the file system hangs: see [`Reader::hangs`].
    hangs: bool,
    /// A request began to wait for a look that nobody had asked for: those
    /// behind it may need one as well.
    looks_ahead: bool,
}

impl Server {
    /// A server as told by `config`. Opens the root directory and the access
    /// log, and starts the helper threads.
    ///
    /// # Errors
    /// See [`ConfigError`]: all are the operator's to mend.
    pub fn new(config: Config, clock: WallClock) -> Result<Self, ConfigError> {
        let Config { content, server_header, access_log, limits, timeouts, helper_cpus } = config.checked()?;
        let (store, fixed, reader) = match content {
            Content::Respond(respond) => {
                let (content_type, content) = respond_content(respond);
                let meta = Meta { size: content.len() as u64, content_type: content_type.into(), file: None };
                let fixed = EntryId { slot: 0, generation: 0 };
                (Store::fixed(meta, content, server_header), Some(fixed), None)
            }
            Content::Directory(directory) => {
                let worker = FileReader::new(&directory, server_header)?;
                let reader = Reader::new(worker, directory.reader, &helper_cpus)?;
                (Store::new(&directory), None, Some(reader))
            }
        };
        Ok(Self {
            conns: Vec::with_capacity(limits.connections),
            store,
            fixed,
            second: 0,
            date: HttpDate::from_unix(0),
            next_second: Time::ZERO,
            requests_max: limits.requests_per_connection.unwrap_or(u32::MAX).max(1),
            unsent_max: limits.unsent_bytes,
            ready: 0,
            counters: Counters::default(),
            log: Log::start(&access_log, limits.log_bytes, &helper_cpus)?,
            http_limits: limits.http,
            streams: stream::Active::default(),
            limits,
            timeouts,
            reader,
            clock,
            server_header,
            draining: None,
            unsettled: None,
            scratch: Vec::with_capacity(1024),
            head: Vec::with_capacity(1024),
            serial: 0,
            working: 0,
            hangs: false,
            looks_ahead: false,
        })
    }

    /// Readable when a helper thread has an answer: a silo that sleeps waits
    /// for it too. It becomes unreadable in the next `on_turn`.
    #[must_use]
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.reader.as_ref()?.wake_fd()
    }

    /// The wall clock was set, or is watched for drift.
    pub fn set_wall_clock(&mut self, clock: WallClock) {
        self.clock = clock;
        self.next_second = Time::ZERO;
    }

    /// Opens the access log again: for log rotation.
    pub fn reopen_log(&self) {
        if let Some(log) = &self.log {
            log.reopen();
        }
    }

    /// Looks for the root again, which may be another directory by now, and at
    /// every file before it is next sent; opens the access log again. Nothing
    /// that is under way is touched: a response that has begun is finished
    /// from the file that it began with.
    pub fn reload(&mut self) {
        self.reopen_log();
        self.counters.reloads += 1;
        let Some(reader) = &mut self.reader else { return };
        reader.submit(Job::Reopen);
        self.store.expire();
    }

    /// From now on every response is the last on its connection and says so,
    /// as if [`Limits::requests_per_connection`] was reached; nothing else
    /// changes. For a process that hands its listeners to another: no request
    /// on its way is lost, for no connection is closed but where the client
    /// was told, or was silent for as long as ever. There is no way back.
    pub fn retire(&mut self) {
        self.requests_max = 0;
    }

    /// Looks every path up again before it is used, whatever is known of it:
    /// for a reload. What connections are being sent they get to the end.
    pub fn forget_files(&mut self) {
        self.store.forget_all();
    }

    /// What was sent of content that lies in other NUMA domains, by domain;
    /// of each in [`SharedContent::domains`], and nothing where nothing is shared.
    pub fn far_reads(&self) -> impl Iterator<Item = (u16, &Reads)> {
        self.store.far_reads()
    }

    /// Tells `each` the address ranges of what requests go through: the
    /// connections' state, the index, and content in memory. Content that is
    /// in another domain is not told: it is counted as it is sent.
    pub fn memory(&self, each: &mut dyn FnMut(core::ops::Range<usize>)) {
        let start = self.conns.as_ptr().addr();
        each(start..start + self.conns.capacity() * size_of::<ServedConnection>());
        self.store.memory(each);
    }

    /// What was counted, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        self.snapshot().iter()
    }

    /// What was counted.
    #[must_use]
    pub fn snapshot(&self) -> Counters {
        let (cache_bytes, cache_entries) = self.store.held();
        let (cache_common_bytes, cache_copy_bytes) = self.store.held_in_common();
        Counters {
            requests: self.counters.requests + self.ready,
            responses_2xx: self.counters.responses_2xx + self.ready,
            cache_hits: self.counters.cache_hits + self.ready,
            cache_bytes,
            cache_entries,
            cache_common_bytes,
            cache_copy_bytes,
            far_bytes: self.far_reads().map(|(_, reads)| reads.bytes()).sum(),
            far_frames: self.far_reads().map(|(_, reads)| reads.frames()).sum(),
            requests_waiting: u64::from(self.working),
            cache_looks: self.store.looks,
            cache_evictions: self.store.evictions,
            log_drops: self.log.as_ref().map_or(0, Log::drops),
            ..self.counters
        }
    }

    /// A new second began: `Date` changes, and what is held is looked over.
    #[cold]
    fn on_second(&mut self, now: Time) {
        self.second = self.clock.unix_seconds(now);
        self.next_second = self.clock.next_second(now);
        self.date = HttpDate::from_unix(self.second);
        if let Some(log) = &mut self.log {
            log.set_time(&self.date);
        }
        self.store.sweep();
        self.streams.on_second(self.second, now);
        if let Some(entry) = self.fixed {
            self.store.refresh(entry, self.second, &self.date);
        }
    }

    /// Takes what a connection was offered, from `used` on, whatever it is.
    /// `seen` is the first event, if it was already looked for.
    #[inline(never)]
    fn take<N: Net>(
        &mut self,
        net: &mut N,
        id: ConnId,
        data: &[u8],
        mut used: usize,
        mut seen: Option<&Event<'_>>,
    ) -> usize {
        // A connection refused at the limit is not in the table.
        let Some(conn) = self.conns.get(id.index()) else { return data.len() };
        if conn.state == State::Streaming {
            // What arrived may acknowledge the last of it.
            self.pump(net, id);
        }
        let paused = loop {
            let conn = &mut self.conns[id.index()];
            match conn.state {
                State::Vacant | State::Closing => return data.len(),
                State::Waiting | State::Streaming => break false,
                State::Ready if used >= data.len() && seen.is_none() => break false,
                State::Ready | State::Body => {}
            }
            let rest = data.get(used..).unwrap_or_default();
            let event = match seen.take() {
                Some(event) => *event,
                None if net.unsent(id) >= self.unsent_max => break true,
                None => conn.engine.on_bytes(rest, &self.http_limits),
            };
            match self.on_event(net, id, event, rest) {
                Some(consumed) => used += consumed,
                None => break false,
            }
        };
        let left = data.len() - used;
        if core::mem::take(&mut self.looks_ahead) {
            self.look_ahead(net, id, data.get(used..).unwrap_or_default());
        }
        let conn = &mut self.conns[id.index()];
        if left == 0 && conn.flags & ENDED != 0 {
            conn.flags |= DRY;
        }
        self.after_data(net, id, left, paused);
        used
    }

    /// The end of an offer: what was left, and why.
    fn after_data<N: Net>(&mut self, net: &mut N, id: ConnId, left: usize, paused: bool) {
        let now = net.now();
        let conn = &mut self.conns[id.index()];
        if !matches!(conn.state, State::Ready | State::Body) {
            return;
        }
        if paused {
            conn.flags |= PAUSED;
            self.counters.back_pressure += 1;
            self.watch_progress(net, id);
            return;
        }
        if conn.flags & ENDED != 0 {
            // What was to come of a request never will.
            self.close_after_queue(net, id);
            return;
        }
        if left > 0 && conn.state == State::Ready && conn.flags & PARTIAL == 0 {
            conn.flags |= PARTIAL;
            conn.last = Tick::of(now);
            self.arm(net, id, self.timeouts.http.header);
        }
    }

    /// One event that is not a ready request. Returns the bytes consumed, or
    /// `None` if no more are to be offered now.
    fn on_event<N: Net>(&mut self, net: &mut N, id: ConnId, event: Event<'_>, rest: &[u8]) -> Option<usize> {
        let conn = &mut self.conns[id.index()];
        match event {
            Event::NeedMore => None,
            Event::Request { request, transfer, consumed } => {
                if conn.flags & (PARTIAL | FIRST) != 0 {
                    conn.flags &= !(PARTIAL | FIRST);
                    self.arm(net, id, self.timeouts.http.keep_alive.min(self.timeouts.http.header));
                }
                self.on_request(net, id, &request, &transfer);
                Some(consumed)
            }
            Event::Body { consumed, .. } => {
                conn.last = Tick::of(net.now());
                Some(consumed)
            }
            Event::EndOfBody { consumed } => {
                self.on_body_end(net, id);
                Some(consumed)
            }
            Event::Reject { status, consumed } => {
                self.counters.parse_errors += 1;
                if status == Status::CONTENT_TOO_LARGE {
                    self.counters.bodies_refused += 1;
                }
                self.reject(net, id, status, rest);
                Some(consumed)
            }
            Event::Ignored { consumed } => Some(consumed),
        }
    }
}

impl App for Server {
    fn on_open<N: Net>(&mut self, net: &mut N, id: ConnId, _how: Opened) {
        let index = id.index();
        if index >= self.limits.connections {
            self.counters.connections_refused += 1;
            net.abort(id);
            return;
        }
        if index >= self.conns.len() {
            // Within the capacity taken at the start.
            self.conns.resize_with(index + 1, ServedConnection::vacant);
        }
        let now = net.now();
        self.counters.connections += 1;
        self.counters.connections_open += 1;
        let short = self.timeouts.http.keep_alive < self.timeouts.http.header;
        self.conns[index] = ServedConnection {
            generation: id.generation(),
            last: Tick::of(now),
            state: State::Ready,
            flags: if short { FIRST } else { 0 },
            ..ServedConnection::vacant()
        };
        if self.draining.is_some() {
            self.counters.connections_refused += 1;
            self.close_after_queue(net, id);
        } else {
            self.arm(net, id, self.timeouts.http.header);
        }
    }

    #[inline(always)]
    fn on_data<N: Net>(&mut self, net: &mut N, id: ConnId, data: &[u8]) -> usize {
        let now = net.now();
        if now >= self.next_second {
            self.on_second(now);
        }
        self.on_ready_data(net, id, data, now)
    }

    fn on_end<N: Net>(&mut self, net: &mut N, id: ConnId, held: usize) {
        let Some(conn) = self.conns.get_mut(id.index()) else { return };
        conn.flags |= if held == 0 { ENDED | DRY } else { ENDED };
        match conn.state {
            // A request that is not whole by now never will be. One that
            // waits for back-pressure to pass is offered again.
            State::Ready | State::Body if held == 0 || conn.flags & PAUSED == 0 => self.close_after_queue(net, id),
            // RFC 9112 §9.6 ends here: both sides have said all. What is queued
            // must still be taken, and our FIN acknowledged.
            State::Closing => self.watch_progress(net, id),
            _ => {}
        }
    }

    #[inline]
    fn on_sent<N: Net>(&mut self, net: &mut N, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id.index()) else { return };
        if conn.flags & PAUSED != 0 {
            conn.flags &= !PAUSED;
            conn.last = Tick::of(net.now());
            let state = conn.state;
            self.arm(net, id, self.timeouts.http.keep_alive.min(self.timeouts.http.header));
            net.resume(id);
            if state != State::Streaming {
                return;
            }
        }
        if self.conns[id.index()].state == State::Streaming {
            self.pump(net, id);
        }
    }

    fn on_timer<N: Net>(&mut self, net: &mut N, id: ConnId) {
        self.on_deadline(net, id);
    }

    fn on_close<N: Net>(&mut self, net: &mut N, id: ConnId, _why: Closed) {
        let now = net.now();
        let Some(conn) = self.conns.get_mut(id.index()) else { return };
        if conn.state == State::Vacant {
            return;
        }
        self.counters.connections_open -= 1;
        let conn = core::mem::replace(conn, ServedConnection::vacant());
        self.working -= u32::from(conn.state == State::Waiting);
        if let Some(stream) = conn.more.and_then(|more| more.stream) {
            self.stream_ended(&stream, now);
        }
    }

    #[inline(always)]
    fn on_turn<N: Net>(&mut self, net: &mut N) -> Wake {
        let now = net.now();
        // A server of one answer has nothing to do by itself.
        if now < self.next_second && self.reader.is_none() && self.log.is_none() {
            return Wake::Idle;
        }
        self.own_turn(net, now)
    }

    #[inline]
    fn warm(&self, id: ConnId) -> u64 {
        self.conns.get(id.index()).map_or(0, |conn| u64::from(conn.requests))
    }

    /// Requests whose next step is the file reader's: a new one waits behind
    /// them. What is in memory is answered at once, and a response on its way
    /// waits for its peer: neither makes another wait, however long it takes.
    #[inline]
    fn working(&self) -> u32 {
        self.working
    }

    /// Those that wait for a request, of which nothing has come.
    fn idle(&self, id: ConnId, now: Time) -> Option<Duration> {
        let conn = self.conns.get(id.index())?;
        let waits = conn.generation == id.generation()
            && conn.state == State::Ready
            && conn.flags & (PARTIAL | PAUSED | ENDED) == 0
            && matches!(conn.engine.waiting(), Waiting::FirstHead | Waiting::KeepAlive);
        waits.then(|| conn.last.passed(now))
    }

    fn drain<N: Net>(&mut self, net: &mut N) -> bool {
        self.drain_more(net)
    }
}

impl Server {
    #[inline(never)]
    fn own_turn<N: Net>(&mut self, net: &mut N, now: Time) -> Wake {
        if now >= self.next_second {
            self.on_second(now);
        }
        let mut wake = self.log.as_mut().and_then(|log| log.on_turn(now)).map_or(Wake::Idle, Wake::At);
        let Some(reader) = &mut self.reader else { return wake };
        if reader.arrived() {
            self.take_answers(net);
        }
        self.poll_streams(net);
        if let Some(reader) = &mut self.reader {
            reader.hand_over();
            if reader.waits(now) {
                wake = if reader.is_inline() { Wake::Now } else { earlier(wake, now + READER_POLL) };
            }
            if reader.hangs(now) != self.hangs {
                self.on_hang(net);
            }
        }
        wake
    }

    fn take_answers<N: Net>(&mut self, net: &mut N) {
        for _ in 0..DONE_MAX {
            let Some(done) = self.reader.as_mut().and_then(Reader::take) else { return };
            match done {
                Done::LookUp { entry, found } => self.on_found(net, entry, found),
                Done::Read { id, serial, buffer, outcome } => self.on_chunk(net, id, serial, buffer, outcome),
                Done::Reopened => {}
            }
        }
    }

    /// The connection's state, if `id` is still it.
    fn conn(&mut self, id: ConnId) -> Option<&mut ServedConnection> {
        let conn = self.conns.get_mut(id.index())?;
        (conn.state != State::Vacant && conn.generation == id.generation()).then_some(conn)
    }
}

fn earlier(wake: Wake, at: Time) -> Wake {
    match wake {
        Wake::At(other) if other <= at => wake,
        Wake::Now => wake,
        Wake::At(_) | Wake::Idle => Wake::At(at),
    }
}

/// What the log says of a request.
fn line<'a, N: Net>(net: &N, id: ConnId, request: &Request<'a>, status: Status) -> Line<'a> {
    Line {
        peer: net.peer(id),
        request: request.line(),
        status: status.code(),
        referer: request.known(Known::Referer),
        agent: request.known(Known::UserAgent),
    }
}

fn respond_content(respond: Respond) -> (&'static str, Vec<u8>) {
    match respond {
        Respond::Text(text) => ("text/plain; charset=utf-8", text.into_bytes()),
        Respond::Size(size) => {
            // Printable, a line feed every 64 bytes.
            let bytes = (0..size).map(|at| if at % 64 == 63 { b'\n' } else { b'0' + (at % 64 % 10) as u8 });
            ("application/octet-stream", bytes.collect())
        }
    }
}
