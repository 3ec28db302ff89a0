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
# what it prints comes at the end.
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

number=0
for step; do
    name=${step%%|*}
    number=$((number + 1))
    begun=$(date +%s)
    case $name in
        "beside: "*)
            echo "== $name: begun"
            (
                sh -c "${step#*|}" >"$beside/$number.out" 2>&1
                echo "$? $(($(date +%s) - begun))" >"$beside/$number.status"
            ) &
            pids="$pids $!"
            printf '%s\n' "$name" >"$beside/$number.name"
            ;;
        *)
            echo "== $name"
            sh -c "${step#*|}"
            note "$name" $? $(($(date +%s) - begun))
            ;;
    esac
done
for file in "$beside"/*.name; do
    [ -e "$file" ] || continue
    name=$(cat "$file")
    echo "== $name"
    while [ ! -e "${file%.name}.status" ]; do
        sleep 1
    done
    cat "${file%.name}.out"
    read -r status seconds <"${file%.name}.status"
    note "$name" "$status" "$seconds"
done
pids=""
echo "== outcome"
printf '%s' "$table"
exit "$worst"
