"""Large programs that start from a slow disk with nothing of them in memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import peers
from bench import Bench, Data, Experiment, Row
from conditions import SlowDisk, disk
from measure import Spread
from trees_pair import WITH, WITHOUT, Run, conditions, counted, gains, in_turns, observed, row

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET = 1.5
ROUNDS_MAX = 5
IMAGE_BYTES = 3 << 30
LEARNING_RUNS = 1
"""The second run is to be faster."""
PROGRAMS_QUICK = 2
_LEAVE_OUT = ("site-packages", "dist-packages", "test", "tests", "__pycache__", "doc")


@dataclass(frozen=True)
class Program:
    """A program with all that belongs to it alone; what all programs share stays where it is."""

    name: str
    trees: dict[Path, str]
    """Folders and files to put on the disk, by where on it."""
    command: Callable[[Path], list[str | Path]]
    """Given where on the disk they are."""
    files: dict[str, str] = field(default_factory=dict)
    """To read, written beside them."""
    env: dict[str, str] = field(default_factory=dict)
    """`{at}` stands for where they are."""


def _python() -> Program:
    """Python with what a web service of Amazon's kind imports."""
    packages = next(iter((peers.INSTALLED / "venv/lib").glob("python3*/site-packages")))
    version = packages.parent.name
    prefix = Path(sys.base_prefix)
    return Program(
        "python, importing boto3, flask and moto",
        {
            prefix / "bin" / version: f"bin/{version}",
            prefix / "lib" / version: f"lib/{version}",
            packages: f"lib/{version}/site-packages",
        }
        | {library: f"lib/{library.name}" for library in prefix.glob("lib/libpython3.*so*")},
        lambda at: [at / "bin" / version, "-c", "import boto3, flask, moto.server"],
        env={"LD_LIBRARY_PATH": "{at}/lib", "PYTHONHOME": "{at}", "PYTHONDONTWRITEBYTECODE": "1"},
    )


def _compiler() -> Program:
    """The C++ compiler of the system and its headers."""
    program = Path(_found("g++")).resolve()
    asked = subprocess.run(
        [program, "-print-prog-name=cc1plus"], capture_output=True, text=True, check=True
    )
    parts = Path(asked.stdout.strip()).parent
    version = parts.name
    text = "#include <iostream>\n#include <regex>\n#include <thread>\n#include <filesystem>\n"
    headers = [
        f"include/c++/{version}",
        f"include/{parts.parent.name}/c++/{version}",
        f"include/c++/{version}/backward",
        f"lib/gcc/{parts.parent.name}/{version}/include",
        f"include/{parts.parent.name}",
        "include",
    ]
    return Program(
        "g++, a source of four headers",
        {
            program: "bin/g++",
            parts: f"lib/gcc/{parts.parent.name}/{version}",
            Path("/usr/include/c++"): "include/c++",
            Path("/usr/include") / parts.parent.name: f"include/{parts.parent.name}",
            Path("/usr/include/linux"): "include/linux",
            Path("/usr/include/asm-generic"): "include/asm-generic",
        }
        | {header: f"include/{header.name}" for header in Path("/usr/include").glob("*.h")},
        lambda at: [
            *(at / "bin" / "g++", "-fsyntax-only", "-nostdinc"),
            *(word for folder in headers for word in ("-isystem", at / folder)),
            at / "hello.cc",
        ],
        files={"hello.cc": text + "int main() { std::cout << 1; }\n"},
    )


def _java() -> Program:
    """A Java compiler: a Java virtual machine that runs a large Java program."""
    home = Path(_found("javac")).resolve().parent.parent
    return Program(
        "javac, a class of three lines",
        {home / name: f"jdk/{name}" for name in ("bin", "lib", "conf", "release")},
        lambda at: [at / "jdk/bin/javac", "-proc:none", "-d", at, at / "Hello.java"],
        files={"Hello.java": "class Hello {\n    int x = 1;\n}\n"},
    )


def _npm() -> Program:
    """Node, and a program of many modules."""
    modules = Path(_found("npm")).resolve().parent.parent
    return Program(
        "npm, listing its settings",
        {Path(_found("node")).resolve(): "bin/node", modules: "lib/node_modules/npm"},
        lambda at: [at / "bin/node", at / "lib/node_modules/npm/bin/npm-cli.js", "config", "list"],
        env={"npm_config_cache": "{at}/npm", "npm_config_update_notifier": "false"},
    )


