/* What arrives in memory while a file is picked is handed out early, by
 * asking again, and of itself once enough has been taken. */
#include "check.h"

enum { SIZE = 16 << 20, PIECE = 1 << 20 };
static char content[SIZE], part[PIECE];

/* Loads a piece, and keeps it: it is mapped and touched. */
static void load(int fd, off_t offset) {
    volatile char sum = 0;
    CHECK(pread(fd, part, PIECE, offset) == PIECE);
    char *held = (char *)mmap(NULL, PIECE, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, offset);
    CHECK(held != MAP_FAILED);
    for (int i = 0; i < PIECE; i += 4096) sum ^= held[i];
}

int main(void) {
    struct nf_piece piece;
    memset(content, 'x', SIZE);
    make_partly_cached("refresh.data", content, SIZE);
    int fd = open("refresh.data", O_RDONLY);
    /* Without readahead only what is read arrives. */
    CHECK(fd >= 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) == 0);

    nf_pick pick = nf_pick_init(fd, PIECE, NF_NO_RECORDS, NF_BEST);
    nf_pick linear = nf_pick_init(fd, PIECE, NF_NO_RECORDS, NF_LINEAR);
    CHECK(pick > 0 && linear > 0);
    CHECK(nf_pick_next(pick, &piece) == 1 && piece.offset == SIZE / 2);
    load(fd, 3 * PIECE);
    CHECK(nf_pick_next(pick, &piece) == 1 && piece.offset == SIZE / 2 + PIECE);
    CHECK(nf_pick_refresh(pick) == 0);
    CHECK(nf_pick_next(pick, &piece) == 1 && piece.offset == 3 * PIECE);
    CHECK(piece.place == NF_NEAR && piece.length == PIECE);
    for (int i = 2; i < 8; i++) {
        CHECK(nf_pick_next(pick, &piece) == 1);
        CHECK(piece.offset == SIZE / 2 + (uint64_t)i * PIECE);
    }
    /* Nothing near is left, and more than a 32nd has been taken since: it asks of itself. */
    load(fd, 6 * PIECE);
    CHECK(nf_pick_next(pick, &piece) == 1 && piece.offset == 6 * PIECE);
    int order[] = {0, 1, 2, 4, 5, 7};
    for (int i = 0; i < 6; i++) {
        CHECK(nf_pick_next(pick, &piece) == 1 && piece.offset == (uint64_t)order[i] * PIECE);
    }
    CHECK(nf_pick_next(pick, &piece) == 0 && nf_pick_finish(pick) == 0);

    for (int i = 0; i < SIZE / PIECE; i++) {
        CHECK(nf_pick_refresh(linear) == 0);
        CHECK(nf_pick_next(linear, &piece) == 1 && piece.offset == (uint64_t)i * PIECE);
    }
    CHECK(nf_pick_next(linear, &piece) == 0 && nf_pick_finish(linear) == 0);
    CHECK(close(fd) == 0);
    return 0;
}
