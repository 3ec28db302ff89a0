//! What a configuration comes to: one value that does not change, which all
//! silos share. Its parts name each other by number.
//!
//! ```text
//! Program ─► listeners ─► servers by name ─► locations by path ─► blocks: the
//!         │                                  settings of each place, merged, and
//!         │                                  what is done there (a script)
//!         └► variables, expressions, maps, logs, formats, zones
//! ```

use crate::access::AccessRules;
use crate::autoindex::AutoindexRules;
pub use crate::content_rules::ContentRules;
use crate::gateways::Gateways;
pub use crate::groups::{GroupNames, UpstreamGroup};
pub use crate::ids::{BlockId, ServerId, UpstreamGroupId};
use crate::logging::{ErrorLogUse, LogFormat, LogTarget, LogUse};
use crate::maps::{Geo, Map, SplitClients};
use crate::proxying::ProxyRules;
use crate::script::Instruction;
pub use crate::servers::{CertificatesByValue, ListenerRules, VirtualServer};
use crate::silos::Silos;
use crate::subrequests::SubrequestRules;
pub use crate::symlinks::{SymlinkKind, SymlinkRules};
pub use crate::terms::{ConnectionRules, HeadRules};
use crate::terms::{ProgramTerms, TooManyTerms};
use crate::types::TypeTable;
use crate::variables::VariableTable;
use access_log::{LogPlace, OpenLogs};
use app::Prefix;
pub use bodies::{BodyFiles, BodyRules, FolderError, TempFolderRules};
use exchange::LocalAddress;
use features::{Declared, FeatureSettings, MediaTypes, Value};
use filters::{Charsets, SsiRules};
use pcre::Regex;
pub use resolver::ResolverRules;
use rustix::fd::OwnedFd;
use stapling::StapleOrder;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// What a configuration comes to.
#[derive(Debug, Default)]
pub struct Program {
    /// Where it is listened, and which servers answer there.
    pub listeners: Vec<ListenerRules>,
    /// Servers, by [`ServerId`].
    pub servers: Vec<VirtualServer>,
    /// Settings of servers, locations, `if`s and `limit_except`s, by [`BlockId`].
    pub blocks: Vec<Block>,
    /// What variables stand for, by the numbers that values have.
    pub variables: VariableTable,
    /// Expressions, by the numbers that others name them by.
    pub expressions: Vec<Regex>,
    /// `map`s.
    pub maps: Vec<Map>,
    /// `geo`s.
    pub geos: Vec<Geo>,
    /// `split_clients`.
    pub splits: Vec<SplitClients>,
    /// Where lines are logged.
    pub logs: Vec<LogTarget>,
    /// What lines say.
    pub formats: Vec<LogFormat>,
    /// Those places, once they are open.
    pub open_logs: OnceLock<Arc<OpenLogs>>,
    /// The silos that have it.
    pub silos: Silos,
    /// What is taken of clients, and waited for, by number.
    pub terms: ProgramTerms,
    /// What its directives have declared for all blocks.
    pub declared: Declared,
    /// Memory that silos share, by name, in bytes: zones, and caches of TLS sessions. All
    /// of it must be to be had at once.
    pub shared_memory: BTreeMap<Vec<u8>, u64>,
    /// Character sets, and tables between them (`charset_map`).
    pub charsets: Charsets,
    /// Groups of servers that requests are passed on to, by [`UpstreamGroupId`].
    pub upstreams: Vec<UpstreamGroup>,
    /// The process's own error logs, for what is no request's.
    pub error_logs: Arc<[ErrorLogUse]>,
    /// What its blocks have to say together, once that was asked for.
    pub summed_up: OnceLock<ProgramSummary>,
    /// Folders of bodies of requests (`client_body_temp_path`), by the numbers that
    /// [`BodyRules::folder`] has.
    pub temp_folders: Vec<TempFolderRules>,
    /// Files that were read for TLS: a process that may not read them is brought them, opened.
    pub tls_files: Vec<PathBuf>,
    /// What responders are asked about certificates (`ssl_stapling`).
    pub staples: Vec<Arc<StapleOrder>>,
    /// Lines of heads, of requests and of upstreams' answers, may end in LF alone, as
    /// nginx has it; where this is not said, they may not.
    pub line_feeds: bool,
}

