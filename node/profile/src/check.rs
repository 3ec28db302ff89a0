//! Afterwards: whether a node is what files say it should be.

use crate::operator::{Hints, operator_arguments, operator_kubelet};
use crate::shape::Shape;
use crate::wanted::Version;
use audit::advice::{Setting, parse};
use audit::{Evidence, cpu_list, cpu_mask};
use serde::Serialize;

/// What was found of a thing that is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Check {
    /// It is so.
    AsWanted,
    /// It is not so.
    Otherwise,
    /// The evidence does not tell.
    Unseen,
}

/// One thing that is wanted.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Checked {
    /// What: an argument, a sysctl, a set of cores, pages, a service.
    pub what: String,
    /// How it should be.
    pub wanted: String,
    /// How it is; empty where the evidence does not tell.
    pub found: String,
    /// Whether it is so.
    pub check: Check,
    /// Where the wish stands.
    pub place: String,
}

/// Holds a node against the settings of files, as [`audit::advice::parse`]
/// read them; `version` is for what OpenShift's operator adds of its own.
#[must_use]
pub fn check(settings: &[Setting], evidence: &Evidence, version: Version) -> Vec<Checked> {
    let settings = audit::acting(evidence, settings);
    let mut checker = Checker { settings: &settings, evidence, rows: Vec::new() };
    checker.operators(version);
    checker.command_line();
    checker.pages();
    checker.plain();
    checker.cores();
    checker.rows
}

struct Checker<'a> {
    settings: &'a [Setting],
    evidence: &'a Evidence,
    rows: Vec<Checked>,
}

