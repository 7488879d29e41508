//! `nearfirst run` on a terminal: a command that is stopped and continued by its user's keys, and
//! that keeps the terminal to itself.

mod running;

use std::fs;

use running::script;
use testkit::{Dir, Facility, cmd, skip_unless};

/// Types into a shell on a terminal of its own: text, and what must be read before it is typed.
const TYPIST: &str = r"
import os, pty, re, select, sys
program, script = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    os.environ['PS1'] = 'ready> '
    os.execlp('bash', 'bash', '--norc', '--noprofile', '--noediting', '-i')
seen = b''
def wait(pattern):
    global seen
    while not re.search(pattern, seen):
        if not select.select([terminal], [], [], 60)[0]:
            sys.exit(f'{pattern} did not come, but {seen}')
        seen += os.read(terminal, 4096)
    seen = seen[re.search(pattern, seen).end():]
def type(text):
    os.write(terminal, text.encode())
wait(rb'ready> ')
type(f'{program} run -- {script}\n')
wait(rb'asks\r\n')
for again in range(3):
    type('\x1a')
    wait(rb'Stopped')
    wait(rb'ready> ')
    type('jobs -s | wc -l\n')
    wait(rb'\r\n1\r\n')
    type('fg\n')
    wait(rb'run -- ')
type('a line\n')
wait(rb'got a line\r\n')
type('\x03')
wait(rb'interrupted\r\n')
wait(rb'ready> ')
type('echo code=$?\n')
wait(rb'code=44\r\n')
type('exit\n')
os.waitpid(pid, 0)
";

#[test]
fn a_command_is_stopped_continued_and_interrupted_by_keys() {
    skip_unless!(Facility::Tool("python3"), Facility::Tool("bash"));
    let dir = Dir::new();
    let asking = script(
        &dir,
        "asking",
        "trap 'echo interrupted; exit 44' INT\necho asks\nread -r line\necho got $line\n\
         while :; do sleep 0.05; done",
    );
    let typist = dir.create("typist.py", TYPIST);
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let run = cmd("python3", [typist.as_path(), program.as_ref(), &asking]);
    run.env("NEARFIRST_STATE", dir.join("state")).run().succeeds().is_quiet();
    assert!(fs::metadata(dir.join("state/trees")).expect("it was learned").len() > 0);
}
