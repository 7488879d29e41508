/* What is wrong is an error with errno and a message, never a crash. */
#include "check.h"
#include <limits.h>
#include <sleds.h>
#include <sys/socket.h>
#include <sys/wait.h>

static void write_file(const char *name, off_t size) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, "x\n", 2) == 2 && ftruncate(fd, size) == 0 && close(fd) == 0);
}

static void bad_descriptors(void) {
    struct nf_sled sleds[1];
    struct nf_delivery_time time;
    struct sled old[1];
    char name[8];
    int bad[] = {-1, INT_MIN, INT_MAX, 1 << 20};
    for (int i = 0; i < 4; i++) {
        FAILS(nf_sleds_get(bad[i], sleds, 1), -1, EBADF, "descriptor");
        FAILS(nf_delivery_time(bad[i], NF_BEST, &time), -1, EBADF, "descriptor");
        FAILS(nf_pick_init(bad[i], 0, NF_NO_RECORDS, NF_BEST), -1, EBADF, "descriptor");
        FAILS(nf_device_of(bad[i], name, sizeof name), -1, EBADF, "descriptor");
        FAILS(nf_device_fill_fd(bad[i], 1, 1), -1, EBADF, "descriptor");
        FAILS(sleds_get(bad[i], old, 1), -1, EBADF, "descriptor");
        FAILS(sleds_pick_init(bad[i], 4096), -1, EBADF, "descriptor");
        FAILS(sleds_total_delivery_time(bad[i], SLEDS_BEST), -1, EBADF, "descriptor");
        FAILS(sleds_pick_finish(bad[i]), -1, EINVAL, "no pick");
    }
    int folder = open(".", O_RDONLY), ends[2], sockets[2];
    CHECK(folder >= 0 && pipe(ends) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    FAILS(nf_sleds_get(folder, sleds, 1), -1, EISDIR, "is a directory");
    FAILS(sleds_pick_init(ends[0], 4096), -1, ESPIPE, "not a regular file");
    FAILS(nf_pick_init(sockets[0], 0, '\n', NF_BEST), -1, ESPIPE, "not a regular file");
    for (int i = 0; i < 2; i++) CHECK(close(ends[i]) == 0 && close(sockets[i]) == 0);
    CHECK(close(folder) == 0);
}

static void null_pointers_and_bad_arguments(int fd) {
    struct nf_sled sleds[1];
    struct nf_delivery_time time;
    struct nf_estimate estimate;
    long number;
    FAILS(nf_sleds_get(fd, NULL, 1), -1, EINVAL, "array is null");
    FAILS(nf_sleds_get_path(NULL, sleds, 1), -1, EINVAL, "path is null");
    FAILS(nf_sleds_get_path("missing", sleds, 1), -1, ENOENT, "missing");
    CHECK(strcmp(nf_last_error(), "missing: No such file or directory") == 0);
    FAILS(nf_sleds_get_path("", sleds, 1), -1, ENOENT, "");
    FAILS(nf_delivery_time(fd, NF_BEST, NULL), -1, EINVAL, "time is null");
    FAILS(nf_delivery_time(fd, 2, &time), -1, EINVAL, "2 is no plan");
    FAILS(nf_delivery_time_path("errors.data", -1, &time), -1, EINVAL, "-1 is no plan");
    FAILS(nf_device_fill(NULL, 1, 1), -1, EINVAL, "device is null");
    FAILS(nf_device_fill("", 1, 1), -1, EINVAL, "not empty");
    FAILS(nf_device_fill("\xff", 1, 1), -1, EINVAL, "UTF-8");
    FAILS(nf_device_fill("disk:x", 0, 1), -1, EINVAL, "between 1e-15 and 1e18");
    FAILS(nf_device_fill("disk:x", 1, 1e20), -1, EINVAL, "between 1e-15 and 1e18");
    FAILS(nf_device_fill("disk:x", 1, 0.0 / 0.0), -1, EINVAL, "between 1e-15 and 1e18");
    FAILS(nf_device_estimate("disk:x", 1, NULL), -1, EINVAL, "estimate is null");
    CHECK(nf_device_estimate("disk:x", 1, &estimate) == 0);
    CHECK(estimate.latency.p50 != estimate.latency.p50);
    FAILS(nf_device_of(fd, NULL, 1), -1, EINVAL, "null");
    FAILS(nf_warnings(NULL, 1), -1, EINVAL, "null");
    CHECK(nf_warnings(NULL, 0) == 0);
    FAILS(nf_pick_init(fd, 0, 256, NF_BEST), -1, EINVAL, "256 is no separator");
    FAILS(nf_pick_init(fd, 0, NF_NO_RECORDS, 7), -1, EINVAL, "7 is no plan");
    FAILS(nf_pick_next(0, NULL), -1, EINVAL, "piece is null");
    FAILS(sleds_get(fd, NULL, 1), -1, EINVAL, "array is null");
    FAILS(sleds_pick_init(fd, -1), -1, EINVAL, "-1 bytes");
    FAILS(sleds_pick_init(fd, 1, 1, 256), -1, EINVAL, "a byte");
    FAILS(sleds_total_delivery_time(fd, 9), -1, EINVAL, "9 is no plan");
    FAILS(sleds_fill(NULL, 1, 1), -1, EINVAL, "device is null");
    FAILS(sleds_pick_next_read(fd, &number, &number), -1, EINVAL, "no pick");
    CHECK(sleds_pick_init(fd, 4096) == 4096);
    FAILS(sleds_pick_next_read(fd, (int *)NULL, &number), -1, EINVAL, "offset is null");
    FAILS(sleds_pick_next_read(fd, &number, (long *)NULL), -1, EINVAL, "nbytes is null");
    CHECK(sleds_pick_finish(fd) == 0);
}

static void ends(int fd) {
    struct nf_piece piece;
    int offset, nbytes = 7;
    nf_pick pick = nf_pick_init(fd, 0, '\n', NF_BEST);
    CHECK(pick > 0);
    CHECK(nf_pick_next(pick, &piece) == 1 && piece.offset == 0 && piece.length == 3);
    CHECK(piece.place == NF_NEAR && strcmp(piece.device, "memory") == 0);
    for (int i = 0; i < 3; i++) CHECK(nf_pick_next(pick, &piece) == 0 && piece.length == 0);
    CHECK(nf_pick_finish(pick) == 0);
    FAILS(nf_pick_finish(pick), -1, EINVAL, "finished");
    FAILS(nf_pick_next(pick, &piece), -1, EINVAL, "finished");
    FAILS(nf_pick_refresh(pick), -1, EINVAL, "finished");

    CHECK(sleds_pick_init(fd, 0) > 0);
    CHECK(sleds_pick_next_read(fd, &offset, &nbytes) == 1 && offset == 0 && nbytes == 3);
    for (int i = 0; i < 3; i++) {
        CHECK(sleds_pick_next_read(fd, &offset, &nbytes) == 0 && nbytes == 0);
    }
    CHECK(sleds_pick_finish(fd) == 0);
    FAILS(sleds_pick_finish(fd), -1, EINVAL, "no pick");
}

/* A descriptor whose number is another file by now is not picked on from. */
static void a_number_used_again(void) {
    long offset, nbytes;
    struct nf_piece piece;
    int fd = open("errors.data", O_RDONLY);
    CHECK(fd >= 0 && sleds_pick_init(fd, 1) == 1);
    nf_pick pick = nf_pick_init(fd, 1, NF_NO_RECORDS, NF_LINEAR);
    CHECK(pick > 0 && close(fd) == 0);
    FAILS(sleds_pick_next_read(fd, &offset, &nbytes), -1, EBADF, "descriptor");
    FAILS(nf_pick_next(pick, &piece), -1, EBADF, "descriptor");
    write_file("other.data", 3);
    CHECK(open("other.data", O_RDONLY) == fd);
    FAILS(sleds_pick_next_read(fd, &offset, &nbytes), -1, EBADF, "another file");
    FAILS(nf_pick_next(pick, &piece), -1, EBADF, "another file");
    CHECK(sleds_pick_init(fd, 1) == 1);
    CHECK(sleds_pick_next_read(fd, &offset, &nbytes) == 1 && nbytes == 1);
    CHECK(sleds_pick_finish(fd) == 0 && nf_pick_finish(pick) == 0 && close(fd) == 0);
}

/* What does not fit an int is an error, and is not lost. */
static void integers_that_are_too_small(void) {
    const off_t size = (off_t)INT_MAX + 4097;
    int fd, small_offset, small_nbytes;
    off_t offset;
    size_t nbytes;
    short tiny;
    write_file("large.data", size);
    fd = open("large.data", O_RDONLY);
    CHECK(fd >= 0 && sleds_pick_init(fd, size) == size);
    FAILS(sleds_pick_next_read(fd, &small_offset, &small_nbytes), -1, EOVERFLOW, "32 bits");
    FAILS(sleds_pick_next_read(fd, &tiny, &nbytes), -1, EINVAL, "4 or 8 bytes");
    CHECK(sleds_pick_next_read(fd, &small_offset, &nbytes) == 1);
    CHECK(small_offset == 0 && (off_t)nbytes == size);
    CHECK(sleds_pick_next_read(fd, &offset, &nbytes) == 0 && nbytes == 0);
    CHECK((sleds_pick_next_read)(fd, (long *)&offset, (long *)&nbytes) == 0);
    CHECK(sleds_pick_finish(fd) == 0 && close(fd) == 0 && unlink("large.data") == 0);
}

/* A fork has costs of its own: a thread that it lacks may have held the locks of its parent's. */
static void a_fork_asks_for_itself(void) {
    struct nf_estimate estimate;
    CHECK(nf_device_fill("disk:parent", 1, 1) == 0);
    CHECK(nf_device_estimate("disk:parent", 1, &estimate) == 1);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(nf_device_estimate("disk:parent", 1, &estimate) == 0);
        CHECK(nf_device_fill("disk:parent", 2, 2) == 0);
        CHECK(nf_device_estimate("disk:parent", 1, &estimate) == 1);
        /* Valgrind calls lost what is the parent's alone. */
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(nf_device_estimate("disk:parent", 1, &estimate) == 1 && estimate.latency.p50 == 1);
}

int main(void) {
    CHECK(strcmp(nf_last_error(), "") == 0);
    CHECK(strlen(nf_version()) >= 5);
    write_file("errors.data", 3);
    int fd = open("errors.data", O_RDONLY);
    CHECK(fd >= 0);
    bad_descriptors();
    null_pointers_and_bad_arguments(fd);
    ends(fd);
    CHECK(close(fd) == 0);
    a_number_used_again();
    integers_that_are_too_small();
    a_fork_asks_for_itself();

    /* An empty file has no sleds and no pieces. */
    struct nf_piece piece;
    fd = open("empty.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && nf_sleds_get(fd, NULL, 0) == 0);
    nf_pick pick = nf_pick_init(fd, 0, '\n', NF_BEST);
    CHECK(pick > 0 && nf_pick_next(pick, &piece) == 0 && nf_pick_finish(pick) == 0);
    CHECK(close(fd) == 0);

    /* A descriptor that may not be read has sleds, but no pieces to be read. */
    write_file("errors.data", 3);
    fd = open("errors.data", O_WRONLY);
    CHECK(fd >= 0 && nf_sleds_get(fd, NULL, 0) == 1);
    FAILS(nf_pick_init(fd, 0, NF_NO_RECORDS, NF_BEST), -1, EBADF, "is not open for reading");
    FAILS(nf_pick_init(fd, 0, '\n', NF_BEST), -1, EBADF, "is not open for reading");
    FAILS(sleds_pick_init(fd, 4096), -1, EBADF, "is not open for reading");
    CHECK(close(fd) == 0);
    return 0;
}
