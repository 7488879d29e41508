# What the scripts beside it share; to be sourced. Sets root, program and work, a folder that goes
# when the script ends.

root=$(cd "$(dirname "$0")/../.." && pwd)
program=$(realpath "${1:-${NEARFIRST:-$root/target/debug/nearfirst}}")
[ -x "$program" ] || { echo "$program is not there: build it first" >&2; exit 2; }
work=$(mktemp -d)
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT

# Ends the script as skipped, with the reason.
skip() {
    echo "SKIP: $*"
    exit 77
}

# debian_source PACKAGE: unpacks the unpatched source of the system's version of a package into $work.
# It is kept in target/foreign for the next run.
debian_source() {
    kept="$root/target/foreign/debian/$1"
    if ! ls "$kept"/*.orig.tar.* >/dev/null 2>&1; then
        mkdir -p "$kept"
        fetch_source "$1" >"$work/apt.log" 2>&1 || {
            cat "$work/apt.log" >&2
            skip "no source package of $1 can be had from this system's mirrors"
        }
    fi
    # Signatures lie beside the archive.
    for archive in "$kept"/*.orig.tar.*; do
        case $archive in *.asc) ;; *) tar -C "$work" -xf "$archive" ;; esac
    done
}

# Source packages may not be enabled on this machine: takes its own mirrors, for source.
fetch_source() {
    command -v apt-get || return 1
    mkdir -p "$work/parts" "$work/lists/partial"
    for list in /etc/apt/sources.list.d/*.sources; do
        [ -f "$list" ] && sed 's/^Types: .*/Types: deb-src/' "$list" >"$work/parts/$(basename "$list")"
    done
    if [ -f /etc/apt/sources.list ]; then
        sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$work/parts/main.list"
    fi
    set -- "$1" -qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/parts" \
        -o "Dir::State::lists=$work/lists"
    package=$1
    shift
    apt-get "$@" update && (cd "$kept" && apt-get "$@" source --download-only "$package") &&
        ls "$kept"/*.orig.tar.*
}
