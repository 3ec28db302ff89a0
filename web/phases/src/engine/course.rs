//! How far a request has come, and what was found out on the way.

use super::course_body::CourseBody;
pub(crate) use super::course_parts::CourseState;
use super::course_parts::{Again, Captures, KeptContent, LeftBehind, Rewritten, SecuredCourse};
use super::filtered_body::Filtering;
use super::host::LastHost;
use super::limit_rate::RatedBody;
use super::named::Names;
use super::relay::Relay;
use super::roots::RealRoots;
use super::sliced::Slices;
use super::sub_course::{ChildCourses, SubCourse};
use crate::filters::{Include, SsiValues};
use crate::program::{BlockId, Program, ServerId};
use access_log::LogSet;
use app::Prefix;
use asking::{AskTry, GroupSpec, ServerGroups};
use bodies::{BodyContent, BodyStore};
use core::ops::Range;
use exchange::{About, ExchangeId, ProxiedAddresses, Ready, Replies, Transport};
use features::{FeatureParts, Reach};
use files::Stamp;
use pcre::Matcher;
use semantics::{Method, OwnedRequest, Request};
use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use wire::Time;

/// Redirects within the server, and rewrites that look for a location anew, at
/// most (`NGX_HTTP_MAX_URI_CHANGES` of nginx).
const CHANGES_MAX: u8 = 10;

/// Paths that an answer which is dated anew may depend on.
const STAMPS_MAX: usize = 6;

/// With none left an error has no page of its own any more.
const CHANGES_AT_FIRST: u8 = CHANGES_MAX + 1;

/// A program as one silo has it: what matching needs is the silo's own.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub program: Arc<Program>,
    matcher: RefCell<Option<Matcher>>,
    /// Where lines are logged; none where nothing is.
    pub logs: RefCell<Option<LogSet>>,
    /// Where bodies of requests are kept; none where nothing reads them.
    pub bodies: RefCell<Option<BodyStore>>,
    /// Of `$request_id`.
    secret: RandomState,
    /// Some value asks for a field that is sent.
    pub asks_for_sent: bool,
    /// Clients of some listener come through proxies that tell of them.
    behind_proxies: bool,
    /// Or somebody else tells of them.
    finds_clients: bool,
    /// The series of latencies of each block, once it is known.
    series: Box<[Cell<u16>]>,
    /// The error log has lines.
    told: Cell<bool>,
    /// Servers that requests are passed on to.
    pub groups: ServerGroups,
    /// What resolves names; none where nothing does.
    pub names: RefCell<Option<Names>>,
    /// Who is believed when he tells of clients (`set_real_ip_from`), anywhere.
    pub fronts: Vec<Prefix>,
    /// Some value may ask where a root lies.
    pub asks_for_real_roots: bool,
    /// Some value asks how TCP has found clients.
    pub asks_for_paths: bool,
    /// What is known of that.
    pub real_roots: RefCell<RealRoots>,
    pub last_host: LastHost,
}

impl Loaded {
    pub fn new(program: Arc<Program>, logs: Option<LogSet>, bodies: Option<BodyStore>, names: Option<Names>) -> Self {
        let needed = !program.expressions.is_empty();
        let matcher = RefCell::new(if needed { Matcher::new() } else { None });
        let asks_for_sent = program.variables.asks_for_sent();
        let behind_proxies = program.listeners.iter().any(|listener| listener.proxy_protocol);
        let summary = program.summary();
        let finds_clients = behind_proxies || summary.real_ip;
        let (logs, secret, bodies) = (RefCell::new(logs), RandomState::new(), RefCell::new(bodies));
        let series = vec![Cell::new(Ready::OF_HOST); program.blocks.len()].into();
        let told = Cell::new(summary.logs);
        let groups = ServerGroups::new(program.upstreams.iter().map(|one| GroupSpec {
            group: Arc::clone(&one.group),
            idle: one.idle,
            is_named: one.names.is_some(),
        }));
        let fronts = program.fronts();
        let asks_for_real_roots = program.variables.asks_for_real_roots();
        let asks_for_paths = program.variables.asks_for_paths();
        Self {
            program,
            matcher,
            logs,
            bodies,
            secret,
            asks_for_sent,
            behind_proxies,
            finds_clients,
            series,
            told,
            groups,
            names: RefCell::new(names),
            fronts,
            asks_for_real_roots,
            asks_for_paths,
            real_roots: RefCell::default(),
            last_host: LastHost::default(),
        }
    }

