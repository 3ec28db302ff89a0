#!/bin/sh
# Lays out all that the image nearside:nginx has beside its base:
#
#   packaging/container/nginx/lay-out.sh FOLDER target/release/nearside
set -eu

to=${1:?which folder}
program=${2:?which program}
here=$(cd "$(dirname "$0")" && pwd)

umask 022
mkdir -p "$to/usr/bin" "$to/usr/sbin" "$to/usr/lib/nearside" "$to/usr/share/nearside"
mkdir -p "$to/var/log/nginx" "$to/var/cache/nginx" "$to/etc/nginx/templates"
cp -R "$here/tree/." "$to"
install -m 755 "$program" "$to/usr/bin/nearside"
install -m 755 "$(dirname "$program")/nearside-tools" "$to/usr/lib/nearside/nearside-tools"
# What the first script compares the site with.
cp "$to/etc/nginx/conf.d/default.conf" "$to/usr/share/nearside/default.conf"
# By this name the command line is nginx's.
ln -s ../bin/nearside "$to/usr/sbin/nginx"
ln -s /dev/stdout "$to/var/log/nginx/access.log"
ln -s /dev/stderr "$to/var/log/nginx/error.log"
