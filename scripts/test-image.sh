#!/bin/sh
# Builds both container images with the program that is built, runs them on a root that
# nothing can write to, one without rights and one in the place of nginx's image, asks
# them, reloads them, and stops them.
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
    [ -z "$mounted" ] || $engine image unmount "localhost/$mounted" >/dev/null 2>&1 || true
    $engine rm -f "$name" >/dev/null 2>&1 || true
    $engine rmi -f "localhost/$name" "localhost/$name-nginx" "localhost/$name-base" >/dev/null 2>&1 || true
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

# Of the sources only what the images are made of: the programs are there.
mkdir -p "$work/context/target/release"
cp -r "$here/packaging" "$work/context/packaging"
cp "$program" "$work/context/target/release/nearside"
cp "$(dirname "$program")/nearside-tools" "$(dirname "$program")/nearside-cluster" "$work/context/target/release/"
built() { # name, options
    image=$1
    shift
    # shellcheck disable=SC2086
    $engine build -q $isolation --build-arg "BASE=$base" "$@" -t "localhost/$image" \
        -f "$here/packaging/container/Dockerfile" "$work/context" >"$work/said" 2>&1 || fail "$(cat "$work/said")"
}

# Starts $image, on a root that cannot be written to: with $binds (FOLDER:PLACE), a tmpfs at
# each of $tmpfs, $environment (NAME=VALUE), and rights or none.
started() {
    options=""
    for bind in $binds; do options="$options -v $bind:ro"; done
    for place in $tmpfs; do options="$options --tmpfs $place:mode=1777"; done
    for variable in $environment; do options="$options -e $variable"; done
    [ "$rights" = some ] || options="$options --cap-drop ALL --security-opt no-new-privileges"
    # shellcheck disable=SC2086
    if $engine run -d $groups --name "$name" --network none --read-only $options "localhost/$image" \
        >"$work/said" 2>&1; then
        inside() { $engine exec "$name" "$@"; }
        logs() { $engine logs "$name"; }
        signal() { $engine kill --signal "$1" "$name" >/dev/null; }
        ended() { $engine wait "$name"; }
    elif [ $engine = podman ] && [ "$(id -u)" = 0 ] && command -v nsenter >/dev/null 2>&1; then
        # The same by namespaces of our own, from what the image says of itself.
        echo "   by unshare: $engine runs nothing here: $(tail -n 1 "$work/said")"
        $engine rm -f "$name" >/dev/null 2>&1 || true
        of_image() { $engine image inspect --format "$1" "localhost/$image"; }
        user=$(of_image '{{.Config.User}}')
        variables="$(of_image '{{range .Config.Env}}{{.}} {{end}}') $environment"
        # Words with blanks in them stay what they are.
        of_image '{{range .Config.Entrypoint}}{{println .}}{{end}}{{range .Config.Cmd}}{{println .}}{{end}}' |
            grep . >"$work/command"
        # Before the process begins, whose first child is looked for.
        root=$($engine image mount "localhost/$image")
        mounted=$image
        # As an engine does, the streams are pipes that are root's.
        rm -f "$work/out" "$work/err"
        mkfifo "$work/out" "$work/err"
        cat "$work/out" >"$work/out.log" &
        cat "$work/err" >"$work/err.log" &
        # shellcheck disable=SC2016
        unshare --mount --net --pid --fork sh -euc '
            work=$1; root=$work/root; mkdir -p "$root"; mount --bind "$2" "$root"; mount -o remount,ro,bind "$root"
            mount -t proc proc "$root/proc"; mount --rbind /dev "$root/dev"
            for place in $6; do mount -t tmpfs -o mode=1777 tmpfs "$root$place"; done
            for bind in $5; do mount --bind "${bind%%:*}" "$root${bind#*:}"; done
            ip link set lo up
            identity="--userspec=${3:-0:0} --groups="
            limits="--no-new-privs --bounding-set -all,+setuid,+setgid,+sys_chroot"
            [ "$7" = none ] || limits=""
            variables=$4
            set --
            while IFS= read -r word; do set -- "$@" "$word"; done <"$work/command"
            exec setpriv $limits chroot $identity "$root" env -i $variables "$@"
        ' sh "$work" "$root" "$user" "$variables" "$binds" "$tmpfs" "$rights" \
            </dev/null >"$work/out" 2>"$work/err" &
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
}
# Until the container's log has a line so often.
logged() { # pattern, times
    tries=0
    until [ "$(logs 2>&1 | grep -ci "$1")" -ge "${2:-1}" ]; do
        tries=$((tries + 1))
        [ $tries -lt 900 ] || fail "missing in the log: $1"
        sleep 0.1
    done
}
# Until a command in the container succeeds.
until_inside() {
    tries=0
    until inside "$@" >"$work/said" 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || fail "in vain: $*: $(cat "$work/said")"
        sleep 0.1
    done
}
# Reloads it, and stops it.
reloaded_and_stopped() {
    signal HUP
    logged "reload\|nothing has changed"
    signal QUIT
    # In this shell, whose child it is.
    ended >"$work/status"
    status=$(cat "$work/status")
    first=""
    [ "$status" = 0 ] || fail "ended with $status"
}

