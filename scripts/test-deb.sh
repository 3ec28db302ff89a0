#!/bin/sh
# Installs the package in a copy of this machine that is thrown away, serves with it,
# rotates logs under load, removes and purges it.
#
#   scripts/test-deb.sh out/nearside_VERSION_ARCH.deb
#
# The copy is an overlay over / in namespaces of its own: nothing of the machine
# changes, and nothing is fetched. It needs root, overlayfs and logrotate; where one
# is missing it says which, and exits with 77.
set -eu

skip() { echo "test-deb: left out: $*" >&2; exit 77; }

if [ "${1:-}" != --inside ]; then
    package=$(readlink -f "${1:?which package}")
    [ "$(id -u)" = 0 ] || skip "needs root"
    for program in unshare chroot dpkg logrotate; do
        command -v "$program" >/dev/null 2>&1 || skip "$program is not here"
    done
    grep -q overlay /proc/filesystems || modprobe overlay 2>/dev/null || skip "this kernel has no overlayfs"
    script=$(readlink -f "$0")
    if command -v lintian >/dev/null 2>&1; then
        echo "== lintian"
        lintian --allow-root --fail-on error,warning "$package"
    fi
    exec unshare --mount --net --pid --fork --uts "$script" --inside "$package"
fi

package=$2
top=$(mktemp -d)
mount -t tmpfs tmpfs "$top"
mkdir "$top/upper" "$top/work" "$top/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" "$top/root" ||
    skip "no overlay over this root (a container's own overlay?)"
root=$top/root
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
cp "$package" "$root/tmp/nearside.deb"
mkdir "$root/tmp/upper" "$root/tmp/lower"
mount --bind "$top/upper" "$root/tmp/upper"
mount --bind / "$root/tmp/lower"
ip link set lo up

