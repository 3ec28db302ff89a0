#!/bin/sh
# Links the fuzz targets with clang's libFuzzer, and runs one of them.
#
#   scripts/libfuzzer.sh HOST_TRIPLE TARGET|all SECONDS
#
# RUSTFLAGS and CARGO_TARGET_DIR are the caller's (make fuzz-libfuzzer). The
# programs lie in $CARGO_TARGET_DIR/fuzz-TARGET, and take libFuzzer's options.
set -eu
triple=$1
name=$2
seconds=$3
corpus=testing/fuzz/corpus

if [ "$name" != all ] && [ ! -d "$corpus/$name" ]; then
    echo "there is no target $name; there are: $(ls "$corpus" | tr '\n' ' ')" >&2
    exit 2
fi
clang=$(command -v clang || ls /usr/bin/clang-[0-9]* 2>/dev/null | sort -V | tail -n 1)
[ -n "$clang" ] || { echo "there is no clang: apt-get install clang" >&2; exit 1; }

# As a static library, so that clang links the program and adds its own main.
${CARGO:-cargo} rustc --quiet --release --locked --package fuzz --lib --crate-type staticlib --target "$triple"
program=$CARGO_TARGET_DIR/fuzz-any
"$clang" -fsanitize=fuzzer -o "$program" "$CARGO_TARGET_DIR/$triple/release/libfuzz.a" -lpthread -ldl -lm
for folder in "$corpus"/*; do
    ln -f "$program" "$CARGO_TARGET_DIR/fuzz-${folder##*/}"
done
echo "built $CARGO_TARGET_DIR/fuzz-TARGET for:" $(ls "$corpus")
[ "$name" != all ] || exit 0

# What it finds is kept apart from the committed inputs, which are read.
found=out/libfuzzer/$name
mkdir -p "$found"
exec "$CARGO_TARGET_DIR/fuzz-$name" -max_total_time="$seconds" -timeout=20 -print_final_stats=1 \
    -artifact_prefix=out/libfuzzer/ "$found" "$corpus/$name"