/// What some block of a program has: found once, by a thread that may take its time, for
/// there may be hundreds of thousands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProgramSummary {
    /// Requests are logged.
    pub logs: bool,
    /// `stub_status`, or `$connections_…`.
    pub tells: bool,
    /// Answers may be in a coding.
    pub codes: bool,
    /// Somebody tells of clients (`set_real_ip_from`).
    pub real_ip: bool,
    /// Bodies of requests are read: what answers files drops them.
    pub reads: bool,
    /// Names may be resolved.
    pub resolves: bool,
    /// Connections are opened: to upstreams, or to responders.
    pub connects: bool,
    /// Some of them to abstract Unix sockets.
    pub abstract_sockets: bool,
}

impl ProgramSummary {
    fn of(program: &Program) -> Self {
        let named = program.upstreams.iter().any(|group| group.names.is_some());
        let asks = !program.staples.is_empty();
        let mut peers = program.upstreams.iter().flat_map(|group| group.group.peers());
        let abstract_sockets = peers.any(|peer| peer.address.is_abstract());
        let tells = program.variables.asks_for_counts();
        let first = Self { tells, resolves: named, connects: asks, abstract_sockets, ..Self::default() };
        program.blocks.iter().fold(first, |all, block| Self {
            logs: all.logs || !block.logs.is_empty(),
            tells: all.tells || block.content == ContentRules::StubStatus,
            codes: all.codes || block.features.compression.codes(),
            real_ip: all.real_ip || block.real_ip.is_some(),
            reads: all.reads || block.reads_bodies(),
            // Bodies are read for upstreams alone.
            connects: all.connects || block.reads_bodies(),
            abstract_sockets: all.abstract_sockets,
            resolves: all.resolves || block.resolver.is_some() && block.content.computes_upstream(),
        })
    }
}

impl Program {
    /// The settings of a place.
    #[inline]
    #[must_use]
    pub fn block(&self, id: BlockId) -> Option<&Block> {
        self.blocks.get(id.0 as usize)
    }

    /// A server.
    #[inline]
    #[must_use]
    pub fn server(&self, id: ServerId) -> Option<&VirtualServer> {
        self.servers.get(usize::from(id.0))
    }

    /// The number of the listener that takes connections to an address; [`u16::MAX`] if none does.
    #[must_use]
    pub fn listener_at(&self, local: LocalAddress) -> u16 {
        let at = exchange::listener_at(self.listeners.iter().map(ListenerRules::at), local);
        at.map_or(u16::MAX, |at| at as u16)
    }

    /// Whether clients of this address begin with a handshake.
    #[must_use]
    pub fn speaks_tls_at(&self, address: SocketAddr) -> bool {
        let at = self.listener_at(LocalAddress::Inet(address));
        self.listeners.get(usize::from(at)).is_some_and(|listener| listener.tls)
    }

    /// Who is believed when he tells of clients (`set_real_ip_from`), in any place.
    pub fn fronts(&self) -> Vec<Prefix> {
        let mut rules: Vec<&Arc<RealIp>> = self.blocks.iter().filter_map(|block| block.real_ip.as_ref()).collect();
        // Places mostly have those of the places around them.
        rules.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let mut fronts: Vec<Prefix> = Vec::new();
        for prefix in rules.iter().flat_map(|rules| &rules.from) {
            if !fronts.contains(prefix) {
                fronts.push(*prefix);
            }
        }
        fronts
    }

    /// What its blocks have to say together.
    pub fn summary(&self) -> ProgramSummary {
        *self.summed_up.get_or_init(|| ProgramSummary::of(self))
    }

    /// Numbers what is taken of clients, and waited for, now that listeners, servers and
    /// blocks are known.
    ///
    /// # Errors
    /// There are too many terms.
    pub fn number_terms(&mut self) -> Result<(), TooManyTerms> {
        let first = |listener: &ListenerRules| {
            let server = self.servers.get(usize::from(listener.servers.first()?.0))?;
            Some((server.head, server.block))
        };
        let connection = |block: &Block| block.connection;
        self.terms = ProgramTerms::of(self.listeners.iter().map(first), &self.blocks, connection)?;
        Ok(())
    }

    /// The files that lines are logged to, but for those that requests name.
    pub fn log_files(&self) -> impl Iterator<Item = &Path> {
        self.logs.iter().filter_map(|log| match &log.place {
            LogPlace::File { path, .. } => Some(path.as_path()),
            _ => None,
        })
    }

