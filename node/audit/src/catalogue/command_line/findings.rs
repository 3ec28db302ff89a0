//! What is found of each argument.

use crate::evidence::cpu_list;
use crate::rule::Verdict;
use crate::{Case, Finding};

use Verdict::{Conflicts, Dangerous, Improvable, NoEffect as Nothing, Unnecessary, WorseThanDefault};

/// The verdict on an argument that is there; without it all is well.
pub(super) fn given(case: &Case<'_>, verdict: Verdict, why: &str) -> Finding {
    if case.value.is_empty() { Finding::ok("not given") } else { Finding::new(verdict, why) }
}

pub(super) fn off_is_dangerous(case: &Case<'_>) -> Finding {
    match case.value {
        "off" => Finding::new(Dangerous, "programs can read memory that is not theirs on processors with that fault"),
        _ => Finding::ok("as the processor needs it"),
    }
}

/// A list of cores behind flags with commas, as `managed_irq,domain,2-5`.
fn behind_flags(value: &str) -> (Vec<&str>, Option<Vec<u32>>) {
    let parts = value.split(',');
    let flags: Vec<&str> =
        parts.take_while(|part| part.starts_with(|char: char| char.is_ascii_alphabetic()) && *part != "all").collect();
    let skipped: usize = flags.iter().map(|flag| flag.len() + 1).sum();
    let list = value.get(skipped..).unwrap_or_default();
    (flags, cpu_list(list))
}

/// Whether the cores leave something for everything else.
fn leaves_none(case: &Case<'_>, cores: &[u32]) -> bool {
    let online = case.evidence.cores();
    !online.is_empty() && online.iter().all(|core| cores.contains(core))
}

pub(super) fn isolcpus(case: &Case<'_>) -> Finding {
    if case.value.is_empty() {
        return match case.role.polls() && case.evidence.cores().len() > 2 && case.evidence.isolated().is_empty() {
            true => Finding::new(Improvable, "nothing keeps other programs off polling cores")
                .want("cpuset.cpus.partition=isolated, or managed_irq,domain,CORES"),
            false => Finding::ok("not given"),
        };
    }
    let (flags, cores) = behind_flags(case.value);
    let Some(cores) = cores else { return Finding::new(Nothing, "is no list of cores; the kernel ignores it") };
    if leaves_none(case, &cores) {
        return Finding::new(Dangerous, "no core is left for anything else");
    }
    if let Some(finding) = beside_profile(case, &cores) {
        return finding;
    }
    if !flags.contains(&"managed_irq") && case.role.polls() {
        return Finding::new(
            Improvable,
            "interrupts of multi-queue devices, which cannot be moved, may come to these cores",
        )
        .want(format!("managed_irq,{}", case.value));
    }
    Finding::ok("the scheduler leaves these cores alone")
}

pub(super) fn nohz_full(case: &Case<'_>) -> Finding {
    if case.value.is_empty() {
        return Finding::ok("not given");
    }
    let Some(cores) = cpu_list(case.value) else {
        return Finding::new(Nothing, "is no list of cores; the kernel ignores it");
    };
    if leaves_none(case, &cores) {
        return Finding::new(
            Dangerous,
            "the boot core is left out by the kernel, and nothing else is for housekeeping",
        );
    }
    if let Some(finding) = beside_profile(case, &cores) {
        return finding;
    }
    // A kernel that has it tells which cores; without the configuration there is no file.
    let known = case.evidence.get("sys/devices/system/cpu/nohz_full").is_some();
    match known {
        false if !case.advised => Finding::new(Nothing, "this kernel has no CONFIG_NO_HZ_FULL"),
        _ if !case.role.polls() => {
            Finding::new(WorseThanDefault, "this role makes many system calls, which cost more there")
        }
        _ => Finding::ok("no ticks there while one thread runs; rcu_nocbs comes with it"),
    }
}

/// What there is to say of cores that are not those of the PerformanceProfile
/// beside them, or that the node lacks.
fn beside_profile(case: &Case<'_>, cores: &[u32]) -> Option<Finding> {
    if let Some(core) = case.lacks(cores) {
        return Some(Finding::new(Conflicts, format!("the node has no core {core}")));
    }
    let isolated = cpu_list(case.advised("PerformanceProfile cpu.isolated")?)?;
    let more = cores.iter().find(|core| !isolated.contains(core));
    let less = isolated.iter().find(|core| !cores.contains(core));
    let why = match (more, less) {
        (Some(core), _) => format!("has core {core} in it, which cpu.isolated has not"),
        (None, Some(core)) => format!("lacks core {core}, which cpu.isolated has"),
        (None, None) => return None,
    };
    let why = format!("{why}: the operator writes the set of cpu.isolated itself, and of two the last counts");
    Some(Finding::new(Conflicts, why).want("nothing: cpu.isolated alone"))
}

