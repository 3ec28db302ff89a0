//! Commands beside those that serve and ask.

use super::{plan, refusal};
use crate::args::Command;

/// Of the whole machine only calls of malloc are told apart by process; callers are of one process.
#[test]
fn what_watch_traces_is_of_a_process_but_for_calls_of_malloc() {
    let watch = |line: &str| match plan(line) {
        Command::Watch(plan) => plan,
        other => panic!("{other:?}"),
    };
    let all = watch("watch --trace mallocs");
    assert!(all.pid.is_none() && all.tracing.mallocs && !all.tracing.symbols);
    let one = watch("watch --pid 7 -g");
    assert!(one.tracing.graphs && one.tracing.symbols);
    assert!(!watch("watch --pid 7 --trace symbols").tracing.graphs);
    for (line, reason) in [
        ("watch --trace symbols", "--trace symbols is of one process"),
        ("watch --trace mallocs,syscalls", "--trace syscalls is of one process"),
        ("watch -g", "--pid"),
        ("watch --replay x --trace mallocs", "cannot be used with"),
        ("watch --root x --trace mallocs", "cannot be used with"),
    ] {
        let why = refusal(line);
        assert!(why.contains(reason), "{line}: {why}");
    }
}

#[test]
fn demo_is_short_only_if_asked() {
    let Command::Demo(long) = plan("demo") else { panic!("not demo") };
    let Command::Demo(quick) = plan("demo --quick --cores 1,0") else { panic!("not demo") };
    assert!(long.rounds > quick.rounds && long.duration > quick.duration);
    assert_eq!(quick.cores, Some((1, 0)));
    assert!(long.first_look && !quick.first_look);
    let Command::Demo(named) = plan("demo --nginx /usr/sbin/nginx,/opt/nginx") else { panic!("not demo") };
    assert_eq!(named.nginx, ["/usr/sbin/nginx", "/opt/nginx"].map(std::path::PathBuf::from));
    assert!(long.nginx.is_empty());
}
