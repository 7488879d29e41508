"""`nearfirst run` and `watch`: their cost for a build of near files, and what `run` gains."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import measure
import page_cache
from bench import Bench, Data, Experiment, Row
from conditions import Far, SlowFolder
from processors import Account, Service
from trees_pair import WITH, WITHOUT, conditions, row

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

ALONE, SEEN, FETCHED, WATCHED = WITHOUT, "seen", WITH, "watched"
HEADERS = 24
SOURCES, SOURCES_QUICK = 12, 4
"""A build of about four seconds on two processors: what a run costs to begin counts for little."""
ROUNDS_FACTOR = 2
"""Builds differ by some hundredths from one to the next, which is what is looked for."""
FUNCTIONS = 60
"""Of one source: about what a file of 600 lines has."""
SETTLES_S = 0.05
FILES, FILES_QUICK = 60, 12
FILE_BYTES = 24_000
OVERHEAD_TARGET = 1.02
GAIN_TARGET = 1.2
_SYSTEM = ("stdio", "stdlib", "string", "unistd", "errno", "signal", "sys/stat", "sys/types")


def server() -> Far:
    """A server at 10 ms, for every look-up and every read."""
    return Far("server", 10e-3, 100e6)


def _project(folder: Path, sources: int) -> None:
    """A C project: every source includes all headers, ours and the system's."""
    for number in range(HEADERS):
        text = f"#pragma once\nstatic inline int h{number}(int x) {{ return x * {number}; }}\n"
        (folder / f"h{number}.h").write_text(text)
    includes = "".join(f"#include <{name}.h>\n" for name in _SYSTEM)
    includes += "".join(f'#include "h{number}.h"\n' for number in range(HEADERS))
    for source in range(sources):
        functions = "".join(
            f"int f{source}_{number}(int x) {{\n"
            f"    int sum = h{number % HEADERS}(x);\n"
            f"    for (int i = 0; i < x; i++) {{\n"
            f"        if (i % {number + 2} == 0) sum += h{(number + 1) % HEADERS}(i);\n"
            f"        else sum ^= i << {number % 7};\n"
            f"    }}\n"
            f'    if (sum == {number}) printf("%d\\n", sum);\n'
            f"    return sum;\n"
            f"}}\n"
            for number in range(FUNCTIONS)
        )
        (folder / f"s{source}.c").write_text(includes + functions)
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    objects = " ".join(f"s{source}.o" for source in range(sources))
    rules = f"all: main\nmain: main.o {objects}\n\tcc -o $@ $^\n%.o: %.c\n\tcc -O2 -c -o $@ $<\n"
    (folder / "Makefile").write_text(rules)


@dataclass
class _Build(measure.Sample):
    """A build, with what everybody did for it."""

    processor_s: float = 0.0
    """Time on processors of the build and of those who look at it, also after its end."""


def _in_rounds(bench: Bench, names: Sequence[str], build: Callable[[str], _Build]) -> Data:
    # What one run learns the next one knows.
    for name in (*names, *names):
        build(name)
    rng = bench.rng("trees-run build")
    samples = measure.interleaved(
        names, bench.runs * ROUNDS_FACTOR, rng, lambda name, _: build(name)
    )
    return {name: [sample.as_json() for sample in of] for name, of in samples.items()}


MAKE = ("make", "-s", "-j2", "-B")


def _counted(
    account: Account, command: Sequence[str | Path], folder: Path, env: dict[str, str]
) -> _Build:
    """A build and all that it leaves running for a moment."""
    before = account.seconds()
    sample = measure.run(command, folder=folder, env=env, procs=account.procs)
    account.wait_until_empty()
    return _Build(**sample.as_json(), processor_s=account.seconds() - before)


def _build(bench: Bench) -> Data:
    sources = SOURCES_QUICK if bench.quick else SOURCES
    with bench.folder("build") as folder, contextlib.closing(Account()) as account:
        _project(folder, sources)
        run: list[str | Path] = [bench.peers.nearfirst, "run"]
        commands: dict[str, Sequence[str | Path]] = {
            ALONE: MAKE,
            SEEN: [*run, "--no-fetch", "--", *MAKE],
            FETCHED: [*run, "--", *MAKE],
        }
        env = {"NEARFIRST_STATE": str(folder / "state")}
        bench.say("trees-run: a build of near files")
        return _in_rounds(
            bench, tuple(commands), lambda name: _counted(account, commands[name], folder, env)
        )


