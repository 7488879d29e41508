/* The main loop of figure 1 of the SETS paper, unchanged but for declarations
 * (its "set spec" is a variable here), writes out the members of the set that
 * the argument names. */
#include "check.h"
#include <sets.h>

static int s, fd;
static const char *set_spec;
static int members;

/* What is executed on a descriptor knows nothing of sets. */
static void execute(int fd) {
    static char buffer[65536];
    ssize_t count;
    if (fd < 0) {
        fprintf(stderr, "%d %s\n", errno, nf_last_error());
        return;
    }
    CHECK(fd > 2 && lseek(fd, 0, SEEK_CUR) == 0);
    off_t end = lseek(fd, 0, SEEK_END);
    CHECK(end >= 0 && lseek(fd, 0, SEEK_SET) == 0);
    off_t at = 0;
    for (; (count = read(fd, buffer, sizeof buffer)) != 0; at += count) {
        CHECK(count > 0 && at + count <= end);
        CHECK(write(STDOUT_FILENO, buffer, (size_t)count) == count);
    }
    CHECK(at == end);
    members++;
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    set_spec = argv[1];

    s = setOpen(set_spec);
    while (fd = setIterate(s)) {
    execute(fd);
    close(fd);
    }
    /* It is over, and not only this call: what is no set has no members either. */
    CHECK(nf_set_iterate(s) == 0);
    setClose(s);

    CHECK(members > 0);
    return 0;
}
