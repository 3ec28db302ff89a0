//! What would change, in order, and why.

use crate::form::Form;
use crate::journal::Change;
use crate::machine::Machine;
use crate::placed::placed;
use crate::refusal::Refusal;
use crate::target::{Target, housekeepers, targets};
use audit::{Area, Case, Evidence, Role, Row, Verdict, sysctl_path};
use serde::Serialize;
use siphasher::sip::SipHasher24;

/// One change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Step {
    /// The rule of the catalogue, or the sysctl.
    pub key: String,
    /// The file, relative to the machine's root.
    pub path: String,
    /// How the file is read and written.
    #[serde(skip)]
    pub form: Form,
    /// What it says now.
    pub found: String,
    /// What is written.
    pub wanted: String,
    /// Why.
    pub why: String,
    /// The same, as a person could type it.
    pub command: String,
    /// What it may break.
    pub risk: String,
    /// How it is undone, and why not exactly where that is so.
    pub undo: String,
    /// Whether undoing it restores everything that the change touches.
    pub exact: bool,
    /// Whether it may drop the connection by which somebody works here.
    pub may_cut: bool,
    #[serde(skip)]
    pub(crate) partner: Option<(String, String)>,
}

/// A setting that should be another, and is not in the plan.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Left {
    /// The rule, and what it is about where there are several.
    pub key: String,
    /// What would be better.
    pub want: String,
    /// Why it is left out.
    pub why: String,
}

/// An argument of the kernel's command line that should be another: for the
/// next boot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Argument {
    /// Before the `=`.
    pub name: String,
    /// Behind it, or the name itself where it has none; `None`: it goes.
    pub value: Option<String>,
    /// Why.
    pub why: String,
}

impl Argument {
    /// As a word of the command line, if it is to be there.
    pub(crate) fn word(&self) -> Option<String> {
        let value = self.value.as_ref()?;
        Some(if *value == self.name { value.clone() } else { format!("{}={value}", self.name) })
    }
}

/// Steps in their order, and what was left out.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct TuningPlan {
    /// A hash of the steps and of what they found: 16 hexadecimal digits.
    pub id: String,
    /// What the machine is for.
    pub role: Role,
    /// What is changed. What may cut a connection comes last.
    pub steps: Vec<Step>,
    /// What the next boot would have ([`crate::boot_once`]); no step changes it.
    pub arguments: Vec<Argument>,
    /// What is not, though the catalogue has something better.
    pub left: Vec<Left>,
    /// Whoever asks knows that this is no container, whatever looks like one.
    #[serde(skip)]
    pub no_container: bool,
}

/// Settings of which one puts another out of force.
const PARTNERS: &[(&str, &str)] = &[
    ("proc/sys/vm/dirty_ratio", "proc/sys/vm/dirty_bytes"),
    ("proc/sys/vm/dirty_background_ratio", "proc/sys/vm/dirty_background_bytes"),
    ("proc/sys/vm/overcommit_ratio", "proc/sys/vm/overcommit_kbytes"),
];

/// Changes that leave something behind, and what.
const INEXACT: &[(&str, &str)] = &[
    ("proc/sys/net/ipv4/ip_forward", "writing it sets other settings of IP anew, which do not come back"),
    ("proc/sys/net/ipv6/conf/all/", "interfaces took the value over, and keep it; addresses may be gone"),
    ("proc/sys/net/ipv6/conf/default/", "interfaces that come into being meanwhile keep it"),
    ("proc/sys/net/ipv4/conf/default/", "interfaces that were never set took the value over"),
    ("proc/sys/net/ipv4/conf/all/forwarding", "interfaces took the value over"),
    ("sys/devices/system/node/", "memory that was scattered meanwhile may not be found again"),
    ("proc/sys/vm/nr_hugepages", "memory that was scattered meanwhile may not be found again"),
    ("proc/sys/vm/drop_caches", "what was dropped is read from disk again"),
    ("proc/sys/vm/compact_memory", "pages that moved do not move back"),
    (
        "ethtool/",
        "the link may go down for a moment, and a driver that makes queues anew forgets its flow rules and RSS table",
    ),
    ("sys/kernel/mm/ksm/run", "pages that were split are joined again only in time"),
    (
        "sys/kernel/mm/transparent_hugepage/",
        "pages that were joined or split stay so until they are freed, and the kernel sets vm.min_free_kbytes anew, \
         unless somebody did",
    ),
];

