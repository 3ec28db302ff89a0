#!/bin/sh
# Debian's nginx-light, nginx-full and nginx-extras by their packages, in a copy of this
# machine's folders: `-t` passes without an edit, their default sites are served, and nginx
# takes the same files still (testing/interop/tests/nginx/debian.rs).
#
#   scripts/debian-nginx.sh [FOLDER]
#
# The packages, and what they need that is not installed here, are fetched from the
# machine's own sources and unpacked into FOLDER [default: one that goes afterwards];
# nothing is installed. It needs root, for a mount namespace.
set -eu
lacks() { echo "debian-nginx: $*" >&2; exit 77; }
[ "$(id -u)" = 0 ] || lacks "it needs root, for namespaces"
for program in apt-get dpkg nginx; do
    command -v "$program" >/dev/null 2>&1 || lacks "there is no $program"
done
if [ $# = 0 ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    trap 'exit 130' INT TERM
else
    mkdir -p "$1"
    folder=$(realpath "$1")
fi
mkdir -p "$folder/archives/partial" "$folder/tree/usr"
for package in nginx-light nginx-full nginx-extras; do
    apt-get -qq --yes --download-only -o Dir::Cache::archives="$folder/archives" \
        -o Debug::NoLocking=1 install "$package" >/dev/null || lacks "$package cannot be fetched"
done
for archive in "$folder"/archives/*.deb; do
    # Where nginx-extras is installed with all that it needs, there is none.
    [ ! -e "$archive" ] || dpkg -x "$archive" "$folder/tree"
done
# What is installed is not fetched; its files are in this machine's own folders.
NEARSIDE_DEBIAN_NGINX="$folder/tree" ${CARGO:-cargo} test -q --locked -p interop --test nginx debian -- --nocapture
