//! Who set what is no sysctl: files of sysfs and procfs, by the rule that
//! reads them.
//!
//! The order at boot: the kernel's command line; systemd-tmpfiles, whose `w`
//! lines come before any service; units that write files by commands of their
//! own; tuned's profile. Between two units nothing tells the order.

use super::{Origin, Setter, in_order, last_word, tuned_profiles};
use crate::Evidence;
use crate::advice::{Setting, parse};

/// Rules on files that an argument of the command line sets, too: the rule,
/// the argument, and what of its values reads as which in the file.
const ARGUMENTS: &[(&str, &str)] = &[
    ("transparent_hugepage/enabled", "transparent_hugepage"),
    ("transparent_hugepage/shmem_enabled", "transparent_hugepage_shmem"),
    ("default affinity", "irqaffinity"),
    ("workqueue cores", "workqueue.unbound_cpus"),
    ("clock source", "clocksource"),
    ("idle governor", "cpuidle.governor"),
    ("frequency governor", "cpufreq.default_governor"),
    ("PCIe power saving", "pcie_aspm.policy"),
    ("expedited RCU", "rcupdate.rcu_expedited"),
    ("normal RCU", "rcupdate.rcu_normal"),
    ("numa/demotion_enabled", "numa_demotion"),
];

const TMPFILES: [&str; 3] = ["etc/tmpfiles.d", "run/tmpfiles.d", "usr/lib/tmpfiles.d"];
const UNITS: &str = "etc/systemd/system";

/// Who set what the rule `key` reads, which is `value` now; nothing where no
/// place is known that could.
pub(crate) fn of_rule(evidence: &Evidence, key: &str, value: &str) -> Option<Origin> {
    let mut setters: Vec<Setter> = Vec::new();
    let argument = ARGUMENTS.iter().find(|(rule, _)| *rule == key).and_then(|(_, name)| evidence.argument(name));
    setters.extend(argument.map(|value| Setter { place: "kernel command line".to_owned(), value: value.to_owned() }));
    let place = |path: &str, line: usize| format!("/{path}:{line}");
    for path in in_order(evidence, &TMPFILES, ".conf") {
        setters.extend(of_text(evidence, &path, key, place));
    }
    for path in units(evidence) {
        setters.extend(of_text(evidence, &path, key, |path, line| format!("unit: /{path}:{line}")));
    }
    for path in tuned_profiles(evidence) {
        setters.extend(of_text(evidence, &path, key, super::by_tuned));
    }
    if setters.is_empty() {
        return None;
    }
    Some(last_word(setters, value, same))
}

/// Commands of units that set a sysctl.
pub(super) fn of_units(evidence: &Evidence, key: &str) -> Vec<Setter> {
    let of_unit = |path: String| of_text(evidence, &path, key, |path, line| format!("unit: /{path}:{line}"));
    units(evidence).into_iter().flat_map(of_unit).collect()
}

/// What a file says for the rule.
fn of_text(evidence: &Evidence, path: &str, key: &str, place: impl Fn(&str, usize) -> String) -> Vec<Setter> {
    let Some(text) = evidence.get(path) else { return Vec::new() };
    // Most files have nothing of the kind, and each is asked for by each rule.
    let may = match path {
        path if path.contains("tmpfiles.d/") => text.lines().any(writes),
        path if path.starts_with(UNITS) => {
            text.contains("Exec") && ["echo ", "sysctl "].iter().any(|word| text.contains(word))
        }
        _ => true,
    };
    if !may {
        return Vec::new();
    }
    let settings: Vec<Setting> = match path {
        // Other lines than those that write are none of ours.
        path if path.contains("tmpfiles.d/") => {
            let lines: Vec<&str> = text.lines().map(|line| if writes(line) { line } else { "" }).collect();
            parse(path, &lines.join("\n")).unwrap_or_default()
        }
        path if path.starts_with(UNITS) => commands(text)
            .into_iter()
            .flat_map(|(line, command)| {
                let settings = parse("unit.sh", command).unwrap_or_default();
                settings.into_iter().map(move |setting| Setting { line, ..setting })
            })
            .collect(),
        path => parse(path, text).unwrap_or_default(),
    };
    let of_rule = settings.into_iter().filter(|setting| setting.key == key);
    of_rule.map(|setting| Setter { place: place(path, setting.line), value: setting.value }).collect()
}

fn writes(line: &str) -> bool {
    line.starts_with("w ") || line.starts_with("w+ ")
}

