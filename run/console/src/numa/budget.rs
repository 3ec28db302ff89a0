//! `nearside numa --budget`: what a rate costs as text and as JSON.

use super::counters::MachineCounters;
use super::si;
use crate::plan::BudgetPlan;
use ::budget::{
    Budget, BudgetAsk, BudgetMachine, ContentWay, CpuCost, Crossings, Load, LoadKind, MemoryPass, PUBLISHED, SeenShare,
    Siloing, WayCost,
};
use core::fmt;
use figures::digits;
use say::Failure;
use serde_json::{Value, json};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Longer files are none of published figures.
const FILE_LIMIT: u64 = 64 << 10;

/// Rows of what carries content that are printed; the others are emptier.
const ROWS: usize = 12;

/// A budget as it is printed.
pub struct ToldBudget<'a> {
    pub machine: &'a BudgetMachine,
    pub budget: &'a Budget,
    /// What this machine counts; `None` of another one.
    pub counters: Option<&'a MachineCounters>,
}

/// The machine of published figures that is asked for: one that comes with the program, by its
/// name, or a file's.
pub fn published(name: &Path) -> Result<BudgetMachine, Failure> {
    let known = PUBLISHED.iter().find(|(known, _)| name.as_os_str() == *known);
    let text = match known {
        Some((_, text)) => (*text).to_owned(),
        None => {
            let names = PUBLISHED.map(|(name, _)| name).join(", ");
            let told = |why: std::io::Error| format!("{}: {why}; known by name are {names}", name.display());
            let mut text = String::new();
            // One byte more than fits tells that it is longer.
            File::open(name).map_err(told)?.take(FILE_LIMIT + 1).read_to_string(&mut text).map_err(told)?;
            text
        }
    };
    BudgetMachine::published(&text).map_err(|why| format!("{}: {why}", name.display()).into())
}

/// The machine with what carries content, and what is asked of it.
pub fn made(machine: BudgetMachine, plan: &BudgetPlan) -> Result<(BudgetMachine, Budget), Failure> {
    let machine = machine.carrying(&plan.carriers)?;
    let made = ::budget::budget(&machine, &plan.ask)?;
    Ok((machine, made))
}

/// A rate to four digits: whether it fits can lie in the fourth.
fn bits(value: f64) -> String {
    let prefixes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    let (unit, prefix) = prefixes.into_iter().find(|(unit, _)| value >= unit * 0.999_95).unwrap_or((1.0, ""));
    let scaled = value / unit;
    let decimals = match scaled {
        large if large >= 999.95 => 0,
        large if large >= 99.995 => 1,
        large if large >= 9.999_5 => 2,
        _ => 3,
    };
    let text = format!("{scaled:.decimals$}");
    let text = if decimals > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {prefix}bit/s")
}

fn bytes(value: f64) -> String {
    si(value, "B/s")
}

fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

impl fmt::Display for ToldBudget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, budget, counters } = self;
        let ask = &budget.ask;
        writeln!(
            f,
            "{} of {} ({}), {}, siloed: {}",
            bits(ask.bits),
            if ask.disk { "content from disks" } else { "content in memory" },
            bytes(ask.bits / 8.0),
            if ask.tls { "with TLS" } else { "without TLS" },
            ask.siloing.name()
        )?;
        writeln!(f, "machine: {}", machine.name)?;
        advice(budget).iter().try_for_each(|line| writeln!(f, "{line}"))?;
        if !machine.from.is_empty() {
            writeln!(f, "  published figures, nothing of them was measured:")?;
            machine.from.iter().try_for_each(|from| writeln!(f, "  - {from}"))?;
        }
        if let Some(why) = ask.siloing.why_not() {
            writeln!(f, "siloed by disk is {why}")?;
        }
        ways(f, budget)?;
        passes(f, budget)?;
        loads(f, budget)?;
        crossings(f, budget)?;
        seen(f, machine, budget)?;
        ring(f, budget)?;
        match budget.cpu {
            Some(cpu) => writeln!(
                f,
                "processor time: {} % of all cores per Gbit/s ({} % at {}){}",
                digits(cpu.percent_per_gbit()),
                digits(cpu.percent),
                bits(cpu.bits),
                cpu.way.map_or_else(
                    || ", charged to each way alike: --cpu 62%@190G:kernel (or :slot, :nic) for the one it is of"
                        .into(),
                    |way| format!(", by {} alone", way.name(ask.tls))
                )
            )?,
            None => {
                writeln!(f, "processor time: not known; --cpu 62%@190G with what you saw, as % of all cores at a rate")?
            }
        }
        if let Some(counters) = counters {
            write!(f, "{counters}")?;
        }
        budget.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))?;
        if ask.tls {
            writeln!(
                f,
                "note: a cipher that does not write past the cache reads each line first that it writes: one pass more"
            )?;
        }
        Ok(())
    }
}

