/* Threads share a pick, pick on descriptors of their own, and have messages of
 * their own. */
#include "check.h"
#include <pthread.h>
#include <sleds.h>

enum { THREADS = 8, SIZE = 1 << 20, PIECE = 1000 };
static unsigned char shared_seen[SIZE];
static nf_pick shared;

static void *run(void *number) {
    static const char *const missing[] = {"none0", "none1", "none2", "none3",
                                          "none4", "none5", "none6", "none7"};
    const char *name = missing[(size_t)number];
    unsigned char *seen = (unsigned char *)calloc(SIZE, 1);
    struct nf_piece piece;
    long offset, nbytes, total = 0;
    int more, fd = open("threads.data", O_RDONLY);
    CHECK(seen != NULL && fd >= 0);
    CHECK(nf_sleds_get_path(name, NULL, 0) == -1 && errno == ENOENT);

    while ((more = nf_pick_next(shared, &piece)) == 1) {
        for (uint64_t i = 0; i < piece.length; i++) shared_seen[piece.offset + i]++;
        if (piece.offset % 7 == 0) CHECK(nf_pick_refresh(shared) == 0);
    }
    CHECK(more == 0);

    CHECK(sleds_pick_init(fd, PIECE, 1, '\n') == PIECE);
    while ((more = sleds_pick_next_read(fd, &offset, &nbytes)) == 1) {
        for (long i = 0; i < nbytes; i++) CHECK(seen[offset + i]++ == 0);
        total += nbytes;
    }
    CHECK(more == 0 && total == SIZE);
    CHECK(sleds_pick_finish(fd) == 0);
    CHECK(nf_device_fill_fd(fd, 0.001 * (double)((size_t)number + 1), 1e6) == 0);

    CHECK(strstr(nf_last_error(), name) != NULL);
    CHECK(close(fd) == 0);
    free(seen);
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    char line[64];
    int fd = open("threads.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    memset(line, 'x', sizeof line);
    line[63] = '\n';
    CHECK(fd >= 0);
    for (int i = 0; i < SIZE / 64; i++) CHECK(write(fd, line, sizeof line) == sizeof line);
    shared = nf_pick_init(fd, PIECE, NF_NO_RECORDS, NF_BEST);
    CHECK(shared > 0);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < SIZE; i++) CHECK(shared_seen[i] == 1);
    CHECK(nf_pick_finish(shared) == 0 && close(fd) == 0);
    return 0;
}
