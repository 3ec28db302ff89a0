//! What a configuration has the process be.

use crate::load::Loaded;
use crate::plan::NginxPlan;
use core::time::Duration;
use host::{Cores, Workers};
use nginx::{Compiled, KeepAliveRules, ProcessRules, SocketRules};
use phases::Program;
use phases::program::ListenerRules;
use serve::{Control, KernelPlan, Listen, Privileges, RestartPlan, ServePath, ServePlan, Settings, SignalRules};
use sockets::{Config, Endpoint, KeepAlive, ListenOptions, StreamOptions};
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

/// A graceful end takes as long as requests do, unless it is told how long.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);

/// How long a successor may take to serve.
const RESTART_TIMEOUT: Duration = Duration::from_secs(30);

/// Linux's own times (tcp(7)).
const KEEP_ALIVE: KeepAlive =
    KeepAlive { idle: Duration::from_secs(7_200), interval: Duration::from_secs(75), probes: 9 };

/// What a client that sends nothing at first is waited for, before it is handed
/// over.
const DEFERRED: Duration = Duration::from_secs(1);

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
    let given = given(&configuration.dump(), &plan.globals, &program, &process);
    let settings = Settings { file: Some(path), given };
    let kernel = kernel(&program, &sockets, &process);
    let user = process.user.as_ref().map(|user| match &process.group {
        Some(group) => format!("{user}:{group}"),
        None => user.clone(),
    });
    Ok(ServePlan {
        server: server(program, &process, kernel.config.max_connections),
        path: ServePath::Kernel(kernel),
        settings,
        check: false,
        privileges: Privileges { user, supervise: false },
        signals: SignalRules::Nginx { daemon: process.daemon },
        error_log: plan.error_log(&process),
        again,
    })
}

/// What is compared when the configuration is read again.
fn given(text: &[u8], globals: &str, program: &Program, process: &ProcessRules) -> BTreeMap<String, Vec<String>> {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.write(globals.as_bytes());
    let listen = program.listeners.iter().map(|listener| endpoint(listener).to_string()).collect();
    let workers = process.workers.map_or_else(|| "auto".to_owned(), |count| count.to_string());
    let user = process.user.iter().chain(&process.group).cloned().collect();
    [
        ("configuration", vec![format!("{:016x}", hasher.finish())]),
        ("listen", listen),
        ("worker_processes", vec![workers]),
        ("max-connections", vec![process.connections.to_string()]),
        ("user", user),
    ]
    .map(|(name, values)| (name.to_owned(), values))
    .into()
}

fn server(program: Program, process: &ProcessRules, connections: usize) -> server::Config {
    let first = program.listeners.first().and_then(|listener| listener.servers.first());
    let first = first.map(|id| &program.servers[usize::from(id.0)]);
    let block = first.map(|server| program.blocks[server.block.0 as usize].clone()).unwrap_or_default();
    let header = first.map(|server| server.head.timeout);
    let head = program.servers.iter().map(|server| server.head).fold(phases::program::HeadRules::default(), |a, b| {
        phases::program::HeadRules {
            timeout: a.timeout.max(b.timeout),
            line: a.line.max(b.line),
            bytes: a.bytes.max(b.bytes),
            fields: a.fields.max(b.fields),
        }
    });
    let mut config = server::Config::program(Arc::new(program));
    config.limits.connections = connections;
    config.limits.requests_per_connection = Some(block.connection.requests);
    let http = &mut config.limits.http;
    http.request_line = u16::try_from(head.line).unwrap_or(u16::MAX);
    http.head = u16::try_from(head.bytes).unwrap_or(u16::MAX);
    http.fields = u16::try_from(head.fields).unwrap_or(u16::MAX);
    // What one place takes is for it to say.
    http.body = u64::MAX;
    let timeouts = &mut config.timeouts;
    timeouts.http.header = header.unwrap_or(head.timeout);
    timeouts.http.body = block.connection.body;
    timeouts.http.send = block.connection.send;
    timeouts.http.keep_alive = block.connection.keepalive;
    timeouts.drain = process.shutdown.unwrap_or(PATIENCE);
    config
}

fn endpoint(listener: &ListenerRules) -> Endpoint {
    match (listener.address, &listener.path) {
        (Some(address), _) => Endpoint::Tcp(address),
        (None, path) => Endpoint::Unix(path.clone().unwrap_or_default()),
    }
}

fn kernel(program: &Program, rules: &[SocketRules], process: &ProcessRules) -> KernelPlan {
    let listen = program.listeners.iter().map(|listener| Listen::At(endpoint(listener))).collect();
    let workers =
        process.workers.map_or(Workers::PerCore, |count| Workers::Count(u16::try_from(count).unwrap_or(u16::MAX)));
    let count = match workers {
        Workers::Count(count) => usize::from(count),
        Workers::PerCore => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let v6 = program.listeners.iter().zip(rules).filter(|(one, _)| one.address.is_some_and(|it| it.is_ipv6()));
    let options = ListenOptions {
        backlog: rules.iter().filter_map(|one| one.backlog).max().unwrap_or(ListenOptions::default().backlog),
        defer_accept: rules.iter().any(|one| one.deferred).then_some(DEFERRED),
        fast_open: rules.iter().filter_map(|one| one.fast_open).max(),
        v6_only: v6.clone().count() == 0 || !v6.clone().all(|(_, one)| one.takes_v4),
        unix_mode: ListenOptions::default().unix_mode,
    };
    let buffer = |bytes: Option<u64>| bytes.map(|bytes| u32::try_from(bytes.clamp(1, i32::MAX as u64)).unwrap_or(1));
    let stream = StreamOptions {
        keep_alive: rules.iter().find_map(|one| one.keep_alive).and_then(keep_alive),
        send_buffer: buffer(rules.iter().filter_map(|one| one.send).max()),
        receive_buffer: buffer(rules.iter().filter_map(|one| one.receive).max()),
        ..StreamOptions::default()
    };
    let connections = (process.connections as usize).saturating_mul(count.max(1)).max(1);
    KernelPlan {
        listen,
        workers,
        cores: Cores::Allowed,
        config: Config { stream, max_connections: connections, ..Config::default() },
        options,
        status_page: None,
        restart: RestartPlan {
            take_over: None,
            control: Control::Usual,
            timeout: RESTART_TIMEOUT,
            drain: process.shutdown.unwrap_or(PATIENCE),
            pid_file: process.pid.clone(),
        },
    }
}

const fn keep_alive(rules: KeepAliveRules) -> Option<KeepAlive> {
    match rules {
        KeepAliveRules::Off => None,
        KeepAliveRules::On { idle, interval, probes } => Some(KeepAlive {
            idle: match idle {
                Some(idle) => idle,
                None => KEEP_ALIVE.idle,
            },
            interval: match interval {
                Some(interval) => interval,
                None => KEEP_ALIVE.interval,
            },
            probes: match probes {
                Some(probes) => probes,
                None => KEEP_ALIVE.probes,
            },
        }),
    }
}
