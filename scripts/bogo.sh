#!/bin/sh
# BoringSSL's test runner against our TLS, server and client: handshakes, and our
# record layer behind them on kernel sockets, over epoll and over io_uring, and on
# our own stack.
#
#   BOGO=DIR scripts/bogo.sh [PATTERN] [PATH...]
#
# PATH: only on these of epoll, io_uring and stack.
# DIR has BoringSSL's sources; of them go.mod, go.sum, crypto/ and ssl/test/ are
# read. It needs Go, which fetches the runner's modules. PATTERN: only tests of
# such names, as the runner has it (`*` for anything, `;` between several).
# What is left out of it, and why: testing/bogo/left-out.txt.
set -eu
lacks() { echo "bogo: $*" >&2; exit 77; }
# Fewer tests that pass say that the shim takes nearly nothing.
least=800
here=$(pwd)
tests=${1:-}
[ $# = 0 ] || shift
[ $# != 0 ] || set -- epoll io_uring stack
for path; do
    case $path in epoll | io_uring | stack) ;; *) echo "bogo: '$path' is not epoll, io_uring or stack"; exit 2 ;; esac
done
PATH="$PATH:/usr/local/go/bin"
[ -n "${BOGO:-}" ] || lacks "BOGO is not set: a folder with BoringSSL's sources, for ssl/test/runner"
[ -e "$BOGO/ssl/test/runner/runner.go" ] || lacks "$BOGO/ssl/test/runner/runner.go is not there"
command -v go >/dev/null 2>&1 || lacks "there is no Go, which the runner is written in"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
${CARGO:-cargo} build --quiet --release --locked --package bogo --features bogo/shim
shim=$(realpath "${CARGO_TARGET_DIR:-target}/release/bogo")
"$shim" --configuration "$here/testing/bogo/left-out.txt" >"$work/config.json"
cd "$BOGO/ssl/test/runner"
go test -c -o "$work/runner" . || lacks "the runner cannot be built"

count() { grep -c "^$1 " "$work/said" || true; }
worst=0
for path; do
    ended=0
    on="-engine;$path"
    [ "$path" != stack ] || on=-stack
    "$work/runner" -test.timeout 60m -shim-path "$shim" -shim-config "$work/config.json" -allow-unimplemented \
        -loose-errors -pipe -shim-extra-flags "$on" ${tests:+-test "$tests"} >"$work/said" 2>&1 || ended=$?
    passed=$(count PASSED)
    echo "bogo: $path: $passed passed, $(count FAILED) failed, $(count UNIMPLEMENTED) unimplemented"
    if [ "$ended" != 0 ] || [ "$(count FAILED)" != 0 ]; then
        grep -A 16 '^FAILED ' "$work/said" || tail -n 20 "$work/said"
        worst=1
    fi
    if [ -z "$tests" ] && [ "$passed" -lt "$least" ]; then
        echo "bogo: at least $least are to pass"
        worst=1
    fi
done
exit "$worst"
