//! What a configuration has the process be.

use crate::load::Loaded;
use crate::plan::{NginxPlan, PATIENCE};
use crate::{memory, over_links, over_sockets};
use access_log::LogPlace;
use configuration::Program;
use configuration::program::{ConnectionRules, HeadRules};
use core::time::Duration;
use host::Silos;
use nginx::{Compiled, ErrorLog, ErrorLogTarget, ProcessRules};
use serve::{ErrorLogs, Privileges, ServePath, ServePlan, Settings, SignalRules, SyslogErrors};
use server::{ExchangeTerms, HeadTerms, Prefix};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

/// What the configuration of a command line has the process be now.
///
/// # Errors
/// What is wrong with it; a sentence for the user.
pub fn served(plan: &NginxPlan, again: fn(Option<File>) -> Result<ServePlan, String>) -> Result<ServePlan, String> {
    let loaded = Loaded::new(plan).map_err(|refusal| refusal.error.to_string())?;
    self::plan(plan, loaded, again)
}

/// What a configuration has the process be.
///
/// # Errors
/// There is nothing to serve; a sentence for the user.
pub fn plan(
    plan: &NginxPlan,
    loaded: Loaded,
    again: fn(Option<File>) -> Result<ServePlan, String>,
) -> Result<ServePlan, String> {
    let Loaded { path, configuration, compiled } = loaded;
    let Compiled { program, sockets, process, .. } = compiled;
    if program.listeners.is_empty() {
        return Err("nothing is listened on: there is no \"server\" in a block \"http\"".to_owned());
    }
    memory::take(&program)?;
    let (data_path, connections) = match &plan.links {
        Some(links) => over_links::path(links, &program, &sockets, &process)?,
        None => over_sockets::path(&plan.workers, &program, &sockets, &process),
    };
    let reach = match &data_path {
        ServePath::Link { host, .. } => {
            let spread = host.dials && (!matches!(host.silos, Silos::One) || host.links.len() > 1);
            format!("beside links: {}, over several: {spread}", host.is_composite())
        }
        ServePath::Kernel(_) => String::new(),
    };
    let mut given = given((&configuration.dump(), &plan.globals), &program, &process, reach);
    if let ServePath::Kernel(kernel) = &data_path {
        given.extend(over_sockets::given(kernel));
    }
    let settings = Settings { file: Some(path), given };
    let mut server = server(program, &process, (connections, &plan.exempt));
    if let (Some(links), Some(directory)) = (&plan.links, server.content.directory_mut()) {
        directory.media_bytes = links.media_bytes;
    }
    let user = process.user_and_group();
    Ok(ServePlan {
        server,
        path: data_path,
        settings,
        check: false,
        privileges: Privileges { user, supervise: false },
        signals: SignalRules::Nginx { daemon: process.daemon },
        pid_file: process.pid.clone(),
        error_log: ErrorLogs {
            file: plan.error_log(&process),
            syslog: error_syslog(&process),
            level: error_level(&process),
        },
        metrics: plan.metrics,
        again,
    })
}

/// What is compared when the configuration is read again.
fn given(
    (text, globals): (&[u8], &str),
    program: &Program,
    process: &ProcessRules,
    reach: String,
) -> BTreeMap<String, Vec<String>> {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.write(globals.as_bytes());
    let listen = program.listeners.iter().map(|listener| over_sockets::endpoint(listener).to_string()).collect();
    let workers = process.workers.map_or_else(|| "auto".to_owned(), |count| count.to_string());
    let user = process.user.iter().chain(&process.group).cloned().collect();
    // Others can be written to by a process that has its rights still.
    let folders = program.temp_folders.iter().map(|rules| rules.path.display().to_string()).collect();
    [
        ("configuration", vec![format!("{:016x}", hasher.finish())]),
        ("listen", listen),
        ("worker_processes", vec![workers]),
        ("max-connections", vec![process.connections.to_string()]),
        ("user", user),
        ("client_body_temp_path", folders),
        // Sockets to servers of logs are made by a process that may.
        ("syslog", syslog_servers(program, process)),
        // Connected to by a process that may.
        ("upstreams", vec![program.summary().reads.to_string()]),
        // What silos are made for at the start.
        ("connections to upstreams", vec![reach]),
    ]
    .map(|(name, values)| (name.to_owned(), values))
    .into()
}

