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

/* A piece is whole lines, none of which came before. */
static void is_whole_and_new(uint64_t offset, uint64_t length) {
    uint64_t end = offset + length;
    CHECK(length > 0 && end <= SIZE);
    CHECK(offset == 0 || text[offset - 1] == '\n');
    CHECK(end == SIZE || text[end - 1] == '\n');
    for (uint64_t i = offset; i < end; i++) CHECK(seen[i]++ == 0);
}

/* Pages that arrive while lines are picked begin in the middle of lines; pieces do not. */
static void while_pages_arrive(int fd) {
    struct nf_piece piece;
    char byte;
    uint64_t total = 0, early = 0;
    CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) == 0);
    nf_pick pick = nf_pick_init(fd, 10000, '\n', NF_BEST);
    CHECK(pick > 0);
    memset(seen, 0, SIZE);
    for (unsigned picks = 0; nf_pick_next(pick, &piece) == 1; picks++) {
        is_whole_and_new(piece.offset, piece.length);
        if (piece.place == NF_NEAR && piece.offset < SIZE / 2) early += piece.length;
        total += piece.length;
        if (picks % 5 == 0) {
            CHECK(pread(fd, &byte, 1, picks * 40503u % (SIZE / 2)) == 1);
            CHECK(nf_pick_refresh(pick) == 0);
        }
    }
    CHECK(total == SIZE && early > 0);
    CHECK(nf_pick_finish(pick) == 0);
}

static void in_file_order(int fd) {
    struct nf_piece piece;
    uint64_t end = 0;
    nf_pick pick = nf_pick_init(fd, PIECE, '\n', NF_LINEAR);
    CHECK(pick > 0);
    memset(seen, 0, SIZE);
    while (nf_pick_next(pick, &piece) == 1) {
        CHECK(piece.offset == end);
        is_whole_and_new(piece.offset, piece.length);
        end += piece.length;
    }
    CHECK(end == SIZE && nf_pick_finish(pick) == 0);
}

int main(void) {
    long offset, nbytes, far_pieces = 0, longest = 0;
    size_t total = 0;
    int more;
    write_lines();
    make_partly_cached("arriving.data", text, SIZE);
    int fd = open("arriving.data", O_RDONLY);
    CHECK(fd >= 0);
    while_pages_arrive(fd);
    in_file_order(fd);
    CHECK(close(fd) == 0);

    memset(seen, 0, SIZE);
    make_partly_cached("records.data", text, SIZE);
    fd = open("records.data", O_RDONLY);
    CHECK(fd >= 0 && lseek(fd, 12345, SEEK_SET) == 12345);
    CHECK(sleds_pick_init(fd, PIECE, 1, '\n') == PIECE);
    while ((more = sleds_pick_next_read(fd, &offset, &nbytes)) == 1) {
        long end = offset + nbytes;
        is_whole_and_new((uint64_t)offset, (uint64_t)nbytes);
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
