//! Interrupts and softirqs: which core they take.

use crate::evidence::{cpu_list, cpu_mask};
use crate::rule::{Area, Judge, Reading, Roles, Rule, Verdict};
use crate::{Case, Evidence, Finding};

use super::memory::one;
use Judge::By;
use Verdict::{Improvable, Unnecessary, WorseThanDefault};

const AFFINITY: &str = "Linux Documentation/core-api/irq/irq-affinity.rst";
const SCALING: &str = "Linux Documentation/networking/scaling.rst";

const fn each(key: &'static str, probe: fn(&Evidence) -> Vec<Reading>, judge: Judge, explain: &'static str) -> Rule {
    Rule::each(Area::Interrupts, key, probe, judge, explain)
}

pub(super) const RULES: &[Rule] = &[
    each(
        "irqbalance",
        |evidence| {
            let known = evidence.get("proc/1/comm").is_some();
            one("irqbalance", known.then(|| evidence.runs("irqbalance").to_string()))
        },
        By(irqbalance),
        "Moves interrupts every ten seconds by load. It undoes whatever was written to smp_affinity, unless that \
         interrupt or core is banned (IRQBALANCE_BANNED_CPULIST); it leaves isolated cores alone by itself \
         since 1.0.8.",
    )
    .gain("interrupts that stay where they were put")
    .risk("without it all interrupts of some drivers go to one core")
    .undo("systemctl start irqbalance")
    .source("man 1 irqbalance"),
    each(
        "irqbalance's banned cores",
        |evidence| {
            let paths = ["etc/default/irqbalance", "etc/sysconfig/irqbalance"];
            let text = paths.iter().find_map(|path| evidence.get(path));
            let of_it = |line: &&str| line.trim_start().starts_with("IRQBALANCE_BANNED_CPU");
            let line = text.and_then(|text| text.lines().rfind(of_it));
            one("irqbalance", line.map(|line| line.trim().to_owned()))
        },
        By(banned),
        "Cores that irqbalance gives no interrupts to; empty: the isolated ones.",
    )
    .roles(Roles::POLLING)
    .source("man 1 irqbalance"),
    Rule::file(
        Area::Interrupts,
        "default affinity",
        "proc/irq/default_smp_affinity",
        By(default_affinity),
        "Cores of interrupts that come into being from now on (irqaffinity= on the command line).",
    )
    .roles(Roles::POLLING)
    .gain("no interrupts of devices that are added later on polling cores")
    .source(AFFINITY),
    each(
        "interrupts on isolated cores",
        on_isolated,
        By(isolated_interrupts),
        "Device interrupts that may go to isolated cores. Managed ones, which multi-queue devices ask for, move \
            only by \
         isolcpus=managed_irq.",
    )
    .roles(Roles::POLLING)
    .gain("no interruption of a polling core by devices")
    .source(AFFINITY),
    each(
        "interrupts of interfaces",
        of_interfaces,
        By(spread),
        "How a device's queues are spread over cores. All on one core is the limit of a kernel-socket server long \
            before \
         its workers are.",
    )
    .roles(Roles::KERNEL)
    .gain("as many cores for receiving as there are queues")
    .source(SCALING),
    each(
        "RPS",
        |evidence| queues(evidence, "rx-", "rps_cpus"),
        By(rps),
        "Software spreading of received packets. It helps devices with fewer queues than cores; with a queue for \
            each \
         worker it only adds an interrupt between cores.",
    )
    .gain("receiving on more cores than there are queues")
    .risk("an interrupt between cores for each batch; silos are interrupted")
    .source(SCALING),
    each(
        "RFS",
        |evidence| queues(evidence, "rx-", "rps_flow_cnt"),
        By(rfs),
        "Flows of a queue that are steered to their application's core; needs net.core.rps_sock_flow_entries.",
    )
    .roles(Roles::KERNEL)
    .source(SCALING),
    each(
        "XPS",
        |evidence| queues(evidence, "tx-", "xps_cpus"),
        By(xps),
        "Which cores send by which queue. With a queue for each core, a core's own queue needs no lock of another's.",
    )
    .roles(Roles::KERNEL)
    .gain("no contention for transmit queues")
    .source(SCALING),
    each(
        "one core's share of softirqs",
        |evidence| one("NET_RX", softirq_share(evidence).map(|share| format!("{share:.2}"))),
        By(softirqs),
        "How much of the packet receiving since boot the busiest core did.",
    )
    .roles(Roles::KERNEL)
    .source("man 5 proc, /proc/softirqs"),
];

