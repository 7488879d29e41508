/* Waits end: by a limit, and when another thread closes the set. The arguments are the URLs of an
 * object that never comes, of one of 600,000 times 'x' that comes slowly, and of a list that never
 * comes. */
#include "check.h"
#include <math.h>
#include <pthread.h>
#include <sets.h>
#include <sys/syscall.h>

enum { BYTES = 600000 };

struct wait {
    nf_set set;
    int64_t (*call)(nf_set set);
    int64_t answer;
    int error;
    int thread;
};

static int64_t iterates(nf_set set) { return nf_set_iterate(set); }
static int64_t iterates_as_the_paper(nf_set set) { return setIterate(set); }
static int64_t asks_for_a_member(nf_set set) { return nf_set_member(set, "x"); }
static int64_t asks_for_the_first(nf_set set) { return nf_set_digest(set, 0, NULL, 0, NULL); }

static void *waits(void *data) {
    struct wait *wait = (struct wait *)data;
    __atomic_store_n(&wait->thread, (int)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
    wait->answer = wait->call(wait->set);
    wait->error = errno;
    return NULL;
}

static int sleeps(int thread) {
    char path[64], state = 0;
    sprintf(path, "/proc/self/task/%d/stat", thread);
    FILE *stat = fopen(path, "r");
    CHECK(stat != NULL && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1 && fclose(stat) == 0);
    return state == 'S';
}

static void close_ends(const char *spec, int64_t (*call)(nf_set set), int64_t answer) {
    struct wait wait = {.set = nf_set_open(spec), .call = call};
    pthread_t thread;
    CHECK(wait.set > 0 && pthread_create(&thread, NULL, waits, &wait) == 0);
    for (int id = 0; id == 0 || !sleeps(id); usleep(1000))
        id = __atomic_load_n(&wait.thread, __ATOMIC_SEQ_CST);
    CHECK(nf_set_close(wait.set) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(wait.answer == answer && wait.error == EBADF);
}

static void a_limit_ends(const char *spec) {
    struct nf_member member;
    char name[128];
    nf_set set = nf_set_open(spec);
    FAILS(nf_set_iterate_timed(set, 0, &member, name, sizeof name), -2, ETIMEDOUT, "within 0 s");
    FAILS(nf_set_iterate_timed(set, 0.01, &member, NULL, 0), -2, ETIMEDOUT, "within 0.01 s");
    FAILS(nf_set_iterate_timed(set, -1, &member, NULL, 0), -2, EINVAL, "-1: limit_s is");
    FAILS(nf_set_iterate_timed(set, NAN, &member, NULL, 0), -2, EINVAL, "NaN: limit_s is");
    CHECK(nf_set_close(set) == 0);
    FAILS(nf_set_iterate_timed(set, 0, &member, NULL, 0), -2, EBADF, "there is no set");
}

/* What was on its way when a call gave up is whole when a later one hands it out. */
static void nothing_is_lost_by_a_limit(const char *spec) {
    struct nf_member member;
    static char text[BYTES + 1];
    int more, late = 0;
    nf_set set = nf_set_open(spec);
    while ((more = nf_set_iterate_timed(set, 0.02, &member, NULL, 0)) == -2) {
        CHECK(errno == ETIMEDOUT);
        late++;
    }
    CHECK(more == 1 && late > 0 && member.properties.size == BYTES);
    CHECK(read(member.fd, text, sizeof text) == BYTES && strspn(text, "x") == BYTES);
    CHECK(close(member.fd) == 0 && nf_set_iterate_timed(set, INFINITY, &member, NULL, 0) == 0);
    CHECK(nf_set_close(set) == 0);
}

static void *gives_up(void *set) {
    struct nf_member member;
    FAILS(nf_set_iterate_timed(*(nf_set *)set, 0.1, &member, NULL, 0), -2, ETIMEDOUT, "0.1 s");
    return NULL;
}

/* What one thread gives up is handed to another, which waits already. */
static void what_is_given_up_is_anothers(const char *never, const char *slow) {
    const char *specs[] = {never, slow};
    static char text[BYTES + 1];
    pthread_t thread;
    nf_set set = nf_set_open_with(specs, 2, NULL, 0);
    CHECK(set > 0 && pthread_create(&thread, NULL, gives_up, &set) == 0);
    int fd = nf_set_iterate(set);
    CHECK(fd > 0 && read(fd, text, sizeof text) == BYTES && close(fd) == 0);
    CHECK(pthread_join(thread, NULL) == 0 && nf_set_close(set) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    a_limit_ends(argv[1]);
    nothing_is_lost_by_a_limit(argv[2]);
    what_is_given_up_is_anothers(argv[1], argv[2]);
    close_ends(argv[1], iterates, -2);
    close_ends(argv[1], iterates_as_the_paper, 0);
    close_ends(argv[3], nf_set_size, -1);
    close_ends(argv[3], asks_for_a_member, -1);
    close_ends(argv[3], asks_for_the_first, -1);
    return 0;
}
