//! What becomes of each directive: it is compiled, or has no effect here, or is
//! refused. That of a feature says so in its row; each other has one here, and those of a
//! module that are not told have that of the module.

use super::gateways::{FASTCGI_SETTERS, SCGI_SETTERS, UWSGI_SETTERS};
use super::grpc::GRPC_SETTERS;
use super::proxy::PROXY_SETTERS;
use super::resolvers::RESOLVER_SETTERS;
use super::settings::{SETTERS, Setter};
use super::subrequests::SUBREQUEST_SETTERS;
use super::tls::TLS_SETTERS;
use super::upstream_tls::UPSTREAM_TLS_SETTERS;
use crate::rules::Rule;
use features::DirectiveEffect;
use std::collections::HashMap;
use std::sync::OnceLock;

/// What becomes of a directive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DirectiveClass {
    /// It has its meaning.
    Compiled,
    /// It is taken and has no effect here, for this reason.
    Idle(&'static str),
    /// It offers clients what is not here: it is warned of, unless it is `off`, and what
    /// they have without it is served.
    Offered(&'static str),
    /// It is obsolete, and ignored: that is warned of in nginx's words, with what stands in its place.
    Obsolete(Option<&'static str>),
    /// It is refused, for this reason.
    Refused(&'static str),
    /// It is refused, unless its value is this word, for this reason.
    RefusedUnless(&'static str, &'static str),
}

use DirectiveClass::{Compiled, Idle, Offered, Refused, RefusedUnless};

/// Directives of the process, those that make blocks, and parts of scripts.
const PARTS: [&str; 29] = [
    "daemon",
    "load_module",
    "user",
    "pid",
    "worker_processes",
    "worker_connections",
    "worker_cpu_affinity",
    "worker_priority",
    "worker_rlimit_nofile",
    "worker_shutdown_timeout",
    "use",
    "events",
    "http",
    "server",
    "location",
    "listen",
    "server_name",
    "limit_except",
    "include",
    "log_format",
    "set",
    "rewrite",
    "if",
    "return",
    "break",
    "map",
    "geo",
    "split_clients",
    "charset_map",
];

const MEMORY: DirectiveClass = Idle("memory is laid out otherwise here");
const EVENTS: DirectiveClass = Idle("workers share connections and events otherwise here");
const FILES: DirectiveClass = Idle("helper threads read files into a cache that workers share");
const CLOSING: DirectiveClass = Idle("connections end in one way: ours first, then the client's is waited for");
const BODIES: DirectiveClass = Idle("a body in memory is in one piece, and read when it is wanted");
const NO_CACHE: DirectiveClass = Refused("there is no cache of answers yet");
const NO_PROTOCOL: DirectiveClass = Refused("upstreams are asked by HTTP, gRPC, FastCGI, uwsgi and SCGI alone");
const NO_UPSTREAM: DirectiveClass = Idle("nothing is passed on by its protocol");
const NO_PROXY_CACHE: DirectiveClass = Idle("nothing is cached");
const BUFFERS: DirectiveClass = Idle("what is read ahead of clients is bounded by proxy_buffers, and in memory");
const CERTIFICATES: DirectiveClass = Idle("certificates are read when the configuration is");
const RECORDS: DirectiveClass = Idle("records are as long as what is sent at once");
const NO_DH: DirectiveClass = Idle("keys are exchanged on elliptic curves, and with ML-KEM");
const NO_OCSP: DirectiveClass = Idle("nobody is asked about certificates of clients");
const NO_QUIC: DirectiveClass = Offered("there is no HTTP/3: TCP serves");
const NOT_YET: DirectiveClass = Refused("it is not there yet");

/// Directives by what becomes of them.
const ROWS: &[(DirectiveClass, &[&str])] = &[
    (
        MEMORY,
        &[
            "variables_hash_max_size",
            "variables_hash_bucket_size",
            "server_names_hash_max_size",
            "server_names_hash_bucket_size",
            "types_hash_max_size",
            "types_hash_bucket_size",
            "map_hash_max_size",
            "map_hash_bucket_size",
            "referer_hash_max_size",
            "referer_hash_bucket_size",
            "connection_pool_size",
            "request_pool_size",
            "output_buffers",
            "ssi_min_file_chunk",
            "ssi_ignore_recycled_buffers",
            "postpone_output",
            "send_lowat",
        ],
    ),
    (
        EVENTS,
        &[
            "epoll_events",
            "worker_aio_requests",
            "multi_accept",
            "accept_mutex",
            "accept_mutex_delay",
            "lock_file",
            "timer_resolution",
            "master_process",
        ],
    ),
    (
        FILES,
        &[
            "sendfile",
            "sendfile_max_chunk",
            "aio",
            "aio_write",
            "read_ahead",
            "directio",
            "directio_alignment",
            "thread_pool",
            "open_file_cache",
            "open_file_cache_valid",
            "open_file_cache_min_uses",
            "open_file_cache_errors",
            "open_file_cache_events",
        ],
    ),
    (CLOSING, &["reset_timedout_connection", "keepalive_min_timeout"]),
    (BODIES, &["client_body_in_single_buffer", "client_body_early_read"]),
    (Idle("segments are full where there is enough to send, and leave at once"), &["tcp_nopush", "tcp_nodelay"]),
    (Idle("no line of the error log is about scripts"), &["rewrite_log", "uninitialized_variable_warn"]),
    (Idle("expressions are compiled to machine code"), &["pcre_jit"]),
    (Idle("there is nothing of the kind to debug"), &["debug_points", "debug_connection"]),
    (Idle("a core is dumped where the system has it"), &["worker_rlimit_core", "working_directory"]),
    (Idle("the environment is kept"), &["env"]),
    (
        BUFFERS,
        &[
            "proxy_busy_buffers_size",
            "proxy_temp_path",
            "proxy_max_temp_file_size",
            "proxy_temp_file_write_size",
            "proxy_send_lowat",
            "proxy_socket_rcvbuf",
            "proxy_socket_sndbuf",
            "proxy_headers_hash_max_size",
            "proxy_headers_hash_bucket_size",
            "grpc_socket_rcvbuf",
            "grpc_socket_sndbuf",
            "fastcgi_send_lowat",
            "fastcgi_socket_rcvbuf",
            "fastcgi_socket_sndbuf",
            "uwsgi_socket_rcvbuf",
            "uwsgi_socket_sndbuf",
            "scgi_socket_rcvbuf",
            "scgi_socket_sndbuf",
            "fastcgi_busy_buffers_size",
            "fastcgi_temp_path",
            "fastcgi_max_temp_file_size",
            "fastcgi_temp_file_write_size",
            "uwsgi_busy_buffers_size",
            "uwsgi_temp_path",
            "uwsgi_max_temp_file_size",
            "uwsgi_temp_file_write_size",
            "scgi_busy_buffers_size",
            "scgi_temp_path",
            "scgi_max_temp_file_size",
            "scgi_temp_file_write_size",
        ],
    ),
    (
        Idle("idle connections are watched by their time limits"),
        &[
            "proxy_socket_keepalive",
            "grpc_socket_keepalive",
            "fastcgi_socket_keepalive",
            "uwsgi_socket_keepalive",
            "scgi_socket_keepalive",
        ],
    ),
    (RefusedUnless("off", "nothing is cached yet"), &["proxy_cache", "fastcgi_cache", "uwsgi_cache", "scgi_cache"]),
    (RefusedUnless("off", "it is not there yet"), &["proxy_store", "fastcgi_store", "uwsgi_store", "scgi_store"]),
    (NOT_YET, &["uwsgi_string"]),
    (CERTIFICATES, &["ssl_object_cache_inheritable"]),
    (RECORDS, &["ssl_buffer_size"]),
    (NO_DH, &["ssl_dhparam"]),
    (NO_OCSP, &["ssl_ocsp_responder", "ssl_ocsp_cache"]),
    (Refused("there are no engines"), &["ssl_engine"]),
    (Refused("the library has no Encrypted Client Hello yet"), &["ssl_ech_file"]),
    (RefusedUnless("off", "responders are not asked about certificates of clients"), &["ssl_ocsp"]),
    (RefusedUnless("off", "write \"listen ... ssl\""), &["ssl"]),
    (NO_QUIC, &["quic_bpf"]),
    (RefusedUnless("off", "that browser is gone"), &["msie_refresh"]),
    (NO_CACHE, &["proxy_cache_path", "fastcgi_cache_path", "scgi_cache_path", "uwsgi_cache_path"]),
    (NO_PROTOCOL, &["memcached_pass", "tunnel_pass"]),
    (RefusedUnless("off", "it is not there yet"), &["userid", "dav_methods", "image_filter"]),
    (NOT_YET, &["post_action", "perl", "perl_modules", "perl_require", "perl_set", "xslt_stylesheet"]),
];

/// What becomes of the other directives of a module; with `true`, of all.
const MODULES: &[(&str, DirectiveClass, bool)] = &[
    ("upstream", Compiled, true),
    ("upstream_hash", Compiled, true),
    ("upstream_ip_hash", Compiled, true),
    ("upstream_keepalive", Compiled, true),
    ("upstream_least_conn", Compiled, true),
    ("upstream_least_time", NOT_YET, true),
    ("upstream_random", Compiled, true),
    ("upstream_sticky", NOT_YET, true),
    ("upstream_zone", Compiled, true),
    ("other_protocols", Refused("there is HTTP alone"), true),
    ("browser", NOT_YET, true),
    ("degradation", NOT_YET, true),
    ("geoip", Refused("there is no GeoIP: write a geo block"), true),
    ("proxy", NO_PROXY_CACHE, false),
    ("fastcgi", NO_PROXY_CACHE, false),
    ("scgi", NO_PROXY_CACHE, false),
    ("uwsgi", NO_PROXY_CACHE, false),
    ("memcached", NO_UPSTREAM, false),
    ("tunnel", NO_UPSTREAM, false),
    ("v3", NO_QUIC, false),
    ("dav", Idle("dav_methods is off"), false),
    ("image", Idle("image_filter is off"), false),
    ("perl", Idle("there is no perl"), false),
    ("userid", Idle("userid is off"), false),
    ("xslt", Idle("there is no xslt_stylesheet"), false),
];

/// Rows and setters by names.
struct Index {
    rows: HashMap<&'static str, DirectiveClass>,
    setters: HashMap<&'static str, Setter>,
    modules: HashMap<&'static str, (DirectiveClass, bool)>,
}

fn index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| Index {
        rows: named().collect(),
        setters: setters().collect(),
        modules: MODULES.iter().map(|(name, class, all)| (*name, (*class, *all))).collect(),
    })
}

/// What directives of blocks do.
fn setters() -> impl Iterator<Item = (&'static str, Setter)> {
    let gateways = [FASTCGI_SETTERS, UWSGI_SETTERS, SCGI_SETTERS].into_iter().flatten();
    SETTERS
        .iter()
        .chain(PROXY_SETTERS)
        .chain(GRPC_SETTERS)
        .chain(SUBREQUEST_SETTERS)
        .chain(RESOLVER_SETTERS)
        .chain(TLS_SETTERS)
        .chain(UPSTREAM_TLS_SETTERS)
        .chain(gateways)
        .copied()
}

/// Each name that a table has, as often as they have it.
fn named() -> impl Iterator<Item = (&'static str, DirectiveClass)> {
    let compiled = setters().map(|(name, _)| name).chain(PARTS);
    let others = ROWS.iter().flat_map(|(class, names)| names.iter().map(|name| (*name, *class)));
    compiled.map(|name| (name, Compiled)).chain(others)
}

/// What becomes of the directive with this rule.
pub(super) fn class(rule: &Rule) -> DirectiveClass {
    match rule.row.map(|row| row.effect) {
        Some(DirectiveEffect::Sets(_) | DirectiveEffect::Declares(_)) => return Compiled,
        Some(DirectiveEffect::Idle(why)) => return Idle(why),
        Some(DirectiveEffect::Obsolete(instead)) => return DirectiveClass::Obsolete(instead),
        Some(DirectiveEffect::Refused(why)) => return Refused(why),
        Some(DirectiveEffect::RefusedUnless(word, why)) => return RefusedUnless(word, why),
        None => {}
    }
    let index = index();
    match (index.modules.get(rule.module), index.rows.get(rule.name)) {
        (Some((class, true)), _) | (_, Some(class)) | (Some((class, false)), None) => *class,
        // A test knows of none.
        (None, None) => NOT_YET,
    }
}

/// What the directive of this name does to its block.
pub(super) fn setter(name: &str) -> Option<Setter> {
    index().setters.get(name).copied()
}

impl DirectiveClass {
    /// That of the directive with this rule.
    #[must_use]
    pub fn of(rule: &Rule) -> Self {
        class(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::rules;
    use features::Context;
    use std::collections::HashSet;

    /// The names that a heading of probes.txt stands for: `{a,b}_name` is two.
    fn expanded(heading: &str) -> Vec<String> {
        let Some((before, rest)) = heading.split_once('{') else { return vec![heading.to_owned()] };
        let (parts, after) = rest.split_once('}').expect(heading);
        parts.split(',').map(|part| format!("{before}{part}{after}")).collect()
    }

    /// What has a meaning, and stands in places that others stand in, has a request that
    /// shows it, or a reason why none does; the test of `nesting` in testing/interop asks.
    #[test]
    fn each_directive_that_is_inherited_has_a_probe() {
        let lines = include_str!("../probes.txt").lines().filter(|line| !line.starts_with([' ', '#', '[']));
        let mut probed = HashSet::new();
        for line in lines.filter(|line| !line.is_empty()) {
            let heading = line.split_once(" - ").map_or(line, |(heading, why)| {
                assert!(why.len() > 10, "{line}: no reason");
                heading
            });
            for name in expanded(heading) {
                assert!(rules().contains_key(name.as_bytes()), "{name} is no directive");
                assert!(probed.insert(name), "{line}: it stands twice");
            }
        }
        let nests = |rule: &Rule| {
            let in_servers = [Context::SERVER, Context::LOCATION, Context::IF_IN_LOCATION, Context::LIMIT_EXCEPT];
            in_servers.iter().any(|one| rule.contexts.contains(*one))
        };
        for rule in rules().values().flatten().filter(|rule| nests(rule) && class(rule) == Compiled) {
            let is_shown = rule.row.map_or_else(|| probed.contains(rule.name), |row| !row.shown.is_empty());
            assert!(is_shown, "{}: neither a probe nor a reason", rule.name);
        }
    }

    #[test]
    fn each_directive_has_one_class() {
        let mut names = HashSet::new();
        for (name, _) in named() {
            assert!(names.insert(name), "{name} stands twice");
            assert!(rules().contains_key(name.as_bytes()), "{name} is no directive");
        }
        let modules: HashSet<&str> = rules().values().flatten().map(|rule| rule.module).collect();
        for (module, _, _) in MODULES {
            assert!(modules.contains(module), "{module} is no module");
        }
        let (mut count, mut compiled) = (0, 0);
        for rule in rules().values().flatten() {
            let whole = MODULES.iter().any(|(module, _, _)| *module == rule.module);
            assert!(
                whole || rule.row.is_some() || names.contains(rule.name),
                "{} of {} has no class",
                rule.name,
                rule.module
            );
            count += 1;
            compiled += usize::from(class(rule) == Compiled);
        }
        assert!(count > 600 && compiled > 80, "{count} {compiled}");
    }
}
