#!/bin/sh
# A real Kubernetes of this machine alone: etcd, API server, controllers, scheduler, names, and nodes, each node in
# namespaces of its own, with its own containerd, kubelet and control groups.
#
#   scripts/kubernetes.sh build           once: the parts of Kubernetes as one program (16 processor minutes)
#   scripts/kubernetes.sh up FOLDER N     a cluster of N nodes (1 to 9), all of it below FOLDER
#   scripts/kubernetes.sh image FOLDER NAME ROOT [WORD]...   before: an image of the files below ROOT
#   scripts/kubernetes.sh kill FOLDER N   node N dies
#   scripts/kubernetes.sh down FOLDER     ends all of it, by its process ids, and takes away what it made
#
# The API server is https://198.18.0.1 in the network namespace nearside-cp, its administrator's kubeconfig
# FOLDER/admin.conf; pods have addresses of 198.19.0.0/16. Images are those that were made here: there is no registry.
#
# It needs root, control groups of version 1, Go 1.24 or later (GO, else `go`) with a module proxy, and
# etcd-server, containerd, runc, containernetworking-plugins, openssl, python3, curl, iproute2, and a C compiler. What
# is missing is named, and the exit status is 77. NEARSIDE_KUBERNETES is the folder that keeps the program, else
# ~/.cache/nearside-kubernetes; building it takes 4 GB more in Go's caches.
set -eu

version=1.34.9
here=$(cd "$(dirname "$0")" && pwd)
kept=${NEARSIDE_KUBERNETES:-${XDG_CACHE_HOME:-$HOME/.cache}/nearside-kubernetes}
program=$kept/kubernetes-$version

# What each node has of its own.
places="/var/lib/kubelet /var/lib/containerd /var/lib/cni /etc/cni/net.d /var/log/pods /var/log/containers"

skip() { echo "kubernetes: left out: $*" >&2; exit 77; }

# What is imported of Kubernetes, and is a module of its own: taken at the version that belongs to it.
modules="api apiextensions-apiserver apimachinery apiserver client-go cloud-provider cluster-bootstrap component-base
component-helpers controller-manager cri-api cri-client csi-translation-lib dynamic-resource-allocation endpointslice
externaljwt kms kube-aggregator kube-controller-manager kube-proxy kube-scheduler kubectl kubelet metrics mount-utils
pod-security-admission"
# What it names and no part of these imports.
unused="cli-runtime code-generator sample-apiserver sample-cli-plugin sample-controller"

build() {
    [ ! -x "$program" ] || return 0
    go=$(command -v "${GO:-go}" || command -v /usr/local/go/bin/go) || skip "there is no go"
    made=$("$go" env GOVERSION)
    [ "$(printf '%s\n' go1.24 "$made" | sort -V | head -n 1)" = go1.24 ] || skip "$made is older than go1.24"
    echo "== builds Kubernetes $version, once: $program"
    work=$kept/build
    rm -rf "$work"
    mkdir -p "$work"
    cp "$here/kubernetes.go" "$work/main.go"
    {
        printf 'module nearside.dev/kubernetes\n\ngo 1.24.0\n\ngodebug default=go1.24\n\n'
        printf 'require k8s.io/kubernetes v%s\n' "$version"
        for module in $modules; do
            printf 'replace k8s.io/%s => k8s.io/%s v0.%s\n' "$module" "$module" "${version#1.}"
        done
        for module in $unused; do
            mkdir -p "$work/none/$module"
            printf 'module k8s.io/%s\n' "$module" >"$work/none/$module/go.mod"
            printf 'replace k8s.io/%s => ./none/%s\n' "$module" "$module"
        done
    } >"$work/go.mod"
    of=k8s.io/component-base/version
    set -- -X "$of.gitVersion=v$version" -X "$of.gitMajor=1" -X "$of.gitMinor=34" -X "$of.gitTreeState=clean"
    (cd "$work" && CGO_ENABLED=0 "$go" build -mod=mod -trimpath -ldflags "-s -w $*" -o "$program.new" .) ||
        skip "it could not be built"
    mv "$program.new" "$program"
    rm -rf "$work"
}

