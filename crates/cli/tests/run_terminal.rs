//! `nearfirst run` on a terminal: a command that is stopped and continued by its user's keys, and
//! that keeps the terminal to itself.

mod running;

use std::fs;
use std::path::{Path, PathBuf};

use running::script;
use testkit::{Dir, Facility, cmd, skip_unless};

/// Has a shell on a terminal of its own: types into it, and waits for what it writes.
const TYPIST: &str = r"
import os, pty, re, select, signal, sys, time
program, script = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    # What a script begins in the background ignores them, and so would all that it begins.
    for key in (signal.SIGINT, signal.SIGQUIT):
        signal.signal(key, signal.SIG_DFL)
    os.environ['PS1'] = 'ready> '
    os.execlp('bash', 'bash', '--norc', '--noprofile', '--noediting', '-i')
seen = b''
def wait(pattern):
    global seen
    while not re.search(pattern, seen):
        if not select.select([terminal], [], [], 60)[0]:
            sys.exit(f'{pattern} did not come, but {seen}')
        seen += os.read(terminal, 4096)
    found = re.search(pattern, seen)
    seen = seen[found.end():]
    return found[found.re.groups].decode()
def type(text):
    os.write(terminal, text.encode())
def begin(before=''):
    type(f'{before}{program} run -- {script}\n')
def leave():
    type('exit\n')
    os.waitpid(pid, 0)
wait(rb'ready> ')
";

/// Stops and continues the command, and then gives it what it asks for.
const STOPS: &str = r"
begin()
wait(rb'asks\r\n')
for again in range(3):
    type('\x1a')
    wait(rb'Stopped')
    wait(rb'ready> ')
    type('jobs -s | wc -l\n')
    wait(rb'\r\n1\r\n')
    type('fg\n')
    wait(rb'continued\r\n')
type('a line\n')
wait(rb'got a line\r\n')
type('\x03')
wait(rb'interrupted\r\n')
wait(rb'ready> ')
type('echo code=$?\n')
wait(rb'code=44\r\n')
leave()
";

/// Stops the command by a key, and continues it by its own number, not by its job's.
const CONTINUES_ALONE: &str = r"
begin()
number = wait(rb'asks ([0-9]+)\r\n')
type('\x1a')
wait(rb'Stopped')
wait(rb'ready> ')
type(f'kill -CONT {number}; until [ $(jobs -s | wc -l) = 0 ]; do :; done; wait %1; echo code=$?\n')
wait(rb'code=5\r\n')
leave()
";

/// Interrupts a command.
const INTERRUPTS: &str = r"
begin()
wait(rb'asks\r\n')
type('\x03')
wait(rb'interrupted\r\n')
wait(rb'ready> ')
leave()
";

/// Stops a command that takes its time to stop, and continues it.
const STOPS_SLOWLY: &str = r"
begin()
wait(rb'asks\r\n')
for again in range(2):
    type('\x1a')
    wait(rb'stops\r\n')
    wait(rb'Stopped')
    wait(rb'ready> ')
    type('fg\n')
    wait(rb'continued\r\n')
type('\x1c')
wait(rb'ready> ')
leave()
";

/// Stops a command while it begins; one key may come before there is anybody to stop.
const STOPS_EARLY: &str = r"
for early in range(0, 24, 2):
    # A key before that would take the line with it.
    begin('echo begins; ')
    wait(rb'begins\r\n')
    time.sleep(early / 1000)
    for again in range(60):
        if b'Stopped' in seen:
            break
        type('\x1a')
        end = time.monotonic() + 0.5
        while b'Stopped' not in seen and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 4096)
    else:
        sys.exit(f'it does not stop: {seen}')
    wait(rb'ready> ')
    # By its number: bash, of itself, may not take one that stops so early for its current job.
    type('kill -9 %1; fg %1\n')
    wait(rb'Killed')
    wait(rb'ready> ')
    seen = b''
leave()
";

/// Begins a command that leads its session, as that of `ssh -t` does; waits until it asks and has stopped,
/// if it does, and takes its terminal away.
const HANGS_UP: &str = r"
import os, pty, signal, sys
program, command, stops = sys.argv[1:]
pid, terminal = pty.fork()
if pid == 0:
    # The tests may run under `nohup`.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.execl(program, program, 'run', '--', command)
seen = b''
while b'asks' not in seen:
    seen += os.read(terminal, 4096)
if stops == 'stops':
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
os.close(terminal)
status = os.waitpid(pid, 0)[1]
sys.exit(0 if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGHUP else status)
";

