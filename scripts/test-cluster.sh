#!/bin/sh
# One load by pods of a real Kubernetes of two nodes on this machine (scripts/kubernetes.sh), by `nearside cluster run`
# and by the operator that `nearside cluster install` installs; and audits of both nodes, likewise. What workers counted
# is held against what the server saw; workers, a node, controllers and the operator are killed; at the end nothing is
# left.
#
#   scripts/test-cluster.sh target/release/nearside [CASE]...
#
# The case fifty, of as many workers, runs where it is named: it takes more than two cores that do something else, too.
# What is missing is named, and the exit status is 77. NEARSIDE_KUBERNETES is the folder that keeps the program of
# Kubernetes; KEEP=1 leaves the cluster as it is, and says how to look at it.
set -eu

skip() { echo "test-cluster: left out: $*" >&2; exit 77; }
fail() { echo "test-cluster: $case: $*" >&2; exit 1; }

program=$(readlink -f "${1:?which program}")
shift
here=$(cd "$(dirname "$0")" && pwd)
cases=${*:-measured worker-tokens refused killed-worker deleted-pod no-image controller-killed operator \
    operator-killed audit-run audit-tokens audit node-killed audit-lost namespace}
case=begin
for command in jq kubectl; do command -v $command >/dev/null 2>&1 || skip "there is no $command"; done

work=$(mktemp -d -p /var/tmp)
cluster=$work/cluster
server=""
mkdir -p "$cluster"
cleaned() {
    if [ "${KEEP:-}" = 1 ]; then
        echo "kept: nsenter --net=/run/netns/nearside-cp kubectl --kubeconfig $cluster/admin.conf get pods -A"
        echo "ended by: kill $server; $here/kubernetes.sh down $cluster; rm -rf $work"
        return
    fi
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
    "$here/kubernetes.sh" down "$cluster"
    rm -rf "$work"
}
trap cleaned EXIT
trap 'exit 130' INT TERM

in_cluster() { nsenter --net=/run/netns/nearside-cp "$@"; }
kube() { in_cluster kubectl --kubeconfig "$cluster/admin.conf" "$@"; }
get() { kube get -n load "$@" 2>/dev/null; }

# Until a command succeeds, for two minutes.
until_it() { # what, command
    what=$1
    shift
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { dump; fail "in vain: $what"; }
        sleep 0.2
    done
}
dump() {
    kube get all,loadtests,leases -n load -o wide >&2 || true
    kube get events -n load --sort-by=.metadata.creationTimestamp 2>/dev/null | tail -n 20 >&2 || true
    tail -n 20 "$work/said" >&2 || true
}

# The programs, and what they are linked with: nothing else is in the image.
packed() {
    root=$work/root
    mkdir -p "$root/usr/bin" "$root/usr/lib/nearside" "$root/tmp" "$root/etc"
    cp "$program" "$root/usr/bin/nearside"
    for one in nearside-tools nearside-cluster; do cp "$(dirname "$program")/$one" "$root/usr/lib/nearside/"; done
    for file in $(ldd "$program" "$(dirname "$program")"/nearside-tools "$(dirname "$program")"/nearside-cluster |
        sed -n 's/.*[[:space:]]\(\/[^ ]*\) (0x.*/\1/p' | sort -u); do
        mkdir -p "$root$(dirname "$file")"
        cp -L "$file" "$root$file"
    done
    "$here/kubernetes.sh" image "$cluster" docker.io/library/nearside:test "$root"
}

# What is loaded: it answers, and writes a line for each request.
served() {
    cat >"$work/nginx.conf" <<END
worker_processes 1; daemon off; pid $work/server.pid; error_log $work/error.log;
events { worker_connections 4096; }
http {
    log_format line '\$request_uri'; access_log $work/requests line;
    keepalive_requests 1000000;
    server { listen 198.18.0.1:8080; location / { return 200 page; } }
}
END
    chmod 755 "$work"
    : >"$work/requests"
    chmod 666 "$work/requests"
    nsenter --net=/run/netns/nearside-cp "$program" nginx -c "$work/nginx.conf" >"$work/server" 2>&1 </dev/null &
    server=$!
    until_it "the server" in_cluster curl -sf http://198.18.0.1:8080/up
}

