#!/bin/bash
# Runs the lints, then the tests: those of other projects first, where their sources can be had, then
# our own, so that what is printed ends with the summary of `cargo test`. All run, whatever fails. What
# is missing here is listed before, and what was skipped for it is counted behind all tests but those
# of examples in the documentation.
set -euo pipefail
cd "$(dirname "$0")/.."

# What was begun in the background ignores interrupts, and so would all that tests begin.
if [ -z "${signals:-}" ] && env --default-signal=INT true 2>/dev/null; then
    signals=default exec env --default-signal=INT scripts/test.sh
fi

# Many tests want what they wrote out of memory. Not below this folder: it may be closed to the other
# users that some tests run as.
lies_in_memory() { [ "$(stat -f -c %T "$1")" = tmpfs ]; }
if [ -z "${TMPDIR:-}" ] && lies_in_memory /tmp && [ -w /var/tmp ] && ! lies_in_memory /var/tmp; then
    export TMPDIR=/var/tmp
fi

# The servers of the tests are here, asked with the tests' own keys, and what programs say is compared.
export no_proxy="127.0.0.1,localhost,${no_proxy:-${NO_PROXY:-}}" LC_ALL=C.UTF-8
export NO_PROXY=$no_proxy
unset LANGUAGE NEARFIRST_STATE "${!XDG_@}" "${!AWS_@}" "${!AZURE_@}" "${!GOOGLE_@}"

# A clean clone gains nothing by it, and it fills the disk.
export CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0}
# What fails is to be of the change that is tested: `make soak` draws other inputs each time.
export PROPTEST_RNG_SEED=${PROPTEST_RNG_SEED:-1} NEARFIRST_LIVES=${NEARFIRST_LIVES:-0}

failed=()
# Tests of all languages add to it what they skip, and why.
export NEARFIRST_SKIPPED=$PWD/target/skipped
mkdir -p target
: >"$NEARFIRST_SKIPPED"

# skipped STEP REASON: does not fail, unless nothing may be skipped.
skipped() {
    echo "skipped: $1: $2"
    printf '%s\t%s\n' "$1" "$2" >>"$NEARFIRST_SKIPPED"
    [ "${NEARFIRST_REQUIRE_ALL:-}" != 1 ] || failed+=("$1")
}

# limited SECONDS COMMAND...: ends with 124 or 137 if it had to be ended. `timeout` puts it into a process
# group of its own, which no terminal's interrupt would reach; and background work would ignore it.
limited() {
    local code=0
    (trap - INT QUIT TERM && exec timeout -k 10 "$@" </dev/null) &
    running=$!
    wait "$running" || code=$?
    running=
    case $code in 124 | 137) echo "ended after $1 seconds: ${*:2}" ;; esac
    return "$code"
}
running=
trap '[ -z "$running" ] || kill "$running"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

missing=$(scripts/setup.sh --missing)
[ -z "$missing" ] || printf 'This machine lacks, and tests skip what needs it:\n%s\n\n' "$(sed 's/^/    /' <<<"$missing")"

make lint || failed+=('make lint')

cargo build --workspace --bins --lib

# A runner ends with 77 if it cannot get its sources or tools.
for suite in tests/foreign/*.sh; do
    [ -x "$suite" ] || continue
    printf '\n%s\n' "$suite"
    code=0
    limited 600 "$suite" || code=$?
    case $code in
    0) ;;
    77) skipped "$suite" 'it could not get its sources or tools' ;;
    *) failed+=("$suite") ;;
    esac
done

printf '\nscripts/python.sh\n'
code=0
scripts/python.sh </dev/null || code=$?
case $code in
0) ;;
2) skipped scripts/python.sh 'there is no Python, or no PyPI' ;;
*) failed+=(scripts/python.sh) ;;
esac

echo
{ cargo test --workspace --tests --no-run </dev/null &&
    limited 1500 cargo test --workspace --tests --no-fail-fast; } || failed+=('cargo test')

echo
if [ -s "$NEARFIRST_SKIPPED" ]; then
    echo "Skipped in whole or in part: $(sort -u "$NEARFIRST_SKIPPED" | wc -l) tests, for these reasons:"
    sort -u "$NEARFIRST_SKIPPED" | cut -f 2 | sort | uniq -c | sort -rn
else
    echo 'No test was skipped.'
fi

echo
code=0
cargo test --workspace --doc --no-fail-fast </dev/null || code=$?
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}"
    exit 1
fi
exit "$code"
