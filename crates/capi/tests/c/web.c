/* Members that a server gives, and what it does not let be listed. The argument is the server. */
#include "check.h"
#include <sets.h>

static void members_have_headers(const char *server, int duplicates) {
    struct nf_set_options options = {.duplicates = duplicates};
    char url[128], headers[1024], little[8];
    const char *spec = url;
    sprintf(url, "%s/page", server);
    nf_set set = nf_set_open_with(&spec, 1, &options, sizeof options);
    int fd = nf_set_iterate(set);
    CHECK(fd > 0);
    int64_t length = nf_set_headers(set, fd, headers, sizeof headers);
    CHECK(length == (int64_t)strlen(headers) && headers[length - 1] == '\n');
    CHECK(strstr(headers, "content-type: text/plain; charset=latin1\n") != NULL);
    CHECK(nf_set_headers(set, fd, little, sizeof little) == length && strlen(little) == 7);
    FAILS(nf_set_headers(set, fd, NULL, 1), -1, EINVAL, "buffer is null");
    CHECK(close(fd) == 0);
    FAILS(nf_set_headers(set, 1 << 20, headers, sizeof headers), -1, EBADF, "descriptor");
    CHECK(nf_set_close(set) == 0);
}

static void a_file_has_none(void) {
    int fd = open("file", O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0 && close(fd) == 0);
    nf_set set = nf_set_open("file");
    CHECK((fd = nf_set_iterate(set)) > 0 && nf_set_headers(set, fd, NULL, 0) == 0);
    CHECK(close(fd) == 0 && nf_set_close(set) == 0);
}

/* That nothing is there is not said of what could not be listed. */
static void what_could_not_be_listed_is_told(const char *server) {
    char list[128], page[128];
    const char *specs[] = {list, page};
    sprintf(list, "@%s/denied", server);
    sprintf(page, "%s/page", server);
    nf_set set = nf_set_open(list);
    FAILS(nf_set_size(set), -1, EACCES, "/denied");
    FAILS(setSize(set), -1, EACCES, "/denied");
    FAILS(nf_set_member(set, "x"), -1, EACCES, "/denied");
    CHECK(nf_set_close(set) == 0);

    set = nf_set_open_with(specs, 2, NULL, 0);
    CHECK(nf_set_size(set) == 1 && nf_set_member(set, page) == 1);
    FAILS(nf_set_member(set, "x"), -1, EACCES, "/denied");
    CHECK(nf_set_close(set) == 0);

    set = nf_set_open("none/*");
    CHECK(nf_set_size(set) == 0 && nf_set_member(set, "x") == 0 && nf_set_close(set) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    members_have_headers(argv[1], NF_SAME_NAME);
    members_have_headers(argv[1], NF_SAME_CONTENT);
    a_file_has_none();
    what_could_not_be_listed_is_told(argv[1]);
    return 0;
}
