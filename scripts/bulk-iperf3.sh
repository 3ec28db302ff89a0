#!/bin/sh
# What a veth pair between two network namespaces carries, by `nearside load
# --bulk` and by iperf3, in turns: to the server, and from it.
#
#   scripts/bulk-iperf3.sh [NEARSIDE] [ROUNDS] [SECONDS]
#
# It needs root, iproute2, iperf3 and two cores. Client and server have a core
# each, with either tool.
set -eu
nearside=$(realpath "${1:-target/release/nearside}")
rounds=${2:-5}
seconds=${3:-3}
a=nearblka$$
b=nearblkb$$
dir=$(mktemp -d)
pids=
stop() {
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    ip netns del "$a" 2>/dev/null || true
    ip netns del "$b" 2>/dev/null || true
    rm -rf "$dir"
}
trap stop EXIT INT TERM

ip netns add "$a"
ip netns add "$b"
ip link add blk0 netns "$a" type veth peer name blk0 netns "$b"
ip -n "$a" addr add 10.77.0.1/24 dev blk0
ip -n "$b" addr add 10.77.0.2/24 dev blk0
ip -n "$a" link set blk0 up
ip -n "$b" link set blk0 up

ip netns exec "$b" taskset -c 1 "$nearside" serve --respond 64M --listen 10.77.0.2:80 --control off --workers 1 \
    --cores 1 >"$dir/down" 2>&1 &
pids="$pids $!"
ip netns exec "$b" taskset -c 1 "$nearside" serve --respond 1 --listen 10.77.0.2:81 --control off --workers 1 \
    --cores 1 >"$dir/up" 2>&1 &
pids="$pids $!"
ip netns exec "$b" taskset -c 1 iperf3 -s -B 10.77.0.2 >"$dir/iperf" 2>&1 &
pids="$pids $!"
sleep 1

ours() { # WAY PORT
    ip netns exec "$a" "$nearside" load "http://10.77.0.2:$2/" --bulk "$1" -d "${seconds}s" --warmup 1s --threads 1 \
        --cores 0 --json |
        python3 -c "import json,sys; r=json.load(sys.stdin)['$1']
print('%.2f %d' % (r['bits_per_second']/1e9, r['retransmits']))"
}
theirs() { # FLAGS
    ip netns exec "$a" taskset -c 0 iperf3 -c 10.77.0.2 -O 1 -t "$seconds" -J $1 |
        python3 -c "import json,sys; e=json.load(sys.stdin)['end']
print('%.2f %d' % (e['sum_received']['bits_per_second']/1e9, e['sum_sent'].get('retransmits', 0)))"
}
for round in $(seq "$rounds"); do
    echo "round $round: Gbit/s and segments sent again, nearside and iperf3: up $(ours up 81), $(theirs '');" \
        "down $(ours down 80), $(theirs -R)"
done