# A test: its name, what it is to be for long, and more fields.
spec() { # name, duration, lines
    cat <<END
apiVersion: nearside.dev/v1alpha1
kind: LoadTest
metadata: {name: $1}
spec:
  target: http://198.18.0.1:8080/$1
  workers: 4
  connections: 8
  arrival: poisson
  rate: 200
  duration: $2
  warmUp: 1s
  floor: false
  startTolerance: 10s
  expect: [errors<1%]
  pods: {resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 256Mi}}}
${3:-}
END
}

run() { # name, options
    name=$1
    shift
    in_cluster "$program" cluster run "$work/$name.yaml" --kubeconfig "$cluster/admin.conf" --namespace load \
        --image nearside:test "$@"
}
# Runs a test to its end; its exit code is in $code, what it said in $work/said, its result in $work/result.
ran() { # name, options
    code=0
    run "$@" --json >"$work/result" 2>"$work/said" || code=$?
}

# The requests of a test, as the server saw them.
seen() { grep -c "^/$1\$" "$work/requests" || true; }
begun() { [ "$(seen "$1")" -gt 20 ]; }
sent() { jq '.traffic.sent + .warm_up_phase.traffic.sent + .ramp_phase.traffic.sent' "$1"; }
counted() { [ "$(seen "$1")" = "$(sent "$2")" ]; }
# Every request is counted once, by the workers as by the server; and buckets hold what was answered.
counts_agree() { # name, result
    until_it "the server saw $(seen "$1") requests, workers counted $(sent "$2")" counted "$1" "$2"
    [ "$(jq '[.workers.each[].responses] | add' "$2")" = "$(jq .traffic.responses "$2")" ] ||
        fail "workers' responses do not add up: $(jq -c '.workers, .traffic' "$2")"
}

