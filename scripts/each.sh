#!/bin/sh
# Runs every step to its end, whatever becomes of the others, and then says
# what became of each.
#
#   scripts/each.sh 'NAME|COMMAND'...
#
# A step that ends with 0 was kept, with 2 a bound was missed, with anything
# else it failed. The exit status is 1 if not all were kept; a bound of a step
# whose name begins with "goal: " is not promised, and may be missed. A step that
# ends with 77 lacks something, which it has said, and was left out.
set -u

table=""
worst=0
for step; do
    name=${step%%|*}
    echo "== $name"
    begun=$(date +%s)
    sh -c "${step#*|}"
    status=$?
    case $status in
        0) outcome="kept" ;;
        2)
            case $name in
                "goal: "*) outcome="not reached" ;;
                *) outcome="MISSED"; worst=1 ;;
            esac
            ;;
        77) outcome="left out" ;;
        # Ctrl-C ends the rest as well.
        130) exit 130 ;;
        *) outcome="FAILED ($status)"; worst=1 ;;
    esac
    table="$table$(printf '%-14s %6d s  %s' "$outcome" "$(($(date +%s) - begun))" "$name")
"
done
echo "== outcome"
printf '%s' "$table"
exit "$worst"
