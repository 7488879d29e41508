#!/bin/sh
# Runs ripgrep's own integration tests against `nearfirst grep` and reports how many pass.
#
#   tests/foreign/ripgrep.sh [FOLDER]
#
# Cargo fetches the published ripgrep crate; its tests are built in FOLDER (default: target/foreign/
# ripgrep) and stay out of this repository. They run the program `rg` beside them: here a wrapper.
# FOLDER/failed names the tests that failed; those in ripgrep-expected.txt, each with its reason, do
# not make this script fail.
set -eu

version=15.2.0
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
folder=${1:-"$root/target/foreign/ripgrep"}
program=${NEARFIRST:-"$root/target/debug/nearfirst"}

if [ ! -x "$program" ]; then
    (cd "$root" && cargo build -q -p nearfirst-cli)
fi

mkdir -p "$folder/src"
cat >"$folder/Cargo.toml" <<TOML
[package]
name = "integration"
edition = "2024"

[workspace]

[features]
pcre2 = []

[dependencies]
ripgrep = "=$version"
bstr = "1"
serde = "1"
serde_derive = "1"
serde_json = "1"
walkdir = "2"

[[test]]
name = "integration"
path = "tests/tests.rs"
TOML
: >"$folder/src/lib.rs"

# ripgrep has no library, so cargo warns that it is useless as a dependency; it is here to be fetched.
cargo fetch -q --manifest-path "$folder/Cargo.toml" 2>/dev/null || true
source=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -maxdepth 2 -name "ripgrep-$version" | head -n 1)
[ -n "$source" ] || { echo "ripgrep.sh: cargo did not fetch ripgrep $version" >&2; exit 77; }
rm -rf "$folder/tests"
cp -R "$source/tests" "$folder/tests"

mkdir -p "$folder/target/debug"
cat >"$folder/target/debug/rg" <<WRAPPER
#!/bin/sh
exec "$program" grep "\$@"
WRAPPER
chmod +x "$folder/target/debug/rg"

CARGO_TARGET_DIR="$folder/target" cargo test -q --manifest-path "$folder/Cargo.toml" \
    --features pcre2 --test integration --no-fail-fast >"$folder/log" 2>&1 || true

if ! grep -q '^test result' "$folder/log"; then
    tail -n 20 "$folder/log" >&2
    echo "ripgrep.sh: the tests did not run; see $folder/log" >&2
    exit 2
fi
sed -n '/^failures:$/,$p' "$folder/log" | sed -n 's/^    \([a-z0-9_:]*\)$/\1/p' | sort -u >"$folder/failed"
grep '^test result' "$folder/log"
if ! grep -q '^test result:.* [1-9][0-9]* passed;' "$folder/log"; then
    echo "ripgrep.sh: no test passed, so none may have run; see $folder/log" >&2
    exit 2
fi
sed 's/[[:space:]].*//; /^#/d; /^$/d' "$here/ripgrep-expected.txt" | sort -u >"$folder/expected"
unexpected=$(comm -23 "$folder/failed" "$folder/expected")
if [ -n "$unexpected" ]; then
    echo "failed, and not expected to:"
    echo "$unexpected"
    exit 1
fi
unmet=$(comm -13 "$folder/failed" "$folder/expected")
if [ -n "$unmet" ]; then
    echo "expected to fail, and did not:"
    echo "$unmet"
fi
echo "every failure is expected (ripgrep-expected.txt says why)"
