#!/bin/sh
# nginx's own test suite (scripts/nginx-tests.txt) against `nearside` under the name
# nginx, in a network namespace of its own.
#
#   NGINX_TESTS=DIR scripts/nginx-tests.sh [NEARSIDE] [FILE...]
#
# DIR has the suite's sources (github.com/nginx/nginx-tests); nothing of them is kept.
# What `-V` says decides which files run. It needs root, perl with IO::Socket::SSL, and
# openssl, iproute2 and unshare; FCGI, SCGI, CryptX and uwsgi run further files. FILE:
# only these, without ".t", and what each says where it fails. JOBS: files at a time.
#
# Each file that has a line in the list has to pass as many assertions as stand there,
# and each that has none all of those that it makes; a file that passes more than its
# line says is told of, so that the line is brought up to date.
set -eu
lacks() { echo "nginx-tests: $*" >&2; exit 77; }
[ -n "${NGINX_TESTS:-}" ] || lacks "NGINX_TESTS is not set: a folder with the suite's sources"
[ -e "$NGINX_TESTS/lib/Test/Nginx.pm" ] || lacks "$NGINX_TESTS/lib/Test/Nginx.pm is not there"
[ "$(id -u)" = 0 ] || lacks "it needs root, for a network namespace"
for program in perl openssl ip unshare; do
    command -v "$program" >/dev/null 2>&1 || lacks "there is no $program"
done
perl -MIO::Socket::SSL -e 1 2>/dev/null || lacks "there is no IO::Socket::SSL (apt-get install libio-socket-ssl-perl)"
if [ -z "${NEARSIDE_APART:-}" ]; then
    NEARSIDE_APART=yes exec unshare --net "$0" "$@"
fi
nearside=$(realpath "${1:-target/release/nearside}")
[ $# = 0 ] || shift
list=$(realpath "$(dirname "$0")/nginx-tests.txt")
suite=$(realpath "$NGINX_TESTS")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
ip link set lo up
chmod 755 "$work"
mkdir "$work/said" "$work/temporary"
cat >"$work/nginx" <<END
#!/bin/sh
exec '$nearside' nginx "\$@"
END
chmod 755 "$work/nginx"
# Folders of its files are root's alone. A file of the suite gives up what it waits for; this is for one that does not.
cat >"$work/one" <<END
#!/bin/sh
cd '$suite'
export TEST_NGINX_BINARY=\${NEARSIDE_AS_NGINX:-'$work/nginx'} TEST_NGINX_GLOBALS='user root;' TMPDIR='$work/temporary'
timeout -k 10 180 perl -I lib "\$1.t" >'$work/said/'"\$1" 2>'$work/said/'"\$1.errors" </dev/null || true
END
chmod 755 "$work/one"
if [ $# = 0 ]; then
    (cd "$suite" && ls -- *.t) | sed 's/\.t$//' | grep -vE '^(h3|quic)_' >"$work/files"
else
    printf '%s\n' "$@" >"$work/files"
fi
xargs -P "${JOBS:-$(nproc)}" -n 1 "$work/one" <"$work/files"

# "group file passed all": what is marked as to be done, or skipped, is not among them.
while IFS= read -r file; do
    awk -v file="$file" '
        /^1\.\.0( |$)/ { skipped = 1 }
        /^1\.\.[0-9]+$/ { planned = substr($0, 4) - 2 }
        / # (TO[D]O|skip)/ && /^(not )?ok / { aside++; next }
        / (- )?no (alerts|sanitizer errors)$/ { if (/^not ok/) print file > "/dev/stderr"; next }
        /^ok / { passed++ }
        END {
            group = file ~ /^proxy_|^proxy$/ ? "proxy" : file ~ /^ssl_|^ssl$/ ? "ssl" : "core"
            if (!skipped) print group, file, passed + 0, planned - aside
        }' "$work/said/$file"
done <"$work/files" >"$work/passed" 2>"$work/alerts"

if [ -n "${KEEP:-}" ]; then rm -rf "$KEEP" && cp -r "$work" "$KEEP"; fi
sed 's/#.*//' "$list" | awk -v passed="$work/passed" '
    NF { least[$1] = $2 }
    END {
        while ((getline < passed) > 0) {
            good[$1] += $3; all[$1] += $4; files++
            expected = $2 in least ? least[$2] : $4
            if ($3 < expected) { print "nginx-tests: " $2 ": " $3 " of " $4 " passed, not " expected; worst = 1 }
            if ($2 in least && $3 > expected)
                print "nginx-tests: " $2 ": " $3 " of " $4 " passed: more than its line says"
        }
        for (group in all) print "nginx-tests: " group ": " good[group] " of " all[group] " assertions"
        if (!files) { print "nginx-tests: no file ran"; worst = 1 }
        exit worst
    }' || failed=1
while IFS= read -r file; do
    echo "nginx-tests: $file: its error log has an alert, or a sanitizer's error"
    failed=1
done <"$work/alerts"
if [ "$(wc -l <"$work/files")" -le 3 ]; then
    while IFS= read -r file; do cat "$work/said/$file.errors"; done <"$work/files"
fi
exit "${failed:-0}"