# Certificates for one cluster, a token for each who speaks to the API server, and their files.
identities() { # folder, nodes
    keys=$1/keys
    mkdir -p "$keys"
    (
        cd "$keys"
        new() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "$@" 2>/dev/null; }
        new -x509 -keyout ca.key -out ca.crt -days 30 -subj /CN=nearside-test
        new -keyout api.key -out api.csr -subj /CN=kube-apiserver
        # By the addresses that it is asked at.
        names=IP:127.0.0.1,IP:198.18.0.1,IP:198.18.128.1,DNS:kubernetes.default.svc
        printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' $names >api.ext
        openssl x509 -req -in api.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out api.crt -days 30 \
            -extfile api.ext 2>/dev/null
        openssl ecparam -name prime256v1 -genkey -noout -out accounts.key
    )
    identity admin admin system:masters
    identity controllers system:kube-controller-manager system:masters
    identity scheduler system:kube-scheduler system:masters
    for node in $(seq "$2"); do identity "node$node" "system:node:node$node" system:nodes; done
}

identity() { # name, user, group
    token=$(openssl rand -hex 16)
    echo "$token,$2,$1,$3" >>"$keys/tokens.csv"
    cat >"$folder/$1.conf" <<END
apiVersion: v1
kind: Config
clusters:
- name: here
  cluster:
    server: https://198.18.0.1:443
    certificate-authority: $keys/ca.crt
users:
- name: $1
  user:
    token: $token
contexts:
- name: here
  context:
    cluster: here
    user: $1
current-context: here
END
    chmod 600 "$folder/$1.conf" "$keys/tokens.csv"
}

# Network namespaces: one for what is no node, with a bridge, and one for each node.
networks() { # nodes
    ip netns add nearside-cp
    ip -n nearside-cp link set lo up
    ip -n nearside-cp link add nodes type bridge
    ip -n nearside-cp address add 198.18.0.1/24 dev nodes
    ip -n nearside-cp link set nodes up
    # The addresses of the Services kubernetes and kube-dns: nothing translates those of Services here.
    ip -n nearside-cp address add 198.18.128.1/32 dev lo
    ip -n nearside-cp address add 198.18.128.10/32 dev lo
    for node in $(seq "$1"); do
        name=nearside-node$node
        ip netns add "$name"
        ip -n "$name" link set lo up
        ip -n nearside-cp link add "node$node" type veth peer name eth0 netns "$name"
        ip -n nearside-cp link set "node$node" master nodes up
        ip -n "$name" address add "198.18.0.1$node/24" dev eth0
        ip -n "$name" link set eth0 up
        ip -n "$name" route add default via 198.18.0.1
        ip -n nearside-cp route add "198.19.$node.0/24" via "198.18.0.1$node"
    done
    for node in $(seq "$1"); do
        for other in $(seq "$1"); do
            [ "$node" = "$other" ] || ip -n "nearside-node$node" route add "198.19.$other.0/24" via "198.18.0.1$other"
        done
    done
}

# A part that is no node, with its log.
started() { # log, command
    log=$1
    shift
    nsenter --net=/run/netns/nearside-cp "$@" >"$folder/$log.log" 2>&1 </dev/null &
    echo $! >>"$folder/pids"
}

