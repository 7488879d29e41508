#!/bin/sh
# Runs GNU findutils' own tests of find against `nearfirst find`.
#
#   tests/foreign/findutils.sh [PROGRAM]      (by default target/debug/nearfirst)
#
# Their code stays out of this repository: the source comes from the system's
# package mirror into a temporary folder. Needs apt-get, dejagnu and the network.
# The exit code is 0 if the tests could be run at all; read the counts.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
program=$(realpath "${1:-$root/target/debug/nearfirst}")
command -v runtest >/dev/null || { echo "dejagnu is not installed" >&2; exit 2; }

work=$(mktemp -d)
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT
cd "$work"

# Source packages may not be enabled on this machine: take its own mirrors, for source.
mkdir -p parts lists/partial
for list in /etc/apt/sources.list.d/*.sources; do
    [ -f "$list" ] && sed 's/^Types: .*/Types: deb-src/' "$list" >"parts/$(basename "$list")"
done
if [ -f /etc/apt/sources.list ]; then
    sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >parts/main.list
fi
apt() {
    apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/parts" \
        -o Dir::State::lists="$work/lists" "$@"
}
apt update 2>/dev/null
apt source --download-only findutils 2>/dev/null
tar -xf findutils_*.orig.tar.xz
cd findutils-*/
ln -s "$program" find/find

echo "== DejaGnu tests (find.gnu, find.posix)"
mkdir run && cd run
runtest --tool find --srcdir ../find/testsuite FTSFIND="$PWD/../find/find" OPTIMISATION_LEVELS=0 \
    >runtest.out 2>&1 </dev/null || true
grep '^FAIL' runtest.out || true
grep '^# of' runtest.out
cd ..

echo "== shell tests (tests/find)"
passed=0 failed=0 skipped=0
for test in tests/find/*.sh; do
    code=0
    env LC_ALL=C srcdir=. abs_srcdir="$PWD" abs_top_srcdir="$PWD" abs_top_builddir="$PWD" \
        built_programs=find PATH="$PWD/find:$PATH" PERL=perl AWK=awk EGREP='grep -E' SHELL=/bin/sh \
        sh "$test" >"$work/shell.out" 2>&1 9>&2 </dev/null || code=$?
    case $code in
        0) passed=$((passed + 1)) ;;
        77) skipped=$((skipped + 1)); echo "SKIP: $test" ;;
        *) failed=$((failed + 1)); echo "FAIL: $test"; tail -n 5 "$work/shell.out" ;;
    esac
done
echo "# of passes $passed, failures $failed, skipped $skipped"
