"""What is told to take so long, and what it then took."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import corpus
import measure
import page_cache
import svg
from bench import Bench, Data, Experiment, Row
from conditions import SlowDisk, SlowFolder, disk, nfs
from measure import Spread

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 1 << 20
SIZES = (1, 4, 16, 64)
QUICK_SIZES = (1, 8)
# More than the processor's caches hold.
OTHER_BYTES = 64 * MIB
MEDIAN_TARGET = 0.15
NINE_IN_TEN_TARGET = 0.50

STATES: dict[str, Callable[[Path, int], None]] = {
    "cold": lambda _path, _size: None,
    "warm": lambda path, _size: page_cache.read_in(path),
    "half": lambda path, size: page_cache.read_in(path, size // 2),
}


def _told(bench: Bench, path: Path, env: dict[str, str]) -> float | None:
    """Seconds that `nearfirst sleds` gives for reading the file in its order."""
    command: list[str | Path] = [bench.peers.nearfirst, "sleds", "--json", path]
    done = subprocess.run(command, env=env, capture_output=True, check=True)
    linear = json.loads(done.stdout)["delivery"]["linear"]
    return None if linear["unknown_bytes"] else float(linear["p50_s"])


def _leave_caches() -> None:
    """What was read in a while ago is in memory, but in the processor's caches no more."""
    (b"\1" * OTHER_BYTES).count(0)


def _took(path: Path) -> float:
    # What reads it is in the processor's caches, as in a program that has read another file.
    page_cache.read_in(Path(__file__))
    start = time.perf_counter()
    page_cache.read_in(path)
    return time.perf_counter() - start


def _on(bench: Bench, name: str, folder: Path, at: Path) -> list[Data]:
    env = {"NEARFIRST_STATE": str(at / f"state-{name}"), "PATH": "/usr/bin:/bin"}
    paths = {}
    for mib in QUICK_SIZES if bench.quick else SIZES:
        paths[mib] = folder / f"text{mib}"
        corpus.write_text(paths[mib], mib * MIB, bench.seed)
        page_cache.evict(paths[mib])
    bench.say(f"telling: {name}")
    measure.run([bench.peers.nearfirst, "calibrate", folder], env=env)
    reads: list[Data] = []
    rng = bench.rng(name)
    rounds = [(mib, state) for mib in paths for state in STATES] * bench.runs
    for mib, state in rng.sample(rounds, len(rounds)):
        path = paths[mib]
        page_cache.evict(path)
        STATES[state](path, mib * MIB)
        _leave_caches()
        before = page_cache.drops()
        told = _told(bench, path, env)
        took = _took(path)
        if page_cache.drops() == before:
            reads.append({"bytes": mib * MIB, "state": state, "told_s": told, "took_s": took})
    return reads


def _measure(bench: Bench) -> Data:
    slow, far = disk(), nfs(bench.speed_up)
    with bench.folder("telling") as at, ExitStack() as exits:
        (at / "here").mkdir()
        size = sum(SIZES) * MIB * 2
        throttled = exits.enter_context(closing(SlowDisk(bench.peers.slowfs, at / "a", slow, size)))
        folder = exits.enter_context(closing(SlowFolder(bench.peers.slowfs, at / "b", far)))
        return {
            "devices": {
                "this machine's disk": _on(bench, "disk", at / "here", at),
                str(slow): _on(bench, "throttled", throttled.path, at),
                str(far): _on(bench, "nfs", folder.path, at),
            }
        }


def _errors(reads: list[Data]) -> list[float]:
    return [
        abs(read["told_s"] - read["took_s"]) / read["took_s"]
        for read in reads
        if read["told_s"] is not None
    ]


def _rows(data: Data) -> list[Row]:
    rows = []
    everything = [read for reads in data["devices"].values() for read in reads]
    groups = {"all devices and states": everything}
    for device, reads in data["devices"].items():
        for state in STATES:
            groups[f"{device}, {state}"] = [read for read in reads if read["state"] == state]
    for name, reads in groups.items():
        errors = sorted(_errors(reads))
        unknown = len(reads) - len(errors)
        if not errors:
            rows.append(Row(f"telling: {name}", "unknown", "", "", "", met=False))
            continue
        median = Spread.of(errors).median
        nine_in_ten = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
        said = f"; {unknown} of {len(reads)} not known" if unknown else ""
        rows.append(
            Row(
                what=f"telling: {name} ({len(reads)} reads{said})",
                ours=f"median error {median:.0%}, nine in ten within {nine_in_ten:.0%}",
                peer="",
                reached=f"{median:.0%}, {nine_in_ten:.0%}",
                target=f"< {MEDIAN_TARGET:.0%}, < {NINE_IN_TEN_TARGET:.0%}",
                met=median < MEDIAN_TARGET and nine_in_ten < NINE_IN_TEN_TARGET and not unknown,
            )
        )
    return rows


def _plots(data: Data) -> dict[str, str]:
    series = [
        svg.Series(
            device.split(":")[0],
            [svg.Point(r["told_s"] * 1e3, r["took_s"] * 1e3) for r in reads if r["told_s"]],
        )
        for device, reads in data["devices"].items()
    ]
    told = svg.Axis("told, ms", logarithmic=True)
    took = svg.Axis("took, ms", logarithmic=True)
    plot = svg.Plot("Delivery time: told and taken", told, took, [s for s in series if s.points])
    return {"telling": svg.scatter(plot, diagonal=True)}


EXPERIMENTS = (Experiment("telling", "Telling", _measure, _rows, _plots),)
