//! `nearside numa`: what crosses between NUMA domains, and the machine's
//! topology, and what a rate would cost it.
//!
//! | module | for |
//! | --- | --- |
//! | `budget` | what a rate costs as text and as JSON |
//! | `counters` | what the machine counts itself |
//! | `machine` | a machine's topology as text and as JSON |
//! | `remembered` | what was measured between domains, kept for the next time |
//! | `report` | what the published figures come to, beside the model |
//! | `show` | tables and JSON |

mod budget;
mod counters;
mod machine;
mod remembered;
mod report;
mod show;
#[cfg(test)]
mod tests;

use crate::lab::write_page;
use crate::plan::{BudgetPlan, NumaPlan};
use ::budget::BudgetMachine;
use counters::MachineCounters;
use cpu::pin::allowed_cores;
use environment::ResultKind;
use page::{Reader, living_of_user};
use reach::Reaches;
use report::Process;
use say::Failure;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use topology::{Recording, Topology};

/// Prints what is asked for.
///
/// # Errors
/// If the topology or a page cannot be read, or output cannot be written.
pub fn numa(plan: &NumaPlan) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if plan.record {
        write!(out, "{}", Recording::take(root(plan))?)?;
        return Ok(());
    }
    if let Some(wanted) = &plan.budget {
        return told_budget(plan, wanted, &mut out);
    }
    let topology = topology(plan)?;
    if plan.topology {
        let here = plan.root.is_none();
        let reaches = match (plan.measure, here) {
            (true, _) => remembered::measured(&topology),
            (false, true) => Reaches { pairs: remembered::known(&topology), missing: Vec::new() },
            (false, false) => Reaches::default(),
        };
        let mut value = machine::topology_json(&topology, &reaches);
        crate::node::origin(&mut value, ResultKind::Topology, plan.root.is_none())?;
        if let Some(place) = &plan.html {
            write_page(place, &results::page_of(&value)?)?;
        }
        if let Some(place) = &plan.svg {
            results::write_whole(place, &results::topology_svg(&value))?;
        }
        if plan.json {
            writeln!(out, "{value}")?;
        } else {
            write!(out, "{}", machine::NumaMachine { topology: &topology, reaches: &reaches })?;
        }
        return Ok(());
    }
    let readers = match &plan.page {
        Some(page) => vec![Reader::open(page)?],
        None => living_of_user()?,
    };
    let processes: Vec<Process> = readers.iter().filter_map(Process::read).collect();
    if plan.json {
        let processes: Vec<_> = processes.iter().map(show::process_json).collect();
        let model = show::model_json(&topology);
        writeln!(out, "{}", json!({ "domains": topology.domains.len(), "model": model, "processes": processes }))?;
        return Ok(());
    }
    if topology.domains.len() == 1 {
        writeln!(out, "this machine has one NUMA domain: nothing can cross")?;
    }
    if processes.is_empty() {
        writeln!(out, "no process of this user serves")?;
    }
    for process in &processes {
        write!(out, "{}", show::NumaAccount { process, topology: &topology })?;
    }
    Ok(())
}

/// Prints what a rate costs this machine, another one, or one of published figures.
fn told_budget(plan: &NumaPlan, wanted: &BudgetPlan, out: &mut impl Write) -> Result<(), Failure> {
    let here = plan.root.is_none() && wanted.published.is_none();
    let (machine, counters) = match &wanted.published {
        Some(name) => (budget::published(name)?, None),
        None => {
            let topology = topology(plan)?;
            let counters = here.then(|| MachineCounters::of_this_machine(&topology));
            let known = if here { remembered::known(&topology) } else { Vec::new() };
            let measured: Vec<_> = known.iter().map(|pair| (pair.from, pair.to, pair.bytes)).collect();
            (BudgetMachine::of(&topology, &measured), counters)
        }
    };
    let (machine, made) = budget::made(machine, wanted)?;
    let told = budget::ToldBudget { machine: &machine, budget: &made, counters: counters.as_ref() };
    if plan.json || plan.html.is_some() {
        let mut value = budget::budget_json(&told);
        crate::node::origin(&mut value, ResultKind::Budget, here)?;
        if let Some(place) = &plan.html {
            write_page(place, &results::page_of(&value)?)?;
        }
        if plan.json {
            writeln!(out, "{value}")?;
            return Ok(());
        }
    }
    write!(out, "{told}")?;
    Ok(())
}

/// A value with its SI prefix, tera among them: links of memory and drives reach it.
fn si(value: f64, unit: &str) -> String {
    if value >= 999.5e9 { figures::si(value / 1e3, unit).replace(" G", " T") } else { figures::si(value, unit) }
}

fn root(plan: &NumaPlan) -> &Path {
    plan.root.as_deref().unwrap_or(Path::new("/"))
}

/// This machine's topology, another folder's, or a recorded one.
fn topology(plan: &NumaPlan) -> Result<Topology, Failure> {
    let Some(root) = &plan.root else { return Ok(Topology::read(Path::new("/"), Some(&allowed_cores()?))?) };
    if root.is_dir() {
        return Ok(Topology::read(root, None)?);
    }
    let text = std::fs::read_to_string(root).map_err(|why| format!("cannot read {}: {why}", root.display()))?;
    Ok(Topology::of(&Recording::parse(&text)?, None)?)
}
