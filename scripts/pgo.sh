#!/bin/sh
# Builds the programs by what they were seen to do: once with counters, then a run of
# a minute and a half that the counters note, then once more by these. What is called often is
# put together and made fast, what is not is made small. No test needs it.
#
#   scripts/pgo.sh [ARGUMENT-OF-CARGO-BUILD]...
#
# PACKAGES is what is built ("--package cli --package command"). What comes of it lies in
# target/pgo/HOST/release. The run serves sites of its own, with loads that no benchmark here
# has: over kernel sockets, TAP and memif; files, pages from an upstream, TLS, HTTP/2, new
# connections, bodies, what is not found. It is in a network namespace of its own.
set -eu

# Inside the namespace: pgo.sh --run PROGRAM FOLDER
run() {
    program=$1
    where=$2
    site=$where/site
    links=$where/links
    counts=$where/counts
    mkdir -p "$site/css" "$site/deep/er" "$links"
    # Text that compresses as text does, of lengths that sites have.
    text() { seq -f 'line %.0f of a page that somebody wrote' 1 60000 | head -c "$1"; }
    for bytes in 180 1300 2300 5100 9400 17000 46000 310000; do
        text "$bytes" >"$site/page-$bytes.html"
    done
    text 3800 >"$site/css/site.css"
    text 21000 >"$site/css/site.js"
    text 700 >"$site/deep/er/index.html"
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=site.example \
        -keyout "$where/key.pem" -out "$where/certificate.pem" 2>/dev/null
    for path in page-180.html page-1300.html page-2300.html page-5100.html css/site.css css/site.js deep/er/ \
        page-9400.html page-17000.html page-46000.html nothing/here.html page-310000.html; do
        echo "/$path"
    done >"$where/files"
    for path in api/short api/list api/page-1300.html api/page-9400.html api/gone; do
        echo "/$path"
    done >"$where/passed"

    common="worker_processes 1; daemon off; error_log stderr error; events { worker_connections 2000; }"
    cat >"$where/upstream.conf" <<END
$common pid $where/upstream.pid;
http { access_log off; keepalive_requests 1000000; root $site; client_body_temp_path $counts;
  server { listen 8101;
    location = /short { return 200 "done\n"; }
    location = /list { add_header Cache-Control no-store; add_header Set-Cookie "seen=1; Path=/";
      default_type application/json;
      return 200 '{"items":[{"number":1,"name":"one"},{"number":2,"name":"two"},{"number":3,"name":"three"}]}'; }
    location = /gone { return 410; } } }
END
    # The name of a configuration, where its upstream is, and what it listens on.
    front() {
        cat >"$where/$1.conf" <<END
$common pid $where/$1.pid;
http { default_type application/octet-stream; keepalive_requests 1000000;
  types { text/html html; text/css css; application/javascript js; }
  log_format long '\$remote_addr [\$time_local] "\$request" \$status \$body_bytes_sent '
    '"\$http_referer" "\$http_user_agent" \$request_time';
  access_log $where/$1.log long; client_body_temp_path $counts; sendfile on; open_file_cache max=1000 inactive=20s;
  gzip on; gzip_types text/css application/javascript; gzip_min_length 1000;
  map \$http_user_agent \$is_robot { default 0; ~*bot 1; }
  upstream behind { server $2; keepalive 32; }
  server { $3 server_name site.example www.site.example; root $site; index index.html;
    location / { try_files \$uri \$uri/ =404; }
    location ~* \.(css|js)\$ { expires 7d; add_header X-Robot \$is_robot; }
    location /api/ { proxy_pass http://behind/; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header Host \$host; proxy_set_header X-Real-IP \$remote_addr;
      proxy_set_header X-Forwarded-For \$proxy_add_x_forwarded_for; }
    location = /health { access_log off; return 200 "well\n"; }
    rewrite ^/old/(.*)\$ /\$1 permanent; }
  server { $4 server_name other.example; return 301 http://site.example\$request_uri; } }
END
    }
    front sockets 127.0.0.1:8101 "listen 8080; listen 8443 ssl; http2 on;
      ssl_certificate $where/certificate.pem; ssl_certificate_key $where/key.pem;" "listen 8080;"
    front tap 10.78.0.1:8101 "listen 80; http2 on;" "listen 80;"
    front memif 127.0.0.1:8101 "listen 80; http2 on;" "listen 80;"

    servers=""
    trap 'kill $servers 2>/dev/null || true' EXIT
    serve() {
        "$program" nginx -p "$where" -e stderr "$@" &
        servers="$servers $!"
    }
    # Looks at a page until it is there; then asks for what is named, in its shape.
    wait_for() {
        for _ in $(seq 100); do
            ! "$program" load -n 1 --timeout 1s "$@" >/dev/null 2>&1 || return 0
            sleep 0.2
        done
        echo "pgo: nothing is served: $*" >&2
        exit 1
    }
    load() {
        "$program" load -d 1s --warmup 100ms "$@" >"$where/said" 2>&1 || case $? in
            # A verdict: on a busy machine it is of no use, as a figure.
            1 | 3) ;;
            *) cat "$where/said" >&2; echo "pgo: a load ended with an error: $*" >&2; exit 1 ;;
        esac
    }
    ask() {
        to=$1
        shift
        load "$to/" --urls "$where/files" --heads browser -c 12 "$@"
        load "$to/" --urls "$where/files" --heads short -c 40 --rate 2k -H 'Accept-Encoding: gzip' "$@"
        load "$to/page-1300.html" -c 3 --rate 800 "$@"
        load "$to/health" -c 24 "$@"
        load "$to/" --urls "$where/passed" --heads browser -c 20 "$@"
        load "$to/" --urls "$where/passed" --heads short -c 4 --rate 600 "$@"
        load "$to/api/short" -m POST --body @"$where/site/page-5100.html" -c 6 "$@"
        load "$to/page-46000.html" -H 'Range: bytes=1000-1999' -c 5 "$@"
    }
    # It keeps no bodies, and has nowhere to write what it counts.
    LLVM_PROFILE_FILE=/dev/null "$program" nginx -p "$where" -e stderr -c "$where/upstream.conf" &
    servers=$!
    wait_for http://127.0.0.1:8101/short
    serve -c "$where/sockets.conf"
    wait_for http://127.0.0.1:8080/health
    ask http://127.0.0.1:8080
    load http://127.0.0.1:8080/page-2300.html --close -c 10
    ask https://127.0.0.1:8443 --insecure
    load https://127.0.0.1:8443/page-2300.html --insecure --close -c 10
    ask https://127.0.0.1:8443 --insecure --http2 --max-concurrent-streams 10
    serve -c "$where/tap.conf" --link tap:pgo0,addr=10.78.0.1/24 --addr 10.78.0.2/24
    wait_for http://10.78.0.2/health
    ask http://10.78.0.2
    load http://10.78.0.2/page-2300.html --close -c 10
    ask http://10.78.0.2 --http2 --max-concurrent-streams 10
    serve -c "$where/memif.conf" --link "memif:$links/m,hugepages=off" --addr 10.79.0.2/24
    for _ in $(seq 100); do [ ! -S "$links/m" ] || break; sleep 0.2; done
    ask http://10.79.0.2 --link "memif:$links/m,hugepages=off" --addr 10.79.0.1/24
    load http://10.79.0.2/page-2300.html --close -c 10 --link "memif:$links/m,hugepages=off" --addr 10.79.0.1/24
    ask http://10.79.0.2 --http2 --max-concurrent-streams 10 --link "memif:$links/m,hugepages=off" --addr 10.79.0.1/24
    for server in $servers; do
        kill -QUIT "$server" 2>/dev/null || true
    done
    # Each ends when it has answered.
    wait
    servers=""
}