/// What a change of may drop the connection by which somebody works.
const CUTS: &[&str] = &[
    "proc/sys/net/ipv4/ip_forward",
    "proc/sys/net/ipv4/conf/",
    "proc/sys/net/ipv6/conf/",
    "proc/sys/net/ipv4/neigh/",
    "proc/sys/net/ipv6/neigh/",
    "proc/sys/net/ipv4/route/",
    "proc/sys/net/ipv4/tcp_mem",
    "proc/sys/net/ipv4/icmp",
    "proc/sys/net/netfilter/",
    "sys/class/net/",
    "proc/irq/",
    "ethtool/",
    "systemd/ssh",
    "systemd/NetworkManager",
    "systemd/systemd-networkd",
    "systemd/systemd-resolved",
    "systemd/firewalld",
    "systemd/nftables",
    "systemd/dbus",
];

/// Values that no role's plan has, and what they do.
const BY_NAME_ONLY: &[(&str, &str, &str)] = &[
    ("proc/sys/kernel/sched_rt_runtime_us", "-1", "a real-time thread that spins stops everything else on its core"),
    ("proc/sys/kernel/randomize_va_space", "0", "programs lie where an attacker expects them"),
    ("proc/sys/kernel/kptr_restrict", "0", "every user sees the kernel's addresses"),
    ("proc/sys/kernel/unprivileged_bpf_disabled", "0", "every user may load programs into the kernel"),
    ("proc/sys/net/ipv4/tcp_syncookies", "0", "a flood of SYNs shuts the server"),
    ("proc/sys/net/ipv4/ip_forward", "", "writing it sets other settings of IP anew, and cuts containers off"),
    ("sys/devices/system/clocksource/", "", "a clock that the kernel found unstable gives times that jump"),
    ("proc/sys/vm/drop_caches", "", "an order, not a setting: the cache of files is emptied"),
    ("proc/sys/vm/nr_hugepages", "", "memory is taken from everything else, and may not be found in one piece"),
];

impl TuningPlan {
    /// What the catalogue would change for a role.
    #[must_use]
    pub fn for_role(evidence: &Evidence, role: Role, except: &[String]) -> Self {
        let mut steps: Vec<(Area, Step)> = Vec::new();
        let (mut left, mut arguments) = (Vec::new(), Vec::new());
        for row in audit::machine(evidence, role).rows {
            let Some(want) = row.want.clone().filter(|_| row.verdict >= Verdict::Improvable) else { continue };
            let name = [row.key.as_str(), row.subject.as_str()].join(" ").trim().to_owned();
            let mut leave = |why: String| left.push(Left { key: name.clone(), want: want.clone(), why });
            if except.contains(&row.key) {
                leave("left out by --except".to_owned());
                continue;
            }
            // Words in capitals stand for something that a person has to fill in.
            if !want.bytes().any(|byte| byte.is_ascii_uppercase()) {
                arguments.extend(argument(&row.key, &want, &row.why));
            }
            let targets = match targets(evidence, &row, &want) {
                Ok(targets) => targets,
                Err(why) => {
                    leave(why);
                    continue;
                }
            };
            for target in targets {
                if steps.iter().any(|(_, step)| step.path == target.path) {
                    continue;
                }
                match proposed(evidence, role, &row, target) {
                    Ok(step) => steps.push((row.area, step)),
                    Err(why) => leave(why),
                }
            }
        }
        // What one reads of a step is not changed by those before it. Within
        // an area the catalogue's order stands: tcp_timestamps before what
        // needs it.
        steps.sort_by_key(|(area, step)| (step.may_cut, area_order(*area)));
        left.dedup();
        Self::new(role, steps.into_iter().map(|(_, step)| step).collect(), arguments, left)
    }

