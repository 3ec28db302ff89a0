#!/bin/sh
# Builds the container image with the program that is built, runs it without rights
# on a root that nothing can write to, asks it, reloads it, and stops it.
#
#   scripts/test-image.sh target/release/nearside
#
# It needs podman or docker, and a base image of Debian 12: BASE (debian:12-slim), or,
# where none can be had, one that mmdebstrap makes. What is missing is named, and the
# exit status is 77.
set -eu

skip() { echo "test-image: left out: $*" >&2; exit 77; }
fail() { logs 2>/dev/null | tail -n 30 >&2 || true; echo "test-image: $*" >&2; exit 1; }

program=$(readlink -f "${1:?which program}")
here=$(cd "$(dirname "$0")/.." && pwd)
engine=""
for one in podman docker; do
    if command -v $one >/dev/null 2>&1 && $one info >/dev/null 2>&1; then engine=$one; break; fi
done
[ -n "$engine" ] || skip "neither podman nor docker is here, or may be used: apt-get install podman"

name=nearside-test-$$
work=$(mktemp -d)
first=""; mounted=""
cleaned() {
    [ -z "$first" ] || kill -9 "$first" 2>/dev/null || true
    [ -z "$mounted" ] || $engine image unmount "localhost/$name" >/dev/null 2>&1 || true
    $engine rm -f "$name" >/dev/null 2>&1 || true
    $engine rmi -f "localhost/$name" "localhost/$name-base" >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap cleaned EXIT

base=${BASE:-debian:12-slim}
if ! $engine image inspect "$base" >/dev/null 2>&1 && ! $engine pull -q "$base" >/dev/null 2>&1; then
    command -v mmdebstrap >/dev/null 2>&1 || skip "no base image $base, and no mmdebstrap to make one"
    echo "== a base image, by mmdebstrap"
    mmdebstrap --quiet --variant=minbase bookworm "$work/base.tar" 2>"$work/said" ||
        skip "mmdebstrap: $(tail -n 1 "$work/said")"
    base=localhost/$name-base
    $engine import -q "$work/base.tar" "$base" >/dev/null
    rm "$work/base.tar"
fi

# Where control groups are not to be had, as in a container, podman does without.
isolation=""; groups=""
if [ $engine = podman ]; then isolation="--isolation chroot --format docker"; groups="--cgroups=disabled"; fi

echo "== builds"
# Of the sources only what the image is made of: the program is there.
mkdir -p "$work/context/target/release"
cp -r "$here/packaging" "$work/context/packaging"
cp "$program" "$work/context/target/release/nearside"
cp "$(dirname "$program")/nearside-tools" "$work/context/target/release/"
# shellcheck disable=SC2086
$engine build -q $isolation --build-arg "BASE=$base" -t "localhost/$name" \
    -f "$here/packaging/container/Dockerfile" "$work/context" >"$work/said" 2>&1 || fail "$(cat "$work/said")"

echo "== serves, without rights, on a root that cannot be written to"
mkdir "$work/site" && echo page >"$work/site/index.html" && chmod 755 "$work" "$work/site"
# shellcheck disable=SC2086
if $engine run -d $groups --name "$name" --network none --read-only --tmpfs /run/nearside:mode=1777 \
    --cap-drop ALL --security-opt no-new-privileges -v "$work/site:/srv/www:ro" \
    "localhost/$name" >"$work/said" 2>&1; then
    inside() { $engine exec "$name" "$@"; }
    logs() { $engine logs "$name"; }
    signal() { $engine kill --signal "$1" "$name" >/dev/null; }
    ended() { $engine wait "$name"; }
elif [ $engine = podman ] && [ "$(id -u)" = 0 ] && command -v nsenter >/dev/null 2>&1; then
    # The same by namespaces of our own, from what the image says of itself.
    echo "   by unshare: $engine runs nothing here: $(tail -n 1 "$work/said")"
    of_image() { $engine image inspect --format "$1" "localhost/$name"; }
    user=$(of_image '{{.Config.User}}')
    variables=$(of_image '{{range .Config.Env}}{{.}} {{end}}')
    command=$(of_image '{{range .Config.Entrypoint}}{{.}} {{end}}')
    image=$($engine image mount "localhost/$name")
    mounted=yes
    # As an engine does, the streams are pipes that are root's.
    mkfifo "$work/out" "$work/err"
    cat "$work/out" >"$work/out.log" &
    cat "$work/err" >"$work/err.log" &
    # shellcheck disable=SC2016
    unshare --mount --net --pid --fork sh -euc '
        root=$1/root; mkdir "$root"; mount --bind "$2" "$root"; mount -o remount,ro,bind "$root"
        mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"
        mount -t tmpfs -o mode=1777 tmpfs "$root/run"; mkdir -m 1777 "$root/run/nearside"
        mount --bind "$1/site" "$root/srv/www"; ip link set lo up
        exec setpriv --no-new-privs --bounding-set -all,+setuid,+setgid,+sys_chroot \
            chroot --userspec="$3" --groups= "$root" env -i $4 $5
    ' sh "$work" "$image" "$user" "$variables" "$command" </dev/null >"$work/out" 2>"$work/err" &
    unshare=$!
    first=""
    while [ -z "$first" ]; do
        kill -0 $unshare || { cat "$work/err.log"; exit 1; }
        first=$(ps -o pid= --ppid $unshare | tr -d ' ')
    done
    # shellcheck disable=SC2086
    inside() { nsenter -t "$first" -m -n -p -r -w env -i $variables "$@"; }
    logs() { cat "$work/out.log" "$work/err.log"; }
    signal() { kill -s "$1" "$first"; }
    ended() { wait $unshare && echo 0 || echo $?; }
else
    skip "a container cannot be run here: $(tail -n 1 "$work/said")"
fi
# The program itself asks: its health, and a page.
tries=0
until inside nearside status --health >"$work/health" 2>&1; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || fail "not healthy: $(cat "$work/health")"
    sleep 0.1
done
inside nearside load http://127.0.0.1:8080/index.html -n 100 --warmup 0s --json >"$work/load.json" || fail "no page"
until [ "$(logs 2>/dev/null | grep -c 'GET /index.html')" -ge 100 ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "lines of the access log are missing"
    sleep 0.1
done
is=$(inside sh -c 'cut -d " " -f 1 /proc/1/comm; grep ^Uid: /proc/1/status' | tr '\n' ' ')
case $is in "nginx Uid:	65532	65532	65532	65532 ") ;; *) fail "process 1 is $is" ;; esac
check=$($engine image inspect --format '{{index .Config.Healthcheck.Test 0}}' "localhost/$name")
[ "$check" = CMD ] || fail "no health check"

echo "== a process without a parent is not left behind"
inside sh -c '(sleep 0 & exec sleep 0) & sleep 0.5'
inside sh -c 'for status in /proc/[0-9]*/status; do grep -q "^State:.Z" $status && exit 1; done; exit 0' ||
    fail "a zombie"

echo "== reloads, and stops"
signal HUP
until logs 2>&1 | grep -qi "reload\|nothing has changed"; do
    tries=$((tries + 1))
    [ $tries -lt 900 ] || fail "no word of the reload"
    sleep 0.1
done
signal QUIT
# In this shell, whose child it is.
ended >"$work/status"
status=$(cat "$work/status")
first=""
[ "$status" = 0 ] || fail "ended with $status"
echo "test-image: good"