    /// The series of latencies of a server's place, if anybody asks.
    pub fn series(&self, replies: &dyn Replies, server: ServerId, place: BlockId) -> Option<u16> {
        let known = self.series.get(place.0 as usize)?;
        if known.get() == Ready::OF_HOST {
            let host = &self.program.servers.get(usize::from(server.0))?.name;
            let label = &self.program.blocks.get(place.0 as usize)?.label;
            known.set(replies.series(if host.is_empty() { b"_" } else { host }, label)?);
        }
        Some(known.get())
    }

    /// What others than the silo's thread may let go of.
    pub fn into_parts(self) -> (Arc<Program>, Option<LogSet>) {
        (self.program, self.logs.into_inner())
    }

    /// A line was added to an error log.
    pub fn tell(&self) {
        self.told.set(true);
    }

    /// No line waits to be written.
    pub fn is_written(&self) {
        self.told.set(self.program.summary().logs);
    }

    /// Whether lines of its logs may wait to be written, of requests or of errors.
    pub fn may_write(&self) -> bool {
        self.told.get()
    }

    /// Whether a client's address may be another than its connection's.
    pub const fn finds_clients(&self) -> bool {
        self.finds_clients
    }

    /// What a proxy said of an exchange's client.
    #[inline]
    pub fn proxied(&self, replies: &dyn Replies, id: ExchangeId) -> Option<Box<ProxiedAddresses>> {
        if self.behind_proxies { Self::told(replies, id) } else { None }
    }

    #[inline(never)]
    fn told(replies: &dyn Replies, id: ExchangeId) -> Option<Box<ProxiedAddresses>> {
        replies.opening(id).proxied.cloned().map(Box::new)
    }

    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Whether an expression matches; groups are told to `groups`. One that goes
    /// astray in the subject is an error.
    pub fn find(&self, expression: u32, subject: &[u8], groups: &mut dyn FnMut(usize, Range<usize>)) -> Option<bool> {
        let regex = self.program.expressions.get(expression as usize)?;
        let mut matcher = self.matcher.borrow_mut();
        let found = matcher.as_mut()?.find(regex, subject).ok()?;
        let Some(found) = found else { return Some(false) };
        for group in 0..=regex.groups() as usize {
            if let Some(range) = found.get(group) {
                groups(group, range);
            }
        }
        Some(true)
    }

    /// Whether an expression matches. One that goes astray does not.
    pub fn matches(&self, expression: u32, subject: &[u8]) -> bool {
        self.find(expression, subject, &mut |_, _| {}).unwrap_or(false)
    }
}

/// What an answer depends on beside the server, the path, and the class of
/// encodings that the client takes: as far as it does, it is this request's
/// alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Depends(u8);

impl Depends {
    /// On the query: it is that of all requests that have none, if this one has
    /// none.
    pub const QUERY: u8 = 1;
    /// On the class of encodings.
    pub const ENCODING: u8 = 2;
    /// On something that other requests do not share.
    pub const OTHER: u8 = 4;
    /// On the time, or on what is to be looked at in each second: it is not dated anew.
    pub const SECOND: u8 = 8;

    /// What an answer depends on that was made of a variable of this reach.
    #[inline]
    pub const fn of(reach: Reach) -> u8 {
        match reach {
            Reach::Second => Self::SECOND,
            _ if reach.is_shared() => 0,
            Reach::Query => Self::QUERY,
            _ => Self::OTHER,
        }
    }

    pub const fn on(&mut self, what: u8) {
        self.0 |= what;
    }

    pub const fn has(self, what: u8) -> bool {
        self.0 & what != 0
    }
}

/// Where a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Phase {
    /// Whose client it is (`realip`).
    #[default]
    Start,
    /// In its server's script.
    Server,
    /// Which location is its.
    Find,
    /// In its location's script.
    Rewrite,
    /// May it be so soon, and with so many?
    Limit,
    /// May it see this?
    Access,
    /// `try_files`.
    Try,
    /// What answers it.
    Content,
}

