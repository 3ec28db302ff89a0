//! Which files a rule of the catalogue is about, and what is written there.

use crate::form::{Form, mask};
use audit::{Evidence, Probe, Row, sysctl_path};

/// One file that gets one value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    pub path: String,
    pub form: Form,
    pub value: String,
}

const CPU: &str = "sys/devices/system/cpu";
const NET: &str = "sys/class/net";

/// Microseconds that a serving core may take to wake up: C1 takes one or two,
/// C6 a hundred and more.
const RESUME_LATENCY: &str = "10";

/// Files that are settings at run time, by their rule.
const FILES: &[(&str, Form)] = &[
    ("transparent_hugepage/enabled", Form::Choice),
    ("transparent_hugepage/defrag", Form::Choice),
    ("transparent_hugepage/shmem_enabled", Form::Choice),
    ("transparent_hugepage/khugepaged/defrag", Form::Words),
    ("ksm/run", Form::Words),
    ("numa/demotion_enabled", Form::Words),
    ("turbo off", Form::Words),
    ("frequency boost", Form::Words),
    ("idle governor", Form::Words),
    ("clock source", Form::Words),
    ("workqueue cores", Form::Mask),
    ("expedited RCU", Form::Words),
    ("normal RCU", Form::Words),
    ("default affinity", Form::Mask),
    ("PCIe power saving", Form::Choice),
];

/// Files of an interface, by their rule.
const OF_INTERFACES: &[(&str, &str)] = &[
    ("MTU", "mtu"),
    ("transmit queue length", "tx_queue_len"),
    ("deferred interrupts", "napi_defer_hard_irqs"),
    ("GRO flush timeout", "gro_flush_timeout"),
    ("threaded NAPI", "threaded"),
    ("device power saving", "device/power/control"),
];

/// Files of an interface's queues, by their rule.
const OF_QUEUES: &[(&str, &str, Form)] =
    &[("RPS", "rps_cpus", Form::Mask), ("RFS", "rps_flow_cnt", Form::Words), ("XPS", "xps_cpus", Form::Mask)];

/// What has to be written so that the row's rule finds `want`; or why a
/// person has to do it.
pub(crate) fn targets(evidence: &Evidence, row: &Row, want: &str) -> Result<Vec<Target>, String> {
    let housekeeping = want == "the housekeeping cores";
    let words = |path: String| Target { path, form: Form::Words, value: want.to_owned() };
    let Some(rule) = audit::find(&row.key) else { return Err("the catalogue does not have it".to_owned()) };
    match (rule.key, rule.probe) {
        ("kernel.watchdog_cpumask", _) => {
            let value = if housekeeping { list(&housekeepers(evidence)) } else { want.to_owned() };
            Ok(vec![Target { path: sysctl_path(rule.key), form: Form::List, value }])
        }
        (key, Probe::Sysctl) => Ok(vec![words(sysctl_path(key))]),
        (key, Probe::Each(_)) if key.contains(".*.") => {
            let named = key.replacen('*', &row.subject.replace('.', "/"), 1);
            Ok(vec![words(sysctl_path(&named))])
        }
        (key, Probe::File(path)) => {
            let Some((_, form)) = FILES.iter().find(|(name, _)| *name == key) else {
                return Err("is decided at boot, or by the machine's maker".to_owned());
            };
            let value = if housekeeping { mask(&housekeepers(evidence)) } else { want.to_owned() };
            Ok(vec![Target { path: path.to_owned(), form: *form, value }])
        }
        (_, Probe::Advice) => Err("stands in files of other programs".to_owned()),
        (_, Probe::Argument(_)) => Err("is an argument of the kernel's command line: the next boot".to_owned()),
        (key, Probe::Each(_)) => of_each(evidence, key, row, want),
    }
}

