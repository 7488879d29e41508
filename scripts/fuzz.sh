#!/bin/bash
# Fuzzes every target of fuzz/ for FUZZ_SECONDS (60) each.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo 'fuzz: needs cargo-fuzz and a nightly compiler:' >&2
    echo '    cargo install cargo-fuzz && rustup toolchain install nightly' >&2
    echo 'The same targets run over their corpora and random bytes with the tests: cargo test -p nearfirst-fuzzed' >&2
    exit 1
fi
for target in $(cargo +nightly fuzz list); do
    echo "== $target"
    # What is found goes to the first.
    mkdir -p "fuzz/corpus/$target"
    cargo +nightly fuzz run "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10
done
