/* Counts the lines of files, reading first what is already in memory.
 *
 *     cc near_first.c $(pkg-config --cflags --libs nearfirst) -o near_first
 *     ./near_first FILE...
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <nearfirst.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char buffer[256 * 1024];

/* Counts the lines of a piece; -1 where it cannot be read to its end. */
static int64_t lines_of(int fd, const struct nf_piece *piece) {
    int64_t lines = 0;
    uint64_t done = 0;
    while (done < piece->length) {
        ssize_t count = pread(fd, buffer, piece->length - done, (off_t)(piece->offset + done));
        if (count < 0 && errno == EINTR) continue;
        if (count == 0) errno = EIO; /* the file became shorter */
        if (count <= 0) return -1;
        for (char *at = buffer; (at = memchr(at, '\n', buffer + count - at)); at++) lines++;
        done += (uint64_t)count;
    }
    return lines;
}

static int64_t lines_of_file(int fd) {
    struct nf_piece piece;
    int64_t lines = 0;
    int more = -1;
    nf_pick pick = nf_pick_init(fd, sizeof buffer, NF_NO_RECORDS, NF_BEST);
    if (pick < 0) return -1;
    while (lines >= 0 && (more = nf_pick_next(pick, &piece)) > 0) {
        int64_t found = lines_of(fd, &piece);
        lines = found < 0 ? -1 : lines + found;
    }
    nf_pick_finish(pick);
    return more < 0 ? -1 : lines;
}

int main(int argc, char **argv) {
    int status = 0;
    for (int i = 1; i < argc; i++) {
        int fd = open(argv[i], O_RDONLY | O_CLOEXEC);
        int64_t lines = fd < 0 ? -1 : lines_of_file(fd);
        if (lines < 0) {
            fprintf(stderr, "near_first: %s: %s\n", argv[i], strerror(errno));
            status = 1;
        } else {
            printf("%lld %s\n", (long long)lines, argv[i]);
        }
        if (fd >= 0) close(fd);
    }
    return status;
}