    /// Just these settings: sysctls by name, or rules of the catalogue, of
    /// which each file gets the value; `KEY@SUBJECT` is one of several.
    ///
    /// # Errors
    /// [`Refusal::Setting`], [`Refusal::NoHousekeeping`].
    pub fn of(
        machine: &impl Machine,
        evidence: &Evidence,
        role: Role,
        settings: &[(String, String)],
    ) -> Result<Self, Refusal> {
        let mut steps: Vec<Step> = Vec::new();
        let mut arguments: Vec<Argument> = Vec::new();
        let mut rows = Rows { evidence, role, own: None, all: None };
        for (key, value) in settings {
            if key.starts_with("cmdline ") {
                let asked = argument(key, value, &why_by_name(evidence, role, key, value));
                arguments.push(asked.ok_or_else(|| {
                    Refusal::Setting(format!(
                        "{key}: is no argument and its \
                    value"
                    ))
                })?);
                continue;
            }
            let (row, targets) = match key.strip_prefix("service ") {
                Some(unit) => service(key, unit, value)?,
                None => named(&mut rows, key, value)?,
            };
            for target in targets {
                let found = match evidence.get(&target.path) {
                    Some(found) => found.to_owned(),
                    None => machine.read(&target.path).map_err(|why| {
                        let runs = running(evidence, key).unwrap_or_default();
                        Refusal::Setting(format!("{key}: {why}{runs}"))
                    })?,
                };
                if let Some(why) = target.form.objection(&found, &target.value) {
                    return Err(Refusal::Setting(format!("{key}: {} {why}", target.value)));
                }
                spare_housekeepers(evidence, key, &target)?;
                let danger = danger(evidence, role, (&row.key, &row.subject), &target);
                let step = step(evidence, &row, target, found);
                let risk = danger.unwrap_or_else(|| step.risk.clone());
                if steps.iter().any(|known| known.path == step.path) {
                    return Err(Refusal::Setting(format!("{key} is named twice")));
                }
                if !step.form.same(&step.found, &step.wanted) {
                    steps.push(Step { risk, why: "asked for by name".to_owned(), ..step });
                }
            }
        }
        steps.sort_by_key(|step| step.may_cut);
        Ok(Self::new(role, steps, arguments, Vec::new()))
    }

    fn new(role: Role, steps: Vec<Step>, arguments: Vec<Argument>, left: Vec<Left>) -> Self {
        Self { id: id(role, &steps, &arguments), role, steps, arguments, left, no_container: false }
    }

    /// Whether a step may drop the connection by which somebody works.
    #[must_use]
    pub fn may_cut(&self) -> bool {
        self.steps.iter().any(|step| step.may_cut)
    }
}

impl Step {
    pub(crate) fn change(&self) -> Change {
        Change {
            path: self.path.clone(),
            form: self.form,
            found: Some(self.found.clone()),
            wanted: self.wanted.clone(),
            partner: self.partner.clone(),
            file: false,
        }
    }
}

/// What may end the session comes last in any case; besides, what is of the
/// machine comes before what is of the network.
const fn area_order(area: Area) -> u8 {
    match area {
        Area::Memory => 0,
        Area::Kernel => 1,
        Area::Processor => 2,
        Area::Services => 3,
        Area::Interrupts => 4,
        Area::Network => 5,
        Area::Tcp => 6,
        Area::Nic => 7,
        Area::CommandLine => 8,
    }
}

/// Why an argument is there that somebody named, and what is dangerous of it.
fn why_by_name(evidence: &Evidence, role: Role, key: &str, value: &str) -> String {
    let case = Case { value, subject: "", advised: true, role, evidence, others: &[] };
    let finding =
        audit::find(key).map(|rule| rule.judge(&case)).filter(|finding| finding.verdict == Verdict::Dangerous);
    finding.map_or_else(
        || "asked for by name".to_owned(),
        |finding| format!("asked for by name; dangerous: {}", finding.why),
    )
}

