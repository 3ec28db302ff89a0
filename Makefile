# Each target installs what it needs (scripts/need.sh) and says what it does.

CARGO ?= cargo
SEEDS ?= 10000
RESTARTS ?= 1000
RELOADS ?= 1000
FUZZ_SECONDS ?= 60
NOISE_SECONDS ?= 60
# How often the soak runs all tests.
ROUNDS ?= 10
# Where the advisories of RustSec are fetched from.
ADVISORIES ?= https://github.com/rustsec/advisory-db
TARGET := $(or $(CARGO_TARGET_DIR),target)
NEARSIDE := $(TARGET)/release/nearside
# Where BoringSSL's sources are, tlsfuzzer's, and those of nginx's test suite: what the soak runs.
BOGO ?=
HPACK_CASES ?=
TLSFUZZER ?=
NGINX_TESTS ?=
# Where make install puts things; DESTDIR is for who makes packages.
PREFIX ?= /usr/local
DESTDIR ?=
# What nearside run preloads, where the programs are built to be installed. Beside an rlib it is not optimized
# whole, as it would be by a build of its own, which takes minutes and saves 1 % of its instructions.
LIBRARY := --package nearside-preload
# DPDK=1 builds with the distribution's DPDK.
DPDK ?=
WITH_DPDK := $(if $(DPDK),--features cli/dpdk)
# All three programs: nearside, nearside-tools and nearside-cluster.
PROGRAMS := --package cli --package command
# Tests and lints are with DPDK wherever there is one, in one build of the
# workspace: testing/interop asks in the same way. The shell asks, at each
# command: make would ask before the first, which may install it.
TESTED_DPDK = $$(pkg-config --exists libdpdk 2>/dev/null && echo --features cli/dpdk)
# The house's checks, built as part of the workspace: `cargo xtask` alone compiles what they need with
# fewer features, and the tests would compile it again.
XTASK = env CARGO='$(CARGO)' $(TARGET)/debug/xtask
# All tests to their end, and what of them failed.
SUITE = $(XTASK) suite
TESTS = -- --workspace --locked $(TESTED_DPDK)
# With lines, which profiles need.
BENCH := $(TARGET)/lines/bench
RUN := $(CARGO) run --release --quiet --locked
CONNECTIONS = $(SUDO) $(BENCH) connections --nearside $(NEARSIDE)
SLOW = $(SUDO) $(RUN) --package bench -- slow --nearside $(NEARSIDE)
# What builds the container image.
ENGINE ?= $(shell command -v docker || command -v podman || echo docker)
# Namespaces and huge pages need root. `make demo SUDO=` does without them.
SUDO ?= $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

.DEFAULT_GOAL := help
.PHONY: help build try pgo install uninstall deb image test-deb test-image test-cluster demo test test-vm bench soak
.PHONY: fuzz-libfuzzer format lint xtask without-dpdk tidy deny audit rfc man docs

help: ## say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 22

build: ## build target/release/nearside, nearside-tools, -cluster and what they need; with DPDK=1 for --link dpdk:…
	@scripts/need.sh $(if $(DPDK),dpdk,build)
	@echo "== building $(NEARSIDE)"
	@scripts/build.sh $(PROGRAMS) $(LIBRARY) --locked $(WITH_DPDK)

# Without optimization of the whole program: not what is measured or installed.
try: ## build the programs soon, to try them or to work on them: target/try/nearside, nearside-tools and -cluster
	@scripts/need.sh $(if $(DPDK),dpdk,build)
	@echo "== building $(TARGET)/try/nearside"
	@PROFILE=try scripts/build.sh $(PROGRAMS) --locked $(WITH_DPDK)
	@echo "$(TARGET)/try/nearside, nearside-tools and nearside-cluster lie side by side;" \
		"make build makes those that are measured"

# Installed and packed as it is, by NEARSIDE=target/pgo/HOST/release/nearside. No test needs it.
pgo: ## build the programs by what a run of them shows: fewer instructions a request; takes three builds' time
	@scripts/need.sh pgo
	@CARGO='$(CARGO)' PACKAGES='$(PROGRAMS)' scripts/pgo.sh --locked $(WITH_DPDK)

