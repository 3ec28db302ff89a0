#!/bin/sh
# h2spec (summerwind/h2spec) against our HTTP/2: with prior knowledge and over TLS, on kernel
# sockets. All of its 146 tests are to pass; what its --strict asks for beyond, and is not met, is
# named in scripts/h2spec.txt, with reasons.
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
        listen 127.0.0.1:18480;
        listen 127.0.0.1:18443 ssl;
        ssl_certificate $work/cert.pem;
        ssl_certificate_key $work/key.pem;
        location / { proxy_pass http://127.0.0.1:18481; }
    }
    server {
        listen 127.0.0.1:18481;
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
for how in "--port 18480" "--port 18443 --tls --insecure"; do
    # shellcheck disable=SC2086
    "$H2SPEC" --host 127.0.0.1 $how --timeout 5 >"$work/said" 2>&1 || true
    # shellcheck disable=SC2086
    "$H2SPEC" --host 127.0.0.1 $how --timeout 5 --strict >"$work/strict" 2>&1 || true
    echo "$how: $(tail -n 1 "$work/said")"
    grep -q "146 tests, 146 passed, 0 skipped, 0 failed" "$work/said" || { cat "$work/said"; worst=1; }
    # With --strict: those that fail are the ones that are named.
    sed -n '/^Failures:/,$d; s/^ *\xc3\x97 [0-9]*: //p' "$work/strict" | sort -u >"$work/failed"
    grep -v '^ \|^#\|^$' "$here/h2spec.txt" | sort -u >"$work/expected" || true
    echo "$how --strict: $(tail -n 1 "$work/strict")"
    cmp -s "$work/failed" "$work/expected" || { diff "$work/expected" "$work/failed" || true; worst=1; }
done
exit "$worst"
