//! What OpenShift's operator makes of a PerformanceProfile: the kernel's
//! command line and the kubelet's policies, by version and hints.

use crate::cores::{list, mask};
use crate::shape::Vendor;
use crate::wanted::Version;

/// What of a PerformanceProfile decides arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hints {
    /// cpu.isolated.
    pub isolated: Vec<u32>,
    /// All cores that are not isolated.
    pub others: Vec<u32>,
    /// cpu.balanceIsolated is false.
    pub static_isolation: bool,
    /// workloadHints.realTime; true where nothing is said.
    pub real_time: bool,
    /// workloadHints.highPowerConsumption.
    pub high_power: bool,
    /// workloadHints.perPodPowerManagement.
    pub power_by_pod: bool,
    /// hugepages.defaultHugepagesSize.
    pub default_pages: Option<String>,
    /// hugepages.pages: size, number, and whether a domain is named.
    pub pages: Vec<(String, u64, bool)>,
    /// additionalKernelArgs.
    pub additional: Vec<String>,
}

/// The arguments that the operator writes, in no order that matters; what
/// tuned chooses on the node itself (`intel_pstate` from 4.16 on) is left out.
#[must_use]
pub fn operator_arguments(version: Version, vendor: Vendor, hints: &Hints) -> Vec<String> {
    let isolated = list(&hints.isolated);
    let mut arguments = vec![
        "nohz=on".to_owned(),
        format!("rcu_nocbs={isolated}"),
        format!("tuned.non_isolcpus={}", mask(&hints.others)),
        format!("systemd.cpu_affinity={}", hints.others.iter().map(u32::to_string).collect::<Vec<_>>().join(",")),
        match hints.static_isolation {
            true => format!("isolcpus=domain,managed_irq,{isolated}"),
            false => format!("isolcpus=managed_irq,{isolated}"),
        },
    ];
    let mut add = |words: &str| arguments.extend(words.split_whitespace().map(str::to_owned));
    // Before 4.16 there was one template for all processors.
    let by_vendor = version >= Version(4, 16);
    let (intel, x86) = match vendor {
        _ if !by_vendor => (true, true),
        Vendor::Intel => (true, true),
        Vendor::Amd => (false, true),
        Vendor::Arm | Vendor::Unknown => (false, false),
    };
    add(iommu(version, vendor, intel, x86));
    let always_tickless = version >= Version(4, 23);
    if hints.real_time || always_tickless {
        add(&format!("nohz_full={isolated} skew_tick=1"));
    }
    if hints.real_time {
        add("nosoftlockup rcutree.kthread_prio=11");
        if x86 {
            add("nmi_watchdog=0 mce=off");
            add(if version >= Version(4, 13) { "tsc=reliable" } else { "tsc=nowatchdog" });
        }
    }
    if hints.high_power && x86 {
        add("processor.max_cstate=1");
        if intel {
            add("intel_idle.max_cstate=0");
        }
        if hints.real_time {
            add("idle=poll");
        }
    }
    match (by_vendor, vendor) {
        (false, _) if hints.power_by_pod => add("intel_pstate=passive"),
        (false, _) if hints.real_time => add("intel_pstate=disable"),
        (true, Vendor::Amd) => add(if hints.power_by_pod { "amd_pstate=passive" } else { "amd_pstate=guided" }),
        (true, Vendor::Intel) if hints.power_by_pod => add("intel_pstate=passive"),
        _ => {}
    }
    if let Some(size) = &hints.default_pages {
        add(&format!("default_hugepagesz={size}"));
    }
    for (size, count, _) in hints.pages.iter().filter(|(.., of_domain)| !of_domain) {
        add(&format!("hugepagesz={size} hugepages={count}"));
    }
    let small = || hints.pages.iter().filter(|(size, ..)| size == "2M");
    // Only by domain: the pool must be there for the unit that fills it.
    if hints.default_pages.as_deref() == Some("1G")
        && small().next().is_some()
        && small().all(|(.., of_domain)| *of_domain)
    {
        add("hugepagesz=2M hugepages=0");
    }
    arguments.extend(hints.additional.iter().cloned());
    arguments
}

/// Arguments about the IOMMU.
fn iommu(version: Version, vendor: Vendor, intel: bool, x86: bool) -> &'static str {
    match (intel, x86) {
        (true, _) => "intel_iommu=on iommu=pt",
        (_, true) => "iommu=pt",
        // Which later versions leave to the kernel's own default.
        _ if vendor == Vendor::Arm && version < Version(4, 19) => "iommu.passthrough=1",
        _ => "",
    }
}

/// What the operator writes into the kubelet's configuration, by path and
/// value; `policy` is numa.topologyPolicy.
#[must_use]
pub fn operator_kubelet(version: Version, reserved: &[u32], policy: Option<&str>) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut add = |path: &str, value: &str| all.push((path.to_owned(), value.to_owned()));
    add("cpuManagerPolicy", "static");
    add("cpuManagerReconcilePeriod", "5s");
    add("evictionHard.memory.available", "100Mi");
    if version >= Version(4, 12) {
        add("evictionHard.nodefs.available", "10%");
        add("evictionHard.imagefs.available", "15%");
        add("evictionHard.nodefs.inodesFree", "5%");
    }
    add("kubeReserved.memory", "500Mi");
    add("systemReserved.memory", "500Mi");
    add("reservedSystemCPUs", &list(reserved));
    add("topologyManagerPolicy", policy.unwrap_or("best-effort"));
    if matches!(policy, Some("restricted" | "single-numa-node")) {
        add("memoryManagerPolicy", "Static");
        // The sum of what is reserved and of the mark at which pods are
        // evicted, all of it on the first domain.
        add("reservedMemory.limits.memory", "1100Mi");
        add("reservedMemory.numaNode", "0");
    }
    if policy == Some("single-numa-node") {
        add("cpuManagerPolicyOptions.full-pcpus-only", "true");
    }
    all
}