/// Whether what is sealed into a ring's slots stays in the cache.
fn ring(f: &mut fmt::Formatter<'_>, budget: &Budget) -> fmt::Result {
    let ring = budget.ask.ring;
    let Some(slots) = budget.ring_slots else {
        return writeln!(
            f,
            "\nthe size of the last cache is not known: rings of {ring} slots (--ring) are taken to stay in it"
        );
    };
    write!(
        f,
        "\nslots stay in the cache while a silo's ring has up to {slots} of full frames, and a silo is on each \
         physical core; a ring of {ring} (--ring) "
    )?;
    if ring <= slots {
        return writeln!(f, "stays there");
    }
    let what = if budget.ask.tls { "sealed" } else { "copied" };
    writeln!(f, "does not: what is {what} into the slot is written to memory and read from it")
}

/// A row for each way of sending, and its first limit.
fn ways(f: &mut fmt::Formatter<'_>, budget: &Budget) -> fmt::Result {
    writeln!(
        f,
        "\n  {:<28}  {:>10}  {:>10}  {:>10}  {:>7}  full first",
        "content is", "reads", "writes", "crossing", "remote"
    )?;
    for cost in &budget.ways {
        let limit = limit(cost).unwrap_or_else(|| "nothing of which it is known".to_owned());
        writeln!(
            f,
            "  {:<28}  {:>10}  {:>10}  {:>10}  {:>7}  {limit}",
            cost.way.name(budget.ask.tls),
            bytes(cost.reads),
            bytes(cost.writes),
            bytes(cost.crossing),
            percent(cost.remote_share())
        )?;
    }
    Ok(())
}

/// `memory of domain 0, 1 at 341 Gbit/s (published)`: all that is full first; `None`: of nothing is it known.
fn limit(cost: &WayCost) -> Option<String> {
    let load = cost.first_limit()?;
    let source = load.carries.map_or("as you said", |carries| carries.source.name());
    let at = load.full_at.map_or_else(String::new, |rate| format!(" at {}", bits(rate)));
    Some(format!("{}{at} ({source})", by_kind(cost.first_limits().iter()).join(" and ")))
}

/// Parts by their kinds: `memory of domain 0, 1`.
fn by_kind<'a>(loads: impl Iterator<Item = &'a Load>) -> Vec<String> {
    let mut kinds: Vec<(&str, Vec<&str>)> = Vec::new();
    for load in loads {
        let kind = load.kind.name();
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, names)) => names.push(&load.name),
            None => kinds.push((kind, vec![&load.name])),
        }
    }
    kinds.into_iter().map(|(kind, names)| format!("{kind} {}", several(&names))).collect()
}

/// Names, of many the first and the last.
fn several(names: &[&str]) -> String {
    match names {
        [first, _, _, .., last] => format!("{first} … {last} ({} of them)", names.len()),
        few => few.join(", "),
    }
}

/// What may be full earlier, as nobody knows what it carries.
fn not_known(cost: &WayCost) -> Vec<String> {
    let mut parts = by_kind(cost.unknown());
    if !cost.has_cpu() {
        parts.push("processor time".to_owned());
    }
    parts
}

