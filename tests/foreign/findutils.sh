#!/bin/sh
# Runs GNU findutils' own tests of find against `nearfirst find`.
#
#   tests/foreign/findutils.sh [PROGRAM]      (by default $NEARFIRST, or target/debug/nearfirst)
#
# Their code stays out of this repository: the source comes from the system's
# package mirror into a temporary folder. Needs dejagnu.
# The exit code is 0 if none fails, 77 if they cannot be run.
set -eu
. "$(dirname "$0")/lib.sh"

command -v runtest >/dev/null || skip 'dejagnu is not installed'
debian_source findutils
cd "$work"/findutils-*/
ln -s "$program" find/find

echo "== DejaGnu tests (find.gnu, find.posix)"
mkdir run && cd run
runtest --tool find --srcdir ../find/testsuite FTSFIND="$PWD/../find/find" OPTIMISATION_LEVELS=0 \
    >runtest.out 2>&1 </dev/null || true
failed=0
! grep -E '^(FAIL|ERROR|UNRESOLVED)' runtest.out || failed=1
grep '^# of' runtest.out
grep -q '^# of expected passes' runtest.out || failed=1
cd ..

echo "== shell tests (tests/find)"
passed=0 skipped=0
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
echo "# of passes $passed, skipped $skipped"
[ "$failed" = 0 ]
