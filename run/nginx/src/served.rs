//! What a configuration has the process be.

use crate::load::Loaded;
use crate::plan::{NginxPlan, PATIENCE};
use crate::{over_links, over_sockets};
use nginx::{Compiled, ProcessRules};
use phases::Program;
use serve::{Privileges, ServePlan, Settings, SignalRules};
use std::collections::BTreeMap;
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
    let given = given(&configuration.dump(), &plan.globals, &program, &process);
    let settings = Settings { file: Some(path), given };
    let (path, connections) = match &plan.links {
        Some(links) => over_links::path(links, &program, &sockets, &process)?,
        None => over_sockets::path(&plan.workers, &program, &sockets, &process),
    };
    let user = process.user.as_ref().map(|user| match &process.group {
        Some(group) => format!("{user}:{group}"),
        None => user.clone(),
    });
    Ok(ServePlan {
        server: server(program, &process, connections),
        path,
        settings,
        check: false,
        privileges: Privileges { user, supervise: false },
        signals: SignalRules::Nginx { daemon: process.daemon },
        pid_file: process.pid.clone(),
        error_log: plan.error_log(&process),
        metrics: plan.metrics,
        again,
    })
}

/// What is compared when the configuration is read again.
fn given(text: &[u8], globals: &str, program: &Program, process: &ProcessRules) -> BTreeMap<String, Vec<String>> {
    let mut hasher = DefaultHasher::new();
    hasher.write(text);
    hasher.write(globals.as_bytes());
    let listen = program.listeners.iter().map(|listener| over_sockets::endpoint(listener).to_string()).collect();
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
    let block = program.first_block().cloned().unwrap_or_default();
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
