/* An event loop is told when a call is worth it. The arguments are the URLs of an object of 600,000
 * times 'x' that comes slowly, of one that is missing, and of one that never comes. */
#include "check.h"
#include <poll.h>
#include <pthread.h>

enum { BYTES = 600000, PATIENCE_MS = 60000 };

static int is_readable(int fd, int limit_ms) {
    struct pollfd one = {.fd = fd, .events = POLLIN};
    int ready = poll(&one, 1, limit_ms);
    CHECK(ready >= 0);
    return ready;
}

/* What the next call answers that is worth it, and how many came before it. */
static int next(nf_set set, int fd, struct nf_member *member, int *early) {
    for (;;) {
        CHECK(is_readable(fd, PATIENCE_MS));
        int more = nf_set_iterate_timed(set, 0, member, NULL, 0);
        if (more != -2) return more;
        CHECK(errno == ETIMEDOUT);
        ++*early;
    }
}

static void is_whole(int fd) {
    static char text[BYTES + 1];
    CHECK(fd > 2 && read(fd, text, sizeof text) == BYTES && strspn(text, "x") == BYTES);
    CHECK(close(fd) == 0);
}

static void comes_whole(nf_set set, int fd) {
    struct nf_member member;
    int early = 0, missing = 0, whole = 0, more;
    while ((more = next(set, fd, &member, &early)) != 0) {
        if (more == -1) {
            CHECK(errno == ENOENT);
            missing++;
        } else {
            is_whole(member.fd);
            whole++;
        }
    }
    CHECK(whole == 1 && missing == 1 && early > 0);
    /* The end is told to every call. */
    CHECK(next(set, fd, &member, &early) == 0);
}

static void a_loop_reads_a_set_and_begins_it_anew(const char *slow, const char *missing) {
    const char *specs[] = {slow, missing};
    nf_set set = nf_set_open_with(specs, 2, NULL, 0);
    int fd = nf_set_descriptor(set);
    CHECK(fd > 2 && nf_set_descriptor(set) == fd && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
    comes_whole(set, fd);
    CHECK(nf_set_rewind(set) == 0 && nf_set_descriptor(set) == fd);
    comes_whole(set, fd);
    CHECK(nf_set_close(set) == 0);
    FAILS(nf_set_descriptor(set), -1, EBADF, "there is no set");
    while (fcntl(fd, F_GETFD) != -1) usleep(1000);
}

static void it_is_silent_where_nothing_comes(const char *never) {
    struct nf_member member;
    nf_set set = nf_set_open(never);
    int fd = nf_set_descriptor(set), calls = 0;
    for (; is_readable(fd, 200); calls++)
        FAILS(nf_set_iterate_timed(set, 0, &member, NULL, 0), -2, ETIMEDOUT, "within 0 s");
    CHECK(calls > 0 && calls < 20 && nf_set_close(set) == 0);
}

/* What a call of the loop began is of a call that waits, and the loop goes on after it. */
static void a_call_that_waits_has_what_the_loop_began(const char *slow) {
    struct nf_member member;
    int early = 0;
    nf_set set = nf_set_open(slow);
    int fd = nf_set_descriptor(set);
    for (int i = 0; i < 10; i++) {
        CHECK(is_readable(fd, PATIENCE_MS));
        FAILS(nf_set_iterate_timed(set, 0, &member, NULL, 0), -2, ETIMEDOUT, "within 0 s");
    }
    is_whole(nf_set_iterate(set));
    CHECK(next(set, fd, &member, &early) == 0 && nf_set_close(set) == 0);
}

static void *gives_up(void *set) {
    struct nf_member member;
    FAILS(nf_set_iterate_timed(*(nf_set *)set, 0.1, &member, NULL, 0), -2, ETIMEDOUT, "0.1 s");
    return NULL;
}

/* What a thread gives up is the loop's. */
static void a_loop_has_what_is_given_up(const char *slow) {
    struct nf_member member;
    int early = 0;
    pthread_t thread;
    nf_set set = nf_set_open(slow);
    int fd = nf_set_descriptor(set);
    CHECK(pthread_create(&thread, NULL, gives_up, &set) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(next(set, fd, &member, &early) == 1);
    is_whole(member.fd);
    CHECK(nf_set_close(set) == 0);
}

static void a_loop_reads_files(void) {
    struct nf_member member;
    int early = 0, files = 0;
    for (int i = 0; i < 20; i++) {
        char name[32];
        sprintf(name, "%d.txt", i);
        CHECK(close(open(name, O_RDWR | O_CREAT, 0600)) == 0);
    }
    nf_set set = nf_set_open("*.txt");
    int fd = nf_set_descriptor(set);
    for (; next(set, fd, &member, &early) == 1; files++) CHECK(close(member.fd) == 0);
    CHECK(files == 20 && nf_set_close(set) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    a_loop_reads_files();
    a_loop_reads_a_set_and_begins_it_anew(argv[1], argv[2]);
    it_is_silent_where_nothing_comes(argv[3]);
    a_call_that_waits_has_what_the_loop_began(argv[1]);
    a_loop_has_what_is_given_up(argv[1]);
    return 0;
}
