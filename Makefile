# Each target installs what it needs (scripts/need.sh) and says what it does.

CARGO ?= cargo
SEEDS ?= 10000
NEARSIDE := target/release/nearside
# Namespaces and huge pages need root. `make demo SUDO=` does without them.
SUDO ?= $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

.DEFAULT_GOAL := help
.PHONY: help build demo test bench soak lint tidy rfc man

help: ## say what there is
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 14

build: ## build the program: target/release/nearside
	@scripts/need.sh build
	@echo "== building $(NEARSIDE)"
	@$(CARGO) build --release --package nearside --locked

demo: ## show Nearside beside nginx, with a table and out/demo/report.html
	@scripts/need.sh demo
	@echo "== building $(NEARSIDE)"
	@$(CARGO) build --release --package nearside --locked
	@echo "== measuring: about five minutes; DEMO=--quick for a short look"
	@$(SUDO) $(NEARSIDE) demo $(DEMO)

test: ## run everything that must pass: format, lints, tidy, tests
	@scripts/need.sh test
	@$(MAKE) --no-print-directory lint tidy
	@echo "== tests"
	@$(CARGO) test --workspace --locked

bench: build ## measure instructions, connections, frames and goodput against their bounds, then the demo
	@scripts/need.sh bench
	@echo "== building the measurements"
	@$(CARGO) build --release --package bench --locked
	@missed=; for what in cost connections frames goodput; do \
		echo "== bench $$what"; \
		$(SUDO) target/release/bench $$what || missed="$$missed $$what"; \
	done; [ -z "$$missed" ] || { echo "bounds not kept, or not measured:$$missed"; exit 1; }
	@echo "== bench connections --idle 10M: what is reached; takes 6 GB of memory"
	-@$(SUDO) target/release/bench connections --idle 10M --rounds 1
	@echo "== instructions of the load generator's fast path"
	@$(CARGO) run --release --quiet --locked --package load --example cost
	@$(MAKE) --no-print-directory demo

soak: ## run the simulator over SEEDS seeds (10,000)
	@scripts/need.sh build
	@echo "== $(SEEDS) seeds of the simulator"
	@$(CARGO) run --release --quiet --locked --package sim -- --seeds $(SEEDS)

lint: ## check format and lints
	@echo "== format"
	@$(CARGO) fmt --all --check
	@echo "== lints"
	@if $(CARGO) clippy --version >/dev/null 2>&1; then \
		$(CARGO) clippy --workspace --all-targets --locked -- --deny warnings; \
	else \
		echo "clippy is not installed here (Debian 12 has no package of it): left out"; \
	fi

tidy: ## check what the compiler does not: names, lengths, links, layers
	@echo "== tidy"
	@$(CARGO) xtask tidy

rfc: ## list the sections of RFCs cited at code and at tests
	@$(CARGO) xtask rfc

man: build ## write manual pages into out/man
	@$(NEARSIDE) man out/man
