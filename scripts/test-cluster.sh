#!/bin/bash
# Runs `nearside cluster` against a real Kubernetes of two nodes on this machine: testing/cluster/README.md.
#
#   scripts/test-cluster.sh target/release     # the folder with nearside, nearside-tools and nearside-cluster
#
# What is missing is named, and the exit status is 77. KUBE_DIR keeps what is built.
set -eu
skip() { echo "test-cluster: left out: $*" >&2; exit 77; }
fail() { echo "test-cluster: $*" >&2; [ ! -e "$work/said" ] || tail -n 40 "$work/said" >&2; exit 1; }

programs=$(readlink -f "${1:?which folder of programs}")
here=$(cd "$(dirname "$0")/../testing/cluster" && pwd)
kube=${KUBE_DIR:-$HOME/.cache/nearside-kube}
[ "$(id -u)" = 0 ] || skip "network namespaces and nodes take root"
for one in go:golang etcd:etcd-server containerd:containerd runc:runc iptables:iptables cc:gcc python3:python3 \
    openssl:openssl; do
    command -v "${one%%:*}" >/dev/null 2>&1 || skip "no ${one%%:*}: apt-get install ${one##*:}"
done
[ -e /usr/lib/cni/bridge ] || skip "no CNI plugins: apt-get install containernetworking-plugins"
for program in nearside nearside-tools nearside-cluster; do
    [ -x "$programs/$program" ] || fail "there is no $programs/$program"
done

work=$(mktemp -d); server=""
ended() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    bash "$here/down.sh" "$kube" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap ended EXIT
bash "$here/setup.sh" "$kube" "$programs"
bash "$here/up.sh" "$kube" 2
at() { nsenter --net=/run/netns/kcp "$@"; }
k() { at "$kube/hyper/hyper" kubectl --kubeconfig "$kube/pki/admin.conf" "$@"; }
until_it_is() { for _ in $(seq 300); do eval "$1" && return; sleep 0.2; done; fail "in vain: $1"; }
until_it_is '[ "$(k get nodes 2>/dev/null | grep -c " Ready ")" = 2 ]'

mkdir "$work/site"; echo hello > "$work/site/index.html"
at "$programs/nearside" serve "$work/site" --listen 198.18.0.1:8080 > "$work/server" 2>&1 & server=$!
spec() { # name workers duration, and fields
    cat > "$work/$1.yaml" <<EOF
apiVersion: nearside.dev/v1alpha1
kind: LoadTest
metadata: {name: $1}
spec:
  target: http://198.18.0.1:8080/
  workers: $2
  rate: 300
  duration: $3
  floor: false
  startTolerance: 1s
  pods:
    image: docker.io/library/nearside:1
    imagePullPolicy: Never
    runAsUser: 65532
    resources: {requests: {cpu: 100m}}
$4
EOF
}
run() { at "$programs/nearside-cluster" run "$work/$1.yaml" --kubeconfig "$kube/pki/admin.conf" > "$work/said" 2>&1; }
left() {
    k get jobs,secrets,pods -l app.kubernetes.io/name=nearside --no-headers 2>/dev/null | grep -v Terminating || true
}

echo "== six pods measure"
spec whole 6 5s ""
run whole || fail "six pods did not measure"
grep -q '6 of 6 measured' "$work/said" || fail "not all measured"
[ -z "$(left)" ] || fail "left: $(left)"

echo "== one is deleted"
spec deleted 3 60s ""
run deleted & controller=$!
until_it_is '[ "$(k get pods --no-headers 2>/dev/null | grep -c "nearside-deleted.*Running")" = 3 ]'
sleep 4
k delete pod --wait=false "$(k get pods -o name | grep nearside-deleted-1-)" >/dev/null
code=0; wait $controller || code=$?
[ $code = 5 ] && grep -q 'INVALID: worker 1:' "$work/said" || fail "the deleted one is not named ($code)"

echo "== one has no room, one no image"
spec room 1 5s ""; sed -i 's/cpu: 100m/cpu: 1000/' "$work/room.yaml"
code=0; run room || code=$?
[ $code = 5 ] && grep -q 'Insufficient cpu' "$work/said" || fail "what is lacking is not said ($code)"
spec image 1 5s ""; sed -i 's/nearside:1/nowhere:1/' "$work/image.yaml"
code=0; run image || code=$?
[ $code = 5 ] && grep -q 'ErrImageNeverPull' "$work/said" || fail "the image is not said ($code)"

echo "== a controller is killed, and started again"
spec again 3 40s ""
at "$programs/nearside-cluster" run "$work/again.yaml" --kubeconfig "$kube/pki/admin.conf" > "$work/first" 2>&1 &
controller=$!
until_it_is 'grep -q loading "$work/first"'
kill -9 $controller; wait $controller 2>/dev/null || true
run again || fail "it did not go on"
grep -q 'an earlier controller began this test' "$work/said" || fail "it began anew"
[ -z "$(left)" ] || fail "left: $(left)"
echo "test-cluster: all of it"