/// Units that the machine's owner wrote, and their drop-ins.
fn units(evidence: &Evidence) -> Vec<String> {
    let mut paths = Vec::new();
    for name in evidence.names(UNITS) {
        let path = format!("{UNITS}/{name}");
        if evidence.get(&path).is_some() {
            paths.push(path);
        } else {
            let below = evidence.names(&path).into_iter().filter(|name| name.ends_with(".conf"));
            paths.extend(below.map(|name| format!("{path}/{name}")));
        }
    }
    paths
}

/// Commands of a unit, with their lines: what stands behind `ExecStart=` and
/// its like, without the shell around it.
fn commands(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some((_, value)) = line.trim().split_once('=').filter(|(name, _)| name.starts_with("ExecStart")) else {
            continue;
        };
        let command = value.trim_start_matches(['-', '@', ':', '+', '!']);
        let inner = ["/bin/sh -c ", "/usr/bin/sh -c ", "/bin/bash -c ", "/usr/bin/bash -c ", "sh -c ", "bash -c "]
            .iter()
            .find_map(|shell| command.strip_prefix(shell));
        let inner = inner.unwrap_or(command).trim().trim_matches(['\'', '"']);
        found.push((at + 1, inner));
    }
    found
}

/// Whether a file's text says the value: a choice by its brackets, a list or
/// mask of cores by its cores.
fn same(now: &str, set: &str) -> bool {
    let chosen = now.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(now, |(word, _)| word);
    let cores = |text: &str| {
        crate::cpu_mask(text).filter(|_| text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b','))
    };
    chosen.split_whitespace().eq(set.split_whitespace())
        || matches!((cores(chosen), crate::cpu_list(set)), (Some(mask), Some(list)) if mask == list)
        || matches!((cores(chosen), cores(set)), (Some(one), Some(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const THP: &str = "transparent_hugepage/enabled";

    fn by(evidence: &Evidence, key: &str, value: &str) -> (String, Vec<String>) {
        let origin = of_rule(evidence, key, value).expect("a place");
        (origin.by, origin.overruled.into_iter().map(|one| one.place).collect())
    }

    #[test]
    fn sysfs_is_set_by_the_command_line_tmpfiles_units_and_tuned_in_that_order() {
        let machine = Evidence::of(&[
            ("proc/cmdline", "quiet transparent_hugepage=always irqaffinity=0-1"),
            ("etc/tmpfiles.d/thp.conf", "d /run/x\nw /sys/kernel/mm/transparent_hugepage/enabled - - - - madvise\n"),
        ]);
        let choice = "always [madvise] never";
        assert_eq!(
            by(&machine, THP, choice),
            ("/etc/tmpfiles.d/thp.conf:2".to_owned(), vec!["kernel command line".to_owned()])
        );
        // A value that none of them has was written later.
        assert_eq!(by(&machine, THP, "always madvise [never]").0, "written at run time");
        let unit = "[Service]\nType=oneshot\nExecStart=/bin/sh -c 'echo never > \
                     /sys/kernel/mm/transparent_hugepage/enabled'\n";
        let machine = machine.with("etc/systemd/system/no-thp.service", unit);
        assert_eq!(by(&machine, THP, "always madvise [never]").0, "unit: /etc/systemd/system/no-thp.service:3");
        let machine = machine.with("proc/77/comm", "tuned").with("etc/tuned/active_profile", "mine").with(
            "usr/lib/tuned/mine/tuned.conf",
            "[vm]\ntransparent_hugepages=madvise\n[cpu]\ngovernor=performance\n",
        );
        let (by_tuned, overruled) = by(&machine, THP, choice);
        assert_eq!(by_tuned, "tuned: /usr/lib/tuned/mine/tuned.conf:2");
        assert_eq!(overruled.len(), 2, "{overruled:?}");
        assert_eq!(by(&machine, "frequency governor", "performance").0, "tuned: /usr/lib/tuned/mine/tuned.conf:4");
        // Masks and lists are compared as cores.
        assert_eq!(by(&machine, "default affinity", "3").0, "kernel command line");
        assert_eq!(of_rule(&machine, "ksm/run", "0"), None);
    }

    #[test]
    fn an_operators_profile_is_named_as_its_own() {
        let machine = Evidence::of(&[
            ("proc/77/comm", "openshift-tuned"),
            ("etc/tuned/active_profile", "openshift-node-performance-fast"),
            ("etc/tuned/openshift-node-performance-fast/tuned.conf", "[vm]\ntransparent_hugepages=never\n"),
        ]);
        let (place, _) = by(&machine, THP, "always madvise [never]");
        assert_eq!(place, "operator: /etc/tuned/openshift-node-performance-fast/tuned.conf:2");
    }
}