if [ "${1:-}" = --run ]; then
    ip link set lo up
    run "$2" "$3"
    exit
fi

cargo=${CARGO:-cargo}
here=$(cd "$(dirname "$0")/.." && pwd)
packages=${PACKAGES:---package cli --package command}
host=$(rustc -vV | sed -n 's/^host: //p')
merge=${LLVM_PROFDATA:-$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata}
[ -x "$merge" ] || {
    echo "pgo: this compiler's llvm-profdata is missing: rustup component add llvm-tools, or LLVM_PROFDATA=PROGRAM" >&2
    exit 1
}
target=$(cd "$here" && mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "== with counters" >&2
# shellcheck disable=SC2086 # words
CARGO_TARGET_DIR=$target/pgo-counted RUSTFLAGS="-Cprofile-generate=$target/pgo-counted/counts" \
    "$here/scripts/build.sh" $packages --target "$host" "$@"
echo "== a run that they note" >&2
isolate="unshare -n"
[ "$(id -u)" = 0 ] || isolate="unshare -rn"
# A process that gave its rights up makes files where it keeps bodies, and nowhere else.
chmod 755 "$work"
mkdir -p -m 1777 "$work/run/counts"
LLVM_PROFILE_FILE="$work/run/counts/%p.profraw" $isolate \
    "$here/scripts/pgo.sh" --run "$target/pgo-counted/$host/release/nearside" "$work/run"
"$merge" merge -o "$work/profile" "$work/run/counts"
# cargo knows the file by its name alone: another profile has another.
profile=$target/pgo-$(cksum <"$work/profile" | tr -s ' ' -).profdata
rm -f "$target"/pgo-*.profdata
mv "$work/profile" "$profile"
echo "== by what they noted" >&2
# shellcheck disable=SC2086 # words
CARGO_TARGET_DIR=$target/pgo RUSTFLAGS="-Cprofile-use=$profile" \
    "$here/scripts/build.sh" $packages --target "$host" "$@"
echo "$target/pgo/$host/release/nearside, and what belongs to it, beside it" >&2
