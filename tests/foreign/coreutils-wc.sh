#!/bin/sh
# Runs GNU coreutils' own tests of wc against `nearfirst wc`.
#
#   tests/foreign/coreutils-wc.sh [PROGRAM]      (by default $NEARFIRST, or target/debug/nearfirst)
#
# Their code stays out of this repository: the source comes from the system's package mirror. Nothing
# of it is built: the tests find a link to PROGRAM where they look for the built wc, and otherwise use
# the system's programs. The exit code is 0 if none fails, 77 if the source cannot be had.
set -eu
. "$(dirname "$0")/lib.sh"

tests='wc.pl wc-files0-from.pl wc-files0.sh wc-nbsp.sh wc-parallel.sh wc-proc.sh'

command -v perl >/dev/null || skip 'perl is not installed'
debian_source coreutils
cd "$work"/coreutils-*/
ln -s "$program" src/wc
PATH="$PWD/src:$PATH"
export PATH
case $(wc --version) in
*nearfirst*) ;;
*) echo "the tests would run another wc than $program" >&2; exit 2 ;;
esac

# They lie in tests/misc where they are older than 9.5, which made what is not printable part of words.
folder=tests/wc
if [ ! -d "$folder" ]; then
    folder=tests/misc
    sed -i "/'d1', *'-w'/s/OUT=>\"0/OUT=>\"1/" "$folder/wc.pl"
fi

# What counts as a space is tested in these locales, where they are installed; most machines lack them.
mkdir "$work/locales"
make_locale() {
    localedef -c -i "${1%%.*}" -f "$2" "$work/locales/$1" >/dev/null 2>&1 ||
        echo "no locale $1 can be made: what is tested in it is left out"
}
make_locale en_US.UTF-8 UTF-8
make_locale en_US.iso8859-1 ISO-8859-1
make_locale ru_RU.KOI8-R KOI8-R
[ -z "$(ls "$work/locales")" ] || export LOCPATH="$work/locales"

. tests/lang-default
export srcdir=. top_srcdir=. abs_srcdir="$PWD" abs_top_srcdir="$PWD" abs_top_builddir="$PWD" \
    built_programs='wc printf' CONFIG_HEADER=/dev/null VERSION=0 PACKAGE_VERSION=0 LOCALE_FR=none \
    LOCALE_FR_UTF8=none PERL=perl AWK=awk EGREP='grep -E' SHELL=/bin/sh EXEEXT= MAKE=make fail=0

passed=0 failed=0 skipped=0
for test in $tests; do
    file=$folder/$test
    case $test in
    *.pl) set -- perl -w -Itests -MCuSkip -MCoreutils "-MCuTmpdir qw($file)" "$file" ;;
    *) set -- sh "$file" ;;
    esac
    code=0
    CU_TEST_NAME=$test timeout 120 "$@" >"$work/out" 2>&1 9>&2 </dev/null || code=$?
    case $code in
    0) passed=$((passed + 1)); echo "PASS: $test" ;;
    77) skipped=$((skipped + 1)); echo "SKIP: $test"; tail -n 1 "$work/out" ;;
    *) failed=$((failed + 1)); echo "FAIL: $test (exit $code)"; cat "$work/out" ;;
    esac
done
echo "coreutils wc: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
