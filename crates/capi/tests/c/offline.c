/* A file that is offline is cold by its descriptor, too, and is not read to find its records. */
#include "check.h"
#include <math.h>
#include <sleds.h>
#include <sys/wait.h>

static int is_near(const char *name, const struct nf_properties *known, void *data) {
    CHECK(data == NULL && strcmp(name, "stub") == 0 && known->size == 1 << 20);
    return !known->cold;
}

int main(void) {
    struct nf_sled sled;
    struct nf_delivery_time time;
    int status;
    int fd = open("stub", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 1 << 20) == 0);

    /* A process reads the table once, so another one asks for the name of the device. */
    pid_t other = fork();
    CHECK(other >= 0);
    if (other == 0) {
        char device[256];
        CHECK(nf_device_of(fd, device, sizeof device) > 0);
        FILE *table = fopen("state/devices.toml", "w");
        CHECK(table != NULL);
        fprintf(table, "version = 1\n[device.\"%s\"]\nhas_stubs = true\n", device);
        CHECK(fclose(table) == 0);
        return 0;
    }
    CHECK(waitpid(other, &status, 0) == other && status == 0);

    /* What the disk before the tape takes says nothing of the tape. */
    CHECK(nf_device_fill_fd(fd, 0.001, 1e9) == 0);
    CHECK(nf_sleds_get(fd, &sled, 1) == 1 && sled.place == NF_COLD && sled.length == 1 << 20);
    CHECK(nf_delivery_time(fd, NF_BEST, &time) == 0 && time.cold_bytes == 1 << 20);
    CHECK(time.unknown_bytes == 1 << 20 && isnan(sleds_total_delivery_time(fd, SLEDS_BEST)));
    CHECK(strstr(nf_last_error(), "it must be recalled first") != NULL);
    errno = 0;
    CHECK(nf_pick_init(fd, 0, '\n', NF_BEST) == -1 && errno == EREMOTEIO);
    errno = 0;
    CHECK(sleds_pick_init(fd, 0, 1, '\n') == -1 && errno == EREMOTEIO);
    nf_set set = nf_set_open("stub"), near = nf_set_restrict(set, is_near, NULL, NULL);
    struct nf_properties known;
    CHECK(nf_set_digest(set, 0, NULL, 0, &known) == 4 && known.cold == 1);
    CHECK(nf_set_size(near) == 0);
    CHECK(nf_set_close(near) == 0 && nf_set_close(set) == 0 && close(fd) == 0);
    return 0;
}
