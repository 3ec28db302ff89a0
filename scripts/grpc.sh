#!/bin/sh
# gRPC's own client and server (Python's grpcio) with `nearside` between them, by grpc_pass: each call is
# to come to what it comes to without. Then the same server asked by `nearside load`, with and without.
#
#   scripts/grpc.sh [NEARSIDE]
#
# PYTHON: a Python that has grpcio, else python3; nothing of it is kept. OTHER: another server to be held
# against, by its path. PORT: the first of three ports, else 28500.
set -eu
python=${PYTHON:-python3}
"$python" -c 'import grpc' 2>/dev/null || { echo "grpc: $python has no grpcio" >&2; exit 77; }
nearside=$(realpath "${1:-target/release/nearside}")
here=$(realpath "$(dirname "$0")")
port=${PORT:-28500}
work=$(mktemp -d)
chmod 755 "$work"
mkdir "$work/logs"
pids=
trap 'for pid in $pids; do kill "$pid" 2>/dev/null || true; done; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
"$python" "$here/grpc_calls.py" serve "$port" >"$work/server" 2>&1 &
pids="$pids $!"
cat >"$work/nginx.conf" <<END
worker_processes 1; daemon off; pid $work/pid; error_log $work/logs/error.log info;
events {}
http {
    access_log off; client_max_body_size 0; keepalive_requests 100000;
    upstream echo { server 127.0.0.1:$port; keepalive 8; }
    server { listen 127.0.0.1:$((port + 1)); http2 on; location / { grpc_pass grpc://echo; } }
}
END
if [ -n "${OTHER:-}" ]; then
    # Before nginx 1.25.1.
    sed -i 's/; http2 on;/ http2;/' "$work/nginx.conf"
    "$OTHER" -c "$work/nginx.conf" &
else
    "$nearside" nginx -c "$work/nginx.conf" >"$work/out" 2>&1 &
fi
pids="$pids $!"
tries=0
until grep -q serving "$work/server" && [ -e "$work/pid" ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || { echo "grpc: nothing serves" >&2; cat "$work/server" "$work/out" >&2; exit 1; }
    sleep 0.1
done
"$python" "$here/grpc_calls.py" call "$port" >"$work/without"
"$python" "$here/grpc_calls.py" call "$((port + 1))" >"$work/with"
cat "$work/with"
if ! diff "$work/without" "$work/with"; then
    cat "$work/logs/error.log" >&2
    exit 1
fi
! grep -q 'failed:' "$work/with"

# The same calls by `nearside load`, which counts what they come to: METHOD STATUS NUMBER [WORD...]. It ends with 4
# where none is answered, as those that are cancelled.
calls() {
    method=$1 status=$2 number=$3
    shift 3
    for at in "$port" $((port + 1)); do
        "$nearside" load "http://127.0.0.1:$at/test.Echo/$method" --grpc --connections 2 --max-concurrent-streams 5 \
            --requests "$number" --no-floor --progress none --json "$@" >"$work/load" || [ $? = 4 ]
        "$python" -c '
import json, sys
report, wanted = json.load(open(sys.argv[1])), {sys.argv[2]: int(sys.argv[3])}
errors = {name: count for name, count in report["errors"].items() if count and name != "deadlines"}
if report["grpc"] != wanted or errors:
    sys.exit("load: {} {} in place of {}".format(report["grpc"], errors, wanted))
' "$work/load" "$status" "$number"
        echo "load: $method $status $number"
    done
}
printf 'hello' >"$work/message"
calls Echo OK 300 --body "@$work/message"
calls Echo OK 300 --body "@$work/message" --rate 1k --grpc-timeout 5s
calls Fail FAILED_PRECONDITION 50
calls Nothing UNIMPLEMENTED 50
calls Slow DEADLINE_EXCEEDED 20 --grpc-timeout 200ms
