"""A PyTorch loop over JPEGs of an S3 server far away: how much of its time it waits for data."""

from __future__ import annotations

import io
import json
import math
import os
import subprocess
import tarfile
import threading
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import svg
from bench import Bench, Data, Experiment, Row
from measure import FailedError, Spread
from servers import DelayProxy, ObjectServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

BUCKET = "images"
FIRST_BYTE_MS, SLOW_ONE_IN, SLOW_MS = 50, 50, 2000
"""As the races of objects have it: every answer is late, one in fifty very."""
SHARD_IMAGES = 100
WAIT_TARGET = 0.02
COMPUTING_LEAST = 1.05
"""Of what transferring takes; more than 1, since neither is measured to a hundredth."""
_STEPS = 10
_MADE_UP_BATCHES = 8
RUNS_MAX = 3
_TIMEOUT_S = 900


@dataclass(frozen=True)
class Contestant:
    """A data set, and how many workers it has."""

    how: str
    workers: int

    @property
    def name(self) -> str:
        """As tables and plots call it."""
        return f"{self.how}, {self.workers} worker{'s' * (self.workers != 1)}"


OURS = (Contestant("nearfirst", 1), Contestant("nearfirst", 2))
PEERS = tuple(
    Contestant(how, workers) for how in ("connector", "webdataset", "s3fs") for workers in (2, 8)
)


@dataclass(frozen=True)
class _Processors:
    """Who has which: the model one of its own, where there are several."""

    model: set[int]
    others: set[int]

    @classmethod
    def shared_out(cls) -> _Processors:
        everything = os.sched_getaffinity(0)
        first = {min(everything)}
        return cls(first, everything - first or everything)


