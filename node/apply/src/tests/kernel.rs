//! The kernel itself, in a network namespace that ends with its process.

use super::Folder;
use crate::{Outcome, Tree, TuningPlan, Which, apply, obstacles, undo};
use audit::{Evidence, Role};
use std::path::Path;
use std::process::Command;

const INSIDE: &str = "NEARSIDE_TEST_APPLY_NAMESPACE";
/// Of each namespace its own.
const KEYS: [(&str, &str); 3] = [
    ("net.ipv4.tcp_slow_start_after_idle", "proc/sys/net/ipv4/tcp_slow_start_after_idle"),
    ("net.ipv4.tcp_rmem", "proc/sys/net/ipv4/tcp_rmem"),
    ("net.ipv4.conf.lo.rp_filter", "proc/sys/net/ipv4/conf/lo/rp_filter"),
];

fn now() -> Vec<String> {
    let read = |(_, path): &(&str, &str)| std::fs::read_to_string(Path::new("/").join(path)).expect("a sysctl");
    KEYS.iter().map(read).collect()
}

/// The child, within its namespace.
#[test]
fn child_that_applies_to_its_namespace() {
    let Ok(outside) = std::env::var(INSIDE) else { return };
    let own = std::fs::read_link("/proc/self/ns/net").expect("a namespace");
    assert_ne!(own.display().to_string(), outside, "a namespace of its own");
    let state = Folder::new("kernel-inside");
    let mut machine = Tree::at(Path::new("/")).with_state(&state.0.join("state"));
    let evidence = Evidence::take(Path::new("/")).expect("a machine");
    let before = now();
    let slow = if before[0].trim() == "0" { "1" } else { "0" };
    let filter = if before[2].trim() == "2" { "1" } else { "2" };
    let values = [slow, "4096 100000 5000000", filter];
    let settings = KEYS.iter().zip(values).map(|((key, _), value)| ((*key).to_owned(), value.to_owned()));
    let settings: Vec<(String, String)> = settings.collect();
    let plan = TuningPlan::of(&machine, &evidence, Role::WebKernel, &settings).expect("a plan");
    assert_eq!(plan.steps.len(), KEYS.len());
    let against = obstacles(&machine, &evidence, &plan);
    assert!(against.is_empty(), "{against:?}");
    apply(&mut machine, &evidence, &plan, None, |_| Ok(())).expect("applied");
    let after = now();
    for ((now, (_, value)), was) in after.iter().zip(&settings).zip(&before) {
        assert!(now.split_whitespace().eq(value.split_whitespace()), "{now} is not {value}");
        assert_ne!(now, was);
    }
    let restored = undo(&mut machine, Which::Last, false).expect("undone");
    assert!(restored.iter().all(|one| one.outcome == Outcome::Restored), "{restored:?}");
    assert_eq!(now(), before);
    println!("all of it inside");
}

/// Needs the right to make a network namespace, and `unshare` of util-linux;
/// says so where they are missing, or where the machine refuses changes.
#[test]
fn a_plan_writes_the_kernel_and_undo_writes_it_back() {
    if std::env::var(INSIDE).is_ok() {
        return;
    }
    let outside = std::fs::read_link("/proc/self/ns/net").expect("a namespace");
    let own = Command::new("unshare").args(["-n", "true"]).output();
    if !own.is_ok_and(|output| output.status.success()) {
        println!("left out: needs root and unshare(1)");
        return;
    }
    let machine = Tree::at(Path::new("/"));
    if let Some(by) = crate::obstacles::container(&machine) {
        println!("left out: a container ({by})");
        return;
    }
    let before = now();
    let mut child = Command::new("unshare");
    child.arg("-n").arg(std::env::current_exe().expect("a test's program"));
    child.args(["--exact", "tests::kernel::child_that_applies_to_its_namespace", "--nocapture"]);
    child.env(INSIDE, outside.display().to_string());
    let output = child.output().expect("a child");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("all of it inside"), "{output:?}");
    assert_eq!(now(), before, "the machine's own are as they were");
}