/// What was sent, for the log.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    pub status: u16,
    /// Bytes of hints that came before it.
    pub hints: u64,
    pub head: u64,
    pub body: u64,
    /// The fields, but for those that are the carrier's.
    pub fields: Vec<u8>,
    /// What stands before all others of an upstream's.
    pub front: Vec<u8>,
    /// Those behind the body; and those of the upstream's, where these go on.
    pub trailers: Vec<u8>,
    pub upstream_trailers: Vec<u8>,
    /// Where a redirect leads that an error page answers.
    pub location: Option<Vec<u8>>,
    pub length: Option<u64>,
    /// The reason phrase of an upstream's answer, which is that of this status.
    pub reason: Option<(u16, Box<[u8]>)>,
    /// All of it was queued.
    pub complete: bool,
    /// Its content is text of the configuration, made of nothing but what it depends on.
    pub is_text: bool,
}

impl Sent {
    /// Forgets all but the memory.
    pub fn forget(&mut self) {
        (self.status, self.hints, self.head, self.body) = (0, 0, 0, 0);
        for bytes in [&mut self.fields, &mut self.front, &mut self.trailers, &mut self.upstream_trailers] {
            bytes.clear();
        }
        (self.location, self.length, self.complete, self.is_text) = (None, None, false, false);
        self.reason = None;
    }

    /// The reason phrase of an answer with this status, where it has one of its own.
    pub fn reason_of(&mut self, status: u16) -> Option<Box<[u8]>> {
        self.reason.take().filter(|(of, _)| *of == status).map(|(_, reason)| reason)
    }
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Course {
    pub id: ExchangeId,
    pub loaded: Rc<Loaded>,
    pub about: About,
    pub started: Time,
    /// Kept where it waits.
    pub request: Option<OwnedRequest>,
    pub listener: u16,
    /// What its client takes, as ready answers are told apart by it.
    pub class: u8,
    pub server: ServerId,
    /// The location that was found, and whose settings count: its own, or those
    /// of an `if` in it.
    pub place: BlockId,
    pub block: BlockId,
    pub phase: Phase,
    /// Where in a script, a list of index files or of what is tried.
    pub at: u32,
    pub method: Method,
    /// The path: decoded, with its slash.
    pub uri: Vec<u8>,
    pub args: Vec<u8>,
    /// Redirects that are left.
    pub changes: u8,
    pub internal: bool,
    /// A rewrite changed the path, and a location is to be looked for.
    pub uri_changed: bool,
    /// `try_files` found a whole path for an `alias` with an expression.
    pub whole_path: bool,
    /// What is looked for next was waited for.
    pub waited: bool,
    /// The last place whose root was looked for ([`RealRoots`]).
    pub real_root: Option<BlockId>,
    /// What of a file was another than when it was looked for.
    pub again: Again,
    /// What it is refused with, whatever its location says, and by what answers
    /// those who name no host.
    pub refused: Option<u16>,
    /// How its connection is secured, and what follows from that.
    pub secured: SecuredCourse,
    /// Its body was too long.
    pub too_long: bool,
    /// The status in place of the one that answers, and an error page answers.
    pub told: Option<u16>,
    pub in_error_page: bool,
    pub slots: Vec<Option<Box<[u8]>>>,
    pub cached: Vec<(u16, Option<Box<[u8]>>)>,
    pub captures: Captures,
    pub depends: Depends,
    /// Where paths led that decided of its answer.
    pub stamps: Vec<Stamp>,
    /// `Expires` is so many seconds after the date.
    pub expires_after: Option<i64>,
    pub peer: Option<SocketAddr>,
    /// What a proxy said of the client before all requests.
    pub proxied: Option<Box<ProxiedAddresses>>,
    pub limit_rate: Option<u64>,
    /// What features know of it.
    pub features: FeatureParts,
    /// Fields that whatever answers has.
    pub kept_fields: Vec<u8>,
    /// What the verifier, or who wakes it later, knows it by.
    pub ticket: Option<u64>,
    /// What is sent from memory no faster than it may be.
    pub rated: Option<RatedBody>,
    /// The error log has a line about it: another request is to have its own.
    pub is_told: Cell<bool>,
    /// What is made as it is taken.
    pub filtering: Option<Box<Filtering>>,
    /// The request's body, if it has one.
    pub(super) body: Option<Box<CourseBody>>,
    /// It is passed on; and who was asked before, where it is not.
    pub relay: Option<Box<Relay>>,
    pub relay_body: Option<BodyContent>,
    /// Where it is passed on to, while its body is awaited: what the value said before.
    pub address: Option<Vec<u8>>,
    pub tries: Vec<AskTry>,
    /// Fields of the answer that came, and what whatever answers has of it.
    pub answered: Vec<u8>,
    pub kept: KeptContent,
    /// The server that was asked, where something else answers now: for people.
    pub passed_to: Option<Vec<u8>>,
    /// What `$proxy_host` and `$proxy_port` stand for.
    pub proxy_host: Vec<u8>,
    pub proxy_port: Option<Arc<[u8]>>,
    /// The target is another than was sent.
    pub rewritten: Rewritten,
    /// It is a request within another.
    pub sub: Option<Box<SubCourse>>,
    /// It has made such.
    pub children: Option<Box<ChildCourses>>,
    /// Its answer is asked for by slices.
    pub slices: Option<Box<Slices>>,
    /// What commands of SSI have set: of a main request, all of those within it.
    pub ssi: Option<Box<SsiValues>>,
    /// What is to be included before anything more is made.
    pub include: Option<Box<Include>>,
    /// The handler's mark for files.
    pub inner: Option<u32>,
    pub state: CourseState,
    /// Its client has left, and its upstream is listened to all the same.
    pub left_behind: Option<LeftBehind>,
    pub sent: Sent,
    /// The series that its latency is counted with.
    pub series: u16,
}

impl Course {
    pub fn new(loaded: Rc<Loaded>, id: ExchangeId) -> Self {
        Self {
            id,
            loaded,
            about: About::default(),
            started: Time::ZERO,
            request: None,
            listener: 0,
            class: 0,
            server: ServerId(0),
            place: BlockId(0),
            block: BlockId(0),
            phase: Phase::Start,
            at: 0,
            method: Method::Get,
            uri: Vec::new(),
            args: Vec::new(),
            changes: CHANGES_AT_FIRST,
            internal: false,
            uri_changed: false,
            whole_path: false,
            waited: false,
            real_root: None,
            again: Again::default(),
            refused: None,
            secured: SecuredCourse::default(),
            too_long: false,
            told: None,
            in_error_page: false,
            slots: Vec::new(),
            cached: Vec::new(),
            captures: Captures::default(),
            depends: Depends::default(),
            stamps: Vec::new(),
            expires_after: None,
            peer: None,
            proxied: None,
            limit_rate: None,
            features: FeatureParts::default(),
            kept_fields: Vec::new(),
            ticket: None,
            rated: None,
            is_told: Cell::new(false),
            filtering: None,
            body: None,
            relay: None,
            relay_body: None,
            address: None,
            tries: Vec::new(),
            answered: Vec::new(),
            kept: KeptContent::default(),
            passed_to: None,
            proxy_host: Vec::new(),
            proxy_port: None,
            rewritten: Rewritten::default(),
            sub: None,
            children: None,
            slices: None,
            ssi: None,
            include: None,
            inner: None,
            state: CourseState::Runs,
            left_behind: None,
            sent: Sent::default(),
            series: Ready::OF_HOST,
        }
    }

