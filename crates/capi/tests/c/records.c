/* With records, every piece is whole lines, near ones come first, and the
 * file offset stays where it was. */
#include "check.h"
#include <sleds.h>

enum { SIZE = 4 << 20, LONG_LINE = 300000, PIECE = 65536 };
static char text[SIZE];
static unsigned char seen[SIZE];

static void write_lines(void) {
    unsigned random = 1;
    size_t at = 0;
    while (at < SIZE) {
        random = random * 1103515245u + 12345u;
        size_t length = at == 0 ? LONG_LINE : random >> 16 & 255;
        for (size_t i = 0; i < length && at < SIZE; i++) text[at++] = (char)('a' + i % 26);
        if (at < SIZE) text[at++] = '\n';
    }
}

int main(void) {
    long offset, nbytes, far_pieces = 0, longest = 0;
    size_t total = 0;
    int more;
    write_lines();
    make_partly_cached("records.data", text, SIZE);

    int fd = open("records.data", O_RDONLY);
    CHECK(fd >= 0 && lseek(fd, 12345, SEEK_SET) == 12345);
    CHECK(sleds_pick_init(fd, PIECE, 1, '\n') == PIECE);
    while ((more = sleds_pick_next_read(fd, &offset, &nbytes)) == 1) {
        long end = offset + nbytes;
        CHECK(offset >= 0 && nbytes > 0 && end <= SIZE);
        CHECK(offset == 0 || text[offset - 1] == '\n');
        CHECK(end == SIZE || text[end - 1] == '\n');
        for (long i = offset; i < end; i++) CHECK(seen[i]++ == 0);
        if (end <= SIZE / 2) far_pieces++;
        if (offset >= SIZE / 2) CHECK(far_pieces == 0);
        if (nbytes > longest) longest = nbytes;
        total += (size_t)nbytes;
    }
    CHECK(more == 0 && nbytes == 0 && total == SIZE);
    CHECK(longest == LONG_LINE + 1);
    CHECK(lseek(fd, 0, SEEK_CUR) == 12345);
    CHECK(sleds_pick_finish(fd) == 0);

    /* Without the flag the separator does not count, as in the form with two arguments. */
    CHECK(sleds_pick_init(fd, PIECE, 0, '\n') == PIECE);
    CHECK(sleds_pick_next_read(fd, &offset, &nbytes) == 1 && nbytes == PIECE);
    CHECK(sleds_pick_finish(fd) == 0);

    /* A file that became shorter is an error while its records are looked for. */
    CHECK(sleds_pick_init(fd, PIECE, 1, '\n') == PIECE);
    CHECK(truncate("records.data", 1000) == 0);
    FAILS(sleds_pick_next_read(fd, &offset, &nbytes), -1, EIO, "became shorter");
    FAILS(sleds_pick_next_read(fd, &offset, &nbytes), -1, EIO, "became shorter");
    CHECK(sleds_pick_finish(fd) == 0);
    CHECK(close(fd) == 0);
    return 0;
}
