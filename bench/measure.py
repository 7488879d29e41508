"""Runs of commands, timed, in turns; and what many of them say together."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import statistics
import subprocess
import time
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar

import page_cache

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping, Sequence

_DISCARDS_MAX = 5
# In memory, so that writing the output costs every contestant the same copy and no disk.
_OUTPUT = Path("/dev/shm") / f"nearfirst-bench-{os.getpid()}.out"  # noqa: S108
_BLOCK_BYTES = 512


class FailedError(Exception):
    """A command of an experiment ended with a code that is no answer."""


@dataclass
class Sample:
    """One run of one command."""

    seconds: float
    user_s: float
    system_s: float
    memory_bytes: int
    major_faults: int
    block_bytes: int
    """Read from block devices by the process itself."""
    output: str
    """Digest of what it wrote."""
    code: int
    others_s: float
    """Processor time that all other programs took meanwhile."""
    device_bytes: int | None = None
    """Read from the slow device, by anybody, where there is one."""
    cached_bytes: int | None = None
    """In memory just before."""
    match_cached: bool | None = None

    def as_json(self) -> dict[str, Any]:
        """For the result file."""
        return asdict(self)


def run(  # noqa: PLR0913
    argv: Sequence[str | Path],
    *,
    procs: Path | None = None,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    codes: Sequence[int] = (0,),
    unordered: bool = False,
) -> Sample:
    """Runs a command to its end, inside a cgroup if `procs` names one.

    Args:
        argv: the program and its arguments.
        procs: the `cgroup.procs` to enter before the program starts.
        folder: where to run it.
        env: more environment variables.
        codes: the exit codes that are an answer.
        unordered: whether two outputs with the same lines are the same.

    Raises:
        FailedError: on any other exit code.
    """
    # In a file of a disk it would be a dirty page of the cgroup, for which the kernel may wait.
    with _OUTPUT.open("w+b") as output, in_memory() as complaints, in_memory() as entered:
        enter = None if procs is None else partial(_enter, procs, entered.fileno())
        busy = busy_s()
        start = time.perf_counter()
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=complaints,
            env={**os.environ, **(env or {})},
            cwd=folder,
            preexec_fn=enter,
        )
        try:
            # wait4 and not communicate, for the usage of this child alone.
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            child.wait()
            raise
        end = time.perf_counter()
        if procs is not None:
            entered.seek(0)
            start = float(entered.read())
        seconds = end - start
        others_s = busy_s() - busy - usage.ru_utime - usage.ru_stime
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in codes:
            shown = " ".join(map(str, argv))
            raise FailedError(f"{shown}: exit code {child.returncode}: {said(complaints)}")
        output.seek(0)
        digest = _digest(output.read(), unordered=unordered)
    return Sample(
        seconds=seconds,
        user_s=usage.ru_utime,
        system_s=usage.ru_stime,
        memory_bytes=usage.ru_maxrss * 1024,
        major_faults=usage.ru_majflt,
        block_bytes=usage.ru_inblock * _BLOCK_BYTES,
        output=digest,
        code=child.returncode,
        others_s=max(0.0, others_s),
    )


def in_memory() -> BinaryIO:
    """A file for what a child says: a pipe that nobody reads before its end may be full."""
    return os.fdopen(os.memfd_create("said"), "w+b")


def said(file: BinaryIO) -> str:
    """What was written to it."""
    file.seek(0)
    return file.read().decode(errors="replace").strip()


@contextlib.contextmanager
def output_forgotten() -> Iterator[None]:
    """At its end what the last command wrote is removed."""
    try:
        yield
    finally:
        _OUTPUT.unlink(missing_ok=True)


def busy_s() -> float:
    """Processor time of everybody since boot, that of the machine's other guests included."""
    user, nice, system, _idle, _wait, interrupts, soft, stolen = map(
        int, Path("/proc/stat").read_text().split()[1:9]
    )
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def _enter(procs: Path, entered: int) -> None:
    """Notes when it was done: that may take 20 ms, since the kernel waits for all processors."""
    procs.write_text(str(os.getpid()))
    os.write(entered, repr(time.perf_counter()).encode())


def _digest(output: bytes, *, unordered: bool) -> str:
    if unordered:
        output = b"\n".join(sorted(output.split(b"\n")))
    return hashlib.blake2b(output, digest_size=8).hexdigest()


class Timed(Protocol):
    """What one run gives, at the least."""

    seconds: float
    others_s: float


Run = TypeVar("Run", bound=Timed)


def interleaved(
    contestants: Sequence[str],
    runs: int,
    rng: random.Random,
    once: Callable[[str, int], Run],
    *,
    alone: bool = False,
) -> dict[str, list[Run]]:
    """Rounds in which everyone runs once, in an order drawn anew for each round.

    What slows the machine for a while slows all of them, and nobody always profits from who ran
    before. A run during which somebody dropped the whole page cache is repeated; if `alone` also
    one during which other programs took much of a processor, a few times.
    """
    samples: dict[str, list[Run]] = {name: [] for name in contestants}
    for number in range(runs):
        order = rng.sample(contestants, len(contestants))
        for name in order:
            samples[name].append(_undisturbed(partial(once, name, number), alone=alone))
    return samples


def _undisturbed(once: Callable[[], Run], *, alone: bool) -> Run:
    dropped = 0
    for attempt in itertools.count():
        before = page_cache.drops()
        sample = once()
        if page_cache.drops() != before:
            dropped += 1
            if dropped == _DISCARDS_MAX:
                break
        elif not alone or attempt >= _DISCARDS_MAX or sample.others_s < _others_max_s(sample):
            return sample
    raise FailedError("somebody keeps dropping the page cache of this machine")


def _others_max_s(sample: Timed) -> float:
    # The kernel counts in hundredths of a second, on every processor.
    return 0.02 + 0.15 * sample.seconds


@dataclass(frozen=True)
class Spread:
    """Median, quartiles and extremes."""

    median: float
    low: float
    high: float
    least: float
    most: float
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one value."""
        ordered = sorted(values)
        low, median, high = (
            statistics.quantiles(ordered, n=4, method="inclusive")
            if len(ordered) > 1
            else ordered * 3
        )
        return cls(median, low, high, ordered[0], ordered[-1], len(ordered))

    def as_time(self) -> str:
        """Of seconds: the median and the quartiles."""
        factor, unit = (1e3, "ms") if self.median < 1 else (1.0, "s")
        low, median, high = (f"{v * factor:.3g}" for v in (self.low, self.median, self.high))
        return f"{median} {unit} ({low} to {high})"

    def as_ratio(self) -> str:
        """Of ratios: the median and the quartiles."""
        return f"{self.median:.3g}x ({self.low:.3g} to {self.high:.3g})"


def ratios(of: Sequence[dict[str, Any]], to: Sequence[dict[str, Any]]) -> Spread:
    """How many times longer `of` took than `to`, round by round."""
    return Spread.of([a["seconds"] / b["seconds"] for a, b in zip(of, to, strict=True)])


def seconds(samples: Sequence[dict[str, Any]]) -> Spread:
    """How long the runs took."""
    return Spread.of([sample["seconds"] for sample in samples])


def same_output(samples: Mapping[str, Sequence[dict[str, Any]]]) -> bool:
    """Whether every run of everybody wrote the same."""
    return len({sample["output"] for runs in samples.values() for sample in runs}) == 1
