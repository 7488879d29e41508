//! What the compiler does not check of the house: licences, sizes, headings, and that the documents name what is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Licences that what we ship may be under.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];
/// Licences of tools that only our tests and builds run.
const LICENCES_OF_TOOLS: &[&str] = &["MPL-2.0"];
/// Packages that are shipped, unchanged, under another licence: the parser of CSS selectors,
/// whose licence asks for no more than its own source; lists of certificates, which are data; a hash.
const LICENCES_OF_SOME: &[(&str, &str)] = &[
    ("cssparser", "MPL-2.0"),
    ("cssparser-macros", "MPL-2.0"),
    ("dtoa-short", "MPL-2.0"),
    ("selectors", "MPL-2.0"),
    ("tiny-keccak", "CC0-1.0"),
    ("webpki-root-certs", "CDLA-Permissive-2.0"),
    ("webpki-roots", "CDLA-Permissive-2.0"),
];
/// A longer file holds more than one concept.
const LINES_MAX: usize = 1500;

fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("crates/testkit is two below the root").to_owned()
}

/// The files of the repository whose names end so, by their paths from the root.
fn files(endings: &[&str]) -> Vec<(PathBuf, String)> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository") {
            let entry = entry.expect("an entry of the repository");
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type().expect("an entry of the repository");
            // What git, editors and virtual environments keep is hidden.
            let others = name.starts_with('.') || ["target", "out", "corpus"].contains(&&*name);
            if kind.is_dir() && !others {
                folders.push(entry.path());
            } else if kind.is_file() && endings.iter().any(|ending| name.ends_with(ending)) {
                let text = fs::read_to_string(entry.path()).expect("text in UTF-8");
                found.push((entry.path().strip_prefix(&root).expect("below it").into(), text));
            }
        }
    }
    assert!(!found.is_empty(), "no file ends with any of {endings:?}");
    found
}

/// Whether an expression of licences leaves a choice of `allowed` ones: `(MIT OR X) AND Y`, or `MIT/X`.
fn allows(expression: &str, allowed: &[&str]) -> bool {
    fn split(text: &str, word: &str) -> Vec<String> {
        let mut parts = vec![String::new()];
        let mut depth = 0;
        for token in text.replace('(', " ( ").replace(')', " ) ").split_whitespace() {
            depth += i32::from(token == "(") - i32::from(token == ")");
            if depth == 0 && token == word {
                parts.push(String::new());
            } else {
                let part = parts.last_mut().expect("there is always one");
                part.push_str(if part.is_empty() { "" } else { " " });
                part.push_str(token);
            }
        }
        parts
    }
    let text = expression.replace('/', " OR ");
    let choices = split(&text, "OR");
    if choices.len() > 1 {
        return choices.iter().any(|choice| allows(choice, allowed));
    }
    let parts = split(&text, "AND");
    if parts.len() > 1 {
        return parts.iter().all(|part| allows(part, allowed));
    }
    let one = parts[0].trim();
    match one.strip_prefix("( ").and_then(|inner| inner.strip_suffix(" )")) {
        Some(inner) => allows(inner, allowed),
        None => allowed.contains(&one),
    }
}

