//! A handler of exchanges that does what a [`Program`] says.
//!
//! | module | for |
//! | --- | --- |
//! | `course` | how far a request has come |
//! | `run`, `script` | its phases, and the scripts in two of them |
//! | `values`, `facts`, `written`, `host` | what variables stand for |
//! | `view` | a request as the features of its place see it |
//! | `content`, `pages` | what answers |
//! | `errors` | what the error log is told |
//! | `reply`, `conditions`, `ranges`, `text`, `put` | its fields, and how it is sent |
//! | `body_filters`, `filtered_body` | what its content passes on its way |
//! | `limit_rate` | what is sent no faster than it may be |
//! | `tickets` | requests that wait for a time, a password or content that is compressed |
//! | `passing` | what files send |
//! | `bodies`, `course_body` | bodies of requests |
//! | `relay…`, `gateway`, `named`, `names` | requests that are passed on to upstreams, and their answers |
//! | `subs`, `sub_…`, `within`, `permission`, `mirrors`, `placed`, `postponed` | requests within requests |
//! | `ready`, `remember` | whole responses that are ready |

mod bodies;
mod body_filters;
mod chosen;
mod conditions;
mod content;
mod course;
mod course_body;
mod course_parts;
#[cfg(test)]
mod echo;
mod errors;
mod facts;
mod filtered_body;
mod gateway;
mod guard;
mod handler;
mod held;
mod host;
mod left_behind;
mod limit_rate;
mod listing;
mod log;
mod mirrors;
mod named;
mod names;
mod pages;
mod parts;
mod passing;
mod permission;
mod placed;
mod postponed;
mod put;
mod ranges;
mod ready;
mod real_root;
mod relay;
mod relay_answer;
mod relay_around;
mod relay_body;
mod relay_request;
mod relay_run;
mod relay_tunnel;
mod relay_values;
mod remember;
mod reply;
mod roots;
mod run;
mod script;
mod secured;
mod seek;
mod sliced;
mod slices;
mod spare;
mod streams;
mod sub_course;
mod sub_run;
mod subs;
mod text;
mod tickets;
mod values;
mod view;
mod waits;
mod within;
mod written;

use crate::program::Program;
use crate::silos::SiloShare;
use access_log::LogSet;
use app::Wake;
use asking::{AskStage, KeptLinks};
use core::time::Duration;
pub use parts::{EngineParts, NewProgram, PrepareError};

use course::{Course, CourseState, Loaded};
use exchange::{ExchangeId, HeadWriter, Replies};
use features::compression::CompressedBodies;
use files::{FileId, FileLimits, Files, Streamed};
use filtered_body::Makings;
use gzip::Encoders;
use left_behind::LeftRequests;
use passing::Passing;
use passwords::{Verifier, VerifierLimits};
use ready::ReadyTable;
use run::{Flow, Runner};
use rustix::fd::OwnedFd;
use semantics::date::HttpDate;
use semantics::{OwnedRequest, Request, Status};
use spare::Spare;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;
use std::{cmp::Reverse, collections::BinaryHeap};
use subs::Subs;
use values::Clock;
use wire::Time;

/// Does what a program says, for one silo. Not `Send`: made on the silo's thread.
#[derive(Debug)]
pub struct Engine {
    loaded: Rc<Loaded>,
    files: Files,
    rest: Rest,
    /// The listener's number, if there is but one.
    single: Option<u16>,
    /// There may be connections that a listener took which is gone.
    moved: bool,
    /// Programs that were replaced, until what began by them is over.
    retired: Vec<Rc<Loaded>>,
    /// Whether anything is logged.
    logs_any: bool,
    /// Whether silos tell what they have counted.
    tells: bool,
    /// Whether answers may be in codings.
    codes: bool,
    /// Whether connections may be secured: by this program, or by one before.
    secures: bool,
    /// Whether one of these is so: requests for one path are of several classes.
    classes: bool,
    /// Whether bodies of requests may be read, and names resolved, by any program that is
    /// there.
    reads: bool,
    resolves: bool,
    /// Wakes the silo.
    event: Arc<OwnedFd>,
}

