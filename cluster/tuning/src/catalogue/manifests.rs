//! Fields of objects, but for those that have a table of their own.

use super::{Known, See, known};
use See::{Nothing, RealTime, Row, Unseen};

const UNSAID: &str = "nothing is said";

/// Of all objects.
pub(crate) const COMMON: &[Known] = &[
    known("apiVersion", "the form of the object", "", Nothing),
    known("kind", "the form of the object", "", Nothing),
    known("metadata.name", "the object's name", "", Nothing),
    known("metadata.namespace", "the object's namespace", "", Nothing),
    known(
        "metadata.labels.machineconfiguration.openshift.io/role",
        "which pools of nodes take it",
        "nodeSelector",
        Nothing,
    ),
    known(
        "metadata.labels.performance.openshift.io/weak-owner-reference-name",
        "the PerformanceProfile that the operator made it of",
        "",
        Nothing,
    ),
    known("metadata.creationTimestamp", "when it was made", "", Nothing),
    known("metadata.ownerReferences*", "whose it is, and with whom it goes", "", Nothing),
    known("metadata.uid", "the object's number", "", Nothing),
    known("metadata.resourceVersion", "which version of it", "", Nothing),
    known("metadata.generation", "how often it was changed", "", Nothing),
    known("metadata.managedFields*", "who has written which field", "", Nothing),
    known("metadata.finalizers*", "who wants to hear before it goes", "", Nothing),
    known("metadata.annotations.kubectl.kubernetes.io/*", "how it was last applied", "", Nothing),
    known("status*", "what the operator says of it", "", Nothing),
];

/// Of a Tuned, below `spec`.
pub(crate) const RECOMMEND: &[Known] = &[
    known("profile[].name", "a name for the profile", "", Nothing),
    known(
        "recommend[].machineConfigLabels.*",
        "nodes of pools with this label take the profile",
        "machineConfigLabel",
        Nothing,
    ),
    known("recommend[].match*", "nodes with this label take the profile", "", Nothing),
    known(
        "recommend[].operand.tunedConfig.reapply_sysctl",
        "whether files of sysctl.d have the last word over the profile: they have",
        "",
        Nothing,
    ),
    known("recommend[].operand.*", "how tuned itself runs", "", Unseen("an audit's pod sees no process of its node")),
    known("recommend[].priority", "of profiles that fit a node that of the lowest number is taken", "", Nothing),
    known("recommend[].profile", "the profile that nodes take", "", See::Word("tuned")),
    known("managementState", "whether the operator acts at all", "", Nothing),
];

/// Of a MachineConfig, below `spec`.
pub(crate) const MACHINE_CONFIG: &[Known] = &[
    known("baseOSExtensionsContainerImage", UNSAID, "", Nothing),
    known("osImageURL", UNSAID, "", Nothing),
    known("extensions", "packages of the system beside its own", "", Nothing),
    known("fips", "false: cryptography is not restricted", "", Nothing),
    known(
        "kernelArguments",
        "arguments of the kernel: tuned computes them, and the operator writes them elsewhere",
        "",
        Nothing,
    ),
    known("kernelArguments[]", "an argument of the kernel", "", Unseen("write it as a profile has it")),
    known(
        "kernelType",
        "which kernel nodes boot: the usual one, one for real time, or one with pages of 64 KiB",
        "realTimeKernel.enabled",
        RealTime,
    ),
    known("config.ignition.version", "the form of files and units below", "", Nothing),
    known("config.ignition.config.replace.verification", UNSAID, "", Nothing),
    known("config.ignition.proxy", UNSAID, "", Nothing),
    known("config.ignition.security.tls", UNSAID, "", Nothing),
    known("config.ignition.timeouts", UNSAID, "", Nothing),
    known("config.passwd", UNSAID, "", Nothing),
    known("config.storage", UNSAID, "", Nothing),
    known("config.systemd", UNSAID, "", Nothing),
];

/// Of a file of a MachineConfig.
pub(crate) const MACHINE_FILE: &[Known] = &[
    known("path", "where the file is", "", Nothing),
    known("mode", "who may read, write and execute it, as a decimal number", "", Nothing),
    known("overwrite", "whether it takes the place of one that is there", "", Nothing),
    known("user*", UNSAID, "", Nothing),
    known("group*", UNSAID, "", Nothing),
    known("contents.verification", UNSAID, "", Nothing),
];

/// Of a unit of a MachineConfig.
pub(crate) const MACHINE_UNIT: &[Known] = &[
    known("name", "the unit's name", "", Nothing),
    known("enabled", "whether it starts at boot", "", Unseen("an audit's pod does not see which units have run")),
    known("mask", "whether nobody can start it", "", Unseen("an audit's pod does not see which units have run")),
    known("dropins[].name", "a file that adds to the unit", "", Nothing),
];

/// Of a RuntimeClass.
pub(crate) const RUNTIME_CLASS: &[Known] = &[
    known(
        "handler",
        "pods of this class have CRI-O's hooks for cores, quotas and interrupts by their annotations",
        "",
        Nothing,
    ),
    known("scheduling.nodeSelector.*", "they come to nodes with this label", "nodeSelector", Nothing),
];

/// Of the cluster's Node (config.openshift.io).
pub(crate) const OF_CLUSTER: &[Known] =
    &[known("spec.cgroupMode", "the version of control groups on all nodes", "", Row("cgroup version"))];