/// The argument that a rule or a person asks for, where that is one word.
fn argument(key: &str, want: &str, why: &str) -> Option<Argument> {
    let name = key.strip_prefix("cmdline ")?;
    let plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.,:=/@+".contains(&byte))
    };
    // A rule's own words: nothing is better than the value.
    let value = (want != "nothing").then(|| want.to_owned());
    let fits = plain(name) && value.as_deref().is_none_or(plain);
    fits.then(|| Argument { name: name.to_owned(), value, why: why.to_owned() })
}

/// A step of a role's plan, or why there is none.
fn proposed(evidence: &Evidence, role: Role, row: &Row, target: Target) -> Result<Step, String> {
    let Some(found) = evidence.get(&target.path).map(str::to_owned) else {
        return Err(format!("/{} cannot be read", target.path));
    };
    if let Some(why) = target.form.objection(&found, &target.value) {
        return Err(format!("is for a person to choose: /{} {why}", target.path));
    }
    if target.form.same(&found, &target.value) {
        return Err("is so already".to_owned());
    }
    if let Some(why) = unavailable(evidence, &target) {
        return Err(why);
    }
    if let Some(danger) = danger(evidence, role, (&row.key, &row.subject), &target) {
        return Err(format!("only by name (--only): {danger}"));
    }
    if spare_housekeepers(evidence, &row.key, &target).is_err() {
        return Err("would leave no core for everything else".to_owned());
    }
    Ok(step(evidence, row, target, found))
}

/// Why the kernel would refuse the word, where another file lists those that
/// it takes.
fn unavailable(evidence: &Evidence, target: &Target) -> Option<String> {
    let (folder, name) = target.path.rsplit_once('/')?;
    let list = match name {
        "scaling_governor" => "scaling_available_governors",
        "energy_performance_preference" => "energy_performance_available_preferences",
        "tcp_congestion_control" => "tcp_available_congestion_control",
        "current_clocksource" => "available_clocksource",
        "current_governor" => "available_governors",
        _ => return None,
    };
    let choices = evidence.get(&format!("{folder}/{list}"))?;
    let there = choices.split_whitespace().any(|choice| choice == target.value);
    (!there).then(|| format!("{} is not to be had here: there are {choices}", target.value))
}

/// What is dangerous about a value, if anything is.
fn danger(evidence: &Evidence, role: Role, (key, subject): (&str, &str), target: &Target) -> Option<String> {
    let by_name = BY_NAME_ONLY
        .iter()
        .find(|(path, value, _)| target.path.starts_with(path) && (value.is_empty() || target.value.trim() == *value));
    if let Some((.., why)) = by_name {
        return Some((*why).to_owned());
    }
    let rule = audit::find(key)?;
    // An interrupt that somebody else moves again does not stay.
    let harmful = |verdict| verdict == Verdict::Dangerous || key == audit::AFFINITY && verdict == Verdict::Conflicts;
    let case = Case { value: &target.value, subject, advised: true, role, evidence, others: &[] };
    let finding = rule.judge(&case);
    harmful(finding.verdict).then_some(finding.why)
}

/// Refuses masks that leave no core for everything else.
fn spare_housekeepers(evidence: &Evidence, key: &str, target: &Target) -> Result<(), Refusal> {
    let shared = ["proc/irq/default_smp_affinity", "sys/devices/virtual/workqueue/cpumask"];
    if !shared.contains(&target.path.as_str()) {
        return Ok(());
    }
    let cores = audit::cpu_mask(&target.value).unwrap_or_default();
    match housekeepers(evidence).iter().any(|core| cores.contains(core)) {
        true => Ok(()),
        false => Err(Refusal::NoHousekeeping(format!("{key}={}", target.value))),
    }
}