    /// Makes the folders that bodies of requests are kept in, and opens them: they are
    /// `owner`'s, a user's and a group's.
    ///
    /// # Errors
    /// What failed, as nginx says it.
    pub fn open_temp_folders(&self, owner: Option<(u32, u32)>) -> Result<Vec<(PathBuf, OwnedFd)>, String> {
        let open = |rules: &TempFolderRules| {
            rules.make(owner)?;
            Ok((rules.path.clone(), rules.open()?))
        };
        let opened: Result<_, FolderError> = self.temp_folders.iter().map(open).collect();
        opened.map_err(|why| why.to_string())
    }

    /// Whether clients of some address, or connections to upstreams, begin with a handshake.
    #[must_use]
    pub fn speaks_tls(&self) -> bool {
        let dials = |block: &Block| {
            let all = [&block.proxy, &block.grpc, &block.gateways.uwsgi.relay];
            all.into_iter().any(|rules| rules.tls.is_some())
        };
        self.listeners.iter().any(|listener| listener.tls) || self.blocks.iter().any(dials)
    }

    /// The settings of the server that requests for no other have at the first
    /// address: what can be but one for all is taken from there.
    #[must_use]
    pub fn first_block(&self) -> Option<&Block> {
        let first = self.listeners.first()?.servers.first()?;
        let server = self.server(*first)?;
        self.block(server.block)
    }

    /// Its logs, which are opened when they are first asked for: once for all
    /// silos.
    ///
    /// # Errors
    /// One cannot be opened.
    pub fn open_logs(&self) -> Result<Arc<OpenLogs>, access_log::Error> {
        if let Some(logs) = self.open_logs.get() {
            return Ok(Arc::clone(logs));
        }
        let places: Vec<_> = self.logs.iter().map(|target| target.place.clone()).collect();
        let logs = OpenLogs::open(&places)?;
        Ok(Arc::clone(self.open_logs.get_or_init(|| logs)))
    }
}

/// The settings of a place, and what is done there. All that may be inherited
/// is.
#[derive(Clone, Debug)]
pub struct Block {
    /// What its `location` is written as, for people: `~* \.png$`.
    pub label: Box<[u8]>,
    /// What is done in the rewrite phase.
    pub script: Arc<[Instruction]>,
    /// Reached by redirects alone (`internal`).
    pub internal: bool,
    /// Where files are.
    pub root: Root,
    /// Names of index files, in the order in which they are tried. One that
    /// begins with a slash is a path of its own.
    pub index: Arc<[Value]>,
    /// What is tried before content is looked for.
    pub try_files: Option<Arc<TryFiles>>,
    /// What answers.
    pub content: ContentRules,
    /// `autoindex`, `random_index`.
    pub autoindex: AutoindexRules,
    /// Media types.
    pub types: Arc<TypeTable>,
    /// The type of what has no other.
    pub default_type: Arc<[u8]>,
    /// What is answered in place of an error.
    pub error_pages: Arc<[ErrorPage]>,
    /// `recursive_error_pages`.
    pub recursive_error_pages: bool,
    /// What it says to features, by their names.
    pub features: FeatureSettings,
    /// `add_header`, `add_trailer`, `etag`.
    pub fields: Arc<FieldRules>,
    /// `charset` and what belongs to it.
    pub charset: Arc<CharsetRules>,
    /// `ssi` and what belongs to it.
    pub ssi: Arc<SsiRules>,
    /// Which filters content may pass here; made when the block is complete.
    pub filters: FilterSet,
    /// `access_log`.
    pub logs: Arc<[LogUse]>,
    /// `error_log`.
    pub error_logs: Arc<[ErrorLogUse]>,
    /// `log_not_found`.
    pub log_not_found: bool,
    /// `log_subrequest`.
    pub log_subrequest: bool,
    /// `allow`, `deny`, `auth_request`, `satisfy`.
    pub access: Arc<AccessRules>,
    /// `limit_except`: for other methods than these its block is the location,
    /// script included, from when the location is found.
    pub limit_except: Option<(Methods, BlockId)>,
    /// `limit_rate`, bytes a second.
    pub limit_rate: Option<Value>,
    /// `limit_rate_after`, bytes.
    pub limit_rate_after: Option<Value>,
    /// `set_real_ip_from` and what belongs to it.
    pub real_ip: Option<Arc<RealIp>>,
    /// `valid_referers`, for `$invalid_referer`.
    pub referers: Option<Arc<Referers>>,
    /// Bytes of a request's body; 0 is none but any number.
    pub body_max: u64,
    /// Where bodies are kept that are read here.
    pub body: BodyRules,
    /// How connections are kept.
    pub connection: ConnectionRules,
    /// How redirects name this server.
    pub redirects: RedirectRules,
    /// What is told of this server in pages: `server_tokens`.
    pub server_tokens: bool,
    /// `msie_padding`.
    pub msie_padding: bool,
    /// `disable_symlinks`.
    pub symlinks: SymlinkRules,
    /// `early_hints`: interim answers of upstreams with hints (103) go on where one of these
    /// is neither empty nor `0`.
    pub early_hints: Arc<[Value]>,
    /// `proxy_…`
    pub proxy: Arc<ProxyRules>,
    /// `grpc_…`
    pub grpc: Arc<ProxyRules>,
    /// `fastcgi_…`, `uwsgi_…`, `scgi_…`
    pub gateways: Arc<Gateways>,
    /// `add_before_body`, `mirror` and others that make requests within requests.
    pub subrequests: Arc<SubrequestRules>,
    /// There are copies of its requests; made when the block is complete.
    pub mirrors: bool,
    /// `resolver`, `resolver_timeout`
    pub resolver: Option<Arc<ResolverRules>>,
}

