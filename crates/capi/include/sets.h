/* sets.h: the calls on dynamic sets of D. C. Steere, "Exploiting the
 * Non-Determinism and Asynchrony of Set Iterators to Reduce Aggregate File I/O
 * Latency", SOSP 1997, section 3 and figure 1. See docs/c.md.
 *
 * A call that fails answers -1 (setIterate as it says), sets errno, and leaves a
 * message for nf_last_error() of nearfirst.h. All calls may be made from any
 * thread. Sets are numbers of one table: the calls of nearfirst.h take them too.
 *
 * Generated from crates/capi/src/paper_sets.rs; edits here are lost.
 */

#ifndef NEARFIRST_SETS_H
#define NEARFIRST_SETS_H

#include <stddef.h>
#include <stdint.h>

// Says by its name whether a member belongs to a subset: 0 if not. The
// library's threads call it, several at once. It makes no calls on sets.
typedef int (*SetPredicate)(const char *name, void *data);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// `setOpen`: opens the set of the objects that `set_spec` stands for. Nothing
// is fetched before the first `setIterate`.
//
// Returns a small number that is not 0, or -1 with `errno`: `EINVAL` (null, or
// text that cannot be understood), `EPERM` (it names a program), `EMFILE` (too
// many sets are open).
//
// The caller's part:
// `set_spec` ends with a NUL.
int sets_open(const char *set_spec);

// `setIterate`: a descriptor, at its beginning, of a member that is ready and
// was not handed out yet. The caller reads, seeks in and closes it.
//
// Returns 0 after the last member. A member that cannot be read is -1 with
// `errno` and its name in `nf_last_error` of nearfirst.h, as open(2) would
// have answered: the others go on with the next call. What is no set has no
// members: 0, so that the loop of figure 1 ends, with `errno` `EBADF` (also of one
// that was closed meanwhile), or `EOPNOTSUPP` in a fork of a process that used sets. Another call that is none
// (`EDEADLK`, `ENOTRECOVERABLE`) is -1, and 0 if the next one of this thread is
// none, too.
int sets_iterate(int s);

// `setClose`: closes a set. Descriptors that it gave stay open.
//
// Returns 0, or -1 with `errno` `EBADF`.
int sets_close(int s);

// `setUnion`: opens the set of what is in either set.
//
// Returns it, or -1 with `errno`: `EBADF`, `EMFILE`.
int sets_union(int s, int other);

// `setIntersect`: opens the set of what is in both sets.
//
// Returns it, or -1 with `errno`: `EBADF`, `EMFILE`.
int sets_intersect(int s, int other);

// `setRestrict`: opens the subset of those members of which `predicate` does not say 0.
//
// Returns it, or -1 with `errno`: `EBADF`, `EINVAL` (null), `EMFILE`.
//
// The caller's part:
// `predicate` and `data` may be used from any thread until the process ends;
// `nf_set_restrict` says when they are not used any more.
int sets_restrict(int s, SetPredicate predicate, void *data);

// `setMember`: whether `name` is a member; waits until listing meets it, or ends.
//
// Returns 1 or 0, or -1 with `errno`: `EBADF`, `EINVAL` (null), or, where it was not
// met, that of what could not be listed.
//
// The caller's part:
// `name` ends with a NUL.
int sets_member(int s, const char *name);

// `setSize`: how many members there are; waits until listing ends.
//
// Returns the number, or -1 with `errno`: `EBADF`, `EOVERFLOW` (it does not fit a `long`), or,
// where there are none, that of what could not be listed.
long sets_size(int s);

// `setDigest`: the name of the `index`-th member, from 0 on in the order that
// they become known, waiting for it. Nothing is fetched.
//
// Writes at most `capacity` bytes, the NUL among them, and returns the length
// of the whole name; 0 past the last; -1 with `errno`: `EBADF`, `EINVAL` (a
// negative index, `name` is null), or that of a listing which failed at this
// place: the next index goes on, and there may be more of them than `setSize` says.
//
// The caller's part:
// `name` has room for `capacity` bytes.
long sets_digest(int s, long index, char *name, size_t capacity);

// `setRewind`: evaluates the spec anew; every member comes again.
//
// Returns 0, or -1 with `errno` `EBADF`.
int sets_rewind(int s);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/* The paper's names. It gives setOpen, setIterate and setClose in figure 1, and
 * says of the others what they do.
 */
static inline int setOpen(const char *set_spec) { return sets_open(set_spec); }
static inline int setIterate(int s) { return sets_iterate(s); }
static inline int setClose(int s) { return sets_close(s); }
static inline int setUnion(int s, int other) { return sets_union(s, other); }
static inline int setIntersect(int s, int other) { return sets_intersect(s, other); }
static inline int setRestrict(int s, SetPredicate predicate, void *data) {
  return sets_restrict(s, predicate, data);
}
static inline int setMember(int s, const char *name) { return sets_member(s, name); }
static inline long setSize(int s) { return sets_size(s); }
static inline long setDigest(int s, long index, char *name, size_t capacity) {
  return sets_digest(s, index, name, capacity);
}
static inline int setRewind(int s) { return sets_rewind(s); }

#endif  /* NEARFIRST_SETS_H */
