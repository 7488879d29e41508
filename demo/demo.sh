#!/bin/bash
# Shows what nearfirst is for, on a large text made of this machine's own files, and leaves nothing
# behind. As root the disk is slowed down to 150 MB/s, for this demonstration's programs only.
#
#   NEARFIRST=PROGRAM   shows that program instead of building one
#   DEMO_DIR=FOLDER     works there instead of /var/tmp
set -euo pipefail
cd "$(dirname "$0")/.."

DISK_RATE=150000000
WANTED_MIB=512

say() { printf '%s\n' "$*"; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }
if [ -t 1 ]; then bold=$'\e[1m' plain=$'\e[0m'; else bold='' plain=''; fi
step() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
# A command as a person would type it.
show() { printf '  $ %s\n' "$*"; }

# ---- the program

program=${NEARFIRST:-}
if [ -z "$program" ]; then
    scripts/setup.sh --build
    export PATH=$PATH:~/.cargo/bin
    say 'Building nearfirst (minutes the first time) ...'
    if [ -t 2 ]; then quiet=(); else quiet=(-q); fi
    cargo build --release "${quiet[@]}" -p nearfirst-cli
    program=$PWD/target/release/nearfirst
fi

# ---- a place on a real disk, and room there

folder='' group=''
clean_up() {
    if [ -n "$group" ]; then rmdir "$group" 2>/dev/null || true; fi
    if [ -n "$folder" ]; then rm -rf "$folder"; fi
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

for place in "${DEMO_DIR:-}" /var/tmp ~ "${TMPDIR:-/tmp}"; do
    [ -n "$place" ] && [ -d "$place" ] && [ -w "$place" ] || continue
    case $(stat -f -c %T "$place") in tmpfs | ramfs) continue ;; esac
    folder=$(mktemp -d "$place/nearfirst-demo.XXXXXX")
    break
done
[ -n "$folder" ] || fail 'found no folder to write to that is on a disk; set DEMO_DIR'
text=$folder/text
export NEARFIRST_STATE=$folder/state

free_mib=$(($(stat -f -c '%a * %S' "$folder") / 1048576))
memory_mib=$(($(sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo) / 1024))
mib=$WANTED_MIB
[ $((free_mib / 4)) -ge $mib ] || mib=$((free_mib / 4))
[ $((memory_mib / 3)) -ge $mib ] || mib=$((memory_mib / 3))
[ $mib -ge 32 ] || fail "$folder has $free_mib MiB free and memory $memory_mib MiB: too little to show anything"

# ---- a slow disk, where we may

# The device number of the whole disk under the folder, if it is a block device.
whole_disk() {
    local number
    number=$(stat -c '%Hd:%Ld' "$folder" 2>/dev/null) || return 1
    [ -e "/sys/dev/block/$number" ] || return 1
    if [ -e "/sys/dev/block/$number/partition" ]; then
        cat "/sys/dev/block/$number/../dev"
    else
        printf '%s\n' "$number"
    fi
}

slow_down() {
    local disk
    [ "$(id -u)" = 0 ] && disk=$(whole_disk) || return 1
    if [ -w /sys/fs/cgroup/blkio/cgroup.procs ]; then
        group=/sys/fs/cgroup/blkio/nearfirst-demo.$$
        mkdir "$group" 2>/dev/null &&
            { echo "$disk $DISK_RATE" >"$group/blkio.throttle.read_bps_device"; } 2>/dev/null
    elif grep -qsw io /sys/fs/cgroup/cgroup.subtree_control; then
        group=/sys/fs/cgroup/nearfirst-demo.$$
        mkdir "$group" 2>/dev/null &&
            { echo "$disk rbps=$DISK_RATE" >"$group/io.max"; } 2>/dev/null
    else
        return 1
    fi
}
if slow_down; then
    disk_words='The disk is slowed down to 150 MB/s for this, as a hard disk reads.'
else
    [ -z "$group" ] || rmdir "$group" 2>/dev/null || true
    group=''
    disk_words='The disk is as it is: where it is fast, there is less to gain.'
fi

# ---- measuring

# Runs a command on the slow disk: its output, then a line `SECONDS BYTES_FROM_THE_DISK EXIT_CODE`.
measured() {
    bash -c '
        # By the group, where there is one: what a child read counts for its parent only once that has
        # waited for it, which who is not to wait for a dead mount does not do.
        read_bytes() {
            if [ -r "$0/blkio.throttle.io_service_bytes" ]; then
                awk "\$2 == \"Read\" { sum += \$3 } END { printf \"%d\", sum }" "$0/blkio.throttle.io_service_bytes"
            elif [ -r "$0/io.stat" ]; then
                tr " " "\n" <"$0/io.stat" | awk -F= "\$1 == \"rbytes\" { sum += \$2 } END { printf \"%d\", sum }"
            else
                sed -n "s/^read_bytes: //p" "/proc/$$/io" 2>/dev/null
            fi
        }
        [ -z "$0" ] || echo $$ >"$0/cgroup.procs"
        bytes=$(read_bytes) start=${EPOCHREALTIME/[.,]/} code=0
        "$@" || code=$?
        end=${EPOCHREALTIME/[.,]/}
        after=$(read_bytes)
        echo "$(((end - start))) $((${after:-0} - ${bytes:-0})) $code"
    ' "$group" "$@"
}

