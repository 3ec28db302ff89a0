//! Which settings change while a process serves, and from what it serves to
//! what it is to serve.

use crate::args::{ServePath, ServePlan};
use server::Content;

/// What changes on both data paths.
const ANYWHERE: [&str; 12] = [
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
const OVER_LINKS: [&str; 3] = ["cache-copies", "congestion", "tx-delay"];

/// What changes over kernel sockets, too.
const OVER_SOCKETS: [&str; 1] = ["sendfile-above"];

/// What changes where a successor can take over.
const OF_RESTARTS: [&str; 2] = ["restart-drain", "restart-timeout"];

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
    if is_link(now) != is_link(asked) || is_fixed(now) != is_fixed(asked) {
        return Err(format!("another data path or kind of content ({}) {}", differing.join(", "), remedy(now, 1)));
    }
    let mut plan = now.clone();
    let fits = !is_link(now) || asked.server.limits.connections <= most;
    let (changed, left) =
        differing.into_iter().partition(|name| changes(now, name) && (fits || name != "max-connections"));
    let changed: Vec<String> = changed;
    for name in &changed {
        plan.settings.adopt(name, &asked.settings);
    }
    plan.server.timeouts = asked.server.timeouts.clone();
    plan.server.access_log = asked.server.access_log.clone();
    plan.server.content = asked.server.content.clone();
    if fits {
        plan.server.limits.connections = asked.server.limits.connections;
    }
    match (&mut plan.path, &asked.path) {
        (
            ServePath::Link { host, copies, restart, .. },
            ServePath::Link { host: asked, copies: more, restart: anew, .. },
        ) => {
            (host.idle, host.tx_delay, host.congestion) = (asked.idle, asked.tx_delay, asked.congestion);
            *copies = *more;
            if let (Some(restart), Some(anew)) = (restart, anew) {
                (restart.timeout, restart.drain) = (anew.timeout, anew.drain);
            }
        }
        (ServePath::Kernel(plan), ServePath::Kernel(asked)) => {
            plan.config.spin = asked.config.spin;
            plan.config.max_connections = asked.config.max_connections;
            (plan.restart.timeout, plan.restart.drain) = (asked.restart.timeout, asked.restart.drain);
        }
        // Told apart above.
        _ => {}
    }
    Ok(Step { plan, changed, left })
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
    let more = if is_link(plan) { &OVER_LINKS[..] } else { &OVER_SOCKETS };
    let restarts = has_take_over(plan) && OF_RESTARTS.contains(&name);
    ANYWHERE.contains(&name) || more.contains(&name) || restarts
}

const fn is_link(plan: &ServePlan) -> bool {
    matches!(plan.path, ServePath::Link { .. })
}

const fn is_fixed(plan: &ServePlan) -> bool {
    matches!(plan.server.content, Content::Respond(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Command, definition, parse};

    fn plan(line: &str) -> ServePlan {
        match parse(["nearside", "serve"].into_iter().chain(line.split(' '))) {
            Ok(Command::Serve(plan)) => *plan,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn what_changes_is_an_option() {
        let definition = definition();
        let serve = definition.find_subcommand("serve").unwrap();
        for name in ANYWHERE.iter().chain(&OVER_LINKS).chain(&OVER_SOCKETS) {
            let known = |arg: &clap::Arg| arg.get_long().unwrap_or(arg.get_id().as_str()) == *name;
            assert!(serve.get_arguments().any(known), "{name}");
        }
    }

    #[test]
    fn each_option_changes_or_is_left_as_it_was() {
        let now = plan(". --workers 2 --idle spin --restart-drain 1s");
        let asked = plan("/srv --workers 3 --idle adaptive:1ms --send-timeout 1s --backlog 7");
        let Step { plan: next, changed, left } = step(&now, &asked, 0).unwrap();
        assert_eq!(changed, ["folder", "idle", "restart-drain", "send-timeout"]);
        assert_eq!(left, ["backlog", "workers"]);
        let (ServePath::Kernel(was), ServePath::Kernel(kernel), ServePath::Kernel(wanted)) =
            (&now.path, &next.path, &asked.path)
        else {
            panic!("{next:?}")
        };
        assert_eq!((kernel.workers, &kernel.options), (was.workers, &was.options));
        assert_eq!((&kernel.config, kernel.restart.drain), (&wanted.config, wanted.restart.drain));
        assert_eq!(format!("{:?}", next.server), format!("{:?}", asked.server));
        // What was left is asked for at the next time, too.
        assert_eq!(step(&next, &asked, 0).unwrap().left, ["backlog", "workers"]);
        assert!(step(&next, &asked, 0).unwrap().changed.is_empty());
    }

    #[test]
    fn connections_over_a_link_have_the_room_that_was_made_at_the_start() {
        let link = |rest: &str| plan(&format!(". --link tap:x --addr 10.0.0.2/24 {rest}"));
        let now = link("--max-connections 1000");
        for (asked, changed, left) in
            [("900", vec!["max-connections"], vec![]), ("1001", vec![], vec!["max-connections"])]
        {
            let asked = link(&format!("--max-connections {asked}"));
            let step = step(&now, &asked, 1_000).unwrap();
            assert_eq!(
                (step.changed, step.left.clone()),
                (changed.iter().map(ToString::to_string).collect(), left.iter().map(ToString::to_string).collect())
            );
            let expected = if left.is_empty() { 900 } else { 1_000 };
            assert_eq!(step.plan.server.limits.connections, expected);
        }
        let asked = link("--congestion newreno --tx-delay 5 --cache-copies off --silos 2");
        let Step { changed, left, plan: next } = step(&now, &asked, 1_000_000).unwrap();
        assert_eq!(changed, ["cache-copies", "congestion", "max-connections", "tx-delay"]);
        assert_eq!((left, remedy(&next, 1)), (vec!["silos".to_owned()], "needs a new start".to_owned()));
    }

    #[test]
    fn another_server_is_no_step() {
        for (now, asked) in [
            (".", "--respond 1"),
            (".", ". --link tap:x --addr 10.0.0.2/24"),
            ("--respond 1 --link tap:x --addr 10.0.0.2/24", "--respond 1"),
        ] {
            let why = step(&plan(now), &plan(asked), 1_000_000).unwrap_err();
            assert!(why.starts_with("another data path or kind of content"), "{why}");
        }
    }
}
