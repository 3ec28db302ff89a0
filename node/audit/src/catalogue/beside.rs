//! What runs beside a server: services, timers, jobs of cron, and threads on
//! the other half of a silo's core.

use crate::evidence::{OURS, SERVICES, cpu_list};
use crate::rule::{Area, Judge, Reading, Roles, Rule, Verdict};
use crate::{Case, Evidence, Finding};

use super::memory::one;
use Judge::By;
use Verdict::Improvable;

const fn each(key: &'static str, probe: fn(&Evidence) -> Vec<Reading>, explain: &'static str, judge: Judge) -> Rule {
    Rule::each(Area::Services, key, probe, judge, explain)
}

pub(super) const RULES: &[Rule] = &[
    each(
        "services beside the server",
        services,
        "Programs that wake up by themselves and do much at once: they scan, update, collect, or move pages. What \
         each does stands with it. On cores that are isolated none of them comes near a silo.",
        By(noisy),
    )
    .gain("fewer gaps of milliseconds on the cores that they run on")
    .risk("what the service is for is not done any more")
    .undo("systemctl start NAME")
    .source("manual pages of the services; man 5 systemd.exec, CPUAffinity"),
    each(
        "timers",
        timers,
        "Units that systemd starts by the clock, at the same hour on every machine: updates, the trimming of disks, \
         indexes of files. They read whole disks, and what a server had cached is gone.",
        By(by_the_clock),
    )
    .gain("no minutes of slow answers at night, when each of them runs")
    .risk("fstrim: a disk that gets slower in weeks; updates: holes that stay open")
    .undo("systemctl enable --now NAME.timer")
    .source("man 5 systemd.timer; man 8 fstrim"),
    each(
        "jobs of cron",
        jobs,
        "The same, by cron: jobs of /etc/cron.d, and those of each hour and day.",
        By(jobs_judged),
    )
    .risk("what the job is for is not done any more")
    .undo("put the file back")
    .source("man 5 crontab; man 8 cron"),
    each(
        "siblings of silos",
        silos,
        "A silo's thread is bound to one core. Where that core's other thread is free for others, the silo has half \
         of its units whenever they run.",
        By(shared_core),
    )
    .roles(Roles::POLLING)
    .gain("up to twice the work of a silo while its sibling is busy, and no stalls by it")
    .risk("the sibling's time is not used")
    .undo("bring the sibling on line again")
    .source("Linux Documentation/admin-guide/kernel-parameters.txt, nosmt; nearside serve --plan"),
];

fn services(evidence: &Evidence) -> Vec<Reading> {
    let running: Vec<&str> = SERVICES.iter().map(|(name, _)| *name).filter(|name| evidence.runs(name)).collect();
    let text = if running.is_empty() { "none".to_owned() } else { running.join(" ") };
    one("this machine", evidence.get("proc/1/comm").map(|_| text))
}

fn noisy(case: &Case<'_>) -> Finding {
    let reason = |name: &str| SERVICES.iter().find(|(known, _)| *known == name).map(|(_, why)| format!("{name} {why}"));
    let reasons: Vec<String> = case.value.split_whitespace().filter_map(reason).collect();
    if reasons.is_empty() {
        return Finding::ok("none of those that are known for noise runs");
    }
    let why = reasons.join("; ");
    match (case.role.polls(), case.evidence.isolated().is_empty()) {
        (true, true) => Finding::new(Improvable, why).want("isolated cores for silos, or the service stopped"),
        (true, false) => Finding::ok(format!("{why}; silos are on isolated cores")),
        (false, _) => Finding::ok(format!("{why}; look here when tails are long")),
    }
}