def _measure_watch(bench: Bench) -> Data:
    sources = SOURCES_QUICK if bench.quick else SOURCES
    with (
        bench.folder("build") as folder,
        contextlib.closing(Account()) as account,
        contextlib.closing(Account()) as looking,
    ):
        _project(folder, sources)
        state = folder / "state"
        watch: list[str | Path] = [bench.peers.nearfirst, "watch"]
        watch += ["--on", folder, "--state", state]

        def build(name: str) -> _Build:
            if name == ALONE:
                return _counted(account, MAKE, folder, {})
            with contextlib.closing(Service(watch, looking)):
                before = looking.seconds()
                sample = _counted(account, MAKE, folder, {})
                # It is told of the last programs when they have ended. What others do is told, too.
                time.sleep(SETTLES_S)
                sample.processor_s += looking.seconds() - before
            return sample

        bench.say("watch-cost: a build of near files beside the service")
        samples = _in_rounds(bench, (ALONE, WATCHED), build)
    return {"build": samples, "conditions": conditions(bench.runs * ROUNDS_FACTOR)}


def _read(bench: Bench) -> Data:
    """A script that reads files one after the other, each by a program of its own."""
    count = FILES_QUICK if bench.quick else FILES
    with bench.folder("read") as folder, contextlib.ExitStack() as stack:
        slow = SlowFolder(bench.peers.slowfs, folder, server())
        stack.callback(slow.close)
        files = [slow.path / f"f{number}" for number in range(count)]
        with slow.at_full_speed():
            for number, path in enumerate(files):
                path.write_bytes(bytes([number % 251]) * FILE_BYTES)
        script = folder / "script"
        lines = "".join(f"cksum {path}\n" for path in files)
        script.write_text(f"#!/bin/sh\n{lines}")
        script.chmod(0o755)
        commands: dict[str, Sequence[str | Path]] = {
            ALONE: [script],
            FETCHED: [bench.peers.nearfirst, "run", "--", script],
        }
        env = {"NEARFIRST_STATE": str(folder / "state")}

        def once(name: str, _number: int) -> measure.Sample:
            for path in files:
                page_cache.evict(path)
            slow.reset()
            sample = measure.run(commands[name], env=env)
            sample.device_bytes = slow.read_bytes()
            return sample

        for _ in range(2):
            once(FETCHED, 0)
        bench.say("trees-run: a script that reads far files")
        rng = bench.rng("trees-run read")
        samples = measure.interleaved(tuple(commands), bench.runs, rng, once)
    as_json = {name: [sample.as_json() for sample in of] for name, of in samples.items()}
    if not measure.same_output(as_json):
        raise measure.FailedError("the script wrote other sums when it was fetched for")
    return as_json


def _measure(bench: Bench) -> Data:
    rounds = f"{bench.runs * ROUNDS_FACTOR} of builds, {bench.runs} of the script"
    return {
        "build": _build(bench),
        "read": _read(bench),
        "conditions": conditions(rounds, device=str(server())),
    }


def _cost(samples: Data, name: str, what: str) -> list[Row]:
    """Time elapsed, and time on processors."""
    elapsed = measure.ratios(samples[name], samples[ALONE])
    spent = {of: [sample["processor_s"] for sample in samples[of]] for of in (name, ALONE)}
    worked = measure.Spread.of(
        [ours / alone for ours, alone in zip(spent[name], spent[ALONE], strict=True)]
    )
    return [
        Row(
            what=f"make -j2 of near files, {what}",
            ours=measure.seconds(samples[name]).as_time(),
            peer=f"alone: {measure.seconds(samples[ALONE]).as_time()}",
            reached=elapsed.as_ratio(),
            target=f"≤ {OVERHEAD_TARGET:g}x",
            met=elapsed.median <= OVERHEAD_TARGET,
        ),
        Row(
            what=f"time on processors, {what}",
            ours=measure.Spread.of(spent[name]).as_time(),
            peer=f"alone: {measure.Spread.of(spent[ALONE]).as_time()}",
            reached=worked.as_ratio(),
            target=f"≤ {OVERHEAD_TARGET:g}x",
            met=worked.median <= OVERHEAD_TARGET,
        ),
    ]


def _rows(data: Data) -> list[Row]:
    build, read = data["build"], data["read"]
    return [
        *_cost(build, SEEN, "observed only"),
        *_cost(build, FETCHED, "observed and fetched for"),
        row(
            f"a script that reads far files of {FILE_BYTES:,} bytes, one after the other",
            read,
            GAIN_TARGET,
        ),
    ]


def _watch_rows(data: Data) -> list[Row]:
    return _cost(data["build"], WATCHED, "beside `nearfirst watch`")


EXPERIMENTS = (
    Experiment("trees-run", "nearfirst run: cost and gain", _measure, _rows),
    Experiment("watch-cost", "nearfirst watch: cost", _measure_watch, _watch_rows),
)
