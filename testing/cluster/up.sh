#!/bin/sh
# Starts a cluster of one control plane and two nodes, each in network namespaces of its own (kcp, kn1, kn2), with all
# that it writes below KUBE_DIR/run; down.sh ends it. prepare.sh made what it is of. CGROUP is the control group below
# which nodes have theirs (none: the root).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
: "${KUBE_DIR:?where it is}"
run=$KUBE_DIR/run
program=$KUBE_DIR/kubernetes
pki=$KUBE_DIR/pki
mkdir "$run"
: >"$run/pids"

ip netns add kcp
ip -n kcp link set lo up
ip -n kcp link add kbr type bridge
ip -n kcp addr add 198.18.0.1/24 dev kbr
ip -n kcp link set kbr up
# The address of the Service `kubernetes`, so that no kube-proxy is needed for that.
ip -n kcp addr add 198.18.128.1/32 dev lo
for i in 1 2; do
    ip netns add kn$i
    ip -n kn$i link set lo up
    ip -n kcp link add to$i type veth peer name eth0 netns kn$i
    ip -n kcp link set to$i master kbr up
    ip -n kn$i addr add 198.18.0.1$i/24 dev eth0
    ip -n kn$i link set eth0 up
    ip -n kn$i route add default via 198.18.0.1
    ip -n kcp route add 198.19.$i.0/24 via 198.18.0.1$i
done
ip -n kn1 route add 198.19.2.0/24 via 198.18.0.12
ip -n kn2 route add 198.19.1.0/24 via 198.18.0.11

# Starts a part of the control plane: the name of its log, and its command.
control() {
    log=$1
    shift
    nsenter --net=/run/netns/kcp "$@" >"$run/$log.log" 2>&1 &
    echo $! >>"$run/pids"
}
control etcd "$KUBE_DIR/root/usr/bin/etcd" --data-dir "$run/etcd" --unsafe-no-fsync \
    --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380
control apiserver "$program" apiserver --etcd-servers=http://127.0.0.1:2379 --secure-port=443 \
    --advertise-address=198.18.0.1 --service-cluster-ip-range=198.18.128.0/24 \
    --tls-cert-file="$pki/api.crt" --tls-private-key-file="$pki/api.key" --client-ca-file="$pki/ca.crt" \
    --token-auth-file="$pki/tokens.csv" --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$pki/sa.key" \
    --service-account-signing-key-file="$pki/sa.key" --kubelet-preferred-address-types=InternalIP
tries=0
until nsenter --net=/run/netns/kcp kubectl --kubeconfig "$pki/admin.conf" get --raw /readyz >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { tail -n 20 "$run/apiserver.log" >&2; echo "the API server does not come" >&2; exit 1; }
    sleep 1
done
control controllers "$program" controllers --kubeconfig="$pki/controllers.conf" --root-ca-file="$pki/ca.crt" \
    --service-account-private-key-file="$pki/sa.key" --leader-elect=false
control scheduler "$program" scheduler --kubeconfig="$pki/scheduler.conf" --leader-elect=false
for i in 1 2; do
    CGROUP=${CGROUP:-} nsenter --net=/run/netns/kn$i unshare --mount --uts --ipc --pid --fork --kill-child --mount-proc \
        sh "$here/node.sh" $i >"$run/node$i.log" 2>&1 &
    echo $! >>"$run/pids"
    echo $! >"$run/node$i.pid"
done
