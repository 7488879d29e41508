"""Files of which pages here and there are in memory: `wc -l` of ours and GNU's."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import corpus
import measure
import page_cache
import svg
from bench import Bench, Data, Experiment, Row
from conditions import SlowDisk, disk

if TYPE_CHECKING:
    from pathlib import Path

    from measure import Sample

KIB, MIB = 1 << 10, 1 << 20
HERE_BYTES, SLOW_BYTES = 128 * MIB, 8 * MIB
QUICK_BYTES = 2 * MIB
TARGET = 0.95
OURS, PEER = "nearfirst", "GNU wc"


@dataclass(frozen=True)
class Mix:
    """So much in memory, and so much not, again and again."""

    near: int
    far: int

    def __str__(self) -> str:
        return f"{self.near // KIB} KiB in memory, {self.far // KIB} KiB not"

    def leave(self, path: Path) -> None:
        """Leaves a file so."""
        page_cache.evict(path)
        offsets = range(0, path.stat().st_size, self.near + self.far)
        page_cache.read_pages(path, list(offsets), self.near)


MIXES = tuple(Mix(near * KIB, far * KIB) for near, far in ((4, 4), (4, 60), (60, 4), (4, 252)))


def _on(bench: Bench, device: str, folder: Path, size: int) -> list[Data]:
    path = folder / "text"
    corpus.write_text(path, QUICK_BYTES if bench.quick else size, bench.seed)
    env = {"LC_ALL": "C.UTF-8", "NEARFIRST_STATE": str(bench.work / "state")}
    commands: dict[str, list[str | Path]] = {
        OURS: [bench.peers.nearfirst, "wc", "-l"],
        PEER: [bench.peers.wc, "-l"],
    }
    races = []
    for mix in MIXES:
        bench.say(f"{device}: {mix}")

        def once(name: str, _number: int, mix: Mix = mix) -> Sample:
            mix.leave(path)
            return measure.run([*commands[name], path], env=env)

        samples = measure.interleaved(
            list(commands), bench.runs, bench.rng(f"{device}, {mix}"), once
        )
        as_json = {name: [sample.as_json() for sample in of] for name, of in samples.items()}
        same = measure.same_output(as_json)
        races.append({"mix": str(mix), "samples": as_json, "same_output": same})
    return races


def _measure(bench: Bench) -> Data:
    slow = disk()
    with bench.folder("mixed") as at, ExitStack() as exits:
        (at / "here").mkdir()
        room = 4 * SLOW_BYTES
        throttled = exits.enter_context(closing(SlowDisk(bench.peers.slowfs, at / "a", slow, room)))
        return {
            "devices": {
                "this machine's disk": _on(bench, "here", at / "here", HERE_BYTES),
                str(slow): _on(bench, "throttled", throttled.path, SLOW_BYTES),
            }
        }


def _rows(data: Data) -> list[Row]:
    rows = []
    for device, races in data["devices"].items():
        for race in races:
            ours, theirs = race["samples"][OURS], race["samples"][PEER]
            ratio = measure.ratios(theirs, ours)
            rows.append(
                Row(
                    what=f"{device}: {race['mix']}",
                    ours=measure.seconds(ours).as_time(),
                    peer=f"{PEER} {measure.seconds(theirs).as_time()}",
                    reached=ratio.as_ratio(),
                    target=f"≥ {TARGET:g}x",
                    met=ratio.median >= TARGET and race["same_output"],
                )
            )
    return rows


def _plots(data: Data) -> dict[str, str]:
    bars = []
    for device, races in data["devices"].items():
        for race in races:
            ratio = measure.ratios(race["samples"][PEER], race["samples"][OURS])
            label = f"{device.split(':')[0]}: {race['mix']}"
            bars.append(svg.Bar(label, ratio.median, ratio.low, ratio.high, TARGET))
    title = "wc -l of files that are finely mixed"
    axis = "times faster than GNU wc (median, quartiles); the mark is the target"
    return {"mixed": svg.bars(title, axis, bars)}


EXPERIMENTS = (
    Experiment("mixed", "wc -l of what is finely mixed of near and far", _measure, _rows, _plots),
)
