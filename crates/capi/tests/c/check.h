/* What the tests share: checks, and a file whose second half is in memory. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <nearfirst.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#define CHECK(what)                                                                          \
    do {                                                                                     \
        if (!(what)) {                                                                       \
            fprintf(stderr, "%s:%d: %s does not hold (errno %d, \"%s\")\n", __FILE__,        \
                    __LINE__, #what, errno, nf_last_error());                                \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

/* The call answers `failed`, sets errno and leaves a message with `part` in it. */
#define FAILS(call, failed, number, part)                                                    \
    do {                                                                                     \
        errno = 0;                                                                           \
        CHECK((call) == (failed));                                                           \
        CHECK(errno == (number));                                                            \
        CHECK(strstr(nf_last_error(), (part)) != NULL);                                      \
    } while (0)

/* Ends the test as skipped. */
static inline void skip(const char *reason) {
    printf("%s\n", reason);
    exit(77);
}

/* Pages of a range of an open file that are in memory. */
static inline size_t resident_pages(int fd, off_t offset, size_t length) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 0;
    size_t pages = (length + page - 1) / page;
    unsigned char *answer = (unsigned char *)malloc(pages);
    void *map = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, offset);
    CHECK(answer != NULL && map != MAP_FAILED);
    CHECK(mincore(map, length, answer) == 0);
    for (size_t i = 0; i < pages; i++) count += answer[i] & 1;
    CHECK(munmap(map, length) == 0);
    free(answer);
    return count;
}

/* Valgrind reads the head of every file that is mapped, so it says nothing there. */
enum { HEAD = 65536 };

/* Makes a file with these bytes, and leaves only its second half in memory. It
 * stays there: the half is mapped and touched, and so is not evicted as idle. */
static inline void make_partly_cached(const char *name, const char *bytes, size_t size) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    size_t half = size / 2;
    volatile char sum = 0;
    CHECK(fd >= 0);
    for (size_t done = 0; done < size;) {
        ssize_t count = write(fd, bytes + done, size - done);
        CHECK(count > 0);
        done += (size_t)count;
    }
    CHECK(fsync(fd) == 0);
    char *held = (char *)mmap(NULL, size - half, PROT_READ, MAP_SHARED, fd, (off_t)half);
    CHECK(held != MAP_FAILED);
    for (size_t i = 0; i < size - half; i += 4096) sum ^= held[i];
    struct statfs where;
    CHECK(fstatfs(fd, &where) == 0);
    if (where.f_type == TMPFS_MAGIC) skip("files lie in memory here");
    /* A page that somebody is at for a moment stays, and goes the next time. */
    int tries = 0;
    do {
        CHECK(tries == 0 || usleep(10000) == 0);
        CHECK(posix_fadvise(fd, 0, (off_t)half, POSIX_FADV_DONTNEED) == 0);
    } while (resident_pages(fd, HEAD, half - HEAD) > 0 && ++tries < 1000);
    CHECK(resident_pages(fd, HEAD, half - HEAD) == 0);
    CHECK(resident_pages(fd, (off_t)half, size - half) == (size - half) / 4096);
    CHECK(close(fd) == 0);
}

#endif
