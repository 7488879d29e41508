"""Work alone, under `nearfirst run` and beside `nearfirst watch`: how access trees are raced."""

from __future__ import annotations

import os
import time
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import measure
import svg
from bench import Bench, Data, Row
from measure import Spread
from processors import Account, Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from conditions import SlowDisk, SlowFolder

WITH, WITHOUT, WATCHED = "run", "alone", "watch"
SETTLES_S = 0.05
"""In which the service is told of the last programs, once they have ended."""


@dataclass
class Run:
    """One run of it."""

    seconds: float
    cpu_s: float
    """User and system, of all its processes, ours included, until the last has ended."""
    reads: int
    read_bytes: int
    metadata: int
    """Requests without data: names, attributes, opens."""
    others_s: float
    output: str

    def as_json(self) -> Data:
        """For the result file."""
        return asdict(self)


def observed(bench: Bench, command: Sequence[str | Path], mode: str) -> list[str | Path]:
    """The command, fetched for if `mode` is WITH."""
    return [bench.peers.nearfirst, "run", "--", *command] if mode == WITH else list(command)


def counted(
    slow: SlowDisk | SlowFolder,
    command: Sequence[str | Path],
    env: Mapping[str, str],
    folder: Path | None = None,
) -> Run:
    """Runs it, and counts what its processes and its device did for it."""
    slow.reset()
    with closing(Account()) as account:
        sample = measure.run(command, procs=account.procs, folder=folder, env=dict(env))
        account.wait_until_empty()
        cpu_s = account.seconds()
    counts = slow.counts()
    return Run(
        seconds=sample.seconds,
        cpu_s=cpu_s,
        reads=counts["reads"],
        read_bytes=counts["read_bytes"],
        metadata=counts["metadata"],
        others_s=max(0.0, sample.others_s + sample.user_s + sample.system_s - cpu_s),
        output=sample.output,
    )


def watched(
    bench: Bench,
    slow: SlowFolder,
    command: Sequence[str | Path],
    state: Path,
    folder: Path | None = None,
) -> Run:
    """Runs it beside a service that listens to the device alone, and counts what that does, too."""
    watch: list[str | Path] = [bench.peers.nearfirst, "watch", "--on", slow.path, "--state", state]
    with closing(Account()) as looking, closing(Service(watch, looking)):
        before = looking.seconds()
        run = counted(slow, command, {}, folder)
        time.sleep(SETTLES_S)
        run.cpu_s += looking.seconds() - before
    return run


def in_turns(  # noqa: PLR0913
    bench: Bench,
    name: str,
    runs: int,
    learning: int,
    once: Callable[[str], Run],
    *,
    modes: Sequence[str] = (WITHOUT, WITH),
) -> Data:
    """In all ways, after `learning` runs that are learned from and one alone.

    Raises:
        FailedError: if not all did the same.
    """
    once(WITHOUT)
    for mode in modes:
        for _ in range(learning if mode != WITHOUT else 0):
            once(mode)
    samples = measure.interleaved(modes, runs, bench.rng(name), lambda mode, _number: once(mode))
    data = {mode: [run.as_json() for run in of] for mode, of in samples.items()}
    if not measure.same_output(data):
        raise measure.FailedError(f"{name}: not the same was done with and without")
    return data


def gain(samples: Data, mode: str = WITH) -> Spread:
    """How many times faster with fetching, round by round."""
    return measure.ratios(samples[WITHOUT], samples[mode])


def row(what: str, samples: Data, target: float, beside: str = "", mode: str = WITH) -> Row:
    """Elapsed time, with and without, against a target for the gain."""
    reached = gain(samples, mode)
    return Row(
        what=what,
        ours=measure.seconds(samples[mode]).as_time(),
        peer=f"alone {measure.seconds(samples[WITHOUT]).as_time()}{beside}",
        reached=f"{reached.as_ratio()} faster",
        target=f"≥ {target:g}x",
        met=reached.median >= target,
    )


def gains(title: str, of: Iterable[tuple[str, Data, float]], mode: str = WITH) -> str:
    """A plot of gains: what was done, its samples, and what is to be reached."""
    bars = []
    for label, samples, target in of:
        reached = gain(samples, mode)
        bars.append(svg.Bar(label, reached.median, reached.low, reached.high, target))
    return svg.bars(title, "times faster; the mark is to be reached", bars)


def conditions(rounds: int | str, **more: str) -> Data:
    """Of a result."""
    return {"rounds": str(rounds), "processors": str(os.cpu_count()), **more}