/// Timers that are enabled, by their links.
const WANTS: [&str; 2] = ["etc/systemd/system/timers.target.wants", "usr/lib/systemd/system/timers.target.wants"];
/// What those do that reach beyond their own cores.
const TIMERS: &[(&str, &str)] = &[
    ("fstrim.timer", "tells disks what is free, all at once: others' reads wait"),
    ("apt-daily.timer", "fetches lists of packages"),
    ("apt-daily-upgrade.timer", "installs updates and starts services anew"),
    ("dnf-makecache.timer", "fetches lists of packages"),
    ("dnf-automatic.timer", "installs updates and starts services anew"),
    ("mlocate-updatedb.timer", "reads all names of files"),
    ("plocate-updatedb.timer", "reads all names of files"),
    ("man-db.timer", "reads all manual pages"),
    ("e2scrub_all.timer", "reads whole file systems"),
    ("xfs_scrub_all.timer", "reads whole file systems"),
    ("btrfs-scrub.timer", "reads whole file systems"),
    ("mdcheck_start.timer", "reads whole disks"),
    ("raid-check.timer", "reads whole disks"),
    ("fwupd-refresh.timer", "asks devices for their firmware"),
    ("sysstat-collect.timer", "reads counters of all cores every ten minutes"),
    ("snapd.snap-repair.timer", "looks for repairs"),
];

fn timers(evidence: &Evidence) -> Vec<Reading> {
    let mut enabled: Vec<&str> = WANTS.iter().flat_map(|folder| evidence.names(folder)).collect();
    enabled.sort_unstable();
    enabled.dedup();
    let known = !enabled.is_empty() || evidence.get("proc/1/comm") == Some("systemd");
    one("systemd", known.then(|| if enabled.is_empty() { "none".to_owned() } else { enabled.join(" ") }))
}

fn by_the_clock(case: &Case<'_>) -> Finding {
    let reason = |name: &str| TIMERS.iter().find(|(known, _)| *known == name).map(|(_, why)| format!("{name} {why}"));
    let reasons: Vec<String> = case.value.split_whitespace().filter_map(reason).collect();
    match (reasons.is_empty(), case.role.polls()) {
        (true, _) => Finding::ok("none of those that are known to reach far"),
        (false, true) => Finding::new(Improvable, reasons.join("; "))
            .want("systemctl disable --now of those, or a time of your own in OnCalendar="),
        (false, false) => Finding::ok(reasons.join("; ")),
    }
}

const CRON: [&str; 3] = ["etc/cron.d", "etc/cron.hourly", "etc/cron.daily"];

fn jobs(evidence: &Evidence) -> Vec<Reading> {
    let cron = ["cron", "crond", "cronie"].iter().any(|name| evidence.runs(name));
    let found: Vec<String> = CRON
        .iter()
        .flat_map(|folder| evidence.names(folder).into_iter().map(move |name| format!("{folder}/{name}")))
        .filter(|path| !path.ends_with("/.placeholder"))
        .collect();
    let text = match (cron, found.is_empty()) {
        (_, true) => "none".to_owned(),
        (false, false) => format!("{} jobs, cron does not run", found.len()),
        (true, false) => found.join(" "),
    };
    one("cron", evidence.get("proc/1/comm").map(|_| text))
}

fn jobs_judged(case: &Case<'_>) -> Finding {
    match case.value {
        "none" => Finding::ok("none"),
        text if text.ends_with("cron does not run") => Finding::ok("nobody starts them"),
        text if case.role.polls() && case.evidence.isolated().is_empty() => Finding::new(
            Improvable,
            format!("{} jobs start by the clock, on any core", text.split_whitespace().count()),
        )
        .want("isolated cores for silos, or the jobs at a time of your choice"),
        _ => Finding::ok("they start by the clock"),
    }
}

/// Threads of ours that are bound to one core, and that core's other threads.
fn silos(evidence: &Evidence) -> Vec<Reading> {
    let mut readings = Vec::new();
    for (process, _) in evidence.processes().into_iter().filter(|(_, name)| OURS.contains(name)) {
        let tasks = format!("proc/{process}/task");
        for task in evidence.names(&tasks) {
            let status = evidence.get(&format!("{tasks}/{task}/status")).unwrap_or_default();
            let field =
                |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
            let (Some(name), Some(cores)) = (field("Name"), field("Cpus_allowed_list").and_then(cpu_list)) else {
                continue;
            };
            let [core] = cores.as_slice() else { continue };
            readings.push(Reading { subject: format!("{name} {task}"), value: Ok(format!("core {core}")) });
        }
    }
    readings
}

