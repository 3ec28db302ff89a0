//! A program as one silo has it.

use super::host::LastHost;
use super::named::{GroupHost, Names};
use super::roots::RealRoots;
use access_log::LogSet;
use app::Prefix;
use asking::{GroupSpec, ServerGroups};
use bodies::BodyStore;
use configuration::program::{BlockId, GroupNames, Program, ServerId};
use core::ops::Range;
use exchange::{ExchangeId, ProxiedAddresses, Ready, Replies};
use latency::SeriesBoard;
use pcre::Matcher;
use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

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
    pub fn series(&self, board: Option<&SeriesBoard>, server: ServerId, place: BlockId) -> Option<u16> {
        let board = board?;
        let known = self.series.get(place.0 as usize)?;
        if known.get() == Ready::OF_HOST {
            let host = &self.program.server(server)?.name;
            let label = &self.program.block(place)?.label;
            known.set(board.series(if host.is_empty() { b"_" } else { host }, label));
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

    /// A number that nobody can guess, by what it is of.
    pub fn secret_of(&self, of: impl Hash) -> u64 {
        self.secret.hash_one(of)
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

    /// What is known of the same names of the program before this one serves until they are
    /// resolved anew.
    pub(super) fn take_names_of(&self, old: &Self) {
        let (mut names, old_names) = (self.names.borrow_mut(), old.names.borrow());
        let (Some(names), Some(old_names)) = (names.as_mut(), old_names.as_ref()) else { return };
        let mut changed = Vec::new();
        for host in &mut names.hosts {
            let known = old_names.hosts.iter().find(|known| old.is_same(known, self, host));
            let Some(known) = known.filter(|known| known.is_answered) else { continue };
            (host.found, host.is_answered) = (known.found.clone(), true);
            host.again = known.again.or(host.again);
            changed.push(host.group);
        }
        changed.dedup();
        let mut groups = self.groups.list.borrow_mut();
        for group in changed {
            // What fitted then may not now, with other servers beside it.
            if let Some((place, rules)) = groups.get_mut(usize::from(group)).zip(self.names_of(group)) {
                place.is_pending = names.is_pending(group);
                let _ = rules.servers.group(&names.found(group)).map(|group| place.change(group));
            }
        }
    }

    pub(super) fn names_of(&self, group: u16) -> Option<&GroupNames> {
        self.program.upstreams.get(usize::from(group))?.names.as_deref()
    }

    /// Whether a name of one program is one of another, in a group of the same name.
    fn is_same(&self, host: &GroupHost, other: &Self, others: &GroupHost) -> bool {
        let server = |loaded: &Self, host: &GroupHost| {
            let servers = &loaded.names_of(host.group)?.servers;
            let named = servers.named.get(host.place)?;
            Some((servers.name.clone(), named.host.clone(), named.service.clone()))
        };
        server(self, host) == server(other, others)
    }
}
