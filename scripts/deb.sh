#!/bin/sh
# Makes a package for Debian of a program that is built: out/nearside_VERSION_ARCH.deb.
#
#   scripts/deb.sh target/release/nearside [FOLDER]
#
# What is in it is what `make install` installs, with what packaging/deb has beside
# it. It needs dpkg-deb and binutils; the dates are those of the last commit, so that
# the same sources and the same program make the same package.
set -eu

program=${1:?which program}
to=${2:-out}
here=$(cd "$(dirname "$0")/.." && pwd)
deb=$here/packaging/deb

need() { command -v "$1" >/dev/null 2>&1 || { echo "deb: $1 is missing: apt-get install $2" >&2; exit 1; }; }
need dpkg-deb dpkg
need readelf binutils

version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/Cargo.toml" | head -n 1)
arch=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
maintainer=${DEBMAINTAINER:-Nearside packagers <packagers@nearside.invalid>}

umask 022
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"

DESTDIR=$tree PREFIX=/usr "$here/scripts/install.sh" "$program" >/dev/null
tools=$(dirname "$program")/nearside-tools
cluster=$(dirname "$program")/nearside-cluster
library=$(dirname "$program")/libnearside_preload.so
for one in "$cluster" "$library"; do
    [ -e "$one" ] || { echo "deb: $one is missing: make build" >&2; exit 1; }
done
strip --strip-unneeded "$tree/usr/bin/nearside" "$tree/usr/lib/nearside/nearside-tools" \
    "$tree/usr/lib/nearside/nearside-cluster" "$tree/usr/lib/nearside/libnearside_preload.so"
# Where Debian 12 has units.
mkdir -p "$tree/lib"
mv "$tree/usr/lib/systemd" "$tree/lib/systemd"
mkdir -p "$tree/usr/share/zsh/vendor-completions"
mv "$tree/usr/share/zsh/site-functions/_nearside" "$tree/usr/share/zsh/vendor-completions/_nearside"
rmdir "$tree/usr/share/zsh/site-functions"

doc=$tree/usr/share/doc/nearside
install -d "$doc" "$tree/usr/share/lintian/overrides" "$tree/DEBIAN"
install -D -m 644 "$deb/service.conf" "$tree/lib/systemd/system/nearside.service.d/package.conf"
install -D -m 644 "$deb/serve.toml" "$tree/etc/nearside/serve.toml"
install -D -m 644 "$deb/logrotate" "$tree/etc/logrotate.d/nearside"
install -D -m 755 "$deb/reopen-logs" "$tree/usr/lib/nearside/reopen-logs"
install -m 644 "$deb/copyright" "$doc/copyright"
install -m 644 "$deb/README.Debian" "$doc/README.Debian"
install -m 644 "$deb/lintian-overrides" "$tree/usr/share/lintian/overrides/nearside"
{
    printf 'nearside (%s) unstable; urgency=medium\n\n  * See /usr/share/doc/nearside/CHANGELOG.md.\n\n' "$version"
    printf ' -- %s  %s\n' "$maintainer" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
} >"$doc/changelog"
gzip -9n "$doc/changelog" "$tree"/usr/share/man/man1/*.1

# The packages that have the libraries, and the C library that has what is asked of
# it.
needed=$(ldd "$program" "$tools" "$cluster" "$library" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u)
depends=$(for one in $needed; do
    real=$(readlink -f "$one")
    { dpkg -S "$one" || dpkg -S "$real" || dpkg -S "${real#/usr}"; } 2>/dev/null | head -n 1 | cut -d : -f 1
done | sort -u)
libc=$(readelf -W --dyn-syms "$program" "$tools" "$cluster" "$library" |
    sed -n 's/.*@GLIBC_\([0-9.]*\).*/\1/p' | sort -uV | tail -n 1)
list=""
for package in $depends; do
    [ "$package" = libc6 ] && package="libc6 (>= $libc)"
    list="${list:+$list, }$package"
done
size=$(du -k -s --exclude=DEBIAN "$tree" | cut -f 1)
sed -e "s/@VERSION@/$version/" -e "s/@ARCH@/$arch/" -e "s/@SIZE@/$size/" \
    -e "s/@DEPENDS@/$list/" -e "s|@MAINTAINER@|$maintainer|" "$deb/control" >"$tree/DEBIAN/control"
for script in postinst prerm postrm; do install -m 755 "$deb/$script" "$tree/DEBIAN/$script"; done
(cd "$tree" && find etc -type f | sed 's|^|/|' | sort) >"$tree/DEBIAN/conffiles"
(cd "$tree" && find . -path ./DEBIAN -prune -o -path ./etc -prune -o -type f -printf '%P\n' | sort | xargs md5sum) \
    >"$tree/DEBIAN/md5sums"
find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$to"
file=$to/nearside_${version}_$arch.deb
dpkg-deb --root-owner-group -Zxz --build "$tree" "$file" >/dev/null
echo "made $file ($(du -h "$file" | cut -f 1))"