/// The servers of logs that are told of the process's own lines.
fn error_syslog(process: &ProcessRules) -> Vec<SyslogErrors> {
    let server = |log: &ErrorLog| match &log.target {
        ErrorLogTarget::Syslog(place) => Some(SyslogErrors { place: place.clone(), level: log.level }),
        ErrorLogTarget::Stderr | ErrorLogTarget::File(_) => None,
    };
    process.error_log.iter().filter_map(server).collect()
}

/// The least that the process's standard error is told, where it is said.
fn error_level(process: &ProcessRules) -> Option<u8> {
    let own = process.error_log.iter().find(|log| !log.target.is_syslog())?;
    own.is_said.then_some(own.level)
}

/// All servers of logs, once each.
fn syslog_servers(program: &Program, process: &ProcessRules) -> Vec<String> {
    let server = |place: &LogPlace| match place {
        LogPlace::Syslog(place) => Some(format!("{:?}", place.server)),
        _ => None,
    };
    let of_requests = program.logs.iter().filter_map(|log| server(&log.place));
    let own = error_syslog(process).into_iter().map(|log| format!("{:?}", log.place.server));
    let all: BTreeSet<String> = of_requests.chain(own).collect();
    all.into_iter().collect()
}

fn server(program: Program, process: &ProcessRules, (connections, exempt): (usize, &[Prefix])) -> server::Config {
    // Those of the first server, in answers that are ready; others look at their own.
    let first = program.first_block().map(|block| block.connection);
    // Those of the first listener come first.
    let (heads, exchanges) = (&program.terms.heads, &program.terms.exchanges);
    let mut base = server::Limits::default();
    base.http.line_feeds = program.line_feeds;
    let heads: Vec<HeadTerms> = heads.iter().map(|rules| head_terms(&base, rules)).collect();
    let exchanges: Vec<ExchangeTerms> = exchanges.iter().map(exchange_terms).collect();
    let mut config = server::Config::program(Arc::new(program));
    config.limits.connections = connections;
    config.limits.exempt = exempt.to_vec();
    config.limits.requests_per_connection = first.map(|first| first.requests);
    // A connection's age is known up to 52 days.
    config.limits.connection_age = first.map(|first| first.age).filter(|age| *age <= AGE_MAX);
    config.timeouts.drain = process.shutdown.unwrap_or(PATIENCE);
    if let Some(head) = heads.first() {
        config.limits.http = head.limits;
    }
    (config.head_terms, config.exchange_terms) = (heads, exchanges);
    config
}

/// The age of connections that can be told.
const AGE_MAX: Duration = Duration::from_hours(50 * 24);

/// The least time that a timer is set to.
const SOONEST: Duration = Duration::from_millis(1);

fn head_terms(base: &server::Limits, rules: &HeadRules) -> HeadTerms {
    let mut limits = base.http;
    limits.request_line = u16::try_from(rules.line).unwrap_or(u16::MAX);
    limits.head = u16::try_from(rules.bytes).unwrap_or(u16::MAX);
    limits.fields = u16::try_from(rules.fields).unwrap_or(u16::MAX);
    // What frames chunks, and what follows them, is as long as a head's lines may be, and all of it.
    (limits.chunk_line, limits.trailers) = (limits.request_line, limits.head);
    // What one place takes is for it to say.
    limits.body = u64::MAX;
    HeadTerms { limits, timeout: rules.timeout.max(SOONEST) }
}

fn exchange_terms(rules: &ConnectionRules) -> ExchangeTerms {
    ExchangeTerms {
        body: rules.body.max(SOONEST),
        send: rules.send.max(SOONEST),
        // One that is not kept ends with its answer.
        keep_alive: rules.keepalive.max(SOONEST),
        linger: rules.lingering_pause.max(SOONEST),
        linger_most: rules.lingering.max(SOONEST),
        lingers: rules.lingers,
    }
}
