"""Lei & Duchamp's controlled experiments, Filters and Builds (section "Controlled Experiments").

A server as far away as theirs, on either of their links, is mounted anew for each run, so that not
even a name is in memory. Programs, and what they write, are of this machine.
"""

from __future__ import annotations

import contextlib
import os
import statistics
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import measure
import page_cache
import svg
from bench import Bench, Data, Row
from conditions import CpuAccount, Far, SlowFolder
from measure import Spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

WITH, WITHOUT = "run", "alone"
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
    return Far(name, round_trip_s, bandwidth, 1, opens="first", believed_s=3.0)


@dataclass
class Run:
    """One run of the whole experiment at one point."""

    seconds: float
    cpu_s: float
    """User and system, of all its processes, ours included."""
    reads: int
    read_bytes: int
    metadata: int
    """Requests without data: names, attributes, opens."""
    others_s: float
    output: str

    def as_json(self) -> Data:
        """For the result file."""
        return asdict(self)


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


def once(bench: Bench, remote: Remote, work: Work, mode: str, state: Path) -> Run:
    """One run, observed and fetched for if `mode` is WITH."""
    command: list[str | Path] = list(work.command)
    if mode == WITH:
        command = [bench.peers.nearfirst, "run", "--", *command]
    with ExitStack() as exits:
        slow = exits.enter_context(remote.fresh())
        account = exits.enter_context(closing(CpuAccount()))
        with slow.at_full_speed():
            work.prepare()
        slow.reset()
        sample = measure.run(
            command,
            procs=account.procs,
            folder=work.folder,
            env={"NEARFIRST_STATE": str(state)},
        )
        cpu_s = account.cpu_s()
        counts = slow.counts()
        outcome = work.outcome()
    return Run(
        seconds=sample.seconds,
        cpu_s=cpu_s,
        reads=counts["reads"],
        read_bytes=counts["read_bytes"],
        metadata=counts["metadata"],
        others_s=max(0.0, sample.others_s + sample.user_s + sample.system_s - cpu_s),
        output=outcome,
    )


def cell(bench: Bench, remote: Remote, work: Work, name: str, runs: int) -> Data:
    """Both ways, in turns, after what is to be learned was."""
    with bench.folder("state") as state:
        for _ in range(LEARNING_RUNS):
            once(bench, remote, work, WITH, state)
        once(bench, remote, work, WITHOUT, state)
        samples = measure.interleaved(
            (WITHOUT, WITH),
            runs,
            bench.rng(name),
            lambda mode, _number: once(bench, remote, work, mode, state),
        )
    data = {mode: [run.as_json() for run in of] for mode, of in samples.items()}
    if not measure.same_output(data):
        raise measure.FailedError(f"{name}: not the same was written with and without")
    return data


def gain(samples: Data) -> Spread:
    """How many times faster with fetching, round by round."""
    return measure.ratios(samples[WITHOUT], samples[WITH])


def _median(samples: Sequence[Data], key: str) -> float:
    return statistics.median([float(sample[key]) for sample in samples])


def _requests(samples: Data) -> str:
    def of(mode: str) -> str:
        reads, others = _median(samples[mode], "reads"), _median(samples[mode], "metadata")
        return f"{reads:.0f} reads, {others:.0f} others"

    return f"{of(WITH)} (alone {of(WITHOUT)})"


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def row(what: str, samples: Data, target: float, bandwidth: float) -> Row:
    """Elapsed time, with and without, against a target for the gain.

    Nobody who reads the same bytes is faster than the link, of so many bytes a second.
    """
    reached = gain(samples)
    bound = Spread.of([run["read_bytes"] / bandwidth for run in samples[WITHOUT]])
    return Row(
        what=f"{what}: {_requests(samples)}",
        ours=measure.seconds(samples[WITH]).as_time(),
        peer=f"alone {measure.seconds(samples[WITHOUT]).as_time()}, the link {_time(bound.median)}",
        reached=f"{reached.as_ratio()} faster",
        target=f"≥ {target:g}x",
        met=reached.median >= target,
    )


def cpu_row(what: str, cells: Sequence[Data]) -> Row:
    """Processor time of all cells together, and its share of the elapsed time."""
    rounds = range(min(len(samples[WITH]) for samples in cells))

    def sums(mode: str, key: str) -> list[float]:
        return [sum(samples[mode][number][key] for samples in cells) for number in rounds]

    ours, alone = Spread.of(sums(WITH, "cpu_s")), Spread.of(sums(WITHOUT, "cpu_s"))
    pairs = zip(sums(WITH, "cpu_s"), sums(WITHOUT, "cpu_s"), strict=True)
    more = Spread.of([with_ / without for with_, without in pairs])

    def share(mode: str) -> float:
        return statistics.median(sums(mode, "cpu_s")) / statistics.median(sums(mode, "seconds"))

    return Row(
        what=f"{what}: processor time, ours included, and its share of the elapsed time",
        ours=f"{ours.as_time()}, {share(WITH):.0%}",
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


def conditions(devices: Sequence[Far], rounds: int) -> Data:
    """Of a result."""
    return {
        "rounds": str(rounds),
        "devices": ", ".join(map(str, devices)),
        "processors": str(os.cpu_count()),
    }