fn irqbalance(case: &Case<'_>) -> Finding {
    let isolated = !case.evidence.isolated().is_empty();
    match case.value {
        "true" if case.role.polls() && !isolated => {
            Finding::new(Improvable, "it may move interrupts onto polling cores: isolate or ban those, or stop it")
        }
        "true" => Finding::ok("runs, and leaves isolated cores alone"),
        _ => Finding::ok("does not run: interrupts stay where they were put"),
    }
}

fn banned(case: &Case<'_>) -> Finding {
    let list = case.value.split_once('=').map_or("", |(_, list)| list).trim().trim_matches('"');
    let isolated = case.evidence.isolated();
    let cores = if case.value.contains("CPULIST") { cpu_list(list) } else { cpu_mask(list) }.unwrap_or_default();
    if isolated.iter().all(|core| cores.contains(core)) {
        return Finding::ok("isolated cores are among them");
    }
    if list.is_empty() {
        return Finding::ok("none by name: it leaves isolated cores alone by itself");
    }
    Finding::new(WorseThanDefault, "a list of one's own replaces the isolated cores, and some of them are not on it")
}

fn default_affinity(case: &Case<'_>) -> Finding {
    let isolated = case.evidence.isolated();
    let Some(mask) = cpu_mask(case.value) else { return Finding::new(Verdict::Unreadable, "is no mask of cores") };
    match isolated.iter().filter(|core| mask.contains(core)).count() {
        0 => Finding::ok(if isolated.is_empty() { "no core is isolated" } else { "isolated cores are left out" }),
        both => Finding::new(Improvable, format!("new interrupts may come to {both} isolated cores"))
            .want("the housekeeping cores"),
    }
}

/// Where an interrupt goes, as the hardware was told where that is known.
fn goes_to(evidence: &Evidence, irq: &str) -> Option<Vec<u32>> {
    let effective = evidence.get(&format!("proc/irq/{irq}/effective_affinity_list")).filter(|list| !list.is_empty());
    cpu_list(effective.or_else(|| evidence.get(&format!("proc/irq/{irq}/smp_affinity_list")))?)
}

fn on_isolated(evidence: &Evidence) -> Vec<Reading> {
    let isolated = evidence.isolated();
    let irqs = evidence.names("proc/irq");
    let irqs: Vec<&str> = irqs.into_iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit())).collect();
    let there =
        |irq: &&&str| goes_to(evidence, irq).is_some_and(|cores| cores.iter().any(|core| isolated.contains(core)));
    let found: Vec<&str> = irqs.iter().filter(there).copied().collect();
    one("devices", (!irqs.is_empty()).then(|| if found.is_empty() { "none".to_owned() } else { found.join(" ") }))
}

fn isolated_interrupts(case: &Case<'_>) -> Finding {
    match case.value {
        "none" => Finding::ok("none"),
        list => {
            Finding::new(Improvable, format!("{} interrupts go to isolated cores", list.split_whitespace().count()))
                .want("isolcpus=managed_irq,… and smp_affinity_list of the housekeeping cores")
        }
    }
}

/// Of each interface with interrupts of its own: how many, and on how many
/// cores.
fn of_interfaces(evidence: &Evidence) -> Vec<Reading> {
    let reading = |name: &&str| {
        let irqs = evidence.names(&format!("sys/class/net/{name}/device/msi_irqs"));
        if irqs.is_empty() {
            return None;
        }
        let cores = interrupted_by(evidence, name);
        let value = format!("{} interrupts on {} cores", irqs.len(), cores.len());
        Some(Reading { subject: (*name).to_owned(), value: Ok(value) })
    };
    evidence.interfaces().iter().filter_map(reading).collect()
}

/// The cores that an interface's interrupts go to.
fn interrupted_by(evidence: &Evidence, interface: &str) -> Vec<u32> {
    let irqs = evidence.names(&format!("sys/class/net/{interface}/device/msi_irqs"));
    let mut cores: Vec<u32> = irqs.iter().filter_map(|irq| goes_to(evidence, irq)).flatten().collect();
    cores.sort_unstable();
    cores.dedup();
    cores
}

fn spread(case: &Case<'_>) -> Finding {
    let numbers: Vec<usize> = case.value.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [irqs, used] = numbers[..] else { return Finding::new(Verdict::Unreadable, "cannot be told") };
    if used == 0 {
        return Finding::new(Verdict::Unknown, "no core is named for any of them");
    }
    let could = irqs.min(case.evidence.cores().len());
    // A device has some interrupts beside those of its queues.
    if used * 2 < could {
        let why = match used {
            1 => "one core receives for all".to_owned(),
            used => format!("{used} cores receive for all, and {could} could"),
        };
        return Finding::new(Improvable, why).want("a core for each queue");
    }
    far_interrupts(case).unwrap_or_else(|| Finding::ok("spread as far as there are queues and cores"))
}