up() { # folder, nodes
    folder=$1
    [ "$(id -u)" = 0 ] || skip "namespaces and control groups need root"
    for command in etcd containerd runc ctr openssl python3 curl ip nsenter unshare cc; do
        command -v $command >/dev/null 2>&1 || skip "there is no $command"
    done
    [ -x /usr/lib/cni/bridge ] || skip "there is no /usr/lib/cni/bridge: apt-get install containernetworking-plugins"
    [ -e /sys/fs/cgroup/cpuset/cpuset.cpus ] || skip "control groups of version 1 are not here"
    ! ip netns list | grep -q '^nearside-cp' || skip "there is one already, or what is left of one"
    build
    mkdir -p "$folder"
    : >"$folder/pids"
    for place in $places; do [ -d "$place" ] || echo "$place" >>"$folder/made"; done
    identities "$folder" "$2"
    pause
    networks "$2"
    started etcd etcd --data-dir "$folder/etcd" --unsafe-no-fsync --listen-client-urls http://127.0.0.1:2379 \
        --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380
    started apiserver "$program" apiserver --etcd-servers=http://127.0.0.1:2379 --secure-port=443 \
        --service-cluster-ip-range=198.18.128.0/24 --advertise-address=198.18.0.1 \
        --tls-cert-file="$keys/api.crt" --tls-private-key-file="$keys/api.key" --client-ca-file="$keys/ca.crt" \
        --token-auth-file="$keys/tokens.csv" --authorization-mode=Node,RBAC --allow-privileged=true \
        --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$keys/accounts.key" \
        --service-account-signing-key-file="$keys/accounts.key" --enable-admission-plugins=NodeRestriction \
        --kubelet-preferred-address-types=InternalIP
    token=$(sed -n 's/^\([^,]*\),admin,.*/\1/p' "$keys/tokens.csv")
    waited "the API server" nsenter --net=/run/netns/nearside-cp curl -sf --cacert "$keys/ca.crt" \
        -H "Authorization: Bearer $token" https://198.18.0.1/readyz
    # A node that is gone is told of within seconds, as tests have no minute.
    started controllers "$program" controllers --kubeconfig="$folder/controllers.conf" --leader-elect=false \
        --root-ca-file="$keys/ca.crt" --service-account-private-key-file="$keys/accounts.key" \
        --node-monitor-grace-period=10s --node-monitor-period=1s --kube-api-qps=500 --kube-api-burst=1000
    started scheduler "$program" scheduler --kubeconfig="$folder/scheduler.conf" --leader-elect=false
    started names python3 "$here/cluster_names.py" 198.18.128.10 https://198.18.0.1 "$keys/ca.crt" "$token"
    for node in $(seq "$2"); do node_up "$node"; done
}

# Until a command succeeds.
waited() { # what, command
    what=$1
    shift
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || { echo "kubernetes: in vain: $what" >&2; exit 1; }
        sleep 0.1
    done
}

# A docker archive of one layer, as `ctr images import` takes it.
image() { # folder, name, root, words
    folder=$1 name=$2 root=$3
    shift 3
    mkdir -p "$folder/images"
    work=$(mktemp -d -p "$folder")
    tar -C "$root" --sort=name --owner=0 --group=0 --mtime=@0 -cf "$work/layer.tar" .
    digest=$(sha256sum "$work/layer.tar" | cut -d ' ' -f 1)
    words=""
    for word in "$@"; do words="$words${words:+,}\"$word\""; done
    cat >"$work/config.json" <<END
{"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:$digest"]},
 "config": {"User": "65532:65532", "Env": ["PATH=/usr/bin:/bin"], "Entrypoint": [$words]}}
END
    printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$name" >"$work/manifest.json"
    tar -C "$work" -cf "$folder/images/$(echo "$name" | tr '/:' '--').tar" manifest.json config.json layer.tar
    rm -rf "$work"
}

# What holds the namespaces of a pod.
pause() {
    mkdir -p "$folder/pause"
    cat >"$folder/pause.c" <<END
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int signal) { _exit(0); }
int main(void) {
    signal(SIGINT, end), signal(SIGTERM, end);
    for (;;) pause(), waitpid(-1, 0, WNOHANG);
}
END
    cc -O2 -static -o "$folder/pause/pause" "$folder/pause.c"
    image "$folder" docker.io/library/pause:1 "$folder/pause" /pause
}

node_up() { # node
    nsenter --net="/run/netns/nearside-node$1" unshare --mount --uts --ipc --pid --fork --kill-child --mount-proc \
        "$here/kubernetes.sh" node "$folder" "$1" >"$folder/node$1.log" 2>&1 </dev/null &
    echo $! >>"$folder/pids"
    echo $! >"$folder/node$1.pid"
}

