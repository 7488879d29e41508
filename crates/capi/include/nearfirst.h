/* nearfirst.h: where the parts of a file are, what reading them costs, and in
 * which order to read them. See docs/c.md.
 *
 * A call that fails answers -1 (or as its comment says), sets errno, and
 * leaves a message for nf_last_error(). All calls may be made from any thread.
 * The file offset of a descriptor is never moved.
 *
 * Generated from crates/capi/src; edits here are lost.
 */

#ifndef NEARFIRST_H
#define NEARFIRST_H

#include <stddef.h>
#include <stdint.h>

// In place of a separator: pieces are cut anywhere.
#define NF_NO_RECORDS -1

// In memory, or a hole: nothing has to be fetched.
#define NF_NEAR 0

// On its device.
#define NF_FAR 1

// The system does not say whether it is in memory or on its device.
#define NF_UNKNOWN 2

// On a tier that must first recall it, such as tape.
#define NF_COLD 3

// In file order: the latency of a device is paid each time it is entered.
#define NF_LINEAR 0

// Near first: the latency of each device is paid once.
#define NF_BEST 1

// A quantity by its median and by its bad case.
struct nf_spread {
  // The median.
  double p50;
  // The bad case: of times the 90th percentile, of bandwidths the 10th.
  double p90;
};

// What a device takes to deliver.
struct nf_estimate {
  // Seconds to the first byte.
  struct nf_spread latency;
  // Bytes per second once flowing.
  struct nf_spread bandwidth;
};

// A pick under way: a positive number, never used twice in a process, so that
// a finished pick is an error and not a crash.
typedef int64_t nf_pick;

// A piece of a file to read next.
struct nf_piece {
  // First byte.
  uint64_t offset;
  // Bytes; 0 at the end only.
  uint64_t length;
  // The device it would be fetched from; valid until the process ends, not
  // to be freed. Null at the end.
  const char *device;
  // Where it was when last asked: `NF_NEAR`, `NF_FAR`, `NF_UNKNOWN` or `NF_COLD`.
  int place;
};

// A byte range of a file with one estimate.
struct nf_sled {
  // First byte.
  uint64_t offset;
  // Bytes; never 0.
  uint64_t length;
  // Seconds to the first byte; NAN where nobody knows.
  struct nf_spread latency;
  // Bytes per second once flowing; NAN where nobody knows.
  struct nf_spread bandwidth;
  // The device it would be fetched from, such as "disk:sda"; valid until
  // the process ends, not to be freed.
  const char *device;
  // `NF_NEAR`, `NF_FAR`, `NF_UNKNOWN` or `NF_COLD`.
  int place;
};