#[test]
fn a_command_is_stopped_continued_and_interrupted_by_keys() {
    skip_unless!(Facility::Tool("python3"), Facility::Tool("bash"));
    let dir = Dir::new();
    let asking = python(
        &dir,
        "import select, signal, sys\n\
         signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCONT])\n\
         print('asks', flush=True)\n\
         try:\n    \
             while True:\n        \
                 if signal.sigtimedwait([signal.SIGCONT], 0.02):\n            \
                     print('continued', flush=True)\n        \
                 if select.select([sys.stdin], [], [], 0)[0]:\n            \
                     print('got', sys.stdin.readline(), flush=True)\n\
         except KeyboardInterrupt:\n    \
             print('interrupted', flush=True)\n    \
             sys.exit(44)\n",
    );
    type_into(&dir, &asking, STOPS);
    assert!(fs::metadata(dir.join("state/trees")).expect("it was learned").len() > 0);
}

#[test]
fn a_command_that_was_stopped_by_a_key_and_is_continued_by_its_number_is_a_job_that_runs() {
    skip_unless!(Facility::Tool("python3"), Facility::Tool("bash"));
    let dir = Dir::new();
    let text = "trap 'exit 5' CONT; echo asks $$; while :; do read -t 1 -u 9; done 9<>fifo";
    cmd("mkfifo", [dir.join("fifo")]).run().succeeds();
    let text = text.replace("fifo", &dir.join("fifo").display().to_string());
    type_into(&dir, &script(&dir, "asking", &text), CONTINUES_ALONE);
}

#[test]
fn a_command_that_is_slow_to_stop_keeps_its_terminal_until_it_has_stopped() {
    skip_unless!(Facility::Tool("python3"), Facility::Tool("bash"));
    let dir = Dir::new();
    let asking = python(
        &dir,
        "import os, signal, time\n\
         signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTSTP])\n\
         print('asks', flush=True)\n\
         while signal.sigwait([signal.SIGTSTP]):\n    \
             time.sleep(0.3)\n    \
             print('stops', flush=True)\n    \
             os.kill(os.getpid(), signal.SIGSTOP)\n    \
             print('continued', flush=True)\n",
    );
    type_into(&dir, &asking, STOPS_SLOWLY);
}

#[test]
fn a_command_in_a_group_of_its_own_is_interrupted_by_keys() {
    skip_unless!(Facility::Tool("python3"), Facility::Tool("bash"));
    let dir = Dir::new();
    let apart = python(
        &dir,
        // A sleep that is about to begin would not be interrupted.
        "import os, signal\n\
         signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n\
         os.setpgid(0, 0)\n\
         print('asks', flush=True)\n\
         if signal.sigtimedwait([signal.SIGINT], 60):\n    \
             print('interrupted', flush=True)\n",
    );
    type_into(&dir, &apart, INTERRUPTS);
}

#[test]
fn a_command_is_stopped_while_it_begins() {
    skip_unless!(Facility::Tool("python3"), Facility::Tool("bash"));
    let dir = Dir::new();
    type_into(&dir, &script(&dir, "asking", "exec sleep 60"), STOPS_EARLY);
}

#[test]
fn a_command_that_leads_its_session_ends_when_its_terminal_hangs_up() {
    skip_unless!(Facility::Tool("python3"));
    let dir = Dir::new();
    let hangs_up = dir.create("hangs_up.py", HANGS_UP);
    for (stops, text) in [("stays", ""), ("stops", "kill -STOP $$; ")] {
        let asking = script(&dir, stops, &format!("echo asks; {text}exec sleep 60"));
        let program = Path::new(env!("CARGO_BIN_EXE_nearfirst"));
        let run = cmd("python3", [&hangs_up, program, &asking, Path::new(stops)]);
        run.env("NEARFIRST_STATE", dir.join("state")).run().succeeds().is_quiet();
    }
}

/// A command that runs this program.
fn python(dir: &Dir, program: &str) -> PathBuf {
    let program = dir.create("asking.py", program);
    script(dir, "asking", &format!("exec python3 {}", program.display()))
}

/// Types what `session` says while the command runs.
fn type_into(dir: &Dir, command: &Path, session: &str) {
    let typist = dir.create("typist.py", format!("{TYPIST}{session}"));
    let program = env!("CARGO_BIN_EXE_nearfirst");
    let run = cmd("python3", [typist.as_path(), program.as_ref(), command]);
    run.env("NEARFIRST_STATE", dir.join("state")).run().succeeds().is_quiet();
}
