//! What scripts do beside sysctls: one interrupt's cores, one domain's pages,
//! threads and memory bound, devices given away.

use crate::advice::{AFFINITY, DOMAIN_PAGES, Setting};
use crate::evidence::cpu_list;
use crate::rule::{Area, Judge, Probe, Roles, Rule, Verdict};
use crate::{Case, Finding};
use Judge::By;

const AFFINITY_SOURCE: &str = "Linux Documentation/core-api/irq/irq-affinity.rst";
const HUGETLB: &str = "Linux Documentation/admin-guide/mm/hugetlbpage.rst";
const IP: &str = "Linux Documentation/networking/ip-sysctl.rst";

const fn advice(area: Area, key: &'static str, judge: Judge, explain: &'static str) -> Rule {
    Rule { probe: Probe::Advice, ..Rule::sysctl(area, key, judge, explain) }
}

pub(super) const RULES: &[Rule] = &[
    advice(
        Area::Interrupts,
        AFFINITY,
        By(affinity),
        "The cores that one interrupt may go to, /proc/irq/N/smp_affinity_list. irqbalance moves it again within ten \
         seconds unless it is banned; managed interrupts of multi-queue devices refuse it. The number is given anew at \
         each boot.",
    )
    .gain("an interrupt on the core that works on it, or off the cores that poll")
    .risk("its device is served by these cores alone")
    .source(AFFINITY_SOURCE),
    advice(
        Area::Memory,
        DOMAIN_PAGES,
        By(domain_pages),
        "Huge pages of one size that one domain sets aside, below /sys/devices/system/node. They come from that \
         domain's free memory, or fewer of them.",
    )
    .gain("packet buffers in the silo's own domain")
    .risk("memory is taken from everything else")
    .source(HUGETLB),
    Rule::sysctl(
        Area::Memory,
        "vm.nr_hugepages_mempolicy",
        By(super::memory::pages),
        "vm.nr_hugepages by the domains that the writing process's memory policy names (numactl -m 0 sysctl …).",
    )
    .gain("pages in the domains that need them")
    .risk("memory is taken from everything else")
    .source(HUGETLB),
    Rule::sysctl(
        Area::Kernel,
        "fs.file-nr",
        By(|case| match case.advised {
            true => Finding::new(Verdict::Refused, "is read-only: it counts what is open; fs.file-max is the limit"),
            false => Finding::ok("what is open, unused, and the limit"),
        }),
        "Open files, those set aside, and fs.file-max: a counter.",
    )
    .source("Linux Documentation/admin-guide/sysctl/fs.rst"),
    Rule { probe: Probe::Each(forwarded), ..forwarding("net.ipv4.conf.*.forwarding") },
    forwarding("net.ipv6.conf.*.forwarding"),
    advice(
        Area::Services,
        "Tuned recommend priority",
        By(|case| match case.number() {
            Some(number) => Finding::ok(format!(
                "{number}: of those whose match fits a node the lowest is used, and the others not at all; the \
                 operator's own have 20 to 40"
            )),
            None => Finding::new(Verdict::Refused, "is no number"),
        }),
        "Decides whether the profile is used at all: of all that match a node, the one of the lowest number is.",
    )
    .source("OpenShift, Scalability and performance, Using the Node Tuning Operator"),
    advice(
        Area::Services,
        "service container-mount-namespace",
        By(|case| match case.value {
            "stop" | "disable" | "mask" => Finding::ok("kubelet and CRI-O mount in the first process's namespace"),
            _ => Finding::ok(
                "kubelet and CRI-O mount where systemd does not look at each of their mounts; drop-ins of both must \
                 enter it (kubensenter)",
            ),
        }),
        "A namespace of mounts for kubelet and CRI-O: systemd's first process spends time on each mount that it sees.",
    )
    .gain("some percent of a reserved core")
    .source("OpenShift, Scalability and performance, Reducing CPU usage with mount namespace encapsulation"),
    limit("limits.conf nproc", "Processes and threads of one user. A server's silos and workers are some tens."),
    limit(
        "limits.conf memlock",
        "Memory that is kept from being swapped: AF_XDP before 5.11 and io_uring count there.",
    ),
    limit("limits.conf rtprio", "The FIFO priority that a process may take without CAP_SYS_NICE (--sched fifo:N)."),
    advice(
        Area::Processor,
        "numactl",
        By(numactl),
        "Binds a program's threads and memory to domains. What it binds is what it starts: workers that pin themselves \
         to other cores leave it.",
    )
    .source("man 8 numactl"),
    advice(
        Area::Processor,
        "taskset",
        By(taskset),
        "Binds a process, and what it starts from then on, to cores. Nearside's silos pin themselves (--silos).",
    )
    .source("man 1 taskset"),
    advice(
        Area::Processor,
        "cpupower idle-set",
        By(|_| {
            let why = "until the next boot, for all cores: a bound on the resume latency does it where it is needed";
            Finding::new(Verdict::Improvable, why).want("pm_qos_resume_latency_us of the serving cores")
        }),
        "Turns idle states off by their number or latency.",
    )
    .risk("cores that rest draw more, and others have less turbo")
    .source("man 1 cpupower-idle-set"),
    advice(
        Area::Nic,
        "dpdk-devbind",
        By(devbind),
        "Gives a device to user space, or back. Its interface is gone from the kernel, with its addresses.",
    )
    .roles(Roles::POLLING)
    .risk("whoever works over this interface loses the connection; AF_XDP leaves it to the kernel")
    .undo("dpdk-devbind -b with the driver that it had")
    .source("DPDK, Getting started guide for Linux, Linux drivers"),
];