# Nothing of a test is there any more but its target's Lease, which nobody holds.
nothing_left() {
    until_it "a namespace without jobs, pods and secrets" is_empty
    held=$(get leases -o json | jq -r '.items[] | select(.metadata.name | startswith("nearside-target")) |
        .spec.holderIdentity // ""')
    [ -z "$held" ] || fail "the target is held by $held"
}
is_empty() {
    [ -z "$(get jobs,secrets -o name)" ] && [ -z "$(get pods -l app.kubernetes.io/component=worker -o name)" ]
}

# The pod of a worker.
worker() { get pods -l "batch.kubernetes.io/job-completion-index=$1,app.kubernetes.io/instance=$2" -o name; }
# Kills what runs in a pod's container, as the kernel does; by its control group, which is this cluster's.
killed() { # pod
    id=$(get "$1" -o jsonpath='{.status.containerStatuses[0].containerID}')
    for group in $(find /sys/fs/cgroup/pids/nearside-node* -type d -name "${id#containerd://}"); do
        xargs -r kill -9 <"$group/cgroup.procs"
    done
}
# Ended with INVALID, soon, and with the worker's name.
invalid() { # words
    [ $code = 5 ] || { dump; fail "it ended with $code"; }
    [ "${took:-0}" -lt 20 ] || fail "it took $took s"
    grep -q "INVALID: $1" "$work/said" || { dump; fail "without the words INVALID: $1"; }
    nothing_left
}
# Runs a test of a minute in the background, and something else when its load is on.
disturbed() { # name, command
    spec "$1" 60s >"$work/$1.yaml"
    run "$1" --quiet >"$work/said" 2>&1 &
    child=$!
    until_it "load" begun "$1"
    name=$1
    shift
    before=$(date +%s)
    "$@"
    code=0
    wait $child || code=$?
    took=$(($(date +%s) - before))
    echo "   after $took s: $(grep -o 'INVALID: .*' "$work/said" | head -n 1)"
}

case_measured() {
    spec measured 5s "  threads: 1" >"$work/measured.yaml"
    ran measured
    [ $code = 0 ] || { dump; fail "it ended with $code"; }
    [ "$(jq .workers.measured "$work/result")" = 4 ] || fail "$(jq -c .workers "$work/result")"
    counts_agree measured "$work/result"
    nothing_left
    # As processes of this machine the same test has a result of the same form.
    in_cluster "$program" cluster run "$work/measured.yaml" --local --quiet --json >"$work/local" 2>"$work/said" ||
        fail "with --local: $(cat "$work/said")"
    # Of the machine each says what there is, and of its ports where the load goes over one.
    for one in local result; do
        jq -c 'del(.environment, .carried) | paths | select(all(type == "string"))' "$work/$one" |
            sort >"$work/$one.fields"
    done
    diff "$work/local.fields" "$work/result.fields" >&2 || fail "results of pods and processes differ in form"
    echo "   $(seen measured) requests, as many as workers counted; skew $(jq -c .workers.skew "$work/result")"
}

# What a worker's container shows of its test's Secret, as its processes see it: its own token, and no other.
seen_by() { # pod
    id=$(get "$1" -o jsonpath='{.status.containerStatuses[0].containerID}')
    for group in $(find /sys/fs/cgroup/pids/nearside-node* -type d -name "${id#containerd://}"); do
        pid=$(head -n 1 "$group/cgroup.procs")
        ls "/proc/$pid/root/run/nearside-test" | tr '\n' ' '
        cat "/proc/$pid/root/run/nearside-test/token"
        echo
    done
}
case_worker_tokens() {
    spec worker-tokens 15s >"$work/worker-tokens.yaml"
    run worker-tokens --quiet >"$work/said" 2>&1 &
    child=$!
    until_it "load" begun worker-tokens
    for index in 0 1 2 3; do seen_by "$(worker $index worker-tokens)"; done >"$work/tokens"
    code=0
    wait $child || code=$?
    [ $code = 0 ] || { dump; fail "it ended with $code"; }
    [ "$(grep -c '^controller controller-key request.json token [0-9a-f]\{32\}$' "$work/tokens")" = 4 ] ||
        fail "what workers see: $(sed 's/[0-9a-f]\{32\}/(a token)/' "$work/tokens")"
    [ "$(sort -u "$work/tokens" | wc -l)" = 4 ] || fail "two workers have one token"
    nothing_left
    echo "   each of four workers sees a token of its own"
}

case_fifty() {
    spec fifty 5s "  prepareWithin: 120s" >"$work/fifty.yaml"
    sed -i 's/workers: 4/workers: 50/; s/connections: 8/connections: 100/; s/rate: 200/rate: 500/; s/100m/10m/' \
        "$work/fifty.yaml"
    ran fifty
    [ $code = 0 ] || { dump; fail "it ended with $code"; }
    [ "$(jq .workers.measured "$work/result")" = 50 ] || fail "$(jq -c .workers.problems "$work/result")"
    counts_agree fifty "$work/result"
    nothing_left
    echo "   $(seen fifty) requests of 50 pods; skew $(jq -c .workers.skew "$work/result")"
}

case_refused() {
    spec refused 5s "  workerz: 3" >"$work/refused.yaml"
    ran refused
    [ $code = 2 ] && grep -q workerz "$work/said" || fail "an unknown field: $code"
    spec refused 5s | sed 's/workers: 4/workers: 400/; s/rate: 200/rate: 300/' >"$work/refused.yaml"
    ran refused
    [ $code = 2 ] && grep -q 'spec.rate' "$work/said" || fail "less than a request a second for each: $code"
    nothing_left
}

case_killed_worker() {
    kill_it() { killed "$(worker 1 killed-worker)"; }
    disturbed killed-worker kill_it
    invalid 'worker 1: its process was killed (SIGKILL)'
}

case_deleted_pod() {
    delete_it() { kube delete -n load "$(worker 2 deleted-pod)" --wait=false >/dev/null; }
    disturbed deleted-pod delete_it
    invalid 'worker 2: its place was taken from it'
}

case_no_image() {
    spec no-image 5s "  prepareWithin: 120s" >"$work/no-image.yaml"
    code=0
    in_cluster "$program" cluster run "$work/no-image.yaml" --kubeconfig "$cluster/admin.conf" --namespace load \
        --image nearside.invalid/nearside:1 --quiet >"$work/said" 2>&1 || code=$?
    grep -Eq 'worker [0-3] said: (ErrImagePull|ImagePullBackOff)' "$work/said" || { dump; fail "no reason"; }
    took=0
    invalid 'worker '
    echo "   $(grep -Eo 'worker [0-3] said: .{0,60}' "$work/said" | head -n 1)"
}

case_controller_killed() {
    spec controller-killed 15s >"$work/controller-killed.yaml"
    # The program itself, so that it is the one that is killed.
    nsenter --net=/run/netns/nearside-cp "$(dirname "$program")/nearside-cluster" run "$work/controller-killed.yaml" \
        --kubeconfig "$cluster/admin.conf" --namespace load --image nearside:test --quiet >"$work/said" 2>&1 &
    child=$!
    until_it "load" begun controller-killed
    kill -9 $child
    wait $child 2>/dev/null || true
    ran controller-killed
    [ $code = 0 ] || { dump; fail "it ended with $code"; }
    grep -q 'an earlier controller began this test' "$work/said" || { dump; fail "it did not go on"; }
    counts_agree controller-killed "$work/result"
    nothing_left
}

installed() {
    kube get deployment -n load nearside-operator >/dev/null 2>&1 && return
    "$program" cluster install --namespace load --image nearside:test >"$work/operator.yaml"
    kube apply -f "$work/operator.yaml" >"$work/said" 2>&1 || fail "$(cat "$work/said")"
    kube wait -n load --for=condition=Available --timeout=60s deployment/nearside-operator >"$work/said" 2>&1 ||
        { dump; kube logs -n load deployment/nearside-operator >&2; fail "the operator does not run"; }
}
# Waits for a test's end; its result is in $work/result.
completed() { # name
    kube wait -n load --for=condition=Complete --timeout=120s "loadtest/$1" >"$work/said" 2>&1 ||
        { dump; kube logs -n load deployment/nearside-operator >&2; fail "no end of $1"; }
    get "loadtest/$1" -o json >"$work/status"
    jq -r '.status | "   \(.verdict), \(.workers) workers, \(.rate), p99 \(.p99), skew \(.skew)"' "$work/status"
}
passed() { # name
    completed "$1"
    [ "$(jq -r .status.verdict "$work/status")" = pass ] || { dump; fail "$(jq -c .status "$work/status")"; }
    get "configmap/nearside-$1-result" -o json | jq -r '.data["result.json"]' >"$work/result"
    counts_agree "$1" "$work/result"
    nothing_left
}

case_operator() {
    installed
    spec operator 5s | kube apply -n load -f - >/dev/null
    passed operator
    # The API server refuses a change, and what its rules refuse.
    ! spec operator 6s | kube apply -n load -f - >"$work/said" 2>&1 || fail "a test was changed"
    ! spec few 5s | sed 's/workers: 4/workers: 400/; s/rate: 200/rate: 300/' | kube apply -n load -f - \
        >"$work/said" 2>&1 || fail "300 requests a second of 400 workers"
    kube delete -n load loadtest/operator >/dev/null
    until_it "no result without its test" is_without_results
}
is_without_results() { [ -z "$(get configmaps -o name | grep result)" ]; }

case_operator_killed() {
    installed
    spec operator-killed 30s | kube apply -n load -f - >/dev/null
    until_it "load" begun operator-killed
    first=$(address)
    # Another pod takes its place, with another address, which workers find by the operator's name.
    kube delete -n load pods -l app.kubernetes.io/component=operator --grace-period=0 --force >/dev/null 2>&1
    passed operator-killed
    [ "$(address)" != "$first" ] || fail "the next operator has the address of the first: $first"
    kube delete -n load loadtest/operator-killed >/dev/null
}

# Where the operator is.
address() { get pods -l app.kubernetes.io/component=operator -o jsonpath='{.items[*].status.podIP}'; }

case_node_killed() {
    kill_node() {
        lost=$(get pods -l app.kubernetes.io/instance=node-killed -o json |
            jq -r '.items[] | select(.spec.nodeName == "node2") |
                .metadata.annotations["batch.kubernetes.io/job-completion-index"]' | sort | tr '\n' ' ')
        [ -n "$lost" ] || fail "no worker is on node2"
        "$here/kubernetes.sh" kill "$cluster" 2
    }
    disturbed node-killed kill_node
    [ $code = 5 ] || { dump; fail "it ended with $code"; }
    for one in $lost; do grep -q "worker $one: " "$work/said" || { dump; fail "worker $one is not named"; }; done
    # Its pods are there until somebody says that the node is gone.
    kube delete node node2 >/dev/null
    nothing_left
}

case_namespace() {
    installed
    spec namespace 60s | kube apply -n load -f - >/dev/null
    until_it "load" begun namespace
    kube delete namespace load --wait=false >/dev/null
    until_it "a namespace that is gone" is_gone
}
is_gone() { ! kube get namespace load >/dev/null 2>&1; }

# An audit of all nodes: its name, lines.
audit() {
    cat <<END
apiVersion: nearside.dev/v1alpha1
kind: NodeAudit
metadata: {name: $1}
spec:
  role: mixed
${2:-}
END
}
# Makes an audit to its end; its exit code is in $code, what it said in $work/said, its result in $work/result.
audited() { # name, options
    name=$1
    shift
    code=0
    in_cluster "$program" cluster run "$work/$name.yaml" --kubeconfig "$cluster/admin.conf" \
        --namespace "${space:-audits}" --image nearside:test --json "$@" >"$work/result" 2>"$work/said" || code=$?
}
# Something of a node's kernel is another from now on, for whoever looks there: a file lies over it.
planted() { # node, value
    echo "$2" >"$cluster/planted$1"
    in_node "$1" mount --bind "$cluster/planted$1" /proc/sys/vm/swappiness
}
uprooted() { in_node "$1" umount /proc/sys/vm/swappiness; } # node
# A command where the first process of a node is.
in_node() { # node, command
    first=$(pgrep -P "$(cat "$cluster/node$1.pid")" | head -n 1)
    shift
    nsenter --mount --pid --target "$first" "$@"
}
audits_gone() {
    [ -z "$(kube get -n audits pods -l app.kubernetes.io/component=audit -o name)" ] &&
        [ -z "$(kube get -n audits secrets -o name)" ]
}
nothing_of_audits() {
    until_it "a namespace without pods and secrets of audits" audits_gone
    [ -z "$(kube get -n audits leases -o name | grep '\.audit$')" ] || fail "a Lease of an audit is left"
}
swappiness='.others[] | select(.nodes == ["node2"]) | .differences[] | select(.key == "vm.swappiness") | .here.value'

case_audit_run() {
    kube create namespace audits >/dev/null 2>&1 || true
    audit whole >"$work/whole.yaml"
    audited whole --reports "$work/first"
    [ $code = 0 ] || { dump; cat "$work/result" >&2; fail "it ended with $code"; }
    for node in node1 node2; do
        [ "$(jq -r .kind "$work/first/$node.json")" = audit ] || fail "no report of $node"
        [ "$(jq '.rows | length' "$work/first/$node.json")" -gt 200 ] || fail "a report of $node without rows"
    done
    # As that node sees itself: its network's settings are the node's, and few files are kept from who is not root.
    [ "$(jq '[.rows[] | select(.verdict == "unreadable")] | length' "$work/first/node1.json")" -lt 10 ] ||
        fail "$(jq -c '[.rows[] | select(.verdict == "unreadable") | .key]' "$work/first/node1.json")"
    nothing_of_audits
    planted 2 7
    audited whole --before "$work/first"
    uprooted 2
    [ $code = 0 ] || { dump; fail "it ended with $code"; }
    [ "$(jq -r "$swappiness" "$work/result")" = 7 ] || fail "the planted difference: $(jq -c .others "$work/result")"
    jq -e '.changed[] | select(.node == "node2") | .changes[] | select(.key == "vm.swappiness" and .is.value == "7")' \
        "$work/result" >/dev/null || fail "the drift: $(jq -c .changed "$work/result")"
    ! jq -e '.changed[] | select(.node == "node1") | .changes[] | select(.key == "vm.swappiness")' "$work/result" \
        >/dev/null || fail "a drift of node1: $(jq -c .changed "$work/result")"
    nothing_of_audits
    echo "   $(jq -c '[.nodes, .verdict, .reason]' "$work/result"); node2: $(jq -c '.others[0].differences | length' \
        "$work/result") differences, vm.swappiness among them"
    audit bad "  evry: 3" >"$work/bad.yaml"
    audited bad
    [ $code = 2 ] && grep -q spec.evry "$work/said" || fail "an unknown field: $code"
}

# Which kubelets may read which Secret of an audit, while its pods are there: that of its own node's pod, and no other.
case_audit_tokens() {
    kube create namespace audits >/dev/null 2>&1 || true
    audit tokens "  answerWithin: 30s" >"$work/tokens.yaml"
    # Nobody is at that address: pods try until their time is over.
    audited tokens --address 192.0.2.1:7000 &
    auditing=$!
    until_it "pods on both nodes" both_bound
    until_it "kubelets that may read what their pods name" own_secrets
    secrets_of_audits | while read -r name owner; do
        for reader in node1 node2; do
            [ "$reader" = "$owner" ] || ! may_read "$reader" "$name" || fail "$reader may read what $owner has: $name"
        done
    done
    [ "$(secrets_of_audits | grep -c ' none$')" = 1 ] || fail "the round's Secret: $(secrets_of_audits)"
    echo "   each kubelet may read the token of its own node, and none that of the round"
    wait "$auditing"
    nothing_of_audits
}
# Names of Secrets, each with its node; the round's has none.
secrets_of_audits() {
    kube get -n audits secrets -o json |
        jq -r '.items[] | "\(.metadata.name) \(.metadata.annotations["nearside.dev/node"] // "none")"'
}
both_bound() {
    [ "$(kube get -n audits pods -l app.kubernetes.io/component=audit -o json |
        jq '[.items[] | select(.spec.nodeName)] | length')" = 2 ]
}
own_secrets() {
    [ "$(secrets_of_audits | while read -r name owner; do
        [ "$owner" = none ] || ! may_read "$owner" "$name" || echo "$owner"
    done | sort -u | wc -l)" = 2 ]
}
may_read() { # node, Secret
    kube auth can-i get "secrets/$2" -n audits --as "system:node:$1" --as-group system:nodes >/dev/null 2>&1
}

case_audit() {
    "$program" cluster install --audits --explain --namespace audits --image nearside:test >"$work/auditor.yaml"
    kube apply -f "$work/auditor.yaml" >"$work/said" 2>&1 || fail "$(cat "$work/said")"
    kube wait -n audits --for=condition=Available --timeout=60s deployment/nearside-auditor >"$work/said" 2>&1 ||
        { kube logs -n audits deployment/nearside-auditor >&2; fail "the operator does not run"; }
    ! audit bad "  role: database" | sed '/role: mixed/d' | kube apply -f - -n audits >/dev/null 2>&1 ||
        fail "a role that there is not"
    ! audit bad "  every: 1s" | kube apply -f - -n audits >/dev/null 2>&1 || fail "each second"
    audit fleet "  every: 1m" | kube apply -n audits -f - >/dev/null
    kube wait -n audits --for=condition=Complete --timeout=120s nodeaudit/fleet >"$work/said" 2>&1 ||
        { kube get -n audits nodeaudits,pods,events -o wide >&2; kube logs -n audits deployment/nearside-auditor >&2
            fail "no end"; }
    kube get -n audits nodeaudit/fleet -o json >"$work/status"
    [ "$(jq -c '[.status.nodes, .status.failed]' "$work/status")" = '[2,0]' ] || fail "$(jq -c .status "$work/status")"
    for node in node1 node2; do
        kube get -n audits "configmap/nearside-fleet.$node" -o json | jq -r '.data["audit.json"]' >"$work/$node.json"
        [ "$(jq -r .kind "$work/$node.json")" = audit ] || fail "no report of $node"
    done
    # By the operator as by the command that compares files.
    "$program" cluster audits "$work/node1.json" "$work/node2.json" >/dev/null || fail "reports cannot be compared"
    ! kube get -n audits nodeaudit/fleet -o json | jq '.spec.role = "web"' | kube apply -f - >/dev/null 2>&1 ||
        fail "an audit was changed"
    # A manifest of OpenShift's operator, explained in the operator's pod by its own account: other kinds are not there.
    tuned_kind | kube apply -f - >/dev/null
    until_it "a Tuned" made_tuned
    code=0
    kube exec -n audits deployment/nearside-auditor -- nearside cluster explain --audit fleet --namespace audits \
        >"$work/explained" 2>"$work/said" || code=$?
    grep -q "in force: 60 (node1, node2)" "$work/explained" && grep -q "no kind MachineConfig" "$work/said" ||
        { cat "$work/explained" "$work/said" >&2; fail "explain: $code"; }
    echo "   explain: $(tail -n 1 "$work/explained")"
    kube delete customresourcedefinition tuneds.tuned.openshift.io >/dev/null
    planted 2 7
    until_it "a drift" has_drifted
    uprooted 2
    kube get -n audits nodeaudits
    for group in $(find /sys/fs/cgroup/memory/nearside-node* -name memory.max_usage_in_bytes -path "*$(auditor_uid)*" \
        2>/dev/null | head -n 1); do echo "   the operator had $(($(cat "$group") >> 20)) MiB at most"; done
    # A row of its own: the node that the operator itself is on has an interface more.
    kube get -n audits nodeaudit/fleet -o json | jq -e '.status.rows[1].names == ["node2"] or
        .status.rows[1].names == ["node1"]' >/dev/null || fail "$(kube get -n audits nodeaudit/fleet -o json)"
    for node in node1 node2; do
        kube get -n audits "configmap/nearside-fleet.$node" -o json | jq -r '.data["audit.json"]' >"$work/$node.json"
    done
    "$program" cluster audits "$work/node1.json" "$work/node2.json" --json | jq -e '[.others[].differences[] |
        select(.key == "vm.swappiness") | .here.value, .usual.value] | index("7")' >/dev/null ||
        fail "the planted difference is not told"
    kube get -n audits "configmap/nearside-fleet.node2" -o json | jq -r '.data["changes.json"]' |
        jq -e '.[] | select(.key == "vm.swappiness" and .is.value == "7" and .since > .seen)' >/dev/null ||
        fail "what changed is not kept"
    kube get -n audits events -o json | jq -r '.items[] | select(.involvedObject.kind == "NodeAudit") |
        "   event \(.reason): \(.message)"' | cut -c 1-160
    kube delete -n audits nodeaudit/fleet >/dev/null
    nothing_of_audits
    until_it "no report without its audit" no_reports
    kube delete -f "$work/auditor.yaml" --wait=false >/dev/null 2>&1
}
tuned_kind() {
    cat <<END
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tuneds.tuned.openshift.io}
spec:
  group: tuned.openshift.io
  scope: Namespaced
  names: {kind: Tuned, plural: tuneds, singular: tuned}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
END
}
made_tuned() {
    kube apply -f - <<END
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: low, namespace: audits}
spec: {profile: [{name: low, data: "[sysctl]\nvm.swappiness=60\n"}]}
END
}
auditor_uid() {
    kube get -n audits pods -l app.kubernetes.io/component=auditor -o jsonpath='{.items[0].metadata.uid}'
}
has_drifted() {
    kube get -n audits "configmap/nearside-fleet.node2" -o json | jq -r '.data["changes.json"]' |
        jq -e '.[] | select(.key == "vm.swappiness")'
}
no_reports() { [ -z "$(kube get -n audits configmaps -o name | grep nearside-fleet)" ]; }

