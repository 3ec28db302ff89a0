//! Files and units of a MachineConfig, and what stands in them.

use super::{Known, See, known};
use See::{Nothing, Row, Unseen};

const CRIO_UNREAD: See = Unseen("no rule of the audit reads CRI-O's configuration");
const UNITS_UNSEEN: See = Unseen("an audit's pod does not see which units have run");
const RESERVED: &str = "cpu.reserved";

/// By their paths.
pub(crate) const FILES: &[Known] = &[
    known(
        "/usr/local/bin/hugepages-allocation.sh",
        "sets huge pages of one domain aside, for units that say how many",
        "hugepages.pages[].node",
        Nothing,
    ),
    known(
        "/usr/local/bin/set-cpus-offline.sh",
        "takes cores off line, for the unit that says which",
        "cpu.offlined",
        Nothing,
    ),
    known(
        "/usr/local/bin/clear-irqbalance-banned-cpus.sh",
        "writes irqbalance's list of banned cores anew, and CRI-O's copy of it, which pods' hooks go on from",
        "globallyDisableIrqLoadBalancing",
        Nothing,
    ),
    known(
        "/usr/local/bin/cpuset-configure.sh",
        "on control groups of version 1: services of the system get a group of their own, so that pods can have \
         cores \
         that the scheduler does not balance",
        RESERVED,
        Nothing,
    ),
    known(
        "/usr/local/bin/set-rps-mask.sh",
        "writes which cores the queues of an interface hand frames to",
        RESERVED,
        Nothing,
    ),
    known(
        "/usr/local/bin/ovs-dpdk-cpus-configure.sh",
        "takes the cores of Open vSwitch's pollers out of balancing",
        "cpu.ovsDpdk",
        Nothing,
    ),
    known(
        "/etc/crio/crio.conf.d/99-runtimes.conf",
        "the handler of CRI-O that pods of the RuntimeClass have",
        RESERVED,
        Nothing,
    ),
    known(
        "/etc/crio/crio.conf.d/99-workload-pinning.conf",
        "where CRI-O puts the cluster's own pods",
        RESERVED,
        Nothing,
    ),
    known(
        "/etc/crio/crio.conf.d/01-workload-pinning-default.conf",
        "workload partitioning is on, and any core will do until a profile says which",
        "",
        Nothing,
    ),
    known("/etc/crio/crio.conf.d/*", "CRI-O's configuration", "", Nothing),
    known(
        "/etc/kubernetes/openshift-workload-pinning",
        "workload partitioning: the kubelet counts cores of the cluster's own pods apart",
        RESERVED,
        Nothing,
    ),
    known("/etc/systemd/system/ovs.slice", "a group for Open vSwitch, which may run on all cores", "", Nothing),
    known("/etc/systemd/system/*.service.d/*", "adds to the unit of this name", "", Nothing),
    known("/etc/sysconfig/stalld-backend", "how stalld sees threads that wait", "workloadHints.realTime", Nothing),
    known(
        "/var/lib/ovn-ic/etc/enable_dynamic_cpu_affinity",
        "Open vSwitch may use the cores that no pod has alone: that the file is there, and not empty, says so",
        "",
        Unseen("the folder is not given to an audit's pod"),
    ),
    known("/etc/sysctl.d/*", "settings of the kernel, written at boot", "", Nothing),
    known(
        "/etc/udev/rules.d/99-netdev-physical-rps.rules",
        "starts a unit for each queue of an interface that comes",
        RESERVED,
        Nothing,
    ),
];

/// Commands of scripts that change something, by the script and the command, with a blank between them.
pub(crate) const SCRIPTS: &[Known] = &[
    known(
        "/usr/local/bin/hugepages-allocation.sh echo \"${HUGEPAGES_COUNT}\" >\"${hugepages_file}\"",
        "writes the number of pages into the kernel's file of that domain",
        "hugepages.pages[].count",
        Nothing,
    ),
    known(
        "/usr/local/bin/set-cpus-offline.sh echo 0 > \"${online_cpu_file}\"",
        "takes a core off line",
        "cpu.offlined",
        Nothing,
    ),
    known(
        "/usr/local/bin/clear-irqbalance-banned-cpus.sh ${SED} -i *",
        "takes the list of banned cores out of irqbalance's configuration",
        "",
        Nothing,
    ),
    known(
        "/usr/local/bin/clear-irqbalance-banned-cpus.sh echo \"IRQBALANCE_BANNED_CPUS=*\" >> *",
        "no core is banned, but those of Open vSwitch's pollers",
        "globallyDisableIrqLoadBalancing",
        Nothing,
    ),
    known(
        "/usr/local/bin/clear-irqbalance-banned-cpus.sh * > *CRIO_ORIG_BANNED_CPUS*",
        "CRI-O goes back to the same list",
        "",
        Nothing,
    ),
    known(
        "/usr/local/bin/cpuset-configure.sh echo 0 > *cpuset.sched_load_balance",
        "the scheduler balances nothing across this group",
        "",
        Nothing,
    ),
    known(
        "/usr/local/bin/cpuset-configure.sh reserved_set=$(taskset *",
        "reads which cores systemd may run on",
        RESERVED,
        Nothing,
    ),
    known("/usr/local/bin/cpuset-configure.sh mkdir -p *", "makes a group", "", Nothing),
    known(
        "/usr/local/bin/cpuset-configure.sh *cpuset.mems* > *cpuset.mems",
        "the group has memory of all domains",
        "",
        Nothing,
    ),
    known("/usr/local/bin/cpuset-configure.sh *> *cpuset.cpus", "the group has these cores", RESERVED, Nothing),
    known(
        "/usr/local/bin/cpuset-configure.sh *\"$reserved_set\" > \"$file\"*",
        "groups below have these cores",
        RESERVED,
        Nothing,
    ),
    known("/usr/local/bin/cpuset-configure.sh *> *cgroup.procs*", "moves a process into the group", "", Nothing),
    known(
        "/usr/local/bin/set-rps-mask.sh echo \"${mask}\" > *",
        "the queue hands frames to these cores",
        RESERVED,
        Nothing,
    ),
];

