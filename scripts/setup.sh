#!/bin/bash
# Installs what building (--build) and testing (all, the default) need and this machine lacks:
# Debian packages where we are root, a Rust toolchain, and the ripgrep that tests compare with.
# What cannot be installed is named, with what is skipped without it; only a compiler is a must.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:---all}

say() { printf 'setup: %s\n' "$*" >&2; }

# program:package:what needs it
build_needs='
cc:gcc:building
pkg-config:pkg-config:building
curl:curl:fetching a Rust toolchain
'
test_needs='
fusermount3:fuse3:tests on slowfs
mkfs.ext4:e2fsprogs:tests on ext4
mkfs.xfs:xfsprogs:tests on xfs
mkfs.btrfs:btrfs-progs:tests on btrfs
mksquashfs:squashfs-tools:tests on squashfs
losetup:mount:tests on loop devices
setpriv:util-linux:tests as another user
valgrind:valgrind:the memory check of the C library
runtest:dejagnu:the tests of GNU findutils
zsh:zsh:the test of the zsh completions
fish:fish:the test of the fish completions
xz:xz-utils:the tests of other projects
'

# Of apt, only where something is missing: a machine that has all of it needs no network.
install_packages() {
    local missing=() lost=() program package reason
    while IFS=: read -r program package reason; do
        [ -n "$program" ] || continue
        if ! PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null; then
            missing+=("$package")
            lost+=("$program ($package), for $reason")
        fi
    done <<<"$1"
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing ${missing[*]}"
        export DEBIAN_FRONTEND=noninteractive
        # One by one if not together: what a machine's archive lacks must not keep away the rest.
        if { apt-get -qq update && apt-get -qq install -y --no-install-recommends "${missing[@]}"; } \
            </dev/null >/dev/null 2>&1; then
            return 0
        fi
        for package in "${missing[@]}"; do
            apt-get -qq install -y --no-install-recommends "$package" </dev/null >/dev/null 2>&1 ||
                say "could not install $package"
        done
    else
        say 'not root on a Debian-like system, so these are skipped; install them to have all:'
        printf '    %s\n' "${lost[@]}" >&2
    fi
}

oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

# Whether there is a cargo that is new enough; asking rustup may install one.
have_cargo() {
    local version
    version=$(cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p')
    [ -n "$version" ] && [ "$(printf '%s\n' "$oldest" "$version" | sort -V | head -n 1)" = "$oldest" ]
}

install_cargo() {
    export PATH=$PATH:$HOME/.cargo/bin
    have_cargo && return 0
    if ! command -v rustup >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say 'installing rustup'
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends rustup \
            </dev/null >/dev/null 2>&1 || true
    fi
    if ! command -v rustup >/dev/null && command -v curl >/dev/null; then
        say 'installing rustup from https://rustup.rs'
        curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
            sh -s -- -y -q --profile minimal --default-toolchain none || true
    fi
    if command -v rustup >/dev/null && ! have_cargo; then
        rustup -q toolchain install stable --profile minimal -c clippy -c rustfmt || true
    fi
    have_cargo && return 0
    say "there is no cargo of version $oldest or later, and none could be installed."
    say 'Install Rust from https://rustup.rs (or your distribution), then try again.'
    exit 1
}

# The ripgrep that tests and experiments compare with: of a known version, and not in PATH.
install_ripgrep() {
    local program=${NEARFIRST_RG:-target/peers/bin/rg}
    [ -x "$program" ] && return 0
    [ "$program" = "$PWD/target/peers/bin/rg" ] || [ "$program" = target/peers/bin/rg ] || {
        say "NEARFIRST_RG names $program, which is no program"
        exit 1
    }
    say 'building ripgrep 15.2.0 to compare with (two minutes)'
    cargo install -q ripgrep --version 15.2.0 --locked --features pcre2 --root target/peers </dev/null ||
        say 'could not build ripgrep: tests that compare with it are skipped'
}

case $what in
--build) install_packages "$build_needs" && install_cargo ;;
--all)
    install_packages "$build_needs$test_needs"
    install_cargo
    install_ripgrep
    ;;
*)
    say "expected --build, --all or nothing, not $what"
    exit 2
    ;;
esac
