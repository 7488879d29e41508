"""The machine a run sees: memory limited, devices slowed down. `close` undoes each."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

_CGROUPS = Path("/sys/fs/cgroup")
_UNMOUNT_S = 20
_LEAVING_TRIES, _LEAVING_S = 50, 0.02
"""How long a process that has ended may still be in its group."""
_counter = itertools.count()


def end_in_order() -> None:
    """Lets a request to end the process run the exits of all conditions first."""

    def leave(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


class MemoryLimit:
    """A cgroup that bounds its processes' memory, the page cache they fill included.

    A page is charged to who brings it in first: evict a file before, or its pages are free.
    """

    def __init__(self, limit_bytes: int) -> None:
        name = f"nearfirst-bench-{os.getpid()}-{next(_counter)}"
        first_version = (_CGROUPS / "memory").is_dir()
        self._path = (_CGROUPS / "memory" if first_version else _CGROUPS) / name
        self._path.mkdir()
        limit = "memory.limit_in_bytes" if first_version else "memory.max"
        self._empty = "memory.force_empty" if first_version else "memory.reclaim"
        try:
            (self._path / limit).write_text(str(limit_bytes))
        except OSError:
            self.close()
            raise
        self.limit_bytes = limit_bytes
        self.procs = self._path / "cgroup.procs"

    def close(self) -> None:
        """Gives the cached pages back and removes the group."""
        with contextlib.suppress(OSError):
            (self._path / self._empty).write_text("1G")
        with contextlib.suppress(OSError):
            self._path.rmdir()


@dataclass(frozen=True)
class Device:
    """How slow a device is, and by how much its times were divided to fit an experiment."""

    name: str
    seek_s: float
    bandwidth: float
    streams: int
    speed_up: float = 1.0
    believed_s: float = 1.0

    def rule(self) -> str:
        """As slowfs takes it."""
        seek_us = self.seek_s / self.speed_up * 1e6
        bandwidth = self.bandwidth * self.speed_up
        return f"*: seek={seek_us:.0f}us, bandwidth={bandwidth:.0f}, streams={self.streams}"

    def __str__(self) -> str:
        """With its numbers, for the conditions of a result."""
        text = f"{self.name}: {self.seek_s * 1e3:g} ms, {self.bandwidth / 1e6:g} MB/s"
        return text if self.speed_up == 1 else f"{text}, all times divided by {self.speed_up:g}"


@dataclass(frozen=True)
class Far:
    """A server at the other end of a network: requests overlap, and share its bandwidth."""

    name: str
    round_trip_s: float
    bandwidth: float
    opens: str = "each"
    """Which opens of a file are requests: "each", "first" (it is delegated then) or "never"."""
    believed_s: float = 1.0
    """For how long names and attributes are not asked for again."""

    def rule(self) -> str:
        """As slowfs takes it."""
        trip_us = self.round_trip_s * 1e6
        slow = f"latency={trip_us:.0f}us, metadata={trip_us:.0f}us, bandwidth={self.bandwidth:.0f}"
        return f"*: {slow}, opens={self.opens}"

    def __str__(self) -> str:
        """With its numbers, for the conditions of a result."""
        trip = f"{self.round_trip_s * 1e3:g} ms"
        return f"{self.name}: {trip} for each request, {self.bandwidth / 1e6:g} MB/s"


def server() -> Far:
    """The SETS paper's NFS server on its Ethernet of 10 Mb/s (section 5): 21 ms for 16 KB."""
    return Far("server", 4e-3, 1.25e6)


def disk() -> Device:
    """A disk of today's spinning kind, seen sequentially through the outer half."""
    return Device("disk", 8e-3, 50e6, streams=1)


def nfs(speed_up: float) -> Device:
    """The SLEDs paper's NFS server (Table 2)."""
    return Device("NFS", 270e-3, 1.0e6, streams=4, speed_up=speed_up)


def cdrom(speed_up: float) -> Device:
    """The SLEDs paper's CD-ROM (Table 2)."""
    return Device("CD-ROM", 130e-3, 2.8e6, streams=1, speed_up=speed_up)