fn step(evidence: &Evidence, row: &Row, target: Target, found: String) -> Step {
    let inexact = INEXACT.iter().find(|(path, _)| target.path.starts_with(path)).map(|(_, why)| *why);
    let partner = PARTNERS.iter().find(|(path, _)| *path == target.path).and_then(|(_, partner)| {
        let value = evidence.get(partner)?;
        // The one that is 0 is the one out of force.
        (value != "0").then(|| ((*partner).to_owned(), value.to_owned()))
    });
    let undo = match inexact {
        Some(why) => format!("{}; not exactly: {why}", row.undo),
        None => row.undo.clone(),
    };
    Step {
        key: name(row),
        command: command(&target),
        may_cut: CUTS.iter().any(|start| target.path.starts_with(start)),
        path: target.path,
        form: target.form,
        found,
        wanted: target.value,
        why: row.why.clone(),
        risk: row.risk.clone(),
        undo,
        exact: inexact.is_none(),
        partner,
    }
}

/// A rule's name with what it is about, as `--only` takes it.
fn name(row: &Row) -> String {
    match row.key.contains(".*.") {
        true => row.key.replacen('*', &row.subject.replace('.', "/"), 1),
        false if row.subject.is_empty() => row.key.clone(),
        false => format!("{}@{}", row.key, row.subject),
    }
}

/// What a person could type. Names of interfaces are others' choice: nothing
/// of them ends the quotes.
fn command(target: &Target) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
    let value = quoted(&target.value);
    let plain = |rest: &&str| rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-/".contains(&byte));
    if let Some(command) =
        target.path.strip_prefix("ethtool/").filter(plain).and_then(|path| ethtool(path, &target.value))
    {
        return command;
    }
    if let Some(unit) = target.path.strip_prefix("systemd/") {
        return format!("systemctl {} {unit}", if target.value == "active" { "start" } else { "stop" });
    }
    match target.path.strip_prefix("proc/sys/").filter(plain) {
        Some(rest) => format!("sysctl -w {}={value}", rest.replace('/', ".")),
        None => format!("echo {value} > {}", quoted(&format!("/{}", target.path))),
    }
}

/// The same for a driver's setting: `eth0/rings/rx`.
fn ethtool(path: &str, value: &str) -> Option<String> {
    let mut parts = path.split('/');
    let (interface, group, name) = (parts.next()?, parts.next()?, parts.next()?);
    let flag = match group {
        "rings" => "-G",
        "channels" => "-L",
        "coalescing" => "-C",
        "pause" => "-A",
        "offloads" => "-K",
        _ => return None,
    };
    Some(format!("ethtool {flag} {interface} {name} {value}"))
}

/// A service that is to run, or not to.
fn service(key: &str, unit: &str, value: &str) -> Result<(Row, Vec<Target>), Refusal> {
    let wrong = |why: &str| Refusal::Setting(format!("{key}: {why}"));
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.@".contains(&byte);
    if unit.is_empty() || unit.starts_with('.') || !unit.bytes().all(fits) {
        return Err(wrong("is no name of a unit"));
    }
    let value = match value {
        "start" | "active" => "active",
        "stop" | "inactive" => "inactive",
        _ => return Err(wrong("a service takes start or stop")),
    };
    let undo = "start or stop it again; what it did or missed meanwhile stays".to_owned();
    let row = Row { area: Area::Services, undo, ..unknown(key) };
    let target = Target { path: format!("systemd/{unit}"), form: Form::Words, value: value.to_owned() };
    Ok((row, vec![target]))
}

/// What rules say of the machine, asked for once.
struct Rows<'a> {
    evidence: &'a Evidence,
    role: Role,
    own: Option<Vec<Row>>,
    all: Option<Vec<Row>>,
}

impl Rows<'_> {
    /// The rows of a rule, or of one subject of it, as the role has them; a
    /// rule of another role is one all the same.
    fn of(&mut self, key: &str, subject: Option<&str>) -> Vec<Row> {
        let of_rule = |row: &&Row| row.key == key && subject.is_none_or(|subject| row.subject == subject);
        let (evidence, role) = (self.evidence, self.role);
        let own = self.own.get_or_insert_with(|| audit::machine(evidence, role).rows);
        let found: Vec<Row> = own.iter().filter(of_rule).cloned().collect();
        // Of a sysctl without a rule nobody has a row.
        if !found.is_empty() || audit::find(key).is_none() {
            return found;
        }
        let everyone = || Role::ALL.into_iter().flat_map(|role| audit::machine(evidence, role).rows).collect();
        let mut found: Vec<Row> = Vec::new();
        for row in self.all.get_or_insert_with(everyone).iter().filter(of_rule) {
            if !found.contains(row) {
                found.push(row.clone());
            }
        }
        found
    }
}