/// An engine without its files and its program.
#[derive(Debug)]
pub(crate) struct Rest {
    courses: Vec<Option<Box<Course>>>,
    free: Vec<u32>,
    spare: Spare,
    heads: HeadWriter,
    ready: ReadyTable,
    /// What is ready depends on the path alone, as far as files have it
    /// ([`Program::answers_by_path`]); and some is.
    by_path: bool,
    ready_by_path: bool,
    clock: Clock,
    /// Makes boundaries of several ranges differ.
    serial: u32,
    /// Looks at passwords, if any place asks for them; and what it knew the last
    /// of them by.
    verifier: Option<Verifier>,
    tickets: u32,
    /// Requests on a connection, at most, and its age, whatever a place says: those of the
    /// first server.
    requests: u32,
    age: Duration,
    /// What this silo has counted, for all to tell of.
    share: Arc<SiloShare>,
    /// Compresses what is in memory, if any place is to; and what is not.
    compressed: Option<CompressedBodies>,
    encoders: Encoders,
    /// Those that go on later, and when.
    delayed: BinaryHeap<Reverse<(Time, u64)>>,
    /// What the request that runs is to be sent.
    stream: Option<(FileId, Streamed)>,
    /// Answers that are made as they are taken.
    makings: Makings,
    /// Connections to upstreams that wait for requests; and those of requests that are over,
    /// to be closed.
    kept: KeptLinks,
    /// Requests within requests.
    subs: Subs,
    /// Those whose clients have gone.
    left_behind: LeftRequests,
}

/// Bytes of compressed content that are kept.
const COMPRESSED_MAX: usize = 64 << 20;

impl Engine {
    /// An engine. `event` becomes readable when a helper has an answer.
    #[must_use]
    pub fn new(parts: EngineParts, limits: FileLimits, heads: &HeadWriter, event: &Arc<OwnedFd>) -> Self {
        let EngineParts { program, directory, reader, cpus } = parts;
        // Nobody is to aim at a bucket.
        let keys = RandomState::new();
        let ready = ReadyTable::new(directory.cache_bytes, [keys.hash_one(0), keys.hash_one(1)]);
        let mut engine = Self {
            loaded: program.load(event),
            retired: Vec::new(),
            logs_any: false,
            tells: false,
            codes: false,
            secures: false,
            classes: false,
            reads: false,
            resolves: false,
            files: Files::new(&directory, reader, limits, event),
            rest: Rest {
                courses: Vec::new(),
                free: Vec::new(),
                spare: Spare::default(),
                heads: heads.clone(),
                ready,
                by_path: false,
                ready_by_path: false,
                clock: Clock::new(0, HttpDate::from_unix(0), Time::ZERO),
                serial: 0,
                // Started now, for a silo may start none later. Without them places
                // that ask for passwords answer 500, and content is sent as it is.
                verifier: Verifier::start(VerifierLimits::default(), event, &cpus).ok(),
                tickets: 0,
                requests: u32::MAX,
                age: Duration::MAX,
                share: Arc::default(),
                compressed: CompressedBodies::start(COMPRESSED_MAX, event, &cpus).ok(),
                encoders: Encoders::default(),
                delayed: BinaryHeap::new(),
                stream: None,
                makings: Makings::default(),
                kept: KeptLinks::default(),
                subs: Subs::default(),
                left_behind: LeftRequests::default(),
            },
            single: None,
            moved: false,
            event: Arc::clone(event),
        };
        engine.settle();
        engine
    }

    fn settle(&mut self) {
        self.single = if self.loaded.program.listeners.len() == 1 && !self.moved { Some(0) } else { None };
        let summary = self.loaded.program.summary();
        (self.logs_any, self.tells, self.codes) = (summary.logs, summary.tells, summary.codes);
        self.secures |= self.loaded.program.speaks_tls();
        self.classes = self.codes || self.secures;
        self.rest.by_path = self.single.is_some() && !self.classes && self.loaded.program.answers_by_path();
        self.rest.ready_by_path &= self.rest.by_path;
        let program = &self.loaded.program;
        let first = program.listeners.first().and_then(|listener| listener.servers.first());
        let first = first.and_then(|server| program.servers.get(usize::from(server.0)));
        let block = first.and_then(|server| program.blocks.get(server.block.0 as usize));
        self.rest.requests = block.map_or(u32::MAX, |block| block.connection.requests);
        self.rest.age = block.map_or(Duration::MAX, |block| block.connection.age);
        self.rest.share = self.loaded.program.silos.join();
        let any = |has: fn(&Loaded) -> bool| self.retired.iter().chain([&self.loaded]).any(|loaded| has(loaded));
        self.reads = any(|loaded| loaded.bodies.borrow().is_some());
        self.resolves = any(|loaded| loaded.names.borrow().is_some());
    }

    /// Takes another program up, for what begins from now on.
    pub fn change(&mut self, program: NewProgram) {
        let old = core::mem::replace(&mut self.loaded, program.load(&self.event));
        let at =
            |program: &Program| program.listeners.iter().map(|one| (one.address, one.path.clone())).collect::<Vec<_>>();
        self.moved |= at(&old.program) != at(&self.loaded.program);
        self.loaded.take_names_of(&old);
        self.rest.kept.replace(&old.groups);
        self.retired.push(old);
        self.rest.courses_loaded(&self.loaded);
        self.rest.ready.clear();
        self.files.forget_paths();
        self.settle();
    }