fn shared_core(case: &Case<'_>) -> Finding {
    let Some(core) = case.value.strip_prefix("core ").and_then(|core| core.parse::<u32>().ok()) else {
        return Finding::new(Verdict::Unreadable, "is no core");
    };
    let path = format!("sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    let Some(all) = case.evidence.get(&path).and_then(cpu_list) else {
        return Finding::ok("which threads share the core is not told");
    };
    let isolated = case.evidence.isolated();
    let others: Vec<u32> = all.into_iter().filter(|other| *other != core).collect();
    let open: Vec<String> = others.iter().filter(|other| !isolated.contains(other)).map(u32::to_string).collect();
    match (others.is_empty(), open.is_empty()) {
        (true, _) => Finding::ok("the core has one thread"),
        (false, true) => Finding::ok("its sibling is isolated: nothing comes there by itself"),
        (false, false) => {
            Finding::new(Improvable, format!("core {} is the same one, and free for others", open.join(",")))
                .want("the sibling isolated or off line, or a silo on it")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Role, find};

    fn of(evidence: &Evidence, key: &str, role: Role) -> Vec<(String, Verdict, String)> {
        let rule = find(key).expect(key);
        let judged = |reading: Reading| {
            let value = reading.value.expect("a value");
            let case = Case { value: &value, subject: &reading.subject, advised: false, role, evidence, others: &[] };
            let finding = rule.judge(&case);
            (value.clone(), finding.verdict, finding.why)
        };
        rule.read(evidence).into_iter().map(judged).collect()
    }

    fn machine() -> Evidence {
        Evidence::of(&[
            ("proc/1/comm", "systemd"),
            ("proc/70/comm", "fwupd"),
            ("proc/71/comm", "cron"),
            ("etc/systemd/system/timers.target.wants/fstrim.timer", "[Timer]\nOnCalendar=weekly"),
            ("etc/systemd/system/timers.target.wants/own.timer", "[Timer]"),
            ("etc/cron.daily/man-db", "#!/bin/sh"),
            ("proc/9/comm", "nearside"),
            ("proc/9/task/9/status", "Name:\tnearside\nCpus_allowed_list:\t0-3\n"),
            ("proc/9/task/10/status", "Name:\tsilo-0\nCpus_allowed_list:\t1\n"),
            ("sys/devices/system/cpu/online", "0-3"),
            ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1,3"),
        ])
    }

    #[test]
    fn what_runs_beside_silos_is_named_with_what_it_does() {
        let found = of(&machine(), "services beside the server", Role::Web);
        assert!(found[0].1 == Improvable && found[0].2.contains("firmware"), "{found:?}");
        assert_eq!(of(&machine(), "services beside the server", Role::Load)[0].1, Verdict::Ok);
        let isolated = machine().with("sys/devices/system/cpu/isolated", "1,3");
        assert_eq!(of(&isolated, "services beside the server", Role::Web)[0].1, Verdict::Ok);
        let timers = of(&machine(), "timers", Role::Web);
        assert!(
            timers[0].1 == Improvable && timers[0].2.contains("fstrim") && !timers[0].2.contains("own"),
            "{timers:?}"
        );
        assert_eq!(of(&machine(), "jobs of cron", Role::Forwarder)[0].1, Improvable);
    }

    #[test]
    fn a_silo_whose_sibling_is_open_is_found() {
        let found = of(&machine(), "siblings of silos", Role::Web);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].1 == Improvable && found[0].2.contains("core 3"), "{found:?}");
        let isolated = machine().with("sys/devices/system/cpu/isolated", "1,3");
        assert_eq!(of(&isolated, "siblings of silos", Role::Web)[0].1, Verdict::Ok);
    }
}
