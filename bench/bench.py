"""What every experiment is given and what it gives back."""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from peers import Peers

Data: TypeAlias = dict[str, Any]
"""What was measured, as it stands in the JSON file; `conditions` in it is told in README.md."""


@dataclass(frozen=True)
class Bench:
    """The programs, the place to work in and how much to do."""

    peers: Peers
    work: Path
    runs: int
    seed: int
    quick: bool
    speed_up: float

    def rng(self, purpose: str) -> random.Random:
        """A generator of its own for each purpose, so that one experiment changes no other."""
        return random.Random(f"{self.seed} {purpose}")

    def say(self, text: str) -> None:
        """Tells the person who waits what is going on."""
        sys.stderr.write(f"{text}\n")

    def folder(self, name: str) -> AbstractContextManager[Path]:
        """A new folder that is gone after use."""
        return _folder(self.work, name)


@contextmanager
def _folder(work: Path, name: str) -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=work))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@dataclass(frozen=True)
class Row:
    """One line of the table: what was compared, and how far it got."""

    what: str
    ours: str
    peer: str
    reached: str
    target: str
    met: bool | None
    """None where the issue of it is only to be told."""


@dataclass(frozen=True)
class Experiment:
    """One figure or more: measuring, and what is made of the measurements later."""

    name: str
    title: str
    measure: Callable[[Bench], Data]
    rows: Callable[[Data], list[Row]]
    plots: Callable[[Data], Mapping[str, str]] = field(default=lambda _data: {})
