#!/bin/sh
# h2spec (summerwind/h2spec) against our HTTP/2: with prior knowledge and over TLS, on kernel
# sockets, without and with --strict. What it asks for and is not met is named in
# scripts/h2spec.txt, with reasons.
#
#   H2SPEC=PROGRAM scripts/h2spec.sh [NEARSIDE]
#
# PROGRAM is built from its sources by `go build ./cmd/h2spec`.
set -eu
lacks() { echo "h2spec: $*" >&2; exit 77; }
nearside=$(realpath "${1:-target/debug/nearside}")
[ -n "${H2SPEC:-}" ] || lacks "H2SPEC is not set: the program h2spec"
[ -x "$H2SPEC" ] || lacks "$H2SPEC is no program"
[ -x "$nearside" ] || lacks "$nearside is no program"
command -v openssl >/dev/null 2>&1 || lacks "there is no openssl"

here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
plain=$((20000 + $$ % 10000))
tls=$((plain + 10000))
behind=$((plain + 20000))
mkdir "$work/html"
# Longer than the window that h2spec begins with in some tests.
head -c 200000 /dev/zero >"$work/html/index.html"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -days 2 \
    -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
cat >"$work/nginx.conf" <<END
daemon off;
worker_processes 1;
pid $work/pid;
error_log $work/error.log;
events {}
http {
    access_log off;
    http2 on;
    server {
        listen 127.0.0.1:$plain;
        listen 127.0.0.1:$tls ssl;
        ssl_certificate $work/cert.pem;
        ssl_certificate_key $work/key.pem;
        location / { proxy_pass http://127.0.0.1:$behind; }
    }
    server {
        listen 127.0.0.1:$behind;
        http2 off;
        root $work/html;
        # Bodies are read to their end before they are passed on, and dropped here.
        error_page 405 =200 /index.html;
    }
}
END
"$nearside" nginx -e "$work/error.log" -c "$work/nginx.conf" &
server=$!
waited=0
until [ -s "$work/pid" ]; do
    kill -0 "$server" 2>/dev/null || { cat "$work/error.log" >&2; exit 1; }
    waited=$((waited + 1))
    [ "$waited" -lt 300 ] || lacks "the server does not begin"
    sleep 0.1
done

worst=0
failed() { grep -o '× [0-9]*: .*' "$1" | sed 's/.*× [0-9]*: //' | sort -u; }
for where in plain tls; do
    case $where in
        plain) set -- --port $plain ;;
        tls) set -- --port $tls --tls --insecure ;;
    esac
    sed -n "s/^$where //p" "$here/h2spec.txt" | sort -u >"$work/expected"
    for strict in "" --strict; do
        # shellcheck disable=SC2086
        "$H2SPEC" --host 127.0.0.1 "$@" --timeout 5 $strict >"$work/said" 2>&1 || true
        echo "$where $strict: $(grep 'tests, .* failed' "$work/said" | tail -n 1)"
        grep -q '^14[67] tests, ' "$work/said" || { cat "$work/said"; worst=1; }
        failed "$work/said" >"$work/failed" || true
        diff "$work/expected" "$work/failed" || worst=1
    done
done
exit "$worst"
