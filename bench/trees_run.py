"""`nearfirst run`: what it costs a build whose files are near, and gains one whose are not."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import measure
import page_cache
from bench import Bench, Data, Experiment, Row
from conditions import Far, SlowFolder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ALONE, SEEN, FETCHED = "alone", "seen", "run"
HEADERS = 24
SOURCES, SOURCES_QUICK = 24, 6
FUNCTIONS = 60
"""Of one source: about what a file of 700 lines has."""
FILES, FILES_QUICK = 60, 12
FILE_BYTES = 24_000
OVERHEAD_TARGET = 1.02
GAIN_TARGET = 1.2
_SYSTEM = ("stdio", "stdlib", "string", "unistd", "errno", "signal", "sys/stat", "sys/types")


def server() -> Far:
    """A server at 10 ms, for every look-up and every read."""
    return Far("server", 10e-3, 100e6, 1)


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


def _build(bench: Bench) -> Data:
    sources = SOURCES_QUICK if bench.quick else SOURCES
    with bench.folder("build") as folder:
        _project(folder, sources)
        make = ["make", "-s", "-j2", "-B"]
        run: list[str | Path] = [bench.peers.nearfirst, "run"]
        commands: dict[str, Sequence[str | Path]] = {
            ALONE: make,
            SEEN: [*run, "--no-fetch", "--", *make],
            FETCHED: [*run, "--", *make],
        }
        env = {"NEARFIRST_STATE": str(folder / "state")}

        def once(name: str, _number: int) -> measure.Sample:
            return measure.run(commands[name], folder=folder, env=env)

        # What a run learns is known to the next, and all files are near.
        for name in (ALONE, FETCHED, FETCHED):
            once(name, 0)
        bench.say("trees-run: a build of near files")
        rng = bench.rng("trees-run build")
        samples = measure.interleaved(tuple(commands), bench.runs, rng, once)
    return {name: [sample.as_json() for sample in of] for name, of in samples.items()}


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
    return {name: [sample.as_json() for sample in of] for name, of in samples.items()}


def _measure(bench: Bench) -> Data:
    return {
        "build": _build(bench),
        "read": _read(bench),
        "conditions": {"device": str(server()), "processors": str(os.cpu_count())},
    }


def _cost(samples: Data, name: str, what: str) -> Row:
    cost = measure.ratios(samples[name], samples[ALONE])
    return Row(
        what=f"make -j2 of near files, {what}",
        ours=measure.seconds(samples[name]).as_time(),
        peer=f"alone: {measure.seconds(samples[ALONE]).as_time()}",
        reached=cost.as_ratio(),
        target=f"≤ {OVERHEAD_TARGET:g}x",
        met=cost.median <= OVERHEAD_TARGET,
    )


def _rows(data: Data) -> list[Row]:
    build, read = data["build"], data["read"]
    gain = measure.ratios(read[ALONE], read[FETCHED])
    return [
        _cost(build, SEEN, "observed only"),
        _cost(build, FETCHED, "observed and fetched for"),
        Row(
            what=f"a script that reads far files of {FILE_BYTES:,} bytes, one after the other",
            ours=measure.seconds(read[FETCHED]).as_time(),
            peer=f"alone: {measure.seconds(read[ALONE]).as_time()}",
            reached=f"{gain.as_ratio()} faster",
            target=f"≥ {GAIN_TARGET:g}x",
            met=gain.median >= GAIN_TARGET,
        ),
    ]


def _plots(_data: Data) -> dict[str, str]:
    return {}


EXPERIMENTS = (Experiment("trees-run", "nearfirst run: cost and gain", _measure, _rows, _plots),)