pub(super) fn rcu_nocbs(case: &Case<'_>) -> Finding {
    if let Some(finding) =
        cpu_list(case.value).filter(|cores| !cores.is_empty()).and_then(|cores| beside_profile(case, &cores))
    {
        return finding;
    }
    match (case.value, case.argument("nohz_full")) {
        ("", _) => Finding::ok("not given"),
        (own, Some(nohz)) if cpu_list(own).is_some() && cpu_list(own) == cpu_list(nohz) => {
            Finding::new(Unnecessary, "nohz_full implies it for the same cores")
        }
        _ => Finding::ok("callbacks of these cores run elsewhere"),
    }
}

pub(super) fn irqaffinity(case: &Case<'_>) -> Finding {
    let isolated = case.argument("isolcpus").map(|value| behind_flags(value).1.unwrap_or_default()).unwrap_or_default();
    match (case.value, cpu_list(case.value)) {
        ("", _) => Finding::ok("not given: all cores, but those of isolcpus"),
        (_, None) => Finding::new(Nothing, "is no list of cores; the kernel ignores it"),
        (_, Some(cores)) if cores.iter().any(|core| isolated.contains(core)) => {
            Finding::new(Conflicts, "has cores in it that isolcpus isolates")
        }
        _ => Finding::ok("interrupts go there by default"),
    }
}

pub(super) fn idle(case: &Case<'_>) -> Finding {
    match case.value {
        "" => Finding::ok("not given: cores sleep when they have nothing to do"),
        "poll"
            if case.argument("processor.max_cstate").is_some() || case.argument("intel_idle.max_cstate").is_some() =>
        {
            Finding::new(
                WorseThanDefault,
                "no turbo, heat; and processor.max_cstate and intel_idle.max_cstate beside it do nothing",
            )
            .want("nothing; /dev/cpu_dma_latency while it is needed")
        }
        "poll" => Finding::new(WorseThanDefault, "no turbo, heat, and siblings that wait take half of their cores")
            .want("nothing; /dev/cpu_dma_latency while it is needed"),
        "halt" | "nomwait" => {
            Finding::new(Improvable, "idle states of the processor are not used as it has them").want("nothing")
        }
        _ => Finding::new(Nothing, "is no value of it"),
    }
}

pub(super) fn max_cstate(case: &Case<'_>) -> Finding {
    match case.value {
        "" => Finding::ok("not given"),
        _ if case.argument("idle") == Some("poll") => {
            Finding::new(Unnecessary, "redundant: with idle=poll no core sleeps")
        }
        _ if case.argument("intel_idle.max_cstate") == Some("0") => Finding::new(
            Improvable,
            "acpi_idle, which takes over from intel_idle, sleeps lightly for ever, needed or not",
        )
        .want("a bound by /dev/cpu_dma_latency"),
        _ if case.evidence.get("sys/devices/system/cpu/cpuidle/current_driver") == Some("intel_idle") => {
            Finding::new(Nothing, "intel_idle is in use, which looks at intel_idle.max_cstate")
        }
        _ => Finding::new(Improvable, "cores sleep lightly for ever, needed or not")
            .want("a bound by /dev/cpu_dma_latency"),
    }
}

pub(super) fn intel_idle(case: &Case<'_>) -> Finding {
    match case.value {
        "" => Finding::ok("not given"),
        "0" if case.argument("idle") == Some("poll") => Finding::new(
            Unnecessary,
            "redundant: with idle=poll no core sleeps, whichever driver there is; it has nothing to do with \
             intel_pstate",
        ),
        "0" if case.argument("processor.max_cstate").is_some_and(|most| matches!(most, "0" | "1")) => Finding::ok(
            "turns intel_idle off, so that processor.max_cstate, which is acpi_idle's, counts: no deeper than that; \
             it has nothing to do with intel_pstate",
        ),
        "0" => Finding::new(
            WorseThanDefault,
            "turns intel_idle off, and acpi_idle may sleep deeper than before; it has nothing to do with \
                intel_pstate",
        )
        .want("1, or a bound by /dev/cpu_dma_latency"),
        _ => Finding::new(Improvable, "cores sleep lightly for ever, needed or not")
            .want("a bound by /dev/cpu_dma_latency"),
    }
}

