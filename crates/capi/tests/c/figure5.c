/* The main loop of figure 5 of the SLEDs paper, unchanged but for declarations,
 * reads a file whose second half is in memory: that half comes first, and each
 * byte comes once. */
#include "check.h"
#include <sleds.h>

#define BUFSIZE 65536
#define MIN(a, b) ((a) < (b) ? (a) : (b))

enum { SIZE = 8 << 20 };
static char content[SIZE];
static unsigned char seen[SIZE];
static int taken_at[SIZE / 4096];
static int taken;

int offset, nbytes, Remain;
int FileSize = SIZE, fd;
char buffer[BUFSIZE];
int nelem;
static const char *FileName = "figure5.data";
static int flags = O_RDONLY;

static void process_data(const char *data, int count) {
    CHECK(count > 0 && count <= BUFSIZE);
    CHECK(memcmp(data, content + offset, (size_t)count) == 0);
    for (int i = 0; i < count; i++) CHECK(seen[offset + i]++ == 0);
    taken_at[taken++] = offset;
}

int main(void) {
    for (unsigned i = 0; i < SIZE; i++) content[i] = (char)(i * 2654435761u >> 24);
    make_partly_cached(FileName, content, SIZE);

    fd = open(FileName, flags);
    sleds_pick_init(fd,BUFSIZE);

    for( Remain = FileSize ; Remain ;
    Remain -= nbytes ){

    nelem = MIN(Remain,BUFSIZE);
    sleds_pick_next_read(fd, &offset,
    &nbytes);

    lseek(fd, offset, SEEK_SET);
    read(fd, buffer, nbytes);
    process_data(buffer, nbytes);

    }
    sleds_pick_finish(fd);
    close(fd);

    for (int i = 0; i < SIZE; i++) CHECK(seen[i] == 1);
    int far_pieces = 0, near_pieces = 0, last = -1;
    for (int i = 0; i < taken; i++) {
        if (taken_at[i] < HEAD) continue;
        if (taken_at[i] < SIZE / 2) {
            if (far_pieces++ == 0) last = -1;
        } else {
            CHECK(far_pieces == 0);
            near_pieces++;
        }
        CHECK(taken_at[i] > last);
        last = taken_at[i];
    }
    CHECK(near_pieces == SIZE / 2 / BUFSIZE && far_pieces >= (SIZE / 2 - HEAD) / BUFSIZE);
    return 0;
}
