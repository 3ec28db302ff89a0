#!/bin/sh
# Makes files of /etc/nginx/templates: NAME.conf.template becomes conf.d/NAME.conf, with
# $NAME and ${NAME} replaced by the environment's values; names that it does not have,
# as $uri, stay.
#
# NGINX_ENVSUBST_TEMPLATE_DIR     where templates are (/etc/nginx/templates)
# NGINX_ENVSUBST_TEMPLATE_SUFFIX  what their names end in (.template)
# NGINX_ENVSUBST_OUTPUT_DIR       where files go (/etc/nginx/conf.d)
# NGINX_ENVSUBST_FILTER           only names that this regular expression fits (all)
set -eu

templates=${NGINX_ENVSUBST_TEMPLATE_DIR:-/etc/nginx/templates}
suffix=${NGINX_ENVSUBST_TEMPLATE_SUFFIX:-.template}
to=${NGINX_ENVSUBST_OUTPUT_DIR:-/etc/nginx/conf.d}
streams=${NGINX_ENVSUBST_STREAM_TEMPLATE_SUFFIX:-.stream-template}

tell() { [ "${NGINX_ENTRYPOINT_QUIET_LOGS:-}" ] || echo "$0: $*"; }
fail() { echo "$0: $*" >&2; exit 1; }

# Not those below ..data and its kin, which Kubernetes leads its names to.
ending() { find -L "$templates" -name '..*' -prune -o -type f -name "*$1" -print | LC_ALL=C sort; }

replaced() {
    LC_ALL=C awk '
        function value(name, whole) {
            if (!(name in ENVIRON) || name !~ ENVIRON["NGINX_ENVSUBST_FILTER"]) return whole
            return ENVIRON[name]
        }
        {
            done = ""
            rest = $0
            while (at = index(rest, "$")) {
                done = done substr(rest, 1, at - 1)
                rest = substr(rest, at)
                if (match(rest, /^\$[A-Za-z_][A-Za-z0-9_]*/)) name = substr(rest, 2, RLENGTH - 1)
                else if (match(rest, /^\$\{[A-Za-z_][A-Za-z0-9_]*\}/)) name = substr(rest, 3, RLENGTH - 3)
                else {
                    done = done "$"
                    rest = substr(rest, 2)
                    continue
                }
                length_of = RLENGTH
                done = done value(name, substr(rest, 1, length_of))
                rest = substr(rest, length_of + 1)
            }
            print done rest
        }
    ' <"$1"
}

[ -d "$templates" ] || exit 0
first=$(ending "$streams" | head -n 1)
[ -z "$first" ] || fail "$first is for nginx's module stream, which Nearside does not have"

draft=$(mktemp 2>/dev/null || mktemp -p /dev/shm) ||
    fail "no place for a draft: give the container a tmpfs (--tmpfs /tmp)"
trap 'rm -f "$draft"' EXIT
ending "$suffix" | while IFS= read -r template; do
    name=${template#"$templates/"}
    file=$to/${name%"$suffix"}
    replaced "$template" >"$draft" || fail "$template cannot be read"
    # As it is in the image already, where nothing can be written.
    ! cmp -s "$draft" "$file" || continue
    mkdir -p "$(dirname "$file")" 2>/dev/null || true
    { cat "$draft" >"$file"; } 2>/dev/null ||
        fail "$file cannot be written: give the container a tmpfs there (--tmpfs $to)," \
            "or name another folder in NGINX_ENVSUBST_OUTPUT_DIR that your nginx.conf includes"
    tell "$template is now $file"
done
