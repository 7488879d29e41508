//! The library as C programs see it: installed, linked both ways, and under valgrind.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The exit status of a C test that does not apply to this machine.
const SKIPPED: i32 = 77;

#[derive(Clone, Copy)]
enum Link {
    Shared,
    Static,
}

fn scratch(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi").join(name);
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    folder
}

fn skipped(reason: &str) {
    writeln!(io::stderr().lock(), "skipped: {reason}").expect("standard error is open");
}

fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        skipped(&format!("{program} is not installed"));
    }
    there
}

fn done(command: &mut Command) -> Output {
    let output = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// Where the library is installed, by the script that `make install` uses.
fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let prefix = scratch("installed");
        let this = std::env::current_exe().expect("a test has a path");
        let built = this.parent().expect("a test lies beside the library");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("install.sh");
        done(
            Command::new("sh").arg(script).arg(built).env("PREFIX", &prefix).env_remove("DESTDIR"),
        );
        prefix
    })
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn compiled(path: &str, link: Link) -> PathBuf {
    let prefix = installed();
    let stem = Path::new(path).file_stem().expect("a file").to_string_lossy().into_owned();
    let program = scratch(&stem).join(match link {
        Link::Shared => "shared",
        Link::Static => "static",
    });
    let lib = prefix.join("lib");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"])
        // Figure 5 sets nelem, which it does not use, and does not look at what read answers.
        .args(["-Wno-unused-result", "-Wno-unused-but-set-variable"])
        .arg("-I")
        .arg(prefix.join("include"))
        .arg(source(path))
        .arg("-o")
        .arg(&program);
    match link {
        Link::Shared => {
            let rpath = format!("-Wl,-rpath,{}", lib.display());
            gcc.arg("-L").arg(&lib).args(["-lnearfirst", &rpath]);
        }
        Link::Static => {
            gcc.arg(lib.join("libnearfirst.a")).args(["-lgcc_s", "-lutil", "-lrt", "-ldl"]);
        }
    }
    done(gcc.args(["-lpthread", "-lm"]));
    program
}

/// Runs a program in a fresh folder and with a device table of its own;
/// returns the folder unless the test does not apply here.
fn run(program: &Path, wrapper: &[&str], folder: &str) -> Option<PathBuf> {
    let folder = scratch(folder);
    std::fs::remove_dir_all(&folder).expect("a scratch folder");
    std::fs::create_dir_all(folder.join("state")).expect("a scratch folder");
    let mut command = match wrapper {
        [] => Command::new(program),
        [wrapper, arguments @ ..] => {
            let mut command = Command::new(wrapper);
            command.args(arguments).arg(program);
            command
        }
    };
    command.current_dir(&folder).env("NEARFIRST_STATE", folder.join("state"));
    let output = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(SKIPPED) {
        skipped(said.trim());
        return None;
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}{errors}", output.status);
    Some(folder)
}

fn passes(name: &str) {
    if is_there("gcc") {
        run(&compiled(&format!("tests/c/{name}.c"), Link::Shared), &[], &format!("{name}.run"));
    }
}

fn passes_under_valgrind(name: &str) {
    if !is_there("gcc") || !is_there("valgrind") {
        return;
    }
    let program = compiled(&format!("tests/c/{name}.c"), Link::Static);
    let valgrind = [
        "valgrind",
        "--quiet",
        "--error-exitcode=99",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite,indirect",
        "--show-leak-kinds=definite,indirect",
    ];
    run(&program, &valgrind, &format!("{name}.valgrind"));
}

#[test]
fn figure_5_reads_near_first_and_each_byte_once() {
    passes("figure5");
}

#[test]
fn figure_5_has_no_memory_errors() {
    passes_under_valgrind("figure5");
}

#[test]
fn pieces_are_whole_records() {
    passes("records");
}

#[test]
fn what_is_wrong_is_an_error() {
    passes("errors");
}

#[test]
fn errors_have_no_memory_errors() {
    passes_under_valgrind("errors");
}

#[test]
fn what_arrives_is_handed_out_early() {
    passes("refresh");
}

#[test]
fn threads_share_and_do_not_mix() {
    passes("threads");
}

#[test]
fn costs_are_filled_and_told_and_saved() {
    if !is_there("gcc") {
        return;
    }
    let folder = run(&compiled("tests/c/costs.c", Link::Shared), &[], "costs.run");
    let Some(folder) = folder else { return };
    let table = std::fs::read_to_string(folder.join("state/devices.toml")).expect("was saved");
    assert!(table.contains("latency_s = [0.018]"), "{table}");
}

#[test]
fn the_example_counts_lines_by_pkg_config() {
    if !is_there("gcc") || !is_there("pkg-config") {
        return;
    }
    let prefix = installed();
    let folder = scratch("example");
    let flags = Command::new("pkg-config")
        .args(["--cflags", "--libs", "nearfirst"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .output()
        .expect("pkg-config starts");
    let flags = String::from_utf8(flags.stdout).expect("flags are text");
    let program = folder.join("near_first");
    done(
        Command::new("gcc")
            .args(["-Wall", "-Wextra", "-Werror", "-o"])
            .args([program.as_os_str(), source("examples/near_first.c").as_os_str()])
            .args(flags.split_whitespace().map(OsStr::new)),
    );
    let text = folder.join("text");
    std::fs::write(&text, "a line\n".repeat(100_000)).expect("the target folder can be written");
    let mut command = Command::new(&program);
    let output = done(command.arg(&text).env("LD_LIBRARY_PATH", prefix.join("lib")));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, format!("100000 {}\n", text.display()));
}

#[test]
fn the_headers_are_cpp_too() {
    if !is_there("g++") {
        return;
    }
    let program = "#include <nearfirst.h>\n#include <sleds.h>\n\
                   int main() { int offset, nbytes; struct sled one;\n\
                   sleds_pick_init(0, 1); sleds_get(0, &one, 1);\n\
                   return sleds_pick_next_read(0, &offset, &nbytes); }\n";
    let path = scratch("cpp").join("cpp.cc");
    std::fs::write(&path, program).expect("the target folder can be written");
    let include = installed().join("include");
    done(
        Command::new("g++")
            .args(["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I"])
            .args([&include, &path]),
    );
}

#[test]
fn nothing_but_the_calls_is_exported_under_the_soname() {
    if !is_there("nm") || !is_there("readelf") {
        return;
    }
    let library = installed().join("lib/libnearfirst.so");
    let symbols = done(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    for line in String::from_utf8_lossy(&symbols.stdout).lines() {
        let name = line.rsplit(' ').next().unwrap_or_default();
        assert!(name.starts_with("nf_") || name.starts_with("sleds_"), "{line}");
    }
    let dynamic = done(Command::new("readelf").arg("-d").arg(&library));
    let dynamic = String::from_utf8_lossy(&dynamic.stdout).into_owned();
    assert!(dynamic.contains("soname: [libnearfirst.so.0]"), "{dynamic}");
}
