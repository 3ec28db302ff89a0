#!/bin/sh
# Starts the image: runs what is in /docker-entrypoint.d, in the order of its names,
# and becomes the command.
#
# A name that ends in .sh is a program; one that ends in .envsh is read by this shell,
# so that what it exports is there for those after it and for the server. Both must be
# executable. Where one fails, nothing is started. With NGINX_ENTRYPOINT_QUIET_LOGS=1
# only what stops the start is said.
set -eu

folder=/docker-entrypoint.d
tell() { [ "${NGINX_ENTRYPOINT_QUIET_LOGS:-}" ] || echo "docker-entrypoint: $*"; }

case "$* " in
    # It writes more to its log: the level is the configuration's here.
    "nginx-debug "*) shift; set -- nginx "$@"; serves=yes ;;
    "nginx "* | "nearside nginx "*) serves=yes ;;
    *) serves="" ;;
esac
if [ "$serves" ] && [ -d "$folder" ]; then
    running=""
    trap '[ -z "$running" ] || echo "docker-entrypoint: nothing is started: $running failed" >&2' EXIT
    names=$(find -L "$folder" -name '..*' -prune -o -type f -print | LC_ALL=C sort -V)
    # A line is a name, whatever is in it.
    IFS='
'
    set -f
    for name in $names; do
        unset IFS
        set +f
        case $name in
            *.sh | *.envsh)
                if [ ! -x "$name" ]; then
                    tell "$name is left out: it is not executable"
                    continue
                fi
                tell "$name"
                running=$name
                # shellcheck disable=SC1090
                case $name in
                    *.sh) "$name" ;;
                    *) . "$name" ;;
                esac
                running=""
                ;;
            *) tell "$name is left out: its name ends neither in .sh nor in .envsh" ;;
        esac
    done
    unset IFS
    trap - EXIT
fi
exec "$@"