impl Block {
    /// Whether nothing stands between the location of a request and its content: no script, no limit, nobody
    /// who is to see it or not, and nothing that is tried before.
    #[must_use]
    pub fn answers_at_once(&self) -> bool {
        self.script.is_empty()
            && self.try_files.is_none()
            && self.real_ip.is_none()
            && self.access.is_empty()
            && self.features.limits.is_empty()
            && self.features.asks_for_password().is_none()
    }

    /// Whether bodies of requests are read here.
    #[must_use]
    pub fn reads_bodies(&self) -> bool {
        self.content.reads_bodies() || self.mirrors && self.subrequests.mirrors_body
    }
}

/// Where files are.
#[derive(Clone, Debug)]
pub struct Root {
    /// The folder, without a slash at its end; with `alias`, what stands for a
    /// part of the path.
    pub path: Value,
    /// What it stands for; none: nothing, the path follows it.
    pub alias: Option<Alias>,
}

/// What `alias` stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alias {
    /// So many bytes at the start of the path: those of the location that it
    /// was written in.
    Start(u32),
    /// All of the path: it was written in a location with an expression.
    Path,
}

/// `try_files`: the first that is there.
#[derive(Clone, Debug)]
pub struct TryFiles {
    /// What is looked for: a path after the root, and whether it is to be a
    /// folder.
    pub tried: Vec<(Value, bool)>,
    /// What is done if none is there.
    pub otherwise: Target,
}

/// Where a request goes on.
#[derive(Clone, Debug)]
pub enum Target {
    /// To a path, or a path and a query.
    Path(Value),
    /// To a location by its name, without its `@`.
    Named(Box<[u8]>),
    /// To its end, with this status.
    Status(u16),
}

/// `error_page`: one status.
#[derive(Clone, Debug)]
pub struct ErrorPage {
    /// The status that it is for.
    pub status: u16,
    /// The status that is told; `None`: the same; `Some(None)`: that of what
    /// answers (`=`).
    pub told: Option<Option<u16>>,
    /// A path, an address of another server, or a location's name.
    pub target: ErrorTarget,
}

/// Where an error is answered.
#[derive(Clone, Debug)]
pub enum ErrorTarget {
    /// At a path, or, if it begins with no slash, at another server's address.
    Value(Value),
    /// At a location by its name, without its `@`.
    Named(Box<[u8]>),
}

/// Fields that responses get.
#[derive(Clone, Debug, Default)]
pub struct FieldRules {
    /// `add_header`.
    pub added: Vec<AddedField>,
    /// `add_trailer`.
    pub trailers: Vec<AddedField>,
    /// `etag`.
    pub etag: bool,
    /// `if_modified_since`.
    pub if_modified_since: IfModifiedSince,
    /// `max_ranges`; none is any number.
    pub max_ranges: Option<u32>,
    /// `chunked_transfer_encoding`.
    pub chunked: bool,
}

