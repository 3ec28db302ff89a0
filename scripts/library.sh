#!/bin/sh
# Checks what others have of the library: each set of its features compiles by
# itself, and it can be packed for a registry, with all crates that it needs.
#
#   scripts/library.sh
set -eu

cargo=${CARGO:-cargo}
for features in "" tls compress tls,compress bypass bypass,tls bypass,compress bypass,tls,compress; do
    echo "the library with the features: ${features:-none}"
    $cargo check --quiet --locked --package nearside --no-default-features --features "$features"
done

# Every package of that name; cargo knows in which order they stand on each other.
packages=$(git ls-files '*Cargo.toml' | xargs sed -n '/^\[package\]/,/^\[/s/^name = "\(nearside.*\)"/--package \1/p')
# shellcheck disable=SC2086
$cargo package --quiet --locked --no-verify --allow-dirty $packages
echo "packed: $(echo "$packages" | wc -l) crates"
