//! What becomes of a request, by a configuration: the phases that nginx has.
//!
//! ```text
//!  host ─► rewrite of the server ─► location ─► rewrite ─► limits ─► access
//!                                      ▲           │                   │
//!                                      └── last ───┘            try_files, content
//!                                      ▲                               │
//!                                      └────────── error_page ─────────┤
//!                                                        fields, log ◄─┘
//! ```
//!
//! What the configuration says at each of them is in `configuration`; the handler of exchanges
//! that does so is an [`Engine`].
//!
//! | module | for |
//! | --- | --- |
//! | `loaded` | a program as one silo has it |
//! | `request_state` | how far a request has come |
//! | `requests`, `resume`, `finish` | the table of all; how one runs, waits and goes on; and its end |
//! | `phases`, `script` | its phases, and the scripts in two of them |
//! | `runner` | a request, and all that it takes to run it |
//! | `routing`, `lookup`, `try_files` | its place, and what is at a path |
//! | `guard`, `real_ip`, `basic_auth` | who may see that, and how often |
//! | `scope`, `values`, `facts` | what variables stand for |
//! | `chosen`, `host` | the server that answers, and the host that was asked for last |
//! | `view` | a request as the features of its place see it |
//! | `content`, `answer`, `error_pages` | what answers |
//! | `errors` | what the error log is told |
//! | `reply`, `conditions`, `put` | its fields, and how it is sent |
//! | `body_filters`, `filtered_body` | what its content passes on its way |
//! | `limit_rate` | what is sent no faster than it may be |
//! | `tickets`, `wakeups` | requests that wait for a time, a password or content that is compressed |
//! | `quiet` | turns in which nothing is to be done |
//! | `passing` | what files send |
//! | `bodies`, `body_events`, `body_progress` | bodies of requests |
//! | `relay…`, `gateway`, `named`, `names` | requests that are passed on to upstreams, and their answers |
//! | `subs`, `sub_…`, `within`, `permission`, `mirrors`, `placed`, `postponed` | requests within requests |
//! | `ready`, `remember` | whole responses that are ready |
#![forbid(unsafe_code)]

mod answer;
mod basic_auth;
mod bodies;
mod body_events;
mod body_filters;
mod body_progress;
mod chosen;
mod conditions;
mod content;
#[cfg(test)]
mod echo;
mod error_pages;
mod errors;
mod facts;
mod filtered_body;
mod finish;
mod gateway;
mod guard;
mod handler;
mod held;
mod host;
mod late;
mod left_behind;
mod limit_rate;
mod listing;
mod loaded;
mod log;
mod lookup;
mod mirrors;
mod named;
mod names;
mod parts;
mod passing;
mod patience;
mod permission;
mod phases;
mod placed;
mod postponed;
mod put;
mod quiet;
mod ready;
mod real_ip;
mod real_root;
mod relay;
mod relay_answer;
mod relay_around;
mod relay_body;
mod relay_flow;
mod relay_request;
mod relay_run;
mod relay_servers;
mod relay_tunnel;
mod relay_values;
mod remember;
mod reply;
mod request_state;
mod requests;
mod resume;
mod roots;
mod routing;
mod runner;
mod scope;
mod script;
mod secured;
mod seek;
mod slices;
mod spare;
mod streams;
mod sub_answers;
mod sub_results;
mod sub_run;
mod subrequest;
mod subs;
mod tickets;
mod try_files;
mod values;
mod view;
mod waits;
mod wakeups;
mod within;

