//! The scripts against our stack.

use conformance::frames::Family;
use conformance::run::run;
use conformance::script::{Place, Script};
use conformance::stack::Ours;

fn scripts_over(family: Family) {
    let mut failures = Vec::new();
    let mut ran = 0;
    for (name, text) in conformance::scripts() {
        let script = Script::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        if !script.on.contains(&Place::Stack) || !script.over.contains(&family) {
            continue;
        }
        ran += 1;
        let mut ours = Ours::new(&script, family).unwrap_or_else(|e| panic!("{name}: {e}"));
        if let Err(failure) = run(&script, &mut ours) {
            failures.push(format!("{name}: {failure}"));
        }
    }
    assert!(ran > 50, "{ran} scripts");
    assert!(failures.is_empty(), "{} of {ran} scripts:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn scripts_over_ipv4() {
    scripts_over(Family::V4);
}

#[test]
fn scripts_over_ipv6() {
    scripts_over(Family::V6);
}