    /// Begins with another request, in the memory of one that is over.
    pub fn begin(&mut self, loaded: &Rc<Loaded>, id: ExchangeId, request: &Request<'_>, replies: &dyn Replies) {
        self.forget();
        self.id = id;
        if !Rc::ptr_eq(&self.loaded, loaded) {
            self.loaded = Rc::clone(loaded);
        }
        self.slots.resize(loaded.program.variables.slots(), None);
        self.about = replies.about(id);
        self.secured.path = loaded.asks_for_paths.then(|| replies.path_figures(id)).flatten();
        (self.peer, self.started) = (self.about.peer, replies.now());
        self.proxied = loaded.proxied(replies, id);
        if self.about.transport == Transport::Tls {
            self.secured.session = replies.opening(id).session.cloned();
        }
        self.method = request.method();
        self.args.extend_from_slice(request.query().unwrap_or_default());
    }

    /// Forgets the request that is over, each part in its place: all but the memory is as
    /// [`Self::new`] has it.
    fn forget(&mut self) {
        (self.request, self.listener, self.class, self.server) = (None, 0, 0, ServerId(0));
        (self.place, self.block, self.phase, self.at) = (BlockId(0), BlockId(0), Phase::Start, 0);
        (self.changes, self.internal, self.uri_changed) = (CHANGES_AT_FIRST, false, false);
        (self.whole_path, self.waited, self.real_root) = (false, false, None);
        (self.again, self.refused, self.secured) = (Again::default(), None, SecuredCourse::default());
        (self.too_long, self.told, self.in_error_page) = (false, None, false);
        (self.depends, self.expires_after) = (Depends::default(), None);
        (self.proxied, self.limit_rate, self.features) = (None, None, FeatureParts::default());
        (self.ticket, self.rated, self.filtering, self.body) = (None, None, None, None);
        self.is_told.set(false);
        (self.relay, self.relay_body, self.address, self.kept) = (None, None, None, KeptContent::default());
        (self.passed_to, self.proxy_port, self.rewritten) = (None, None, Rewritten::default());
        (self.sub, self.children, self.slices) = (None, None, None);
        (self.ssi, self.include, self.inner, self.left_behind) = (None, None, None, None);
        (self.state, self.series) = (CourseState::Runs, Ready::OF_HOST);
        for bytes in [&mut self.uri, &mut self.args, &mut self.kept_fields, &mut self.answered, &mut self.proxy_host] {
            bytes.clear();
        }
        self.slots.clear();
        self.cached.clear();
        self.captures.clear();
        self.stamps.clear();
        self.tries.clear();
        self.sent.forget();
    }