# What is there is installed as it is: sudo need not build.
install: ## install the programs, manual, documents, completions and units below PREFIX (/usr/local), in DESTDIR if set
	@[ -x $(NEARSIDE) ] || $(MAKE) --no-print-directory build
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' scripts/install.sh $(NEARSIDE)

uninstall: ## remove what make install put there
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' scripts/install.sh --remove

deb: ## make a package for Debian: out/nearside_VERSION_ARCH.deb
	@[ -x $(NEARSIDE) ] || $(MAKE) --no-print-directory build
	@scripts/deb.sh $(NEARSIDE) out

image: ## build the container images nearside and nearside:nginx, with docker or podman (ENGINE)
	@$(ENGINE) build -t nearside -f packaging/container/Dockerfile .
	@$(ENGINE) build -t nearside:nginx --target nginx -f packaging/container/Dockerfile .

# What a machine lacks for them is named, and is no failure.
test-deb: deb ## install the package in a copy of this machine: serve, rotate logs, remove, purge
	@scripts/need.sh deb
	@$(SUDO) scripts/test-deb.sh $$(ls -t out/nearside_*.deb | head -n 1) || [ $$? = 77 ]

test-image: ## build both images with the program that is built, run them, reload, stop
	@[ -x $(NEARSIDE) ] || $(MAKE) --no-print-directory build
	@$(SUDO) scripts/test-image.sh $(NEARSIDE) || [ $$? = 77 ]

# Its first run builds Kubernetes, which takes 16 processor minutes and a module proxy, and is kept.
test-cluster: ## run loads and audits by pods of a Kubernetes of two nodes here; kill workers, a node, controllers
	@scripts/need.sh cluster
	@[ -x $(NEARSIDE) ] || $(MAKE) --no-print-directory build
	@$(SUDO) scripts/test-cluster.sh $(NEARSIDE) || [ $$? = 77 ]

demo: ## measure Nearside versus nginx: two tables, and out/demo/report.html
	@scripts/need.sh demo
	@echo "== building $(NEARSIDE)"
	@scripts/build.sh --package cli --locked
	@echo "== measuring: a first look within a minute, all of it in about five; DEMO=--quick for a short one"
	@$(SUDO) $(NEARSIDE) demo $(DEMO)

# Lints are found while the tests are compiled: cargo clippy alone would read all
# dependencies a second time. It is this that cargo clippy gives the compiler, too.
LINTED = $$($(CARGO) clippy --version >/dev/null 2>&1 && \
	echo env RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=--deny=warnings__CLIPPY_HACKERY__)

test: ## run everything that must pass: format, tidy, dependencies, tests and their lints
	@scripts/need.sh test
	@$(LINTED) $(MAKE) --no-print-directory format tidy deny without-dpdk
	@echo "== tests, and lints as they are compiled"
	@$(LINTED) $(SUITE) --again 2 $(TESTS)
	@[ -n "$(TESTED_DPDK)" ] || \
		echo "libdpdk is not installed here (apt-get install libdpdk-dev): its tests are left out"

test-vm: build ## boot machines with NUMA domains, lossy links, several queues; VM=NAME for one scenario
	@scripts/need.sh vm
	@$(RUN) --package vm -- --nearside $(NEARSIDE) $(VM)