// The estimated time to read a whole file.
struct nf_delivery_time {
  // Seconds for the part whose cost is known.
  struct nf_spread seconds;
  // Bytes whose cost nobody knows; they come on top.
  uint64_t unknown_bytes;
  // Bytes that must be recalled first; those with an estimate are in the seconds too.
  uint64_t cold_bytes;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Writes down what `nf_device_fill` set in the device table on disk: root's
// is the system's, others have one of their own (`$NEARFIRST_STATE` stands in
// for both). Devices that were not filled stay as they are there.
//
// Returns 0, or -1 with `errno`: `EACCES` or `EROFS` where the table cannot be written.
int nf_save(void);

// What was wrong with the device tables when they were loaded, a line for
// each; empty as a rule. A broken table is set aside under the name given here.
//
// Writes at most `capacity` bytes, the NUL among them, and returns the length
// of the whole text without the NUL, as snprintf does; or -1 with `errno`.
//
// The caller's part:
// `buffer` has room for `capacity` bytes; with a capacity of 0 it may be null.
int64_t nf_warnings(char *buffer, size_t capacity);

// The version of the library, such as "0.1.0". Never null, not to be freed.
const char *nf_version(void);

// Sets what a device takes (the paper's `FSLEDS_FILL`), in seconds and bytes
// per second, for this process; `nf_save` writes it down.
//
// Returns 0, or -1 with `errno` `EINVAL`: `device` is null, empty or not
// UTF-8, or a number is not finite and above 0.
//
// The caller's part:
// `device` ends with a NUL.
int nf_device_fill(const char *device, double latency, double bandwidth);

// Sets what the device takes that the file open at `fd` lies on; as `nf_device_fill`.
//
// Returns 0, or -1 with `errno`: `EBADF`, or `EINVAL` for the numbers.
int nf_device_fill_fd(int fd, double latency, double bandwidth);

// The name of the device that the file open at `fd` lies on, such as
// "disk:sda" or "nfs:host:/export".
//
// Writes at most `capacity` bytes, the NUL among them, and returns the length
// of the whole name without the NUL, as snprintf does; or -1 with `errno`:
// `EBADF`, or `EINVAL` (`buffer` is null).
//
// The caller's part:
// `buffer` has room for `capacity` bytes; with a capacity of 0 it may be null.
int64_t nf_device_of(int fd, char *buffer, size_t capacity);

// What the device table says of fetching `bytes` from `device`.
//
// Returns 1; 0 where nobody knows, with NAN for every number; or -1 with
// `errno` `EINVAL` for a null pointer or a name that is empty or not UTF-8.
//
// The caller's part:
// `device` ends with a NUL; `estimate` may be written.
int nf_device_estimate(const char *device, uint64_t bytes, struct nf_estimate *estimate);

// The message of the last call that failed on this thread; empty if none has.
//
// Never null. It stays until the next call that fails on this thread, or the
// thread's end; it is not to be freed.
const char *nf_last_error(void);

// Begins to pick from the regular file open at `fd`: the pieces that
// `nf_pick_next` hands out are at most `piece_bytes` long (0 leaves the size
// to the library) and come by `plan`, `NF_BEST` (near first) or `NF_LINEAR`.
//
// With a `separator`, a byte from 0 to 255, every piece starts at the start of
// a record and ends with one or at the end of the file; a record longer than
// `piece_bytes` comes whole. To find the ends of records the library reads
// from the file, which must be open for reading. `NF_NO_RECORDS` asks for plain pieces.
//
// The descriptor stays the caller's, who keeps it open while picking; its
// file offset is never moved. What is handed out is the file as long as it is
// now: what is appended later is not.
//
// Returns the pick, or -1 with `errno`: `EBADF`, `EISDIR`, `ESPIPE`, `EINVAL`
// for another separator or plan, or what reading the file gave.
nf_pick nf_pick_init(int fd, uint64_t piece_bytes, int separator, int plan);

// Hands out the next piece; over all calls each byte of the file once.
// Threads may share a pick: each piece goes to one of them.
//
// Where the file is, is asked again now and then (`nf_pick_refresh`): once a
// 32nd of the file has been handed out and nothing near is left, and once an
// eighth has while something is.
//
// Returns 1 with a piece; 0, with a length of 0, when nothing is left; -1 with
// `errno`: `EINVAL` (no such pick, or `piece` is null), `EBADF` (the
// descriptor was closed, or is another file by now), or what looking for the
// end of a record gave: then the pick cannot go on.
//
// The caller's part:
// `piece` may be written.
int nf_pick_next(nf_pick pick, struct nf_piece *piece);

// Asks again where the rest of the file is: what arrived in memory meanwhile
// is handed out early, what left is put back.
//
// Returns 0, or -1 with `errno` as `nf_pick_next`; after a failure the pick
// goes on by the last answer.
int nf_pick_refresh(nf_pick pick);

// Ends a pick; the descriptor stays open.
//
// Returns 0, or -1 with `errno` `EINVAL` if there is no such pick (any more).
int nf_pick_finish(nf_pick pick);

// The sleds of the regular file open at `fd`, in file order.
//
// Writes at most `capacity` of them to `array` and returns how many there
// are, as snprintf does: a call with a capacity of 0 only counts. An empty
// file has none. On failure -1 with `errno`: `EBADF`, `EISDIR`, `ESPIPE` (not
// a regular file), `EINVAL` (`array` is null).
//
// The caller's part:
// `array` has room for `capacity` sleds; with a capacity of 0 it may be null.
int64_t nf_sleds_get(int fd, struct nf_sled *array, size_t capacity);

// The sleds of the file at `path`; as `nf_sleds_get`.
//
// The file is opened only where that does no harm: a file that is offline is
// `NF_COLD` and is not recalled. What is not a regular file has no sleds. On
// failure -1 with `errno` as open(2) sets it, or `ETIMEDOUT` where the mount
// does not answer.
//
// The caller's part:
// `path` ends with a NUL; `array` has room for `capacity` sleds; with a
// capacity of 0 it may be null.
int64_t nf_sleds_get_path(const char *path, struct nf_sled *array, size_t capacity);

// Estimates the time to read all of the regular file open at `fd` by `plan`,
// `NF_LINEAR` or `NF_BEST`.
//
// Returns 0, or -1 with `errno`: `EBADF`, `EISDIR`, `ESPIPE`, or `EINVAL` for
// another plan or a null `time`.
//
// The caller's part:
// `time` may be written.
int nf_delivery_time(int fd, int plan, struct nf_delivery_time *time);

// Estimates the time to read all of the file at `path`; as `nf_delivery_time`
// and, for when the file is opened and for the errors, `nf_sleds_get_path`.
//
// The caller's part:
// `path` ends with a NUL; `time` may be written.
int nf_delivery_time_path(const char *path, int plan, struct nf_delivery_time *time);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NEARFIRST_H */
