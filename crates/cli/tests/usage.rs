//! Command lines that cannot be understood: who says so, and with which exit code.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use testkit::{Cmd, Dir, Facility, cmd, skip_unless};

struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs the program under the name that comes first.
fn run(words: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nearfirst"));
    let output = command.arg0(words[0]).args(&words[1..]).output().unwrap();
    Said {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

#[track_caller]
fn refuses(words: &[&str], code: i32, starts: &str) {
    let Said { code: ours, stdout, stderr } = run(words);
    assert_eq!(ours, Some(code), "{words:?}: {stderr}");
    assert!(stderr.starts_with(starts), "{words:?}: {stderr}");
    assert_eq!(stdout, "");
}

#[test]
fn a_command_refuses_with_the_exit_code_of_the_program_it_stands_in_for() {
    for command in ["wc", "find"] {
        refuses(&["nearfirst", command, "--stats=x"], 1, &format!("nearfirst {command}: "));
        refuses(&[command, "--stats=x"], 1, &format!("{command}: unexpected value 'x'"));
    }
    for command in
        ["grep", "sleds", "order", "ls", "cat", "cp", "each", "calibrate", "devices", "trees"]
    {
        let words = ["nearfirst", command, "--no-such-flag"];
        refuses(&words, 2, &format!("nearfirst {command}: unexpected argument '--no-such-flag'"));
        let words = [command, "--no-such-flag"];
        refuses(&words, 2, &format!("{command}: unexpected argument '--no-such-flag'"));
    }
    refuses(&["/a/folder/wc", "-Q"], 1, "wc: unexpected argument '-Q' found");
    refuses(&["wc", "--total=often"], 1, "wc: invalid value 'often' for '--total <WHEN>'");
}

#[test]
fn help_is_a_command_too() {
    let asked = run(&["nearfirst", "help", "wc"]);
    assert_eq!((asked.code, &*asked.stderr), (Some(0), ""));
    assert_eq!(asked.stdout, run(&["nearfirst", "wc", "--help"]).stdout);
    assert_eq!(run(&["nearfirst", "help", "wc", "--help"]).stdout, asked.stdout);
    let itself = run(&["nearfirst", "help", "help"]).stdout;
    assert!(itself.contains("Usage: nearfirst help"), "{itself}");
    for flag in ["--help", "-h"] {
        let asked = run(&["nearfirst", "help", flag]);
        assert_eq!((asked.code, asked.stdout.as_str()), (Some(0), itself.as_str()));
    }
}

#[test]
fn help_is_as_wide_as_its_terminal_and_no_paragraph_breaks_before() {
    let everything = |command: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_nearfirst"));
        let output = program.env("COLUMNS", "80").args([command, "--help"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for command in [
        "sleds",
        "order",
        "ls",
        "cat",
        "cp",
        "each",
        "wc",
        "grep",
        "find",
        "run",
        "watch",
        "trees",
        "calibrate",
        "devices",
    ] {
        let help = everything(command);
        let wide = help.lines().find(|line| line.chars().count() > 80);
        assert_eq!(wide, None, "{command}");
        let (about, _) = help.split_once("\nUsage: ").unwrap();
        let lines: Vec<&str> = about.lines().collect();
        let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ');
        for pair in lines.windows(2).filter(|pair| pair.iter().all(|line| is_prose(line))) {
            let word = pair[1].split(' ').next().unwrap();
            assert!(pair[0].chars().count() + 1 + word.len() > 80, "{command}: {pair:?}");
        }
    }
}

#[test]
fn every_command_tells_its_version_under_its_own_name() {
    let version = env!("CARGO_PKG_VERSION");
    for flag in ["--version", "-V"] {
        for command in ["sleds", "cp", "wc", "grep", "run", "trees"] {
            let told = run(&["nearfirst", command, flag]);
            assert_eq!(told.stdout, format!("nearfirst {command} {version}\n"));
            let by_name = run(&[command, flag]);
            assert_eq!(by_name.stdout, format!("{command} (nearfirst) {version}\n"));
        }
        assert_eq!(run(&["nearfirst", flag]).stdout, format!("nearfirst {version}\n"));
    }
    for words in [&["find", ".", "-version"][..], &["find", "--version"]] {
        assert_eq!(run(words).stdout, format!("find (nearfirst) {version}\n"));
    }
    refuses(&["find", "-V"], 1, "find: unknown predicate `-V'\n");
}

#[test]
fn what_is_missing_or_wrong_is_what_is_named() {
    refuses(&["cp", "-v", "a.txt"], 2, "cp: missing destination file operand after a.txt\n");
    refuses(&["cp", ""], 2, "cp: missing destination file operand after ''\n");
    refuses(&["cp", "a.txt", ""], 2, "cp: '': the name of the destination is empty\n");
    let none = run(&["cp"]);
    assert!(none.stderr.starts_with("cp: the following required arguments"), "{}", none.stderr);
    assert!(none.stderr.contains("\nUsage: cp [OPTIONS] <SPEC>... <DEST>\n"), "{}", none.stderr);
    let number =
        "sleds: invalid value '-1' for '--wait-max <SECONDS>': a number of seconds above 0";
    refuses(&["sleds", "--wait-max", "-1", "a"], 2, number);
    refuses(&["sleds", ""], 1, "sleds: '': No such file or directory\n");
    for command in ["ls", "cat", "sleds", "order"] {
        let missing = format!("{command}: *.nope: No such file or directory\n");
        refuses(&[command, "*.nope"], 1, &missing);
        let missing = format!("{command}: file:///nope: No such file or directory\n");
        refuses(&[command, "file:///nope"], 1, &missing);
    }
    for (flag, tip) in [
        ("--debug", "no log is kept; "),
        ("--include=*.c", "-g GLOB searches "),
        ("--exclude-dir=x", "-g GLOB searches "),
        ("--recursive", "folders are searched without it; "),
        ("-R", "folders are searched without it; "),
    ] {
        let name = flag.split('=').next().unwrap();
        let starts = format!("grep: unexpected argument '{name}' found\n\n  tip: {tip}");
        refuses(&["grep", flag, "a", "b"], 2, &starts);
    }
    for command in ["ls", "cat", "cp", "each"] {
        for flag in ["-r", "-R", "--recursive"] {
            let tip = "folders need no flag; 'FOLDER/**' is all files below one";
            let starts = format!("{command}: unexpected argument '{flag}' found\n\n  tip: {tip}");
            refuses(&[command, flag, "a", "b"], 2, &starts);
        }
    }
    for (command, flag, tip) in [
        ("ls", "-a", "'.*' matches the names that begin with a dot"),
        ("cp", "-p", "times, and modes less the umask, are kept without it"),
        ("cat", "--endpoint", "--storage-option=endpoint=URL"),
        ("wc", "-z", "'nearfirst cat -z' decompresses what it writes"),
    ] {
        let starts = format!("{command}: unexpected argument '{flag}' found\n\n  tip: {tip}\n");
        refuses(&[command, flag, "a", "b"], if command == "wc" { 1 } else { 2 }, &starts);
    }
    let elsewhere = "trees: unexpected argument '--svg' found\n\n  tip: 'show --svg' exists\n";
    refuses(&["trees", "--svg", "show", "wc"], 2, elsewhere);
    for (command, flag) in [("cat", "-n"), ("wc", "--bogus")] {
        assert!(!run(&[command, flag, "a"]).stderr.contains("tip:"), "{command} {flag}");
    }
    let Said { stderr, .. } = run(&["calibrate", "--no-save", "http://127.0.0.1:1/a"]);
    assert_eq!(stderr, "calibrate: http://127.0.0.1:1/a: reading from a server measures it\n");
    for flag in ["--inclde=*.c", "--recursve"] {
        let Said { stderr, .. } = run(&["grep", flag, "a", "b"]);
        let is_refused = ["--include'", "--recursive"].iter().any(|tip| stderr.contains(tip));
        assert!(!is_refused, "{stderr}");
    }
    refuses(&["grep", "-q", "a", "none"], 2, "grep: none: No such file or directory\n");
    // As of a variable that is not set: neither a price nor a wait without end is meant.
    let days = "cat: invalid value '' for '--recall[=<DAYS>]': a number of days above 0";
    refuses(&["cat", "--recall=", "a"], 2, days);
    let limit = "cat: invalid value '' for '--wait[=<SECONDS>]': a number of seconds above 0";
    refuses(&["cat", "--recall", "--wait=", "a"], 2, limit);
    let number = "cat: invalid value '0' for '--attempts <N>': a whole number above 0";
    refuses(&["cat", "--attempts=0", "a"], 2, number);
    let Said { stderr, .. } = run(&["cat", "--ordred", "a"]);
    assert!(stderr.contains("a similar argument exists: '--ordered'"), "{stderr}");
    let Said { stderr, .. } = run(&["cat", "--bordered", "a"]);
    assert!(!stderr.contains("similar"), "{stderr}");
}

#[test]
fn flags_of_cp_stand_wherever_they_like() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    std::fs::write(&from, "text").unwrap();
    let said = run(&["cp", from.to_str().unwrap(), "-v", to.to_str().unwrap()]);
    assert_eq!((said.code, &*said.stderr), (Some(0), ""));
    assert_eq!(std::fs::read(&to).unwrap(), b"text");
}

#[test]
fn flags_that_would_change_nothing_are_refused() {
    for other in ["--ordered", "--unordered", "--rank=oldest"] {
        refuses(&["ls", "--sort=name", other, "a"], 2, "ls: the argument '--sort <KEY>' cannot be");
    }
    for (command, flag) in [("forget", "--json"), ("import", "--json"), ("import", "--state")] {
        let starts = format!("trees: unexpected argument '{flag}' found\n");
        refuses(&["trees", command, flag, "a"], 2, &starts);
        let Said { stdout, .. } = run(&["trees", command, "--help"]);
        assert!(!stdout.contains(flag), "{stdout}");
    }
    for (before, word, flag) in [
        ("--json", "import", "--json"),
        ("--state=a", "import", "--state <FOLDER>"),
        ("--service", "import", "--service"),
        ("--json", "forget", "--json"),
    ] {
        refuses(&["trees", before, word, "a"], 2, &format!("trees: `{word}` takes no {flag}\n"));
    }
    let drawing = "trees: the argument '--svg <FILE>' cannot be used with '--json'\n";
    refuses(&["trees", "show", "--svg=a", "--json", "a"], 2, drawing);
    refuses(&["trees", "--json", "show", "--svg=a", "a"], 2, drawing);
    // A usage would show the two as if they belonged together.
    let both = run(&["cat", "--order=listed", "--replay-order=a", "b"]).stderr;
    assert!(both.contains("cannot be used with") && !both.contains("Usage"), "{both}");
    for (command, code) in [("ls", 2), ("cat", 2), ("grep", 2), ("wc", 1)] {
        let starts = format!("{command}: --spill /none: No such file or directory\n");
        refuses(&[command, "--spill=/none", "Cargo.toml"], code, &starts);
        let starts = format!("{command}: --spill Cargo.toml: not a folder\n");
        refuses(&[command, "--spill=Cargo.toml", "Cargo.toml"], code, &starts);
    }
}

#[test]
fn a_rank_is_a_hint_but_where_it_may_be_the_order() {
    let cases = [
        ("ls", "--help", true),
        ("cat", "--help", false),
        ("cat", "-h", false),
        ("each", "-h", false),
    ];
    for (command, help, only_a_hint) in cases {
        let told = run(&[command, help]).stdout;
        let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(told.contains("a hint, never a reason to wait"), only_a_hint, "{told}");
        let waits = "a hint, a reason to wait only with --order rank";
        assert_eq!(told.contains(waits), !only_a_hint, "{told}");
    }
}

#[test]
fn a_man_page_has_the_usage_of_the_help_and_what_follows_it() {
    let folder = tempfile::tempdir().unwrap();
    let told = run(&["nearfirst", "generate", folder.path().to_str().unwrap()]);
    assert_eq!((told.code, &*told.stderr), (Some(0), ""));
    let page = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(page("nearfirst-cat.1").contains("\\fBnearfirst cat\\fR [OPTIONS] <SPEC>...\n"));
    assert!(page("nearfirst-wc.1").contains(".SH NOTES\nExit codes:\n.in +2n\n\\&0  everything "));
    assert!(page("nearfirst-trees-show.1").contains("nearfirst 0."));
    assert!(page("nearfirst-ls.1").contains("\n\\fIshare/doc/nearfirst\\fR, beside "));
    assert!(!page("nearfirst.1").contains("nearfirst\\-help"));
    for page in ["devices", "sleds", "watch"].map(|name| page(&format!("nearfirst-{name}.1"))) {
        let head = page.lines().find(|line| line.starts_with(".TH ")).unwrap();
        let fields: Vec<_> = head.splitn(4, ' ').skip(2).collect();
        let version = concat!("\"nearfirst ", env!("CARGO_PKG_VERSION"), "\" \"User Commands\"");
        assert_eq!(fields[0], "1");
        let (day, rest) = fields[1].split_once(' ').unwrap();
        assert_eq!((day.len(), rest), ("2026-01-02".len(), version), "{head}");
        for word in [
            ".SH FILES\n",
            "/devices.toml",
            ".SH ENVIRONMENT\n",
            "XDG_STATE_HOME",
            "LC_CTYPE",
            "NO_COLOR",
        ] {
            assert!(page.contains(word), "{word}");
        }
    }
    for not_a_command in ["nearfirst-help.1", "nearfirst-generate.1"] {
        assert!(!folder.path().join(not_a_command).exists(), "{not_a_command}");
    }
    for completions in ["nearfirst.bash", "_nearfirst", "nearfirst.fish"] {
        assert!(page(completions).contains("calibrate"), "{completions}");
        assert!(!page(completions).contains("generate"), "{completions}");
        for word in ["-newerXY", "-mindepth", "-not -a -and -o -or", "2>/dev/null"] {
            assert!(page(completions).contains(word), "{completions}: {word}");
        }
        for refused in ["debug", "recursive"] {
            assert!(!page(completions).contains(refused), "{completions}: {refused}");
        }
    }
    // What stands in functions is of no use where nothing calls them.
    let zsh = page("_nearfirst");
    assert_eq!(zsh.matches(":_nearfirst_find' \\\n").count(), 1);
    assert_eq!(zsh.matches(":_nearfirst_each' \\\n").count(), 1);
    assert_eq!(zsh.matches(":_nearfirst_programs' \\\n").count(), 2);
    let operand = |line: &&str| line.contains(" -- ") && line.ends_with(":_default' \\");
    assert_eq!(zsh.lines().find(operand), None, "operands are files");
}

#[test]
fn fish_completes_commands_and_the_programs_of_the_patterns_that_are_asked_about() {
    skip_unless!(Facility::Tool("fish"));
    let folder = tempfile::tempdir().unwrap();
    let told = run(&["nearfirst", "generate", folder.path().to_str().unwrap()]);
    assert_eq!((told.code, &*told.stderr), (Some(0), ""));
    let ours = "function nearfirst; echo '{\"program\":{\"text\":\"of'(count $argv)'\"}}'; end";
    let completed = |line: &str| {
        let script = format!("source nearfirst.fish; {ours}; complete -C '{line}'");
        let mut fish = Command::new("fish");
        let output = fish.env("HOME", folder.path()).current_dir(&folder).args(["-Nc", &script]);
        String::from_utf8(output.output().unwrap().stdout).unwrap()
    };
    for line in ["run -- prin", "each a b -- prin"] {
        assert!(completed(&format!("nearfirst {line}")).contains("printf"), "{line}");
    }
    assert!(completed("nearfirst trees show ").contains("of2\n"));
    assert!(completed("nearfirst trees show --service ").contains("of3\n"));
    assert!(!completed("nearfirst trees show --state folder ").contains("of"));
}

/// Adds to `offered` what zsh offers, at a terminal of its own, at the end of each line.
const COMPLETE_AT_A_TERMINAL: &str = r#"
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'source ./begin'
zpty -r shell seen '*ready'
for line in "$@"; do
    zpty -n -w shell "$line"$'\t\C-u'
    zpty -w shell 'print >>offered'
    zpty -r shell seen '*ready'
done
"#;

const BEGIN: &str = r#"
fpath=($PWD $fpath)
autoload -U compinit
compinit -u -d known
nearfirst() { print "{\"program\":{\"text\":\"of$#\"}}" }
compadd() {
    local -a found
    builtin compadd -O found "$@"
    print -rn -- "${found:+$found }" >>offered
    builtin compadd "$@"
}
unsetopt auto_list
zle-line-init() { print -n ready }
zle -N zle-line-init
"#;

#[test]
fn zsh_completes_commands_flags_and_the_programs_of_the_patterns_that_are_asked_about() {
    skip_unless!(Facility::Tool("zsh"));
    let folder = Dir::new();
    let told = run(&["nearfirst", "generate", folder.path().to_str().unwrap()]);
    assert_eq!((told.code, &*told.stderr), (Some(0), ""));
    folder.create("begin", BEGIN);
    let expected = [
        ("sle", "sleds"),
        ("ls --unor", "--unordered"),
        ("find . -newerX", "-newerXY"),
        ("run -- prin", "printf"),
        ("each a b -- prin", "printf"),
        ("each a -- sh beg", "begin"),
        ("each beg", "begin"),
        ("trees show ", "of2"),
        ("trees show --service ", "of3"),
        ("trees forget --service a ", "of3"),
        ("trees show --state folder ", "--svg"),
    ];
    let zsh = cmd("zsh", ["-fc", COMPLETE_AT_A_TERMINAL, "zsh"]).dir(&folder);
    let lines = expected.map(|(line, _)| format!("nearfirst {line}"));
    lines.iter().fold(zsh, Cmd::arg).run().succeeds();
    let offered = std::fs::read_to_string(folder.join("offered")).unwrap();
    assert_eq!(offered.lines().count(), expected.len(), "{offered}");
    for ((line, word), offered) in expected.iter().zip(offered.lines()) {
        assert!(offered.split(' ').any(|offer| offer == *word), "{line}: {offered}");
        assert!(word.starts_with("of") || !offered.contains("of"), "{line}: {offered}");
    }
}

#[test]
fn a_number_of_jobs_that_is_none_is_told_what_it_should_be() {
    for jobs in ["--jobs=0", "--jobs=many", "--jobs=-1"] {
        for words in [["ls", jobs, "x"], ["grep", jobs, "x"]] {
            let Said { code, stderr, .. } = run(&[&["nearfirst"][..], &words].concat());
            assert_eq!(code, Some(2), "{words:?}: {stderr}");
            let told = "for '--jobs <N>': a whole number above 0\n";
            assert!(stderr.contains(told), "{words:?}: {stderr}");
        }
    }
}

#[test]
fn no_more_threads_are_started_than_are_of_use() {
    let folder = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| folder.path().join(name));
    std::fs::create_dir(&from).unwrap();
    for name in ["a", "b"] {
        std::fs::write(from.join(name), "text\n").unwrap();
    }
    let [from, to] = [&from, &to].map(|path| path.to_str().unwrap());
    for words in [
        &["grep", "-j200000", "-c", "text", from][..],
        &["grep", "--jobs=200000", "-c", "text", from],
        &["cp", "-j200000", &format!("{from}/*"), to],
    ] {
        let Said { code, stderr, .. } = run(words);
        assert_eq!(code, Some(0), "{words:?}: {stderr}");
    }
}

#[test]
fn a_folder_is_told_how_to_name_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let copy = folder.path().join("copy");
    for words in [&["cat", path][..], &["cp", path, copy.to_str().unwrap()]] {
        let starts =
            format!("{}: {path}: Is a directory; 'FOLDER/**' is all files below", words[0]);
        refuses(words, 1, &starts);
    }
}

#[test]
fn what_is_no_command_is_refused_by_the_program() {
    refuses(&["nearfirst", "no-such-command"], 2, "nearfirst: unrecognized subcommand");
    refuses(&["nearfirst", "--no-such-flag"], 2, "nearfirst: unexpected argument");
    refuses(&["nearfirst"], 2, "Reads what is near first");
    refuses(&["another-name", "no-such-command"], 2, "nearfirst: unrecognized subcommand");
}

#[test]
fn a_command_called_by_name_names_itself_in_its_usage() {
    assert!(run(&["/bin/wc", "-Q"]).stderr.contains("Usage: wc [OPTIONS]"));
    assert!(run(&["nearfirst", "wc", "-Q"]).stderr.contains("Usage: nearfirst wc [OPTIONS]"));
    // Also where not clap, but the command itself finds that a value is wrong.
    assert!(run(&["grep", "-m", "x", "y"]).stderr.contains("number\n\nUsage: grep [OPTIONS]"));
    let wrong = run(&["nearfirst", "grep", "-m", "x", "y"]);
    assert!(wrong.stderr.contains("number\n\nUsage: nearfirst grep [OPTIONS]"), "{}", wrong.stderr);
    let help = run(&["wc", "--help"]);
    assert_eq!((help.code, &*help.stderr), (Some(0), ""));
    assert!(help.stdout.contains("Usage: wc [OPTIONS] [FILE]..."), "{}", help.stdout);
}

#[test]
fn help_that_cannot_be_written_is_an_error() {
    for (words, code) in [
        (&["wc", "--help"][..], 1),
        (&["find", "--help"], 1),
        (&["find", "-version"], 1),
        (&["grep", "--version"], 2),
        (&["cat", "--help"], 2),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfirst"));
        let output = command.args(words).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.ends_with("write error: No space left on device\n"), "{words:?}: {said}");
    }
}

