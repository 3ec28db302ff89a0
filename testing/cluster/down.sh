#!/bin/sh
# Ends what up.sh began, by its process ids, and takes its namespaces, mounts and control groups away.
set -u

: "${KUBE_DIR:?where it is}"
run=$KUBE_DIR/run
[ -d "$run" ] || exit 0
# Only processes that are what was started: their numbers may be others' by now.
ours() {
    [ -e "$run/pids" ] || return 0
    while read -r pid; do
        [ -e "/proc/$pid/cmdline" ] || continue
        tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -q -e "$KUBE_DIR" -e "cluster/node.sh" && echo "$pid"
    done <"$run/pids"
}
for pid in $(ours); do kill "$pid" 2>/dev/null; done
tries=0
while [ -n "$(ours)" ] && [ $tries -lt 20 ]; do
    sleep 0.5
    tries=$((tries + 1))
    # `unshare --fork` does not end by TERM.
    [ $tries -lt 4 ] || for pid in $(ours); do kill -9 "$pid" 2>/dev/null; done
done
sleep 1
for i in 1 2; do
    for hierarchy in /sys/fs/cgroup/*/; do
        group=$hierarchy${CGROUP:-}/node$i
        [ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null
    done
    ip netns del kn$i 2>/dev/null
done
ip netns del kcp 2>/dev/null
rm -rf "$run"
[ ! -e "$run" ]
