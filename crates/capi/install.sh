#!/bin/sh
# Installs the C library: sh install.sh BUILT
#
# BUILT is the folder that holds libnearfirst_c.so and libnearfirst_c.a, such
# as target/release. Environment: DESTDIR, PREFIX (/usr/local), LIBDIR
# (PREFIX/lib), INCLUDEDIR (PREFIX/include); NM, LD, OBJCOPY and AR for other
# tools than the binutils of these names. It needs the sources around it.
set -eu

built=${1:?usage: sh install.sh BUILT}
here=$(cd "$(dirname "$0")" && pwd)
action=install
. "$here/../../scripts/places.sh"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$here/../../Cargo.toml" | head -n 1)
: "${version:?no version in Cargo.toml}"

lib=${DESTDIR:-}$libdir
include=${DESTDIR:-}$includedir
# Folders that are there keep their modes, which `install -d` would change.
umask 022
mkdir -p "$lib/pkgconfig" "$include"
for header in nearfirst.h sets.h sleds.h; do
    install -m 644 "$here/include/$header" "$include/"
done
# One object in which nothing is to be seen but what the shared library shows: the SQLite, zstd and
# so on that are in it are not those that a program may have beside it.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
${NM:-nm} -D --defined-only --format=posix "$built/libnearfirst_c.so" | cut -d ' ' -f 1 > "$work/shown"
sed 's/^/--undefined=/' "$work/shown" > "$work/needed"
${LD:-ld} -r --gc-sections --force-group-allocation "@$work/needed" -o "$work/whole.o" \
    "$built/libnearfirst_c.a"
${OBJCOPY:-objcopy} --keep-global-symbols="$work/shown" --remove-section=.llvmbc --remove-section=.llvmcmd \
    "$work/whole.o" "$work/nearfirst.o"
rm -f "$lib/libnearfirst.a"
${AR:-ar} rcs "$lib/libnearfirst.a" "$work/nearfirst.o"
chmod 644 "$lib/libnearfirst.a"
# The soname (build.rs) is libnearfirst.so.0.
install -m 755 "$built/libnearfirst_c.so" "$lib/libnearfirst.so.$version"
ln -sf "libnearfirst.so.$version" "$lib/libnearfirst.so.0"
ln -sf libnearfirst.so.0 "$lib/libnearfirst.so"
sed -e "s|@prefix@|$prefix|" -e "s|@libdir@|$libdir|" -e "s|@includedir@|$includedir|" \
    -e "s|@version@|$version|" "$here/nearfirst.pc.in" > "$lib/pkgconfig/nearfirst.pc"