cat >"$root/tmp/inside.sh" <<'INSIDE'
set -eu
fail() { echo "test-deb: $*" >&2; tail -n 20 /var/log/nearside/* 2>/dev/null >&2 || true; exit 1; }
step() { echo "== $*"; }
# Until a command succeeds: events that this waits for come in milliseconds.
until_true() {
    tries=0
    until "$@" >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "waited in vain for: $*"
        sleep 0.1
    done
}
gone() { ! kill -0 "$1" 2>/dev/null; }
# What is there and was not: in the layer that is written to, and not below it; but for
# what any installation of a package leaves.
added() {
    (cd /tmp/upper && find . ! -type c \( -path ./var/lib/dpkg -o -path ./var/cache -o -path ./var/log/nginx \
        -o -path './etc/*-' -o -path ./etc/.pwd.lock -o -path ./tmp -o -path ./run \) -prune -o ! -type c -print) |
        while read -r path; do
            [ -e "/tmp/lower/$path" ] || [ -h "/tmp/lower/$path" ] || echo "$path"
        done
}

dpkg --purge --force-all nearside >/dev/null 2>&1 || true
# Images of containers have one, which keeps nginx's rotation from nginx.
rm -f /usr/sbin/policy-rc.d

step "installed"
dpkg --force-depends -i /tmp/nearside.deb >/tmp/said 2>&1 || fail "$(cat /tmp/said)"
id nearside >/dev/null || fail "no user"
owner=$(stat -c %U:%G:%a /var/log/nearside)
[ "$owner" = nearside:adm:750 ] || fail "the folder of logs: $owner"
nearside --version >/dev/null
zcat /usr/share/man/man1/nearside-nginx.1.gz | grep -q explain || fail "no manual"
# The second program is found by the first, and by nobody's PATH.
nearside load --help | grep -q warmup || fail "the tools are not found"
if command -v nearside-tools >/dev/null; then fail "the tools are a command of their own"; fi
nearside cluster --version >/dev/null || fail "nearside cluster: $(nearside cluster --version 2>&1)"
for file in doc/nearside/README.md doc/nearside/CHANGELOG.md doc/nearside/docs/site.md \
    doc/nearside/examples/alias.conf doc/nearside/examples/nginx-on-our-stack.conf \
    nearside/alerts/nearside.rules.yml nearside/dashboard/nearside.json; do
    # Images of containers keep documents out.
    grep -rqs "path-exclude.*/usr/share/doc" /etc/dpkg && [ "${file#doc/}" != "$file" ] && continue
    [ -s "/usr/share/$file" ] || fail "no /usr/share/$file"
done
nearside serve --site-schema | cmp -s - /usr/share/nearside/site.schema.json || fail "the schema is another's"
if command -v systemd-analyze >/dev/null 2>&1; then
    mkdir -p /srv/www
    units="nearside.service nearside.socket nearside-nginx.service nearside-link@lo.service"
    # shellcheck disable=SC2086
    said=$(systemd-analyze verify --man=no $units 2>&1 |
        grep -i nearside || true)
    [ -z "$said" ] || fail "units: $said"
    unit=$(cd /lib/systemd/system && grep -h ^ExecStart= nearside.service nearside.service.d/package.conf | tail -n 1)
    [ "$unit" != "${unit#*serve.toml}" ] || fail "settings are not the unit's: $unit"
fi
alias=/etc/systemd/system/nginx.service
if command -v systemctl >/dev/null 2>&1 && [ -s /usr/share/doc/nearside/examples/alias.conf ]; then
    step "the name nginx.service, on request"
    drop_ins=/etc/systemd/system/nearside-nginx.service.d
    [ ! -e $alias ] || fail "the name was taken without being asked for"
    for example in alias metrics; do
        install -D -m 644 -t $drop_ins /usr/share/doc/nearside/examples/$example.conf
    done
    systemctl enable nearside-nginx 2>/tmp/said || fail "$(cat /tmp/said)"
    [ "$(basename "$(readlink $alias)")" = nearside-nginx.service ] || fail "no alias: $(ls -l /etc/systemd/system)"
    # It says that the two exclude each other no more, being one.
    said=$(systemd-analyze verify --man=no nearside-nginx.service 2>&1 | grep -i nearside |
        grep -v "is dropped, as nginx.service is merged" || true)
    [ -z "$said" ] || fail "units: $said"
    systemctl disable nearside-nginx 2>/dev/null
    [ ! -h $alias ] || fail "the name is not given back"
    # As an operator has it who forgets that.
    systemctl enable nearside-nginx nearside.service nearside-link@lo.service 2>/tmp/said || fail "$(cat /tmp/said)"
fi

if command -v nginx >/dev/null 2>&1 && command -v curl >/dev/null 2>&1 && [ -c /dev/net/tun ]; then
    step "nginx, as it is, on our stack, by the library that is installed"
    mkdir -p /tmp/ours
    cat >/tmp/ours/nginx.conf <<'CONF'
daemon off; user root; pid /tmp/ours/pid; error_log /tmp/ours/error.log;
events {}
http { access_log off; server { listen 80; return 200 "on our stack\n"; } }
CONF
    nearside run --link tap:near9,addr=10.9.9.1/24 --addr 10.9.9.2/24 -- \
        nginx -c /tmp/ours/nginx.conf 2>/tmp/ours/run.log &
    keeper=$!
    until_true curl -sf --max-time 5 http://10.9.9.2/
    [ "$(curl -sf http://10.9.9.2/)" = "on our stack" ] || fail "nginx on our stack: $(cat /tmp/ours/run.log)"
    nearside status $keeper --json | grep -q '"program' || fail "status of nginx on our stack"
    # A shell's command in the background does not hear SIGQUIT.
    nginx -c /tmp/ours/nginx.conf -s quit
    wait $keeper || fail "nginx on our stack ended with $?: $(cat /tmp/ours/run.log)"
fi

step "serves /srv/www by its settings, as its user"
mkdir -p /srv/www /run/nearside && echo page >/srv/www/index.html
chown nearside /run/nearside
nearside serve --settings /etc/nearside/serve.toml --check >/dev/null
nearside serve --settings /etc/nearside/serve.toml --listen 8080 --user nearside --supervise \
    --pid-file /run/nearside.pid --control /run/nearside/control 2>/tmp/serve.log &
main=$!
until_true grep -q "$main" /run/nearside.pid
[ "$(ps -o user= --ppid $main | sort -u | tr -d ' ')" = nearside ] || fail "who serves: $(ps -o user,args --ppid $main)"

# Requests in sets, with a forced rotation within each; every line is there, none twice.
rotate_under_load() { # conf url log
    total=0
    for set in 1 2 3 4; do
        nearside load "$2" -n 20000 -c 8 --warmup 0s --json >/tmp/load.json &
        load=$!
        sleep 0.05
        logrotate --force --state /tmp/rotated "$1" || fail "logrotate"
        wait $load || fail "load"
        total=$((total + 20000))
    done
    lines() { { cat "$3" "$3".1 2>/dev/null || true; zcat "$3".*.gz 2>/dev/null || true; } | grep -c "GET /" || true; }
    there() { [ "$(lines "$@")" -ge "$total" ]; }
    until_true there "$@"
    [ "$(lines "$@")" = "$total" ] || fail "$(lines "$@") lines of $total requests"
    ls "$3".*.gz >/dev/null 2>&1 || fail "nothing was compressed: $(ls -l "$(dirname "$3")")"
}
step "logrotate, under load: serve"
rotate_under_load /etc/logrotate.d/nearside http://127.0.0.1:8080/index.html /var/log/nearside/access.log
[ "$(stat -c %U:%G:%a /var/log/nearside/access.log)" = nearside:adm:640 ] || fail "the new log's mode"

step "upgraded while it serves, without systemd: logs are opened again, and a successor is the new program"
dpkg --force-depends -i /tmp/nearside.deb >/tmp/said 2>&1 || fail "$(cat /tmp/said)"
was=$(readlink "/proc/$main/exe")
[ "$was" = "/usr/bin/nearside (deleted)" ] || fail "not upgraded: $was"
mv /var/log/nearside/access.log /var/log/nearside/access.log.old
/usr/lib/nearside/reopen-logs
until_true test -e /var/log/nearside/access.log
kill -USR2 "$main"
# The parent stays, and what it starts is what is installed now.
is_new() {
    for pid in $(ps -o pid= --ppid "$main"); do
        [ "$(readlink "/proc/$pid/exe")" != /usr/bin/nearside ] || return 0
    done
    return 1
}
until_true is_new
nearside load http://127.0.0.1:8080/index.html -n 10 >/dev/null 2>&1 || fail "the successor does not serve"

step "a link in the folder of logs leads root nowhere"
echo precious >/root/precious && chmod 600 /root/precious
rm /var/log/nearside/access.log && ln -s /root/precious /var/log/nearside/access.log
kill -USR1 "$main"
nearside load http://127.0.0.1:8080/index.html -n 10 >/dev/null 2>&1
until_true grep -q "cannot open" /tmp/serve.log
[ "$(cat /root/precious)" = precious ] || fail "root wrote where a link led"
kill -TERM "$main"
wait "$main" || fail "did not end well"

if [ -f /etc/logrotate.d/nginx ] && [ -x /etc/init.d/nginx ] && id www-data >/dev/null 2>&1; then
    step "logrotate, under load: nginx.conf, by the rules of Debian's nginx"
    cat >/etc/nginx/nginx.conf <<'CONF'
user www-data;
worker_processes 2;
pid /run/nginx.pid;
error_log /var/log/nginx/error.log;
events { worker_connections 768; }
http {
    access_log /var/log/nginx/access.log;
    server { listen 8081; root /srv/www; }
}
CONF
    rm -f /var/log/nginx/*
    nearside nginx -t 2>/tmp/said || fail "$(cat /tmp/said)"
    nearside nginx || fail "$(cat /var/log/nginx/error.log)"
    main=$(cat /run/nginx.pid)
    rotate_under_load /etc/logrotate.d/nginx http://127.0.0.1:8081/index.html /var/log/nginx/access.log
    nearside nginx -s quit
    until_true gone "$main"
    [ ! -e /run/nginx.pid ] || fail "the pid file stays"
fi

step "removed: what an operator changed stays"
echo '# mine' >>/etc/nearside/serve.toml
dpkg -r nearside >/tmp/said 2>&1 || fail "$(cat /tmp/said)"
grep -q '# mine' /etc/nearside/serve.toml || fail "a conffile is gone"
[ ! -e /usr/bin/nearside ] || fail "the program is there"
[ ! -h $alias ] || fail "the name nginx.service leads to a unit that is gone"
rm -rf /etc/systemd/system/nearside-nginx.service.d

step "purged: nothing stays"
dpkg -P nearside >/tmp/said 2>&1 || fail "$(cat /tmp/said)"
if id nearside >/dev/null 2>&1; then fail "the user is there"; fi
rm -rf /srv/www /root/precious
left=$(added)
[ -z "$left" ] || fail "left behind: $left"
echo "test-deb: good"
INSIDE
exec chroot "$root" sh /tmp/inside.sh
