#!/bin/sh
# One node, with mounts, host name and processes of its own: containerd and a kubelet. It is process 1 of its namespace,
# so that its end is that of all of it. up.sh starts it, with the node's number.
set -eu

i=$1
node=node$i
root=$KUBE_DIR/root
own=$KUBE_DIR/run/$node
cgroup=${CGROUP:-}/$node
PATH=$root/usr/bin:$root/usr/sbin:$PATH
hostname $node
mount --make-rprivate /
for place in /var/lib/kubelet /var/lib/containerd /etc/cni/net.d /var/lib/cni /var/log/pods /var/log/containers; do
    mkdir -p "$own$place" $place
    mount --bind "$own$place" $place
done
mount --make-shared /var/lib/kubelet
# Namespaces of pods have files here, which would stay on the machine.
mkdir -p /run/containerd /run/netns
mount -t tmpfs tmpfs /run/containerd
mount -t tmpfs tmpfs /run/netns
mount --make-shared /run/containerd
# The kubelet writes settings of the whole kernel: it finds what it wants in files, and the machine keeps its own.
mkdir -p "$own/settings"
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    path=${setting%=*}
    file=$own/settings/$(echo "$path" | tr / _)
    echo "${setting#*=}" >"$file"
    mount --bind "$file" "/proc/sys/$path"
done
# A control group in each hierarchy; of cpuset each level is to be filled by hand.
for hierarchy in /sys/fs/cgroup/*/; do
    hierarchy=${hierarchy%/}
    mountpoint -q "$hierarchy" || continue
    level=$hierarchy
    for name in $(echo "$cgroup" | tr / ' '); do
        upper=$level
        level=$level/$name
        mkdir -p "$level"
        for file in cpuset.cpus cpuset.mems; do
            [ ! -e "$level/$file" ] || [ -n "$(cat "$level/$file")" ] || cat "$upper/$file" >"$level/$file"
        done
    done
done

cat >"$own/containerd.toml" <<T
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/pause:1"
  # Without CAP_SYS_RESOURCE nobody may be spared more than this process is.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$root/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
T
cat >/etc/cni/net.d/10-test.conflist <<T
{"cniVersion": "0.4.0", "name": "test", "plugins": [{"type": "bridge", "bridge": "cni0", "isGateway": true,
 "ipMasq": false, "ipam": {"type": "host-local", "ranges": [[{"subnet": "198.19.$i.0/24"}]],
 "routes": [{"dst": "0.0.0.0/0"}]}}]}
T
cat >"$own/kubelet.yaml" <<T
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: $cgroup
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
failSwapOn: false
nodeStatusUpdateFrequency: 2s
resolvConf: ""
clusterDNS: [198.18.128.10]
clusterDomain: cluster.local
cpuManagerPolicy: static
reservedSystemCPUs: "0"
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
T
containerd --config "$own/containerd.toml" >"$own/containerd.log" 2>&1 &
tries=0
until ctr version >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { tail -n 20 "$own/containerd.log"; exit 1; }
    sleep 0.2
done
for image in "$KUBE_DIR"/images/*.tar; do ctr -n k8s.io images import "$image"; done
"$KUBE_DIR/kubernetes" kubelet --kubeconfig "$KUBE_DIR/pki/$node.conf" --config "$own/kubelet.yaml" \
    --hostname-override $node --node-ip 198.18.0.1"$i" --v 2 >"$own/kubelet.log" 2>&1 &
wait
