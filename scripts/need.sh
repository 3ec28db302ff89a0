#!/bin/sh
# Installs what is missing on Debian and says so.
#
#   scripts/need.sh build|dpdk|test|demo|bench|vm|cluster|deb|libfuzzer|pgo
#
# As root with apt-get, otherwise through sudo, otherwise it names the packages
# and fails; for the demo, which can do without, it goes on. Where a suitable
# program is there already, its package is not touched.
set -eu

say() { echo "need: $*" >&2; }

# The oldest Rust that builds this: as in Cargo.toml.
rust_version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# The first of two versions, if it is not older than the second.
not_older() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

has_rust() {
    command -v cargo >/dev/null 2>&1 && not_older "$(cargo --version 2>/dev/null | cut -d ' ' -f 2)" "$rust_version"
}

packages=""
add() { packages="$packages $1"; }

# A program, and the package that has it.
want() {
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1 || add "$2"
}

want_build() {
    want cc gcc
    want git git
    # cc alone cannot link without these.
    [ -e /usr/include/stdlib.h ] || add libc6-dev
    # What passwords are hashed with.
    [ -e /usr/include/crypt.h ] || add libcrypt-dev
    # Debian 12 keeps its current Rust in packages named after its browser's needs.
    has_rust || { add cargo-web; add rustc-web; add rustfmt-web; }
}

want_run() {
    want ip iproute2
    want curl curl
    want nginx nginx-light
    want wrk wrk
    want dpdk-testpmd dpdk-dev
    want taskset util-linux
}

# What the program is built with for --link dpdk:…
want_dpdk() {
    want pkg-config pkg-config
    pkg-config --exists libdpdk 2>/dev/null || add libdpdk-dev
    # Its drivers, and dpdk-devbind.py.
    want dpdk-testpmd dpdk-dev
}

want_test() {
    want_run
    want_dpdk
    want ethtool ethtool
    want gnutls-cli gnutls-bin
    want ab apache2-utils
    want ping iputils-ping
    want tshark tshark
    want python3 python3
    want valgrind valgrind
    # What requests are passed on to; its name has its version.
    ls /usr/sbin/php-fpm* >/dev/null 2>&1 || add php-fpm
    want uwsgi uwsgi-core
    [ -e /usr/lib/uwsgi/plugins/python3_plugin.so ] || add uwsgi-plugin-python3
    # The allocator experiment loads it into nginx.
    ls /usr/lib/*/libjemalloc.so.2 >/dev/null 2>&1 || add libjemalloc2
}

# What is measured beside ours, and what measures it.
want_bench() {
    want_build
    want_test
    want sar sysstat
    want strace strace
    want lighttpd lighttpd
    want h2o h2o
    want haproxy haproxy
}

# The kernel itself is fetched when the machine is made (testing/vm): it is
# unpacked, and not installed.
want_vm() {
    want qemu-system-x86_64 qemu-system-x86
    want busybox busybox-static
    want cpio cpio
    want xz xz-utils
    want strip binutils
    want ip iproute2
    want ethtool ethtool
    want unshare util-linux
    want strace strace
    want openssl openssl
    # Clocks of NICs that are set wrong.
    want phc_ctl linuxptp
    # What netdevsim is built with; it is left out where the compiler is missing.
    want make make
    want tar tar
    # What the scenario "noise" compares with.
    want rtla rtla
    want cyclictest rt-tests
}

# What scripts/kubernetes.sh makes a cluster of; Kubernetes itself it builds, with a Go that Debian 12 has not.
want_cluster() {
    want_build
    want etcd etcd-server
    want containerd containerd
    want runc runc
    [ -x /usr/lib/cni/bridge ] || add containernetworking-plugins
    want kubectl kubernetes-client
    want jq jq
    want curl curl
    want openssl openssl
    want python3 python3
    want ip iproute2
    want unshare util-linux
}

# clang, and libFuzzer, which Debian has in a package beside it. Any version
# does: what the compiler tells libFuzzer has been the same for years.
want_libfuzzer() {
    ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a >/dev/null 2>&1 || add libclang-rt-16-dev
    command -v clang >/dev/null 2>&1 || ls /usr/bin/clang-[0-9]* >/dev/null 2>&1 || add clang-16
    # libFuzzer is written in C++.
    ls /usr/lib/gcc/*/*/libstdc++.so >/dev/null 2>&1 || add libstdc++-12-dev
}

# What the run uses that shows what is often done.
want_pgo() {
    want_build
    want openssl openssl
    want ip iproute2
    want unshare util-linux
}

case "${1:-}" in
    build) want_build ;;
    dpdk) want_build; want_dpdk ;;
    demo) want_build; want_run ;;
    test) want_build; want_test ;;
    bench) want_bench ;;
    vm) want_build; want_vm ;;
    cluster) want_cluster ;;
    deb) want dpkg-deb dpkg; want readelf binutils; want logrotate logrotate; want lintian lintian ;;
    libfuzzer) want_build; want_libfuzzer ;;
    pgo) want_pgo ;;
    *) echo "usage: scripts/need.sh build|dpdk|test|demo|bench|vm|cluster|deb|libfuzzer|pgo" >&2; exit 2 ;;
esac

[ -n "$packages" ] || exit 0

without() {
    say "missing packages:$packages"
    say "$1"
    if [ "$2" = demo ] && has_rust && command -v cc >/dev/null 2>&1; then
        say "going on without: the demo leaves out what they are for"
        exit 0
    fi
    say "install them with: apt-get install$packages"
    exit 1
}

command -v apt-get >/dev/null 2>&1 || without "this is no Debian system" "$1"
as_root=""
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || without "installing them needs root, and there is no sudo" "$1"
    as_root=sudo
fi

say "installing:$packages"
# A package's service must not start on a machine that only measures with its
# program (nginx would take port 80).
policy=/usr/sbin/policy-rc.d
made_policy=no
if [ ! -e "$policy" ]; then
    made_policy=yes
    # shellcheck disable=SC2016
    $as_root sh -c 'printf "#!/bin/sh\nexit 101\n" > "$1" && chmod 755 "$1"' sh "$policy"
fi
# What apt-get says fills screens: it is shown where it failed.
said=$(mktemp)
apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@" >>"$said" 2>&1 </dev/null; }
installed=yes
apt update -q || installed=no
# shellcheck disable=SC2086
apt install -q -y --no-install-recommends $packages || installed=no
[ "$installed" = yes ] || cat "$said" >&2
rm -f "$said"
[ "$made_policy" = no ] || $as_root rm -f "$policy"
[ "$installed" = yes ] || without "apt-get could not install them" "$1"
if ! has_rust; then
    say "Rust $rust_version or later is needed, and this system's packages are older."
    say "Install it with rustup (https://rustup.rs), then try again."
    exit 1
fi