case_audit_lost() {
    kube create namespace lost >/dev/null
    "$here/kubernetes.sh" kill "$cluster" 2 2>/dev/null || true
    # Where another case had it deleted: a node that nothing is heard of.
    kube get node node2 >/dev/null 2>&1 ||
        printf 'apiVersion: v1\nkind: Node\nmetadata: {name: node2}\n' | kube apply -f - >/dev/null
    audit lost "  answerWithin: 20s" >"$work/lost.yaml"
    before=$(date +%s)
    space=lost
    audited lost
    space=audits
    took=$(($(date +%s) - before))
    [ $code = 5 ] || { dump; fail "it ended with $code"; }
    [ "$(jq -c '[.failed[].node]' "$work/result")" = '["node2"]' ] || fail "$(jq -c .failed "$work/result")"
    [ $took -lt 60 ] || fail "it took $took s"
    echo "   after $took s: $(jq -r '.failed[] | "\(.node): \(.reason): \(.message)"' "$work/result")"
    kube delete node node2 >/dev/null
    kube delete namespace lost --wait=false >/dev/null
}

packed
echo "== a Kubernetes of two nodes"
"$here/kubernetes.sh" build
"$here/kubernetes.sh" up "$cluster" 2 || { code=$?; [ $code != 77 ] || exit 77; fail "it does not start"; }
kube create namespace load >/dev/null
ready() { [ "$(kube get nodes --no-headers 2>/dev/null | grep -c ' Ready ')" = 2 ]; }
until_it "two nodes" ready
served
for case in $cases; do
    echo "== $case"
    "case_$(echo "$case" | tr - _)"
done
echo "test-cluster: good"
