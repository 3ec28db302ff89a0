//! Fields of a PerformanceProfile: what the operator makes of them.

use super::{Known, See, known};
use See::{Cores, IfTrue, Is, Nothing, RealTime, Row, Unseen};

const KUBELET: See = Unseen("no rule of the audit reads the kubelet's configuration");
const CRIO: See = Unseen("no rule of the audit reads CRI-O's configuration");

/// Below `spec`.
pub(crate) const PROFILE: &[Known] = &[
    known(
        "cpu.isolated",
        "cores for pods alone: nohz_full, rcu_nocbs and isolcpus=managed_irq on the command line, \
         isolated_cores of tuned",
        "cpu.isolated",
        Row("cores without ticks"),
    ),
    known(
        "cpu.reserved",
        "cores for the system: the kubelet's reservedSystemCPUs, CRI-O's infra_ctr_cpuset, and with workload \
         partitioning \
         the cluster's own pods",
        "cpu.reserved",
        KUBELET,
    ),
    known(
        "cpu.offlined",
        "cores that a unit takes off line at boot (set-cpus-offline.service)",
        "cpu.offlined",
        Cores("cores off line"),
    ),
    known(
        "cpu.shared",
        "cores that pods may have beside their own (workloadHints.mixedCpus): CRI-O's shared_cpuset",
        "cpu.shared",
        CRIO,
    ),
    known(
        "cpu.ovsDpdk",
        "cores for Open vSwitch's pollers: isolated, and without interrupts (irqaffinity of all others)",
        "cpu.ovsDpdk",
        Cores("cores without ticks"),
    ),
    known(
        "cpu.balanceIsolated",
        "false: isolcpus=domain,… in place of managed_irq alone: the scheduler moves no thread to or from \
         isolated cores",
        "cpu.balanceIsolated",
        Unseen("cpu.isolated says which cores that is of"),
    ),
    known(
        "hardwareTuning.isolatedCpuFreq",
        "the highest frequency of isolated cores, in kHz: [sysfs] of tuned",
        "hardwareTuning",
        Unseen("no rule of the audit reads it"),
    ),
    known(
        "hardwareTuning.reservedCpuFreq",
        "the highest frequency of reserved cores, in kHz: [sysfs] of tuned",
        "hardwareTuning",
        Unseen("no rule of the audit reads it"),
    ),
    known(
        "hugepages.defaultHugepagesSize",
        "default_hugepagesz on the command line",
        "hugepages.defaultHugepagesSize",
        Row("cmdline default_hugepagesz"),
    ),
    known(
        "kernelPageSize",
        "64k: the kernel with pages of 64 KiB (kernelType of the MachineConfig)",
        "kernelPageSize",
        Unseen("no rule of the audit reads it"),
    ),
    known(
        "machineConfigLabel.*",
        "the label of the MachineConfig, by which pools take it",
        "machineConfigLabel",
        Nothing,
    ),
    known("machineConfigPoolSelector.*", "which pool the KubeletConfig is for", "machineConfigPoolSelector", Nothing),
    known("nodeSelector.*", "which nodes it is for: of RuntimeClass and Tuned", "nodeSelector", Nothing),
    known(
        "realTimeKernel.enabled",
        "kernelType of the MachineConfig: the kernel for real time",
        "realTimeKernel.enabled",
        RealTime,
    ),
    known("additionalKernelArgs[]", "an argument of the command line", "additionalKernelArgs", Nothing),
    known(
        "numa.topologyPolicy",
        "the kubelet's topologyManagerPolicy; with restricted and single-numa-node also its memory manager, with the \
         latter full-pcpus-only",
        "numa.topologyPolicy",
        KUBELET,
    ),
    known(
        "net.userLevelNetworking",
        "as many queue pairs as reserved cores: [net] of tuned",
        "net.userLevelNetworking",
        Unseen("which interfaces it is for is not said"),
    ),
    known("net.devices[].*", "which interfaces that is of", "net.devices", Nothing),
    known(
        "globallyDisableIrqLoadBalancing",
        "true: irqbalance is kept off isolated cores for good; false: CRI-O does so core by core, for pods that \
         ask for it",
        "globallyDisableIrqLoadBalancing",
        Unseen("irqbalance's configuration is read by no rule of the audit"),
    ),
    known(
        "workloadHints.realTime",
        "true, as where nothing is said: nosoftlockup, rcutree.kthread_prio=11, nmi_watchdog=0, mce=off and \
         tsc=reliable \
         on the command line, sysctls for pollers, and stalld",
        "workloadHints.realTime",
        IfTrue("cmdline rcutree.kthread_prio", "11"),
    ),
    known(
        "workloadHints.highPowerConsumption",
        "true: processor.max_cstate=1, intel_idle.max_cstate=0, and with realTime idle=poll",
        "workloadHints.highPowerConsumption",
        IfTrue("cmdline processor.max_cstate", "1"),
    ),
    known(
        "workloadHints.perPodPowerManagement",
        "true: intel_pstate or amd_pstate is passive, tuned leaves frequencies alone, and pods' annotations set them",
        "workloadHints.perPodPowerManagement",
        Unseen("which argument it is depends on the processor"),
    ),
    known(
        "workloadHints.mixedCpus",
        "true: pods may have shared cores beside their own",
        "workloadHints.mixedCpus",
        CRIO,
    ),
];

/// Annotations of a PerformanceProfile.
pub(crate) const ANNOTATIONS: &[Known] = &[
    known(
        "metadata.annotations.performance.openshift.io/enable-rps",
        "whether queues hand frames to reserved cores: a file of sysctl.d and a rule of udev",
        "metadata.annotations.performance.openshift.io/enable-rps",
        See::Nothing,
    ),
    known(
        "metadata.annotations.performance.openshift.io/enable-physical-dev-rps",
        "the same of physical interfaces",
        "",
        Nothing,
    ),
    known(
        "metadata.annotations.performance.openshift.io/pause-reconcile",
        "the operator leaves what it made as it is",
        "",
        Nothing,
    ),
    known(
        "metadata.annotations.performance.openshift.io/exec-cpu-affinity",
        "disable: programs that are started in a pod are not kept on its first core",
        "",
        CRIO,
    ),
    known(
        "metadata.annotations.performance.openshift.io/dra-resource-management",
        "the kubelet's managers of cores and memory are left to drivers of devices",
        "",
        KUBELET,
    ),
    known(
        "metadata.annotations.performance.openshift.io/cpu-load-balancing-ovs-dpdk",
        "disable: the scheduler does not balance cores of Open vSwitch's pollers",
        "cpu.ovsDpdk",
        Unseen("no rule of the audit reads it"),
    ),
    known(
        "metadata.annotations.performance.openshift.io/ignore-cgroups-version",
        "no mode of control groups is written",
        "",
        Is("cgroup version", "1"),
    ),
    known(
        "metadata.annotations.kubeletconfig.experimental",
        "fields of the kubelet beside those that the operator writes",
        "",
        KUBELET,
    ),
];
