//! Pods, and commands of ethtool that articles have people type.

use super::profile::pages_for;
use crate::advice::quantity;
use crate::rule::{Area, Judge, Probe, Rule, Verdict};
use crate::{Case, Finding};

use Judge::By;
use Verdict::{Conflicts, Improvable, NoEffect, Unreadable, WorseThanDefault};

const CRIO: &str = "CRI-O, high-performance runtime handler; OpenShift, Low latency tuning";
const KUBERNETES: &str = "Kubernetes, CPU management policies; Pod quality of service";
const ETHTOOL: &str = "man 8 ethtool";

const fn rule(
    area: Area,
    source: &'static str,
    key: &'static str,
    judge: fn(&Case<'_>) -> Finding,
    explain: &'static str,
) -> Rule {
    let rule = Rule::sysctl(area, key, By(judge), explain).source(source).undo("leave it out");
    Rule { probe: Probe::Advice, ..rule }
}

const fn of_pod(
    source: &'static str,
    key: &'static str,
    judge: fn(&Case<'_>) -> Finding,
    explain: &'static str,
) -> Rule {
    rule(Area::Services, source, key, judge, explain)
}

pub(super) const RULES: &[Rule] = &[
    of_pod(
        CRIO,
        "Pod runtimeClassName",
        runtime_class,
        "The handler that a pod runs under: annotations of low latency act only under performance-NAME, NAME \
            being the PerformanceProfile's.",
    ),
    of_pod(
        KUBERNETES,
        "Pod quality of service",
        quality,
        "Guaranteed with whole cores is what the static CPU manager gives cores for; all else shares what is left.",
    ),
    of_pod(
        CRIO,
        "Pod cpu-quota.crio.io",
        annotation,
        "disable: no quota for the pod's cores, so it is never throttled.",
    ),
    of_pod(
        CRIO,
        "Pod cpu-load-balancing.crio.io",
        annotation,
        "disable: the scheduler does not move threads among the pod's cores; each must be pinned.",
    )
    .risk("threads that are not pinned stay on one core"),
    of_pod(
        CRIO,
        "Pod irq-load-balancing.crio.io",
        annotation,
        "disable: device interrupts keep off the pod's cores while it runs.",
    ),
    of_pod(
        CRIO,
        "Pod cpu-c-states.crio.io",
        annotation,
        "disable, enable or max_latency:MICROSECONDS: idle states of the pod's cores; needs perPodPowerManagement.",
    ),
    of_pod(
        CRIO,
        "Pod cpu-freq-governor.crio.io",
        annotation,
        "The governor of the pod's cores; needs perPodPowerManagement.",
    ),
    of_pod(
        KUBERNETES,
        "Pod cpu",
        cpu,
        "Cores of a container. Whole ones, and with full-pcpus-only as many as cores have threads, times some.",
    ),
    of_pod(
        KUBERNETES,
        "Pod memory",
        |case| match quantity(case.value) {
            Some(_) => Finding::ok("a limit; huge pages are counted apart"),
            None => Finding::new(Unreadable, "is no quantity"),
        },
        "Memory of a container, without its huge pages.",
    ),
    of_pod(
        KUBERNETES,
        "Pod hugepages-1Gi",
        |case| huge_pages(case, "1Gi"),
        "Pages of 1 GB of a container: of one domain, where the policy is single-numa-node.",
    ),
    of_pod(
        KUBERNETES,
        "Pod hugepages-2Mi",
        |case| huge_pages(case, "2Mi"),
        "Pages of 2 MB of a container: of one domain, where the policy is single-numa-node.",
    ),
    of_pod(
        "the machine itself",
        "another kind",
        |_| {
            Finding::new(
                NoEffect,
                "a kind of object by which nothing of the node is set, as far as the catalogue knows",
            )
        },
        "An object that sets nothing of the node.",
    ),
    rule(
        Area::Nic,
        ETHTOOL,
        "ethtool -G",
        rings,
        "Descriptors of rings. More than the driver's most is refused, and nothing of the line is set.",
    )
    .risk("the link may go down for a moment; larger rings take more cache"),
    rule(
        Area::Nic,
        ETHTOOL,
        "ethtool -C",
        coalescing,
        "How long the interface waits before it interrupts. Of several values on a line, one that the driver \
            does not have refuses them all.",
    ),
    rule(
        Area::Nic,
        ETHTOOL,
        "ethtool -L",
        |case| match most(case, "channels", "pairs") {
            Some(most) if after(case.value, "combined").is_some_and(|wanted| wanted > most) => {
                Finding::new(NoEffect, format!("the driver has {most} at most, and refuses more"))
            }
            _ => Finding::ok("a queue for each worker is right; the link goes down for a moment"),
        },
        "Queues of an interface.",
    )
    .risk("the link goes down for a moment"),
    rule(
        Area::Nic,
        ETHTOOL,
        "ethtool -K",
        |case| {
            let off = |name: &str| case.value.split_whitespace().skip_while(|word| *word != name).nth(1) == Some("off");
            match ["gro", "tso", "gso", "rx", "tx", "sg"].into_iter().find(|name| off(name)) {
                Some(name) if case.role.kernel_tcp() => Finding::new(
                    WorseThanDefault,
                    format!("{name} off: each segment passes the stack on its own, or is summed by the processor"),
                ),
                _ if off("lro") => Finding::ok("right where packets are forwarded or bridged"),
                _ => Finding::ok("offloads as asked; the driver refuses what it does not have"),
            }
        },
        "Offloads of an interface.",
    ),
    rule(
        Area::Nic,
        ETHTOOL,
        "ethtool -A",
        |case| match case.value.contains("off") {
            true if case.role.polls() => Finding::ok(
                "a full ring loses packets instead of making the whole \
                link wait",
            ),
            true => Finding::ok("loss instead of waiting"),
            false => Finding::new(Improvable, "one full ring makes all flows of the link wait"),
        },
        "Pause frames (IEEE 802.3 annex 31B).",
    ),
];

/// The annotations of the same pod.
fn annotated(case: &Case<'_>) -> bool {
    case.others.iter().any(|other| {
        other.subject == case.subject
            && other.key.starts_with(
                "Pod \
            ",
            )
            && other.key.ends_with(".crio.io")
    })
}

fn runtime_class(case: &Case<'_>) -> Finding {
    match case.value {
        "" if annotated(case) => {
            Finding::new(Conflicts, "is missing, so the annotations do nothing").want("performance-NAME")
        }
        "" => Finding::ok("the usual handler; no annotation asks for more"),
        class if class.starts_with("performance-") => Finding::ok("CRI-O's handler that acts upon the annotations"),
        _ if annotated(case) => Finding::new(
            Improvable,
            "whether this class acts upon the annotations, its handler tells: high-performance does",
        )
        .want("performance-NAME"),
        _ => Finding::ok("another handler"),
    }
}

fn quality(case: &Case<'_>) -> Finding {
    match (case.value, annotated(case)) {
        ("Guaranteed, whole cores", _) => Finding::ok("gets cores for itself, under the static CPU manager"),
        (_, true) => Finding::new(
            Conflicts,
            "its annotations are for whole cores of its own, which only Guaranteed pods with whole cores get: \
                requests = limits, for cpu and memory, in each container",
        ),
        ("Guaranteed, parts of cores", false) => Finding::ok(
            "runs on shared cores: parts of cores are never \
            its own",
        ),
        _ => Finding::ok("runs on shared cores"),
    }
}

fn annotation(case: &Case<'_>) -> Finding {
    match case.of_same("Pod runtimeClassName") {
        None | Some("") => return Finding::new(Conflicts, "does nothing without runtimeClassName: performance-NAME"),
        Some(_) => {}
    }
    match case.value {
        "true" => {
            Finding::new(WorseThanDefault, "an old value, which CRI-O of today does not act upon").want("disable")
        }
        _ => Finding::ok("acts while the pod runs"),
    }
}

fn cpu(case: &Case<'_>) -> Finding {
    let Some(milli) = quantity(case.value) else { return Finding::new(Unreadable, "is no quantity") };
    let full = case.advised("KubeletConfig cpuManagerPolicyOptions.full-pcpus-only") != Some("false")
        && case.others.iter().any(|other| other.key.starts_with("PerformanceProfile "));
    match milli {
        milli if milli % 1_000 != 0 => Finding::ok("a part of a core: shared ones"),
        milli if full && milli / 1_000 % 2 == 1 => Finding::new(
            Improvable,
            "an odd number: with full-pcpus-only the pod is not admitted on a machine whose cores have two threads",
        ),
        milli => Finding::ok(format!("{} whole cores", milli / 1_000)),
    }
}

fn huge_pages(case: &Case<'_>, size: &str) -> Finding {
    let (Some(wanted), Some(page)) = (quantity(case.value), quantity(size)) else {
        return Finding::new(Unreadable, "is no quantity");
    };
    if wanted % page != 0 {
        return Finding::new(Conflicts, format!("is no whole number of pages of {size}"));
    }
    let wanted = wanted / page;
    let Some((all, one, known)) = pages_for(case, size) else {
        return match case.others.iter().any(|other| other.key.starts_with("PerformanceProfile ")) {
            true => Finding::new(Conflicts, format!("the PerformanceProfile sets no pages of {size} aside")),
            false => Finding::ok(format!("{wanted} pages of {size}, if the node has them")),
        };
    };
    let policy = case
        .advised("PerformanceProfile numa.topologyPolicy")
        .or_else(|| case.advised("KubeletConfig topologyManagerPolicy"));
    match wanted {
        wanted if wanted > all => Finding::new(
            Conflicts,
            format!("{wanted} pages of {size}, and the profile has {all}: the pod stays pending"),
        ),
        wanted if wanted > one && policy == Some("single-numa-node") && !known => Finding::new(
            Improvable,
            format!(
                "{wanted} pages of {size}: if the node has two domains (--root with its recording tells), of the \
                 profile's {all} a domain has {one}, and under single-numa-node the pod is not admitted"
            ),
        ),
        wanted if wanted > one && policy == Some("single-numa-node") => Finding::new(
            Conflicts,
            format!(
                "{wanted} pages of {size}, and of the profile's {all} a domain has {one}: under \
                    single-numa-node the pod is not admitted"
            ),
        ),
        _ if known => Finding::ok(format!("{wanted} of {all} pages, {one} of one domain")),
        _ => Finding::ok(format!("{wanted} of {all} pages")),
    }
}

fn after(text: &str, name: &str) -> Option<u64> {
    text.split([' ', ',']).filter(|word| !word.is_empty()).skip_while(|word| *word != name).nth(1)?.parse().ok()
}

/// The most that the interface's driver told of, here.
fn most(case: &Case<'_>, file: &str, name: &str) -> Option<u64> {
    let told = case.evidence.get(&format!("ethtool/{}/{file}", case.subject))?;
    after(told.split(',').find(|part| part.trim_start().starts_with(name))?, "of")
}

fn rings(case: &Case<'_>) -> Finding {
    let over = ["rx", "tx"].into_iter().find_map(|way| {
        let (wanted, most) = (after(case.value, way)?, most(case, "rings", way)?);
        (wanted > most).then_some((way, most))
    });
    match (over, after(case.value, "rx")) {
        (Some((way, most)), _) => {
            Finding::new(NoEffect, format!("the driver has {most} for {way} at most, and refuses the whole line"))
                .want(format!("{way} {most}"))
        }
        (None, Some(wanted)) if wanted > 4_096 => Finding::new(
            NoEffect,
            "many drivers have 4,096 at most (e1000e, igb), and refuse the whole line; see ethtool -g",
        ),
        _ => Finding::ok("worth it only where rx_missed_errors or rx_fifo_errors rise; larger rings take more cache"),
    }
}

fn coalescing(case: &Case<'_>) -> Finding {
    match after(case.value, "rx-usecs") {
        Some(micros) if micros > 100 => Finding::new(
            WorseThanDefault,
            format!(
                "for throughput only: a request that comes alone waits {micros} us; drivers without \
                adaptive-tx refuse the whole line if it is on it"
            ),
        )
        .want("rx-usecs 0 to 10, or napi_defer_hard_irqs with gro_flush_timeout"),
        Some(_) => Finding::ok("short; drivers without one of the line's values refuse it whole"),
        None => Finding::ok("without a delay in it"),
    }
}