/// Memory's bytes of each pass.
fn passes(f: &mut fmt::Formatter<'_>, budget: &Budget) -> fmt::Result {
    let tls = budget.ask.tls;
    write!(f, "\n  {:<14}", "pass")?;
    budget.ways.iter().try_for_each(|cost| write!(f, "  {:>27}", cost.way.name(tls)))?;
    writeln!(f)?;
    for pass in MemoryPass::ALL {
        let cells: Vec<String> = budget.ways.iter().map(|cost| cell(cost, pass)).collect();
        if cells.iter().any(|cell| cell != "-") {
            write!(f, "  {:<14}", pass.name(tls))?;
            cells.iter().try_for_each(|cell| write!(f, "  {cell:>27}"))?;
            writeln!(f)?;
        }
    }
    Ok(())
}

fn cell(cost: &WayCost, pass: MemoryPass) -> String {
    let found = cost.passes.iter().find(|(one, ..)| *one == pass);
    found.map_or_else(
        || "-".to_owned(),
        |(_, memory, far)| {
            let here = if *memory > 0.0 { bytes(*memory) } else { "in the cache".to_owned() };
            if *far > 0.0 { format!("{here}, {} far", si(*far, "B/s")) } else { here }
        },
    )
}

/// What each part carries, of the way with the most passes, the fullest first; parts alike in one row.
fn loads(f: &mut fmt::Formatter<'_>, budget: &Budget) -> fmt::Result {
    let Some(cost) = budget.ways.first() else { return Ok(()) };
    writeln!(f, "\n{}:", cost.way.name(budget.ask.tls))?;
    writeln!(f, "  {:<40}  {:>10}  {:>10}  {:>6}  {:>12}  from", "part", "asked", "carries", "used", "full at")?;
    let rows = rows(&cost.loads);
    for (name, load) in rows.iter().take(ROWS) {
        let dash = || "-".to_owned();
        let asked = if load.kind == LoadKind::Cpu { format!("{} %", digits(load.asked)) } else { bytes(load.asked) };
        writeln!(
            f,
            "  {name:<40}  {asked:>10}  {:>10}  {:>6}  {:>12}  {}",
            load.carries.map_or_else(dash, |carries| bytes(carries.bytes)),
            load.full_at.map_or_else(dash, |rate| percent(budget.ask.bits / rate)),
            load.full_at.map_or_else(dash, bits),
            load.carries.map_or(if load.kind == LoadKind::Cpu { "as you said" } else { "not known" }, |carries| {
                carries.source.name()
            })
        )?;
    }
    if rows.len() > ROWS {
        writeln!(f, "  and {} more, emptier", rows.len() - ROWS)?;
    }
    Ok(())
}

/// Parts of a kind that are asked the same and carry the same, as one.
fn rows(loads: &[Load]) -> Vec<(String, &Load)> {
    let mut rows: Vec<(Vec<&str>, &Load)> = Vec::new();
    for load in loads {
        let same = |other: &Load| {
            let close = (other.asked - load.asked).abs() <= 1e-9 * load.asked.abs();
            other.kind == load.kind && other.carries == load.carries && close
        };
        match rows.iter_mut().find(|(_, first)| same(first)) {
            Some((names, _)) => names.push(&load.name),
            None => rows.push((vec![&load.name], load)),
        }
    }
    rows.into_iter().map(|(names, load)| (format!("{} {}", load.kind.name(), several(&names)), load)).collect()
}

fn crossings(f: &mut fmt::Formatter<'_>, budget: &Budget) -> fmt::Result {
    writeln!(f, "\ncrossings of a byte, {}:", budget.crossed.name(budget.ask.tls))?;
    writeln!(f, "  {:<20}  {:>8}  {:>8}", "", "at worst", "expected")?;
    for (siloing, crossings) in &budget.crossings {
        let name = format!("siloed: {}", siloing.name());
        let note = if siloing.why_not().is_some() { "  (a model: it cannot be served)" } else { "" };
        writeln!(f, "  {name:<20}  {:>8}  {:>8.2}{note}", crossings.worst, crossings.expected)?;
    }
    Ok(())
}