# One node: process 1 of its namespace, so that its end ends all of it.
node() { # folder, node
    folder=$1 name=node$2 of=$1/node$2
    hostname "$name"
    mount --make-rprivate /
    # What is to be the node's own, of the same names as the host's.
    for place in $places; do
        mkdir -p "$of$place" "$place"
        mount --bind "$of$place" "$place"
    done
    mount --make-shared /var/lib/kubelet
    # Without one on /run/netns, pods' network namespaces would be left on the host.
    mkdir -p /run/containerd /run/netns
    mount -t tmpfs tmpfs /run/containerd
    mount -t tmpfs tmpfs /run/netns
    mount --make-shared /run/containerd
    # The kubelet writes settings of the whole kernel: it finds in files what it wants, and the host keeps its own.
    for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \
        kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
        path=${setting%=*}
        mkdir -p "$of/sys/$(dirname "$path")"
        echo "${setting#*=}" >"$of/sys/$path"
        mount --bind "$of/sys/$path" "/proc/sys/$path"
    done
    # A control group of its own in each hierarchy; that of cpuset begins without any processor.
    for hierarchy in /sys/fs/cgroup/*/; do
        mountpoint -q "$hierarchy" || continue
        group=${hierarchy}nearside-$name
        mkdir -p "$group"
        [ ! -e "$hierarchy/cpuset.cpus" ] || for of_set in cpuset.cpus cpuset.mems; do
            cat "$hierarchy$of_set" >"$group/$of_set"
        done
    done
    # restrict_oom_score_adj: where there is no CAP_SYS_RESOURCE, runc ends at the score that the kubelet asks for.
    cat >"$of/containerd.toml" <<END
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "docker.io/library/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
END
    cat >/etc/cni/net.d/10-pods.conflist <<END
{"cniVersion": "0.4.0", "name": "pods", "plugins": [{
  "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "198.19.$2.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
}]}
END
    cat >"$of/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /nearside-$name
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
failSwapOn: false
nodeStatusUpdateFrequency: 2s
nodeLeaseDurationSeconds: 8
resolvConf: ""
clusterDNS: [198.18.128.10]
clusterDomain: cluster.local
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
END
    containerd --config "$of/containerd.toml" >"$of/containerd.log" 2>&1 &
    waited containerd ctr version
    for archive in "$folder"/images/*.tar; do ctr -n k8s.io images import "$archive"; done
    "$program" kubelet --kubeconfig "$folder/$name.conf" --config "$of/kubelet.yaml" --hostname-override "$name" \
        --node-ip "198.18.0.1$2" >"$of/kubelet.log" 2>&1 &
    wait
}

# A node dies as by a cut wire: nothing of it says good-bye.
kill_node() { # folder, node
    kill -9 "$(cat "$1/node$2.pid")"
}

# Unshare does not heed SIGTERM: whoever is left after that is killed.
down() { # folder
    folder=$1
    # Where none was begun, another's stays.
    [ -e "$folder/pids" ] || return 0
    pids=$(cat "$folder/pids")
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    sleep 1
    for pid in $pids; do kill -9 "$pid" 2>/dev/null || true; done
    for group in /sys/fs/cgroup/*/nearside-node*; do
        [ -d "$group" ] || continue
        # Its processes are gone with their namespace, and the kernel takes a moment to say so.
        tries=0
        until find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || [ $tries -gt 50 ]; do
            tries=$((tries + 1))
            sleep 0.1
        done
    done
    for name in $(ip netns list | sed -n 's/^\(nearside-\(cp\|node[0-9]\)\).*/\1/p'); do ip netns delete "$name"; done
    # Where nodes had theirs, and the host nothing.
    while read -r place; do rmdir "$place" 2>/dev/null || true; done <"$folder/made" || true
    rm -rf "${folder:?}"
}

[ $# -gt 0 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2; }
command=$1
shift
case $command in
    build) build ;;
    up | image | node | down) "$command" "$@" ;;
    kill) kill_node "$@" ;;
    *) echo "kubernetes: what is $command?" >&2; exit 2 ;;
esac
