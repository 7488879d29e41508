"""Lei & Duchamp's controlled experiments, Filters and Builds (section "Controlled Experiments").

A server as far away as theirs, on either of their links, is mounted anew for each run, so that not
even a name is in memory. Programs, and what they write, are of this machine.
"""

from __future__ import annotations

import contextlib
import statistics
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import measure
import page_cache
import svg
from bench import Bench, Data, Row
from conditions import Far, SlowFolder
from measure import Spread
from trees_pair import WATCHED, WITH, WITHOUT, Run, counted, in_turns, observed, row, watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

CPU_TARGET = 1.02
NEVER_SLOWER_TARGET = 0.98
LEARNING_RUNS = 2
"""The first meets everything for the first time, the second knows how far ahead to fetch."""
ROUND_TRIP_S = 4e-3
"""What a request took on the paper's links is lost with its tables: as the SETS paper measured it,
of a server of those years on such an Ethernet."""


def links() -> tuple[Far, Far]:
    """An Ethernet of 10 Mb/s and a radio of 2 Mb/s."""
    return link("10 Mb/s", ROUND_TRIP_S, 1.25e6), link("2 Mb/s", ROUND_TRIP_S, 0.25e6)


def link(name: str, round_trip_s: float, bandwidth: float) -> Far:
    """To a server of NFS version 4, which delegates files, with a client's usual patience."""
    return Far(name, round_trip_s, bandwidth, opens="first", believed_s=3.0)


class Remote:
    """A server that is mounted anew for each run."""

    def __init__(self, slowfs: Path, at: Path, device: Far) -> None:
        self._slowfs, self.at, self.device = slowfs, at, device
        self.source = at / "source"
        self.source.mkdir(parents=True)
        self.path = at / "slow"

    def flush(self) -> None:
        """Writes back what was prepared."""
        for path in self.source.rglob("*"):
            if path.is_file() and not path.is_symlink():
                page_cache.flush(path)

    @contextlib.contextmanager
    def fresh(self) -> Iterator[SlowFolder]:
        """With nothing of it in memory."""
        with closing(SlowFolder(self._slowfs, self.at, self.device)) as slow:
            yield slow


@dataclass(frozen=True)
class Work:
    """What is run, how it is prepared before each run, and how its outcome is compared."""

    command: Sequence[str | Path]
    folder: Path | None
    prepare: Callable[[], None]
    outcome: Callable[[], str]


def cell(bench: Bench, remote: Remote, work: Work, name: str, runs: int) -> Data:
    """All ways, in turns, after what is to be learned was."""
    with bench.folder("state") as state:

        def once(mode: str) -> Run:
            with remote.fresh() as slow:
                with slow.at_full_speed():
                    work.prepare()
                if mode == WATCHED:
                    run = watched(bench, slow, work.command, state / "watch", work.folder)
                else:
                    command = observed(bench, work.command, mode)
                    run = counted(slow, command, {"NEARFIRST_STATE": str(state)}, work.folder)
                return replace(run, output=work.outcome())

        return in_turns(bench, name, runs, LEARNING_RUNS, once, modes=(WITHOUT, WITH, WATCHED))


def _median(samples: Sequence[Data], key: str) -> float:
    return statistics.median([float(sample[key]) for sample in samples])


def _requests(samples: Data, mode: str) -> str:
    def of(mode: str) -> str:
        reads, others = _median(samples[mode], "reads"), _median(samples[mode], "metadata")
        return f"{reads:.0f} reads, {others:.0f} others"

    return f"{of(mode)} (alone {of(WITHOUT)})"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


HOW = {WITH: "nearfirst run", WATCHED: "nearfirst watch"}
"""Who fetches, in words."""


def linked_rows(what: str, samples: Data, target: float, bandwidth: float) -> list[Row]:
    """Elapsed time and requests, beside what the link alone takes, of so many bytes a second.

    Nobody who reads the same bytes is faster than that.
    """
    bound = Spread.of([run["read_bytes"] / bandwidth for run in samples[WITHOUT]])
    link_alone = f", the link {_time(bound.median)}"
    return [
        row(f"{what}, {how}: {_requests(samples, mode)}", samples, target, link_alone, mode)
        for mode, how in HOW.items()
    ]


def cpu_rows(what: str, cells: Sequence[Data]) -> list[Row]:
    """Processor time of all cells together, and its share of the elapsed time."""
    return [_cpu_row(f"{what}, {how}", cells, mode) for mode, how in HOW.items()]


def _cpu_row(what: str, cells: Sequence[Data], with_: str) -> Row:
    rounds = range(min(len(samples[with_]) for samples in cells))

    def sums(mode: str, key: str) -> list[float]:
        return [sum(samples[mode][number][key] for samples in cells) for number in rounds]

    ours, alone = Spread.of(sums(with_, "cpu_s")), Spread.of(sums(WITHOUT, "cpu_s"))
    pairs = zip(sums(with_, "cpu_s"), sums(WITHOUT, "cpu_s"), strict=True)
    more = Spread.of([observed / without for observed, without in pairs])

    def share(mode: str) -> float:
        return statistics.median(sums(mode, "cpu_s")) / statistics.median(sums(mode, "seconds"))

    return Row(
        what=f"{what}: processor time, ours included, and its share of the elapsed time",
        ours=f"{ours.as_time()}, {share(with_):.0%}",
        peer=f"alone {alone.as_time()}, {share(WITHOUT):.0%}",
        reached=more.as_ratio(),
        target=f"≤ {CPU_TARGET:g}x",
        met=more.median <= CPU_TARGET,
    )


def series(name: str, points: Sequence[tuple[float, Data]], mode: str) -> svg.Series:
    """Elapsed times over an axis."""
    drawn = []
    for x, samples in points:
        spread = measure.seconds(samples[mode])
        drawn.append(svg.Point(x, spread.median, spread.low, spread.high))
    return svg.Series(name, drawn)