/// Options of CRI-O, by section and name.
pub(crate) const CRIO: &[Known] = &[
    known("[crio.runtime] infra_ctr_cpuset", "pods' own infrastructure runs on these cores", RESERVED, CRIO_UNREAD),
    known(
        "[crio.runtime] min_injected_gomaxprocs",
        "programs in Go are told of this many cores at least",
        "",
        CRIO_UNREAD,
    ),
    known("[crio.runtime] shared_cpuset", "cores that pods may have beside their own", "cpu.shared", CRIO_UNREAD),
    known("[crio.runtime.runtimes.*] runtime_path", "the program that starts containers", "", CRIO_UNREAD),
    known("[crio.runtime.runtimes.*] runtime_type", "how it is spoken to", "", CRIO_UNREAD),
    known("[crio.runtime.runtimes.*] runtime_root", "where it keeps what it knows", "", CRIO_UNREAD),
    known("[crio.runtime.runtimes.*] inherit_default_runtime", "the same program as for all others", "", CRIO_UNREAD),
    known(
        "[crio.runtime.runtimes.*] exec_cpu_affinity",
        "first: what is started in a running pod begins on its first core",
        "",
        CRIO_UNREAD,
    ),
    known("[crio.runtime.runtimes.*] default_annotations", "annotations that each such pod has", "", CRIO_UNREAD),
    known(
        "[crio.runtime.runtimes.*] allowed_annotations",
        "by these annotations a pod of this class has cores without balancing, quota, interrupts, and its own \
         idle states and governor",
        "",
        CRIO_UNREAD,
    ),
    known(
        "[crio.runtime.workloads.management] activation_annotation",
        "pods with this annotation are the cluster's own",
        "",
        CRIO_UNREAD,
    ),
    known("[crio.runtime.workloads.management] annotation_prefix", "how their share is told", "", CRIO_UNREAD),
    known("[crio.runtime.workloads.management] resources", "they run on these cores", RESERVED, CRIO_UNREAD),
];

/// Leaves of the kubelet's file of workload partitioning.
pub(crate) const PINNING: &[Known] = &[known(
    "management.cpuset",
    "the cluster's own pods run on these cores",
    RESERVED,
    Unseen("no rule of the audit reads the kubelet's configuration"),
)];

/// Units, by their names: what they are for.
pub(crate) const UNITS: &[Known] = &[
    known(
        "hugepages-allocation-*kB-NUMA*.service",
        "sets huge pages of one domain aside, before the kubelet counts them",
        "hugepages.pages[].node",
        UNITS_UNSEEN,
    ),
    known("cpuset-configure.service", "makes groups of cores after CRI-O, before the kubelet", RESERVED, UNITS_UNSEEN),
    known(
        "set-cpus-offline.service",
        "takes cores off line before the kubelet counts them",
        "cpu.offlined",
        UNITS_UNSEEN,
    ),
    known(
        "clear-irqbalance-banned-cpus.service",
        "writes irqbalance's list of banned cores before irqbalance reads it",
        "globallyDisableIrqLoadBalancing",
        UNITS_UNSEEN,
    ),
    known(
        "ocp-tuned-one-shot.service",
        "runs tuned once before the kubelet, so that no pod starts on a node that is not set yet",
        "",
        UNITS_UNSEEN,
    ),
    known("update-rps@.service", "writes the mask of a queue when it comes", RESERVED, UNITS_UNSEEN),
    known("ovs.slice", "a group for Open vSwitch", "", UNITS_UNSEEN),
    known(
        "ovs-dpdk-cpus-configure.service",
        "takes the cores of Open vSwitch's pollers out of balancing",
        "cpu.ovsDpdk",
        UNITS_UNSEEN,
    ),
    known("openvswitch.service", "Open vSwitch", "", UNITS_UNSEEN),
    known("ovsdb-server.service", "the database of Open vSwitch", "", UNITS_UNSEEN),
    known("ovs-vswitchd.service", "the switch of Open vSwitch", "", UNITS_UNSEEN),
    known(
        "stalld.service",
        "stalld gives threads that a poller starves some microseconds",
        "workloadHints.realTime",
        UNITS_UNSEEN,
    ),
    known("kubelet.service", "the kubelet", "", UNITS_UNSEEN),
];

