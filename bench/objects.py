"""Objects of an S3 server: many small ones and some large ones, near and far away."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import measure
import page_cache
import svg
from bench import Bench, Data, Experiment, Row
from measure import FailedError, Spread
from servers import DelayProxy, ObjectServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

KIB, MIB = 1 << 10, 1 << 20
FIRST_BYTE_MS, SLOW_ONE_IN, SLOW_MS = 50, 50, 2000
DEFAULT_TARGET = 2.0
TUNED_TARGET = 1.0
BUDGET_BYTES = 256 * MIB
"""Of fetched-but-unread data, unless told otherwise: what the memory is held against."""
LARGE_RUNS_MAX = 5
SLOW_RUNS = 1
_PIPE_BYTES = 1 << 20
_LOOK_EVERY_S = 0.01


@dataclass(frozen=True)
class Contestant:
    """A way to read all objects of a bucket."""

    name: str
    command: list[str | Path]
    """`BUCKET` in it is the bucket."""
    is_command: bool = False
    """It writes the objects to its output; others say themselves what they took."""
    is_default: bool = True
    """As it comes; others are tuned."""
    one_by_one: bool = False
    """So slow behind a delay that it runs once there."""


@dataclass(frozen=True)
class Load:
    """A bucket, and from where it is read."""

    name: str
    bucket: str
    count: int
    size: int
    is_far: bool


@dataclass
class Reading:
    """One run over a bucket."""

    seconds: float
    first_s: float
    members: int
    bytes: int
    cpu_s: float
    peak_bytes: int
    others_s: float = 0.0

    def as_json(self) -> Data:
        """For the result file."""
        return asdict(self)


def _contestants(bench: Bench) -> list[Contestant]:
    peers = bench.peers.object_peers
    pattern = "s3://BUCKET/**"

    def library(name: str, **how: bool) -> Contestant:
        return Contestant(name, [peers.python, peers.readers, name, "BUCKET"], **how)

    def command(name: str, *words: str | Path, **how: bool) -> Contestant:
        return Contestant(name, list(words), is_command=True, **how)

    rclone: list[str | Path] = [peers.rclone, "--config", "", "cat"]
    many = ["--checkers", "64", "--transfers", "64"]
    bucket = ":s3,provider=Other,env_auth=true,force_path_style=true:BUCKET"
    wild = "s3://BUCKET/*"
    return [
        Contestant("set", [bench.peers.example("measured"), "objects", pattern]),
        command("nearfirst cat", bench.peers.nearfirst, "cat", pattern),
        library("nearfirst.py"),
        library("nearfirst.py, chunks"),
        library("nearfirst.py, async"),
        library("boto3", one_by_one=True),
        library("boto3, threads", is_default=False),
        library("obstore-16", is_default=False),
        library("obstore-64", is_default=False),
        library("obstore-256", is_default=False),
        library("s3fs"),
        library("smart_open", one_by_one=True),
        library("torch", one_by_one=True),
        command("rclone cat", *rclone, bucket, one_by_one=True),
        command("rclone cat, 64", *rclone, *many, bucket, is_default=False, one_by_one=True),
        command("s5cmd cat", peers.s5cmd, "cat", wild, one_by_one=True),
        command(
            "s5cmd cat, 64", peers.s5cmd, "cat", "-c", "64", wild, is_default=False, one_by_one=True
        ),
    ]


FROM_PYTHON = ("nearfirst.py", "nearfirst.py, chunks", "nearfirst.py, async")
OURS = ("set", "nearfirst cat", *FROM_PYTHON)


def _run(contestant: Contestant, load: Load, env: Mapping[str, str]) -> Reading:
    command = [str(word).replace("BUCKET", load.bucket) for word in contestant.command]
    everything = {**os.environ, **env}
    read = _of_output(command, load, everything) if contestant.is_command else None
    reading = read or _as_told(command, everything)
    if reading.bytes != load.count * load.size:
        raise FailedError(f"{contestant.name} read {reading.bytes} bytes of {load.name}")
    return reading


def _as_told(command: Sequence[str], env: Mapping[str, str]) -> Reading:
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _failed(command, done.returncode, done.stderr)
    told = json.loads(done.stdout)
    return Reading(**{name: told[name] for name in Reading.__dataclass_fields__ if name in told})


def _of_output(command: Sequence[str], load: Load, env: Mapping[str, str]) -> Reading:
    """What the program writes goes through a pipe to nowhere, without a copy on our side."""
    start = time.perf_counter()
    with measure.in_memory() as complaints:
        child = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=complaints)
        assert child.stdout is not None
        peak = _Peak(child.pid)
        fcntl.fcntl(child.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        count, first_s = 0, 0.0
        with Path(os.devnull).open("wb") as nowhere:
            while moved := os.splice(child.stdout.fileno(), nowhere.fileno(), _PIPE_BYTES):
                if count < load.size <= count + moved:
                    first_s = time.perf_counter() - start
                count += moved
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        child.stdout.close()
        if child.returncode != 0:
            raise _failed(command, child.returncode, measure.said(complaints))
    cpu_s = usage.ru_utime + usage.ru_stime
    return Reading(seconds, first_s, count // load.size, count, cpu_s, peak.bytes())


def _failed(command: Sequence[str], code: int, complaint: str) -> FailedError:
    return FailedError(f"{' '.join(command)}: exit code {code}: {complaint.strip()[-2000:]}")


class _Peak:
    """The most memory a process had, looked at while it lives.

    Not `ru_maxrss`, in which the memory of who started the process counts too.
    """

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self._bytes = 0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        with contextlib.suppress(OSError, StopIteration):
            while True:
                lines = self._status.read_text().splitlines()
                line = next(line for line in lines if line.startswith("VmHWM"))
                self._bytes = max(self._bytes, int(line.split()[1]) * KIB)
                time.sleep(_LOOK_EVERY_S)

    def bytes(self) -> int:
        """After its end."""
        self._thread.join()
        return self._bytes


def _loads(bench: Bench) -> list[Load]:
    small = (100, 64 * KIB) if bench.quick else (1000, 64 * KIB)
    large = (4, 32 * MIB) if bench.quick else (20, 256 * MIB)
    return [
        Load("small, near", "small", *small, is_far=False),
        Load("small, far", "small", *small, is_far=True),
        Load("large, near", "large", *large, is_far=False),
        Load("large, far", "large", *large, is_far=True),
    ]


@contextlib.contextmanager
def _reached(bench: Bench, server: ObjectServer, load: Load, seed: int) -> Iterator[str]:
    """The endpoint: the server, or a proxy that delays, with its slow answers drawn anew."""
    if not load.is_far:
        yield server.endpoint
        return
    proxy = bench.peers.example("delay_proxy")
    delays = (FIRST_BYTE_MS, SLOW_ONE_IN, SLOW_MS, seed)
    with closing(DelayProxy(proxy, server.address, delays)) as far:
        yield far.endpoint


def _measure_load(bench: Bench, server: ObjectServer, load: Load, at: Path, runs: int) -> Data:
    bench.say(f"objects: {load.name}")
    by_name = {contestant.name: contestant for contestant in _contestants(bench)}

    def once(name: str, number: int) -> Reading:
        for path in server.files(load.bucket):
            if page_cache.resident_bytes(path) < path.stat().st_size:
                page_cache.read_in(path)
        with _reached(bench, server, load, bench.seed + number) as endpoint:
            env = server.env(endpoint) | {
                "NEARFIRST_STATE": str(at / "state"),
                "PYTHONPATH": str(bench.peers.python_package),
            }
            return _run(by_name[name], load, env)

    def in_turns(names: list[str], runs: int) -> dict[str, list[Reading]]:
        return measure.interleaved(names, runs, bench.rng(load.name), once)

    slow = [name for name, who in by_name.items() if load.is_far and who.one_by_one]
    samples = in_turns([name for name in by_name if name not in slow], runs)
    samples |= in_turns(slow, min(runs, SLOW_RUNS))
    return {
        "load": asdict(load),
        "samples": {name: [reading.as_json() for reading in of] for name, of in samples.items()},
        "default": [name for name, who in by_name.items() if who.is_default],
        "commands": [name for name, who in by_name.items() if who.is_command],
    }


def _measure(bench: Bench, bucket: str) -> Data:
    with bench.folder("objects") as at, ExitStack() as exits:
        server = exits.enter_context(closing(ObjectServer(bench.peers.object_peers.server, at)))
        loads = [load for load in _loads(bench) if load.bucket == bucket]
        server.fill(bucket, loads[0].count, loads[0].size, bench.rng("objects"))
        runs = min(bench.runs, LARGE_RUNS_MAX) if bucket == "large" else bench.runs
        measured = [_measure_load(bench, server, load, at, runs) for load in loads]
        versions = bench.peers.object_peers.versions()
        said = ", ".join(f"{name} {version}" for name, version in versions.items())
        return {"conditions": {"rounds": str(runs), "peers": said}, "loads": measured}


def _median(samples: Sequence[Data], what: str) -> float:
    return Spread.of([sample[what] for sample in samples]).median


def _compared(load: Data, peer: str, own: str) -> Row:
    samples = load["samples"]
    name, count = load["load"]["name"], len(samples[peer])
    ours, theirs = samples[own], samples[peer]
    if len(ours) == count:
        reached = measure.ratios(theirs, ours)
    else:
        reached = Spread.of([_median(theirs, "seconds") / _median(ours, "seconds")])
    target = DEFAULT_TARGET if peer in load["default"] else TUNED_TARGET
    once = "" if count > 1 else ", one run"
    return Row(
        what=f"{name}: all read",
        ours=f"{own} {measure.seconds(ours).as_time()}",
        peer=f"{peer}{once} {measure.seconds(theirs).as_time()}",
        reached=reached.as_ratio(),
        target=f"≥ {target:g}x",
        met=reached.median >= target,
    )


def _first(load: Data) -> Row:
    samples = load["samples"]
    first = {name: Spread.of([s["first_s"] for s in of]) for name, of in samples.items()}
    peers = {name: spread for name, spread in first.items() if name not in OURS}
    best = min(peers, key=lambda name: peers[name].median)
    return Row(
        what=f"{load['load']['name']}: first member",
        ours=f"set {first['set'].as_time()}",
        peer=f"{best} {peers[best].as_time()}",
        reached=f"{peers[best].median / first['set'].median:.3g}x",
        target="",
        met=None,
    )


def _memory(load: Data) -> Iterator[Row]:
    """Of what reads as it comes; and of Python, whose program holds a whole object besides."""
    samples = load["samples"]
    peaks = {name: [sample["peak_bytes"] for sample in of] for name, of in samples.items()}
    others = {name: Spread.of(of).median for name, of in peaks.items() if name not in OURS}
    least = min(others, key=lambda name: others[name])
    from_python = [name for name in FROM_PYTHON if name in peaks]
    as_it_comes = [name for name in OURS if name not in FROM_PYTHON]
    held = load["load"]["size"]
    for names, whose, limit, why in (
        (as_it_comes, "", BUDGET_BYTES, "the budget"),
        (from_python, ", from Python", BUDGET_BYTES + held, "the budget and an object"),
    ):
        most = max((peak for name in names for peak in peaks[name]), default=None)
        if most is None:
            continue
        yield Row(
            what=f"{load['load']['name']}: most memory of any run{whose}",
            ours=f"{most / MIB:.0f} MiB ({_median(samples[names[0]], 'cpu_s'):.2g} s of processor)",
            peer=f"{least} {others[least] / MIB:.0f} MiB "
            f"({_median(samples[least], 'cpu_s'):.2g} s of processor)",
            reached=f"{most / MIB:.0f} MiB",
            target=f"≤ {limit / MIB:.0f} MiB, {why}",
            met=most <= limit,
        )


def _each_memory(load: Data) -> Row:
    peaks = {name: _median(of, "peak_bytes") for name, of in load["samples"].items()}

    def told(names: Iterable[str]) -> str:
        return ", ".join(f"{name} {peaks[name] / MIB:.0f} MiB" for name in names)

    return Row(
        what=f"{load['load']['name']}: most memory of each, in the median",
        ours=told(name for name in peaks if name in OURS),
        peer=told(name for name in peaks if name not in OURS),
        reached="",
        target="",
        met=None,
    )


def _rows(data: Data) -> list[Row]:
    rows = []
    for load in data["loads"]:
        for peer in load["samples"]:
            if peer in OURS:
                continue
            # A command against our command, a library against our libraries.
            is_command = peer in load["commands"]
            rows.append(_compared(load, peer, OURS[is_command]))
            if not is_command:
                # All of the bytes of an object as one, and where they lie.
                own = [name for name in FROM_PYTHON[:2] if name in load["samples"]]
                rows += [_compared(load, peer, name) for name in own]
        rows += [_first(load), *_memory(load), _each_memory(load)]
    return rows


def _plots(data: Data) -> dict[str, str]:
    drawn = {}
    for load in data["loads"]:
        about = load["load"]
        slug = f"objects-{about['name'].replace(', ', '-')}"
        size = (
            f"{about['size'] // MIB} MiB" if about["size"] >= MIB else f"{about['size'] >> 10} KiB"
        )
        title = f"{about['count']:,} objects of {size}, {'far' if about['is_far'] else 'near'}"
        for what, said in (("seconds", "all read"), ("first_s", "first member")):
            bars = []
            for name, of in load["samples"].items():
                spread = Spread.of([sample[what] for sample in of])
                bars.append(svg.Bar(name, spread.median, spread.low, spread.high))
            suffix = "" if what == "seconds" else "-first"
            drawn[slug + suffix] = svg.bars(f"{title}: {said}", "seconds", bars)
    return drawn


EXPERIMENTS = tuple(
    Experiment(f"objects-{bucket}", title, partial(_measure, bucket=bucket), _rows, _plots)
    for bucket, title in (
        ("small", "Small objects of an S3 server"),
        ("large", "Large objects of an S3 server"),
    )
)
