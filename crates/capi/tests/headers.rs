//! The committed headers are those that the source gives.
//!
//! `NEARFIRST_BLESS=1 cargo test -p nearfirst-capi --test headers` writes them.

use std::collections::HashMap;
use std::path::PathBuf;

use cbindgen::{Builder, Config, DocumentationStyle, ExportConfig, Language, Style};

const NEARFIRST_H_FROM: [&str; 12] = [
    "callback", "costs", "device", "digest", "error", "iterate", "joins", "options", "picking",
    "sets", "sleds", "stats",
];
const SLEDS_H_FROM: [&str; 1] = ["paper"];
const SETS_H_FROM: [&str; 1] = ["paper_sets"];

const NEARFIRST_H: &str = "\
/* nearfirst.h: where the parts of a file are, what reading them costs, and in
 * which order to read them; and sets of objects, brought near. See docs/c.md.
 *
 * A call that fails answers -1 (or as its comment says), sets errno, and
 * leaves a message for nf_last_error(). All calls may be made from any thread.
 * The file offset of a descriptor of the caller's is never moved.
 *
 * Generated from crates/capi/src; edits here are lost.
 */";

const NEARFIRST_H_BEGIN: &str = r#"
#if defined(__cplusplus) && defined(__GNUC__)
/* A call has the name of the structure that it fills. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif"#;
const NEARFIRST_H_END: &str = r"
#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
";

const SLEDS_H: &str = "\
/* sleds.h: the calls of R. Van Meter and M. Gao, \"Latency Management in
 * Storage Systems\", OSDI 2000, section 4.2, by their names and arguments.
 * See docs/c.md.
 *
 * A call that fails answers -1, sets errno, and leaves a message for
 * nf_last_error() of nearfirst.h. All calls may be made from any thread. The
 * file offset of a descriptor is never moved.
 *
 * Generated from crates/capi/src/paper.rs; edits here are lost.
 */";

const SETS_H: &str = "\
/* sets.h: the calls on dynamic sets of D. C. Steere, \"Exploiting the
 * Non-Determinism and Asynchrony of Set Iterators to Reduce Aggregate File I/O
 * Latency\", SOSP 1997, section 3 and figure 1. See docs/c.md.
 *
 * A call that fails answers -1 (setIterate as it says), sets errno, and leaves a
 * message for nf_last_error() of nearfirst.h. All calls may be made from any
 * thread. Sets are numbers of one table: the calls of nearfirst.h take them too.
 *
 * Generated from crates/capi/src/paper_sets.rs; edits here are lost.
 */";

/// Inline, so that a program which has functions of these names and does not
/// include the header can be linked with the static library.
const SETS_H_NAMES: &str = r"
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
";

/// What a function cannot say: a number of arguments that varies, and pointers
/// to integers of any size.
const SLEDS_H_MACROS: &str = r"
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
";

fn config(header: &str, guard: &str) -> Config {
    Config {
        language: Language::C,
        cpp_compat: true,
        style: Style::Tag,
        header: Some(header.into()),
        include_guard: Some(guard.into()),
        documentation_style: DocumentationStyle::C99,
        usize_is_size_t: true,
        no_includes: true,
        sys_includes: vec!["stddef.h".into(), "stdint.h".into()],
        line_length: 90,
        ..Config::default()
    }
}

fn names(pairs: &[(&str, &str)]) -> ExportConfig {
    let rename: HashMap<String, String> =
        pairs.iter().map(|&(rust, c)| (rust.to_owned(), c.to_owned())).collect();
    ExportConfig { rename, ..ExportConfig::default() }
}

fn generate(config: Config, from: &[&str]) -> String {
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src");
    let builder = from.iter().fold(Builder::new().with_config(config), |builder, module| {
        builder.with_src(source.join(module).with_extension("rs"))
    });
    let mut text = Vec::new();
    builder.generate().expect("the source parses").write(&mut text);
    let text = String::from_utf8(text).expect("C is text");
    let text: String = text.split_inclusive('\n').map(with_parentheses).collect();
    text.replace("/// # Safety\n", "").replace("# Safety", "The caller's part:")
}

/// A line; a sign that it defines belongs to its number, whatever stands before the name.
fn with_parentheses(line: &str) -> String {
    match line.strip_prefix("#define ").and_then(|rest| rest.trim_end().split_once(" -")) {
        Some((name, number)) => format!("#define {name} (-{number})\n"),
        None => line.to_owned(),
    }
}

fn is_committed(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("include").join(name);
    if std::env::var_os("NEARFIRST_BLESS").is_some() {
        std::fs::write(&path, text).expect("the source tree can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "{name} is stale: NEARFIRST_BLESS=1 cargo test -p nearfirst-capi --test headers"
    );
}

#[test]
fn nearfirst_h_is_fresh() {
    let renamed = names(&[
        ("Spread", "nf_spread"),
        ("Sled", "nf_sled"),
        ("DeliveryTime", "nf_delivery_time"),
        ("Estimate", "nf_estimate"),
        ("Piece", "nf_piece"),
        ("PickId", "nf_pick"),
        ("Member", "nf_member"),
        ("Predicate", "nf_predicate"),
        ("Properties", "nf_properties"),
        ("Rank", "nf_rank"),
        ("Release", "nf_release"),
        ("SetId", "nf_set"),
        ("SetOptions", "nf_set_options"),
        ("SetStats", "nf_set_stats"),
    ]);
    let guard = "NEARFIRST_H";
    let begin = Some(NEARFIRST_H_BEGIN.into());
    let config = Config { export: renamed, after_includes: begin, ..config(NEARFIRST_H, guard) };
    let text = generate(config, &NEARFIRST_H_FROM);
    is_committed("nearfirst.h", &with_end(&text, guard, NEARFIRST_H_END));
}

/// With what a generator cannot say inside the guard.
fn with_end(text: &str, guard: &str, end: &str) -> String {
    let last = format!("#endif  /* {guard} */");
    assert!(text.contains(&last), "the guard ends the header");
    text.replace(&last, &format!("{}\n\n{last}", end.trim()))
}

#[test]
fn sleds_h_is_fresh() {
    let guard = "NEARFIRST_SLEDS_H";
    let config = Config { export: names(&[("PaperSled", "sled")]), ..config(SLEDS_H, guard) };
    is_committed("sleds.h", &with_end(&generate(config, &SLEDS_H_FROM), guard, SLEDS_H_MACROS));
}

#[test]
fn sets_h_is_fresh() {
    let guard = "NEARFIRST_SETS_H";
    let text = generate(config(SETS_H, guard), &SETS_H_FROM);
    is_committed("sets.h", &with_end(&text, guard, SETS_H_NAMES));
}
