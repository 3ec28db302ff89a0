#!/bin/sh
# Builds with little to read: cargo's progress bar on a terminal, elsewhere a
# line every twenty seconds. Warnings and errors are shown whole.
#
#   scripts/build.sh --package cli --locked
#
# The arguments are those of `cargo build`, in the release profile, or in PROFILE.
set -eu

cargo=${CARGO:-cargo}
profile=${PROFILE:-release}
began=$(date +%s)
# A quiet cargo draws its bar only if it is told to, and needs to be told how
# wide where it sees no terminal.
export CARGO_TERM_PROGRESS_WHEN=always

took() {
    seconds=$(($(date +%s) - began))
    printf '%d:%02d' $((seconds / 60)) $((seconds % 60))
}

# The last step that the bar shows: `45/212: tcp, stack`.
step() { tail -c 1000 "$1" | tr '\r' '\n' | sed -n 's/.*\] *\([0-9][0-9]*\/[0-9].*\)/\1/p' | tail -n 1; }

status=0
if [ -t 2 ]; then
    CARGO_TERM_PROGRESS_WIDTH=${COLUMNS:-80} $cargo build --profile "$profile" --quiet "$@" || status=$?
else
    said=$(mktemp)
    CARGO_TERM_PROGRESS_WIDTH=100 $cargo build --profile "$profile" --quiet "$@" 2>"$said" &
    build=$!
    trap 'kill $build 2>/dev/null || true; rm -f "$said"' EXIT
    trap 'exit 130' INT TERM
    next=20
    while kill -0 $build 2>/dev/null; do
        sleep 1
        seconds=$(($(date +%s) - began))
        if [ "$seconds" -ge "$next" ]; then
            next=$((next + 20))
            echo "   $(took)  $(step "$said")" >&2
        fi
    done
    wait $build || status=$?
    # What is no bar: warnings and errors.
    tr '\r' '\n' <"$said" | sed 's/^.\[K//' | grep -E -v '^ *([A-Z][a-z]* )?\[[ =>]*\]' >&2 || true
fi
[ "$status" = 0 ] || exit "$status"
echo "== built in $(took)" >&2
