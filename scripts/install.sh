#!/bin/bash
# install.sh install|uninstall DESTDIR PREFIX [BUILT]: the command, its man pages and completions,
# the C library, and the systemd units that calibrate at boot. What was built lies in BUILT; without it,
# in target/release, and is built if need be. Of the environment: the folders of places.sh, and
# STRIP (`:` for none), OBJCOPY, NM, LD and AR.
set -euo pipefail
if [ $# -lt 3 ]; then
    echo 'usage: install.sh install|uninstall DESTDIR PREFIX [BUILT]' >&2
    exit 2
fi
action=$1 destdir=${2:+$(realpath -ms "$2")} PREFIX=$3 built=${4:+$(realpath -m "$4")}
destdir=${destdir%/}
cd "$(dirname "$0")/.."
. scripts/places.sh

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
umask 022
# What an installation put there, by which it is removed.
list=$prefix/share/nearfirst/installed
# Where root's commands and the services keep what they measured and learned.
state=/var/lib/nearfirst

# What debuggers want stays where it was built; it is many times as large. A tool may be told with options.
strip_all() {
    ${STRIP:-strip} --strip-debug "$stage$bindir/nearfirst" "$stage$libdir"/libnearfirst.so.*.*
    ${STRIP:-strip} --strip-unneeded "$stage$libdir/libnearfirst.a"
}

stage_all() {
    local share=$stage$prefix/share texts=$stage$docdir units=$stage$unitdir generated=$stage/generated file
    if [ -z "$built" ]; then
        built=target/release
        if [ ! -x "$built/nearfirst" ] || [ ! -e "$built/libnearfirst_c.so" ]; then
            cargo build --release --workspace
        fi
        [ -e "$built/THIRD-PARTY.txt" ] || scripts/licences.py "$built/THIRD-PARTY.txt" || true
    fi
    for file in nearfirst libnearfirst_c.so libnearfirst_c.a; do
        if [ ! -e "$built/$file" ]; then
            echo "install: there is no $built/$file" >&2
            exit 2
        fi
    done
    mkdir "$generated"
    "$built/nearfirst" generate "$generated"
    install -Dm755 "$built/nearfirst" "$stage$bindir/nearfirst"
    for page in "$generated"/*.1; do
        install -Dm644 "$page" "$stage$mandir/man1/${page##*/}"
    done
    install -Dm644 "$generated/nearfirst.bash" "$share/bash-completion/completions/nearfirst"
    install -Dm644 "$generated/_nearfirst" "$stage$zshdir/_nearfirst"
    install -Dm644 "$generated/nearfirst.fish" "$share/fish/vendor_completions.d/nearfirst.fish"
    rm -r "$generated"
    for unit in dist/*.service dist/*.timer; do
        install -d "$units"
        sed "s|@bindir@|$bindir|g" "$unit" >"$units/${unit##*/}"
        chmod 644 "$units/${unit##*/}"
    done
    for text in LICENSE-MIT LICENSE-APACHE README.md docs/*.md; do
        install -Dm644 "$text" "$texts/$text"
    done
    if [ -e "$built/THIRD-PARTY.txt" ]; then
        install -Dm644 "$built/THIRD-PARTY.txt" "$texts/THIRD-PARTY.txt"
    else
        echo "install: the licences of others are left out: there is no $built/THIRD-PARTY.txt" >&2
    fi
    file=crates/capi/examples/near_first.c
    install -Dm644 "$file" "$texts/examples/${file##*/}"
    # Links lead to what lies here; what was measured stays with the sources.
    sed -i "s|\(\.\./\)\?${file%/*}/|../examples/|g" "$texts/docs/c.md"
    sed -i 's|\[bench/README.md\](bench/README.md)|bench/README.md of the sources|' \
        "$texts/README.md"
    DESTDIR=$stage PREFIX=${prefix:-/} sh crates/capi/install.sh "$built"
    # Plugins of other compilers say there that they cannot read what is not theirs.
    strip_all >/dev/null
    install -d "$stage${list%/*}"
    touch "$stage$list"
    (cd "$stage" && find . \( -type f -o -type l \) -printf '%P\n' | sort >".$list")
}

# Removes what a list names, and the folders that only we had something in; others refuse to go.
remove_all() {
    local file folder
    while IFS= read -r file; do rm -f "$destdir/$file"; done <"$1"
    sed -n 's|/[^/]*$||; /\/nearfirst\(\/\|$\)/p' "$1" | sort -ru |
        while IFS= read -r folder; do rmdir "$destdir/$folder" 2>/dev/null || true; done
}

# Removes what an earlier installation put there and this one does not. It goes before anything is
# copied: by a link between folders, what is new may have an old name, too.
remove_old() {
    if [ -e "$destdir$list" ]; then
        grep -Fxvf "$stage$list" "$destdir$list" >"$stage/old" || true
        remove_all "$stage/old"
    fi
}

# Copies what the list names. Folders that are there keep their modes and owners: they are not ours.
copy_all() {
    local file
    while IFS= read -r file; do
        mkdir -p "$destdir/${file%/*}"
        cp -dT --remove-destination --preserve=mode "$stage/$file" "$destdir/$file"
    done <"$stage$list"
}

# Has the loader know which libraries there are, where it looks for them.
know_libraries() {
    if [ -z "$destdir" ] && [ "$(id -u)" = 0 ]; then
        PATH=$PATH:/sbin:/usr/sbin ldconfig
    fi
}

# Whether units of systemd that are put where they belong, and not below DESTDIR, are its now.
is_for_systemd() { [ -z "$destdir" ] && [ -d /run/systemd/system ]; }

# Has systemd look again which units there are. Where it cannot, it says so itself.
know_units() {
    if is_for_systemd && [ "$(id -u)" = 0 ]; then
        systemctl daemon-reload || true
    fi
}

# Ends and disables the units of a list: those that systemd has from there, and not from another PREFIX.
end_units() {
    local unit known
    if ! is_for_systemd || [ "$(id -u)" != 0 ]; then
        return
    fi
    grep -E '\.(service|timer)$' "$1" | while IFS= read -r unit; do
        known=$(systemctl show -p FragmentPath --value "${unit##*/}")
        if [ "/$unit" -ef "$known" ]; then
            systemctl disable --now "${unit##*/}"
        fi
    done || true
}

case $action in
install)
    stage_all
    remove_old
    copy_all
    know_libraries
    know_units
    echo "installed under $destdir${prefix:-/}"
    if is_for_systemd; then
        echo 'to measure the devices at every boot: systemctl enable --now nearfirst-calibrate.timer'
        echo 'to fetch ahead for all programs: systemctl enable --now nearfirst-watch'
    fi
    ;;
uninstall)
    if [ ! -e "$destdir$list" ]; then
        echo "uninstall: nothing is installed under $destdir${prefix:-/}: there is no $destdir$list" >&2
        exit 1
    fi
    cp "$destdir$list" "$stage/list"
    end_units "$stage/list"
    remove_all "$stage/list"
    know_libraries
    know_units
    echo "removed from $destdir${prefix:-/}"
    if [ -z "$destdir" ] && [ -d "$state" ]; then
        echo "what was measured and learned stays in $state"
    fi
    ;;
*)
    echo "install: expected install or uninstall, not '$action'" >&2
    exit 2
    ;;
esac
