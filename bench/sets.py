"""Dynamic sets against a plain loop over the same files: Figures 4 to 8 of the SETS paper.

Each run finds its devices freshly mounted, so that nothing is in memory that was not put there.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING

import measure
import page_cache
import svg
from bench import Bench, Data, Experiment, Row
from conditions import Far, Slow, SlowDisk, SlowFolder, disk, server
from measure import FailedError, Spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

KIB, MIB = 1 << 10, 1 << 20
FILES = 12
COMP_US = 1.0
"""Microseconds for each byte that the paper calls 1."""
IDEAL_TARGET = 1.05
STALL_TARGET = 0.01
"""Of the computation: what is left of it is the opening of files in memory."""
PLAIN_TARGET = 1.0
NOISE = 0.02
"""By so much two runs of the same differ: a ratio that near to 1 is 1."""
WITH, WITHOUT, FIRST = "sets", "plain", "first"


@dataclass(frozen=True)
class Point:
    """One place on the x axis of a figure."""

    x: float
    files: int
    size: int
    comp_us: float
    servers: int
    is_cached: bool = False
    """One member is in memory before."""

    def transfer_s(self, far: Far) -> float:
        """Of the server that has most of the files."""
        most = -(-self.files // self.servers)
        return most * self.size / far.bandwidth


@dataclass(frozen=True)
class Figure:
    """A sweep over one thing."""

    name: str
    title: str
    x: svg.Axis
    groups: dict[str, list[Point]]
    """By what is swept besides."""
    is_local: bool = False
    ends: tuple[str, ...] = ()
    """The targets: "ideal", "stall", "plain"."""


def _sizes(servers: int, comp_us: float, *, cached: bool = False) -> list[Point]:
    return [
        Point(size, FILES, size * KIB, comp_us, servers, cached) for size in (16, 64, 256, 1024)
    ]


_SIZE = svg.Axis("size of each of 12 files, KiB", logarithmic=True)
FIGURES = (
    Figure(
        "sets-files",
        "Sets: how many files (Figure 4)",
        svg.Axis("files of 16 KiB on one server"),
        {"": [Point(n, n, 16 * KIB, COMP_US, 1) for n in (1, 2, 4, 8, 12, 16, 24)]},
        ends=("ideal",),
    ),
    Figure(
        "sets-computation",
        "Sets: how much computation (Figure 5)",
        svg.Axis("computation (Comp of the paper: microseconds for each byte)"),
        {
            "": [
                Point(comp, FILES, 16 * KIB, comp * COMP_US, 1)
                for comp in (0, 0.5, 1, 1.5, 2, 3, 4)
            ]
        },
        ends=("ideal",),
    ),
    Figure(
        "sets-servers",
        "Sets: how many servers (Figure 6)",
        _SIZE,
        {f"{n} server{'s' * (n > 1)}": _sizes(n, COMP_US) for n in (1, 2, 3)},
        ends=("ideal",),
    ),
    Figure(
        "sets-cached",
        "Sets: one member in memory, three servers (Figure 7)",
        _SIZE,
        {"": _sizes(3, 3 * COMP_US, cached=True)},
        ends=("stall",),
    ),
    Figure(
        "sets-local",
        "Sets: files of a local disk (Figure 8)",
        _SIZE,
        {
            "Comp 1": _sizes(1, COMP_US),
            "no computation": _sizes(1, 0),
        },
        is_local=True,
        ends=("plain",),
    ),
)


@dataclass
class Run:
    """One run of synthgrep."""

    seconds: float
    first_s: float
    waited_s: float
    members: int
    bytes: int
    cpu_s: float
    peak_bytes: int
    others_s: float = 0.0
    """Processor time of all other programs meanwhile, those that serve its files included."""

    def as_json(self) -> Data:
        """For the result file."""
        return asdict(self)


def synthgrep(bench: Bench, mode: str, comp_us: float, paths: Sequence[Path], state: Path) -> Run:
    """Reads the files with sets or in a plain loop."""
    names = b"".join(os.fsencode(path) + b"\0" for path in paths)
    command = [str(bench.peers.example("measured")), "synthgrep", mode, f"{comp_us:g}"]
    env = {**os.environ, "NEARFIRST_STATE": str(state)}
    busy = measure.busy_s()
    done = subprocess.run(command, input=names, env=env, capture_output=True, check=False)
    busy = measure.busy_s() - busy
    if done.returncode != 0:
        raise FailedError(f"synthgrep {mode}: {done.stderr.decode(errors='replace').strip()}")
    run = Run(**json.loads(done.stdout))
    if run.members != len(paths):
        raise FailedError(f"synthgrep {mode} read {run.members} of {len(paths)} files")
    run.others_s = max(0.0, busy - run.cpu_s)
    return run


def _fill(folder: Path, count: int, size: int, bench: Bench, name: str) -> list[Path]:
    rng = bench.rng(name)
    paths = [folder / f"file{number:03}" for number in range(count)]
    for path in paths:
        path.write_bytes(rng.randbytes(size))
    return paths


class _Servers:
    """Some servers, and the files of a point dealt out to them."""

    def __init__(self, bench: Bench, at: Path, point: Point) -> None:
        self._bench, self._at, self._point = bench, at, point
        self._files = [
            [number for number in range(point.files) if number % point.servers == which]
            for which in range(point.servers)
        ]
        for which, numbers in enumerate(self._files):
            source = at / f"server{which}" / "source"
            source.mkdir(parents=True)
            for path in _fill(source, len(numbers), point.size, bench, f"server{which}"):
                page_cache.flush(path)

    @contextlib.contextmanager
    def fresh(self) -> Iterator[list[Path]]:
        """Mounted anew, all files far except the last if it is to be in memory."""
        with ExitStack() as exits:
            mounts: list[Slow] = [
                exits.enter_context(
                    closing(SlowFolder(self._bench.peers.slowfs, self._at / f"server{n}", server()))
                )
                for n in range(self._point.servers)
            ]
            folders = [sorted(mount.path.parent.joinpath("source").iterdir()) for mount in mounts]
            paths = [
                mounts[number % len(mounts)].path
                / folders[number % len(mounts)][number // len(mounts)].name
                for number in range(self._point.files)
            ]
            if self._point.is_cached:
                last = (self._point.files - 1) % len(mounts)
                with mounts[last].at_full_speed():
                    page_cache.read_in(paths[-1])
            yield paths


class _Disk:
    """A local disk and the files of a point."""

    def __init__(self, throttled: SlowDisk, bench: Bench, point: Point) -> None:
        self._disk = throttled
        folder = throttled.path / f"size{point.size}"
        if not folder.exists():
            with throttled.at_full_speed():
                folder.mkdir()
                for path in _fill(folder, point.files, point.size, bench, "local"):
                    page_cache.flush(path)
        self._paths = sorted(folder.iterdir())

    @contextlib.contextmanager
    def fresh(self) -> Iterator[list[Path]]:
        """With nothing of the files in memory."""
        for path in self._paths:
            page_cache.evict(path)
        yield self._paths


def _at(bench: Bench, place: _Servers | _Disk, point: Point, name: str, state: Path) -> Data:
    def once(mode: str, _number: int) -> Run:
        with place.fresh() as paths:
            if mode == FIRST:
                return synthgrep(bench, WITHOUT, 0, paths[:1], state)
            return synthgrep(bench, mode, point.comp_us, paths, state)

    # The first run of each teaches, as a program's first run on a device does.
    for mode in (WITH, WITHOUT):
        once(mode, 0)
    samples = measure.interleaved([WITH, WITHOUT, FIRST], bench.runs, bench.rng(name), once)
    return {mode: [run.as_json() for run in of] for mode, of in samples.items()}


def _measure(bench: Bench, figure: Figure) -> Data:
    groups: dict[str, list[Data]] = {}
    with bench.folder(figure.name) as at, ExitStack() as exits:
        throttled = None
        if figure.is_local:
            size = 2 * FILES * 2 * MIB
            throttled = exits.enter_context(closing(SlowDisk(bench.peers.slowfs, at, disk(), size)))
        for group, points in figure.groups.items():
            groups[group] = []
            for point in points[:2] if bench.quick else points:
                bench.say(f"{figure.name}: {group} {point.x:g}")
                if throttled:
                    place: _Servers | _Disk = _Disk(throttled, bench, point)
                else:
                    place = _Servers(bench, at / f"{group or 'all'}-{point.x:g}", point)
                samples = _at(bench, place, point, f"{figure.name} {group} {point.x}", at / "state")
                groups[group].append({"point": asdict(point), "samples": samples})
    return {
        "conditions": {"device": str(disk() if figure.is_local else server())},
        "groups": groups,
    }


def _computations(measured: Data) -> list[float]:
    """What the computation took in the plain loops, so that a busy machine delays the ideal too."""
    return [run["seconds"] - run["waited_s"] for run in measured["samples"][WITHOUT]]


def _ideals(measured: Data) -> list[float]:
    """Of each round: first member + max(computation, transfer)."""
    transfer_s = Point(**measured["point"]).transfer_s(server())
    firsts = [run["seconds"] for run in measured["samples"][FIRST]]
    return [
        first + max(computation, transfer_s)
        for first, computation in zip(firsts, _computations(measured), strict=True)
    ]


def _of_ideal(measured: Data) -> Spread:
    runs = zip(measured["samples"][WITH], _ideals(measured), strict=True)
    return Spread.of([run["seconds"] / ideal for run, ideal in runs])


def _stall(measured: Data) -> Spread:
    runs = zip(measured["samples"][WITH], _computations(measured), strict=True)
    return Spread.of([run["waited_s"] / computation for run, computation in runs])


def _against_plain(measured: Data) -> Spread:
    return measure.ratios(measured["samples"][WITHOUT], measured["samples"][WITH])


def _row(figure: Figure, group: str, measured: Data) -> Row:
    samples = measured["samples"]
    x = f"{measured['point']['x']:g} {figure.x.label.split(',')[-1].split('(')[0].strip()}"
    plain = measure.seconds(samples[WITHOUT]).as_time()
    ideal = f"ideal {Spread.of(_ideals(measured)).as_time()}"
    if "ideal" in figure.ends:
        reached = _of_ideal(measured)
        text, target = reached.as_ratio(), f"≤ {IDEAL_TARGET:g}x the ideal"
        met = reached.median <= IDEAL_TARGET
    elif "stall" in figure.ends:
        reached = _stall(measured)
        text, target = f"{reached.median:.2%} waiting", f"≤ {STALL_TARGET:.0%}, none but noise"
        met = reached.median <= STALL_TARGET
    else:
        reached = _against_plain(measured)
        text = reached.as_ratio()
        target = f"≥ {PLAIN_TARGET:g}x the plain loop, but for {NOISE:.0%} of noise"
        met = reached.median >= PLAIN_TARGET - NOISE
        ideal = ""
    return Row(
        what=", ".join(filter(None, [group, x])),
        ours=measure.seconds(samples[WITH]).as_time(),
        peer=f"plain loop {plain}" + (f", {ideal}" if ideal else ""),
        reached=text,
        target=target,
        met=met,
    )


def _rows(data: Data, figure: Figure) -> list[Row]:
    return [
        _row(figure, group, measured)
        for group, points in data["groups"].items()
        for measured in points
    ]


def _series(name: str, points: list[Data], mode: str) -> svg.Series:
    drawn = []
    for measured in points:
        spread = measure.seconds(measured["samples"][mode])
        drawn.append(svg.Point(measured["point"]["x"], spread.median, spread.low, spread.high))
    return svg.Series(name, drawn)


def _plots(data: Data, figure: Figure) -> dict[str, str]:
    plots = {}
    for group, points in data["groups"].items():
        series = [_series("with sets", points, WITH), _series("without", points, WITHOUT)]
        if not figure.is_local:
            ideals = [(measured["point"]["x"], Spread.of(_ideals(measured))) for measured in points]
            drawn = [svg.Point(x, ideal.median, ideal.low, ideal.high) for x, ideal in ideals]
            series.append(svg.Series("ideal", drawn))
        title = figure.title + (f": {group}" if group else "")
        y = svg.Axis("seconds", logarithmic=figure.x.logarithmic)
        name = f"{figure.name}-{group.replace(' ', '-').lower()}" if group else figure.name
        plots[name] = svg.lines(svg.Plot(title, figure.x, y, series))
    return plots


EXPERIMENTS = tuple(
    Experiment(
        figure.name,
        figure.title,
        partial(_measure, figure=figure),
        partial(_rows, figure=figure),
        partial(_plots, figure=figure),
    )
    for figure in FIGURES
)