    /// Its files.
    #[must_use]
    pub const fn files(&self) -> &Files {
        &self.files
    }

    /// Lines of logs that were lost.
    #[must_use]
    pub fn log_drops(&self) -> u64 {
        self.loaded.logs.borrow().as_ref().map_or(0, LogSet::drops)
    }

    /// Lets go of programs that nothing is under way by. What writes their logs may
    /// take its time, and does on a thread of its own.
    #[cold]
    fn let_go(&mut self) {
        let (kept, over) = self.retired.drain(..).partition(|loaded| Rc::strong_count(loaded) > 1);
        self.retired = kept;
        // Hosts and places by the thousand take milliseconds to let go of, too.
        let over: Vec<Rc<Loaded>> = over;
        for (program, logs) in over.into_iter().filter_map(Rc::into_inner).map(Loaded::into_parts) {
            let _ = std::thread::Builder::new().name("replaced".to_owned()).spawn(move || drop((program, logs)));
        }
    }

    /// Looks at every file before it is next sent.
    pub fn reload(&mut self) {
        self.files.reload();
        self.rest.ready.clear();
    }

    /// Looks every path up again before it is used, whatever is known of it.
    pub fn forget(&mut self) {
        self.files.forget();
        self.rest.ready.clear();
    }

    /// Runs a request until it waits or was answered.
    fn run(&mut self, replies: &mut dyn Replies, token: u32, course: Box<Course>, request: &Request<'_>) {
        self.run_from(replies, token, course, request, |_| None);
    }