#[test]
fn files_before_1970_have_their_time_by_path_and_by_url() {
    let folder = tempfile::tempdir().unwrap();
    let old = std::fs::File::create(folder.path().join("old")).unwrap();
    let before = std::time::Duration::from_millis(1_500);
    old.set_modified(std::time::SystemTime::UNIX_EPOCH - before).unwrap();
    for place in ["", "file://"] {
        let place = format!("{place}{}", folder.path().display());
        // The fraction counts from the whole second before, as in GNU find.
        let expected = "old -2.5000000000 1969-12-31T23:59:58.5000000000Z\n";
        let tests = ["-type", "f", "-not", "-newermt", "1969-12-31 23:59:59Z"];
        let shown = ["-printf", "%f %T@ %TY-%Tm-%TdT%TTZ\\n"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfirst"));
        command.arg("find").arg(&place).args(tests).args(shown).env("TZ", "UTC");
        let output = command.env("NEARFIRST_STATE", folder.path()).output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), expected, "{place}");
    }
}

#[test]
fn a_full_stdout_ends_all_but_those_that_stand_in_for_others_alike() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["file", "other"] {
        std::fs::write(folder.path().join(name), "a line\n").unwrap();
    }
    let url = format!("file://{}", folder.path().display());
    for (line, code) in [
        (format!("grep a {url}/file {url}/other").as_str(), 2),
        ("cat file", 2),
        ("ls file", 2),
        ("ls --sort=name file", 2),
        ("cp -v file copy", 2),
        ("each file -- cat {}", 2),
        ("order file", 2),
        ("sleds file", 2),
        ("grep a file", 2),
        ("wc file", 1),
        ("find file", 1),
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_nearfirst"));
        let command = command.args(line.split(' ')).current_dir(folder.path());
        let output = command.env("NEARFIRST_STATE", folder.path()).stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(code), 1), "{line}: {said}");
        assert!(said.ends_with(": No space left on device\n"), "{line}: {said}");
    }
}