bench: build ## measure instructions, connections, frames, goodput and the demo against their bounds
	@scripts/need.sh bench
	@echo "== building the measurements"
	@$(CARGO) build --profile lines --package bench --locked
	@# Of one kind alone: only such a library is optimized whole, and it is half as long.
	@$(CARGO) rustc --lib --profile lines --package nearside-preload --crate-type cdylib --locked
	@$(CARGO) build --release --package cli --features dpdk --locked --target-dir $(TARGET)/dpdk
	@scripts/each.sh \
		"instructions of the server for a request|$(SUDO) $(BENCH) cost" \
		"instructions of a request as silos grow in number|$(SUDO) $(BENCH) cost --silos 1,4,16" \
		"instructions of the generator for a request|$(SUDO) $(BENCH) cost --side generator" \
		"goal: socket calls of a program on our stack|$(SUDO) $(BENCH) posix --nearside $(NEARSIDE)" \
		"instructions of a paced segment as flows grow in number|$(SUDO) $(BENCH) pace" \
		"a million connections|$(CONNECTIONS)" \
		"goal: ten million connections, in 6 GB of memory|$(CONNECTIONS) --idle 10M --rounds 1" \
		"requests beside frames|$(SUDO) $(BENCH) frames --nearside $(NEARSIDE)" \
		"a packet storm on one silo|$(SUDO) $(BENCH) storm --nearside $(NEARSIDE)" \
		"two silos beside one|$(SUDO) $(BENCH) silos --nearside $(NEARSIDE)" \
		"the forwarder beside testpmd|$(SUDO) $(BENCH) packet --nearside $(NEARSIDE)" \
		"memif of DPDK beside our own|$(SUDO) $(BENCH) dpdk --nearside $(TARGET)/dpdk/release/nearside" \
		"disturbances of a core, by name|$(SUDO) $(BENCH) noise --rounds 2" \
		"watch beside sysstat|$(SUDO) $(BENCH) watch" \
		"an ordinary site by its nginx.conf|$(SUDO) $(BENCH) site --nearside $(NEARSIDE)" \
		"texts compressed for each request|$(SUDO) $(BENCH) squeezed --nearside $(NEARSIDE)" \
		"goal: requests passed on to an upstream|$(SUDO) $(BENCH) proxy --nearside $(NEARSIDE)" \
		"goal: long answers passed on|$(SUDO) $(BENCH) proxy --body 1M --nearside $(NEARSIDE)" \
		"long bodies passed on|$(SUDO) $(BENCH) bodies --nearside $(NEARSIDE)" \
		"goal: TLS beside nginx|$(SUDO) $(BENCH) tls --nearside $(NEARSIDE)" \
		"10,000 hosts beside one|$(SUDO) $(BENCH) hosts --nearside $(NEARSIDE)" \
		"goodput over a lossy link|$(SUDO) $(BENCH) goodput" \
		"kernel sockets versus nginx|$(SUDO) $(BENCH) kernel --nearside $(NEARSIDE)" \
		"the generator beside wrk|$(SUDO) $(BENCH) generator --nearside $(NEARSIDE)" \
		"Nearside versus nginx|$(SUDO) $(BENCH) demo --nearside $(NEARSIDE)" \
		"which worker takes a connection|$(SUDO) $(NEARSIDE) lab run accept-order" \
		"queues of accept models|$(SUDO) $(NEARSIDE) lab run accept-queue --set accept-queue.requests=30000" \
		"the same, connections kept|$(SUDO) $(NEARSIDE) lab run accept-queue-keep-alive --set accept-queue.requests=30000" \
		"nginx with another malloc|$(SUDO) $(NEARSIDE) lab run allocator" \
		"idle policies|$(SUDO) $(NEARSIDE) lab run idle" \
		"frames held back|$(SUDO) $(NEARSIDE) lab run tx-delay" \
		"segmentation offload|$(SUDO) $(NEARSIDE) lab run offload" \
		"queues of silos|$(SUDO) $(NEARSIDE) lab run steer-queue" \
		"the same, connections kept|$(SUDO) $(NEARSIDE) lab run steer-queue-keep-alive" \
		"nginx beside both data paths|$(SUDO) $(NEARSIDE) lab run kernel-vs-bypass" \
		"silos and connections over every link|$(SUDO) $(NEARSIDE) lab run scaling"