#[test]
fn licence_expressions_are_understood() {
    let allowed = &["MIT", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"];
    for good in [
        "MIT",
        "GPL-3.0 OR MIT",
        "Unlicense/MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception OR Apache-2.0",
    ] {
        assert!(allows(good, allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND NCSA", "", "MITX"] {
        assert!(!allows(bad, allowed), "{bad}");
    }
}

#[test]
fn every_dependency_has_a_licence_that_we_may_ship() {
    let cargo = std::env::var_os("CARGO").expect("cargo runs its tests with it");
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--offline", "--filter-platform", &platform])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 20, "{} packages are too few to be all", packages.len());
    let all: Vec<&str> = [LICENCES, LICENCES_OF_TOOLS].concat();
    let shipped = shipped(&metadata);
    for package in packages {
        let licence = package["license"].as_str().unwrap_or("none");
        let name = package["name"].as_str().expect("a package has a name");
        if LICENCES_OF_SOME.contains(&(name, licence)) {
            continue;
        }
        let allowed = if shipped.contains(&&package["id"]) { LICENCES } else { &all };
        assert!(allows(licence, allowed), "{} {}: {licence}", package["name"], package["version"]);
    }
}

/// The packages that the command and the libraries are made of.
fn shipped(metadata: &serde_json::Value) -> Vec<&serde_json::Value> {
    let packages = metadata["packages"].as_array().expect("packages");
    let nodes = metadata["resolve"]["nodes"].as_array().expect("nodes");
    let ours = |name: &str| packages.iter().find(|package| package["name"] == name);
    let roots = ["nearfirst-cli", "nearfirst-capi", "nearfirst"];
    let mut open: Vec<_> = roots.map(|name| &ours(name).expect("a crate of ours")["id"]).into();
    let mut seen = Vec::new();
    while let Some(id) = open.pop() {
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        let node = nodes.iter().find(|node| &node["id"] == id).expect("resolved");
        for dependency in node["deps"].as_array().expect("dependencies") {
            let kinds = dependency["dep_kinds"].as_array().expect("kinds");
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                open.push(&dependency["pkg"]);
            }
        }
    }
    assert!(seen.len() > 20, "{} packages are too few", seen.len());
    seen
}

#[test]
fn every_source_says_what_it_holds_and_holds_one_concept() {
    for (path, text) in files(&[".rs"]) {
        if path.starts_with("fuzz/fuzz_targets") {
            continue;
        }
        let path = path.display();
        assert!(text.starts_with("//!"), "{path} does not begin with what it holds");
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{path} has {lines} lines");
    }
}

#[test]
fn errors_and_what_people_only_read_may_grow() {
    const LIBRARIES: [&str; 6] = ["sled", "store", "fetch", "set", "tree", "watch"];
    const GROWS: [&str; 4] = ["Error", "Warning", "Report", "Snapshot"];
    for (path, text) in files(&[".rs"]) {
        if !LIBRARIES.iter().any(|name| path.starts_with(format!("crates/{name}/src"))) {
            continue;
        }
        let mut before = "";
        for line in text.lines() {
            let kind = line.strip_prefix("pub enum ").or_else(|| line.strip_prefix("pub struct "));
            let name = kind.and_then(|rest| rest.strip_suffix(" {")).unwrap_or_default();
            let may_grow = before == "#[non_exhaustive]";
            let grows = GROWS.iter().any(|ending| name.ends_with(ending));
            assert!(may_grow || !grows, "{}: {name} is not `non_exhaustive`", path.display());
            before = line;
        }
    }
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    for (path, text) in files(&["Cargo.toml"]) {
        if path.starts_with("crates") {
            assert!(text.contains("[lints]\nworkspace = true"), "{}", path.display());
        }
    }
}

#[test]
fn every_crate_uses_what_it_depends_on() {
    let sources = files(&[".rs"]);
    for (path, text) in files(&["Cargo.toml"]) {
        let folder = path.parent().expect("a file has a folder");
        // It includes the sources of others, which use the rest.
        if !path.starts_with("crates") || folder.ends_with("fuzzed") {
            continue;
        }
        let mut depends = false;
        for line in text.lines() {
            if line.starts_with('[') {
                depends = line.contains("dependencies]");
                continue;
            }
            let end = line.find(|c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c)));
            let name = &line[..end.unwrap_or(0)];
            if !depends || name.is_empty() {
                continue;
            }
            let name = if name == "md-5" { "md5" } else { &name.replace('-', "_") };
            let used = [format!("use {name} "), format!("use {name};")];
            let is_used = |source: &str| {
                used.iter().any(|used| source.contains(used)) || begins_a_path(source, name)
            };
            let mut ours = sources.iter().filter(|(source, _)| source.starts_with(folder));
            let found = ours.any(|(_, source)| is_used(source));
            assert!(found, "{} names {name}, and no source uses it", path.display());
        }
    }
}

/// Whether a path begins with the name: `watch::` ends that of `tokio::sync::watch::`.
fn begins_a_path(source: &str, name: &str) -> bool {
    let path = format!("{name}::");
    let is_in_a_path = |c: char| c.is_alphanumeric() || "_:".contains(c);
    source.match_indices(&path).any(|(at, _)| !source[..at].ends_with(is_in_a_path))
}

#[test]
fn a_name_begins_a_path_only_where_no_other_goes_before() {
    assert!(begins_a_path("use set::Set;", "set") && begins_a_path("set::Set", "set"));
    for other in ["Offset::default()", "tokio::sync::set::Set", "reset::x", "a_set::b", "set"] {
        assert!(!begins_a_path(other, "set"), "{other}");
    }
}

#[test]
fn nothing_is_left_to_do() {
    let marks = ["TO".to_owned() + "DO", "FIX".to_owned() + "ME", "X".repeat(3)];
    for (path, text) in files(&[".rs", ".md", ".sh", ".toml", ".c", ".h", ".py", "Makefile"]) {
        for (number, line) in text.lines().enumerate() {
            let words = || line.split(|c: char| !c.is_ascii_alphanumeric());
            let found = marks.iter().find(|mark| words().any(|word| word == mark.as_str()));
            assert!(found.is_none(), "{}:{}: {line}", path.display(), number + 1);
        }
    }
}

#[test]
fn the_documents_name_targets_and_files_that_are_there() {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    for (path, text) in files(&[".md"]) {
        let folder = root().join(&path).parent().expect("a file has a folder").to_owned();
        for command in ["    make ", "`make "] {
            for after in text.split(command).skip(1) {
                let target = after.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or("");
                let named = makefile.lines().any(|line| line.starts_with(&format!("{target}:")));
                assert!(named || target.is_empty(), "{}: make {target}", path.display());
            }
        }
        for link in text.split("](").skip(1).filter_map(|after| after.split(')').next()) {
            let file = link.split('#').next().unwrap_or("");
            if !file.is_empty() && !file.contains("://") {
                assert!(folder.join(file).exists(), "{}: {link}", path.display());
            }
        }
    }
}

#[test]
fn the_map_is_short_enough_to_read() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("a map");
    assert!(text.lines().count() < 250);
    for entry in fs::read_dir(root().join("crates")).expect("crates") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        assert!(text.contains(&format!("crates/{name}")), "ARCHITECTURE.md misses crates/{name}");
    }
}