echo "== builds"
built "$name"

echo "== serves, without rights, on a root that cannot be written to"
mkdir "$work/site" && echo page >"$work/site/index.html" && chmod 755 "$work" "$work/site"
binds=$work/site:/srv/www tmpfs=/run/nearside environment="" rights=none
started
# The program itself asks: its health, and a page.
until_inside nearside status --health
inside nearside load http://127.0.0.1:8080/index.html -n 100 --warmup 0s --json >"$work/load.json" || fail "no page"
logged 'GET /index.html' 100
# What workers of a cluster and their controller are.
inside nearside cluster --version >"$work/said" 2>&1 || fail "$(cat "$work/said")"
is=$(inside sh -c 'cut -d " " -f 1 /proc/1/comm; grep ^Uid: /proc/1/status' | tr '\n' ' ')
case $is in "nginx Uid:	65532	65532	65532	65532 ") ;; *) fail "process 1 is $is" ;; esac
check=$($engine image inspect --format '{{index .Config.Healthcheck.Test 0}}' "localhost/$image")
[ "$check" = CMD ] || fail "no health check"

echo "== a process without a parent is not left behind"
inside sh -c '(sleep 0 & exec sleep 0) & sleep 0.5'
inside sh -c 'for status in /proc/[0-9]*/status; do grep -q "^State:.Z" $status && exit 1; done; exit 0' ||
    fail "a zombie"

echo "== reloads, and stops"
reloaded_and_stopped
$engine rm -f "$name" >/dev/null 2>&1 || true
[ -z "$mounted" ] || $engine image unmount "localhost/$mounted" >/dev/null 2>&1 || true

echo "== in the place of nginx's image: templates, scripts, logs, port 80"
# What its packages need is a network, which nothing else here does.
built "$name-nginx" --target nginx --build-arg PACKAGES=
mkdir "$work/templates"
# shellcheck disable=SC2016
echo 'server { listen 80; root /usr/share/nginx/html; location = /by { return 200 "$GREETING from $uri"; } }' \
    >"$work/templates/default.conf.template"
chmod 755 "$work/templates"
binds="$work/site:/usr/share/nginx/html $work/templates:/etc/nginx/templates"
tmpfs="/etc/nginx/conf.d /run /tmp" environment=GREETING=hello rights=some
started
until_inside nearside load http://127.0.0.1/index.html -n 100 --warmup 0s --json
inside nearside load http://127.0.0.1/by -n 10 --warmup 0s --json >"$work/load.json" || fail "no page by the template"
logged 'GET /index.html HTTP/1.1" 200' 100
logged 'GET /by HTTP/1.1" 200 14' 10
logged 'serves as nginx (user 101)'
inside nginx -t >"$work/said" 2>&1 || fail "$(cat "$work/said")"
[ "$($engine image inspect --format '{{.Config.StopSignal}}' "localhost/$image")" = SIGQUIT ] || fail "its stop signal"
reloaded_and_stopped
echo "test-image: good"
