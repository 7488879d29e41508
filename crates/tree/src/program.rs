//! Which program runs: interpreters stand for their scripts, shells and wrappers for nobody.

use std::sync::Arc;

/// What an execution is taken for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    /// A shell that is told what to do while it runs.
    Session,
    /// A shell that was given a command, or a program that runs another one.
    Wrapper,
    /// A program of this name: its path, or for an interpreter that of its script.
    Program(Vec<u8>),
}

/// What an execution of `program` with `arguments` in `folder` is taken for.
pub(crate) fn role(program: &[u8], arguments: &[Arc<[u8]>], folder: &[u8]) -> Role {
    let mut arguments: Vec<&[u8]> = arguments.iter().map(|argument| &**argument).collect();
    let mut kind = basename(program);
    if matches!(kind, b"busybox" | b"toybox" | b"coreutils") {
        if arguments.first().is_some_and(|name| basename(name) == kind) {
            arguments.remove(0);
        }
        let Some(applet) = arguments.first() else { return Role::Program(program.to_vec()) };
        kind = basename(applet);
        return match interpreted(kind, program, &arguments, folder) {
            Some(role) => role,
            None => Role::Program([program, b" ", kind].concat()),
        };
    }
    interpreted(kind, program, &arguments, folder)
        .unwrap_or_else(|| Role::Program(program.to_vec()))
}

/// The role of an interpreter, a shell or a wrapper; nothing if `kind` is none of these.
fn interpreted(kind: &[u8], program: &[u8], arguments: &[&[u8]], folder: &[u8]) -> Option<Role> {
    let kind = kind.strip_prefix(b"-").unwrap_or(kind); // a login shell's name
    let kind = &kind[..kind.len() - versions(kind)];
    let rest = arguments.get(1..).unwrap_or_default();
    let found = match kind {
        b"env" | b"nice" | b"nohup" | b"time" | b"timeout" | b"setsid" | b"stdbuf" | b"ionice"
        | b"chrt" | b"taskset" | b"sudo" | b"doas" | b"xargs" => return Some(Role::Wrapper),
        b"sh" | b"bash" | b"dash" | b"zsh" | b"ash" | b"ksh" | b"mksh" | b"yash" | b"fish" => {
            return Some(match script(rest, b"cs", b"oO", &[b"--rcfile", b"--init-file"]) {
                Found::Script(path) => Role::Program(resolve(folder, path)),
                Found::Inline if rest.iter().any(|word| is_command(word)) => Role::Wrapper,
                Found::Inline | Found::Module(_) | Found::Nothing => Role::Session,
            });
        }
        b"python" | b"pypy" => script(rest, b"c", b"WX", &[b"--check-hash-based-pycs"]),
        b"perl" => script(rest, b"eE", b"IMmF", &[]),
        b"ruby" => script(rest, b"e", b"IrEC", &[]),
        b"node" | b"nodejs" | b"bun" => script(rest, b"ep", b"rC", &[b"--require", b"--import"]),
        b"php" => script(rest, b"rBRE", b"cdz", &[]),
        b"lua" | b"luajit" | b"Rscript" | b"tclsh" | b"wish" | b"guile" => {
            script(rest, b"ec", b"l", &[])
        }
        b"awk" | b"gawk" | b"mawk" | b"nawk" => {
            let file = value_of(rest, b"-f", b"--file=").filter(|file| !is_open_already(file))?;
            return Some(Role::Program(resolve(folder, file)));
        }
        b"java" => {
            let jar = value_of(rest, b"-jar", b"-jar=")?;
            return Some(Role::Program(resolve(folder, jar)));
        }
        b"make" | b"gmake" | b"ninja" => return Some(Role::Program(built(program, rest, folder))),
        _ => return None,
    };
    Some(Role::Program(match found {
        Found::Script(path) => resolve(folder, path),
        Found::Module(name) => [program, b" -m ", name].concat(),
        Found::Inline => [program, b" -c"].concat(),
        Found::Nothing => program.to_vec(),
    }))
}

/// Whether a shell's argument says that a command follows: `-c`, also among other letters.
fn is_command(argument: &[u8]) -> bool {
    argument.starts_with(b"-") && !argument.starts_with(b"--") && argument.contains(&b'c')
}