/// Rules that find several things.
fn of_each(evidence: &Evidence, key: &str, row: &Row, want: &str) -> Result<Vec<Target>, String> {
    let alike = |paths: Vec<String>| -> Vec<Target> {
        let same = |path: &String| evidence.get(path) == Some(row.value.as_str());
        let target = |path| Target { path, form: Form::Words, value: want.to_owned() };
        paths.into_iter().filter(same).map(target).collect()
    };
    let policies = |file: &str| {
        let folder = format!("{CPU}/cpufreq");
        let names = evidence.names(&folder);
        let policies = names.into_iter().filter(|name| name.starts_with("policy"));
        policies.map(|name| format!("{folder}/{name}/{file}")).collect::<Vec<_>>()
    };
    let of_cores = |file: &str| {
        let cores = evidence.cores().into_iter().map(|core| format!("{CPU}/cpu{core}/{file}"));
        cores.collect::<Vec<_>>()
    };
    if let Some((_, file)) = OF_INTERFACES.iter().find(|(name, _)| *name == key) {
        let path = format!("{NET}/{}/{file}", row.subject);
        return Ok(vec![Target { path, form: Form::Words, value: want.to_owned() }]);
    }
    if let Some((_, file, form)) = OF_QUEUES.iter().find(|(name, ..)| *name == key) {
        let mut words = row.subject.split_whitespace();
        let interface = words.next().unwrap_or_default();
        let path = |queue: &str| format!("{NET}/{interface}/queues/{queue}/{file}");
        return Ok(words.map(|queue| Target { path: path(queue), form: *form, value: want.to_owned() }).collect());
    }
    if let Some(rest) = want.strip_prefix("ethtool -") {
        return of_driver(row, rest);
    }
    if let Some((_, flag)) = BY_DRIVER.iter().find(|(rule, _)| *rule == key) {
        return of_driver(row, &format!("{flag} {} {want}", row.subject));
    }
    match key {
        "frequency governor" => Ok(alike(policies("scaling_governor"))),
        "energy preference" => Ok(alike(policies("energy_performance_preference"))),
        "energy bias" => Ok(alike(of_cores("power/energy_perf_bias"))),
        "uncore frequency" => {
            let path = format!("{CPU}/intel_uncore_frequency/{}/min_freq_khz", row.subject);
            Ok(vec![Target { path, form: Form::Words, value: want.to_owned() }])
        }
        "deepest idle state" | "resume latency bound" => {
            let value = if key == "deepest idle state" { RESUME_LATENCY } else { want };
            let files = of_cores("power/pm_qos_resume_latency_us");
            let there = files.into_iter().filter(|path| evidence.get(path).is_some());
            let target = |path| Target { path, form: Form::Words, value: value.to_owned() };
            Ok(there.map(target).collect())
        }
        _ => Err("is for a person to do: no single file decides it".to_owned()),
    }
}

/// Rules on what drivers are told, and the flag of ethtool(8) that does it;
/// their values by name are such as `rx 512`.
const BY_DRIVER: &[(&str, &str)] = &[
    ("ring sizes", "G"),
    ("channels", "L"),
    ("interrupt coalescing", "C"),
    ("pause frames", "A"),
    ("checksums by the interface", "K"),
    ("segmentation by the interface", "K"),
    ("merging of received segments", "K"),
];

/// Names that ethtool(8) has for offloads, and drivers theirs.
const OFFLOADS: &[(&str, &str)] = &[
    ("gro", "rx-gro"),
    ("lro", "rx-lro"),
    ("rx", "rx-checksum"),
    ("tso", "tx-tcp-segmentation"),
    ("gso", "tx-generic-segmentation"),
];

/// What a command of ethtool changes, setting by setting: `G eth0 rx 512`.
fn of_driver(row: &Row, command: &str) -> Result<Vec<Target>, String> {
    let words: Vec<&str> = command.split_whitespace().collect();
    let [flag, interface, rest @ ..] = words.as_slice() else { return Err("is for a person to do".to_owned()) };
    let group = match *flag {
        "G" => "rings",
        "L" => "channels",
        "C" => "coalescing",
        "A" => "pause",
        "K" => "offloads",
        _ => return Err("is for a person to do: netlink has no such setting here".to_owned()),
    };
    if *interface != row.subject || rest.is_empty() || rest.len() % 2 != 0 {
        return Err("is for a person to do".to_owned());
    }
    let target = |pair: &[&str]| {
        let [name, value] = pair else { return None };
        let known = OFFLOADS.iter().find(|(short, _)| group == "offloads" && short == name);
        let name = known.map_or(*name, |(_, name)| *name);
        Some(Target {
            path: format!("ethtool/{interface}/{group}/{name}"),
            form: Form::Words,
            value: (*value).to_owned(),
        })
    };
    Ok(rest.chunks(2).filter_map(target).collect())
}

/// Cores on line that are not isolated.
pub(crate) fn housekeepers(evidence: &Evidence) -> Vec<u32> {
    let isolated = evidence.isolated();
    evidence.cores().into_iter().filter(|core| !isolated.contains(core)).collect()
}

fn list(cores: &[u32]) -> String {
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}