    /// The same, from what `enter` comes to.
    fn run_from(
        &mut self,
        replies: &mut dyn Replies,
        token: u32,
        mut course: Box<Course>,
        request: &Request<'_>,
        enter: impl FnOnce(&mut Runner<'_>) -> Option<Flow>,
    ) {
        self.rest.clock.now = replies.now();
        let loaded = Rc::clone(&course.loaded);
        let mut runner = Runner {
            clock: self.rest.clock,
            files: &mut self.files,
            rest: &mut self.rest,
            replies,
            course: &mut course,
            request,
            loaded,
            token,
            location: None,
        };
        let first = enter(&mut runner);
        let answered = runner.run(first);
        if !answered {
            course.state = CourseState::Looks;
            self.keep(replies, token, course, request);
            return;
        }
        match self.rest.stream.take() {
            None if course.rated.is_some() => {
                self.keep(replies, token, course, request);
                self.send_rated(replies, token);
            }
            None if course.relay.as_ref().is_some_and(|relay| relay.ask.stage() == AskStage::Tunnel) => {
                course.state = CourseState::Sends;
                self.keep(replies, token, course, request);
            }
            None if course.left_behind.is_some() && course.relay.is_some() => {
                course.state = CourseState::Sends;
                self.keep(replies, token, course, request);
            }
            None if course.filtering.is_some() => {
                self.keep(replies, token, course, request);
                self.begin_making(replies, token);
            }
            Some((file, what)) if course.state == CourseState::Sends => {
                let (id, is_made) = (course.id, course.filtering.is_some());
                self.keep(replies, token, course, request);
                let mut passing = Passing { replies, rest: &mut self.rest };
                let sent = self.files.send_stream(&mut passing, (id, request), file, what, token);
                if sent.is_ok() && is_made {
                    self.begin_making(replies, token);
                }
                if sent.is_err() {
                    self.refuse_stream(replies, token, "answers from files have all that they may");
                }
            }
            _ => {
                self.rest.log(&mut course, request);
                self.rest.give_back(token, course);
            }
        }
    }

    /// What was settled cannot be sent, and nothing of it was: an error page goes in its place, or, where that
    /// cannot be sent either, a status alone. It is logged by what was sent.
    #[cold]
    fn refuse_stream(&mut self, replies: &mut dyn Replies, token: u32, why: &'static str) {
        let Some(place) = self.rest.courses.get_mut(token as usize) else { return };
        let Some(mut course) = place.take() else { return };
        let Some(request) = course.request.take() else {
            *place = Some(course);
            return;
        };
        course.filtering = None;
        course.sent.forget();
        if core::mem::replace(&mut course.again.refused, true) {
            let (id, unavailable) = (course.id, Status::SERVICE_UNAVAILABLE);
            (course.sent.status, course.sent.complete) = (unavailable.code(), true);
            replies.reply_status(id, &request.get(), unavailable, b"Retry-After: 1\r\n");
            self.rest.log(&mut course, &request.get());
            self.rest.give_back(token, course);
            return;
        }
        (course.state, course.inner) = (CourseState::Runs, None);
        self.run_from(replies, token, course, &request.get(), |runner| {
            runner.tell(features::ErrorLevel::ERROR, || why.into());
            Some(Flow::Status(503))
        });
    }

    fn keep(&mut self, replies: &mut dyn Replies, token: u32, mut course: Box<Course>, request: &Request<'_>) {
        if course.request.is_none() {
            // Of one of many on a connection no more is kept than it has.
            let memory = if course.about.http2 { Vec::new() } else { self.rest.spare.bytes() };
            course.request = Some(OwnedRequest::within(memory, *request));
        }
        replies.set_mark(course.id, token);
        if let Some(place) = self.rest.courses.get_mut(token as usize) {
            *place = Some(course);
        }
    }

    /// Hands lines to what writes them; when that is to be done again.
    fn write_logs(&mut self, now: Time) -> Wake {
        let mut wake = Wake::Idle;
        for loaded in self.retired.iter().chain([&self.loaded]) {
            if let Some(logs) = loaded.logs.borrow_mut().as_mut() {
                match logs.on_turn(now) {
                    Some(at) => wake = wake.earlier(Wake::At(at)),
                    None => loaded.is_written(),
                }
            }
        }
        wake
    }

    /// One that has waited goes on.
    fn go_on(&mut self, replies: &mut dyn Replies, token: u32) {
        let Some(place) = self.rest.courses.get_mut(token as usize) else { return };
        let Some(mut course) = place.take() else { return };
        if course.rated.is_some() {
            *place = Some(course);
            self.send_rated(replies, token);
            return;
        }
        let Some(request) = course.request.take() else {
            *place = Some(course);
            return;
        };
        if course.state == CourseState::Sends {
            // The file was another when it was to be sent.
            if course.again.sent {
                course.request = Some(request);
                *place = Some(course);
                return self.refuse_stream(replies, token, "a file was another each time that it was to be sent");
            }
            course.again.sent = true;
            course.filtering = None;
            course.sent.fields.clear();
        } else {
            course.waited = course.inner.is_some();
        }
        (course.state, course.inner) = (CourseState::Runs, None);
        self.run(replies, token, course, &request.get());
    }
}

impl Rest {
    pub fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// A place for a request that runs.
    fn token(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.courses.push(None);
            self.courses.len() as u32 - 1
        })
    }

    /// Requests under way, those within others too.
    fn requests(&self) -> u64 {
        self.courses.len().saturating_sub(self.free.len()) as u64
    }

    /// The memory of one that is over.
    fn begin(
        &mut self,
        loaded: &Rc<Loaded>,
        id: ExchangeId,
        request: &Request<'_>,
        replies: &dyn Replies,
    ) -> Box<Course> {
        let mut course = self.spare.course().unwrap_or_else(|| Box::new(Course::new(Rc::clone(loaded), id)));
        course.begin(loaded, id, request, replies);
        course
    }

    /// What is kept to be begun again names no program but `loaded`.
    fn courses_loaded(&mut self, loaded: &Rc<Loaded>) {
        self.spare.name(loaded);
    }

    fn give_back(&mut self, token: u32, course: Box<Course>) {
        self.free.push(token);
        self.recycle(course);
    }

    fn recycle(&mut self, mut course: Box<Course>) {
        // What it counted as, counts no more.
        self.end_sub(&mut course);
        course.features.limits.held.clear();
        if course.left_behind.take().is_some() {
            self.left_behind.leave();
        }
        (course.filtering, course.body, course.secured.session) = (None, None, None);
        self.abandon(&mut course);
        self.spare.give_course(course);
    }

    pub fn peek(&self, token: u32, id: ExchangeId) -> Option<&Course> {
        self.courses.get(token as usize)?.as_deref().filter(|course| course.id == id)
    }

    /// The request of an exchange that is kept.
    pub fn course_of(&mut self, replies: &dyn Replies, id: ExchangeId) -> Option<&mut Course> {
        let token = replies.mark(id)?;
        self.courses.get_mut(token as usize)?.as_deref_mut().filter(|course| course.id == id)
    }

    /// One that was being sent is over.
    pub fn end(&mut self, replies: &mut dyn Replies, token: u32, complete: bool) {
        let Some(mut course) = self.courses.get_mut(token as usize).and_then(Option::take) else { return };
        course.sent.complete = complete;
        course.state = CourseState::Over;
        self.clock.now = replies.now();
        if course.loaded.asks_for_paths {
            course.secured.path = replies.path_figures(course.id);
        }
        if let Some(request) = course.request.take() {
            self.log(&mut course, &request.get());
        }
        self.give_back(token, course);
    }
}
