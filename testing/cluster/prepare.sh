#!/bin/sh
# Makes what a cluster of two nodes on one machine takes, once, in the folder KUBE_DIR:
#
#   kubernetes    API server, controllers, scheduler and kubelet as one program, of Go's module proxy
#   root          Debian's etcd, containerd, runc and CNI plugins: unpacked, not installed
#   pki           a CA, the API server's certificate, tokens, and a kubeconfig for each of them
#   images        what holds a pod's namespaces
#
# The program takes 16 minutes of a processor, 0.7 GB of modules and 3 GB while it is built. What is missing on the
# machine is named, and the exit status is 77.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
: "${KUBE_DIR:?where to}"
skip() { echo "test-cluster: left out: $*" >&2; exit 77; }

mkdir -p "$KUBE_DIR"
if [ ! -x "$KUBE_DIR/kubernetes" ]; then
    command -v go >/dev/null 2>&1 || skip "no go here, which builds Kubernetes: apt-get install golang"
    echo "== building Kubernetes: 16 minutes of a processor, once"
    build=$KUBE_DIR/build
    mkdir -p "$build"
    cp "$here"/kubernetes/* "$build"
    version=k8s.io/component-base/version
    # Where this user's other modules and builds are not in the way, and can be removed when it is built.
    (cd "$build" && GOMODCACHE=${GOMODCACHE:-$build/modules} GOCACHE=${GOCACHE:-$build/cache} CGO_ENABLED=0 \
        go build -trimpath -o "$KUBE_DIR/.kubernetes" -ldflags "-s -w -X $version.gitVersion=v1.34.9 \
            -X $version.gitMajor=1 -X $version.gitMinor=34 -X $version.gitTreeState=clean" .) ||
        skip "Kubernetes cannot be built: see above"
    mv "$KUBE_DIR/.kubernetes" "$KUBE_DIR/kubernetes"
fi

if [ ! -x "$KUBE_DIR/root/usr/bin/etcd" ]; then
    echo "== fetching etcd, containerd, runc and CNI plugins"
    command -v apt-get >/dev/null 2>&1 || skip "this is no Debian system, whose packages it takes"
    packages=$(mktemp -d)
    chmod 755 "$packages"
    (cd "$packages" && apt-get download -q etcd-server containerd runc containernetworking-plugins >said 2>&1) ||
        skip "apt-get: $(tail -n 1 "$packages/said")"
    mkdir -p "$KUBE_DIR/.root"
    for package in "$packages"/*.deb; do dpkg -x "$package" "$KUBE_DIR/.root"; done
    rm -rf "$packages" "$KUBE_DIR/root"
    mv "$KUBE_DIR/.root" "$KUBE_DIR/root"
fi

if [ ! -e "$KUBE_DIR/pki/done" ]; then
    echo "== making keys"
    pki=$KUBE_DIR/pki
    mkdir -p "$pki"
    cd "$pki"
    openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 3650 -subj /CN=test-ca \
        -addext basicConstraints=critical,CA:TRUE 2>/dev/null
    openssl req -newkey rsa:2048 -nodes -keyout api.key -out api.csr -subj /CN=kube-apiserver 2>/dev/null
    names=IP:127.0.0.1,IP:198.18.0.1,IP:198.18.128.1,DNS:kubernetes,DNS:kubernetes.default.svc,DNS:localhost
    printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n' $names >api.ext
    openssl x509 -req -in api.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out api.crt -days 3650 -extfile api.ext \
        2>/dev/null
    openssl genrsa -out sa.key 2048 2>/dev/null
    : >tokens.csv
    while read -r who user groups; do
        token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
        echo "$token,$user,$who,$groups" >>tokens.csv
        cat >"$who.conf" <<C
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://198.18.0.1:443", certificate-authority: $pki/ca.crt}}]
users: [{name: $who, user: {token: $token}}]
contexts: [{name: test, context: {cluster: test, user: $who}}]
current-context: test
C
    done <<W
admin admin system:masters
controllers system:kube-controller-manager system:masters
scheduler system:kube-scheduler system:masters
node1 system:node:node1 system:nodes
node2 system:node:node2 system:nodes
tester tester testers
W
    touch done
fi

if [ ! -e "$KUBE_DIR/images/pause.tar" ]; then
    mkdir -p "$KUBE_DIR/images" "$KUBE_DIR/pause"
    cc -O2 -static -o "$KUBE_DIR/pause/pause" "$here/pause.c"
    python3 "$here/image.py" "$KUBE_DIR/images/pause.tar" docker.io/library/pause:1 "$KUBE_DIR/pause" 65535 /pause
fi
