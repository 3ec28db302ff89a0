#!/bin/sh
# testssl.sh against `nearside nginx`: no finding above LOW that scripts/testssl.txt
# does not name.
#
#   scripts/testssl.sh [NEARSIDE]
#
# It needs testssl (the Debian package testssl.sh), openssl and python3.
set -eu
lacks() { echo "testssl: $*" >&2; exit 77; }
program=$(command -v testssl || command -v testssl.sh) || lacks "there is no testssl (apt-get install testssl.sh)"
for one in openssl python3; do
    command -v "$one" >/dev/null 2>&1 || lacks "there is no $one"
done
nearside=$(realpath "${1:-target/release/nearside}")
list=$(realpath "$(dirname "$0")/testssl.txt")
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
chmod 755 "$work"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key" -out "$work/certificate" \
    -days 300 -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>/dev/null
mkdir "$work/site"
echo hello >"$work/site/index.html"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat >"$work/conf" <<END
pid $work/pid;
error_log $work/errors;
events {}
http {
    access_log off;
    server {
        listen 127.0.0.1:$port ssl;
        server_name localhost;
        ssl_certificate $work/certificate;
        ssl_certificate_key $work/key;
        ssl_session_cache shared:sessions:1m;
        ssl_prefer_server_ciphers on;
        add_header Strict-Transport-Security "max-age=31536000" always;
        server_tokens off;
        root $work/site;
    }
}
END
"$nearside" nginx -p "$work" -c conf -g 'daemon off;' >"$work/served" 2>&1 &
server=$!
tries=0
until echo | timeout 5 openssl s_client -connect "127.0.0.1:$port" >/dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || { echo "testssl: the server does not serve:"; cat "$work/served"; exit 1; }
    sleep 0.2
done
# It looks up names and asks others only where that is not ruled out.
timeout 1200 "$program" --quiet --color 0 --warnings off --nodns min \
    --jsonfile "$work/found.json" "localhost:$port" </dev/null >"$work/said" 2>&1 ||
    [ -s "$work/found.json" ] || { tail -n 20 "$work/said"; exit 1; }
kill -0 "$server" 2>/dev/null || { echo "testssl: the server has ended"; exit 1; }
python3 - "$work/found.json" "$list" <<'END'
import json, sys

findings = json.load(open(sys.argv[1]))
known = {line.strip() for line in open(sys.argv[2]) if not line.startswith("#")}
above = [one for one in findings if one["severity"] in ("MEDIUM", "HIGH", "CRITICAL", "FATAL")]
new = [one for one in above if one["id"].split(" ")[0] not in known]
print(f"testssl: {len(findings)} findings, {len(above)} above LOW, {len(new)} of them not listed")
for one in new:
    print(f"testssl: {one['severity']}: {one['id']}: {one['finding']}")
sys.exit(bool(new) or len(findings) < 100)
END
