#!/bin/sh
# Holds what `nearside cluster explain` says against the Node Tuning Operator's
# own golden files: what it renders from its PerformanceProfiles.
#
#   scripts/nto.sh CHECKOUT [NEARSIDE-CLUSTER]
#
# CHECKOUT is openshift/cluster-node-tuning-operator; nothing is written into
# it, and nothing of it is kept. For each file, three things are asked:
#
#   known    each line is known, but for those in scripts/nto.txt
#   whole    no leaf of the file is left out, and none is invented: counted by
#            Python's own YAML, where it is there, and left out with a message
#            where it is not
#   profile  what its PerformanceProfile says stands in it: cores, pages,
#            arguments, policies
#
# scripts/nto.txt has a line for each thing that is to be otherwise: what is
# asked, the end of the file's name, the place, and behind a # the reason. Exit
# status 1: something is otherwise than there.
set -eu

checkout=$(cd "${1:?which checkout? scripts/nto.sh CHECKOUT [NEARSIDE-CLUSTER]}" && pwd)
program=${2:-target/release/nearside-cluster}
[ -x "$program" ] || { echo "nto: $program: build it, or name another" >&2; exit 2; }
expected=$(dirname "$0")/nto.txt
golden=$checkout/test/e2e/performanceprofile/testdata/render-expected-output
inputs=$checkout/test/e2e/performanceprofile/cluster-setup
[ -d "$golden" ] || { echo "nto: $checkout: no golden files below test/e2e/performanceprofile" >&2; exit 2; }
command -v python3 >/dev/null 2>&1 || { echo "nto: left out: it needs python3" >&2; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

count=0
for file in $(find "$golden" -name '*.yaml' | sort); do
    count=$((count + 1))
    # 0, 3 and 4 are what it may come to.
    "$program" explain --json "$file" >"$work/$count.json" || [ $? -ge 3 ] || exit 2
    echo "$work/$count.json $file" >>"$work/files"
done
# Which profile each folder was rendered from, by the operator's own tests.
for pair in default:manual-cluster/performance/performance_profile.yaml \
    default/arm:manual-cluster/arm/performance_profile.yaml \
    default/cpuFrequency:manual-cluster/cpuFrequency/performance_cpuFrequency_profile.yaml \
    default/pp-norps:manual-cluster/performance-norps/performance_profile.yaml \
    no-ref:manual-cluster/performance/performance_profile.yaml; do
    [ -e "$inputs/${pair#*:}" ] || continue
    name=$(echo "${pair%%:*}" | tr / _)
    "$program" explain --json "$inputs/${pair#*:}" >"$work/$name.profile" || [ $? -ge 3 ] || exit 2
    echo "$work/$name.profile $golden/${pair%%:*}" >>"$work/profiles"
done
exec python3 "$(dirname "$0")/nto.py" "$work" "$golden" "$expected"
