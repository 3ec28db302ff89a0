#!/bin/sh
# Has the image's own site listen on IPv6, too, where the container has it; a
# default.conf of anybody else's is left as it is.
set -eu

site=/etc/nginx/conf.d/default.conf
own=/usr/share/nearside/default.conf

[ -e /proc/net/if_inet6 ] || exit 0
cmp -s "$site" "$own" || exit 0
if [ ! -w "$site" ]; then
    [ "${NGINX_ENTRYPOINT_QUIET_LOGS:-}" ] || echo "$0: $site cannot be written to: it listens on IPv4 alone"
    exit 0
fi
# Written over, not replaced: it may be a mount of its own.
sed 's/^\( *\)listen 80;$/&\n\1listen [::]:80;/' "$own" >"$site"
