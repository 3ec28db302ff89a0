#!/bin/sh
# Holds nearside's judgement of PerformanceProfiles against the Node Tuning
# Operator's own: its public test profiles, and each of them without one line.
#
#   scripts/nto-profiles.sh CHECKOUT [NEARSIDE]
#
# CHECKOUT is openshift/cluster-node-tuning-operator with its vendor folder, of
# any version that has performance.openshift.io/v2; nothing is written into it.
# Where there is no Go, the profiles are taken to be sound, as they are there,
# and those without a line are left out. Exit status 1: something is judged
# otherwise here.
set -eu

checkout=$(cd "${1:?which checkout? scripts/nto-profiles.sh CHECKOUT [NEARSIDE]}" && pwd)
nearside=${2:-target/release/nearside}
[ -x "$nearside" ] || { echo "nto-profiles: $nearside: build it, or name another" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Whole profiles; what kustomize lays over others has no cores of its own.
count=0
for file in $(grep -rl --include=*.yaml '^kind: PerformanceProfile' \
    "$checkout/test" "$checkout/examples" 2>/dev/null | sort); do
    [ "$(grep -c '^kind:' "$file")" = 1 ] && grep -q '^ *isolated:' "$file" || continue
    count=$((count + 1))
    cp "$file" "$work/$count.yaml"
    echo "$work/$count.yaml ${file#"$checkout"/}" >>"$work/names"
done
[ "$count" -gt 0 ] || { echo "nto-profiles: $checkout: no PerformanceProfile below test or examples" >&2; exit 2; }

if command -v go >/dev/null 2>&1; then
    sed 's/ .*//' "$work/names" | while read -r file; do
        lines=$(wc -l <"$file")
        line=5
        while [ "$line" -le "$lines" ]; do
            # Pages without a default size are refused here, whatever the
            # webhook of that version says.
            if ! sed -n "${line}p" "$file" | grep -q defaultHugepagesSize; then
                without=${file%.yaml}-$line.yaml
                sed "${line}d" "$file" >"$without"
                echo "$without $(sed -n "s|^$file ||p" "$work/names") without line $line" >>"$work/without"
            fi
            line=$((line + 1))
        done
    done
    [ ! -e "$work/without" ] || cat "$work/without" >>"$work/names"
    cat >"$work/main.go" <<'GO'
package main

import (
	"fmt"
	"os"

	v2 "github.com/openshift/cluster-node-tuning-operator/pkg/apis/performanceprofile/v2"
	"sigs.k8s.io/yaml"
)

func refuses(path string) (refused bool) {
	// A part that is missing altogether ends the validation.
	defer func() { refused = recover() != nil || refused }()
	text, err := os.ReadFile(path)
	profile := &v2.PerformanceProfile{}
	// A key that is there twice: the API server refuses it, as kubectl asks it to (--validate=strict).
	if _, twice := yaml.YAMLToJSONStrict(text); twice != nil {
		return true
	}
	return err != nil || yaml.Unmarshal(text, profile) != nil || len(profile.ValidateBasicFields()) > 0
}

func main() {
	for _, path := range os.Args[1:] {
		fmt.Println(path, refuses(path))
	}
}
GO
    # As if it lay in the checkout, which stays as it is.
    printf '{"Replace": {"%s/cmd/nearside-oracle/main.go": "%s/main.go"}}\n' "$checkout" "$work" >"$work/overlay.json"
    (cd "$checkout" && go build -overlay "$work/overlay.json" -o "$work/oracle" ./cmd/nearside-oracle)
    sed 's/ .*//' "$work/names" | xargs "$work/oracle" >"$work/operator" 2>/dev/null
else
    echo "nto-profiles: no go: the operator itself is not asked" >&2
    sed 's/ .*/ false/' "$work/names" >"$work/operator"
fi

judged=0 otherwise=0
while read -r file name; do
    operator=$(sed -n "s|^$file ||p" "$work/operator")
    # Status 1: it cannot be read at all, which the operator refuses, too.
    if "$nearside" node profile explain "$file" --json >"$work/out" 2>/dev/null || [ $? -gt 1 ]; then
        here=$(tr -d '\n' <"$work/out" | grep -Eq '"key": "PerformanceProfile [^"]*",[^{}]*"verdict": "refused"' &&
            echo true || echo false)
    else
        here=true
    fi
    judged=$((judged + 1))
    if [ "$here" != "$operator" ]; then
        otherwise=$((otherwise + 1))
        echo "$name: refused by the operator: $operator, here: $here"
    fi
done <"$work/names"
echo "$judged profiles, $otherwise judged otherwise"
[ "$otherwise" = 0 ]
