#!/bin/bash
# One node: own mounts, own /var/lib/kubelet, own containerd; runs as process 1 of its namespace, so its end ends all of it
set -e
K=$1; i=$2; n=node$i; D=$K/run/$n
hostname $n
mount --make-rprivate /
mkdir -p $D/{kubelet,containerd,cni,varcni,logpods,logcont,fake} /var/lib/kubelet /var/lib/containerd /etc/cni/net.d /var/lib/cni /var/log/pods /var/log/containers
mount --bind $D/kubelet /var/lib/kubelet; mount --make-shared /var/lib/kubelet
mount --bind $D/containerd /var/lib/containerd
mount --bind $D/cni /etc/cni/net.d; mount --bind $D/varcni /var/lib/cni
mount --bind $D/logpods /var/log/pods; mount --bind $D/logcont /var/log/containers
mkdir -p /run/containerd /run/netns; mount -t tmpfs tmpfs /run/containerd; mount -t tmpfs tmpfs /run/netns   # else the pods' namespaces leave files on the host
mount --make-shared /run/containerd
# the kubelet writes kernel-wide settings: let it find what it wants in files, so that the host keeps its own
for f in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
  p=${f%=*}; echo ${f#*=} > $D/fake/${p//\//_}; mount --bind $D/fake/${p//\//_} /proc/sys/$p
done
# a cgroup of its own in each v1 hierarchy (cpuset must be filled by hand)
for c in /sys/fs/cgroup/*/; do c=${c%/}; mountpoint -q $c || continue
  mkdir -p $c/$n
  if [ -e $c/cpuset.cpus ]; then cat $c/cpuset.cpus > $c/$n/cpuset.cpus; cat $c/cpuset.mems > $c/$n/cpuset.mems; fi
done
cat > $D/containerd.toml <<T
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/pause:1"
  restrict_oom_score_adj = true   # this machine has no CAP_SYS_RESOURCE: runc dies at oom_score_adj -998
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
      [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
T
cat > $D/cni/10-k.conflist <<T
{"cniVersion":"0.4.0","name":"k","plugins":[{"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,
 "ipam":{"type":"host-local","ranges":[[{"subnet":"198.19.$i.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}}]}
T
cat > $D/kubelet.yaml <<T
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /$n
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
failSwapOn: false
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: 4
resolvConf: ""
clusterDNS: [198.18.128.10]
clusterDomain: cluster.local
cpuManagerPolicy: static
reservedSystemCPUs: "0"
topologyManagerPolicy: single-numa-node
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
T
containerd --config $D/containerd.toml > $D/containerd.log 2>&1 &
until ctr version >/dev/null 2>&1; do sleep .1; done
for t in $K/images/*.tar; do ctr -n k8s.io images import --snapshotter overlayfs $t; done
$K/hyper/hyper kubelet --kubeconfig $K/pki/$n.conf --config $D/kubelet.yaml --hostname-override $n --node-ip 198.18.0.1$i --v 2 > $D/kubelet.log 2>&1 &
wait
