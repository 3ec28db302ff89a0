//! The scripts against our stack.

use conformance::run::run;
use conformance::script::{Place, Script};
use conformance::stack::Ours;

#[test]
fn scripts_against_the_stack() {
    let mut failures = Vec::new();
    let mut ran = 0;
    for (name, text) in conformance::scripts() {
        let script = Script::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        if !script.on.contains(&Place::Stack) {
            continue;
        }
        ran += 1;
        let mut ours = Ours::new(&script).unwrap_or_else(|e| panic!("{name}: {e}"));
        if let Err(failure) = run(&script, &mut ours) {
            failures.push(format!("{name}: {failure}"));
        }
    }
    assert!(ran > 0);
    assert!(failures.is_empty(), "{} of {ran} scripts:\n{}", failures.len(), failures.join("\n"));
}