/// What words of systemd mean, whichever the unit, by section and name.
pub(crate) const SYSTEMD: &[Known] = &[
    known("[Unit] Description", "a title", "", Nothing),
    known("[Unit] Before", "it is done before these begin", "", Nothing),
    known("[Unit] After", "it begins after these", "", Nothing),
    known("[Unit] Requires", "it does not begin without these", "", Nothing),
    known("[Unit] Wants", "these are started with it", "", Nothing),
    known("[Unit] ConditionPathExists", "it does nothing where this is not there", "", Nothing),
    known("[Service] Type", "oneshot: it has begun when its program has ended", "", Nothing),
    known("[Service] Restart", "when it is started again", "", Nothing),
    known("[Service] RestartSec", "how long after", "", Nothing),
    known("[Service] RemainAfterExit", "it counts as running when its program has ended", "", Nothing),
    known("[Service] EnvironmentFile", "what its program is told stands there", "", Nothing),
    known("[Service] Slice", "the group that its processes are in", "", UNITS_UNSEEN),
    known("[Install] WantedBy", "it is started with these", "", Nothing),
    known("[Install] RequiredBy", "these do not begin without it", "", Nothing),
];

/// What a unit's own words mean, by its name and the word, with a blank between them.
pub(crate) const UNIT_WORDS: &[Known] = &[
    known(
        "hugepages-allocation-*.service Environment=HUGEPAGES_COUNT=*",
        "how many pages",
        "hugepages.pages[].count",
        Nothing,
    ),
    known(
        "hugepages-allocation-*.service Environment=HUGEPAGES_SIZE=*",
        "of which size, in KiB",
        "hugepages.pages[].size",
        Nothing,
    ),
    known(
        "hugepages-allocation-*.service Environment=NUMA_NODE=*",
        "of which domain",
        "hugepages.pages[].node",
        Nothing,
    ),
    known(
        "hugepages-allocation-*.service ExecStart=/usr/local/bin/hugepages-allocation.sh",
        "the script above",
        "",
        Nothing,
    ),
    known("cpuset-configure.service ExecStart=/usr/local/bin/cpuset-configure.sh", "the script above", "", Nothing),
    known(
        "set-cpus-offline.service Environment=OFFLINE_CPUS=*",
        "which cores",
        "cpu.offlined",
        See::Cores("cores off line"),
    ),
    known("set-cpus-offline.service ExecStart=/usr/local/bin/set-cpus-offline.sh", "the script above", "", Nothing),
    known(
        "clear-irqbalance-banned-cpus.service ExecStart=/usr/local/bin/clear-irqbalance-banned-cpus.sh",
        "the script above",
        "",
        Nothing,
    ),
    known(
        "clear-irqbalance-banned-cpus.service Environment=OVS_DPDK_CPUS=*",
        "cores that stay banned",
        "cpu.ovsDpdk",
        Nothing,
    ),
    known(
        "update-rps@.service ExecStart=/usr/local/bin/set-rps-mask.sh *",
        "the script above, with the queue and the mask",
        RESERVED,
        Unseen("which queues are physical is not said by their names"),
    ),
    known(
        "ocp-tuned-one-shot.service ExecStart=-/usr/bin/podman run *",
        "tuned in a container of the operator's image, once, with the node's folders",
        "",
        Nothing,
    ),
    known("ocp-tuned-one-shot.service ExecStart=/usr/bin/true", "the unit succeeds whatever came of it", "", Nothing),
    known("ocp-tuned-one-shot.service ExecStartPre=*", "makes the folder in which tuned tells its number", "", Nothing),
    known("ocp-tuned-one-shot.service ExecReload=*", "tuned reads its profile again", "", Nothing),
    known("ocp-tuned-one-shot.service ExecStop=*", "the container is stopped", "", Nothing),
    known("ocp-tuned-one-shot.service ExecStopPost=*", "the container is removed", "", Nothing),
    known(
        "ocp-tuned-one-shot.service Environment=PODMAN_SYSTEMD_UNIT=%n",
        "podman knows whose container it is",
        "",
        Nothing,
    ),
    known(
        "/etc/sysconfig/stalld-backend BE=*",
        "stalld reads the scheduler's own list of threads (debugfs)",
        "workloadHints.realTime",
        Unseen("an audit's pod sees no process of its node"),
    ),
    known(
        "/etc/udev/rules.d/99-netdev-physical-rps.rules *",
        "for each receive queue of a device of PCI",
        RESERVED,
        Nothing,
    ),
    known(
        "/etc/sysctl.d/* net.core.rps_default_mask",
        "queues of new interfaces hand frames to these cores",
        RESERVED,
        Row("net.core.rps_default_mask"),
    ),
];
