//! The library as C programs see it: installed, linked both ways, and under valgrind.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use testkit::server::{Answer, Link as Distance, Misbehaving, Moto, S3};
use testkit::{Facility, skip_unless};

/// The exit status of a C test that does not apply to this machine.
const SKIPPED: i32 = 77;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Link {
    Shared,
    Static,
    /// Nothing of it is shared, the C library neither.
    AllStatic,
}

/// A folder of ours: another run of these tests waits until this one has ended.
fn scratch(name: &str) -> PathBuf {
    static OURS: OnceLock<File> = OnceLock::new();
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
    let folder = all.join(name);
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    OURS.get_or_init(|| {
        let lock = File::create(all.join("lock")).expect("the target folder can be written");
        lock.lock().expect("it can be locked");
        lock
    });
    folder
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

/// The program, which all tests that run it share: one that runs is not written anew.
fn compiled(path: &str, link: Link) -> PathBuf {
    static COMPILED: Mutex<BTreeMap<(String, Link), PathBuf>> = Mutex::new(BTreeMap::new());
    let mut known = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry((path.to_owned(), link)).or_insert_with(|| compile(path, link)).clone()
}

fn compile(path: &str, link: Link) -> PathBuf {
    let prefix = installed();
    let stem = Path::new(path).file_stem().expect("a file").to_string_lossy().into_owned();
    let program = scratch(&stem).join(match link {
        Link::Shared => "shared",
        Link::Static => "static",
        Link::AllStatic => "all_static",
    });
    let lib = prefix.join("lib");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"])
        // Figure 5 sets nelem, which it does not use, and does not look at what read answers;
        // figure 1 of the SETS paper assigns where it asks.
        .args(["-Wno-unused-result", "-Wno-unused-but-set-variable", "-Wno-parentheses"])
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
        Link::Static | Link::AllStatic => {
            if matches!(link, Link::AllStatic) {
                gcc.arg("-static");
            }
            gcc.arg(lib.join("libnearfirst.a")).args(["-lutil", "-lrt", "-ldl"]);
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
    let mut command = command(program, wrapper, &folder);
    let output = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(SKIPPED) {
        testkit::skip(said.trim());
        return None;
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}{errors}", output.status);
    Some(folder)
}

/// A program that runs in `folder`, by itself or by a wrapper.
fn command(program: &Path, wrapper: &[&str], folder: &Path) -> Command {
    let mut command = match wrapper {
        [] => Command::new(program),
        [wrapper, arguments @ ..] => {
            let mut command = Command::new(wrapper);
            command.args(arguments).arg(program);
            command
        }
    };
    command.current_dir(folder).env("NEARFIRST_STATE", folder.join("state"));
    // Nobody's configuration of databases and proxies.
    command.env("XDG_CONFIG_HOME", folder).env_remove("http_proxy").env_remove("HTTP_PROXY");
    command
}

fn passes(name: &str) {
    skip_unless!(Facility::Tool("gcc"));
    run(&compiled(&format!("tests/c/{name}.c"), Link::Shared), &[], &format!("{name}.run"));
}

fn passes_under_valgrind(name: &str) {
    skip_unless!(Facility::Tool("gcc"), Facility::Tool("valgrind"));
    let program = compiled(&format!("tests/c/{name}.c"), Link::Static);
    run(&program, &VALGRIND, &format!("{name}.valgrind"));
}

const VALGRIND: [&str; 8] = [
    "valgrind",
    "--quiet",
    // Nobody asks it anything, by pipes in a folder for all.
    "--vgdb=no",
    "--fair-sched=try",
    "--error-exitcode=99",
    "--leak-check=full",
    "--errors-for-leak-kinds=definite,indirect",
    "--show-leak-kinds=definite,indirect",
];

/// Texts of members, and their contents all together in a fixed order.
fn contents() -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let text = |number: usize| {
        let lines = (0..=2000 * number).map(|line| format!("{number} {line}\n"));
        lines.collect::<String>().into_bytes()
    };
    let texts: Vec<Vec<u8>> = (0..6).map(text).collect();
    let lines = lines_of(&texts.concat());
    (texts, lines)
}

fn lines_of(text: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> =
        text.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    lines.sort_unstable();
    lines
}

/// How many lines there are of each text, and what was said: of use where they are not as expected.
fn told(read: &[Vec<u8>], errors: &str) -> String {
    let mut counts = BTreeMap::<_, usize>::new();
    for line in read {
        let text = line.split(|&byte| byte == b' ').next().unwrap_or_default();
        *counts.entry(String::from_utf8_lossy(text)).or_default() += 1;
    }
    format!("lines of each text: {counts:?}; errors: {errors:?}")
}

/// Runs the loop of figure 1 on a set, linked as `wrapper` needs it; returns
/// the lines of its members in a fixed order, and the members that it could not read.
fn figure_1(
    name: &str,
    wrapper: &[&str],
    set_spec: &str,
    env: &[(&str, String)],
) -> (Vec<Vec<u8>>, String) {
    let link = if wrapper.is_empty() { Link::Shared } else { Link::Static };
    let program = compiled("tests/c/figure1.c", link);
    let folder = scratch(&format!("figure1.{name}"));
    let mut command = command(&program, wrapper, &folder);
    command.arg(set_spec).envs(env.iter().map(|(name, value)| (*name, value)));
    let output = command.output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    (lines_of(&output.stdout), errors)
}

/// A folder with these files.
fn files(name: &str, texts: &[Vec<u8>]) -> PathBuf {
    let folder = scratch(name);
    for (number, text) in texts.iter().enumerate() {
        let path = folder.join(format!("{number}.c"));
        std::fs::write(path, text).expect("the target folder can be written");
    }
    folder
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
fn figure_1_reads_each_file_of_a_set() {
    skip_unless!(Facility::Tool("gcc"));
    let (texts, lines) = contents();
    let folder = files("figure1.files", &texts);
    let set_spec = format!("{}/*.c", folder.display());
    let (read, errors) = figure_1("local", &[], &set_spec, &[]);
    assert!(read == lines && errors.is_empty(), "{errors}");
}

#[test]
fn figure_1_reads_each_object_of_a_bucket() {
    skip_unless!(S3::NEEDS, Facility::Tool("gcc"));
    let (texts, lines) = contents();
    let s3 = S3::new();
    s3.create_bucket("bucket");
    for (number, text) in texts.iter().enumerate() {
        s3.put(&format!("bucket/src/{number}.c"), text);
    }
    let (read, errors) = figure_1("bucket", &[], "s3://bucket/src/*.c", &s3.env());
    assert!(read == lines && errors.is_empty(), "{errors}");
}

/// A server with a page for each text, and a set of them and of one that is missing.
fn web(texts: &[Vec<u8>]) -> (Misbehaving, String) {
    let server = Misbehaving::new();
    for (number, text) in texts.iter().enumerate() {
        server.answer(&format!("/{number}.c"), Answer::bytes(text));
    }
    let set_spec = server.url("/{0,1,2,3,4,5,missing}.c");
    (server, set_spec)
}

#[test]
fn figure_1_goes_on_after_a_page_that_cannot_be_read() {
    skip_unless!(Facility::Tool("gcc"));
    let (texts, lines) = contents();
    let (server, set_spec) = web(&texts);
    let (read, errors) = figure_1("web", &[], &set_spec, &[]);
    assert!(read == lines, "{errors}");
    assert_eq!(errors, format!("{} {}: not found\n", libc::ENOENT, server.url("/missing.c")));
}

#[test]
fn private_links_are_followed_where_that_is_allowed() {
    skip_unless!(Facility::Tool("gcc"));
    let folder = files("private_links.files", &[b"near\n".to_vec()]);
    let server = Misbehaving::new();
    let list = format!("{}\n", folder.join("0.c").display());
    server.answer("/list", Answer::bytes(list));
    let program = compiled("tests/c/private_links.c", Link::Shared);
    done(command(&program, &[], &folder).arg(format!("@{}", server.url("/list"))));
}

/// A server with an object that never comes, and one that comes slowly.
fn slow() -> Misbehaving {
    let server = Misbehaving::new();
    server.answer("/never", Answer::bytes("late").delayed(Duration::from_hours(1)));
    server.answer("/slow", Answer::bytes("x".repeat(600_000)).chunked().paced(2_000_000));
    server
}

fn waits_end(link: Link, wrapper: &[&str], folder: &str) {
    let server = slow();
    server.answer("/list", Answer::bytes("late").delayed(Duration::from_hours(1)));
    let program = compiled("tests/c/waits.c", link);
    let mut command = command(&program, wrapper, &scratch(folder));
    command.args([server.url("/never"), server.url("/slow"), format!("@{}", server.url("/list"))]);
    done(&mut command);
}

#[test]
fn waits_end_by_a_limit_and_when_the_set_is_closed() {
    skip_unless!(Facility::Tool("gcc"));
    waits_end(Link::Shared, &[], "waits.run");
}

#[test]
fn waits_have_no_memory_errors() {
    skip_unless!(Facility::Tool("gcc"), Facility::Tool("valgrind"));
    waits_end(Link::Static, &VALGRIND, "waits.valgrind");
}

fn event_loops_are_told(link: Link, wrapper: &[&str], folder: &str) {
    let server = slow();
    let program = compiled("tests/c/descriptor.c", link);
    let mut command = command(&program, wrapper, &scratch(folder));
    done(command.args(["/slow", "/missing", "/never"].map(|path| server.url(path))));
}

#[test]
fn event_loops_are_told_when_a_call_is_worth_it() {
    skip_unless!(Facility::Tool("gcc"));
    event_loops_are_told(Link::Shared, &[], "descriptor.run");
}

#[test]
fn event_loops_have_no_memory_errors() {
    skip_unless!(Facility::Tool("gcc"), Facility::Tool("valgrind"));
    event_loops_are_told(Link::Static, &VALGRIND, "descriptor.valgrind");
}

#[test]
fn members_of_servers_are_told_about() {
    skip_unless!(Facility::Tool("gcc"));
    let server = Misbehaving::new();
    let kind = "text/plain; charset=latin1";
    server.answer("/page", Answer::bytes("page").header("Content-Type", kind));
    server.answer("/denied", Answer::status(403));
    let program = compiled("tests/c/web.c", Link::Shared);
    done(command(&program, &[], &scratch("web.run")).arg(server.endpoint()));
}

#[test]
fn sets_use_what_their_options_say() {
    skip_unless!(Facility::Tool("gcc"));
    let server = Misbehaving::new();
    let late = Answer::bytes("late").delayed(Duration::from_hours(1));
    for number in 0..5 {
        server.answer(&format!("/many/{number}"), Answer::bytes("many"));
        server.answer(&format!("/large/{number}"), Answer::bytes(vec![number; 256 << 10]));
        server.answer(&format!("/never/limited/{number}"), late.clone());
        server.answer(&format!("/never/more/{number}"), late.clone());
    }
    server.answer("/bucket/key", Answer::bytes("object"));
    server.answer("/broken", Answer::status(500));
    let program = compiled("tests/c/options.c", Link::Shared);
    let folder = scratch("options.run");
    let mut command = command(&program, &[], &folder);
    done(command.args([server.endpoint(), server.url("/never")]));
    let asked = |folder: &str| -> u64 {
        (0..5).map(|number| server.counts(&format!("{folder}/{number}")).requests).sum()
    };
    assert_eq!((asked("/many"), asked("/never/limited")), (5, 1));
    assert_eq!(server.counts("/broken").requests, 2);
}

#[test]
fn what_lies_in_cold_storage_is_restored_and_waited_for_if_that_is_wished() {
    skip_unless!(Moto::NEEDS, Facility::Tool("gcc"));
    let moto = Moto::new();
    for bucket in ["asked", "waits"] {
        moto.create_bucket(bucket);
        moto.put(&format!("{bucket}/cold"), "text", "GLACIER");
        moto.put(&format!("{bucket}/warm"), "text", "STANDARD");
    }
    moto.restore_takes(2);
    let proxy = Misbehaving::in_front_of(moto.address(), Distance::default());
    let program = compiled("tests/c/cold.c", Link::Shared);
    done(command(&program, &[], &scratch("cold.run")).args([&proxy.endpoint(), "me", "secret"]));
    let restores = proxy.requests().into_iter().filter(|request| request.method == "POST");
    let restores: Vec<_> = restores.map(|request| request.target).collect();
    assert_eq!(restores, ["/asked/cold?restore=", "/waits/cold?restore="]);
}

#[test]
fn figure_1_has_no_memory_errors() {
    skip_unless!(Facility::Tool("gcc"), Facility::Tool("valgrind"));
    let (texts, lines) = contents();
    let folder = files("figure1.valgrind.files", &texts);
    let set_spec = format!("{}/*.c", folder.display());
    // Valgrind says of system calls that it does not know that it does not.
    let (read, errors) = figure_1("local.valgrind", &VALGRIND, &set_spec, &[]);
    assert!(read == lines, "local: {}", told(&read, &errors));
    let (server, set_spec) = web(&texts);
    let (read, errors) = figure_1("web.valgrind", &VALGRIND, &set_spec, &[]);
    let missing = format!("{} {}: not found\n", libc::ENOENT, server.url("/missing.c"));
    let is_as_expected = read == lines && errors.contains(&missing);
    let requests = server.requests();
    assert!(is_as_expected, "web: {}; {requests:?}", told(&read, &errors));
}

#[test]
fn sets_of_files_answer_as_they_say() {
    passes("sets");
}

#[test]
fn sets_have_no_memory_errors() {
    passes_under_valgrind("sets");
}

#[test]
fn exit_ends_the_programs_of_sets_that_are_open() {
    skip_unless!(Facility::Tool("gcc"));
    let folder = run(&compiled("tests/c/exits.c", Link::Shared), &[], "exits.run");
    let Some(folder) = folder else { return };
    let pid = std::fs::read_to_string(folder.join("pid")).expect("the program was started");
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    assert!(stat.as_ref().map_or(true, |stat| stat.contains(") Z ")), "{stat:?}");
}

#[test]
fn a_program_has_names_of_its_own_that_are_also_in_the_library() {
    skip_unless!(Facility::Tool("gcc"));
    for link in [Link::Static, Link::AllStatic] {
        run(&compiled("tests/c/own_names.c", link), &[], "own_names.run");
    }
}

#[test]
fn daemons_are_served_as_others() {
    passes("daemons");
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
fn what_is_offline_is_cold_and_left_alone() {
    passes("offline");
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
    skip_unless!(Facility::Tool("gcc"));
    let folder = run(&compiled("tests/c/costs.c", Link::Shared), &[], "costs.run");
    let Some(folder) = folder else { return };
    let table = std::fs::read_to_string(folder.join("state/devices.toml")).expect("was saved");
    assert!(table.contains("latency_s = [0.018]"), "{table}");
}

#[test]
fn the_example_counts_lines_by_pkg_config() {
    skip_unless!(Facility::Tool("gcc"), Facility::Tool("pkg-config"));
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
fn the_fortran_of_the_documentation_reads_near_first() {
    skip_unless!(Facility::Tool("gfortran"));
    let docs = std::fs::read_to_string(source("../../docs/c.md")).expect("docs/c.md is there");
    let blocks = docs.split("```").filter_map(|block| block.strip_prefix("fortran\n"));
    let folder = scratch("fortran");
    let (text, program) = (folder.join("near_first.f90"), folder.join("near_first"));
    std::fs::write(&text, blocks.collect::<String>()).expect("the target folder can be written");
    let lib = installed().join("lib");
    done(
        Command::new("gfortran")
            .args(["-std=f2008", "-Wall", "-Wextra", "-Werror", "-o"])
            .args([program.as_os_str(), text.as_os_str(), OsStr::new("-L"), lib.as_os_str()])
            .args(["-lnearfirst", &format!("-Wl,-rpath,{}", lib.display())])
            .current_dir(&folder),
    );
    let lines = folder.join("lines");
    std::fs::write(&lines, "a line\n".repeat(100_000)).expect("the target folder can be written");
    let output = done(command(&program, &[], &folder).arg(&lines));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "100000\n");
    let missing = command(&program, &[], &folder).arg(folder.join("missing")).output();
    assert!(!missing.expect("the program starts").status.success(), "there is no such file");
}

#[test]
fn the_headers_are_cpp_too() {
    skip_unless!(Facility::Tool("g++"));
    let program = "#include <nearfirst.h>\n#include <sets.h>\n#include <sleds.h>\n\
                   int main() { int offset, nbytes; struct sled one;\n\
                   setClose(setOpen(\"*\"));\n\
                   sleds_pick_init(0, 1); sleds_get(0, &one, 1);\n\
                   return sleds_pick_next_read(0, &offset, &nbytes); }\n";
    let path = scratch("cpp").join("cpp.cc");
    std::fs::write(&path, program).expect("the target folder can be written");
    let include = installed().join("include");
    done(
        Command::new("g++")
            .args(["-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Wshadow", "-pedantic"])
            .args(["-Werror", "-I"])
            .args([&include, &path]),
    );
}

#[test]
fn nothing_but_the_calls_is_exported_under_the_soname() {
    skip_unless!(Facility::Tool("nm"), Facility::Tool("readelf"));
    let library = installed().join("lib/libnearfirst.so");
    let symbols = done(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let symbols = String::from_utf8_lossy(&symbols.stdout);
    assert!(symbols.lines().any(|line| line.ends_with(" nf_set_open")), "{symbols}");
    for line in symbols.lines() {
        let name = line.rsplit(' ').next().unwrap_or_default();
        assert!(["nf_", "sets_", "sleds_"].iter().any(|prefix| name.starts_with(prefix)), "{line}");
    }
    let dynamic = done(Command::new("readelf").arg("-d").arg(&library));
    let dynamic = String::from_utf8_lossy(&dynamic.stdout).into_owned();
    assert!(dynamic.contains("soname: [libnearfirst.so.0]"), "{dynamic}");
}