/// What an interpreter's arguments say that it runs.
enum Found<'a> {
    Script(&'a [u8]),
    Module(&'a [u8]),
    /// A text among the arguments, of standard input, or of another descriptor.
    Inline,
    Nothing,
}

/// The script among the arguments of an interpreter whose short options `inline` bring a text and
/// `valued`, like `long`, take the next argument.
fn script<'a>(arguments: &[&'a [u8]], inline: &[u8], valued: &[u8], long: &[&[u8]]) -> Found<'a> {
    let mut arguments = arguments.iter().copied();
    while let Some(argument) = arguments.next() {
        match argument {
            b"-" => return Found::Inline,
            b"--" => return arguments.next().map_or(Found::Nothing, Found::script),
            _ if argument.starts_with(b"--") => {
                if argument == b"--eval" || argument == b"--print" {
                    return Found::Inline;
                }
                if long.contains(&argument) {
                    arguments.next();
                }
            }
            [b'-' | b'+', letters @ ..] => {
                let takes = letters.iter().position(|letter| valued.contains(letter));
                // What follows a letter with a value within one argument is its value.
                let read = &letters[..takes.map_or(letters.len(), |place| place + 1)];
                if let Some(place) = read.iter().position(|&letter| letter == b'm')
                    && inline == b"c"
                {
                    return match &read[place + 1..] {
                        b"" => arguments.next().map_or(Found::Nothing, Found::Module),
                        name => Found::Module(name),
                    };
                }
                if read.iter().any(|letter| inline.contains(letter)) {
                    return Found::Inline;
                }
                if takes.is_some_and(|place| place + 1 == letters.len()) {
                    arguments.next();
                }
            }
            script => return Found::script(script),
        }
    }
    Found::Nothing
}

impl<'a> Found<'a> {
    fn script(path: &'a [u8]) -> Self {
        if is_open_already(path) { Self::Inline } else { Self::Script(path) }
    }
}

/// Whether a name is that of a descriptor: `<(...)` of a shell, or standard input. All texts that
/// are given so have the same few names.
fn is_open_already(path: &[u8]) -> bool {
    let of_process = || path.strip_prefix(b"/proc/")?.splitn(3, |&byte| byte == b'/').nth(1);
    path == b"/dev/stdin" || path.starts_with(b"/dev/fd/") || of_process() == Some(b"fd")
}

/// The value of an option given as `short value`, `shortvalue` or `long=value`.
fn value_of<'a>(arguments: &[&'a [u8]], short: &[u8], long: &[u8]) -> Option<&'a [u8]> {
    let mut arguments = arguments.iter().copied();
    while let Some(argument) = arguments.next() {
        if argument == short || Some(argument) == long.strip_suffix(b"=") {
            return arguments.next();
        }
        if let Some(value) = argument.strip_prefix(long) {
            return Some(value);
        }
        if short.len() == 2 && argument.len() > 2 && argument.starts_with(short) {
            return Some(&argument[2..]);
        }
    }
    None
}

/// A build tool's name: itself, its folder, and the file it was told to build from.
fn built(program: &[u8], arguments: &[&[u8]], folder: &[u8]) -> Vec<u8> {
    let folder = match value_of(arguments, b"-C", b"--directory=") {
        Some(inner) => resolve(folder, inner),
        None => folder.to_vec(),
    };
    let file = value_of(arguments, b"-f", b"--file=");
    let place = match file.filter(|file| !is_open_already(file)) {
        Some(file) => resolve(&folder, file),
        None => folder,
    };
    [program, b" ", &place].concat()
}

/// The path in a program's name, without what [`role`] puts after it. Applets stay: a space and a
/// word may as well be the end of a path.
pub(crate) fn program_of(name: &[u8]) -> &[u8] {
    let at = |part: &[u8]| name.windows(part.len()).position(|window| window == part);
    let told = name.ends_with(b" -c").then(|| name.len() - b" -c".len());
    let told = told.or_else(|| at(b" -m ")).or_else(|| at(b" /"));
    &name[..told.unwrap_or(name.len())]
}

/// How many bytes at the end of an interpreter's name are its version.
fn versions(name: &[u8]) -> usize {
    name.iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'))
        .count()
}

/// What comes after the last `/`.
pub(crate) fn basename(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or_default()
}