@contextmanager
def _started_on(processors: set[int]) -> Iterator[None]:
    """What this thread starts within has these."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _run(bench: Bench, who: Contestant, steps: int, env: dict[str, str]) -> Data:
    peers = bench.peers.torch_peers
    command = [peers.python, peers.loop, who.how, BUCKET, str(who.workers), str(steps)]
    done = subprocess.run(
        command,
        env={**os.environ, **env, "PYTHONPATH": str(peers.package)},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT_S,
    )
    if done.returncode != 0:
        raise FailedError(f"{who.name}: exit code {done.returncode}: {done.stderr[-2000:]}")
    told: Data = json.loads(done.stdout.splitlines()[-1])
    return told


def _fill(bench: Bench, server: ObjectServer, count: int, at: Path) -> int:
    """Makes the bucket of JPEGs and the one of shards; returns the bytes of all JPEGs."""
    made = at / "made"
    subprocess.run(
        [bench.peers.torch_peers.python, bench.peers.torch_peers.images, made, str(count)],
        check=True,
    )
    images = {path.name: path.read_bytes() for path in sorted(made.iterdir())}
    server.put(BUCKET, images)
    names = sorted(images)
    shards = {}
    # WebDataset refuses to begin with fewer shards than workers.
    images_per_shard = min(SHARD_IMAGES, count // max(who.workers for who in PEERS))
    for start in range(0, count, images_per_shard):
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as shard:
            for name in names[start : start + images_per_shard]:
                member = tarfile.TarInfo(name)
                member.size = len(images[name])
                shard.addfile(member, io.BytesIO(images[name]))
        shards[f"{start:06}.tar"] = content.getvalue()
    server.put(f"{BUCKET}-shards", shards)
    return sum(map(len, images.values()))


def _measure(bench: Bench) -> Data:
    count = 192 if bench.quick else 2000
    processors = _Processors.shared_out()
    with (
        bench.folder("training") as at,
        _started_on(processors.others),
        closing(ObjectServer(bench.peers.object_server, at)) as server,
    ):
        size = _fill(bench, server, count, at)

        def once(who: Contestant, steps: int, seed: int) -> Data:
            delays = (FIRST_BYTE_MS, SLOW_ONE_IN, SLOW_MS, seed)
            proxy = bench.peers.example("delay_proxy")
            model = {"COMPUTES_ON": str(min(processors.model))}
            with closing(DelayProxy(proxy, server.address, delays)) as far:
                told = _run(bench, who, steps, server.env(far.endpoint) | model)
            if told["samples"] != count:
                raise FailedError(f"{who.name} gave {told['samples']} of {count} samples")
            return told

        bench.say("training: how long computing and transferring take")
        beside = [
            _beside(bench, processors.model, partial(once, OURS[0], 0, bench.seed + run))
            for run in range(3)
        ]
        transfer_s = Spread.of([transfer for transfer, _ in beside]).median
        step_s = Spread.of([step for _, step in beside]).median
        batches = -(-count // 32)
        steps = math.ceil(COMPUTING_LEAST * transfer_s / (batches * step_s))
        samples: dict[str, list[Data]] = {who.name: [] for who in (*OURS, *PEERS)}
        runs = min(bench.runs, RUNS_MAX)
        for run in range(runs):
            for who in bench.rng(f"training {run}").sample((*OURS, *PEERS), len(samples)):
                bench.say(f"training: {who.name}, round {run + 1}")
                samples[who.name].append(once(who, steps, bench.seed + run))
    return {
        "conditions": {
            "rounds": str(runs),
            "JPEGs": f"{count} of {size // count >> 10} KiB",
            "steps of the model for each batch of 32": steps,
            "transferring and decoding": f"{transfer_s:.3g} s",
            "computing": f"{steps * step_s * batches:.3g} s",
            "peers": bench.peers.torch_peers.versions(),
        },
        "samples": samples,
        "ours": [who.name for who in OURS],
    }


def _beside(bench: Bench, model: set[int], transfer: Callable[[], Data]) -> tuple[float, float]:
    """Seconds that transferring takes, and a step, while the other processor is as busy.

    Processors share caches and more: neither is as fast as with the other at rest.
    """
    steps: list[float] = []
    transferred = threading.Event()

    def compute() -> None:
        with _started_on(model):
            while not transferred.is_set():
                alone = _run(bench, Contestant("compute", 0), _STEPS, {})
                steps.append((alone["seconds"] - alone["waited_s"]) / (_STEPS * _MADE_UP_BATCHES))

    computing = threading.Thread(target=compute)
    computing.start()
    try:
        seconds = transfer()["seconds"]
    finally:
        transferred.set()
        computing.join()
    return seconds, Spread.of(steps).median


def _share(sample: Data) -> float:
    """Of the time after the first batch, how much was waited."""
    waited: float = sample["waited_s"] - sample["first_s"]
    whole: float = sample["seconds"] - sample["first_s"]
    return waited / whole


def _rows(data: Data) -> list[Row]:
    shares = {name: Spread.of(list(map(_share, of))) for name, of in data["samples"].items()}

    def told(name: str) -> str:
        first = Spread.of([sample["first_s"] for sample in data["samples"][name]])
        return f"{name} {shares[name].median:.1%}, first batch {first.as_time()}"

    return [
        Row(
            what="share of the time a loop waits",
            ours=told(ours),
            peer=told(peer),
            reached=f"{shares[ours].median:.1%}",
            target=f"< {WAIT_TARGET:.0%}",
            met=shares[ours].median < WAIT_TARGET,
        )
        for ours in data["ours"]
        for peer in shares
        if peer not in data["ours"]
    ]


def _plots(data: Data) -> dict[str, str]:
    bars = []
    for name, of in data["samples"].items():
        share = Spread.of([100 * _share(sample) for sample in of])
        bars.append(svg.Bar(name, share.median, share.low, share.high, 100 * WAIT_TARGET))
    title = "A PyTorch loop whose computing takes no less than its transfers: waiting for data"
    return {"training": svg.bars(title, "% of the time after the first batch", bars)}


EXPERIMENTS = (
    Experiment("training", "A PyTorch loop over JPEGs far away", _measure, _rows, _plots),
)