class SlowFolder:
    """A folder on a slow device: slowfs mounted over an empty one."""

    def __init__(self, slowfs: Path, at: Path, device: Device | Far) -> None:
        source, self.path = at / "source", at / "slow"
        for folder in (source, self.path):
            folder.mkdir(parents=True, exist_ok=True)
        self.device = device
        # A session of its own: a Ctrl-C must not unmount it before those above it are gone.
        self._server = subprocess.Popen(
            [
                *(slowfs, "--rule", device.rule()),
                *("--time-to-live", str(device.believed_s), source, self.path),
            ],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._server.stdout is not None
        if not self._server.stdout.readline().startswith(b"mounted"):
            self.close()
            raise OSError(f"slowfs did not mount {self.path}")

    def close(self) -> None:
        """Unmounts."""
        self._server.terminate()
        try:
            self._server.wait(_UNMOUNT_S)
        except subprocess.TimeoutExpired:
            _quietly("umount", "-l", self.path)
            self._server.kill()
            self._server.wait()

    def read_bytes(self) -> int:
        """Bytes read from the device since it was mounted or last reset."""
        return self.counts()["read_bytes"]

    def counts(self) -> dict[str, int]:
        """Requests and bytes since it was mounted or last reset."""
        stats: dict[str, Any] = json.loads((self.path / ".slowfs" / "stats").read_text())
        total: dict[str, int] = stats["total"]
        return total

    def reset(self) -> None:
        """Sets the counts to zero."""
        (self.path / ".slowfs" / "reset").write_text("now")

    @contextlib.contextmanager
    def at_full_speed(self) -> Iterator[None]:
        """To prepare files and caches without waiting."""
        rules = self.path / ".slowfs" / "rules"
        rules.write_text("*: latency=0ms")
        try:
            yield
        finally:
            rules.write_text(self.device.rule())


class SlowDisk:
    """A real file system on a loop device on an image on a slow device.

    The page cache, the readahead and the block layer are the kernel's own.
    """

    def __init__(self, slowfs: Path, at: Path, device: Device, size_bytes: int) -> None:
        self._exits = contextlib.ExitStack()
        self.path = at / "disk"
        self.path.mkdir(parents=True)
        try:
            self.below = self._exits.enter_context(
                contextlib.closing(SlowFolder(slowfs, at, device))
            )
            self._attach(self.below.path / "disk.img", size_bytes)
        except BaseException:
            self.close()
            raise

    def _attach(self, image: Path, size_bytes: int) -> None:
        with self.below.at_full_speed():
            with image.open("wb") as file:
                file.truncate(size_bytes)
            # Without background initialisation, which a slow disk would count.
            lazy = "lazy_itable_init=0,lazy_journal_init=0"
            _tool("mkfs.ext4", "-q", "-F", "-E", lazy, image)
            # Direct, or the image would be cached beside its files.
            loop = _tool("losetup", "-f", "--show", "--direct-io=on", image).strip()
            self._exits.callback(_quietly, "losetup", "-d", loop)
            self._loop = loop
            self._mount()
            self._exits.callback(_quietly, "umount", self.path)

    def _mount(self) -> None:
        _tool("mount", "-o", "noatime", self._loop, self.path)

    def forget(self) -> None:
        """Mounts it anew, so that not even a name or an inode of it is in memory.

        What a program left running may hold a file of it for a moment.
        """
        with self.at_full_speed():
            for number in itertools.count():
                try:
                    _tool("umount", self.path)
                    break
                except OSError:
                    if number == _LEAVING_TRIES:
                        raise
                    time.sleep(_LEAVING_S)
            self._mount()

    def close(self) -> None:
        """Unmounts, detaches, unmounts."""
        self._exits.close()

    @property
    def device(self) -> Device | Far:
        """How slow it is."""
        return self.below.device

    def read_bytes(self) -> int:
        """Bytes read from the device since it was mounted or last reset."""
        return self.below.read_bytes()

    def counts(self) -> dict[str, int]:
        """Requests and bytes since it was mounted or last reset."""
        return self.below.counts()

    def reset(self) -> None:
        """Sets the counts to zero."""
        self.below.reset()

    def at_full_speed(self) -> contextlib.AbstractContextManager[None]:
        """To prepare files and caches without waiting."""
        return self.below.at_full_speed()


Slow: TypeAlias = SlowFolder | SlowDisk


def _tool(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"{command[0]}: {done.stderr.strip()}")
    return done.stdout


def _quietly(*command: str | Path) -> None:
    subprocess.run(command, capture_output=True, check=False)
