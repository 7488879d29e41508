"""What a set costs where nothing has to be fetched: a great many tiny files in memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import measure
import svg
from bench import Bench, Data, Experiment, Row
from measure import Spread
from sets import WITH, WITHOUT, Run, synthgrep

if TYPE_CHECKING:
    from collections.abc import Sequence

FILES, QUICK_FILES = 200_000, 5_000
FILES_IN_FOLDER = 1_000
FILE_BYTES = 100
MEMBERS_TARGET = 100_000
OVERHEAD_TARGET_S = 5e-6


def _fill(folder: Path, count: int) -> list[Path]:
    paths = []
    for number in range(count):
        part = folder / f"part{number // FILES_IN_FOLDER:03}"
        if number % FILES_IN_FOLDER == 0:
            part.mkdir()
        path = part / f"file{number:06}"
        path.write_bytes(f"{number:06} ".encode().ljust(FILE_BYTES, b"."))
        paths.append(path)
    return paths


def _on(bench: Bench, name: str, folder: Path, state: Path) -> Data:
    bench.say(f"dispatch: {name}")
    paths = _fill(folder, QUICK_FILES if bench.quick else FILES)

    def once(mode: str, _number: int) -> Run:
        return synthgrep(bench, mode, 0, paths, state)

    for mode in (WITH, WITHOUT):
        once(mode, 0)
    rng = bench.rng(f"dispatch {name}")
    samples = measure.interleaved([WITH, WITHOUT], bench.runs, rng, once, alone=True)
    as_json = {mode: [run.as_json() for run in of] for mode, of in samples.items()}
    return {"files": len(paths), "samples": as_json}


def _measure(bench: Bench) -> Data:
    memory = Path("/dev/shm")  # noqa: S108 - the file system in memory that every machine has
    with (
        bench.folder("dispatch") as at,
        tempfile.TemporaryDirectory(prefix="nearfirst-bench-", dir=memory) as tmpfs,
    ):
        (at / "files").mkdir()
        return {
            "tmpfs": _on(bench, "tmpfs", Path(tmpfs), at / "state"),
            "ext4": _on(bench, "ext4", at / "files", at / "state"),
        }


def _each_us(runs: Sequence[Data]) -> Spread:
    return Spread.of([run["seconds"] / run["members"] * 1e6 for run in runs])


def _rows(data: Data) -> list[Row]:
    rows = []
    for name, measured in data.items():
        samples = measured["samples"]
        ours, plain = samples[WITH], samples[WITHOUT]
        rate = Spread.of([run["members"] / run["seconds"] for run in ours])
        more = Spread.of(
            [(a["seconds"] - b["seconds"]) / a["members"] for a, b in zip(ours, plain, strict=True)]
        )
        peer = f"plain loop {_each_us(plain).median:.3g} µs each"
        each = _each_us(ours)
        said = f"{each.median:.3g} µs each ({each.low:.3g} to {each.high:.3g})"
        where = f"{measured['files']:,} files of {FILE_BYTES} bytes in memory, {name}"
        rows += [
            Row(
                what=where,
                ours=said,
                peer=peer,
                reached=f"{rate.median:,.0f} members a second",
                target=f"≥ {MEMBERS_TARGET:,}",
                met=rate.median >= MEMBERS_TARGET,
            ),
            Row(
                what=f"{where}: beyond open, read and close",
                ours=said,
                peer=peer,
                reached=f"{more.median * 1e6:+.3g} µs",
                target=f"< {OVERHEAD_TARGET_S * 1e6:g} µs",
                met=more.median < OVERHEAD_TARGET_S,
            ),
        ]
    return rows


def _plots(data: Data) -> dict[str, str]:
    bars = []
    for name, measured in data.items():
        for mode, said in ((WITH, "set"), (WITHOUT, "plain loop")):
            each = _each_us(measured["samples"][mode])
            bars.append(svg.Bar(f"{said}, {name}", each.median, each.low, each.high))
    return {"dispatch": svg.bars("Tiny files in memory", "microseconds for each", bars)}


EXPERIMENTS = (Experiment("dispatch", "Sets of tiny files in memory", _measure, _rows, _plots),)