const fn limit(key: &'static str, explain: &'static str) -> Rule {
    let judge = By(|case| match case.subject {
        "ulimit" => Finding::ok("holds for what this shell starts"),
        _ => Finding::new(Verdict::NoEffect, "of logins by PAM: it reaches no unit of systemd, and no container"),
    });
    advice(Area::Services, key, judge, explain).source("man 5 limits.conf; man 2 getrlimit")
}

const fn forwarding(key: &'static str) -> Rule {
    let judge = By(|case| match (case.value, case.role) {
        ("0" | "1", _) if case.advised => Finding::new(
            Verdict::Dangerous,
            "writing it sets other settings of IP anew, and what forwards here (containers, virtual machines) depends \
             on it: it is for whoever runs those to set",
        ),
        ("0", _) => Finding::ok("packets for others are dropped"),
        ("1", _) => Finding::ok("packets for others are passed on, as routers and hosts of containers do"),
        _ => Finding::new(Verdict::Refused, "is neither 0 nor 1"),
    });
    Rule::sysctl(
        Area::Network,
        key,
        judge,
        "Whether packets that come in by this interface and are for others are passed on. Containers need it.",
    )
    .risk("containers lose their network (0); the machine is a router (1)")
    .source(IP)
}

fn forwarded(evidence: &crate::Evidence) -> Vec<crate::Reading> {
    const FOLDER: &str = "proc/sys/net/ipv4/conf";
    let of = |name: &&str| ["all", "default"].contains(name);
    let read = |name: &str| {
        let value = evidence.get(&format!("{FOLDER}/{name}/forwarding"))?.to_owned();
        Some(crate::Reading { subject: name.to_owned(), value: Ok(value) })
    };
    evidence.names(FOLDER).into_iter().filter(of).filter_map(read).collect()
}

/// Cores of a list that the machine lacks.
fn lacking(case: &Case<'_>, cores: &[u32]) -> Option<Finding> {
    let there = case.evidence.cores();
    let core = cores.iter().find(|core| !there.is_empty() && !there.contains(core))?;
    Some(Finding::new(Verdict::Refused, format!("this machine has no core {core} on line")))
}

