/* Sets of files of this machine: what the calls answer, and what is wrong. */
#include "check.h"
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <sets.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { FILES = 24 };

static int threads_of_this(void) {
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    CHECK(folder != NULL);
    for (struct dirent *one; (one = readdir(folder)) != NULL;) count += one->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void make_files(void) {
    CHECK(mkdir("files", 0700) == 0);
    for (int i = 0; i < FILES; i++) {
        char name[32];
        sprintf(name, "files/%02d.txt", i);
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(fd >= 0 && dprintf(fd, "%02d", i) == 2 && ftruncate(fd, i + 2) == 0);
        CHECK(close(fd) == 0);
    }
}

/* The number that a member begins with. */
static int number_in(int fd) {
    char text[3] = {0};
    CHECK(read(fd, text, 2) == 2);
    return atoi(text);
}

/* Iterates to the end, and returns a bit for each file that came. */
static unsigned taken(nf_set set) {
    unsigned seen = 0;
    int fd;
    while ((fd = nf_set_iterate(set)) != 0) {
        CHECK(fd > 2);
        unsigned bit = 1u << number_in(fd);
        CHECK((seen & bit) == 0);
        seen |= bit;
        CHECK(close(fd) == 0);
    }
    return seen;
}

static void members_have_names_and_sizes(void) {
    struct nf_member member;
    char name[64], again[64], little[4];
    nf_set set = nf_set_open("files/*.txt");
    int more, count = 0;
    while ((more = nf_set_iterate_member(set, &member, name, sizeof name)) == 1) {
        int number = number_in(member.fd);
        char expected[32];
        sprintf(expected, "files/%02d.txt", number);
        CHECK(strcmp(name, expected) == 0 && member.name_bytes == strlen(name));
        CHECK(member.properties.size == number + 2 && member.properties.cold == 0);
        CHECK(member.properties.modified > 1.7e9);
        CHECK(nf_set_member_name(set, member.fd, again, sizeof again) == 12);
        CHECK(strcmp(again, name) == 0);
        CHECK(nf_set_member_name(set, member.fd, little, sizeof little) == 12);
        CHECK(strcmp(little, "fil") == 0);
        CHECK((fcntl(member.fd, F_GETFD) & FD_CLOEXEC) != 0);
        CHECK(close(member.fd) == 0);
        /* Its number may be that of a file by now which the library opened meanwhile. */
        CHECK(nf_set_member_name(set, member.fd, again, sizeof again) == -1);
        CHECK(errno == EBADF || errno == EINVAL);
        CHECK(strstr(nf_last_error(), "descriptor") != NULL);
        count++;
    }
    CHECK(more == 0 && count == FILES && member.fd == -1 && name[0] == 0);
    FAILS(nf_set_member_name(set, 1 << 20, again, sizeof again), -1, EBADF, "descriptor");
    int other = open("files/00.txt", O_RDONLY);
    FAILS(nf_set_member_name(set, other, again, sizeof again), -1, EINVAL, "no member");
    CHECK(close(other) == 0);
    int ends[2];
    CHECK(pipe(ends) == 0);
    FAILS(nf_set_member_name(set, ends[0], again, sizeof again), -1, EINVAL, "no member");
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
    int folder = open("files", O_RDONLY | O_DIRECTORY);
    FAILS(nf_set_member_name(set, folder, again, sizeof again), -1, EINVAL, "no member");
    CHECK(close(folder) == 0 && nf_set_close(set) == 0);
}

static void what_was_given_stays_known_when_a_set_begins_anew(void) {
    nf_set set = nf_set_open("files/0?.txt");
    struct nf_member before, after;
    char name[64], again[64];
    CHECK(nf_set_iterate_member(set, &before, name, sizeof name) == 1);
    CHECK(nf_set_rewind(set) == 0);
    CHECK(nf_set_member_name(set, before.fd, again, sizeof again) == (int64_t)strlen(name));
    CHECK(strcmp(again, name) == 0);
    CHECK(nf_set_iterate_member(set, &after, name, sizeof name) == 1);
    CHECK(nf_set_member_name(set, before.fd, again, sizeof again) > 0);
    CHECK(nf_set_member_name(set, after.fd, again, sizeof again) > 0 && strcmp(again, name) == 0);
    FAILS(nf_set_member_name(set, after.fd, NULL, 8), -1, EINVAL, "buffer is null");
    CHECK(close(before.fd) == 0 && close(after.fd) == 0 && nf_set_close(set) == 0);
}

static void a_member_that_cannot_be_read_is_an_error_by_name(void) {
    static const char *const specs[] = {"files/00.txt", "missing.txt", "files/01.txt"};
    struct nf_member member;
    char name[64];
    struct nf_set_options options = {.order = NF_ORDER_LISTED};
    nf_set set = nf_set_open_with(specs, 3, &options, sizeof options);
    CHECK(nf_set_iterate_member(set, &member, name, sizeof name) == 1 && close(member.fd) == 0);
    FAILS(nf_set_iterate_member(set, &member, name, sizeof name), -1, ENOENT, "missing.txt");
    CHECK(strcmp(name, "missing.txt") == 0 && member.fd == -1);
    CHECK(nf_set_iterate_member(set, &member, name, sizeof name) == 1 && close(member.fd) == 0);
    CHECK(strcmp(name, "files/01.txt") == 0);
    CHECK(nf_set_iterate_member(set, &member, name, sizeof name) == 0);
    CHECK(nf_set_close(set) == 0);

    set = nf_set_open("nothing/*.such");
    FAILS(nf_set_iterate(set), -1, ENOENT, "nothing/*.such");
    CHECK(nf_set_iterate(set) == 0 && nf_set_close(set) == 0);

    set = nf_set_open("");
    FAILS(nf_set_iterate(set), -1, ENOENT, "'': No such file");
    CHECK(nf_set_iterate(set) == 0 && nf_set_close(set) == 0);
}

static int is_even(const char *name, void *data) {
    CHECK(data == (void *)name || strcmp((char *)data, "data") == 0);
    return (name[strlen("files/0")] - '0') % 2 == 0;
}

static int is_small(const char *name, const struct nf_properties *known, void *data) {
    struct stat stat_;
    int largest = *(int *)data;
    CHECK(stat(name, &stat_) == 0);
    CHECK(known->size == stat_.st_size && (long)known->modified == (long)stat_.st_mtime);
    CHECK(known->cold == 0);
    return known->size <= largest;
}

static sem_t released;

static void release(void *data) {
    *(int *)data += 1000;
    CHECK(sem_post(&released) == 0);
}

static void sets_are_made_of_sets(void) {
    int all = setOpen("files/*.txt"), low = setOpen("files/0?.txt");
    int even = setRestrict(all, is_even, (void *)"data");
    int both = setIntersect(low, even), either = setUnion(low, even);
    nf_set odd = nf_set_difference(all, even);
    int largest = 6;
    nf_set small = nf_set_restrict(all, is_small, &largest, release);
    CHECK(all == 1 && low == 2 && even == 3 && both == 4 && either == 5 && odd == 6 && small == 7);

    CHECK(setSize(all) == FILES && setSize(even) == FILES / 2 && setSize(both) == 5);
    CHECK(setMember(all, "files/03.txt") == 1 && setMember(even, "files/03.txt") == 0);
    /* What is made of a set lives on without it, and its number is given again. */
    CHECK(setClose(all) == 0 && setOpen("files/00.txt") == 1 && setClose(1) == 0);
    CHECK(taken(both) == 0x155 && taken(low) == 0x3ff);
    CHECK(taken(either) == (0x3ffu | 0x555555u) && taken(odd) == 0xaaaaaau);
    CHECK(taken(small) == 0x1f);

    CHECK(nf_set_iterate(both) == 0 && setRewind(both) == 0 && taken(both) == 0x155);
    CHECK(largest == 6);
    for (int set = 2; set <= 7; set++) CHECK(setClose(set) == 0);
    CHECK(sem_wait(&released) == 0 && largest == 1006);
}

static void digests_have_every_name_once(void) {
    struct nf_properties known;
    char name[64];
    unsigned seen = 0;
    int set = setOpen("files/*.txt");
    long index = 0, length;
    for (; (length = setDigest(set, index, name, sizeof name)) > 0; index++) {
        CHECK(length == 12);
        seen |= 1u << atoi(name + 6);
    }
    CHECK(length == 0 && index == FILES && seen == 0xffffff);
    CHECK(nf_set_digest(set, 3, name, sizeof name, &known) == 12);
    CHECK(known.size == atoi(name + 6) + 2 && known.modified > 1.7e9);
    CHECK(nf_set_digest(set, 3, name, 4, &known) == 12 && strcmp(name, "fil") == 0);
    CHECK(nf_set_digest(set, 3, NULL, 0, NULL) == 12);
    CHECK(nf_set_digest(set, FILES, name, sizeof name, &known) == 0);
    CHECK(nf_set_digest(set, UINT64_MAX, name, sizeof name, &known) == 0);
    CHECK(taken(set) == 0xffffff && setClose(set) == 0);
}

static double backwards(const char *name, const struct nf_properties *known, void *data) {
    struct nf_delivery_time time;
    (void)data;
    CHECK(known->size == atoi(name + 6) + 2 && nf_delivery_time_path(name, NF_BEST, &time) == 0);
    FAILS(nf_set_size(1), -1, EDEADLK, "may not call on sets");
    return 1.7e9 + atoi(name + 6); // seconds since 1970, as a rank by time has them
}

static void options_are_kept(void) {
    static const char *const specs[] = {"files/0[0-4].txt"};
    struct nf_set_options options = {.order = NF_ORDER_RANK, .rank = backwards};
    int fd, next = 4, calls = 0;
    nf_set set = nf_set_open_with(specs, 1, &options, sizeof options);
    for (; (fd = nf_set_iterate(set)) > 0; next--) {
        CHECK(number_in(fd) == next && close(fd) == 0);
    }
    CHECK(fd == 0 && next == -1 && nf_set_close(set) == 0);

    struct nf_set_options content = {.duplicates = NF_SAME_CONTENT};
    const char *const twice[] = {"files/03.txt", "files/../files/03.txt"};
    set = nf_set_open_with(twice, 2, &content, sizeof content);
    CHECK((fd = nf_set_iterate(set)) > 0 && number_in(fd) == 3 && close(fd) == 0);
    CHECK(nf_set_iterate(set) == 0 && nf_set_close(set) == 0);

    const char *const program[] = {"%echo files/07.txt%"};
    struct nf_set_options allowed = {.allow_programs = 1};
    FAILS(nf_set_open(program[0]), -1, EPERM, "programs are not allowed");
    set = nf_set_open_with(program, 1, &allowed, sizeof allowed);
    CHECK((fd = nf_set_iterate(set)) > 0 && number_in(fd) == 7 && close(fd) == 0);
    CHECK(nf_set_iterate(set) == 0 && nf_set_close(set) == 0);

    struct nf_set_options bad = {.order = 9, .data = &calls, .release = release};
    FAILS(nf_set_open_with(specs, 1, &bad, sizeof bad), -1, EINVAL, "9 is no order");
    CHECK(calls == 1000);
    bad = (struct nf_set_options){.duplicates = 2};
    FAILS(nf_set_open_with(specs, 1, &bad, sizeof bad), -1, EINVAL, "NF_SAME_");
    bad = (struct nf_set_options){.order = NF_ORDER_RANK};
    FAILS(nf_set_open_with(specs, 1, &bad, sizeof bad), -1, EINVAL, "an order by rank, and none is given");
    bad = (struct nf_set_options){.replay = specs, .replay_count = 1};
    FAILS(nf_set_open_with(specs, 1, &bad, sizeof bad), -1, EINVAL, "NF_ORDER_REPLAY is not");
}

static void an_order_that_was_taken_is_told_and_can_be_taken_again(void) {
    static const char *const specs[] = {"files/0[0-2].txt"};
    const char *const order[] = {"files/02.txt", "files/none.txt", "files/00.txt"};
    struct nf_set_options options = {.order = NF_ORDER_REPLAY, .replay = order, .replay_count = 3};
    char name[64], little[4];
    int fd;
    nf_set set = nf_set_open_with(specs, 1, &options, sizeof options);
    CHECK(nf_set_order_taken(set, 0, name, sizeof name) == 0 && name[0] == 0);
    const int expected[] = {2, 0, 1};
    for (int i = 0; i < 3; i++) {
        char file[32];
        CHECK((fd = nf_set_iterate(set)) > 0 && number_in(fd) == expected[i] && close(fd) == 0);
        sprintf(file, "files/%02d.txt", expected[i]);
        CHECK(nf_set_order_taken(set, i, name, sizeof name) == 12 && strcmp(name, file) == 0);
        CHECK(nf_set_order_taken(set, i + 1, name, sizeof name) == 0);
    }
    CHECK(nf_set_order_taken(set, 1, little, sizeof little) == 12 && strcmp(little, "fil") == 0);
    CHECK(nf_set_order_taken(set, 1, NULL, 0) == 12);
    FAILS(nf_set_order_taken(set, 1, NULL, 8), -1, EINVAL, "buffer is null");
    CHECK(nf_set_iterate(set) == 0 && nf_set_rewind(set) == 0);
    CHECK(nf_set_order_taken(set, 0, name, sizeof name) == 0);
    CHECK((fd = nf_set_iterate(set)) > 0 && number_in(fd) == 2 && close(fd) == 0);
    CHECK(nf_set_close(set) == 0);
    FAILS(nf_set_order_taken(set, 0, name, sizeof name), -1, EBADF, "there is no set");
    struct nf_set_options bad = {.order = NF_ORDER_REPLAY, .replay_count = 1};
    FAILS(nf_set_open_with(specs, 1, &bad, sizeof bad), -1, EINVAL, "replay is null");
    const char *const none[] = {NULL};
    bad.replay = none;
    FAILS(nf_set_open_with(specs, 1, &bad, sizeof bad), -1, EINVAL, "a name of replay is null");
}

static void what_is_wrong_is_an_error(void) {
    int bad[] = {0, -1, INT_MIN, INT_MAX, 77}, calls = 0;
    struct nf_member member;
    char name[8];
    for (int i = 0; i < 5; i++) {
        FAILS(nf_set_iterate(bad[i]), -2, EBADF, "there is no set");
        FAILS(nf_set_iterate_member(bad[i], &member, name, 8), -2, EBADF, "there is no set");
        FAILS(nf_set_member_name(bad[i], 0, name, 8), -1, EBADF, "there is no set");
        FAILS(nf_set_union(bad[i], 1), -1, EBADF, "there is no set");
        FAILS(nf_set_restrict(bad[i], is_small, &calls, release), -1, EBADF, "there is no set");
        FAILS(nf_set_digest(bad[i], 0, name, 8, NULL), -1, EBADF, "there is no set");
        FAILS(setIterate(bad[i]), 0, EBADF, "there is no set");
        FAILS(setSize(bad[i]), -1, EBADF, "there is no set");
        FAILS(setMember(bad[i], "x"), -1, EBADF, "there is no set");
        FAILS(setRewind(bad[i]), -1, EBADF, "there is no set");
        FAILS(setClose(bad[i]), -1, EBADF, "there is no set");
    }
    CHECK(calls == 5000);
    FAILS(setOpen(NULL), -1, EINVAL, "spec is null");
    FAILS(setOpen("files/\\select"), -1, EINVAL, "files/");
    FAILS(nf_set_open("{"), -1, EINVAL, "{");
    FAILS(nf_set_open("/x/{1..999999999}"), -1, EINVAL, "/x/{1..999999999}");
    FAILS(nf_set_open_with(NULL, 1, NULL, 0), -1, EINVAL, "specs is null");
    int set = setOpen("files/00.txt");
    FAILS(setMember(set, NULL), -1, EINVAL, "name is null");
    FAILS(setRestrict(set, NULL, NULL), -1, EINVAL, "predicate is null");
    FAILS(setDigest(set, -1, name, 8), -1, EINVAL, "-1");
    FAILS(setDigest(set, 0, NULL, 8), -1, EINVAL, "name is null");
    FAILS(nf_set_iterate_member(set, NULL, NULL, 0), -2, EINVAL, "member is null");
    FAILS(nf_set_iterate_member(set, &member, NULL, 1), -2, EINVAL, "name is null");
    CHECK(taken(set) == 1 && setClose(set) == 0);
    FAILS(setClose(set), -1, EBADF, "there is no set");

    set = nf_set_open_with(NULL, 0, NULL, 0);
    CHECK(set == 1 && nf_set_size(set) == 0 && nf_set_iterate(set) == 0);
    CHECK(nf_set_close(set) == 0);
    int most = 0;
    while ((set = setOpen("files/00.txt")) > 0) CHECK(set == ++most);
    CHECK(errno == EMFILE && most == 1024);
    for (int i = 1; i <= most; i++) CHECK(setClose(i) == 0);
}

/* Descriptors 0, 1 and 2 are never a member's: 0 is the end of the loop. */
static void a_descriptor_is_never_zero(void) {
    int saved = dup(0), set = setOpen("files/05.txt");
    CHECK(saved > 2 && close(0) == 0);
    int fd = setIterate(set);
    CHECK(fd > 2 && number_in(fd) == 5 && lseek(fd, 0, SEEK_SET) == 0);
    CHECK(close(fd) == 0 && setIterate(set) == 0 && setClose(set) == 0);
    CHECK(dup2(saved, 0) == 0 && close(saved) == 0);
}

static unsigned shared_seen;

static void *take(void *set) {
    for (int fd; (fd = nf_set_iterate(*(nf_set *)set)) != 0;) {
        unsigned bit = 1u << number_in(fd);
        CHECK((__atomic_fetch_or(&shared_seen, bit, __ATOMIC_SEQ_CST) & bit) == 0);
        CHECK(close(fd) == 0);
    }
    return NULL;
}

static void threads_share_a_set(void) {
    pthread_t threads[8];
    nf_set set = nf_set_open("files/*.txt");
    for (int i = 0; i < 8; i++) CHECK(pthread_create(&threads[i], NULL, take, &set) == 0);
    for (int i = 0; i < 8; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(shared_seen == 0xffffff && nf_set_close(set) == 0);
}

static void a_fork_is_told(void) {
    int set = setOpen("files/*.txt"), status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        FAILS(setOpen("files/*.txt"), -1, EOPNOTSUPP, "fork");
        FAILS(nf_set_iterate(set), -2, EOPNOTSUPP, "fork");
        FAILS(setIterate(set), 0, EOPNOTSUPP, "fork");
        FAILS(setClose(set), -1, EOPNOTSUPP, "fork");
        /* Valgrind calls lost what only the threads that the fork lacks point to. */
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(taken(set) == 0xffffff && setClose(set) == 0);
}

int main(void) {
    struct nf_sled sled;
    CHECK(sem_init(&released, 0, 0) == 0);
    make_files();
    CHECK(nf_sleds_get_path("files/00.txt", &sled, 1) == 1);
    /* Where openat2 is not known, as to valgrind, a thread asked, which ends soon. */
    int is_apart = syscall(SYS_openat2, -1, "", NULL, 0) == -1 && errno == ENOSYS;
    for (int tries = 0; is_apart && tries < 500 && threads_of_this() != 1; tries++)
        usleep(10000);
    CHECK(threads_of_this() == 1);
    members_have_names_and_sizes();
    what_was_given_stays_known_when_a_set_begins_anew();
    a_member_that_cannot_be_read_is_an_error_by_name();
    sets_are_made_of_sets();
    digests_have_every_name_once();
    options_are_kept();
    an_order_that_was_taken_is_told_and_can_be_taken_again();
    what_is_wrong_is_an_error();
    a_descriptor_is_never_zero();
    threads_share_a_set();
    a_fork_is_told();
    return 0;
}