/// A name as an absolute path: relative ones begin at `folder`; `.` and `..` are worked out without
/// looking, so a link before a `..` leads elsewhere than the kernel goes.
pub(crate) fn resolve(folder: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(folder.len() + name.len() + 1);
    let whole: [&[u8]; 2] = if name.starts_with(b"/") { [b"", name] } else { [folder, name] };
    for part in whole.iter().flat_map(|half| half.split(|&byte| byte == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => {
                let parent = path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                path.truncate(parent);
            }
            part => {
                path.push(b'/');
                path.extend_from_slice(part);
            }
        }
    }
    if path.is_empty() {
        path.push(b'/');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(line: &str) -> String {
        let words: Vec<Arc<[u8]>> =
            line.split(' ').map(|word| Arc::from(word.as_bytes())).collect();
        let mut program = words[0].to_vec();
        if !program.starts_with(b"/") {
            program = [b"/bin/", &program[..]].concat();
        }
        match role(&program, &words, b"/home/u") {
            Role::Session => "session".to_owned(),
            Role::Wrapper => "wrapper".to_owned(),
            Role::Program(name) => String::from_utf8(name).unwrap(),
        }
    }

    #[test]
    fn interpreters_stand_for_their_scripts() {
        for (line, name) in [
            ("cat a", "/bin/cat"),
            ("bash -eu build.sh -c", "/home/u/build.sh"),
            ("bash -o pipefail ./x/../build.sh", "/home/u/build.sh"),
            ("python3.11 -W error /opt/tool.py a", "/opt/tool.py"),
            ("python3 -u -m pytest tests", "/bin/python3 -m pytest"),
            ("python3 -um pytest", "/bin/python3 -m pytest"),
            ("python3 -c pass", "/bin/python3 -c"),
            ("python3", "/bin/python3"),
            ("perl -w -Mstrict tool.pl", "/home/u/tool.pl"),
            ("perl -ne print", "/bin/perl -c"),
            ("perl /dev/fd/63 a", "/bin/perl -c"),
            ("python3 -u -- /dev/stdin", "/bin/python3 -c"),
            ("ruby /proc/self/fd/3", "/bin/ruby -c"),
            ("perl /proc/self/fdinfo", "/proc/self/fdinfo"),
            ("ruby -I lib -r x run.rb", "/home/u/run.rb"),
            ("node --require x app.js", "/home/u/app.js"),
            ("gawk -F: -f sum.awk data", "/home/u/sum.awk"),
            ("awk {print} data", "/bin/awk"),
            ("awk -f /dev/fd/63 data", "/bin/awk"),
            ("java -Xmx1g -jar app.jar", "/home/u/app.jar"),
            ("make -j4 all", "/bin/make /home/u"),
            ("make -C src -f Build.mk", "/bin/make /home/u/src/Build.mk"),
            ("make -f /dev/stdin", "/bin/make /home/u"),
            ("ninja -C../out", "/bin/ninja /home/out"),
            ("/bin/busybox ls -l", "/bin/busybox ls"),
            ("/bin/busybox sh run.sh", "/home/u/run.sh"),
        ] {
            assert_eq!(named(line), name, "{line}");
        }
    }

    #[test]
    fn the_program_in_a_name_is_told_from_what_it_was_told() {
        for (name, program) in [
            ("/bin/make /home/u", "/bin/make"),
            ("/bin/python3 -m pytest", "/bin/python3"),
            ("/bin/perl -c", "/bin/perl"),
            ("/opt/my tools/cat", "/opt/my tools/cat"),
            ("/opt/my tools/make /src/a b", "/opt/my tools/make"),
            ("/bin/busybox ls", "/bin/busybox ls"),
        ] {
            assert_eq!(program_of(name.as_bytes()), program.as_bytes(), "{name}");
        }
    }

    #[test]
    fn shells_without_a_script_are_sessions_or_wrap_a_command() {
        for line in ["bash", "-bash", "dash -s", "bash -i", "bash /dev/fd/63"] {
            assert_eq!(named(line), "session", "{line}");
        }
        for line in ["sh -c true", "bash -lc make", "env A=b make", "nice make"] {
            assert_eq!(named(line), "wrapper", "{line}");
        }
    }

    #[test]
    fn names_are_resolved_without_looking() {
        for (name, path) in
            [("a", "/f/a"), ("/x//y/", "/x/y"), ("../..", "/"), ("./a/../b", "/f/b")]
        {
            assert_eq!(resolve(b"/f", name.as_bytes()), path.as_bytes(), "{name}");
        }
    }
}
