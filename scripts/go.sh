#!/bin/sh
# Go's own HTTP/2, client and server (net/http), with `nearside` between them: by proxy_pass with HTTP/2, HTTP/2 over
# TLS, and grpc_pass, each asked with prior knowledge and over TLS. Each call is to come to what it comes to without.
#
#   scripts/go.sh [NEARSIDE]
#
# GO: a Go of 1.25 or later, else `go`. OTHER: another server to be held against, by its path. PORT: the first of ten
# ports, else 28600.
set -eu
go=$(command -v "${GO:-go}" || command -v /usr/local/go/bin/go) || { echo "go.sh: there is no go" >&2; exit 77; }
command -v openssl >/dev/null 2>&1 || { echo "go.sh: there is no openssl" >&2; exit 77; }
nearside=$(realpath "${1:-target/release/nearside}")
here=$(realpath "$(dirname "$0")")
port=${PORT:-28600}
work=$(mktemp -d)
chmod 755 "$work"
mkdir "$work/logs"
pids=
trap 'for pid in $pids; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
(cd "$work" && GO111MODULE=off "$go" build -o "$work/calls" "$here/go_calls.go")
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=go.example -days 30 \
    -keyout "$work/key" -out "$work/certificate" 2>/dev/null
"$work/calls" serve "$port" >"$work/server" 2>&1 &
pids="$pids $!"
# Ways, from the second port behind on: two ports each.
ways="proxy secured grpc"
streams="proxy_http_version 2; proxy_request_buffering off; proxy_buffering off; proxy_pass_trailers on;"
place() {
    case $1 in
        proxy) echo "proxy_pass http://plain; $streams" ;;
        secured) echo "proxy_pass https://sealed; $streams" ;;
        grpc) echo "grpc_pass grpc://plain; grpc_set_header te trailers;" ;;
    esac
}
{
    cat <<END
worker_processes 1; daemon off; pid $work/pid; error_log $work/logs/error.log info;
events { worker_connections 2048; }
http {
    access_log off; client_max_body_size 0; keepalive_requests 100000;
    ssl_certificate $work/certificate; ssl_certificate_key $work/key;
    upstream plain { server 127.0.0.1:$port; keepalive 8; }
    upstream sealed { server 127.0.0.1:$((port + 1)); keepalive 8; }
END
    at=$((port + 2))
    for way in $ways; do
        echo "server { listen 127.0.0.1:$at; listen 127.0.0.1:$((at + 1)) ssl; http2 on; location / { $(place $way) } }"
        at=$((at + 2))
    done
    echo "}"
} >"$work/nginx.conf"
if [ -n "${OTHER:-}" ]; then
    "$OTHER" -c "$work/nginx.conf" &
else
    "$nearside" nginx -c "$work/nginx.conf" >"$work/out" 2>&1 &
fi
pids="$pids $!"
tries=0
until grep -q serving "$work/server" && [ -e "$work/pid" ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { echo "go.sh: nothing serves" >&2; cat "$work/server" "$work/out" >&2; exit 1; }
    sleep 0.1
done
"$work/calls" call "http://127.0.0.1:$port" >"$work/without"
cat "$work/without"
at=$((port + 2))
for way in $ways; do
    for url in "http://127.0.0.1:$at" "https://127.0.0.1:$((at + 1))"; do
        if ! "$work/calls" call "$url" >"$work/with" || ! diff "$work/without" "$work/with"; then
            echo "go.sh: $way, $url" >&2
            cat "$work/logs/error.log" >&2
            exit 1
        fi
        echo "go.sh: $way by ${url%%:*}: the same"
    done
    at=$((at + 2))
done
