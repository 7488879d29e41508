/* The list of a server, in the argument, names a file of this machine. */
#include "check.h"

int main(int argc, char **argv) {
    struct nf_set_options allowed = {.allow_private_links = 1};
    const char *specs[] = {argv[1]};
    char text[8];
    CHECK(argc == 2);
    nf_set set = nf_set_open(argv[1]);
    FAILS(nf_set_iterate(set), -1, EINVAL, "unless private links are allowed");
    CHECK(nf_set_iterate(set) == 0 && nf_set_close(set) == 0);

    struct nf_set_options unset = {.allow_private_links = 0x5a5a5a5a};
    FAILS(nf_set_open_with(specs, 1, &unset, sizeof unset), -1, EINVAL, "allow_private_links is 0 or 1");
    unset = (struct nf_set_options){.allow_programs = -1};
    FAILS(nf_set_open_with(specs, 1, &unset, sizeof unset), -1, EINVAL, "allow_programs is 0 or 1");

    set = nf_set_open_with(specs, 1, &allowed, sizeof allowed);
    int fd = nf_set_iterate(set);
    CHECK(fd > 0 && read(fd, text, sizeof text) == 5 && memcmp(text, "near\n", 5) == 0);
    CHECK(close(fd) == 0 && nf_set_iterate(set) == 0 && nf_set_close(set) == 0);
    return 0;
}
