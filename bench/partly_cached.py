"""Files that memory holds in part: Figures 7 to 13 of the SLEDs paper."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import corpus
import measure
import page_cache
import svg
from bench import Bench, Data, Experiment, Row
from conditions import Device, MemoryLimit, Slow, SlowDisk, SlowFolder, cdrom, disk, nfs
from measure import Sample, Spread

MIB = 1 << 20
OURS = "nearfirst"
SIZES = (0.5, 0.75, 0.95, 1.1, 1.25, 1.5, 2.0, 3.0)
QUICK_SIZES = (0.5, 1.5)
FIRST_MATCH_SIZE = 1.5
WC_PEAK = 4.5
WC_LEAST = 0.95
FIRST_MATCH = 10.0
DEVICE_MARGIN = 0.02


@dataclass(frozen=True)
class Race:
    """A command in the words of each contestant, on one device."""

    name: str
    title: str
    device: str
    job: str


RACES = (
    Race("wc-disk", "wc -l on a disk", "disk", "wc"),
    Race("wc-nfs", "wc -l over NFS (Figures 7 and 8)", "NFS", "wc"),
    Race("wc-cdrom", "wc -l on a CD-ROM (Figure 9)", "CD-ROM", "wc"),
    Race("grep-disk", "grep, few matches, on a disk", "disk", "grep"),
    Race("grep-nfs", "grep, few matches, over NFS", "NFS", "grep"),
    Race("grep-cdrom", "grep, few matches, on a CD-ROM (Figure 10)", "CD-ROM", "grep"),
    Race("first-disk", "grep -q, one match, on a disk (Figures 11 and 12)", "disk", "first"),
    Race("first-nfs", "grep -q, one match, over NFS (Figure 13)", "NFS", "first"),
    Race("first-cdrom", "grep -q, one match, on a CD-ROM", "CD-ROM", "first"),
)


def commands(bench: Bench, job: str, pattern: str) -> dict[str, list[str | Path]]:
    """By contestant, without the file."""
    peers = bench.peers
    if job == "wc":
        return {OURS: [peers.nearfirst, "wc", "-l"], "GNU wc": [peers.wc, "-l"]}
    quiet = ["-q"] if job == "first" else []
    return {
        OURS: [peers.nearfirst, "grep", *quiet, pattern],
        "GNU grep": [peers.grep, *quiet, pattern],
        "ripgrep": [peers.rg, "--no-config", *quiet, pattern],
    }


def _device(bench: Bench, name: str) -> Device:
    # Factors that bring the paper's devices to the time a disk takes: a second or two a run.
    devices = [disk(), nfs(bench.speed_up), cdrom(bench.speed_up / 2)]
    return next(device for device in devices if device.name == name)


def _mounted(bench: Bench, at: Path, device: Device, size: int) -> Slow:
    if device.name == "disk":
        return SlowDisk(bench.peers.slowfs, at, device, size + size // 8 + 64 * MIB)
    return SlowFolder(bench.peers.slowfs, at, device)


def _state(at: Path) -> dict[str, str]:
    return {"NEARFIRST_STATE": str(at / "state"), "LC_ALL": "C.UTF-8"}


def _calibrate(bench: Bench, slow: Slow, env: dict[str, str]) -> None:
    measure.run([bench.peers.nearfirst, "calibrate", slow.path], env=env)


def _repeated(race: Race, bench: Bench) -> Data:
    """Each contestant reads its own copy of the file again and again, in a cache of its own.

    So each finds in memory what its own way of reading left there, as in the paper.
    """
    cache_bytes = _cache_bytes(bench)
    sizes = QUICK_SIZES if bench.quick else SIZES
    device = _device(bench, race.device)
    most = int(max(sizes) * cache_bytes)
    with bench.folder(race.name) as at, ExitStack() as exits:
        contestants = commands(bench, race.job, corpus.MILESTONE)
        slow = exits.enter_context(closing(_mounted(bench, at, device, most * len(contestants))))
        env = _state(at)
        # Files of the same name, so that all write the same.
        paths = {name: slow.path / name.replace(" ", "-") / "text" for name in contestants}
        limits = {
            name: exits.enter_context(closing(MemoryLimit(cache_bytes))) for name in contestants
        }
        for path in paths.values():
            path.parent.mkdir()
            corpus.write_text(path, most, bench.seed)
        _calibrate(bench, slow, env)

        left: dict[str, int] = {}

        def once(name: str, _number: int) -> Sample:
            path = paths[name]
            command = [*contestants[name], path.name]
            _have_in_memory(contestants)
            # Some machines take from memory what was idle for a minute: it is left there anew.
            if page_cache.resident_bytes(path) < left.get(name, most):
                measure.run(command, procs=limits[name].procs, folder=path.parent, env=env)
            sample = _counted(slow, path, command, limits[name], env)
            left[name] = page_cache.resident_bytes(path)
            return sample

        points = []
        for size in sorted((int(size * cache_bytes) for size in sizes), reverse=True):
            bench.say(f"{race.title}: {size / MIB:.0f} MiB")
            left.clear()
            for path in paths.values():
                _cut(path, size)
            rng = bench.rng(f"{race.name} {size}")
            points.append(
                _point(size, measure.interleaved(list(contestants), bench.runs, rng, once))
            )
    return _race(race, device, points)


def _counted(
    slow: Slow, path: Path, command: list[str | Path], limit: MemoryLimit, env: dict[str, str]
) -> Sample:
    cached = page_cache.resident_bytes(path)
    slow.reset()
    sample = measure.run(command, procs=limit.procs, folder=path.parent, env=env)
    sample.device_bytes = slow.read_bytes()
    sample.cached_bytes = cached
    return sample


def _have_in_memory(contestants: dict[str, list[str | Path]]) -> None:
    """Has the programs in memory outside of the cgroups: read in there, they would fill them."""
    for program, *_ in contestants.values():
        path = Path(program)
        if page_cache.resident_bytes(path) < path.stat().st_size:
            page_cache.evict(path)
            page_cache.read_in(path)


def _read_inside(path: Path, limit: MemoryLimit) -> None:
    measure.run(["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none"], procs=limit.procs)


def _cut(path: Path, size: int) -> None:
    page_cache.evict(path)
    with path.open("r+b") as file:
        file.truncate(size)
    page_cache.evict(path)


def _point(size: int, samples: dict[str, list[Sample]]) -> Data:
    as_json = {name: [sample.as_json() for sample in runs] for name, runs in samples.items()}
    if not measure.same_output(as_json):
        raise measure.FailedError(f"of {size / MIB:.0f} MiB not all wrote the same")
    return {"bytes": size, "samples": as_json}


def _race(race: Race, device: Device, points: list[Data]) -> Data:
    return {
        "name": race.name,
        "title": race.title,
        "job": race.job,
        "device": str(device),
        "points": sorted(points, key=lambda point: int(point["bytes"])),
    }


def _first_match(race: Race, bench: Bench) -> Data:
    """Before each run the file is read once in file order, so its end is in memory.

    All contestants then look for the same line, drawn at random for each round.
    """
    cache_bytes = _cache_bytes(bench)
    size = int(FIRST_MATCH_SIZE * cache_bytes)
    runs = bench.runs if bench.quick else 3 * bench.runs
    device = _device(bench, race.device)
    rng = bench.rng(race.name)
    wanted = [rng.randrange(corpus.marks(size)) for _ in range(runs)]
    with bench.folder(race.name) as at, ExitStack() as exits:
        slow = exits.enter_context(closing(_mounted(bench, at, device, size)))
        limit = exits.enter_context(closing(MemoryLimit(cache_bytes)))
        env, path = _state(at), slow.path / "text"
        corpus.write_text(path, size, bench.seed)
        _calibrate(bench, slow, env)
        bench.say(f"{race.title}: {size / MIB:.0f} MiB")

        def once(name: str, number: int) -> Sample:
            command = commands(bench, race.job, corpus.mark(wanted[number]))[name]
            _have_in_memory(contestants)
            page_cache.evict(path)
            with slow.at_full_speed():
                _read_inside(path, limit)
            offset = corpus.mark_offset(wanted[number])
            cached = page_cache.resident_bytes(path, offset, 1)
            sample = _counted(slow, path, [*command, path.name], limit, env)
            sample.match_cached = cached > 0
            return sample

        contestants = commands(bench, race.job, "")
        samples = measure.interleaved(list(contestants), runs, rng, once)
    return _race(race, device, [_point(size, samples)])


def _cache_bytes(bench: Bench) -> int:
    return (16 if bench.quick else 64) * MIB


def _peers(race: Data) -> list[str]:
    return [name for name in race["points"][0]["samples"] if name != OURS]


def _by_size(race: Data, peer: str) -> list[tuple[int, Spread]]:
    return [
        (
            point["bytes"],
            measure.ratios(point["samples"][peer], point["samples"][OURS]),
        )
        for point in race["points"]
    ]


def _excess(sample: dict[str, Any], size: int) -> float:
    """By what part of the file more was read from the device than was not in memory."""
    return float(sample["device_bytes"] - max(0, size - sample["cached_bytes"])) / size


def _repeated_rows(race: Data) -> list[Row]:
    rows = []
    by_size = {point["bytes"]: point["samples"] for point in race["points"]}
    for peer in _peers(race):
        ratios = _by_size(race, peer)
        best = max(ratios, key=lambda pair: pair[1].median)
        worst = min(ratios, key=lambda pair: pair[1].median)
        peak = WC_PEAK if race["job"] == "wc" else None
        for (size, ratio), what, goal in ((best, "peak", peak), (worst, "least", WC_LEAST)):
            theirs = measure.seconds(by_size[size][peer]).as_time()
            rows.append(
                Row(
                    what=f"{what} (at {size / MIB:.0f} MiB)",
                    ours=measure.seconds(by_size[size][OURS]).as_time(),
                    peer=f"{peer} {theirs}",
                    reached=ratio.as_ratio(),
                    target=f"≥ {goal}x" if goal else "",
                    met=ratio.median >= goal if goal else None,
                )
            )
    return [*rows, _device_row(race)]


def _device_row(race: Data) -> Row:
    worst_point = max(
        race["points"],
        key=lambda p: Spread.of([_excess(s, p["bytes"]) for s in p["samples"][OURS]]).median,
    )
    size = worst_point["bytes"]
    excess = Spread.of([_excess(s, size) for s in worst_point["samples"][OURS]])
    peer = _peers(race)[0]
    theirs = Spread.of([_excess(s, size) for s in worst_point["samples"][peer]])
    return Row(
        what="read from the device beyond what was not in memory, as a share of the file, "
        f"worst size ({size / MIB:.0f} MiB)",
        ours=f"{excess.median:+.1%} ({excess.least:+.1%} to {excess.most:+.1%})",
        peer=f"{peer} {theirs.median:+.1%}",
        reached=f"{excess.median:+.1%}",
        target=f"≤ {DEVICE_MARGIN:.0%}",
        met=excess.median <= DEVICE_MARGIN,
    )


def _first_rows(race: Data) -> list[Row]:
    rows = []
    samples = race["points"][0]["samples"]
    for peer in _peers(race):
        for in_memory, where in ((True, "in memory"), (False, "not in memory")):
            rounds = [
                (theirs, ours)
                for theirs, ours in zip(samples[peer], samples[OURS], strict=True)
                if theirs["match_cached"] == ours["match_cached"] == in_memory
            ]
            if not rounds:
                continue
            theirs, ours = ([pair[i] for pair in rounds] for i in (0, 1))
            ratio = measure.ratios(theirs, ours)
            goal = FIRST_MATCH if in_memory else None
            rows.append(
                Row(
                    what=f"match {where} ({len(rounds)} rounds)",
                    ours=measure.seconds(ours).as_time(),
                    peer=f"{peer} {measure.seconds(theirs).as_time()}",
                    reached=ratio.as_ratio(),
                    target=f"≥ {goal:g}x" if goal else "",
                    met=ratio.median >= goal if goal else None,
                )
            )
    return rows


def _repeated_plots(race: Data) -> dict[str, str]:
    names = [OURS, *_peers(race)]
    sizes = svg.Axis("file, MiB")
    seconds = svg.Axis("seconds, median and quartiles")
    ratios = [svg.Series(peer, _ratio_points(_by_size(race, peer))) for peer in _peers(race)]
    targets = [svg.Target(1.0, "as fast")]
    if race["job"] == "wc":
        targets.append(svg.Target(WC_PEAK, f"{WC_PEAK}x"))
    times = [_elapsed(race, name) for name in names]
    read = [_read(race, name) for name in names]
    title = race["title"]
    faster = svg.Plot(f"{title}: times faster", sizes, svg.Axis("peer / ours"), ratios, targets)
    return {
        f"{race['name']}-time": svg.lines(svg.Plot(title, sizes, seconds, times)),
        f"{race['name']}-ratio": svg.lines(faster),
        f"{race['name']}-bytes": svg.lines(
            svg.Plot(f"{title}: read from the device", sizes, svg.Axis("MiB"), read)
        ),
    }


def _elapsed(race: Data, name: str) -> svg.Series:
    points = []
    for point in race["points"]:
        spread = measure.seconds(point["samples"][name])
        points.append(svg.Point(point["bytes"] / MIB, spread.median, spread.low, spread.high))
    return svg.Series(name, points)


def _ratio_points(ratios: list[tuple[int, Spread]]) -> list[svg.Point]:
    return [svg.Point(size / MIB, ratio.median, ratio.low, ratio.high) for size, ratio in ratios]


def _read(race: Data, name: str) -> svg.Series:
    points = []
    for point in race["points"]:
        spread = Spread.of([sample["device_bytes"] / MIB for sample in point["samples"][name]])
        points.append(svg.Point(point["bytes"] / MIB, spread.median, spread.low, spread.high))
    return svg.Series(name, points)


def _first_plots(race: Data) -> dict[str, str]:
    samples = race["points"][0]["samples"]
    series = [
        svg.distribution(name, [run["seconds"] for run in samples[name]])
        for name in (OURS, *_peers(race))
    ]
    axis = svg.Axis("seconds to the first match", logarithmic=True)
    plot = svg.Plot(race["title"], axis, svg.Axis("share of the runs"), series)
    return {f"{race['name']}-cdf": svg.steps(plot)}


def _experiment(race: Race) -> Experiment:
    if race.job == "first":
        return Experiment(
            race.name, race.title, partial(_first_match, race), _first_rows, _first_plots
        )
    return Experiment(
        race.name, race.title, partial(_repeated, race), _repeated_rows, _repeated_plots
    )


EXPERIMENTS = tuple(_experiment(race) for race in RACES)