fn affinity(case: &Case<'_>) -> Finding {
    let Some(cores) = cpu_list(case.value).filter(|cores| !cores.is_empty()) else {
        return Finding::new(Verdict::Refused, "is no list of cores, nor a mask of some");
    };
    // Linux takes a list of which one core is on line (kernel/irq/proc.c, write_irq_affinity).
    let there = case.evidence.cores();
    if !there.is_empty() && !cores.iter().any(|core| there.contains(core)) {
        return Finding::new(Verdict::Refused, "this machine has none of these cores on line");
    }
    let number = case.subject.parse::<u32>().is_ok();
    let known = case.evidence.names("proc/irq").iter().any(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    if number && known && !case.evidence.names("proc/irq").contains(&case.subject) {
        return Finding::new(Verdict::Removed, format!("there is no interrupt {} here", case.subject));
    }
    let balancer = case.others.iter().rfind(|other| other.key == "service irqbalance");
    let starts = |other: &&Setting| ["start", "enable", "restart"].iter().any(|act| other.value.starts_with(act));
    if let Some(other) = balancer.filter(starts) {
        let why = format!("{} starts irqbalance, which moves it elsewhere within ten seconds", other.place());
        return Finding::new(Verdict::Conflicts, why).want("one of both, or the interrupt banned from irqbalance");
    }
    if balancer.is_none() && case.evidence.runs("irqbalance") {
        let why = "irqbalance runs here, and moves it elsewhere within ten seconds";
        return Finding::new(Verdict::Conflicts, why).want("irqbalance stopped, or the interrupt banned from it");
    }
    let isolated = case.evidence.isolated();
    if case.role.polls() && cores.iter().any(|core| isolated.contains(core)) {
        return Finding::new(Verdict::WorseThanDefault, "interrupts a core that is isolated for polling");
    }
    Finding::ok("goes there until the next boot, unless it is a managed one, which refuses it")
}

fn domain_pages(case: &Case<'_>) -> Finding {
    let Some((node, size)) = case.subject.split_once(' ') else {
        return Finding::new(Verdict::Refused, "is no domain and size of pages");
    };
    let (Some(number), Some(size)) = (case.number(), size.strip_suffix("kB").and_then(|kib| kib.parse::<u64>().ok()))
    else {
        return Finding::new(Verdict::Refused, "is no number of pages");
    };
    let folder = format!("sys/devices/system/node/{node}");
    if !case.evidence.names("sys/devices/system/node").iter().any(|name| name.starts_with("node")) {
        return Finding::ok("pages of this domain alone, as far as it has memory for them");
    }
    let Some(meminfo) = case.evidence.get(&format!("{folder}/meminfo")) else {
        return Finding::new(Verdict::Removed, format!("this machine has no domain {node}"));
    };
    let total =
        meminfo.lines().find_map(|line| line.split_once("MemTotal:")?.1.split_whitespace().next()?.parse().ok());
    let (taken, total) = (number.saturating_mul(size), total.unwrap_or(u64::MAX));
    let gib = |kib: u64| format!("{:.1} GiB", kib as f64 / f64::from(1 << 20));
    if taken > total / 10 * 9 {
        let why = format!("{} of the {} that {node} has: as many as fit are taken", gib(taken), gib(total));
        return Finding::new(Verdict::Dangerous, why);
    }
    if number > 0 && !case.role.polls() && case.role != crate::Role::Mixed {
        return Finding::new(Verdict::WorseThanDefault, format!("{} that kernel sockets do not use", gib(taken)))
            .want("0");
    }
    if size > 2_048 && number > 0 {
        return Finding::new(Verdict::Improvable, "pages of this size are found reliably only at boot")
            .want(format!("hugepagesz={}G hugepages={node}:N on the command line", size >> 20));
    }
    Finding::ok(format!("{} of {node}'s {}", gib(taken), gib(total)))
}

/// The value behind any of these flags, joined or not.
fn behind<'a>(case: &Case<'a>, flags: &[&str]) -> Option<&'a str> {
    let mut words = case.value.split_whitespace();
    while let Some(word) = words.next() {
        let joined = word.split_once('=').filter(|(flag, _)| flags.contains(flag)).map(|(_, value)| value);
        if let Some(value) = joined.or_else(|| flags.contains(&word).then(|| words.next().unwrap_or_default())) {
            return Some(value);
        }
    }
    None
}

/// The domains of a list of numactl's; `None` where it is none that is known.
fn domains_of(text: &str, all: &[u32]) -> Option<Vec<u32>> {
    if text == "all" { Some(all.to_vec()) } else { cpu_list(text).filter(|list| !list.is_empty()) }
}

