/* sleds.h: the calls of R. Van Meter and M. Gao, "Latency Management in
 * Storage Systems", OSDI 2000, section 4.2, by their names and arguments.
 * See docs/c.md.
 *
 * A call that fails answers -1, sets errno, and leaves a message for
 * nf_last_error() of nearfirst.h. All calls may be made from any thread. The
 * file offset of a descriptor is never moved.
 *
 * Generated from crates/capi/src/paper.rs; edits here are lost.
 */

#ifndef NEARFIRST_SLEDS_H
#define NEARFIRST_SLEDS_H

#include <stddef.h>
#include <stdint.h>

// In file order (the paper's attack plan).
#define SLEDS_LINEAR 0

// Near first.
#define SLEDS_BEST 1

// A byte range of a file with one estimate (the paper's figure 2).
struct sled {
  // Into the file.
  long offset;
  // Of the segment.
  long length;
  // In seconds, the median; NAN where nobody knows.
  float latency;
  // In bytes per second, the median; NAN where nobody knows, and 1e12
  // where the latency is all that is known.
  float bandwidth;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Begins to pick from the file open at `fd`, near first, in pieces of at most
// `preferred_size` bytes; 0 leaves the size to the library. A pick under way
// on `fd` ends.
//
// Returns the size of a piece, or -1 with `errno`: `EBADF`, `EISDIR`, `ESPIPE` (not a
// regular file), `EINVAL` (a negative size).
long sleds_pick_init(int fd, long preferred_size);

// As `sleds_pick_init`; with a `record_flag` other than 0 every piece starts
// at the start of a record and ends just after a `separator` or at the end of
// the file. A record longer than `preferred_size` comes whole: then the
// number of bytes is above that size.
//
// Returns the size of a piece, or -1 with `errno`: as `sleds_pick_init`, `EINVAL`
// too for a separator outside 0 to 255, `EREMOTEIO` if the file is offline and
// reading would recall it, or what reading the file gave.
long sleds_pick_init_records(int fd, long preferred_size, int record_flag, int separator);

// Advises where to read next: each byte of the file once.
//
// Returns 1 with a piece; 0, with no bytes, when nothing is left; -1 with
// `errno`: `EINVAL` (no pick was begun on `fd`, or a pointer is null), `EBADF` (the
// descriptor was closed, or is another file by now), `EOVERFLOW` (the offset or
// the number of bytes does not fit: the piece is kept for the next call), or
// what looking for the end of a record gave.
//
// The caller's part:
// `offset` and `nbytes` may be written.
int sleds_pick_next_read(int fd, long *offset, long *nbytes);

// As `sleds_pick_next_read`, which calls it with integers of any size:
// `offset_size` and `nbytes_size` are theirs in bytes, 4 or 8.
//
// The caller's part:
// `offset` and `nbytes` may be written with integers of these sizes.
int sleds_pick_next_read_as(int fd,
                            void *offset,
                            size_t offset_size,
                            void *nbytes,
                            size_t nbytes_size);

// Ends the pick on `fd`, which stays open.
//
// Returns 0, or -1 with `errno` `EINVAL` if no pick was begun on it, or it has ended.
int sleds_pick_finish(int fd);

// Estimates the seconds that reading all of the file open at `fd` takes by
// `attack_plan`, `SLEDS_LINEAR` or `SLEDS_BEST`: the median.
//
// Returns NAN with `errno` `ENODATA` where the cost of some part is not known;
// -1 with `errno` otherwise: `EBADF`, `EISDIR`, `ESPIPE`, or `EINVAL` for another plan.
double sleds_total_delivery_time(int fd, int attack_plan);

// The sleds of the file open at `fd` (the paper's `FSLEDS_GET`), in file order.
//
// Writes at most `capacity` of them and returns how many there are, as
// snprintf does; -1 with `errno`: `EBADF`, `EISDIR`, `ESPIPE`, `EINVAL` (`array` is
// null), `EOVERFLOW` (an offset or a length does not fit a long).
//
// The caller's part:
// `array` has room for `capacity` sleds; with a capacity of 0 it may be null.
long sleds_get(int fd, struct sled *array, size_t capacity);

// Sets what a device takes (the paper's `FSLEDS_FILL`), in seconds and bytes
// per second, for this process; `device` is a name as `nf_device_of` gives it.
//
// Returns 0, or -1 with `errno` `EINVAL`: `device` is null, empty or not UTF-8, or
// a number is not between 1e-15 and 1e18.
//
// The caller's part:
// `device` ends with a NUL.
int sleds_fill(const char *device, float latency, float bandwidth);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/* The paper's text gives sleds_pick_init the record flag and the separator, its
 * figure 5 leaves them out. Both forms work:
 *     sleds_pick_init(fd, size)
 *     sleds_pick_init(fd, size, record_flag, separator)
 */
#define sleds_pick_init(...) \
    SLEDS_FIFTH_(__VA_ARGS__, sleds_pick_init_records, SLEDS_NEEDS_A_SEPARATOR_, \
                 sleds_pick_init, SLEDS_NEEDS_A_SIZE_, 0)(__VA_ARGS__)
#define SLEDS_FIFTH_(a, b, c, d, fifth, ...) fifth

/* The paper's figure 5 passes pointers to int. Pointers to int, long, off_t and
 * size_t all work, each by its own size; a pointer to anything but an integer
 * does not compile (that is what `% 1` is for).
 */
#define sleds_pick_next_read(fd, offset, nbytes) \
    sleds_pick_next_read_as((fd), (offset), SLEDS_SIZEOF_(offset), (nbytes), SLEDS_SIZEOF_(nbytes))
#define SLEDS_SIZEOF_(pointer) (sizeof(*(pointer)) + 0 * sizeof(*(pointer) % 1))

#endif  /* NEARFIRST_SLEDS_H */
