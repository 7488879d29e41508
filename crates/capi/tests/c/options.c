/* What sets may use, and where their objects are, as their options say. The arguments are a server,
 * with five objects below /many, five large ones below /large and one in the bucket "bucket", and the
 * URL below which five never come, whether it ends with /limited or with /more. */
#include "check.h"
#include <sys/stat.h>

enum { MANY = 5, LARGE = 256 << 10 };

static nf_set opened(const char *spec, const struct nf_set_options *options) {
    nf_set set = nf_set_open_with(&spec, 1, options, sizeof *options);
    CHECK(set > 0);
    return set;
}

/* How many members there are, each of which holds this text. */
static int count(nf_set set, const char *text) {
    char found[64];
    int fd, members = 0;
    for (; (fd = nf_set_iterate(set)) > 0; members++) {
        ssize_t length = read(fd, found, sizeof found);
        CHECK(length == (ssize_t)strlen(text) && memcmp(found, text, (size_t)length) == 0);
        CHECK(close(fd) == 0);
    }
    CHECK(fd == 0);
    return members;
}

static void names_are_read_as_they_stand(void) {
    static const char *const names[] = {"report[1].txt", "@notes.txt", "-", "50%.txt", "a\\b"};
    for (int i = 0; i < 5; i++) {
        char path[32];
        sprintf(path, "./%s", names[i]);
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        CHECK(fd >= 0 && write(fd, "text", 4) == 4 && close(fd) == 0);
    }
    struct nf_set_options options = {.names_as_they_stand = 1};
    nf_set set = nf_set_open_with(names, 5, &options, sizeof options);
    CHECK(nf_set_size(set) == 5 && nf_set_member(set, "@notes.txt") == 1);
    CHECK(count(set, "text") == 5 && nf_set_close(set) == 0);
    options.names_as_they_stand = 2;
    FAILS(nf_set_open_with(names, 5, &options, sizeof options), -1, EINVAL, "names_as_they_stand is 0 or 1");
}

/* As those of a later version, which have a field more. */
static void structures_may_grow(void) {
    struct { struct nf_set_options known; long later; } options = {.known = {.order = NF_ORDER_LISTED}};
    struct { struct nf_set_stats known; uint64_t later; } stats = {.later = 7};
    const struct nf_set_options *passed = &options.known;
    const char *spec = "50%.txt";
    nf_set set = nf_set_open_with(&spec, 1, passed, sizeof options);
    CHECK(set > 0 && nf_set_stats(set, &stats.known, sizeof stats) == 0 && stats.later == 0);
    FAILS(nf_set_stats(set, &stats.known, sizeof passed), -1, EINVAL, "the size of the structure");
    CHECK(nf_set_close(set) == 0);
    options.later = 1;
    FAILS(nf_set_open_with(&spec, 1, passed, sizeof options), -1, E2BIG, "options");
    FAILS(nf_set_open_with(&spec, 1, passed, sizeof passed), -1, EINVAL, "the size of the structure");
    CHECK((set = nf_set_open_with(&spec, 1, passed, sizeof *passed)) > 0 && nf_set_close(set) == 0);
}

/* What a set is at that has made so many requests, none of which brings anything. */
static struct nf_set_stats at_work(nf_set set, uint64_t requests) {
    struct nf_set_stats stats;
    struct nf_member member;
    do {
        FAILS(nf_set_iterate_timed(set, 0.1, &member, NULL, 0), -2, ETIMEDOUT, "no member");
        CHECK(nf_set_stats(set, &stats, sizeof stats) == 0);
    } while (stats.requests < requests);
    return stats;
}

static void requests_are_no_more_than_allowed(const char *never) {
    struct nf_set_options options = {.window_max = 1};
    struct nf_set_stats stats;
    char spec[128];
    sprintf(spec, "%s/more/{0,1,2,3,4}", never);
    nf_set by_default = opened(spec, NULL);
    CHECK(at_work(by_default, MANY).in_flight >= MANY);
    sprintf(spec, "%s/limited/{0,1,2,3,4}", never);
    nf_set set = opened(spec, &options), other = opened(spec, &options);
    stats = at_work(set, 1);
    CHECK(stats.names == MANY && stats.in_flight == 1 && stats.requests == 1);
    stats = at_work(other, 1);
    CHECK(stats.names == MANY && stats.in_flight == 1 && stats.requests == 1);
    /* The one that waits for its turn first, or it would have it. */
    CHECK(nf_set_close(other) == 0 && nf_set_close(set) == 0 && nf_set_close(by_default) == 0);
}

static void what_is_held_is_no_more_than_allowed(const char *server) {
    struct nf_set_options options = {.budget_bytes = 1 << 20, .spill_bytes = -1};
    struct nf_set_stats stats;
    struct stat found;
    char spec[128];
    int fd, members = 0;
    sprintf(spec, "%s/large/{0,1,2,3,4}", server);
    nf_set set = opened(spec, &options);
    for (; (fd = nf_set_iterate(set)) > 0; members++) {
        CHECK(fstat(fd, &found) == 0 && found.st_size == LARGE && close(fd) == 0);
        /* Until all has come that may come before the next is taken. */
        do CHECK(nf_set_stats(set, &stats, sizeof stats) == 0); while (stats.in_flight > 0);
        CHECK(stats.held_bytes_max <= 1 << 20 && stats.spilled_bytes_total == 0);
    }
    CHECK(fd == 0 && members == MANY && nf_set_close(set) == 0);
}

