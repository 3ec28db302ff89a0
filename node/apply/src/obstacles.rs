//! What stands against changing a machine's settings at all.

use crate::machine::Machine;
use crate::plan::TuningPlan;
use crate::refusal::Refusal;
use crate::target::housekeepers;
use audit::Evidence;

/// Processes that write settings again, by the first 15 characters of their
/// names, and who they are.
const MANAGERS: &[(&str, &str)] = &[
    ("openshift-tuned", "OpenShift's Node Tuning Operator"),
    ("cluster-node-tu", "OpenShift's Node Tuning Operator"),
    ("machine-config-", "OpenShift's Machine Config Operator"),
    ("tuned", "a running tuned"),
];

/// Every reason for which a plan would be refused before its first change.
#[must_use]
pub fn obstacles(machine: &impl Machine, evidence: &Evidence, plan: &TuningPlan) -> Vec<Refusal> {
    let mut found = Vec::new();
    found.extend(container(machine).filter(|_| !plan.no_container).map(Refusal::Container));
    found.extend(manager(machine).map(Refusal::Managed));
    if !evidence.cores().is_empty() && housekeepers(evidence).is_empty() {
        found.push(Refusal::NoHousekeeping("isolating every core".to_owned()));
    }
    if plan.steps.is_empty() {
        found.push(Refusal::Empty);
    }
    found.extend(plan.steps.iter().find(|step| step.found.contains(char::REPLACEMENT_CHARACTER)).map(|step| {
        Refusal::Setting(format!("/{} has bytes that are no UTF-8, and could not be put back", step.path))
    }));
    found.extend(rights(machine, plan));
    found
}

/// Whose container this is, if it is one.
pub(crate) fn container(machine: &impl Machine) -> Option<String> {
    audit::container(|path| machine.read(path).ok())
}

/// Who else writes this machine's settings, if anybody does.
fn manager(machine: &impl Machine) -> Option<String> {
    if !machine.names("etc/machine-config-daemon").is_empty() {
        return Some("OpenShift's Machine Config Operator".to_owned());
    }
    let processes = machine.names("proc");
    let numbers = processes.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let mut names = numbers.filter_map(|number| machine.read(&format!("proc/{number}/comm")).ok());
    names.find_map(|comm| MANAGERS.iter().find(|(name, _)| *name == comm.trim()).map(|(_, by)| (*by).to_owned()))
}

/// The first setting that may not be written.
fn rights(machine: &impl Machine, plan: &TuningPlan) -> Option<Refusal> {
    let refused = |path: &String| machine.may_set(path).err().map(|why| Refusal::Rights { path: path.clone(), why });
    plan.steps.iter().find_map(|step| refused(&step.path))
}