use access_log::LogSet;
use app::Wake;
use asking::KeptLinks;
use configuration::program::Program;
use configuration::silos::SiloShare;
use core::time::Duration;
use errors::CutAnswer;
use exchange::{ExchangeId, HeadWriter, Replies};
use features::compression::CompressedBodies;
use files::{FileId, FileLimits, Files, Streamed};
use filtered_body::Makings;
use gzip::Encoders;
use latency::SeriesBoard;
use left_behind::LeftRequests;
use loaded::Loaded;
pub use parts::{EngineParts, NewProgram, PrepareError};
use passwords::{Verifier, VerifierLimits};
use ready::ReadyTable;
use request_state::RequestState;
use requests::RequestTable;
use rustix::fd::OwnedFd;
use scope::Clock;
use semantics::Request;
use semantics::date::HttpDate;
use spare::Spare;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;
use subs::Subs;
use tickets::Tickets;
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
    requests: RequestTable,
    spare: Spare,
    heads: HeadWriter,
    /// What latencies are counted by, if anybody asks.
    board: Option<SeriesBoard>,
    ready: ReadyTable,
    /// What is ready depends on the path alone, as far as files have it
    /// ([`Program::answers_by_path`]); and some is.
    by_path: bool,
    ready_by_path: bool,
    clock: Clock,
    /// Makes boundaries of several ranges differ.
    serial: u32,
    /// Looks at passwords, if any place asks for them.
    verifier: Option<Verifier>,
    tickets: Tickets,
    /// Requests on a connection, at most, and its age, whatever a place says: those of the
    /// first server.
    requests_max: u32,
    age_max: Duration,
    /// What this silo has counted, for all to tell of.
    share: Arc<SiloShare>,
    /// Compresses what is in memory, if any place is to; and what is not.
    compressed: Option<CompressedBodies>,
    encoders: Encoders,
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
    /// Answers that were cut short in this turn.
    cut: Vec<CutAnswer>,
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
                requests: RequestTable::default(),
                spare: Spare::default(),
                heads: heads.clone(),
                board: None,
                ready,
                by_path: false,
                ready_by_path: false,
                clock: Clock::new(0, HttpDate::from_unix(0), Time::ZERO),
                serial: 0,
                // Started now, for a silo may start none later. Without them places
                // that ask for passwords answer 500, and content is sent as it is.
                verifier: Verifier::start(VerifierLimits::default(), event, &cpus).ok(),
                tickets: Tickets::default(),
                requests_max: u32::MAX,
                age_max: Duration::MAX,
                share: Arc::default(),
                compressed: CompressedBodies::start(COMPRESSED_MAX, event, &cpus).ok(),
                encoders: Encoders::default(),
                stream: None,
                makings: Makings::default(),
                kept: KeptLinks::default(),
                subs: Subs::default(),
                left_behind: LeftRequests::default(),
                cut: Vec::new(),
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
        let first = first.and_then(|server| program.server(*server));
        let block = first.and_then(|server| program.block(server.block));
        self.rest.requests_max = block.map_or(u32::MAX, |block| block.connection.requests);
        self.rest.age_max = block.map_or(Duration::MAX, |block| block.connection.age);
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
        self.rest.spare.name(&self.loaded);
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

    /// Latencies are counted with series of this board, by host and location.
    pub fn count_latencies(&mut self, board: Option<&SeriesBoard>) {
        self.rest.board = board.cloned();
    }

    /// Opens its logs again.
    pub fn reopen_logs(&self) {
        if let Some(logs) = self.loaded.logs.borrow().as_ref() {
            logs.reopen();
        }
    }

    /// Looks every path up again before it is used, whatever is known of it.
    pub fn forget(&mut self) {
        self.files.forget();
        self.rest.ready.clear();
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
}

impl Rest {
    pub fn next_serial(&mut self) -> u32 {
        self.serial = self.serial.wrapping_add(1);
        self.serial
    }

    /// The memory of one that is over.
    fn begin(
        &mut self,
        loaded: &Rc<Loaded>,
        id: ExchangeId,
        request: &Request<'_>,
        replies: &dyn Replies,
    ) -> Box<RequestState> {
        let mut state = self.spare.state().unwrap_or_else(|| Box::new(RequestState::new(Rc::clone(loaded), id)));
        state.begin(loaded, id, request, replies);
        state
    }
}