# Leaves the second half of the text in memory and nothing of the first. Only our own file is
# touched, and it is read back at the disk's own speed.
half_in_memory() {
    dd of="$text" oflag=nocache conv=notrunc,fdatasync count=0 status=none
    dd if="$text" of=/dev/null bs=1M skip=$((mib / 2)) status=none
}

# One row of a table: the command, in words, and what it took.
microseconds=0
row() {
    local words=$1 bytes code
    shift
    half_in_memory
    read -r microseconds bytes code < <(measured "$@" 2>&1 | tail -n 1)
    [ "$code" = 0 ] || fail "$words ended with $code"
    printf '  %-44s %5d.%03d s %8d MiB\n' "$words" \
        $((microseconds / 1000000)) $((microseconds / 1000 % 1000)) $((bytes / 1048576))
}
head_of_table() { printf '  %-44s %11s %12s\n' '' 'time' 'from disk'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf (a / b < 10 ? "%.2f" : "%.0f"), a / b }'; }

# ---- the demonstration

step "1. A text of $mib MiB, half of it in memory"
say "Lines of this machine's own files, with their names, in $text"
say "(removed at the end). $disk_words"
sources=()
for source in /usr/include /usr/share/doc /usr/lib/python3* /usr/share/perl* /usr/share /usr/lib "$PWD"; do
    [ -d "$source" ] && sources+=("$source")
done
# Until there is enough: a bare machine has little text, so what it has may come several times.
for pass in $(seq 1 1000); do
    printf 'pass %s\n' "$pass"
    grep -r -I -s '' "${sources[@]}" </dev/null || true
done 2>/dev/null | tr -d '\0' | head -c $((mib << 20)) >"$text" || true
[ "$(stat -c %s "$text")" = $((mib << 20)) ] || fail "could not write $text"

# A real line, about three quarters in, that stands there only once.
line=''
for try in 0 1 2 3 4 5 6 7 8 9; do
    at=$((mib * 3 / 4 * 1048576 + try * 1000003))
    candidate=$(tail -c +$at "$text" 2>/dev/null | sed -n '2,400p;400q' |
        awk 'length > length(best) && length < 100 && !/[^ -~]/ { best = $0 } END { print best }') || true
    if [ -n "$candidate" ] && [ "$(LC_ALL=C grep -c -x -F -e "$candidate" "$text")" = 1 ]; then
        line=$candidate
        break
    fi
done
[ -n "$line" ] || fail 'found no line that stands in the text only once'
word=include

step '2. What does reading it cost?'
say "First measure the disk (seconds, once per machine), then ask:"
show "nearfirst calibrate ${folder%/*}"
measured "$program" calibrate "$folder" 2>&1 | sed -e '$d' -e 's/^/  /'
half_in_memory
show 'nearfirst sleds text'
measured "$program" sleds "$text" 2>&1 | sed -e '$d' -e '/^$/d' -e "s|$folder/||" -e 's/^/  /'

step '3. Is this line in it?'
say "  $line"
say 'It is, three quarters in: in the part that is in memory. Before each run the first half is'
say 'dropped from memory again and the second half read back.'
head_of_table
row 'grep -qxF, in file order' env LC_ALL=C grep -qxF -e "$line" "$text"
row 'nearfirst grep -qxF --plan linear' "$program" grep -qxF --plan linear -e "$line" "$text"
linear=$microseconds
row 'nearfirst grep -qxF' "$program" grep -qxF -e "$line" "$text"
say "Near first answers $(ratio "$linear" "$microseconds") times as fast: what is in memory is searched before the disk is asked."

step "4. How many lines have the word '$word'?"
say 'Everything must be read, so the disk sets the pace; what is in memory is searched while it works.'
head_of_table
row "grep -cw $word, in file order" env LC_ALL=C grep -cw "$word" "$text"
row "nearfirst grep -cw $word --plan linear" "$program" grep -cw --plan linear "$word" "$text"
linear=$microseconds
row "nearfirst grep -cw $word" "$program" grep -cw "$word" "$text"
say "Near first takes $(ratio "$microseconds" "$linear") of the time of file order: where all must be read, order saves little"
say 'unless memory is too small for the text: then file order loses what was near before it gets there.'

say
say 'One run each, so mind the noise. Next: docs/guide.md; measured with care: bench/README.md.'
