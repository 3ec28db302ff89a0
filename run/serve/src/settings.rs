//! Which settings change while a process serves, and from what it serves to
//! what it is to serve.

use crate::plan::{ServePath, ServePlan, SignalRules};
use core::mem::{Discriminant, discriminant};
use server::Content;

/// What changes on both data paths.
pub const ANYWHERE: &[&str] = &[
    "access-log",
    "body-timeout",
    "cache-size",
    "drain-timeout",
    "folder",
    "header-timeout",
    "idle",
    "keep-alive-timeout",
    "max-connections",
    "respond",
    "send-timeout",
    "symlinks",
];

/// What changes over a link, too.
pub const OVER_LINKS: &[&str] = &["cache-copies", "congestion", "tx-delay"];

/// What changes over links whose addresses are ours alone, too: what a program
/// on the host's own takes from the kernel is said when it is loaded.
pub const ON_OWN_ADDRESSES: &[&str] = &["listen"];

/// What changes over kernel sockets, too.
pub const OVER_SOCKETS: &[&str] = &["sendfile-above"];

/// What an nginx.conf says, and that changes.
const OF_CONFIGURATIONS: &[&str] = &["configuration"];

/// What changes where a successor can take over.
const OF_RESTARTS: &[&str] = &["restart-drain", "restart-timeout"];

/// From one plan to the next, as far as that goes without a new process.
#[derive(Debug)]
pub struct Step {
    /// What is to be in force.
    pub plan: ServePlan,
    /// The settings that are others then.
    pub changed: Vec<String>,
    /// Those that were asked to be, and stay as they are.
    pub left: Vec<String>,
}

/// The step from `now` towards `asked`, where there is room for `most`
/// connections.
///
/// # Errors
/// If it is no step but another server; a sentence for the user.
pub fn step(now: &ServePlan, asked: &ServePlan, most: usize) -> Result<Step, String> {
    let differing = now.settings.differing(&asked.settings);
    if is_link(now) != is_link(asked) || kind(now) != kind(asked) {
        return Err(format!("another data path or kind of content ({}) {}", differing.join(", "), remedy(now, 1)));
    }
    if is_nginx(now) && is_link(now) && differing.iter().any(|name| name == "listen" && !changes(now, name)) {
        return Err(format!("another \"listen\" on the host's own addresses {}", remedy(now, 1)));
    }
    let mut plan = now.clone();
    let fits = !is_link(now) || asked.server.limits.connections <= most;
    // What lies elsewhere cannot be read by a process that has given that up.
    let reached = match &asked.server.content {
        Content::Directory(directory) => super::ward::reaches(&directory.root),
        Content::Respond(_) | Content::Program(..) => true,
    };
    let stays = |name: &str| name == "max-connections" && !fits || name == "folder" && !reached;
    let (changed, left) = differing.into_iter().partition(|name| changes(now, name) && !stays(name));
    let changed: Vec<String> = changed;
    for name in &changed {
        plan.settings.adopt(name, &asked.settings);
    }
    if changed.iter().any(|name| name == "configuration") {
        plan.error_log.file.clone_from(&asked.error_log.file);
        plan.error_log.level = asked.error_log.level;
    }
    if changed.iter().any(|name| name == "syslog") {
        plan.error_log.syslog.clone_from(&asked.error_log.syslog);
    }
    // What of it stays as it is, and why, is told below, or by `Change::prepare`.
    plan.server = asked.server.clone();
    if let (false, Content::Directory(plan), Content::Directory(now)) =
        (reached, &mut plan.server.content, &now.server.content)
    {
        plan.root.clone_from(&now.root);
    }
    if !fits {
        plan.server.limits.connections = now.server.limits.connections;
    }
    match (&mut plan.path, &asked.path) {
        (
            ServePath::Link { host, copies, restart, listen, .. },
            ServePath::Link { host: asked, copies: more, restart: anew, listen: elsewhere, .. },
        ) => {
            if !host.uses_host_addresses() {
                listen.clone_from(elsewhere);
            }
            (host.idle, host.tx_delay, host.congestion) = (asked.idle, asked.tx_delay, asked.congestion);
            *copies = *more;
            if let (Some(restart), Some(anew)) = (restart, anew) {
                (restart.timeout, restart.drain) = (anew.timeout, anew.drain);
            }
        }
        (ServePath::Kernel(plan), ServePath::Kernel(asked)) => {
            plan.config.spin = asked.config.spin;
            plan.config.max_connections = asked.config.max_connections;
            if is_nginx(now) {
                // Those of addresses that are listened on still.
                plan.options.clone_from(&asked.options);
            }
            (plan.restart.timeout, plan.restart.drain) = (asked.restart.timeout, asked.restart.drain);
        }
        // Told apart above.
        _ => {}
    }
    Ok(Step { plan, changed, left })
}

/// What a process that has given its rights up cannot begin with.
const OF_RIGHTS: [&str; 3] = ["client_body_temp_path", "syslog", "upstreams"];

/// Whether `asked` takes a successor, where one is started for an nginx.conf: as
/// nginx starts new workers for each.
pub fn takes_successor(now: &ServePlan, asked: &ServePlan) -> bool {
    let differing = now.settings.differing(&asked.settings);
    // Over a link both have the same ports.
    let goes = |name: &String| !(changes(now, name) || is_link(now) && name == "listen");
    is_nginx(now) && has_take_over(now) && differing.iter().any(goes)
}

const fn is_nginx(plan: &ServePlan) -> bool {
    matches!(plan.signals, SignalRules::Nginx { .. })
}

/// What so many settings that do not change while `plan` is served need.
pub fn remedy(plan: &ServePlan, settings: usize) -> String {
    let needs = if settings == 1 { "needs" } else { "need" };
    let what = if has_take_over(plan) { "a take-over (SIGUSR2)" } else { "a new start" };
    format!("{needs} {what}")
}

/// Whether a successor can serve without a connection lost.
fn has_take_over(plan: &ServePlan) -> bool {
    match &plan.path {
        ServePath::Kernel(_) => true,
        ServePath::Link { restart, .. } => restart.is_some(),
    }
}

fn changes(plan: &ServePlan, name: &str) -> bool {
    let more = if is_link(plan) { OVER_LINKS } else { OVER_SOCKETS };
    let restarts = has_take_over(plan) && OF_RESTARTS.contains(&name);
    let own = matches!(&plan.path, ServePath::Link { host, .. } if !host.uses_host_addresses());
    let own = own && ON_OWN_ADDRESSES.contains(&name);
    let confined = super::ward::here().is_some() || rustix::process::geteuid().is_root();
    let rights = OF_RIGHTS.contains(&name) && !confined;
    ANYWHERE.contains(&name) || rights || OF_CONFIGURATIONS.contains(&name) || more.contains(&name) || restarts || own
}

const fn is_link(plan: &ServePlan) -> bool {
    matches!(plan.path, ServePath::Link { .. })
}

/// Of content: a server that is running takes up none of another.
const fn kind(plan: &ServePlan) -> Discriminant<Content> {
    discriminant(&plan.server.content)
}