/// Interrupts on cores of another domain than the device's: each packet's descriptor and headers cross.
fn far_interrupts(case: &Case<'_>) -> Option<Finding> {
    let domains = case.evidence.domains();
    let device = format!("sys/class/net/{}/device", case.subject);
    let places = [format!("{device}/numa_node"), format!("{device}/../numa_node")];
    let own = places.iter().find_map(|place| case.evidence.get(place)?.parse::<u32>().ok())?;
    let (_, near) = domains.iter().find(|(number, cores)| *number == own && !cores.is_empty())?;
    let cores = interrupted_by(case.evidence, case.subject);
    let far = cores.iter().filter(|core| !near.contains(core)).count();
    if domains.len() < 2 || far == 0 {
        return None;
    }
    let why = format!("{far} of {} cores are in another domain than the device, which is in {own}", cores.len());
    Some(Finding::new(Improvable, why).want(format!("cores of domain {own}")))
}

/// A file of each queue of each interface, equal ones as one.
fn queues(evidence: &Evidence, kind: &str, file: &str) -> Vec<Reading> {
    let mut readings: Vec<Reading> = Vec::new();
    for name in evidence.interfaces() {
        let folder = format!("sys/class/net/{name}/queues");
        for queue in evidence.names(&folder).into_iter().filter(|queue| queue.starts_with(kind)) {
            let Some(value) = evidence.read(&format!("{folder}/{queue}/{file}")) else { continue };
            let value = value.map(str::to_owned).map_err(str::to_owned);
            let of_this = |reading: &&mut Reading| reading.subject.split_whitespace().next() == Some(name);
            match readings.iter_mut().filter(of_this).find(|reading| reading.value == value) {
                Some(known) => known.subject = format!("{} {queue}", known.subject),
                None => readings.push(Reading { subject: format!("{name} {queue}"), value }),
            }
        }
    }
    readings
}

fn rps(case: &Case<'_>) -> Finding {
    let on = !case.value.chars().all(|char| matches!(char, '0' | ','));
    let isolated = case.evidence.isolated();
    let cores = cpu_mask(case.value).unwrap_or_default();
    match on {
        false => Finding::ok("off: packets stay on the core of their interrupt"),
        true if isolated.iter().any(|core| cores.contains(core)) => {
            Finding::new(WorseThanDefault, "packets are sent to isolated cores").want("0")
        }
        true if case.role.polls() => Finding::new(
            Unnecessary,
            "frames that a silo takes never come to \
            RPS",
        )
        .want("0"),
        true => Finding::ok("packets are spread in software"),
    }
}

fn rfs(case: &Case<'_>) -> Finding {
    let table = case.evidence.sysctl_number("net.core.rps_sock_flow_entries").unwrap_or(0);
    match case.number() {
        Some(0) => Finding::ok("off"),
        Some(_) if table == 0 => {
            Finding::new(Verdict::NoEffect, "net.core.rps_sock_flow_entries is 0: without the table it does nothing")
        }
        Some(flows) => Finding::ok(format!("{flows} flows are steered")),
        None => Finding::new(Verdict::Unreadable, "is no number"),
    }
}

fn xps(case: &Case<'_>) -> Finding {
    let queues = case.subject.split_whitespace().count().saturating_sub(1);
    match case.value.chars().all(|char| matches!(char, '0' | ',')) {
        true if queues > 1 => Finding::ok("none: the driver's own choice, or a hash of the flow"),
        true => Finding::ok("one queue only"),
        false => Finding::ok("cores have queues of their own"),
    }
}

/// The busiest core's share of NET_RX, with at least a million of them.
fn softirq_share(evidence: &Evidence) -> Option<f64> {
    let line = evidence.get("proc/softirqs")?.lines().find(|line| line.trim_start().starts_with("NET_RX:"))?;
    let counts: Vec<u64> = line.split_whitespace().skip(1).filter_map(|count| count.parse().ok()).collect();
    let total: u64 = counts.iter().sum();
    (total > 0).then(|| *counts.iter().max().unwrap_or(&0) as f64 / total as f64)
}

fn softirqs(case: &Case<'_>) -> Finding {
    let cores = case.evidence.cores().len();
    match case.value.parse::<f64>() {
        Ok(share) if cores >= 4 && share > 0.8 => {
            Finding::new(Improvable, format!("one core of {cores} did {:.0} % of the receiving", share * 100.0))
                .want("queues for more cores, or RPS")
        }
        Ok(share) => Finding::ok(format!("the busiest core did {:.0} % of the receiving", share * 100.0)),
        Err(_) => Finding::new(Verdict::Unreadable, "is no share"),
    }
}
