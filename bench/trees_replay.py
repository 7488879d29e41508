"""Recorded work played to predictors, with a cache and a device that are models."""

from __future__ import annotations

import json
import lzma
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import svg
from bench import Bench, Data, Experiment, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Measure = Callable[[Data, Data], float]

TRACES = Path(__file__).resolve().parent / "trees" / "traces"
PREDICTORS = {
    "none": "no predictor",
    "last-successor": "last successor",
    "program-successor": "program's last successor",
    "ppm-2": "PPM, order 2",
    "ppm-3": "PPM, order 3",
    "paper": "the paper's trees",
    "ours": "ours",
}
BASELINES = tuple(name for name in PREDICTORS if name not in ("none", "ours"))
DEVICES = {"instant": "no times", "server": "10 ms, 100 MB/s, 32 at once"}
SHARES = (0.1, 0.25, 0.5)
MAIN_SHARE = 0.25
QUICK_TRACES = ("python",)
ACCURACY_TARGET = 0.95
MISSES_TARGET = 0.60
FEWEST = 20
"""Files predicted or fetched below which a share of them says nothing."""


def _ask(replay: Path, trace: bytes, *words: str) -> list[Data]:
    done = subprocess.run([replay, *words], input=trace, capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def _play(bench: Bench, replay: Path, path: Path) -> Data:
    trace = lzma.decompress(path.read_bytes())
    whole = _ask(replay, trace, "sizes")[0]
    shares = [MAIN_SHARE] if bench.quick else SHARES
    sizes = {
        "files": [str(max(1, round(whole["files"] * share))) for share in shares],
        "bytes": [str(max(1, round(whole["bytes"] * share))) for share in shares],
    }
    played: Data = {}
    for device in DEVICES:
        for unit in sizes if device == "server" else ("files",):
            for name in PREDICTORS:
                bench.say(f"trees-replay: {path.name.split('.')[0]}, {device}, {unit}, {name}")
                reports = _ask(replay, trace, "simulate", name, device, unit, *sizes[unit])
                by_share = dict(zip(map(str, shares), reports, strict=True))
                played.setdefault(f"{device} {unit}", {})[name] = by_share
    return {"whole": whole, "played": played}


def _measure(bench: Bench) -> Data:
    replay = bench.peers.example("replay")
    paths = sorted(TRACES.glob("*.trace.xz"))
    if bench.quick:
        paths = [path for path in paths if path.name.split(".")[0] in QUICK_TRACES]
    played: Data = {path.name.split(".")[0]: _play(bench, replay, path) for path in paths}
    # It is a model: each time it says the same.
    return {"conditions": {"rounds": "1"}} | played


def _avoided(report: Data, without: Data) -> float:
    return 1 - report["misses"] / without["misses"] if without["misses"] else 0.0


def _waited_less(report: Data, without: Data) -> float:
    return 1 - report["waited_s"] / without["waited_s"] if without["waited_s"] else 0.0


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole >= FEWEST else None


def _accuracy(report: Data) -> float | None:
    return _share(report["right"], report["predicted"])


def _said(report: Data, without: Data, *, timed: bool) -> str:
    accuracy = _accuracy(report)
    right = "too few to tell" if accuracy is None else f"{accuracy:.1%} right"
    waited = f", waiting {-_waited_less(report, without):+.0%}" if timed else ""
    return f"misses {-_avoided(report, without):+.0%}{waited}, {right}"


def _row(trace: str, device: str, of: Mapping[str, Data]) -> Row:
    at = {name: by_share[str(MAIN_SHARE)] for name, by_share in of.items()}
    without, ours = at["none"], at["ours"]
    timed = device != "instant"
    saved = _waited_less if timed else _avoided
    best = max(BASELINES, key=lambda name: saved(at[name], without))
    accuracy = _accuracy(ours)
    right = accuracy is not None and accuracy >= ACCURACY_TARGET
    enough = timed or _avoided(ours, without) >= MISSES_TARGET
    beaten = saved(ours, without) > saved(at[best], without)
    new = without["new"] / max(1, without["misses"])
    waste = ours["wasted_bytes"] / max(1, ours["fetched_bytes"])
    late = ours["late"] / max(1, ours["misses"])
    used = _share(ours["used"], ours["fetched"]) or 0
    reached = f"{used:.0%} of what was fetched used, {waste:.0%} of bytes wasted"
    if timed:
        reached += f", {late:.0%} of misses late"
    return Row(
        what=f"{trace}, {DEVICES[device]}: {ours['references']:,} reads, miss rate without"
        f" {without['misses'] / without['references']:.1%}, {new:.0%} of these first reads",
        ours=_said(ours, without, timed=timed),
        peer=f"{PREDICTORS[best]}: {_said(at[best], without, timed=timed)}",
        reached=reached,
        target=f"≥ {ACCURACY_TARGET:.0%} right, least waiting"
        if timed
        else f"misses ≤ -{MISSES_TARGET:.0%}, ≥ {ACCURACY_TARGET:.0%} right, fewest misses",
        met=right and enough and beaten,
    )


def _rows(data: Data) -> list[Row]:
    return [
        _row(trace, device, played["played"][f"{device} files"])
        for device in DEVICES
        for trace, played in data.items()
    ]


def _right(report: Data, _without: Data) -> float:
    return _accuracy(report) or 0.0


def _mean(data: Data, name: str, share: str, kind: str, of: Measure) -> float:
    """Over the traces, each counting the same."""
    played = [trace["played"][kind] for trace in data.values()]
    return sum(of(by[name][share], by["none"][share]) for by in played) / len(played)


def _plot(data: Data, kind: str, of: Measure, title: str, label: str) -> str:
    shares = sorted(next(iter(data.values()))["played"][kind]["ours"], key=float)
    shown = ("last-successor", "ppm-2", "paper", "ours")
    series = [
        svg.Series(
            PREDICTORS[name],
            [
                svg.Point(float(share) * 100, 100 * _mean(data, name, share, kind, of))
                for share in shares
            ],
        )
        for name in shown
    ]
    x = svg.Axis("cache, % of what the trace reads", logarithmic=True)
    goals = {_right: ACCURACY_TARGET, _avoided: MISSES_TARGET}
    targets = [svg.Target(goals[of] * 100, f"target {goals[of]:.0%}")] if of in goals else []
    return svg.lines(svg.Plot(title, x, svg.Axis(label), series, targets))


def _plots(data: Data) -> dict[str, str]:
    avoided, waited, used = "misses avoided, %", "waiting saved, %", "predicted files read, %"
    files, at_bytes = "server files", "server bytes"
    return {
        "trees-instant": _plot(data, "instant files", _avoided, "Trees: no times", avoided),
        "trees-accuracy": _plot(data, "instant files", _right, "Trees: accuracy, no times", used),
        "trees-server": _plot(data, files, _waited_less, "Trees: a server, 10 ms", waited),
        "trees-bytes": _plot(
            data, at_bytes, _waited_less, "Trees: a server, cache in bytes", waited
        ),
    }


EXPERIMENTS = (Experiment("trees-replay", "Access trees: recorded work", _measure, _rows, _plots),)
