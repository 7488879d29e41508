# nearfirst: what can be made. `make` alone lists it.

PREFIX  ?= /usr/local
DESTDIR ?=
export CARGO ?= cargo

# rustup puts cargo here, which a shell that began before does not know.
export PATH := $(PATH):$(HOME)/.cargo/bin
# Scripts look for what is built in this place, wherever the user has cargo put it otherwise.
export CARGO_TARGET_DIR := $(CURDIR)/target
# What only tests need; several clones can share one.
export NEARFIRST_PEERS ?= $(CURDIR)/target/peers
export NEARFIRST_RG ?= $(NEARFIRST_PEERS)/bin/rg

.DEFAULT_GOAL := help
.PHONY: help setup build test lint demo bench install uninstall fuzz soak clean

help: ## list the targets
	@echo 'nearfirst reads what is near first, while it fetches the rest.'
	@echo
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: ## install what building and testing need and this machine lacks
	@scripts/setup.sh

build: ## build the command and the libraries, optimised
	@scripts/setup.sh --build
	$(CARGO) build --release --workspace
	@rm -f target/release/THIRD-PARTY.txt
	-scripts/licences.py target/release/THIRD-PARTY.txt

lint: ## formatting, lints and documentation, warnings being errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy --package nearfirst-store --no-default-features -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps

test: setup ## everything that must pass; ends with the summary of `cargo test`
	@scripts/test.sh

demo: ## show the main job on a large text of this machine, in a minute
	@demo/demo.sh

bench: setup build ## race the peers and write bench/README.md
	$(CARGO) build --release --workspace --examples
	bench/peers
	bench/run

install: ## install under PREFIX (/usr/local), staged under DESTDIR if given
	@scripts/install.sh install '$(DESTDIR)' '$(PREFIX)'

uninstall: ## remove what `make install` with the same PREFIX and DESTDIR installs
	@scripts/install.sh uninstall '$(DESTDIR)' '$(PREFIX)'

fuzz: ## fuzz every target for a minute each (FUZZ_SECONDS); needs cargo-fuzz and a nightly compiler
	@scripts/fuzz.sh

soak: ## live simulated lives of sets for hours (NEARFIRST_LIVES), others each time, the scheduler optimised, after storms of programs and tests of drawn inputs
	$(CARGO) test -p nearfirst-cli --test run_storms -- --ignored
	$(CARGO) test -p nearfirst-fuzzed -p nearfirst-sled -p nearfirst-tree
	$(CARGO) test -p nearfirst-cli --test find --test grep --test wc
	NEARFIRST_LIVES=$${NEARFIRST_LIVES:-20000000} $(CARGO) --config 'profile.dev.package.nearfirst-fetch.opt-level=3' \
		test -p nearfirst-fetch --test simulation -- --nocapture

clean: ## remove what was built
	$(CARGO) clean
