#!/bin/sh
# tlsfuzzer's scripts (scripts/tlsfuzzer.txt) against `nearside nginx`, on kernel
# sockets and on our own stack over TAP, in a network namespace of their own.
#
#   TLSFUZZER=DIR scripts/tlsfuzzer.sh [NEARSIDE] [NAME...]
#
# DIR has tlsfuzzer's sources. PYTHON is a Python with tlslite-ng 0.9, ecdsa and
# six (pip install --pre tlslite-ng); python3 if it is not set. It needs root,
# openssl, iproute2 and unshare. NAME: only these of the scripts.
set -eu
lacks() { echo "tlsfuzzer: $*" >&2; exit 77; }
python=${PYTHON:-python3}
[ -n "${TLSFUZZER:-}" ] || lacks "TLSFUZZER is not set: a folder with tlsfuzzer's sources"
[ -e "$TLSFUZZER/tlsfuzzer/runner.py" ] || lacks "$TLSFUZZER/tlsfuzzer/runner.py is not there"
"$python" -c 'import ecdsa, six; from tlslite.constants import SignatureScheme as s; s.mldsa87' 2>/dev/null ||
    lacks "$python has no tlslite-ng 0.9 (pip install --pre tlslite-ng): PYTHON names another"
[ "$(id -u)" = 0 ] || lacks "it needs root, for a network namespace"
for program in openssl ip unshare; do
    command -v "$program" >/dev/null 2>&1 || lacks "there is no $program"
done
if [ -z "${NEARSIDE_APART:-}" ]; then
    NEARSIDE_APART=yes exec unshare --net "$0" "$@"
fi
nearside=$(realpath "${1:-target/release/nearside}")
[ $# = 0 ] || shift
list=$(realpath "$(dirname "$0")/tlsfuzzer.txt")
work=$(mktemp -d)
server=
stop() {
    [ -z "$server" ] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
    server=
}
trap 'stop; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
ip link set lo up
chmod 755 "$work"
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/key" -out "$work/certificate" -days 2 -subj /CN=localhost \
    -addext subjectAltName=DNS:localhost 2>/dev/null
mkdir "$work/site"
echo hello >"$work/site/index.html"
cat >"$work/conf" <<END
pid $work/pid;
error_log $work/errors info;
events {}
http {
    access_log off;
    server {
        listen 4433 ssl;
        ssl_certificate $work/certificate;
        ssl_certificate_key $work/key;
        ssl_session_cache shared:sessions:1m;
        ssl_protocols TLSv1.2 TLSv1.3;
        root $work/site;
    }
}
END

passed=0
failed=0
worst=0
one() {
    name=$1
    shift
    "$python" "$TLSFUZZER/scripts/test-$name.py" --help >"$work/help" 2>&1 || true
    if grep -q '^ -n ' "$work/help"; then set -- -n 30 "$@"; fi
    ended=0
    (cd "$TLSFUZZER" && timeout 240 "$python" "scripts/test-$name.py" -h "$address" -p 4433 "$@") >"$work/said" 2>&1 ||
        ended=$?
    probes=$(sed -n 's/^PASS: *//p' "$work/said")
    if [ "$ended" = 0 ] && [ "${probes:-0}" -gt 0 ]; then
        passed=$((passed + probes))
    elif [ "$ended" = 0 ] && grep -q '^XFAIL: *[1-9]' "$work/said"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "tlsfuzzer: $path: $name failed ($ended):"
        grep -E 'AssertionError: |Error: ' "$work/said" | sort | uniq -c | head -n 5
        sed -n '/^FAILED:/,$p' "$work/said" | head -n 12
    fi
}

for path in sockets stack; do
    if [ "$path" = sockets ]; then
        address=127.0.0.1
        "$nearside" nginx -p "$work" -c conf -g 'daemon off;' >"$work/served" 2>&1 &
    else
        address=10.77.9.2
        "$nearside" nginx -p "$work" -c conf -g 'daemon off;' --link tap:near0,addr=10.77.9.1/24 \
            --addr 10.77.9.2/24 >"$work/served" 2>&1 &
    fi
    server=$!
    tries=0
    until echo | timeout 5 openssl s_client -connect "$address:4433" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || { echo "tlsfuzzer: the server does not serve:"; cat "$work/served"; exit 1; }
        sleep 0.2
    done
    while IFS= read -r line; do
        case $line in '#'* | '') continue ;; esac
        line=$(printf '%s' "$line" | sed 's/ -C G/ -C TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256/')
        case " $* " in "  " | *" ${line%% *} "*) eval "one $line" </dev/null ;; esac
    done <"$list"
    kill -0 "$server" 2>/dev/null || { echo "tlsfuzzer: $path: the server has ended"; failed=$((failed + 1)); }
    stop
    echo "tlsfuzzer: $path: $passed probes passed, $failed scripts failed"
    [ "$passed" -gt 0 ] || failed=$((failed + 1))
    [ "$failed" = 0 ] || worst=1
    passed=0
    failed=0
done
exit "$worst"
