//! What of a running server's settings changes, by the words of its command
//! line.

use crate::args::{Command, definition, parse};
use serve::settings::{ANYWHERE, OVER_LINKS, OVER_SOCKETS, Step, remedy, step};
use serve::{ServePath, ServePlan};

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
    for name in ANYWHERE.iter().chain(OVER_LINKS).chain(OVER_SOCKETS) {
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
    for (asked, changed, left) in [("900", vec!["max-connections"], vec![]), ("1001", vec![], vec!["max-connections"])]
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
