#!/bin/sh
# Chromium without a window against our own stack with TLS, over TAP and over AF_XDP
# on a veth pair, in a network namespace of its own: a page with several files,
# loaded twice; each file is whole, over connections that are kept.
#
#   scripts/chromium.sh [NEARSIDE] [LINK...]
#
# LINK: only over these of tap and af_xdp.
# It needs root, chromium, openssl, iproute2, unshare and python3.
set -eu
lacks() { echo "chromium: $*" >&2; exit 77; }
for program in chromium openssl ip unshare python3; do
    command -v "$program" >/dev/null 2>&1 || lacks "there is no $program"
done
[ "$(id -u)" = 0 ] || lacks "it needs root, for a network namespace"
if [ -z "${NEARSIDE_APART:-}" ]; then
    NEARSIDE_APART=yes exec unshare --net "$0" "$@"
fi
nearside=$(realpath "${1:-target/release/nearside}")
[ $# = 0 ] || shift
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
ip link set lo up
chmod 755 "$work"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$work/key" -out "$work/certificate" \
    -days 2 -subj /CN=near.example -addext subjectAltName=DNS:near.example,IP:10.77.8.2 2>/dev/null
pin=$(openssl x509 -in "$work/certificate" -pubkey -noout | openssl pkey -pubin -outform der |
    openssl dgst -sha256 -binary | openssl base64)
mkdir "$work/site"
# Scripts that say that they ran, a style, texts that are fetched and summed.
python3 - "$work/site" <<'END'
import sys

site = sys.argv[1]
parts = range(12)
for part in parts:
    with open(f"{site}/part{part}.js", "w") as file:
        file.write(f"// {'x' * 1500 * (part + 1)}\nran.push({part});\n")
    with open(f"{site}/text{part}.txt", "wb") as file:
        file.write(bytes((at * 7 + part) % 251 for at in range(40_000 * part + 1)))
with open(f"{site}/style.css", "w") as file:
    file.write("body { color: rgb(1, 2, 3) }\n")
scripts = "".join(f'<script src="part{part}.js"></script>' for part in parts)
with open(f"{site}/index.html", "w") as file:
    file.write(f"""<!doctype html><title>waits</title><link rel=stylesheet href=style.css>
<script>var ran = [];</script>{scripts}<body><pre id=said></pre><script>
(async () => {{
  const wrong = ran.length === {len(parts)} ? [] : [`scripts:${{ran}}`];
  let bytes = 0;
  for (let round = 0; round < 2; round++) await Promise.all([...Array({len(parts)}).keys()].map(async part => {{
    const answer = await fetch(`text${{part}}.txt?${{round}}`, {{cache: "no-store"}});
    const text = new Uint8Array(await answer.arrayBuffer());
    if (text.length !== 40000 * part + 1 || text.some((byte, at) => byte !== (at * 7 + part) % 251))
      wrong.push(`text${{part}}?${{round}}:${{answer.status}},${{text.length}}`);
    bytes += text.length;
  }}));
  const color = getComputedStyle(document.body).color;
  if (color !== "rgb(1, 2, 3)") wrong.push(`style:${{color}}`);
  const by = performance.getEntriesByType("navigation")[0].nextHopProtocol;
  document.getElementById("said").textContent =
    `wrong ${{wrong.length}} ${{wrong.join(" ")}} bytes ${{bytes}} by ${{by}}`;
}})();
</script></body>
""")
END
cat >"$work/conf" <<END
pid $work/pid;
error_log $work/errors info;
events {}
http {
    types { text/html html; text/css css; text/javascript js; text/plain txt; }
    log_format told '\$connection \$connection_requests \$status \$ssl_protocol \$ssl_cipher \$ssl_curve \$request';
    access_log $work/access told;
    server {
        listen 443 ssl;
        ssl_certificate $work/certificate;
        ssl_certificate_key $work/key;
        root $work/site;
    }
}
END

serve() {
    case $link in
        tap) set -- --link tap:near0,addr=10.77.8.1/24 ;;
        af_xdp)
            # The server's address is not the kernel's, which therefore asks for it at the other end.
            ip link add near0 type veth peer name far0
            ip link set near0 up
            ip address add 10.77.8.1/24 dev far0
            ip link set far0 up
            set -- --link af_xdp:near0
            ;;
        *) echo "chromium: '$link' is neither tap nor af_xdp"; exit 2 ;;
    esac
    "$nearside" nginx -p "$work" -c conf -g 'daemon off;' "$@" --addr 10.77.8.2/24 >"$work/served" 2>&1 &
    server=$!
    tries=0
    until echo | timeout 5 openssl s_client -connect 10.77.8.2:443 >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || { echo "chromium: $link: the server does not serve:"; cat "$work/served"; exit 1; }
        sleep 0.2
    done
}

visit() {
    timeout 180 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
        --disable-background-networking --disable-component-update --disable-sync --disable-dev-shm-usage \
        --user-data-dir="$work/profile" --ignore-certificate-errors-spki-list="$pin" \
        --host-resolver-rules='MAP near.example 10.77.8.2' --virtual-time-budget=60000 --timeout=90000 \
        --dump-dom https://near.example/ >"$work/page" 2>"$work/said" || { tail -n 20 "$work/said"; exit 1; }
    told=$(sed -n 's/.*<pre id="said">\([^<]*\)<.*/\1/p' "$work/page")
    echo "chromium: $link: visit $1: ${told:-nothing}"
    [ "$told" = "wrong 0  bytes 5280024 by http/1.1" ] || {
        tail -n 20 "$work/said"
        tail -n 5 "$work/errors"
        # What was asked for since the visit before.
        tail -n 50 "$work/access"
        exit 1
    }
}

# What the server logged of them.
judge() {
    python3 - "$work/access" "$link" <<'END'
import sys

lines = [line.split(" ", 6) for line in open(sys.argv[1])]
lines = [line for line in lines if line[6].startswith("GET ")]
connections, tls = {line[0] for line in lines}, {" ".join(line[3:6]) for line in lines}
wrong = [line for line in lines if line[2] not in ("200", "304") and "favicon" not in line[6]]
told = f"{len(lines)} requests over {len(connections)} connections, {len(wrong)} wrong"
print(f"chromium: {sys.argv[2]}: {told}; {', '.join(sorted(tls))}")
sys.exit(bool(wrong) or len(lines) < 60 or len(connections) * 3 > len(lines))
END
}

[ $# != 0 ] || set -- tap af_xdp
for link; do
    : >"$work/access"
    serve
    visit 1
    visit 2
    kill -0 "$server" 2>/dev/null || { echo "chromium: $link: the server has ended"; exit 1; }
    kill "$server"
    wait "$server" 2>/dev/null || true
    server=
    judge
    ip link delete near0 2>/dev/null || true
    rm -rf "$work/profile"
done
