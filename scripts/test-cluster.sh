#!/bin/sh
# Runs loads by many workers in a real Kubernetes of two nodes on this machine, each in network namespaces of its own:
# in a namespace that enforces the restricted Pod Security Standard, by a user that has the rights that docs/cluster.md
# names and no other. Pods that cannot begin, are deleted, or lose their node make a test INVALID by name; a controller
# that is killed is followed by one that goes on; nothing is left behind. The same by the operator, which is installed
# by the file that it prints: what the API server refuses, verdicts, results, events, and one that is killed.
#
#   scripts/test-cluster.sh target/release/nearside
#
# It needs root, control groups of version 1, Go, and Debian's packages; what is missing is named, and the exit status
# is 77. What takes long to make is kept in KUBE_DIR (~/.cache/nearside-kubernetes): testing/cluster/prepare.sh.
set -eu

skip() { echo "test-cluster: left out: $*" >&2; exit 77; }
program=$(readlink -f "${1:?which program}")
programs=$(dirname "$program")
here=$(cd "$(dirname "$0")/.." && pwd)
KUBE_DIR=${KUBE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/nearside-kubernetes}
export KUBE_DIR
[ "$(id -u)" = 0 ] || skip "namespaces and mounts need root"
[ -d /sys/fs/cgroup/memory ] || skip "control groups of version 1 are needed, whose hierarchies it has tried"
for tool in ip nsenter unshare openssl python3 cc kubectl dpkg; do
    command -v $tool >/dev/null 2>&1 || skip "no $tool here"
done
for one in nearside nearside-tools nearside-cluster; do
    [ -x "$programs/$one" ] || skip "no $programs/$one: make build"
done
[ ! -e "$KUBE_DIR/run" ] || skip "a cluster of $KUBE_DIR runs, or was left: testing/cluster/down.sh ends it"
[ ! -e /run/netns/kcp ] || skip "another such cluster runs here: there is a network namespace kcp"
sh "$here/testing/cluster/prepare.sh"

work=$(mktemp -d)
server=""
ended() {
    status=$?
    trap - EXIT
    if [ $status != 0 ] && [ $status != 77 ] && [ -n "${KEEP_LOGS:-}" ]; then cp -r "$work" "$KEEP_LOGS"; fi
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    sh "$here/testing/cluster/down.sh" || echo "test-cluster: $KUBE_DIR/run is not all gone" >&2
    rm -rf "$work"
    exit $status
}
trap ended EXIT
trap 'exit 130' INT TERM
fail() { echo "test-cluster: FAILED: $*" >&2; exit 1; }

echo "== an image of $programs"
image=$work/image
mkdir -p "$image/usr/bin" "$image/usr/lib/nearside" "$image/tmp"
cp "$program" "$image/usr/bin/"
cp "$programs/nearside-tools" "$programs/nearside-cluster" "$image/usr/lib/nearside/"
for one in nearside nearside-tools nearside-cluster; do
    for library in $(ldd "$programs/$one" | grep -o '/[^ ]*'); do
        [ -e "$image$library" ] || cp -L --parents "$library" "$image"
    done
done
python3 "$here/testing/cluster/image.py" "$KUBE_DIR/images/nearside.tar" docker.io/library/nearside:test "$image" \
    65532:65532 /usr/bin/nearside
rm -rf "$image"

echo "== a cluster of two nodes"
sh "$here/testing/cluster/up.sh"
in_control() { nsenter --net=/run/netns/kcp "$@"; }
k() { in_control kubectl --kubeconfig "$KUBE_DIR/pki/admin.conf" "$@"; }
# Until a command succeeds; for so many seconds at most.
within() {
    seconds=$1
    shift
    until "$@" >"$work/said" 2>&1; do
        seconds=$((seconds - 1))
        [ $seconds -gt 0 ] || fail "in vain: $*: $(cat "$work/said")"
        sleep 1
    done
}
are_ready() { [ "$(k get nodes --no-headers | grep -c ' Ready ')" = 2 ]; }
within 300 are_ready
k create namespace load >/dev/null
k label namespace load pod-security.kubernetes.io/enforce=restricted >/dev/null
within 60 k get serviceaccount default -n load
k apply -f - >/dev/null <<Y
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: tester, namespace: load}
rules:
- {apiGroups: [batch], resources: [jobs], verbs: [get, create, patch, delete]}
- {apiGroups: [""], resources: [secrets], verbs: [get, create, delete]}
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, create, update]}
- {apiGroups: [""], resources: [pods], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: tester, namespace: load}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: tester}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: tester}]
Y

