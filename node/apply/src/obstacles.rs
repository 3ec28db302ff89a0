//! What stands against changing a machine's settings at all.

use crate::machine::Machine;
use crate::plan::TuningPlan;
use crate::refusal::Refusal;
use crate::target::housekeepers;
use audit::Evidence;

/// Files that containers have, and whose.
const CONTAINERS: &[(&str, &str)] = &[
    ("run/.containerenv", "podman"),
    (".dockerenv", "docker"),
    ("run/systemd/container", "systemd-nspawn or another manager"),
];

/// Processes that write settings again, by the first 15 characters of their
/// names, and who they are.
const MANAGERS: &[(&str, &str)] = &[
    ("openshift-tuned", "OpenShift's Node Tuning Operator"),
    ("cluster-node-tu", "OpenShift's Node Tuning Operator"),
    ("machine-config-", "OpenShift's Machine Config Operator"),
    ("tuned", "a running tuned"),
];

/// What a user namespace maps that is the machine's own.
const WHOLE: [&str; 3] = ["0", "0", "4294967295"];

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
    let marked = CONTAINERS.iter().find(|(path, _)| machine.read(path).is_ok());
    if let Some((_, by)) = marked.filter(|_| !whole_machine(machine)) {
        return Some((*by).to_owned());
    }
    // The first process's environment is root's to read; who is not root is
    // refused for that.
    let environment = machine.read("proc/1/environ").unwrap_or_default();
    if let Some(by) = environment.split('\0').find_map(|pair| pair.strip_prefix("container=")) {
        return Some(by.chars().filter(|char| char.is_ascii_graphic()).take(40).collect());
    }
    let map = machine.read("proc/self/uid_map").ok()?;
    (!map.split_whitespace().eq(WHOLE)).then(|| "a user namespace of its own".to_owned())
}

/// Whether the kernel's threads are seen, and the first process's mounts are
/// this one's: a virtual machine may have been made of a container's image,
/// with the file in it that marks containers.
fn whole_machine(machine: &impl Machine) -> bool {
    let mounts =
        |process: &str| machine.read(&format!("proc/{process}/mountinfo")).ok().filter(|text| !text.is_empty());
    machine.read("proc/2/comm").is_ok_and(|comm| comm.trim() == "kthreadd")
        && mounts("1").is_some_and(|first| mounts("self") == Some(first))
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
