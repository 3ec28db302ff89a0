//! Fields of the kubelet's configuration.

use super::{Known, See, known};

/// Its file is `/etc/kubernetes/kubelet.conf`, which no rule of the audit reads.
const UNREAD: See = See::Unseen("no rule of the audit reads the kubelet's configuration");
/// Written as the field's type has it where nothing is said: the kubelet takes its own default then.
const EMPTY: &str = "nothing is said: the kubelet's own default is in force";
const CORES: &str = "cpu.reserved";
const POLICY: &str = "numa.topologyPolicy";

/// By their paths.
pub(crate) const KUBELET: &[Known] = &[
    known("apiVersion", "the form of what follows", "", See::Nothing),
    known("kind", "the form of what follows", "", See::Nothing),
    known("cpuManagerPolicy", "static: Guaranteed pods with whole CPUs have them alone", CORES, UNREAD),
    known(
        "cpuManagerPolicyOptions.full-pcpus-only",
        "pods get both siblings of a core, or are not admitted",
        POLICY,
        UNREAD,
    ),
    known("cpuManagerPolicyOptions.*", "how the kubelet chooses cores", POLICY, UNREAD),
    known("cpuManagerReconcilePeriod", "how often containers' cores are set again", CORES, UNREAD),
    known("evictionHard.*", "pods are evicted when there is less than this", "", UNREAD),
    known("kubeReserved.*", "kept for the kubelet, and not given to pods", "", UNREAD),
    known("systemReserved.*", "kept for services of the system, and not given to pods", "", UNREAD),
    known(
        "memoryManagerPolicy",
        "Static: memory and huge pages of Guaranteed pods are of their cores' domains",
        POLICY,
        UNREAD,
    ),
    known(
        "reservedMemory[].limits.memory",
        "kept from pods: the sum of kubeReserved, systemReserved and the mark of eviction",
        POLICY,
        UNREAD,
    ),
    known("reservedMemory[].numaNode", "the domain of which that is kept", POLICY, UNREAD),
    known("reservedSystemCPUs", "cores that no Guaranteed pod gets alone: for the system", CORES, UNREAD),
    known(
        "topologyManagerPolicy",
        "whether cores, memory and devices of a pod have to be of one domain",
        POLICY,
        UNREAD,
    ),
    known("topologyManagerScope", "whether that is so of each container or of the pod as a whole", POLICY, UNREAD),
    known("authentication.*", EMPTY, "", See::Nothing),
    known("authorization.*", EMPTY, "", See::Nothing),
    known("containerRuntimeEndpoint", EMPTY, "", See::Nothing),
    known("crashLoopBackOff", EMPTY, "", See::Nothing),
    known("evictionPressureTransitionPeriod", EMPTY, "", See::Nothing),
    known("fileCheckFrequency", EMPTY, "", See::Nothing),
    known("httpCheckFrequency", EMPTY, "", See::Nothing),
    known("imageMaximumGCAge", EMPTY, "", See::Nothing),
    known("imageMinimumGCAge", EMPTY, "", See::Nothing),
    known("logging.*", EMPTY, "", See::Nothing),
    known("memorySwap", EMPTY, "", See::Nothing),
    known("nodeStatusReportFrequency", EMPTY, "", See::Nothing),
    known("nodeStatusUpdateFrequency", EMPTY, "", See::Nothing),
    known("runtimeRequestTimeout", EMPTY, "", See::Nothing),
    known("shutdownGracePeriod*", EMPTY, "", See::Nothing),
    known("streamingConnectionIdleTimeout", EMPTY, "", See::Nothing),
    known("syncFrequency", EMPTY, "", See::Nothing),
    known("volumeStatsAggPeriod", EMPTY, "", See::Nothing),
];