/// What others saw of the same machine, beside the model.
fn seen(f: &mut fmt::Formatter<'_>, machine: &BudgetMachine, budget: &Budget) -> fmt::Result {
    if !machine.seen.is_empty() {
        writeln!(f, "\npublished beside the model:")?;
    }
    for SeenShare { siloing, share, why } in &machine.seen {
        let of = |ask: BudgetAsk| ::budget::budget(machine, &ask).ok();
        let ask = BudgetAsk { siloing: *siloing, tls: true, disk: true, ..budget.ask };
        let kernel = of(ask).and_then(|made| made.ways.into_iter().find(|cost| cost.way == ContentWay::KernelTls));
        if let Some(cost) = kernel {
            writeln!(
                f,
                "  siloed {}: {} of memory's traffic remote ({} of {}), published {}: {why}",
                siloing.name(),
                percent(cost.remote_share()),
                bytes(cost.crossing),
                bytes(cost.reads + cost.writes),
                percent(*share)
            )?;
        }
    }
    Ok(())
}

/// The way that the answer is of, and what is full first of it: the first of which something is known.
fn answered(budget: &Budget) -> Option<(&WayCost, &Load)> {
    budget.ways.iter().find_map(|cost| Some((cost, cost.first_limit()?)))
}

/// Whether a rate fits as far as is known.
fn fits(budget: &Budget, load: &Load) -> bool {
    load.full_at.is_some_and(|rate| rate >= budget.ask.bits)
}

/// What helps against the first limit.
fn advice(budget: &Budget) -> Vec<String> {
    let Some((cost, load)) = answered(budget) else {
        return vec![
            "whether it fits is not known: of nothing that carries it is it known how much it carries; what it asks \
             stands below"
                .to_owned(),
        ];
    };
    let unknown = not_known(cost);
    let answer = match (fits(budget, load), unknown.is_empty()) {
        (true, true) => "fits",
        (true, false) => "fits as far as is known",
        (false, _) => "does not fit",
    };
    let unknown = if unknown.is_empty() { String::new() } else { format!("; not known: {}", unknown.join(", ")) };
    let mut lines = vec![format!(
        "{} {answer} by {}: {}{unknown}",
        bits(budget.ask.bits),
        cost.way.name(budget.ask.tls),
        limit(cost).unwrap_or_default()
    )];
    let change = match load.kind {
        LoadKind::Memory if cost.way == ContentWay::KernelTls => {
            "seal into the slot (a link in place of kernel sockets), or let the NIC seal: two passes less".to_owned()
        }
        LoadKind::Memory => "spread ports and disks over the domains; faster or more channels of memory".to_owned(),
        LoadKind::Fabric if budget.ask.siloing == Siloing::No => {
            "silo by network: a silo on each core of a port's domain, with memory there (--silos, --numa)".to_owned()
        }
        LoadKind::Fabric => {
            "disks in the domains of the ports, and copies of hot content in each (--cache-copies)".to_owned()
        }
        LoadKind::PortPci => "the port's slot: its lanes and generation, which numa --topology compares".to_owned(),
        LoadKind::Port => "a faster port, or another one in the same domain (--bond)".to_owned(),
        LoadKind::Disk => "more drives; hot content in memory".to_owned(),
        LoadKind::DiskPci => {
            "its link, if numa --topology says that it could be more; more drives; hot content in memory".to_owned()
        }
        LoadKind::Cpu => "more cores, or less work for a byte: nearside watch --pid shows where it goes".to_owned(),
    };
    lines.push(format!("to send more: {change}"));
    lines
}

// The shape of `nearside numa --budget --json`, which other programs read, beside the head that all
// results have. Rates are bytes per second, but for "…_bits".
//
// ```text
// { "asked": { "rate_bits", "tls", "disk", "siloed", "copies", "split", "ring", "mtu" },
//   "of": { "name", "published_from": [] },
//   "answer": { "way" or null, "fits" or null, "not_known": [] }, "verdict": { "word", "reasons": [] },
//   "ways": [ { "way", "reads", "writes", "crossing", "remote_share", "not_known": [],
//               "passes": [ { "pass", "memory", "crossing" } ],
//               "loads": [ { "part", "name", "asked", "carries" or null, "from" or null,
//                            "full_at_bits" or null } ] } ],
//   "crossings_of",
//   "crossings": [ { "siloed", "worst", "expected", "why_not" or null } ],
//   "seen": [ { "siloed", "remote_share", "why" } ],
//   "ring_slots" or null, "cpu_percent_per_gbit" or null, "cpu_of" or null,
//   "counters" or null, "notes": [], "to_change": [] }
// ```
//
// "carries" and "asked" of processor time are percent of all cores. "fits" is true as far as is known:
// what is in "not_known" may be full earlier.

