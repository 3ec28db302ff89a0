#!/bin/bash
# A Kubernetes of one control plane and N nodes, each in network namespaces of its own.
#
#   up.sh KUBE_DIR N
set -e
K=$1; N=$2; R=$K/run; H=$K/hyper/hyper; S=$(cd "$(dirname "$0")" && pwd)
mkdir -p $R; cd $R
ip netns add kcp; ip -n kcp link set lo up
ip -n kcp link add kbr type bridge; ip -n kcp addr add 198.18.0.1/24 dev kbr; ip -n kcp link set kbr up
ip -n kcp addr add 198.18.128.1/32 dev lo          # the cluster IP of the service "kubernetes": no kube-proxy needed
for i in $(seq $N); do
  ip netns add kn$i; ip -n kn$i link set lo up
  ip -n kcp link add to$i type veth peer name eth0 netns kn$i
  ip -n kcp link set to$i master kbr up
  ip -n kn$i addr add 198.18.0.1$i/24 dev eth0; ip -n kn$i link set eth0 up; ip -n kn$i route add default via 198.18.0.1
  ip -n kcp route add 198.19.$i.0/24 via 198.18.0.1$i
done
for i in $(seq $N); do for j in $(seq $N); do [ $i = $j ] || ip -n kn$i route add 198.19.$j.0/24 via 198.18.0.1$j; done; done
in_cp() { local log=$1; shift; nsenter --net=/run/netns/kcp "$@" > $R/$log.log 2>&1 & echo $! >> $R/pids; }
: > pids
in_cp etcd etcd --data-dir $R/etcd --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 --unsafe-no-fsync
in_cp apiserver $H apiserver --etcd-servers=http://127.0.0.1:2379 --service-cluster-ip-range=198.18.128.0/24 --secure-port=443 \
  --advertise-address=198.18.0.1 --tls-cert-file=$K/pki/api.crt --tls-private-key-file=$K/pki/api.key --client-ca-file=$K/pki/ca.crt \
  --token-auth-file=$K/pki/tokens.csv --authorization-mode=Node,RBAC --service-account-issuer=https://kubernetes.default.svc \
  --service-account-key-file=$K/pki/sa.key --service-account-signing-key-file=$K/pki/sa.key --allow-privileged=true --kubelet-preferred-address-types=InternalIP --enable-admission-plugins=NodeRestriction
k() { nsenter --net=/run/netns/kcp $H kubectl --kubeconfig $K/pki/admin.conf "$@"; }
for _ in $(seq 300); do k get --raw /readyz >/dev/null 2>&1 && break; sleep .2; done
k get --raw /readyz >/dev/null
in_cp controllers $H controllers --kubeconfig=$K/pki/cm.conf --root-ca-file=$K/pki/ca.crt --service-account-private-key-file=$K/pki/sa.key --leader-elect=false --kube-api-qps=500 --kube-api-burst=1000 --node-monitor-grace-period=6s --node-monitor-period=1s
in_cp scheduler $H scheduler --kubeconfig=$K/pki/sched.conf --leader-elect=false --kube-api-qps=500 --kube-api-burst=1000
for i in $(seq $N); do
  nsenter --net=/run/netns/kn$i unshare --mount --uts --ipc --pid --fork --kill-child --mount-proc bash "$S/node.sh" "$K" $i > $R/node$i.log 2>&1 & echo $! >> $R/pids
done