def _perl() -> Program:
    """Perl with what its tools for packages import."""
    program = _found("perl")
    ask = 'print "$Config{privlibexp}\\n$Config{archlibexp}"'
    told = subprocess.run(
        [program, "-MConfig", "-e", ask], capture_output=True, text=True, check=True
    )
    common, special = (Path(line).resolve() for line in told.stdout.splitlines())
    modules = "CPAN Module::CoreList Pod::Man Archive::Tar Unicode::Collate Math::BigFloat POSIX"
    return Program(
        "perl, importing CPAN and six others",
        {Path(program).resolve(): "bin/perl", common: "lib/common", special: "lib/special"},
        lambda at: [at / "bin/perl", *(f"-M{module}" for module in modules.split()), "-e", "1"],
        env={"PERL5LIB": "{at}/lib/special:{at}/lib/common"},
    )


def _mariadb() -> Program:
    """A database server that says what it can do."""
    return Program(
        "mariadbd, listing its variables",
        {Path(_found("mariadbd")).resolve(): "bin/mariadbd", Path("/usr/share/mysql"): "share"},
        lambda at: [at / "bin/mariadbd", "--no-defaults", "--verbose", "--help"],
    )


def _rust() -> Program:
    """A compiler of a few very large libraries."""
    told = subprocess.run(
        [_found("rustc"), "--print", "sysroot"], capture_output=True, text=True, check=True
    )
    home = Path(told.stdout.strip())
    return Program(
        "rustc, a program of one line",
        {home / "bin" / "rustc": "rust/bin/rustc", home / "lib": "rust/lib"},
        lambda at: [
            *(at / "rust/bin/rustc", "--emit=metadata", "-o"),
            *(at / "hello.rmeta", at / "hello.rs"),
        ],
        files={"hello.rs": 'fn main() { println!("{}", 1) }\n'},
    )


PROGRAMS = (_compiler, _python, _java, _npm, _perl, _rust, _mariadb)


def _found(name: str) -> str:
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if path is None:
        raise peers.MissingError(f"{name}: not in PATH")
    return path


def _once(bench: Bench, slow: SlowDisk, program: Program, mode: str, state: Path) -> Run:
    slow.forget()
    words = program.command(slow.path)
    env = {name: text.replace("{at}", str(slow.path)) for name, text in program.env.items()}
    if "LD_LIBRARY_PATH" in env:
        # For the program alone: ours is not to look for its own libraries there.
        words = ["env", *(f"{name}={text}" for name, text in env.items()), *words]
        env = {}
    return counted(slow, observed(bench, words, mode), {**env, "NEARFIRST_STATE": str(state)})


def _put(program: Program, at: Path) -> None:
    for source, where in program.trees.items():
        target = at / where
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            leave_out = (
                shutil.ignore_patterns(*_LEAVE_OUT) if target.name != "site-packages" else None
            )
            shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=leave_out)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
    for name, text in program.files.items():
        (at / name).write_text(text)


def _program(bench: Bench, program: Program) -> Data:
    with bench.folder("start") as at, ExitStack() as exits:
        slow = exits.enter_context(closing(SlowDisk(bench.peers.slowfs, at, disk(), IMAGE_BYTES)))
        state = at / "state"
        with slow.at_full_speed():
            _put(program, slow.path)
        name = f"trees-start {program.name}"
        bench.say(name)
        return in_turns(
            bench,
            name,
            min(bench.runs, ROUNDS_MAX),
            LEARNING_RUNS,
            lambda mode: _once(bench, slow, program, mode, state),
        )


def _measure(bench: Bench) -> Data:
    programs: dict[str, Data] = {}
    missing = []
    for find in PROGRAMS[:PROGRAMS_QUICK] if bench.quick else PROGRAMS:
        try:
            program = find()
        except (peers.MissingError, StopIteration) as error:
            missing.append(str(error))
            continue
        programs[program.name] = _program(bench, program)
    said = conditions(min(bench.runs, ROUNDS_MAX), device=str(disk()))
    if missing:
        said["missing"] = ", ".join(missing)
    return {"programs": programs, "conditions": said}


def _rows(data: Data) -> list[Row]:
    return [
        row(f"{name}: {_mib(samples, WITH)} read (alone {_mib(samples, WITHOUT)})", samples, TARGET)
        for name, samples in data["programs"].items()
    ]


def _mib(samples: Data, mode: str) -> str:
    sizes = Spread.of([run["read_bytes"] for run in samples[mode]])
    return f"{sizes.median / (1 << 20):.0f} MiB"


def _plots(data: Data) -> dict[str, str]:
    title = "Cold starts: how many times faster with nearfirst run"
    programs = data["programs"].items()
    cells = ((name.split(",")[0], samples, TARGET) for name, samples in programs)
    return {"trees-start": gains(title, cells)}


EXPERIMENTS = (
    Experiment(
        "trees-start", "Access trees: large programs that start cold", _measure, _rows, _plots
    ),
)
