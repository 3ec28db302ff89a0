#!/bin/sh
# Installs the programs with their manual pages, completions and systemd units, the
# documents, the schema of sites, alerts and the dashboard below $PREFIX (/usr/local), in
# $DESTDIR if that is set; or removes them.
#
# nearside-tools, nearside-cluster and libnearside_preload.so lie beside the program that is
# named; people call nearside alone, which finds the others below lib.
#
#   scripts/install.sh target/release/nearside
#   scripts/install.sh --remove
set -eu

prefix=${PREFIX:-/usr/local}
to=${DESTDIR:-}$prefix
bin=$to/bin
lib=$to/lib/nearside
man=$to/share/man/man1
bash=$to/share/bash-completion/completions
zsh=$to/share/zsh/site-functions
fish=$to/share/fish/vendor_completions.d
units=$to/lib/systemd/system
doc=$to/share/doc/nearside
share=$to/share/nearside

if [ "${1:-}" = --remove ]; then
    # What is named nearside there is ours.
    rm -f "$bin/nearside" "$lib/nearside-tools" "$lib/nearside-cluster" "$lib/libnearside_preload.so"
    rm -f "$man/nearside.1" "$man"/nearside-*.1 "$bash/nearside" "$zsh/_nearside" \
        "$fish/nearside.fish" "$units/nearside.service" "$units/nearside.socket" \
        "$units/nearside-link@.service" "$units/nearside-nginx.service"
    rm -rf "$doc" "$share"
    [ ! -d "$lib" ] || rmdir --ignore-fail-on-non-empty "$lib"
    echo "removed from $to"
    exit 0
fi

program=${1:?which program}
beside=$(dirname "$program")
[ -x "$beside/nearside-tools" ] || { echo "$beside/nearside-tools is missing: make build" >&2; exit 1; }
lie="nearside-tools nearside-cluster"
[ -x "$beside/nearside-cluster" ] || {
    echo "$beside/nearside-cluster is not built: nearside cluster is left out" >&2
    lie=nearside-tools
}
library=libnearside_preload.so
[ -e "$beside/$library" ] || {
    echo "$beside/$library is not built: nearside run is left out" >&2
    library=
}
mkdir -p "$bin" "$lib" "$man" "$bash" "$zsh" "$fish" "$units" \
    "$doc/docs" "$doc/examples" "$share/alerts" "$share/dashboard" || {
    echo "cannot write below $to: try sudo make install, or make install PREFIX=\$HOME/.local" >&2
    exit 1
}
# Moved into place, for a program that runs cannot be written over.
for one in $lie; do
    install -m 755 "$beside/$one" "$lib/.$one.new"
    mv -f "$lib/.$one.new" "$lib/$one"
done
# Nobody runs it, and programs that have it keep the one that they have.
if [ -n "$library" ]; then
    install -m 644 "$beside/$library" "$lib/.$library.new"
    mv -f "$lib/.$library.new" "$lib/$library"
fi
install -m 755 "$program" "$bin/.nearside.new"
mv -f "$bin/.nearside.new" "$bin/nearside"
"$program" man "$man" >/dev/null
chmod 644 "$man"/nearside*.1
"$program" completions bash >"$bash/nearside"
"$program" completions zsh >"$zsh/_nearside"
"$program" completions fish >"$fish/nearside.fish"
top=$(dirname "$0")/..
for unit in nearside.service nearside.socket nearside-link@.service nearside-nginx.service; do
    sed "s|/usr/bin/nearside|$prefix/bin/nearside|" "$top/packaging/systemd/$unit" >"$units/$unit"
done
# As they lie in the sources, so that their links lead from one to the other.
install -m 644 "$top"/*.md "$doc"
install -m 644 "$top"/docs/*.md "$doc/docs"
install -m 644 "$top"/packaging/systemd/examples/*.conf "$doc/examples"
install -m 644 "$top/docs/site.schema.json" "$share"
install -m 644 "$top/packaging/alerts/nearside.rules.yml" "$share/alerts"
install -m 644 "$top/packaging/dashboard/nearside.json" "$share/dashboard"
size() { du -h "$1" | cut -f 1; }
echo "installed $bin/nearside ($(size "$bin/nearside")), $lib/nearside-tools ($(size "$lib/nearside-tools"))," \
    "their manual, documents, completions and units below $to"

case ":$PATH:" in
    *":$prefix/bin:"*) ;;
    *) [ -n "${DESTDIR:-}" ] || echo "$prefix/bin is not in your PATH: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
