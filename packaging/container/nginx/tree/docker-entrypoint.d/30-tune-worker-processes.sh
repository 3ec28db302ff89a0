#!/bin/sh
# With NGINX_ENTRYPOINT_WORKER_PROCESSES_AUTOTUNE set, the number of workers is `auto`:
# one for each core that the container may use, by its cpuset and its quota.
set -eu

file=/etc/nginx/nginx.conf
[ "${NGINX_ENTRYPOINT_WORKER_PROCESSES_AUTOTUNE:-}" ] || exit 0
grep -q '^worker_processes' "$file" || exit 0
! grep -q '^worker_processes  *auto;' "$file" || exit 0
[ -w "$file" ] || { echo "$0: $file cannot be written to: its worker_processes stays" >&2; exit 0; }
tuned=$(sed 's/^worker_processes.*/worker_processes auto;/' "$file")
printf '%s\n' "$tuned" >"$file"
