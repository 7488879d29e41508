/* What lies in cold storage is left alone, asked for, or waited for, as is said. The arguments are an
 * S3 server, and the user and the password that it takes. In each of its buckets "asked" and "waits"
 * one object is cold and another is not. */
#include "check.h"
#include <math.h>

static char storage[4][256];
static const char *const pointers[] = {storage[0], storage[1], storage[2], storage[3]};

/* Says how a set of the objects of that server is opened. */
static struct nf_set_options options_of(uint32_t recall_days, double wait_s) {
    struct nf_set_options options = {.recall_days = recall_days, .wait_s = wait_s};
    options.storage = pointers;
    options.storage_count = 4;
    return options;
}

/* How many members hold the text; of one that is none the message has `why` in it. */
static int count(const char *spec, uint32_t recall_days, double wait_s, const char *why) {
    struct nf_set_options options = options_of(recall_days, wait_s);
    char found[64];
    int fd, members = 0;
    nf_set set = nf_set_open_with(&spec, 1, &options, sizeof options);
    CHECK(set > 0);
    while ((fd = nf_set_iterate(set)) != 0) {
        if (fd < 0) {
            CHECK(fd == -1 && errno == EREMOTEIO && why != NULL);
            CHECK(strstr(nf_last_error(), "/cold: in cold storage (GLACIER): ") != NULL);
            CHECK(strstr(nf_last_error(), why) != NULL);
            continue;
        }
        CHECK(read(fd, found, sizeof found) == 4 && memcmp(found, "text", 4) == 0);
        CHECK(close(fd) == 0);
        members++;
    }
    CHECK(nf_set_close(set) == 0);
    return members;
}

/* Names are known without anything being asked for. */
static void names_are_told_and_nothing_is_asked_for(void) {
    struct nf_set_options options = options_of(1, INFINITY);
    const char *spec = "s3://asked/*";
    nf_set set = nf_set_open_with(&spec, 1, &options, sizeof options);
    CHECK(set > 0 && nf_set_size(set) == 2 && nf_set_member(set, "s3://asked/cold") == 1);
    CHECK(nf_set_close(set) == 0);
}

static void what_is_wrong_is_said(void) {
    struct nf_set_options options = options_of(0, 1);
    const char *spec = "s3://asked/*";
    FAILS(nf_set_open_with(&spec, 1, &options, sizeof options), -1, EINVAL, "it goes with recall_days");
    options = options_of(1, -1);
    FAILS(nf_set_open_with(&spec, 1, &options, sizeof options), -1, EINVAL, "wait_s");
    options = options_of(1, NAN);
    FAILS(nf_set_open_with(&spec, 1, &options, sizeof options), -1, EINVAL, "wait_s");
}

int main(int argc, char **argv) {
    CHECK(argc == 4);
    sprintf(storage[0], "endpoint=%s", argv[1]);
    sprintf(storage[1], "access_key_id=%s", argv[2]);
    sprintf(storage[2], "secret_access_key=%s", argv[3]);
    sprintf(storage[3], "region=us-east-1");
    what_is_wrong_is_said();
    names_are_told_and_nothing_is_asked_for();
    CHECK(count("s3://asked/*", 0, 0, "it must be restored") == 1);
    CHECK(count("s3://asked/*", 3, 0, "its restore is under way and takes 5 h at most") == 1);
    CHECK(count("s3://waits/*", 1, INFINITY, NULL) == 2);
    return 0;
}