static void sets_that_are_opened_alike_are_counted_together(const char *server) {
    struct nf_set_options options = {.window_max = 1, .budget_bytes = 1 << 20, .spill_bytes = -1};
    struct nf_set_stats stats;
    char spec[128];
    sprintf(spec, "%s/many/{0,1,2,3,4}", server);
    nf_set set = opened(spec, &options), others = opened(spec, &options);
    nf_set by_default = opened(spec, NULL);
    CHECK(nf_set_stats(set, &stats, sizeof stats) == 0 && stats.requests == 0);
    CHECK(count(set, "many") == MANY && nf_set_stats(set, &stats, sizeof stats) == 0);
    CHECK(stats.names == MANY && stats.requests == MANY && stats.in_flight == 0);
    CHECK(stats.retries + stats.hedges + stats.refusals + stats.stalls == 0);
    CHECK(stats.held_bytes == 0 && stats.held_bytes_max > 0);
    CHECK(stats.spilled_bytes == 0 && stats.spilled_bytes_total == 0);
    CHECK(nf_set_stats(others, &stats, sizeof stats) == 0 && stats.names == 0 && stats.requests == MANY);
    CHECK(nf_set_stats(by_default, &stats, sizeof stats) == 0 && stats.requests == 0);
    FAILS(nf_set_stats(set, NULL, sizeof stats), -1, EINVAL, "stats is null");
    CHECK(nf_set_close(set) == 0 && nf_set_close(others) == 0 && nf_set_close(by_default) == 0);
    FAILS(nf_set_stats(set, &stats, sizeof stats), -1, EBADF, "there is no set");
}

static void what_brings_nothing_is_given_up(const char *never) {
    struct nf_set_options options = {.stall_s = 0.05};
    char spec[128];
    sprintf(spec, "%s/more/0", never);
    nf_set set = opened(spec, &options);
    FAILS(nf_set_iterate(set), -1, ECONNRESET, "for 0.05 s");
    CHECK(nf_set_iterate(set) == 0 && nf_set_close(set) == 0);
    options.stall_s = -1;
    FAILS(nf_set_open_with(&never, 1, &options, sizeof options), -1, EINVAL, "-1: stall_s is a number of seconds");
    options.stall_s = 1e-10;
    FAILS(nf_set_open_with(&never, 1, &options, sizeof options), -1, EINVAL, "stall_s is a number of seconds, 0 or from 1e-9 on");
}

static void a_part_is_tried_as_often_as_said(const char *server) {
    struct nf_set_options options = {.attempts_max = 2};
    char spec[128];
    sprintf(spec, "%s/broken", server);
    nf_set set = opened(spec, &options);
    FAILS(nf_set_iterate(set), -1, ECONNRESET, "broken");
    CHECK(nf_set_iterate(set) == 0 && nf_set_close(set) == 0);
}

static void stores_are_told_where_they_are(const char *server) {
    char endpoint[128];
    sprintf(endpoint, "endpoint=%s", server);
    const char *storage[] = {endpoint, "region=us-east-1", "skip_signature=true"};
    const char *spec = "s3://bucket/key";
    struct nf_set_options options = {.storage = storage, .storage_count = 3};
    nf_set set = opened(spec, &options);
    CHECK(count(set, "object") == 1 && nf_set_close(set) == 0);
    storage[1] = "regoin=us-east-1";
    FAILS(nf_set_open_with(&spec, 1, &options, sizeof options), -1, EINVAL, "did you mean region?");
    storage[1] = "us-east-1";
    FAILS(nf_set_open_with(&spec, 1, &options, sizeof options), -1, EINVAL, "NAME=VALUE");
    storage[1] = NULL;
    FAILS(nf_set_open_with(&spec, 1, &options, sizeof options), -1, EINVAL, "an option of storage is null");
    options.storage = NULL;
    FAILS(nf_set_open_with(&spec, 1, &options, sizeof options), -1, EINVAL, "storage is null");
}

static void a_spill_folder_can_be_written_to(void) {
    const char *spec = "report*";
    struct nf_set_options options = {.spill_folder = "none"};
    FAILS(nf_set_open_with(&spec, 1, &options, sizeof options), -1, ENOENT, "none");
    options.spill_folder = "50%.txt";
    FAILS(nf_set_open_with(&spec, 1, &options, sizeof options), -1, ENOTDIR, "50%.txt");
    options.spill_folder = ".";
    nf_set set = opened(spec, &options);
    CHECK(count(set, "text") == 1 && nf_set_close(set) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    structures_may_grow();
    names_are_read_as_they_stand();
    requests_are_no_more_than_allowed(argv[2]);
    what_is_held_is_no_more_than_allowed(argv[1]);
    sets_that_are_opened_alike_are_counted_together(argv[1]);
    what_brings_nothing_is_given_up(argv[2]);
    a_part_is_tried_as_often_as_said(argv[1]);
    stores_are_told_where_they_are(argv[1]);
    a_spill_folder_can_be_written_to();
    return 0;
}