    /// What all requests with the same ready answer have in common.
    pub fn noted(&self) -> Self {
        let mut noted = Self::new(Rc::clone(&self.loaded), self.id);
        noted.class = self.class;
        (noted.listener, noted.server, noted.place, noted.block) = (self.listener, self.server, self.place, self.block);
        noted.uri.clone_from(&self.uri);
        noted.slots.clone_from(&self.slots);
        noted.sent.fields.clone_from(&self.sent.fields);
        noted.features.compression = self.features.compression;
        (noted.sent.status, noted.sent.complete) = (200, true);
        noted
    }

    /// A number of this request's own, which nobody can guess; those within it have it, too.
    pub fn request_id(&self) -> (u64, u64) {
        let of = (self.about.connection, self.about.requests);
        (self.loaded.secret.hash_one((0, of)), self.loaded.secret.hash_one((1, of)))
    }

    /// Notes where a path led. An answer that many decide of is made in each second.
    pub fn looked(&mut self, stamp: Stamp) {
        if self.stamps.len() < STAMPS_MAX {
            self.stamps.push(stamp);
        } else {
            self.depends.on(Depends::SECOND);
        }
    }

    /// Whether its answer tells how long its connection is kept.
    pub fn tells_keep_alive(&self) -> bool {
        let block = self.loaded.program.blocks.get(self.block.0 as usize);
        block.is_some_and(|block| block.connection.keepalive_told.is_some())
    }

    /// The connection ends with its answer, where it carries one request at a time: of HTTP/2 what is
    /// wrong with a request concerns its stream alone.
    pub fn end_connection(&self, replies: &mut dyn Replies) {
        if !self.about.http2 {
            replies.set_last(self.id);
        }
    }

    /// Whether nothing that it says is believed.
    pub const fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// One redirect more; whether there may be.
    pub fn may_change(&mut self) -> bool {
        self.changes = self.changes.saturating_sub(1);
        self.changes > 0
    }

    /// Goes on at another path of this server, from its script on.
    pub fn redirect(&mut self, uri: &[u8], args: &[u8]) {
        // The parts may be parts of what is there.
        let (uri, args) = (uri.to_vec(), args.to_vec());
        (self.uri, self.args) = (uri, args);
        self.rewritten = Rewritten { ever: true, here: false };
        self.proxy_host.clear();
        self.proxy_port = None;
        self.slices = None;
        self.forget_place();
        (self.internal, self.uri_changed, self.whole_path) = (true, false, false);
        (self.phase, self.at) = (Phase::Server, 0);
    }

    /// What was found out for one place, by requests within this one too, is found out again in another.
    pub fn forget_place(&mut self) {
        self.address = None;
        self.children.iter_mut().for_each(|children| (children.permission, children.mirrored) = (None, false));
    }

    /// Enters a phase.
    pub const fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.at = 0;
    }
}

#[cfg(test)]
mod tests;
