#!/bin/sh
# The published cases of HPACK (http2jp/hpack-test-case): blocks of other
# encoders, decoded by ours, and what they say encoded by us and decoded again.
#
#   HPACK_CASES=DIR scripts/hpack-cases.sh
#
# DIR is a checkout of that repository.
set -eu
lacks() { echo "hpack-cases: $*" >&2; exit 77; }
[ -n "${HPACK_CASES:-}" ] || lacks "HPACK_CASES is not set: a folder with hpack-test-case's files"
[ -e "$HPACK_CASES/raw-data/story_00.json" ] || lacks "$HPACK_CASES/raw-data/story_00.json is not there"
exec ${CARGO:-cargo} run -q --locked --release -p nearside-hpack --example cases -- "$HPACK_CASES"