mkdir "$work/site"
echo page >"$work/site/index.html"
chmod 755 "$work" "$work/site"
in_control "$program" serve "$work/site" --listen 198.18.0.1:8080 >"$work/server.log" 2>&1 &
server=$!
is_served() { in_control "$program" load http://198.18.0.1:8080/index.html -n 1 --warmup 0s --no-floor --json; }
within 60 is_served

# A test's file: its name, how many workers, seconds, and lines of its spec beside.
write_test() {
    cat >"$work/$1.yaml" <<Y
apiVersion: nearside.dev/v1alpha1
kind: LoadTest
metadata: {name: $1}
spec:
  target: http://198.18.0.1:8080/index.html
  workers: $2
  connections: $(($2 * 2))
  arrival: poisson
  rate: $(($2 * 20))
  duration: $3s
  prepareWithin: 120s
  # This is no measurement: the machine is shared with two nodes.
  startTolerance: 10s
${4:-}
Y
}
usual='  pods: {imagePullPolicy: Never, spread: required, resources: {requests: {cpu: 50m}}}'
# Runs it; its result and what it said are in files of its name.
run_test() {
    in_control "$programs/nearside-cluster" run "$work/$1.yaml" --kubeconfig "$KUBE_DIR/pki/tester.conf" \
        --namespace load --image docker.io/library/nearside:test --json >"$work/$1.json" 2>"$work/$1.err"
}
# Runs it, and holds its exit code against what it is to be, and what it said against a pattern.
expect() {
    name=$1 code=$2 pattern=$3
    status=0
    run_test "$name" || status=$?
    judge
}
judge() {
    [ "$status" = "$code" ] || fail "$name ended with $status, and was to end with $code: $(cat "$work/$name.err")"
    grep -q "$pattern" "$work/$name.err" || fail "$name did not say '$pattern': $(cat "$work/$name.err")"
    within 60 is_empty
    echo "   $name: exit code $status"
}
# Nothing of a test is left: the Lease of its target stays, and nobody holds it.
is_empty() {
    left=$(k get jobs,pods,secrets -n load -o name)
    held=$(k get leases -n load -o 'jsonpath={.items[*].spec.holderIdentity}' | tr -d ' ')
    echo "left: $left $held"
    [ -z "$left$held" ]
}
# What a result says, by a Python expression of it.
says() {
    python3 -c 'import json, sys
of = json.load(open(sys.argv[1]))
if not eval(sys.argv[2]): sys.exit("not so: %s: %s" % (sys.argv[2], json.dumps(of["workers"])))' "$work/$1.json" "$2" ||
        fail "$1: its result"
}

echo "== three workers over two nodes"
write_test three 3 5 "$usual"
expect three 0 loading
says three 'of["workers"]["measured"] == 3 and not of["workers"]["problems"]'
says three 'sum(one["responses"] for one in of["workers"]["each"]) == of["traffic"]["responses"] > 200'

echo "== more than a node has"
write_test large 2 5 '  pods: {imagePullPolicy: Never, resources: {requests: {cpu: 500}}}'
expect large 5 'worker 0.*nsufficient cpu'

echo "== an image that is nowhere"
write_test nowhere 1 5 '  pods: {imagePullPolicy: Never}'
sed -i 's/Never}/Never, image: none.example\/none:1}/' "$work/nowhere.yaml"
status=0 name=nowhere code=5 pattern='worker 0.*ErrImageNeverPull'
in_control "$programs/nearside-cluster" run "$work/nowhere.yaml" --kubeconfig "$KUBE_DIR/pki/tester.conf" \
    --namespace load --json >"$work/nowhere.json" 2>"$work/nowhere.err" || status=$?
judge

# Begins a test, and waits until its load is on.
begin_test() {
    name=$1
    run_test "$name" &
    running=$!
    within 180 grep -q 'loading [1-9]' "$work/$name.err"
}
# The process that is a controller, below this shell's child.
controller() { pgrep -P "$running" -f 'nearside-cluster run'; }

echo "== a pod that is deleted"
write_test deleted 3 60 "$usual"
begin_test deleted
k delete pod -n load -l batch.kubernetes.io/job-completion-index=1 --wait=false >/dev/null
status=0 code=5 pattern='INVALID: worker 1'
wait $running || status=$?
judge

echo "== a controller that is killed, and started again"
write_test again 3 40 "$usual"
begin_test again
kill -9 "$(controller)"
wait $running 2>/dev/null || true
expect again 0 resuming
says again 'of["workers"]["measured"] == 3 and not of["workers"]["problems"]'

echo "== two tests of one target"
write_test first 1 10 "$usual"
write_test second 1 5 "$usual"
begin_test first
waits=$running
expect second 0 waiting
status=0
wait $waits || status=$?
[ $status = 0 ] || fail "the first of two ended with $status: $(cat "$work/first.err")"

echo "== the operator, by its file"
operated=docker.io/library/nearside:test
# There is no DNS here: workers know the operator's address.
"$programs/nearside-cluster" install --namespace load --image $operated --json | python3 -c 'import json, sys
all = json.load(sys.stdin)
for one in all["items"]:
    if one["kind"] == "Deployment":
        args = one["spec"]["template"]["spec"]["containers"][0]["args"]
        at = args.index("--host")
        del args[at:at + 2]
json.dump(all, sys.stdout)' >"$work/operator.json"
k apply -f "$work/operator.json" >/dev/null
is_established() { k wait --for=condition=Established --timeout=1s crd/loadtests.nearside.dev; }
within 60 is_established
is_there() { k get deployment -n load nearside-operator -o 'jsonpath={.status.readyReplicas}' | grep -qx 1; }
within 120 is_there
# Where nothing of an operator's test is left its Secrets and Jobs are gone.
is_tidy() { [ -z "$(k get jobs,secrets -n load -o name)" ]; }
verdict() { k get loadtest -n load "$1" -o 'jsonpath={.status.verdict}'; }
complete() { k wait -n load --for=condition=Complete --timeout=1s "loadtest/$1"; }
told() { # name, verdict, pattern of what its conditions say
    within 180 complete "$1"
    said=$(k get loadtest -n load "$1" -o json)
    [ "$(verdict "$1")" = "$2" ] || fail "$1 came to $(verdict "$1"): $said"
    echo "$said" | grep -q "$3" || fail "$1 does not say '$3': $said"
    within 60 is_tidy
    echo "   $1: $2"
}
write_test object 3 5 "$usual"
k apply -n load -f "$work/object.yaml" >/dev/null
told object pass Measured
k get loadtests -n load
k get configmap -n load nearside-object-result -o 'jsonpath={.data.result\.json}' >"$work/object.json"
says object 'of["workers"]["measured"] == 3 and not of["workers"]["problems"]'
k get events -n load --field-selector involvedObject.name=object -o 'jsonpath={.items[*].reason}' >"$work/said"
for reason in Accepted WorkersReady Loading Measured; do
    grep -q $reason "$work/said" || fail "no event $reason: $(cat "$work/said")"
done
k delete loadtest -n load object >/dev/null
is_forgotten() { ! k get configmap -n load nearside-object-result; }
within 60 is_forgotten

echo "== what the API server refuses"
refused() { # pattern, lines of a test's spec
    write_test refused 3 5 "$2"
    if k apply -n load -f "$work/refused.yaml" >"$work/said" 2>&1; then fail "it takes '$2'"; fi
    grep -q "$1" "$work/said" || fail "it does not say '$1': $(cat "$work/said")"
}
refused 'unknown field "spec.nonesuch"' '  nonesuch: 1'
refused 'spec.threads' '  threads: 0'
refused 'rows of data are a file' '  request: {template: true, feed: {file: a.csv}}'
refused 'a header has value or valueFrom' '  request: {headers: [{name: A}]}'
refused 'spec.pods.spread' '  pods: {spread: even}'
write_test refused 3 5
for change in 's/rate: 60/rate: 60\n  arrival: closed/;s/  arrival: poisson//' 's/connections: 6/connections: 2/' \
    's/rate: 60//' "s/name: refused/name: $(printf 'a%.0s' $(seq 60))/"; do
    sed "$change" "$work/refused.yaml" >"$work/changed.yaml"
    if k apply -n load -f "$work/changed.yaml" >"$work/said" 2>&1; then fail "it takes: $(cat "$work/changed.yaml")"; fi
done
write_test kept 1 3 "$usual"
k apply -n load -f "$work/kept.yaml" >/dev/null
sed -i 's/duration: 3s/duration: 4s/' "$work/kept.yaml"
if k apply -n load -f "$work/kept.yaml" >"$work/said" 2>&1; then fail "a test changes"; fi
grep -q 'a test does not change' "$work/said" || fail "$(cat "$work/said")"
told kept pass Measured
k delete loadtest -n load kept >/dev/null

echo "== what the operator refuses, and what misses its objective"
write_test wrong 3 5 "$usual"
sed -i 's/rate: 60/rate: 2/' "$work/wrong.yaml"
k apply -n load -f "$work/wrong.yaml" >/dev/null
told wrong invalid 'spec.rate: 2 a second over 3 workers'
write_test missed 1 3 "$usual
  expect: [p50<1us]
  ttlSecondsAfterFinished: 5"
k apply -n load -f "$work/missed.yaml" >/dev/null
told missed fail ObjectiveMissed
is_expired() { ! k get loadtest -n load missed; }
within 60 is_expired
k delete loadtest -n load wrong >/dev/null

echo "== an operator that is killed while a load is on"
write_test killed 2 60 "$usual"
k apply -n load -f "$work/killed.yaml" >/dev/null
is_running() { k wait -n load --for=condition=Running --timeout=1s loadtest/killed; }
within 180 is_running
kill -9 "$(pgrep -f "nearside-cluster operate --namespace load --image $operated")"
told killed pass Measured
k delete loadtest -n load killed >/dev/null

echo "== a test that is deleted while its load is on"
write_test ended 2 300 "$usual"
k apply -n load -f "$work/ended.yaml" >/dev/null
is_running() { k wait -n load --for=condition=Running --timeout=1s loadtest/ended; }
within 180 is_running
k delete loadtest -n load ended >/dev/null
within 60 is_tidy
k delete deployment -n load nearside-operator >/dev/null

echo "== a node that dies"
write_test node 2 60 "$usual"
begin_test node
kill -9 "$(cat "$KUBE_DIR/run/node2.pid")"
status=0 code=5 pattern='INVALID: worker [01]'
wait $running || status=$?
[ $status = $code ] || fail "node ended with $status: $(cat "$work/node.err")"
grep -q "$pattern" "$work/node.err" || fail "node did not say '$pattern': $(cat "$work/node.err")"
echo "test-cluster: good"