impl<'a> Checker<'a> {
    fn value(&self, key: &str) -> Option<&'a Setting> {
        self.settings.iter().rfind(|setting| setting.key == key)
    }

    fn add(&mut self, what: &str, wanted: &str, found: Option<&str>, same: bool, place: &str) {
        if self.rows.iter().any(|row| row.what == what && row.wanted == wanted) {
            return;
        }
        let check = match (found, same) {
            (None, _) => Check::Unseen,
            (Some(_), true) => Check::AsWanted,
            (Some(_), false) => Check::Otherwise,
        };
        let found = found.unwrap_or_default().to_owned();
        self.rows.push(Checked {
            what: what.to_owned(),
            wanted: wanted.to_owned(),
            found,
            check,
            place: place.to_owned(),
        });
    }

    /// Arguments that follow from a PerformanceProfile.
    fn operators(&mut self, version: Version) {
        let settings = self.settings;
        let text = |key: &str| {
            let key = format!("PerformanceProfile {key}");
            settings.iter().rfind(|setting| setting.key == key).map(|setting| setting.value.as_str())
        };
        let is = |key: &str, word: &str| text(key) == Some(word);
        let (Some(isolated), Some(shape)) = (text("cpu.isolated").and_then(cpu_list), Shape::of(self.evidence)) else {
            return;
        };
        let offline = text("cpu.offlined").and_then(cpu_list).unwrap_or_default();
        let reserved = text("cpu.reserved").and_then(cpu_list).unwrap_or_default();
        let pages = self.settings.iter().filter(|setting| setting.key == "PerformanceProfile hugepages.pages");
        let hints = Hints {
            others: shape
                .cores
                .iter()
                .copied()
                .filter(|core| !isolated.contains(core) && !offline.contains(core))
                .collect(),
            static_isolation: is("cpu.balanceIsolated", "false"),
            real_time: !is("workloadHints.realTime", "false"),
            high_power: is("workloadHints.highPowerConsumption", "true"),
            power_by_pod: is("workloadHints.perPodPowerManagement", "true"),
            default_pages: text("hugepages.defaultHugepagesSize").map(str::to_owned),
            pages: pages
                .filter_map(|setting| page(&setting.value))
                .map(|(size, count, domain)| (size, count, domain.is_some()))
                .collect(),
            additional: Vec::new(),
            isolated,
        };
        let place = self.value("PerformanceProfile cpu.isolated").map_or_else(String::new, Setting::place);
        let by = format!("{place}, by the operator");
        for argument in operator_arguments(version, shape.vendor, &hints) {
            let (name, value) = argument.split_once('=').unwrap_or((&argument, &argument));
            if !name.contains("hugepages") {
                self.argument(name, value, &by);
            }
        }
        self.kubelet(version, &reserved, text("numa.topologyPolicy"), &by);
        let cores = crate::cores::list(&reserved);
        let found = self.evidence.get("proc/irq/default_smp_affinity").map(str::to_owned);
        let fits = found.as_deref().and_then(cpu_mask).is_some_and(|mask| {
            // Unless the profile says otherwise, cores of pods leave the mask one by one.
            is("globallyDisableIrqLoadBalancing", "false") || mask.iter().all(|core| !hints.isolated.contains(core))
        });
        self.add("interrupts by default", &format!("on {cores} at least"), found.as_deref(), fits, &place);
        if is("realTimeKernel.enabled", "true") {
            let found = if self.evidence.realtime() { "yes" } else { "no" };
            self.add("real-time kernel", "yes", Some(found), found == "yes", &place);
        }
    }

    /// What the operator has the kubelet do, held against its configuration on
    /// the node.
    fn kubelet(&mut self, version: Version, reserved: &[u32], policy: Option<&str>, place: &str) {
        let text = self.evidence.get("etc/kubernetes/kubelet.conf");
        let settings = text.and_then(|text| parse("kubelet.conf", text).ok());
        for (path, wanted) in operator_kubelet(version, reserved, policy) {
            let key = format!("KubeletConfig {path}");
            let of_key = |settings: &Vec<Setting>| {
                let found = settings.iter().rfind(|setting| setting.key == key);
                found.map_or_else(|| "not given".to_owned(), |setting| setting.value.clone())
            };
            let found = settings.as_ref().map(of_key);
            let same = found.as_deref().is_some_and(|found| {
                found == wanted || path == "reservedSystemCPUs" && cpu_list(found) == cpu_list(&wanted)
            });
            self.add(&format!("kubelet {path}"), &wanted, found.as_deref(), same, place);
        }
    }

    fn argument(&mut self, name: &str, wanted: &str, place: &str) {
        let known = self.evidence.get("proc/cmdline").is_some();
        let found = self.evidence.argument(name).unwrap_or("not given").to_owned();
        let same = found == wanted
            || matches!((cpu_list(&found), cpu_list(wanted)), (Some(one), Some(other)) if one == other)
            || matches!((cores_behind(&found), cores_behind(wanted)), (Some(one), Some(other)) if one == other)
            || name == "tuned.non_isolcpus" && cpu_mask(&found).is_some() && cpu_mask(&found) == cpu_mask(wanted);
        self.add(&format!("argument {name}"), wanted, known.then_some(found.as_str()), same, place);
    }

    fn command_line(&mut self) {
        for setting in self.settings {
            let Some(name) = setting.key.strip_prefix("cmdline ") else { continue };
            if !name.contains("hugepages") {
                self.argument(name, &setting.value, &setting.place());
            }
        }
    }

    /// Pages by size and domain, from a profile or a command line.
    fn pages(&mut self) {
        let mut size = "2M".to_owned();
        for setting in self.settings {
            let of_size = |size: &str, domain: Option<&str>| {
                let kilobytes = if size == "1G" { 1 << 20 } else { 2 << 10 };
                match domain {
                    Some(domain) => {
                        format!("sys/devices/system/node/node{domain}/hugepages/hugepages-{kilobytes}kB/nr_hugepages")
                    }
                    None => format!("sys/kernel/mm/hugepages/hugepages-{kilobytes}kB/nr_hugepages"),
                }
            };
            let mut wanted: Vec<(String, u64, Option<String>)> = Vec::new();
            match setting.key.as_str() {
                "PerformanceProfile hugepages.pages" => wanted.extend(page(&setting.value)),
                "cmdline hugepagesz" | "cmdline default_hugepagesz" => setting.value.clone_into(&mut size),
                "cmdline hugepages" => wanted.extend(setting.value.split(',').filter_map(|part| {
                    let (domain, count) =
                        part.split_once(':').map_or((None, part), |(domain, count)| (Some(domain), count));
                    Some((size.clone(), count.parse().ok()?, domain.map(str::to_owned)))
                })),
                _ => {}
            }
            for (size, count, domain) in wanted {
                let what = match &domain {
                    Some(domain) => format!("pages of {size} on domain {domain}"),
                    None => format!("pages of {size}"),
                };
                let found = self.evidence.get(&of_size(&size, domain.as_deref())).map(str::to_owned);
                let enough =
                    found.as_deref().and_then(|text| text.parse::<u64>().ok()).is_some_and(|found| found >= count);
                self.add(&what, &count.to_string(), found.as_deref(), enough, &setting.place());
            }
        }
    }

    /// Sysctls, files of sysfs, services, partitions.
    fn plain(&mut self) {
        for setting in self.settings {
            let (key, wanted, place) = (setting.key.as_str(), setting.value.as_str(), setting.place());
            if let Some(unit) = key.strip_prefix("service ") {
                // Only what the evidence looks for can be missed in it.
                if ["stalld", "chronyd", "irqbalance", "ptp4l", "tuned"].contains(&unit) {
                    // A recording of files alone has no processes at all.
                    let known = !self.evidence.processes().is_empty();
                    let found = if self.evidence.runs(unit) { "runs" } else { "does not run" };
                    let runs = wanted.contains("start") || wanted.contains("enable");
                    let wanted = if runs { "runs" } else { "does not run" };
                    self.add(key, wanted, known.then_some(found), found == wanted, &place);
                }
                continue;
            }
            let Some(rule) = audit::find(key) else { continue };
            let path = match rule.probe {
                audit::Probe::Sysctl => audit::sysctl_path(key),
                audit::Probe::File(path) => path.to_owned(),
                _ => continue,
            };
            let found = self.evidence.get(&path).map(chosen);
            let same = found.as_deref().is_some_and(|found| {
                words(found) == words(wanted)
                    || path.contains("mask") | path.contains("affinity")
                        && cpu_mask(found).is_some()
                        && cpu_mask(found) == cpu_mask(wanted)
            });
            self.add(key, wanted, found.as_deref(), same, &place);
        }
    }

    /// What the kernel itself calls isolated.
    fn cores(&mut self) {
        let Some(setting) = self.value("cmdline nohz_full").or_else(|| self.value("PerformanceProfile cpu.isolated"))
        else {
            return;
        };
        let wanted = cpu_list(&setting.value);
        if setting.key == "cmdline nohz_full" {
            let found = self.evidence.get("sys/devices/system/cpu/nohz_full").map(str::to_owned);
            let same = found.as_deref().map(cpu_list) == Some(wanted.clone());
            self.add("cores without a tick", &setting.value, found.as_deref(), same, &setting.place());
        }
        let unbound = self.evidence.get("sys/devices/virtual/workqueue/cpumask").map(str::to_owned);
        let apart = match (unbound.as_deref().and_then(cpu_mask), wanted) {
            (Some(mask), Some(wanted)) => mask.iter().all(|core| !wanted.contains(core)),
            _ => false,
        };
        self.add(
            "unbound kernel work",
            &format!("not on {}", setting.value),
            unbound.as_deref(),
            apart,
            &setting.place(),
        );
    }
}

/// The choice in force of a file such as `always [madvise] never`.
fn chosen(text: &str) -> String {
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(inner, _)| inner);
    inner.unwrap_or(text).to_owned()
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Flags and cores of `domain,managed_irq,2-5`, flags in one order.
fn cores_behind(value: &str) -> Option<(Vec<&str>, Vec<u32>)> {
    let is_flag = |part: &&str| part.starts_with(|char: char| char.is_ascii_alphabetic());
    let mut flags: Vec<&str> = value.split(',').take_while(is_flag).collect();
    let skipped: usize = flags.iter().map(|flag| flag.len() + 1).sum();
    flags.sort_unstable();
    Some((flags, cpu_list(value.get(skipped..)?)?))
}

/// Size, number and domain of `1G:20@0`.
fn page(value: &str) -> Option<(String, u64, Option<String>)> {
    let (size, rest) = value.split_once(':')?;
    let (count, domain) = rest.split_once('@').map_or((rest, None), |(count, domain)| (count, Some(domain.to_owned())));
    Some((size.to_owned(), count.parse().ok()?, domain))
}