fn numactl(case: &Case<'_>) -> Finding {
    let has = |flags: &[&str]| case.value.split_whitespace().any(|word| flags.contains(&word));
    let cores = behind(case, &["-C", "--physcpubind"]).and_then(cpu_list);
    if let Some(finding) = cores.as_deref().and_then(|cores| lacking(case, cores)) {
        return finding;
    }
    let known = case.evidence.domains();
    let all: Vec<u32> = known.iter().map(|(number, _)| *number).collect();
    let named = |flags: &[&str]| behind(case, flags).map(|text| (text, domains_of(text, &all).unwrap_or_default()));
    let nodes = named(&["-N", "--cpunodebind"]);
    let memory = named(&["-m", "--membind"]).or_else(|| named(&["-p", "--preferred"]));
    let interleaved = named(&["-i", "--interleave"]);
    let numbers = [&nodes, &memory, &interleaved].into_iter().flatten().flat_map(|(_, numbers)| numbers);
    let missing = numbers.copied().find(|number| !all.is_empty() && !all.contains(number));
    if let Some(number) = missing {
        return Finding::new(Verdict::Refused, format!("this machine has no domain {number}"));
    }
    if all.len() == 1 && cores.is_none() {
        return Finding::new(Verdict::Unnecessary, "this machine has one domain");
    }
    if let Some((_, over)) = &interleaved {
        let why = match over.len() {
            0 => "pages go round all domains: of n domains one in n is the core's own".to_owned(),
            count => format!("{} of {count} pages are another domain's than the core's", count - 1),
        };
        return Finding::new(Verdict::WorseThanDefault, why).want("--localalloc");
    }
    match (nodes, memory) {
        (Some((nodes, of)), Some((memory, there))) if of != there => Finding::new(
            Verdict::WorseThanDefault,
            format!("runs on domain {nodes} with the memory of domain {memory}"),
        )
        .want(format!("--membind={nodes}")),
        (None, Some((memory, there))) => memory_alone(memory, &there, cores.as_deref(), &known),
        (Some(_), Some(_)) => Finding::ok("threads, and their memory, in the same domains"),
        (Some(_), None) => Finding::ok("threads, and the memory that they touch first, in these domains"),
        (None, None) if cores.is_some() => Finding::ok("threads on these cores, and what they touch first near them"),
        (None, None) if has(&["--localalloc", "-l"]) => {
            Finding::ok("memory in the domain of the core that touches it first; threads are not bound")
        }
        (None, None) => Finding::new(Verdict::Unknown, "what it asks for is not known to the catalogue"),
    }
}

/// Memory that is bound where threads are not: numactl(8), --membind names domains of memory alone.
fn memory_alone(memory: &str, there: &[u32], cores: Option<&[u32]>, known: &[(u32, Vec<u32>)]) -> Finding {
    let wanted = format!("--cpunodebind={memory} --membind={memory}");
    let Some(cores) = cores else {
        let others = known.len().saturating_sub(there.len());
        let reach = match known.len() {
            0 => String::new(),
            count => format!(", and those of {others} of {count} domains reach it across"),
        };
        let why = format!("binds no thread: they run on all cores{reach}");
        return Finding::new(Verdict::WorseThanDefault, why).want(wanted);
    };
    let near = |core: &u32| known.iter().any(|(number, those)| there.contains(number) && those.contains(core));
    if known.is_empty() || cores.iter().all(near) {
        return Finding::ok("threads on cores of the domain that their memory is in");
    }
    let far = cores.iter().filter(|core| !near(core)).count();
    let why = format!("{far} of {} cores are in another domain than the memory of {memory}", cores.len());
    Finding::new(Verdict::WorseThanDefault, why).want(wanted)
}

fn taskset(case: &Case<'_>) -> Finding {
    let mut words = case.value.split_whitespace();
    let flags: Vec<&str> = words.by_ref().take_while(|word| word.starts_with('-')).collect();
    let first = case.value.split_whitespace().nth(flags.len()).unwrap_or_default();
    let list = flags.iter().any(|flag| *flag == "--cpu-list" || !flag.starts_with("--") && flag.contains('c'));
    let cores = if list { cpu_list(first) } else { crate::cpu_mask(first) };
    match cores {
        _ if first.contains('$') => Finding::ok("binds it to the cores of a variable"),
        Some(cores) if !cores.is_empty() => {
            let ok = || Finding::ok(format!("binds it to {} cores, all its threads alike", cores.len()));
            lacking(case, &cores).unwrap_or_else(ok)
        }
        _ => Finding::new(Verdict::Refused, format!("{first} is no {} of cores", if list { "list" } else { "mask" })),
    }
}

fn devbind(case: &Case<'_>) -> Finding {
    match behind(case, &["-b", "--bind"]) {
        Some("vfio-pci") => Finding::ok("the device is this process's alone, behind the IOMMU"),
        Some(driver @ ("uio_pci_generic" | "igb_uio")) => {
            let why = format!("{driver} lets the device reach all memory");
            Finding::new(Verdict::WorseThanDefault, why).want("vfio-pci")
        }
        Some(driver) => Finding::ok(format!("back to {driver}")),
        None => Finding::new(Verdict::Unknown, "binds nothing"),
    }
}
