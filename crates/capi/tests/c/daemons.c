/* What daemons do: close their standard descriptors, and fork until numbers come again. */
#define _GNU_SOURCE
#include "check.h"
#include <sched.h>
#include <sets.h>
#include <sys/wait.h>

static void ends_well(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    // It has said why.
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) exit(77);
    CHECK(status == 0);
}

static void descriptors_that_are_closed_stay_closed(void) {
    pid_t child = fork();
    if (child == 0) {
        close(0), close(1), close(2);
        nf_set set = nf_set_open("file");
        for (int fd = 0; fd < 3; fd++)
            if (fcntl(fd, F_GETFD) != -1) _exit(2 + fd);
        _exit(set <= 0);
    }
    ends_well(child);
}

static void a_fork_of_the_same_number_is_told(void) {
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWPID) != 0) skip("no namespace of processes can be made");
        pid_t first = fork();
        if (first == 0) {
            nf_set set = nf_set_open("file");
            CHECK(set > 0 && getpid() == 1 && unshare(CLONE_NEWPID) == 0);
            pid_t second = fork();
            if (second == 0) {
                CHECK(getpid() == 1);
                FAILS(nf_set_open("file"), -1, EOPNOTSUPP, "fork");
                FAILS(nf_set_iterate(set), -2, EOPNOTSUPP, "fork");
                _exit(0);
            }
            ends_well(second);
            exit(0);
        }
        ends_well(first);
        exit(0);
    }
    ends_well(child);
}

int main(void) {
    FILE *file = fopen("file", "w");
    CHECK(file != NULL && fclose(file) == 0);
    descriptors_that_are_closed_stay_closed();
    a_fork_of_the_same_number_is_told();
    return 0;
}