#[test]
fn what_is_written_to_a_closed_stdout_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "a line\n").unwrap();
    let closed = |line: &str| {
        let script = format!("exec \"$0\" {line} >&-");
        let mut command = Command::new("sh");
        let command = command.args(["-c", &script, env!("CARGO_BIN_EXE_nearfirst")]).arg(&file);
        let output = command.env("NEARFIRST_STATE", folder.path()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (line, code) in [
        ("wc \"$1\"", 1),
        ("find \"$1\"", 1),
        ("grep a \"$1\"", 2),
        ("cat \"$1\"", 2),
        ("ls \"$1\"", 2),
        ("sleds --json \"$1\"", 2),
        ("order \"$1\"", 2),
        ("--help", 2),
    ] {
        let (ours, stderr) = closed(line);
        assert_eq!(ours, Some(code), "{line}: {stderr}");
        assert!(stderr.contains(": Bad file descriptor\n"), "{line}: {stderr}");
    }
    // Who writes nothing misses nothing.
    assert_eq!(closed("grep -q a \"$1\""), (Some(0), String::new()));
    assert_eq!(closed("grep -q b \"$1\""), (Some(1), String::new()));
}

/// Completes the last of the words that follow the folder of the completions.
const COMPLETE: &str = r#"
source "$1/nearfirst.bash"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_nearfirst_and_more "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

#[test]
fn a_shell_completes_what_is_meant_and_flags_only_where_one_is_begun() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run(&["nearfirst", "generate", folder.path().to_str().unwrap()]).code, Some(0));
    let completed = |words: &[&str]| {
        let mut bash = Command::new("bash");
        let bash = bash.args(["--norc", "-c", COMPLETE, "bash"]).arg(folder.path());
        let output = bash.arg(env!("CARGO_BIN_EXE_nearfirst")).args(words).output().unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(completed(&["sle"]), "sleds\n");
    // None of ours: files.
    assert_eq!(completed(&["ls", ""]), "\n");
    assert_eq!(completed(&["ls", "--unor"]), "--unordered\n");
    assert_eq!(completed(&["sleds", "--plan", ""]), "linear\nbest\n");
    assert_eq!(completed(&["find", ".", "-newerX"]), "-newerXY\n");
    assert!(completed(&["trees", ""]).starts_with("list\nshow\n"));
    for before in [&["run"][..], &["run", "--"], &["run", "--stats"], &["each", "a", "--"]] {
        let words = [before, &["bas"]].concat();
        assert!(completed(&words).lines().any(|word| word == "bash"), "{words:?}");
        let words = [before, &["/usr/b"]].concat();
        assert_eq!(completed(&words), "\n", "a path is left to the shell");
    }
}
