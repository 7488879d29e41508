/* Sleds, delivery times by plan, and the device table. */
#include "check.h"
#include <math.h>
#include <sleds.h>

enum { SIZE = 8 << 20 };
static char content[SIZE];

static int near_to(double a, double b) { return fabs(a - b) <= 1e-6 * fabs(b); }

int main(void) {
    struct nf_sled sleds[4], by_path[4];
    struct sled old[4];
    struct nf_delivery_time linear, best;
    struct nf_estimate estimate;
    char device[256], cut[4];
    memset(content, 'x', SIZE);
    make_partly_cached("costs.data", content, SIZE);
    int fd = open("costs.data", O_RDONLY);
    CHECK(fd > 2 && close(0) == 0);

    /* A device that nobody measured is not known, and not taken to be fast. */
    CHECK(nf_sleds_get(fd, NULL, 0) == 2 && nf_sleds_get(fd, sleds, 4) == 2);
    CHECK(sleds[0].offset == 0 && sleds[0].length == SIZE / 2 && sleds[0].place == NF_FAR);
    CHECK(sleds[1].offset == SIZE / 2 && sleds[1].length == SIZE / 2);
    CHECK(sleds[1].place == NF_NEAR && strcmp(sleds[1].device, "memory") == 0);
    CHECK(isnan(sleds[0].latency.p50) && isnan(sleds[0].bandwidth.p90));
    CHECK(nf_delivery_time(fd, NF_BEST, &best) == 0 && best.unknown_bytes == SIZE / 2);
    /* What the library keeps open has no number of a standard stream. */
    CHECK(open("costs.data", O_RDONLY) == 0);
    errno = 0;
    CHECK(isnan(sleds_total_delivery_time(fd, SLEDS_BEST)) && errno == ENODATA);
    CHECK(strstr(nf_last_error(), sleds[0].device) != NULL);

    /* The paper's table 2. */
    CHECK(nf_device_of(fd, device, sizeof device) == (int64_t)strlen(device));
    CHECK(strcmp(device, sleds[0].device) == 0);
    CHECK(nf_device_of(fd, cut, sizeof cut) == (int64_t)strlen(device) && strlen(cut) == 3);
    CHECK(nf_device_fill_fd(fd, 0.018, 9e6) == 0);
    CHECK(sleds_fill("memory", 175e-9f, 48e6f) == 0);
    CHECK(nf_device_estimate(device, 1 << 20, &estimate) == 1);
    CHECK(near_to(estimate.latency.p50, 0.018) && near_to(estimate.bandwidth.p90, 9e6));

    CHECK(nf_sleds_get(fd, sleds, 4) == 2 && nf_sleds_get_path("costs.data", by_path, 4) == 2);
    CHECK(sleds_get(fd, old, 4) == 2);
    double once = 0.018 + 175e-9, transfer = SIZE / 2 / 9e6 + SIZE / 2 / 48e6;
    for (int i = 0; i < 2; i++) {
        CHECK(by_path[i].offset == sleds[i].offset && by_path[i].length == sleds[i].length);
        CHECK(by_path[i].device == sleds[i].device && by_path[i].place == sleds[i].place);
        CHECK(old[i].offset == (long)sleds[i].offset && old[i].length == (long)sleds[i].length);
        CHECK(near_to(old[i].latency, sleds[i].latency.p50));
        CHECK(near_to(old[i].bandwidth, sleds[i].bandwidth.p50));
    }
    CHECK(near_to(old[0].latency, 0.018f) && near_to(old[1].bandwidth, 48e6f));

    /* Less room than sleds: the count is still whole, and no more is written. */
    memset(old, 0x55, sizeof old);
    CHECK(sleds_get(fd, old, 1) == 2 && old[0].length == SIZE / 2);
    for (size_t i = 0; i < sizeof *old; i++) CHECK(((char *)&old[1])[i] == 0x55);

    CHECK(nf_delivery_time(fd, NF_LINEAR, &linear) == 0);
    CHECK(nf_delivery_time_path("costs.data", NF_BEST, &best) == 0);
    CHECK(linear.unknown_bytes == 0 && best.unknown_bytes == 0 && best.cold_bytes == 0);
    CHECK(near_to(linear.seconds.p50, once + transfer));
    CHECK(near_to(best.seconds.p50, once + transfer));
    CHECK(near_to(sleds_total_delivery_time(fd, SLEDS_LINEAR), linear.seconds.p50));

    /* With one page more in memory, file order enters the disk and memory twice; near first, once. */
    CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) == 0);
    CHECK(pread(fd, cut, 1, SIZE / 4) == 1);
    CHECK(nf_sleds_get(fd, sleds, 4) == 4);
    CHECK(nf_delivery_time(fd, NF_LINEAR, &linear) == 0);
    CHECK(nf_delivery_time(fd, NF_BEST, &best) == 0);
    CHECK(near_to(linear.seconds.p50 - best.seconds.p50, once));

    CHECK(nf_save() == 0);
    CHECK(close(fd) == 0);
    return 0;
}
