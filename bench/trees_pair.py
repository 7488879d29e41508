"""A piece of work alone and under `nearfirst run`, in turns: how access trees are raced."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import measure
import svg
from bench import Bench, Data, Row
from measure import Spread
from processors import Account

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from conditions import SlowDisk, SlowFolder

WITH, WITHOUT = "run", "alone"


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


def in_turns(bench: Bench, name: str, runs: int, learning: int, once: Callable[[str], Run]) -> Data:
    """Both ways, after `learning` runs that are learned from and one alone.

    Raises:
        FailedError: if not all did the same.
    """
    once(WITHOUT)
    for _ in range(learning):
        once(WITH)
    samples = measure.interleaved(
        (WITHOUT, WITH), runs, bench.rng(name), lambda mode, _number: once(mode)
    )
    data = {mode: [run.as_json() for run in of] for mode, of in samples.items()}
    if not measure.same_output(data):
        raise measure.FailedError(f"{name}: not the same was done with and without")
    return data


def gain(samples: Data) -> Spread:
    """How many times faster with fetching, round by round."""
    return measure.ratios(samples[WITHOUT], samples[WITH])


def row(what: str, samples: Data, target: float, beside: str = "") -> Row:
    """Elapsed time, with and without, against a target for the gain."""
    reached = gain(samples)
    return Row(
        what=what,
        ours=measure.seconds(samples[WITH]).as_time(),
        peer=f"alone {measure.seconds(samples[WITHOUT]).as_time()}{beside}",
        reached=f"{reached.as_ratio()} faster",
        target=f"≥ {target:g}x",
        met=reached.median >= target,
    )


def gains(title: str, of: Iterable[tuple[str, Data, float]]) -> str:
    """A plot of gains: what was done, its samples, and what is to be reached."""
    bars = []
    for label, samples, target in of:
        reached = gain(samples)
        bars.append(svg.Bar(label, reached.median, reached.low, reached.high, target))
    return svg.bars(title, "times faster; the mark is to be reached", bars)


def conditions(rounds: int | str, **more: str) -> Data:
    """Of a result."""
    return {"rounds": str(rounds), "processors": str(os.cpu_count()), **more}