/// What a setting asked for by name is about.
fn named(rows: &mut Rows<'_>, key: &str, value: &str) -> Result<(Row, Vec<Target>), Refusal> {
    let wrong = |why: String| Refusal::Setting(format!("{key}: {why}"));
    if let Some(target) = placed(rows.evidence, key, value) {
        let (name, subject) = key.split_once('@').unwrap_or((key, ""));
        let row = Row { subject: subject.to_owned(), key: name.to_owned(), ..unknown(name) };
        return Ok((row, vec![target.map_err(wrong)?]));
    }
    let (name, subject) = key.split_once('@').map_or((key, None), |(name, subject)| (name, Some(subject)));
    let found = rows.of(name, subject);
    let evidence = rows.evidence;
    let sysctl = sysctl_path(name);
    if let Some(first) = found.first().filter(|row| !row.key.contains('.') || row.key.contains(' ')) {
        let mut all = Vec::new();
        for row in &found {
            all.extend(targets(evidence, row, value).map_err(wrong)?);
        }
        all.dedup();
        return Ok(((*first).clone(), all));
    }
    let parts_are_names = sysctl.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if !name.contains('.') || !parts_are_names {
        return Err(wrong("neither a sysctl nor a rule that has something here (nearside node explain)".to_owned()));
    }
    let known = found.into_iter().next();
    let mut row = known.unwrap_or_else(|| unknown(name));
    name.clone_into(&mut row.key);
    let form = if name == "kernel.watchdog_cpumask" { Form::List } else { Form::Words };
    Ok((row, vec![Target { path: sysctl, form, value: value.to_owned() }]))
}

/// Where a service that nobody can be asked about runs as a process, if it does.
fn running(evidence: &Evidence, key: &str) -> Option<String> {
    let unit = key.strip_prefix("service ")?;
    // The kernel cuts names.
    let name: String = unit.chars().take(15).collect();
    let (number, _) = evidence.processes().into_iter().find(|(_, comm)| *comm == name)?;
    Some(format!("; {name} runs all the same, as process {number}: whoever started it stops it"))
}

/// The row of a sysctl that the catalogue says nothing of, or only of its kind.
fn unknown(key: &str) -> Row {
    let rule = audit::find(key);
    Row {
        key: key.to_owned(),
        area: rule.map_or(Area::Kernel, |rule| rule.area),
        subject: String::new(),
        value: String::new(),
        verdict: Verdict::Unknown,
        why: String::new(),
        want: None,
        set_by: String::new(),
        overruled: Vec::new(),
        counters: Vec::new(),
        gain: rule.map_or("not known", |rule| rule.gain).to_owned(),
        risk: rule.map_or("not known: the catalogue has no rule on it", |rule| rule.risk).to_owned(),
        undo: "write the value back that it had".to_owned(),
        source: rule.map_or("", |rule| rule.source).to_owned(),
    }
}

/// A hash of what is done to which values. The key is fixed: it tells change,
/// and keeps no secret.
fn id(role: Role, steps: &[Step], arguments: &[Argument]) -> String {
    use std::hash::Hasher as _;
    let mut hasher = SipHasher24::new_with_keys(0, 0);
    let mut part = |text: &str| {
        hasher.write_u64(text.len() as u64);
        hasher.write(text.as_bytes());
    };
    part(role.name());
    for step in steps {
        part(&step.path);
        part(&step.found);
        part(&step.wanted);
        if let Some((path, value)) = &step.partner {
            part(path);
            part(value);
        }
    }
    for argument in arguments {
        part(&argument.name);
        part(argument.value.as_deref().unwrap_or("nothing"));
    }
    format!("{:016x}", hasher.finish())
}
