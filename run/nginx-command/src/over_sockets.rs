//! What a configuration says of workers over kernel sockets.

use crate::plan::{NginxWorkers, PATIENCE};
use configuration::Program;
use configuration::program::ListenerRules;
use core::time::Duration;
use host::{Cores, Workers};
use nginx::{Accepting, AffinityRules, Explanation, KeepAliveRules, ProcessRules, SocketRules};
use serve::{Control, KernelPlan, Listen, RestartPlan, ServePath};
use sockets::{Config, Endpoint, KeepAlive, ListenOptions, Model, OwnOptions, StreamOptions};

/// How long a successor may take to serve.
const RESTART_TIMEOUT: Duration = Duration::from_secs(30);

/// What a client that sends nothing at first is waited for, before it is handed
/// over.
const DEFERRED: Duration = Duration::from_secs(1);

/// Where one is listened on.
pub fn endpoint(listener: &ListenerRules) -> Endpoint {
    match (listener.address, &listener.path) {
        (Some(address), _) => Endpoint::Tcp(address),
        (None, path) => Endpoint::Unix(path.clone().unwrap_or_default()),
    }
}

/// How workers come by connections where an address has no `reuseport`, and whether
/// those that have it are asked by it.
fn accept(told: &NginxWorkers, program: &Program, rules: &[SocketRules]) -> (Model, bool) {
    let inet = program.listeners.iter().zip(rules).filter(|(listener, _)| listener.address.is_some());
    let (mut all, mut any) = (true, false);
    inet.for_each(|(_, rules)| (all, any) = (all && rules.reuse_port, any || rules.reuse_port));
    match told.accept {
        Some(model) => (model, false),
        None if all && any => (Model::Reuseport, false),
        None => (Model::Least, true),
    }
}

/// The data path, and how many connections there may be.
pub fn path(
    told: &NginxWorkers,
    program: &Program,
    rules: &[SocketRules],
    process: &ProcessRules,
) -> (ServePath, usize) {
    let listen = program.listeners.iter().map(|listener| Listen::At(endpoint(listener))).collect();
    let workers =
        process.workers.map_or(Workers::PerCore, |count| Workers::Count(u16::try_from(count).unwrap_or(u16::MAX)));
    let count = match workers {
        Workers::Count(count) => usize::from(count),
        Workers::PerCore => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let stream = StreamOptions {
        congestion: told.congestion.clone(),
        pacing_rate: told.pacing_rate,
        user_timeout: told.user_timeout,
        ..StreamOptions::default()
    };
    let (model, by_listen) = accept(told, program, rules);
    let own = program.listeners.iter().zip(rules).filter(|(_, rules)| **rules != SocketRules::default());
    let own = own.map(|(listener, rules)| (endpoint(listener), own_options(rules, by_listen, &stream))).collect();
    let options = ListenOptions { own, ..usual_options() };
    let connections = (process.connections as usize).saturating_mul(count.max(1)).max(1);
    let kernel = KernelPlan {
        listen,
        workers,
        cores: process.affinity.as_ref().map_or(Cores::Allowed, cores),
        or_shared: model == Model::Least,
        nice: process.priority,
        config: Config { model, stream, spin: told.spin, max_connections: connections, ..Config::default() },
        options,
        status_page: told.status_page.clone(),
        fifo: None,
        restart: RestartPlan {
            take_over: None,
            control: Control::Usual,
            timeout: RESTART_TIMEOUT,
            drain: process.shutdown.unwrap_or(PATIENCE),
        },
    };
    (ServePath::Kernel(kernel), connections)
}

/// Where workers run by `worker_cpu_affinity`.
fn cores(rules: &AffinityRules) -> Cores {
    match rules {
        AffinityRules::Auto(None) => Cores::Allowed,
        AffinityRules::Auto(Some(cores)) => Cores::List(cores.clone()),
        AffinityRules::Masks(masks) => Cores::Sets(masks.clone()),
    }
}

/// Where no option is written.
fn usual_options() -> ListenOptions {
    // A Unix socket is everybody's, as nginx makes it.
    ListenOptions { v6_only: true, unix_mode: Some(0o666), ..ListenOptions::default() }
}

/// The options of one address; of its connections, those that are not as all have them.
fn own_options(rules: &SocketRules, by_listen: bool, stream: &StreamOptions) -> OwnOptions {
    let usual = usual_options();
    let buffer = |bytes: Option<u64>| bytes.map(|bytes| u32::try_from(bytes.clamp(1, i32::MAX as u64)).unwrap_or(1));
    let own = StreamOptions {
        keep_alive: rules.keep_alive.and_then(keep_alive),
        no_keep_alive: rules.keep_alive == Some(KeepAliveRules::Off),
        send_buffer: buffer(rules.send),
        receive_buffer: buffer(rules.receive),
        ..stream.clone()
    };
    OwnOptions {
        listen: ListenOptions {
            backlog: rules.backlog.unwrap_or(usual.backlog),
            defer_accept: rules.deferred.then_some(DEFERRED),
            fast_open: rules.fast_open,
            v6_only: !rules.takes_v4,
            hashed: by_listen && rules.reuse_port,
            ..usual
        },
        stream: (own != *stream).then_some(own),
    }
}

/// What is not said is as the system, or the socket, has it.
fn keep_alive(rules: KeepAliveRules) -> Option<KeepAlive> {
    match rules {
        KeepAliveRules::Off => None,
        KeepAliveRules::On { idle, interval, probes } => Some(KeepAlive {
            idle: idle.unwrap_or_default(),
            interval: interval.unwrap_or_default(),
            probes: probes.unwrap_or_default(),
        }),
    }
}

/// What of workers is compared when the configuration is read again: how they come by
/// connections, and where they run.
pub fn given(kernel: &KernelPlan) -> [(String, Vec<String>); 3] {
    let hashed = kernel.options.own.iter().filter(|(_, own)| own.listen.hashed).map(|(at, _)| at.to_string());
    let model = core::iter::once(kernel.config.model.to_string());
    [
        ("accept", model.chain(hashed).collect()),
        ("worker_cpu_affinity", vec![format!("{:?}", kernel.cores)]),
        ("worker_priority", vec![format!("{:?}", kernel.nice)]),
    ]
    .map(|(name, values)| (name.to_owned(), values))
}

/// How workers come by connections, for `--explain`.
pub fn explain(
    explained: &mut Explanation,
    told: &NginxWorkers,
    (program, rules, process): (&Program, &[SocketRules], &ProcessRules),
) {
    let (ServePath::Kernel(plan), _) = path(told, program, rules, process) else { return };
    let Ok((workers, model, why)) = serve::accept_model(&plan) else { return };
    for (explained, listener) in explained.listeners.iter_mut().zip(&program.listeners) {
        let hashed = plan.options.at(&endpoint(listener)).hashed;
        let one = listener.address.is_none() || model.is_shared() && !hashed;
        explained.accept = Some(Accepting {
            model: if hashed { Model::Reuseport } else { model }.to_string(),
            queues: if one { 1 } else { workers },
            why: why.clone().filter(|_| !hashed),
        });
    }
}