/// What an answer is worth that rests on what is known: nothing was measured.
fn verdict(is_answered: bool, unknown: &[String]) -> Value {
    let model = "a model, by what is measured, published or assumed: each part says which".to_owned();
    let mut reasons = Vec::new();
    if !is_answered {
        reasons.push("whether it fits is not known".to_owned());
    }
    if !unknown.is_empty() {
        reasons.push(format!("of these nobody knows what they carry: {}", unknown.join(", ")));
    }
    let word = if reasons.is_empty() { "COMPLETE" } else { "PARTIAL" };
    reasons.push(model);
    json!({ "word": word, "reasons": reasons })
}

pub fn budget_json(told: &ToldBudget<'_>) -> Value {
    let ToldBudget { machine, budget, counters } = told;
    let tls = budget.ask.tls;
    let load = |load: &Load| {
        json!({
            "part": load.kind.name().trim_end_matches(','),
            "name": load.name,
            "asked": load.asked,
            "carries": load.carries.map(|carries| carries.bytes),
            "from": load.carries.map(|carries| carries.source.name()),
            "full_at_bits": load.full_at,
        })
    };
    let way = |cost: &WayCost| {
        let passes = cost.passes.iter();
        let passes =
            passes.map(|(pass, memory, far)| json!({ "pass": pass.name(tls), "memory": memory, "crossing": far }));
        json!({
            "way": cost.way.name(tls),
            "reads": cost.reads,
            "writes": cost.writes,
            "crossing": cost.crossing,
            "remote_share": cost.remote_share(),
            "not_known": not_known(cost),
            "passes": passes.collect::<Vec<_>>(),
            "loads": cost.loads.iter().map(load).collect::<Vec<_>>(),
        })
    };
    let crossing = |(siloing, crossings): &(Siloing, Crossings)| {
        json!({
            "siloed": siloing.name(),
            "worst": crossings.worst,
            "expected": crossings.expected,
            "why_not": siloing.why_not(),
        })
    };
    let answer = answered(budget);
    let unknown = answer.map(|(cost, _)| cost).or(budget.ways.first()).map(not_known).unwrap_or_default();
    let seen = |seen: &SeenShare| json!({ "siloed": seen.siloing.name(), "remote_share": seen.share, "why": seen.why });
    json!({
        "asked": {
            "rate_bits": budget.ask.bits,
            "tls": tls,
            "disk": budget.ask.disk,
            "siloed": budget.ask.siloing.name(),
            "copies": budget.ask.copies,
            "split": budget.ask.split.name(),
            "ring": budget.ask.ring,
            "mtu": budget.ask.mtu,
        },
        "of": { "name": machine.name, "published_from": machine.from },
        "answer": {
            "way": answer.map(|(cost, _)| cost.way.name(tls)),
            "fits": answer.map(|(_, load)| fits(budget, load)),
            "not_known": unknown,
        },
        "verdict": verdict(answer.is_some(), &unknown),
        "ways": budget.ways.iter().map(way).collect::<Vec<_>>(),
        "crossings_of": budget.crossed.name(tls),
        "crossings": budget.crossings.iter().map(crossing).collect::<Vec<_>>(),
        "seen": machine.seen.iter().map(seen).collect::<Vec<_>>(),
        "ring_slots": budget.ring_slots,
        "cpu_percent_per_gbit": budget.cpu.map(CpuCost::percent_per_gbit),
        "cpu_of": budget.cpu.and_then(|cpu| cpu.way).map(|way| way.name(tls)),
        "counters": counters.map(MachineCounters::json),
        "notes": budget.notes,
        "to_change": advice(budget),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::budget::CarrierChoice;

    const MACHINE: &str = "name a\nfrom b\ndomain 0 cores=8 memory=100GB/s cache=22M/16\n\
                           port p domain=0 rate=100Gbit/s\nport q domain=0 rate=100Gbit/s\n";

    fn told(text: &str, ask: BudgetAsk) -> (String, Value) {
        let machine = BudgetMachine::published(text).unwrap();
        let plan = BudgetPlan { ask, published: None, carriers: CarrierChoice::default() };
        let (machine, made) = made(machine, &plan).unwrap();
        let told = ToldBudget { machine: &machine, budget: &made, counters: None };
        (told.to_string(), budget_json(&told))
    }

    #[test]
    fn rates_have_four_digits() {
        for (rate, text) in [
            (200.4e9, "200.4 Gbit/s"),
            (190e9, "190 Gbit/s"),
            (94.15e9, "94.15 Gbit/s"),
            (1.2346e12, "1.235 Tbit/s"),
            (999.96e9, "1 Tbit/s"),
            (1e6, "1 Mbit/s"),
            (7.0, "7 bit/s"),
        ] {
            assert_eq!(bits(rate), text);
        }
    }

    /// What is not known may be full earlier: the answer says so, and names all that is full first.
    #[test]
    fn the_answer_names_what_is_not_known_and_each_of_equals() {
        let (text, json) = told(MACHINE, BudgetAsk::new(100e9));
        let wanted = "100 Gbit/s fits as far as is known by copied into the slot: port p, q at 188.3 Gbit/s \
                      (published); not known: PCI Express of p, q, processor time\n";
        assert!(text.contains(wanted), "{text}");
        assert_eq!(
            (&json["answer"]["fits"], json["answer"]["not_known"].as_array().map(Vec::len)),
            (&json!(true), Some(2))
        );
        let (text, json) = told(MACHINE, BudgetAsk::new(200e9));
        assert!(text.contains("200 Gbit/s does not fit by"), "{text}");
        assert_eq!(json["answer"]["fits"], false);
        assert_eq!(json["verdict"]["word"], "PARTIAL", "{json:#}");
        let whole = MACHINE.replace("100Gbit/s", "100Gbit/s pci=4.0x16") + "cpu 10%@100G\n";
        let (text, json) = told(&whole, BudgetAsk::new(100e9));
        assert!(text.contains("100 Gbit/s fits by copied into the slot: port p, q at"), "{text}");
        assert_eq!((&json["answer"]["not_known"], &json["verdict"]["word"]), (&json!([]), &json!("COMPLETE")));
        let bare = "name a\nfrom b\ndomain 0 cores=8 memory=1GB/s\n".replace("memory=1GB/s", "memory=1GB/s assumed");
        let (text, json) = told(&bare, BudgetAsk { ring: 256, ..BudgetAsk::new(1e9) });
        assert!(text.contains("not known: port (none is known)"), "{text}");
        assert_eq!(json["answer"]["fits"], true);
    }

    #[test]
    fn rings_ciphers_and_processor_time_are_told_as_they_are() {
        let plain = told(MACHINE, BudgetAsk::new(1e9)).0;
        assert!(!plain.contains("cipher"), "{plain}");
        assert!(plain.contains("has up to 469") && plain.contains("a ring of 512 (--ring) does not:"), "{plain}");
        assert!(plain.contains("crossings of a byte, copied into the slot:"), "{plain}");
        let tls = told(MACHINE, BudgetAsk { tls: true, ring: 256, ..BudgetAsk::new(1e9) }).0;
        assert!(tls.contains("a cipher that does not write past the cache"), "{tls}");
        assert!(tls.contains("a ring of 256 (--ring) stays there"), "{tls}");
        let cpu = |text: &str| Some(CpuCost::parse(text).unwrap());
        let alike = told(MACHINE, BudgetAsk { cpu: cpu("62%@190G"), ..BudgetAsk::new(1e9) }).0;
        assert!(alike.contains("charged to each way alike"), "{alike}");
        let (alone, json) = told(MACHINE, BudgetAsk { tls: true, cpu: cpu("62%@190G:kernel"), ..BudgetAsk::new(1e9) });
        assert!(alone.contains(", by sendfile, TLS by the kernel alone"), "{alone}");
        assert_eq!(json["cpu_of"], "sendfile, TLS by the kernel");
    }
}