# The compiler counts which code an input reaches (testing/fuzz/src/coverage.rs),
# and checks what it leaves out of release builds. In a folder of its own, and for
# a named target, so that neither other builds nor build scripts are affected.
FUZZ_FLAGS := -Cpasses=sancov-module -Ccodegen-units=1 \
	-Cllvm-args=-sanitizer-coverage-level=3 \
	-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
	-Cdebug-assertions -Coverflow-checks
FUZZ := RUSTFLAGS='$(FUZZ_FLAGS)' CARGO_TARGET_DIR=$(TARGET)/fuzz $(RUN) \
	--target $$(rustc -vV | sed -n 's/^host: //p') --package fuzz --

# Beside half of each core, in bursts: what others on a machine take.
soak: build xtask ## all tests on a busy machine (ROUNDS) and on one core, restarts, bad input, fuzzing, seeds
	@scripts/need.sh test
	@scripts/each.sh \
		"all tests $(ROUNDS) times beside half of each core|$(SUITE) --rounds $(ROUNDS) --busy --again 2 $(TESTS)" \
		"meanwhile: each fuzz target for $(FUZZ_SECONDS) s|$(FUZZ) all --seconds $(FUZZ_SECONDS) --artifacts out/fuzz" \
		"meanwhile: $(SEEDS) seeds of the simulator|$(RUN) --package sim -- --seeds $(SEEDS)" \
		"meanwhile: those of tests in a cluster|NEARSIDE_SEEDS=$(SEEDS) $(CARGO) test -q --locked -p control -p reconcile" \
		"meanwhile: those of their operator|NEARSIDE_SEEDS=$(SEEDS) $(CARGO) test -q --locked -p operator" \
		"meanwhile: worth of intervals|NEARSIDE_EXPERIMENTS=2000 $(CARGO) test -q --locked -p stats --test simulations" \
		"meanwhile: 10,000 faults of upstreams|$(RUN) --package sim -- --upstream-faults 10000" \
		"meanwhile: where they speak HTTP/2|$(RUN) --package sim -- --upstream-faults 10000 --http2" \
		"meanwhile: where clients do|$(RUN) --package sim -- --upstream-faults 10000 --http2-clients" \
		"meanwhile: where both do|$(RUN) --package sim -- --upstream-faults 10000 --http2 --http2-clients" \
		"meanwhile: HPACK's cases (HPACK_CASES)|CARGO='$(CARGO)' HPACK_CASES='$(HPACK_CASES)' scripts/hpack-cases.sh" \
		"all tests on one core|$(SUITE) --one-core --again 2 $(TESTS)" \
		"beside: 1 GB passed on to a client that takes 10 Mbit/s|$(SLOW) --paths kernel" \
		"beside: the same over AF_XDP|$(SLOW) --paths af-xdp" \
		"beside: a packet tester killed for 10 minutes|NEARSIDE_PACKET_SOAK=600 $(CARGO) test -q --locked -p interop killed" \
		"$(RESTARTS) restarts under load|$(RUN) --package service -- --restarts $(RESTARTS) --nearside $(NEARSIDE)" \
		"40 sites of nested places beside nginx|NEARSIDE_NESTING=40 $(CARGO) test -q --locked -p interop nesting" \
		"a quiet server, all of it|NEARSIDE_QUIET_WHOLE=1 $(CARGO) test -q --locked -p sim --test web quiet" \
		"nginx, ours, nginx within 0.5 s each|NEARSIDE_GAP_MS=500 $(CARGO) test -q --locked -p interop moving" \
		"$(RELOADS) reloads of an nginx.conf|NEARSIDE_RELOADS=$(RELOADS) $(CARGO) test -q --locked -p interop reloads" \
		"noise at line rate for $(NOISE_SECONDS) s|$(RUN) --package hostile -- --seconds $(NOISE_SECONDS)" \
		"the library, feature by feature, and packed for a registry|CARGO='$(CARGO)' scripts/library.sh" \
		"10,000 forks of a worker on our stack|NEARSIDE_FORKS=10000 $(CARGO) test -q --locked -p nearside-preload forks" \
		"2 x 500 lying memif peers|NEARSIDE_MEMIF_SEEDS=500 $(CARGO) test -q --locked -p nearside-memif --lib hostile" \
		"BoringSSL's test runner against our TLS (BOGO=its sources)|CARGO='$(CARGO)' BOGO='$(BOGO)' scripts/bogo.sh" \
		"tlsfuzzer's scripts (TLSFUZZER=its sources)|TLSFUZZER='$(TLSFUZZER)' $(SUDO) scripts/tlsfuzzer.sh $(NEARSIDE)" \
		"nginx's suite (NGINX_TESTS=its sources)|NGINX_TESTS='$(NGINX_TESTS)' $(SUDO) scripts/nginx-tests.sh $(NEARSIDE)" \
		"Debian's nginx-light, -full and -extras, from their packages|CARGO='$(CARGO)' scripts/debian-nginx.sh" \
		"testssl.sh finds nothing above LOW that is not listed|scripts/testssl.sh $(NEARSIDE)" \
		"every page in Chromium, at three widths|$(CARGO) test -q --locked -p cli --test pages -- --ignored" \
		"Chromium over TLS and our own stack, by TAP and AF_XDP|$(SUDO) scripts/chromium.sh $(NEARSIDE)" \
		"a router takes routing updates (bird2)|$(CARGO) test -q --locked -p interop a_router_takes -- --ignored"