pub(super) fn intel_pstate(case: &Case<'_>) -> Finding {
    match case.value {
        "disable" => {
            Finding::new(Improvable, "leaves frequencies to acpi-cpufreq, which knows a few steps").want("nothing")
        }
        "passive" | "active" | "no_hwp" | "hwp_only" | "force" | "support_acpi_ppc" | "per_cpu_perf_limits" => {
            Finding::ok("a mode of the driver")
        }
        "" => Finding::ok("not given"),
        _ => Finding::new(Nothing, "is no mode of it"),
    }
}

pub(super) fn mitigations(case: &Case<'_>) -> Finding {
    match case.value {
        "off" => Finding::new(
            Dangerous,
            "every program and guest can read others' memory; only by name, and for laboratories",
        ),
        "" => Finding::ok("not given: as the processor needs it"),
        _ => Finding::ok("as the processor needs it"),
    }
}

pub(super) fn mce(case: &Case<'_>) -> Finding {
    match case.value {
        "off" => Finding::new(
            Dangerous,
            "turns ALL machine checks off: memory goes bad in \
            silence",
        )
        .want("ignore_ce"),
        "ignore_ce" | "no_cmci" => Finding::ok("corrected errors are not looked for: no interruptions by that"),
        "" => Finding::ok("not given: errors of the machine are told"),
        _ => Finding::ok("machine checks stay on"),
    }
}

pub(super) fn tsc(case: &Case<'_>) -> Finding {
    match case.value {
        "reliable" | "nowatchdog"
            if case
                .evidence
                .get("sys/devices/system/clocksource/clocksource0/current_clocksource")
                .is_some_and(|name| name != "tsc") =>
        {
            Finding::new(Nothing, "the TSC is not the clock here")
        }
        "reliable" | "nowatchdog" => {
            Finding::ok("not checked against another clock: right on machines of one or two sockets of today")
        }
        "unstable" => Finding::new(WorseThanDefault, "gives the best clock up").want("nothing"),
        _ => Finding::ok("as the kernel finds it"),
    }
}

pub(super) fn kthread_prio(case: &Case<'_>) -> Finding {
    match case.number() {
        _ if case.value.is_empty() => {
            Finding::ok("not given: RCU's threads are ordinary, or at 1 on real-time kernels")
        }
        Some(0) => Finding::ok("ordinary threads: right where nothing runs at FIFO"),
        Some(priority) if priority <= 99 => Finding::ok(format!(
            "above threads at FIFO:{} and below, so that they cannot stall grace periods",
            priority.saturating_sub(1)
        )),
        _ => Finding::new(Nothing, "is no priority"),
    }
}

pub(super) fn iommu(case: &Case<'_>) -> Finding {
    match case.value {
        "pt" => Finding::ok("devices of the kernel are not translated"),
        "off" if case.role.polls() => {
            Finding::new(Improvable, "vfio needs it: DPDK would run without any guard").want("pt")
        }
        _ => Finding::ok("as the firmware has it"),
    }
}

pub(super) fn hugepages(case: &Case<'_>) -> Finding {
    let size = match case.argument("hugepagesz").or_else(|| case.argument("default_hugepagesz")) {
        Some(size) if size.eq_ignore_ascii_case("1G") => 1_u64 << 30,
        _ => 2 << 20,
    };
    let memory = case.evidence.memory().unwrap_or(u64::MAX);
    match case.number() {
        _ if case.value.is_empty() => Finding::ok("not given"),
        Some(number) if number.saturating_mul(size) > memory / 10 * 9 => Finding::new(
            Dangerous,
            format!(
                "{} of a memory of {}: the machine does not start, or not with what it needs",
                crate::catalogue::tcp_limits::bytes(number.saturating_mul(size)),
                crate::catalogue::tcp_limits::bytes(memory)
            ),
        ),
        Some(number) => Finding::ok(format!(
            "{} set aside at boot",
            crate::catalogue::tcp_limits::bytes(number.saturating_mul(size))
        )),
        // NODE:NUMBER, since Linux 5.16.
        None => Finding::ok("by domain"),
    }
}
