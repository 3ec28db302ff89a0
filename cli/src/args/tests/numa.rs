//! `nearside numa`, as typed.

use super::{plan, refusal};
use crate::args::Command;

#[test]
fn a_budget_is_of_a_rate_and_has_its_own_options() {
    let numa = |line: &str| match plan(line) {
        Command::Numa(plan) => plan,
        _ => panic!("{line}: another command"),
    };
    let plan = numa("numa --budget 190G --tls --disk --siloed no --cpu 62%@190G --published rome");
    let budget = plan.budget.expect("asked for");
    let (ask, published) = (budget.ask, budget.published);
    assert_eq!((ask.bits, ask.tls, ask.disk, ask.siloing), (190e9, true, true, budget::Siloing::No));
    assert_eq!((ask.cpu.map(|cpu| cpu.percent), published), (Some(62.0), Some("rome".into())));
    let usual = numa("numa --budget 1G --root x").budget.expect("asked for").ask;
    assert_eq!((usual.tls, usual.disk, usual.siloing), (false, false, budget::Siloing::Network));
    for (line, why) in [
        ("numa --budget 0", "a rate in bits per second"),
        ("numa --budget -1G", "--budget"),
        ("numa --budget nan", "a rate in bits per second"),
        ("numa --budget 1G --topology", "cannot be used with"),
        ("numa --budget 1G --cpu 62", "percent of all cores at a rate"),
        ("numa --budget 1G --published rome --root x", "cannot be used with"),
        ("numa --topology --tls", "go with --budget"),
        ("numa --measure", "--topology"),
        ("numa --topology --measure --root x", "cannot be used with"),
        ("numa --html x", "--html goes with --topology or --budget"),
        ("numa --root x", "--root goes with"),
    ] {
        let told = refusal(line);
        assert!(told.contains(why), "{line}: {told}");
    }
}