# The same targets for libFuzzer, which also wants to know where edges are and
# what is compared. clang brings its runtime, and links it to the library.
LIBFUZZER_FLAGS := $(FUZZ_FLAGS) --cfg fuzzing \
	-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares
HOST_TRIPLE = $(shell rustc -vV | sed -n 's/^host: //p')
NAME ?= stack

# NAME=all builds them all, and runs none.
fuzz-libfuzzer: ## run the fuzz target NAME (stack) under libFuzzer for FUZZ_SECONDS (60)
	@scripts/need.sh libfuzzer
	@RUSTFLAGS='$(LIBFUZZER_FLAGS)' CARGO_TARGET_DIR=$(TARGET)/libfuzzer CARGO="$(CARGO)" \
		scripts/libfuzzer.sh $(HOST_TRIPLE) $(NAME) $(FUZZ_SECONDS)

format: ## check the format
	@echo "== format"
	@$(CARGO) fmt --all --check

lint: format ## check format and lints, without any test
	@echo "== lints"
	@if $(CARGO) clippy --version >/dev/null 2>&1; then \
		$(CARGO) clippy --workspace --all-targets --locked $(TESTED_DPDK) -- --deny warnings; \
	else \
		echo "clippy is not installed here (Debian 12 has no package of it): left out"; \
	fi
	@if $(CARGO) clippy --version >/dev/null 2>&1 && [ -n "$(TESTED_DPDK)" ]; then \
		$(CARGO) clippy --package nearside-dpdk --all-targets --locked -- --deny warnings; \
	fi

xtask:
	@$(CARGO) build --quiet --workspace --locked $(TESTED_DPDK) --bin xtask

tidy: xtask ## check what the compiler does not: names, lengths, links, layers
	@echo "== tidy"
	@$(XTASK) tidy

deny: xtask ## check what comes in with dependencies: licences, sources, bans, second versions
	@echo "== deny"
	@$(XTASK) deny

# Where the tests are with DPDK, that the workspace is one without it, too.
without-dpdk:
	@[ -z "$(TESTED_DPDK)" ] || $(CARGO) check --quiet --package nearside-dpdk --lib --locked

audit: ## compare dependencies with the advisories of RustSec; needs a network
	@$(CARGO) xtask audit $(ADVISORIES)

rfc: ## list the sections of RFCs cited at code and at tests
	@$(CARGO) xtask rfc

docs: try ## make a site of the documents in out/docs, with a gallery of pages that are measured here
	@$(CARGO) xtask docs
	@$(SUDO) scripts/gallery.sh $(TARGET)/try/nearside out/docs/gallery

man: build ## write manual pages into out/man
	@$(NEARSIDE) man out/man
