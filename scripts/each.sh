#!/bin/sh
# Runs every step to its end, whatever becomes of the others, and then says
# what became of each.
#
#   scripts/each.sh 'NAME|COMMAND'...
#
# A step that ends with 0 was kept, with 2 a bound was missed, with anything
# else it failed. The exit status is 1 if not all were kept; a bound of a step
# whose name begins with "goal: " is not promised, and may be missed. A step that
# ends with 77 lacks something, which it has said, and was left out. One whose
# name begins with "beside: " mostly waits: it runs beside all that follow, and
# what it prints comes at the end. Those whose names begin with "meanwhile: "
# calculate: from the first of them on they run one after the other, with a lower
# priority and on all cores but the first, beside all that stand after it.
set -u

beside=$(mktemp -d)
pids=""
# Ctrl-C ends those as well.
trap 'for pid in $pids; do kill "$pid" 2>/dev/null; done; rm -rf "$beside"' EXIT

table=""
worst=0
# What became of a step: its name, its status, its seconds.
note() {
    case $2 in
        0) outcome="kept" ;;
        2)
            case $1 in
                "goal: "*) outcome="not reached" ;;
                *) outcome="MISSED"; worst=1 ;;
            esac
            ;;
        77) outcome="left out" ;;
        130) exit 130 ;;
        *) outcome="FAILED ($2)"; worst=1 ;;
    esac
    table="$table$(printf '%-14s %6d s  %s' "$outcome" "$3" "$1")
"
}

# A command that is not to be in the way of others.
aside() {
    cores=$(nproc)
    if [ "$cores" -gt 1 ] && taskset -c "1-$((cores - 1))" true 2>/dev/null; then
        nice -n 10 taskset -c "1-$((cores - 1))" sh -c "$1"
    else
        nice -n 10 sh -c "$1"
    fi
}

# What runs elsewhere: its number, how it is run, and the step.
away() {
    step=$3
    begun=$(date +%s)
    $2 "${step#*|}" >"$beside/$1.out" 2>&1
    echo "$? $(($(date +%s) - begun))" >"$beside/$1.status"
}

# All that calculate, one after the other.
meanwhile() {
    at=0
    for step; do
        at=$((at + 1))
        case $step in
            "meanwhile: "*) away "$at" aside "$step" ;;
        esac
    done
}

together() { sh -c "$1"; }

number=0
is_begun=
for step; do
    name=${step%%|*}
    number=$((number + 1))
    begun=$(date +%s)
    case $name in
        "beside: "*)
            echo "== $name: begun"
            away "$number" together "$step" &
            pids="$pids $!"
            printf '%s\n' "$name" >"$beside/$number.name"
            ;;
        "meanwhile: "*)
            if [ -z "$is_begun" ]; then
                is_begun=yes
                meanwhile "$@" &
                pids="$pids $!"
            fi
            printf '%s\n' "$name" >"$beside/$number.name"
            ;;
        *)
            echo "== $name"
            sh -c "${step#*|}"
            note "$name" $? $(($(date +%s) - begun))
            ;;
    esac
done
at=0
while [ "$at" -lt "$number" ]; do
    at=$((at + 1))
    [ -e "$beside/$at.name" ] || continue
    name=$(cat "$beside/$at.name")
    echo "== $name"
    while [ ! -e "$beside/$at.status" ]; do
        sleep 1
    done
    cat "$beside/$at.out"
    read -r status seconds <"$beside/$at.status"
    note "$name" "$status" "$seconds"
done
pids=""
echo "== outcome"
printf '%s' "$table"
exit "$worst"