/// `add_header` or `add_trailer`.
#[derive(Clone, Debug)]
pub struct AddedField {
    /// Its name.
    pub name: Box<[u8]>,
    /// Its value; nothing is added where it is empty.
    pub value: Value,
    /// Whatever the status is.
    pub always: bool,
}

/// `if_modified_since`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum IfModifiedSince {
    /// The field is not looked at.
    Off,
    /// The time is the very one.
    #[default]
    Exact,
    /// It was not modified since.
    Before,
}

/// `charset`.
#[derive(Clone, Debug, Default)]
pub struct CharsetRules {
    /// What is told; none is not.
    pub charset: Option<Value>,
    /// What content is in (`source_charset`), which then becomes content of the other.
    pub source: Option<Value>,
    /// It is told though the response says another (`override_charset`).
    pub overrides: bool,
    /// Of which media types.
    pub types: MediaTypes,
}

/// Which filters content may pass in a place: where it is none, none is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FilterSet(u8);

impl FilterSet {
    /// `gunzip`.
    pub const GUNZIP: u8 = 1;

    /// `sub_filter`.
    pub const SUBSTITUTE: u8 = 2;
    /// `charset` and another `source_charset`, or that of an answer (`override_charset`).
    pub const RECODE: u8 = 4;
    /// `ssi`.
    pub const SSI: u8 = 8;
    /// `add_before_body` and `add_after_body`.
    pub const ADDITION: u8 = 16;

    /// Those whose rules a block has.
    #[must_use]
    pub fn of(block: &Block) -> Self {
        let gunzip = if block.features.compression.gunzip { Self::GUNZIP } else { 0 };
        let substitute = if block.features.sub_filter.pairs.is_empty() { 0 } else { Self::SUBSTITUTE };
        let charset = &block.charset;
        let same = match (charset.charset.as_ref(), charset.source.as_ref()) {
            (Some(one), Some(other)) => {
                let (one, other) = (one.constant(), other.constant());
                one.zip(other).is_some_and(|(one, other)| one.eq_ignore_ascii_case(other))
            }
            _ => true,
        };
        let overrides = block.charset.overrides && block.charset.charset.is_some();
        let recode = if same && !overrides { 0 } else { Self::RECODE };
        let rules = &block.subrequests;
        let addition = if rules.before.is_some() || rules.after.is_some() { Self::ADDITION } else { 0 };
        Self(gunzip | substitute | recode | addition | if block.ssi.on { Self::SSI } else { 0 })
    }

    /// Whether there is any.
    #[must_use]
    pub const fn any(self) -> bool {
        self.0 != 0
    }

    /// Whether this one is among them.
    #[must_use]
    pub const fn has(self, one: u8) -> bool {
        self.0 & one != 0
    }
}

/// How redirects name this server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RedirectRules {
    /// `absolute_redirect`.
    pub absolute: bool,
    /// `server_name_in_redirect`.
    pub server_name: bool,
    /// `port_in_redirect`.
    pub port: bool,
}

/// `set_real_ip_from`.
#[derive(Clone, Debug)]
pub struct RealIp {
    /// Who is believed.
    pub from: Vec<Prefix>,
    /// Clients of a Unix socket are.
    pub from_unix: bool,
    /// The field that is.
    pub header: RealIpHeader,
    /// `real_ip_recursive`.
    pub recursive: bool,
}

/// Where a client's real address stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RealIpHeader {
    /// In this field, the last address first.
    Field(Box<[u8]>),
    /// In the PROXY protocol's header.
    ProxyProtocol,
}

/// `valid_referers`.
#[derive(Clone, Debug, Default)]
pub struct Referers {
    /// A request without the field is valid.
    pub none: bool,
    /// One whose field has no scheme is.
    pub blocked: bool,
    /// The server's own names are: places in its names.
    pub server_names: bool,
    /// Hosts.
    pub hosts: Vec<RefererHost>,
    /// Expressions on what follows the scheme.
    pub expressions: Vec<u32>,
    /// Expressions on the host alone: names of the server.
    pub host_expressions: Vec<u32>,
}

/// A host of `valid_referers`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RefererHost {
    /// Its name, with a `*` at either end, perhaps.
    pub name: Box<[u8]>,
    /// What the path begins with; empty: whatever it is.
    pub path: Box<[u8]>,
}

/// A set of methods, as bits by [`semantics::Method`] as nginx names them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Methods(pub Vec<Box<[u8]>>);
