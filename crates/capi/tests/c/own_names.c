/* A program has functions of its own that are called as some in the library, which keeps to its own. */
#include "check.h"
#include <nearfirst.h>

static int calls;

int sqlite3_open_v2(const char *name, void **database, int flags, const char *vfs) {
    (void)name, (void)database, (void)flags, (void)vfs;
    return ++calls;
}

const char *sqlite3_errmsg(void *database) {
    (void)database;
    calls++;
    return "";
}

size_t ZSTD_compressBound(size_t size) { return size + (size_t)++calls; }

int main(void) {
    int fd = open("damaged.db", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(write(fd, "SQLite format 3", 16) == 16);
    for (int i = 0; i < 100; i++) CHECK(dprintf(fd, "no database\n") > 0);
    CHECK(close(fd) == 0);
    nf_set set = nf_set_open("damaged.db\\select name from names\\");
    CHECK(set >= 0 && nf_set_iterate(set) < 0);
    CHECK(strstr(nf_last_error(), "not a database") != NULL);
    CHECK(nf_set_close(set) == 0);
    CHECK(calls == 0 && sqlite3_open_v2("", NULL, 0, NULL) == 1);
    return 0;
}
