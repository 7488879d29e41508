/* exit() ends the programs that list names, and that of a fork leaves them alone. */
#include "check.h"
#include <pthread.h>
#include <sets.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void *waits(void *set) {
    nf_set_iterate(*(nf_set *)set);
    return NULL;
}

/* The state of a process, as a letter. */
static char state_of(int pid) {
    char path[64], state = 0;
    sprintf(path, "/proc/%d/stat", pid);
    FILE *stat = fopen(path, "r");
    CHECK(stat != NULL && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1 && fclose(stat) == 0);
    return state;
}

int main(void) {
    const char *const specs[] = {"%./list.sh%"};
    struct nf_set_options allowed = {.allow_programs = 1};
    pthread_t thread;
    int pid, status;
    FILE *script = fopen("list.sh", "w");
    CHECK(script != NULL);
    fputs("#!/bin/sh\necho $$ > new; mv new pid\nexec sleep 1000 2>/dev/null\n", script);
    CHECK(fclose(script) == 0 && chmod("list.sh", 0700) == 0);
    nf_set set = nf_set_open_with(specs, 1, &allowed, sizeof allowed);
    CHECK(set > 0 && pthread_create(&thread, NULL, waits, &set) == 0);
    FILE *number = NULL;
    for (int tries = 0; tries < 2000 && (number = fopen("pid", "r")) == NULL; tries++) usleep(10000);
    CHECK(number != NULL && fscanf(number, "%d", &pid) == 1 && fclose(number) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) exit(0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(strchr("RSD", state_of(pid)) != NULL);
    exit(0);
}
