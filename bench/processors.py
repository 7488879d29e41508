"""Time on processors, of whole groups of processes; and a service that runs meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from measure import FailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

_CGROUPS = Path("/sys/fs/cgroup")
_ENDS_WITHIN_S = 20
_PAUSE_S = 0.01
_counter = itertools.count()


class Account:
    """A cgroup that counts its processes' time on processors, those that ended included."""

    def __init__(self) -> None:
        name = f"nearfirst-bench-time-{os.getpid()}-{next(_counter)}"
        self._first_version = (_CGROUPS / "cpuacct").is_dir()
        self._path = (_CGROUPS / "cpuacct" if self._first_version else _CGROUPS) / name
        self._path.mkdir()
        self.procs = self._path / "cgroup.procs"

    def seconds(self) -> float:
        """So far."""
        if self._first_version:
            return int((self._path / "cpuacct.usage").read_text()) / 1e9
        lines = (self._path / "cpu.stat").read_text().splitlines()
        return int(dict(line.split() for line in lines)["usage_usec"]) / 1e6

    def wait_until_empty(self) -> None:
        """Until the last of its processes has ended.

        Raises:
            FailedError: if that takes long.
        """
        until = time.monotonic() + _ENDS_WITHIN_S
        while self.procs.read_text():
            if time.monotonic() > until:
                raise FailedError(f"{self.procs}: processes that do not end")
            time.sleep(_PAUSE_S)

    def close(self) -> None:
        """Removes the group."""
        with contextlib.suppress(OSError):
            self._path.rmdir()


class Service:
    """A program that says on stderr that it has begun, and ends when it is told to."""

    def __init__(self, argv: Sequence[str | Path], account: Account) -> None:
        self._account = account
        self._child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: account.procs.write_text(str(os.getpid())) and None,
        )
        assert self._child.stderr is not None
        if not self._child.stderr.readline():
            raise FailedError(f"{argv[0]} {argv[1]}: exit code {self._child.wait()}")

    def close(self) -> None:
        """Has it end, and waits for that."""
        self._child.terminate()
        _, complaint = self._child.communicate(timeout=_ENDS_WITHIN_S)
        if self._child.returncode != 0:
            raise FailedError(
                f"exit code {self._child.returncode}: {complaint.decode(errors='replace').strip()}"
            )
        self._account.wait_until_empty()
