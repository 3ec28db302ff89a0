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
    let chosen = numa("numa --budget 1G --ports eth0,eth1 --disks sda --split rate --ring 256 --mtu 9000 --copies");
    let chosen = chosen.budget.expect("asked for");
    let names = |list: &[&str]| Some(list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    assert_eq!((chosen.carriers.ports, chosen.carriers.disks), (names(&["eth0", "eth1"]), names(&["sda"])));
    let ask = chosen.ask;
    assert_eq!((ask.split, ask.ring, ask.mtu, ask.copies), (budget::PortSplit::Rate, 256, 9_000, true));
    let usual = numa("numa --budget 1G --root x").budget.expect("asked for").ask;
    assert_eq!((usual.tls, usual.disk, usual.siloing), (false, false, budget::Siloing::Network));
    for (line, why) in [
        ("numa --budget 0", "a rate in bits per second"),
        ("numa --budget -1G", "--budget"),
        ("numa --budget nan", "a rate in bits per second"),
        ("numa --budget 1G --topology", "cannot be used with"),
        ("serve . --workers 2 --numa off", "--numa goes with --link"),
        ("serve . --workers 2 --bond lacp", "--bond goes with --link"),
        ("numa --budget 190", "190 is 190 bit/s: give at least 1M, as in 190G"),
        ("numa --budget 999K", "at least 1M"),
        ("numa --budget 1G --measure", "--measure goes with --topology"),
        ("numa --budget 1G --disk --copies", "cannot be used with"),
        ("numa --budget 1G --mtu 100", "576..=9216"),
        ("numa --budget 1G --ring 0", "1..=1048576"),
        ("numa --topology --ports eth0", "go with --budget"),
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
