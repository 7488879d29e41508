/* nearfirst.h: where the parts of a file are, what reading them costs, and in
 * which order to read them; and sets of objects, brought near. See docs/c.md.
 *
 * A call that fails answers -1 (or as its comment says), sets errno, and
 * leaves a message for nf_last_error(). All calls may be made from any thread.
 * The file offset of a descriptor of the caller's is never moved.
 *
 * Generated from crates/capi/src; edits here are lost.
 */

#ifndef NEARFIRST_H
#define NEARFIRST_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus) && defined(__GNUC__)
/* A call has the name of the structure that it fills. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

// What is ready first; of that the highest rank, then the largest.
#define NF_ORDER_READY 0

// As the names are listed: a slow member holds up all behind it.
#define NF_ORDER_LISTED 1

// By name, byte by byte: nothing comes before all names are known.
#define NF_ORDER_NAME 2

// By rank, which is to be given, the highest first, then by name: nothing comes before all names
// are known.
#define NF_ORDER_RANK 3

// The names of `replay` first, in that order, then others as they are listed: nothing comes before
// all names are known.
#define NF_ORDER_REPLAY 4

// Members of the same name are one: known before anything is fetched.
#define NF_SAME_NAME 0

// Members of the same content are one too: known when they have been fetched.
#define NF_SAME_CONTENT 1

// In place of a separator: pieces are cut anywhere.
#define NF_NO_RECORDS (-1)

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

// The number of an open set: the lowest that is free from 1 up, as
// descriptors have; a table of its own.
typedef int nf_set;

// What is known of an object without its bytes. Of a file of this machine the
// system is asked when somebody is to be told, which takes as long as its mount
// takes to answer, up to a few seconds.
struct nf_properties {
  // Bytes; -1 where nobody told.
  int64_t size;
  // When its content last changed, in seconds since 1970; NAN where nobody told.
  double modified;
  // 1 if it must be recalled from a cold tier before it can be read; else 0.
  int cold;
};

// A member that was handed out.
struct nf_member {
  // The caller's to read and close; -1 if the member cannot be read.
  int fd;
  // Bytes of its name, without the NUL, however much room there was.
  size_t name_bytes;
  // Its size is known once it is handed out.
  struct nf_properties properties;
};

// Says whether a member belongs to a subset: 0 if not. Called as `nf_rank` is.
typedef int (*nf_predicate)(const char *name,
                            const struct nf_properties *properties,
                            void *data);

// Told that `data` is not used any more: by any thread, once, when the sets
// that were made with it are closed and what they had under way has ended, or
// the call that it was passed to has failed, unless that was passed a wrong size
// of its options. It makes no calls on sets.
typedef void (*nf_release)(void *data);

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

// Gives the priority of a member: higher is sooner; not a number is 0.
//
// The library's threads call it, several at once, before the member is
// fetched; `name` and `properties` are valid until it returns. It makes no
// calls on sets (`EDEADLK`), and throws nothing; others it may make.
typedef double (*nf_rank)(const char *name,
                          const struct nf_properties *properties,
                          void *data);

// How a set is opened; all zero is the default. Later versions may add fields at its end, which is why its
// size is passed with it.
//
// Sets for which `allow_private_links`, `recall_days` and all from `budget_bytes` on are the same
// share what these allow: the memory, the disk and the requests are those of all of them together.
struct nf_set_options {
  // `NF_ORDER_READY` or another `NF_ORDER_`.
  int order;
  // `NF_SAME_NAME` or `NF_SAME_CONTENT`.
  int duplicates;
  // 1: programs that specs name are run; 0: they are `EPERM`.
  int allow_programs;
  // 1: links of public pages to private networks and to files of this machine are followed; 0: they
  // are not.
  int allow_private_links;
  // The priority of each member; null: all the same.
  nf_rank rank;
  // Passed to `rank` and `release`.
  void *data;
  // Called when `data` is not used any more, also if the set cannot be opened, but not if `size` is
  // wrong; may be null.
  nf_release release;
  // With `NF_ORDER_REPLAY`, and only then: the names to come first, as `nf_set_order_taken` told
  // them; they are copied.
  const char *const *replay;
  // How many there are.
  size_t replay_count;
  // 1: specs are the names of objects as they stand, and nothing in them is a wildcard, a list or
  // a query; 0: they are specs.
  int names_as_they_stand;
  // Days that what lies in cold storage is asked to be restored for, which its store charges for;
  // 0: nothing is asked for. It is asked for when the first member is, and only what is to be
  // handed out; of files of this machine that are offline nothing is asked.
  uint32_t recall_days;
  // Seconds that each of them is waited for, at most, while others come, as far as the order
  // allows; `INFINITY`: as long as it takes; 0: it is not waited for, and is `EREMOTEIO`.
  double wait_s;
  // Bytes of memory for what is fetched and not read yet; 0: 256 MiB, or a quarter of what this
  // process could still have if that is less.
  uint64_t budget_bytes;
  // Bytes that may lie on disk because the budget was full; 0: 4 GiB; less than 0: none.
  int64_t spill_bytes;
  // The folder for them, and for copies that descriptors of members above 8 MiB are made of;
  // null: `$TMPDIR`, else `/tmp`, or `/var/tmp` where that is in memory.
  const char *spill_folder;
  // Requests to one server or bucket at a time, at most; 0: 256.
  uint32_t window_max;
  // How often a part of a member is tried without getting on, at most; 0: 5.
  uint32_t attempts_max;
  // Seconds that a request may bring nothing; 0: 20, 30 where it lists or asks a question, and 600 for a
  // program that prints names.
  double stall_s;
  // Options of object stores, each as `NAME=VALUE`, over those of the environment; they are copied.
  const char *const *storage;
  // How many there are.
  size_t storage_count;
};

// A byte range of a file with one estimate.
struct nf_sled {
  // First byte.
  uint64_t offset;
  // Bytes; never 0.
  uint64_t length;
  // Seconds to the first byte; NAN where nobody knows.
  struct nf_spread latency;
  // Bytes per second once flowing; NAN where nobody knows, and 1e12 where
  // the latency is all that is known.
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

// What a set is at. Later versions may add fields at its end. All but `names` is of all sets that share what their options allow.
struct nf_set_stats {
  // Names that are known so far, what could not be listed among them.
  uint64_t names;
  // Requests for data that are in flight.
  uint64_t in_flight;
  // Requests for data that were made.
  uint64_t requests;
  // Requests that were made again, since the one before failed.
  uint64_t retries;
  // Requests that were made beside one that was late.
  uint64_t hedges;
  // Requests that a server turned away, since it was busy.
  uint64_t refusals;
  // Requests that brought nothing for too long.
  uint64_t stalls;
  // Bytes that were fetched and not read, and the room that is kept for what may come: of an object
  // whose size nobody told, that is for as much as one request asks for.
  uint64_t held_bytes;
  // The most that these were.
  uint64_t held_bytes_max;
  // Bytes that lie on disk because the budget was full.
  uint64_t spilled_bytes;
  // Bytes that were put there so far.
  uint64_t spilled_bytes_total;
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
// UTF-8, or a number is not between 1e-15 and 1e18. More than 1e12 bytes per
// second are taken for 1e12.
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

// Whether `name` is a member; waits until listing meets it, or ends.
//
// What could not be listed is left out, and told where `name` was not met.
//
// Returns 1 or 0, or -1 with `errno`: `EBADF` (no such set, or it was
// closed meanwhile), `EINVAL` (null), or that of what could not be listed.
//
// The caller's part:
// `name` ends with a NUL.
int nf_set_member(nf_set set, const char *name);

// How many members there are; waits until listing ends.
//
// What could not be listed is left out, and told where there are none; `nf_set_digest`
// and `nf_set_iterate` tell of it in any case.
//
// Returns the number, or -1 with `errno` `EBADF` (no such set, or it was closed meanwhile),
// or that of what could not be listed.
int64_t nf_set_size(nf_set set);

// The name and the properties of the `index`-th member, from 0 on in the order
// that they become known, waiting for it. Nothing is fetched.
//
// Writes at most `capacity` bytes of the name, the NUL among them, and
// `properties` unless it is null. Returns the length of the whole name without
// the NUL; 0 past the last; -1 with `errno`: `EBADF` (no such set, or it was closed
// meanwhile), `EINVAL` (`name` is null), or that of a listing which failed at this
// place: the next index goes on. Such places are counted, so that there may be more of them than
// `nf_set_size` says members: go on until 0 is returned.
//
// The caller's part:
// `name` has room for `capacity` bytes; `properties` is null or may be written.
int64_t nf_set_digest(nf_set set,
                      uint64_t index,
                      char *name,
                      size_t capacity,
                      struct nf_properties *properties);

// The message of the last call that failed on this thread; empty if none has.
//
// Never null. It stays until the next call that fails on this thread, or the
// thread's end; it is not to be freed.
const char *nf_last_error(void);

// Waits for a member that was not handed out yet, whichever is ready, and
// gives a descriptor at its beginning that can be read and sought in, the
// caller's to close. Threads may share a set: each member goes to one of them.
//
// A file of this machine is open for reading itself, and what is written to it
// meanwhile is the caller's to notice; an object of a server is whole in memory,
// or in a file without a name if it is large. A descriptor is never 0 (nor 1 or
// 2), and is closed on exec.
//
// Returns a descriptor; 0 after the last member; -1 with `errno` and its name
// in `nf_last_error` if a member, or a listing, cannot be read (`ENOENT`, `EACCES`,
// `EISDIR`, `EREMOTEIO` and the others that docs/c.md lists): the others go on with
// the next call. -2 if the call is none: `errno` `EBADF` (no such set, or
// it was closed meanwhile), `EOPNOTSUPP` (a fork), `EDEADLK` (in a function that
// a set calls).
int nf_set_iterate(nf_set set);

// As `nf_set_iterate`, and says which member it is: in `member`, and its name
// in `name`, of which at most `capacity` bytes are written, the NUL among them.
// The name is there for a member that cannot be read too.
//
// Returns 1 with a member; 0 after the last; -1 and -2 as `nf_set_iterate`;
// -2 with `errno` `EINVAL` too if `member` is null, or `name` is and has a capacity.
//
// The caller's part:
// `member` may be written, and `name` has room for `capacity` bytes.
int nf_set_iterate_member(nf_set set,
                          struct nf_member *member,
                          char *name,
                          size_t capacity);

// As `nf_set_iterate_member`, waiting no longer than `limit_s` seconds; with 0 it
// does not wait.
//
// Returns as `nf_set_iterate_member`; -2 with `errno` `ETIMEDOUT` too if no member
// was ready in that time: what is on its way goes on, and the next call may have
// it; -2 with `EINVAL` too if `limit_s` is less than 0 or not a number.
//
// The caller's part:
// `member` may be written, and `name` has room for `capacity` bytes.
int nf_set_iterate_timed(nf_set set,
                         double limit_s,
                         struct nf_member *member,
                         char *name,
                         size_t capacity);

// A descriptor that is readable when `nf_set_iterate_timed` with a limit of 0 is worth
// a call, for `poll`, epoll and event loops: when a member is ready or nearer, or cannot
// be read, and after the last. It is at first: that call begins to fetch. It may be
// when no member is ready: the call is `ETIMEDOUT` then, and the descriptor silent
// until there is more.
//
// It is the set's, the same at each call, also after the set began anew, and is
// neither read nor closed by the caller; `nf_set_close` closes it, then or soon after:
// the loop is to let go of it before.
//
// Returns it, or -1 with `errno`: `EBADF` (no such set), `EMFILE` (no descriptors),
// `EOPNOTSUPP` (a fork), `EDEADLK` (in a function that a set calls).
int nf_set_descriptor(nf_set set);

// Opens the set of what is in either set. Both stay open, and what was made of
// them goes on when they are closed. Members are read with what `left` allows.
//
// Returns the new set, or -1 with `errno`: `EBADF` (no such set), `EMFILE`.
nf_set nf_set_union(nf_set left, nf_set right);

// Opens the set of what is in both sets; as `nf_set_union`.
nf_set nf_set_intersect(nf_set left, nf_set right);

// Opens the set of what is in `left` and not in `right`, which is listed whole
// first; as `nf_set_union`.
nf_set nf_set_difference(nf_set left, nf_set right);

// Opens the set of those members of `set` of which `predicate` does not say 0.
//
// `release` (it may be null) is called when `data` is not used any more, also
// if this call fails. Returns the new set, or -1 with `errno`: `EBADF`,
// `EINVAL` (`predicate` is null), `EMFILE`.
//
// The caller's part:
// `predicate`, `data` and `release` may be used from any thread until
// `release` is called.
nf_set nf_set_restrict(nf_set set,
                       nf_predicate predicate,
                       void *data,
                       nf_release release);

// Begins to pick from the regular file open at `fd`: the pieces that
// `nf_pick_next` hands out are at most `piece_bytes` long (0 leaves the size
// to the library) and come by `plan`, `NF_BEST` (near first) or `NF_LINEAR`.
//
// With a `separator`, a byte from 0 to 255, every piece starts at the start of
// a record and ends with one or at the end of the file; a record longer than
// `piece_bytes` comes whole; to find the ends of records the library reads
// from the file. `NF_NO_RECORDS` asks for plain pieces.
//
// The descriptor stays the caller's, who keeps it open while picking; its
// file offset is never moved. What is handed out is the file as long as it is
// now: what is appended later is not.
//
// Returns the pick, or -1 with `errno`: `EBADF` (not open, or not for reading), `EISDIR`,
// `ESPIPE`, `EINVAL` for another separator or plan, `EREMOTEIO` with a separator if the file is
// offline and reading would recall it, or what reading the file gave.
nf_pick nf_pick_init(int fd,
                     uint64_t piece_bytes,
                     int separator,
                     int plan);

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
// end of a record gave: then nothing was handed out, and the next call tries again.
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

// Opens the set of the objects that `spec` stands for: a pattern over paths or
// URLs, a query, a list. docs/c.md says how specs are written.
//
// Nothing is fetched before the first member is asked for. Relative names are
// relative to the working directory at the time that they are read.
//
// Returns the set, or -1 with `errno`: `EINVAL` (null, or text that cannot be
// understood), `EPERM` (it names a program), `EMFILE` (1024 sets are open),
// `EOPNOTSUPP` (a fork of a process that used sets), `EAGAIN` (no threads), or
// that of a configuration that cannot be read. A spec that no object satisfies
// opens, also an empty one; its only member is the error.
//
// The caller's part:
// `spec` ends with a NUL.
nf_set nf_set_open(const char *spec);

// Opens the set of the objects that any of `count` specs stands for. `size` is
// `sizeof (struct nf_set_options)`.
//
// Returns the set, or -1 with `errno`: as `nf_set_open`, `EINVAL` too for an
// option that is none and a `size` below that of the first version, `E2BIG` for an
// option that only a later version knows, and why the spill folder cannot be written to. With
// `options` null it opens as by default, whatever `size` is.
//
// The caller's part:
// `options` is null or may be read for `size` bytes;
// `specs` are `count` strings that end with a NUL, `replay` and `storage` as many
// as they say; so is `spill_folder`, or null. `rank`, `data` and `release` may be
// used from any thread until `release` is called.
nf_set nf_set_open_with(const char *const *specs,
                        size_t count,
                        const struct nf_set_options *options,
                        size_t size);

// The name of the member that `set` gave the descriptor `fd` for.
//
// Writes at most `capacity` bytes, the NUL among them, and returns the length
// of the whole name without the NUL, as snprintf does; -1 with `errno`: `EBADF`
// (no such set, or `fd` is closed), `EINVAL` (`fd` is no member of it, or is
// another file by now; `buffer` is null).
//
// The caller's part:
// `buffer` has room for `capacity` bytes; with a capacity of 0 it may be null.
int64_t nf_set_member_name(nf_set set, int fd, char *buffer, size_t capacity);

// The headers that the member came with which `set` gave the descriptor `fd` for,
// a line `name: value` for each; none of a file of this machine, and where its
// store keeps none.
//
// Writes and returns as `nf_set_member_name`; -1 with `errno` as that.
//
// The caller's part:
// `buffer` has room for `capacity` bytes; with a capacity of 0 it may be null.
int64_t nf_set_headers(nf_set set, int fd, char *buffer, size_t capacity);

// The name of the `index`-th member that was handed out, from 0 on in the order
// that they were; members that could not be read are left out. What was handed out
// before the set began anew is forgotten.
//
// Writes at most `capacity` bytes, the NUL among them, and returns the length
// of the whole name without the NUL; 0 past the last so far; -1 with `errno`:
// `EBADF` (no such set), `EINVAL` (`buffer` is null).
//
// The caller's part:
// `buffer` has room for `capacity` bytes; with a capacity of 0 it may be null.
int64_t nf_set_order_taken(nf_set set, uint64_t index, char *buffer, size_t capacity);

// Begins `set` anew: its specs are evaluated again, and every member comes again.
// So are those of the sets that it was made of, which stay as they are.
//
// Calls under way go on with the old one; descriptors that it gave stay known. Returns 0, or -1 with `errno` `EBADF`.
int nf_set_rewind(nf_set set);

// Closes a set: what is on its way is given up. Descriptors that it gave stay
// open, and sets that were made of it go on. Calls that wait for it end with `EBADF`.
//
// Returns 0, or -1 with `errno` `EBADF` if there is no such set (any more).
int nf_set_close(nf_set set);

// The sleds of the regular file open at `fd`, in file order.
//
// Writes at most `capacity` of them to `array` and returns how many there
// are, as snprintf does: a call with a capacity of 0 only counts. An empty
// file has none; one that is offline is `NF_COLD`, and is not recalled. On
// failure -1 with `errno`: `EBADF`, `EISDIR`, `ESPIPE` (not a regular file),
// `EINVAL` (`array` is null).
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

// What `set` is at. `size` is `sizeof (struct nf_set_stats)`; fields that only the
// caller's version knows are 0.
//
// Returns 0, or -1 with `errno`: `EBADF` (no such set), `EINVAL` (`stats` is null, or
// `size` is below that of the first version).
//
// The caller's part:
// `stats` may be written for `size` bytes.
int nf_set_stats(nf_set set, struct nf_set_stats *stats, size_t size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif  /* NEARFIRST_H */
