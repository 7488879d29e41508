"""A data set of PyTorch whose samples come as they are near."""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
from typing import TYPE_CHECKING, Any, Generic, Literal

import torch.distributed as dist
from torch.utils.data import IterableDataset, get_worker_info

import nearfirst

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from typing_extensions import TypeVar

    from nearfirst import Entry, Member, Set
    from nearfirst._nearfirst import Spec
    from nearfirst._open import Name

    Sample = TypeVar("Sample", default=tuple[str, bytes])
else:
    from typing import TypeVar

    Sample = TypeVar("Sample")

_DIGEST_BYTES = 8
_LOG = logging.getLogger("nearfirst")
# What one worker may meet and another not.
_PASSING = (
    nearfirst.Busy,
    nearfirst.Changed,
    nearfirst.Interrupted,
    nearfirst.Io,
    nearfirst.Stalled,
)


def named_bytes(member: Member) -> tuple[str, bytes]:
    """Make a sample of a member: its name and its bytes."""
    return member.name, member.read()


class NearDataset(IterableDataset, Generic[Sample]):
    """The members of a set as samples, each once per epoch over all workers and ranks.

    Every worker of a `DataLoader` and every rank of a distributed run opens the set
    for itself and takes its share, by a hash of the name: they need not list the same
    names in the same order. Shares differ in size as chance has it.

    Samples come as they are ready. With `shuffle` those fetched first are drawn by
    lot among the names known so far, anew in each epoch; what is ready still comes first.
    """

    def __init__(  # noqa: PLR0913
        self,
        *specs: Name | Spec,
        transform: Callable[[Member], Sample] | None = None,
        priority: Callable[[Entry], float] | None = None,
        shuffle: bool = False,
        seed: int = 0,
        errors: Literal["raise", "skip", "yield"] = "raise",
        rank: int | None = None,
        world_size: int | None = None,
        **options: Any,  # noqa: ANN401 - those of `nearfirst.open`
    ) -> None:
        """Of the members of `nearfirst.open(*specs, **options)`.

        Args:
            specs: As `nearfirst.open` takes them.
            transform: Makes a sample of a member, in the worker, which may be a
                process: pass a function of a module. Name and bytes if not given.
            priority: The `rank` of `nearfirst.open`, whose name means a process here:
                the priority of a member by what listing told of it; higher is sooner.
            shuffle: Whether to draw the order by lot.
            seed: Of the lot.
            errors: Whether what cannot be read or transformed is raised (the next
                sample follows), skipped with a warning in the log `nearfirst`, or
                yielded as the exception. What every worker meets that lists, as a
                pattern that nothing matches, comes from one of them, and is in the
                log of the others; what may have befallen one alone comes from it.
            rank: This process among `world_size` that share the set; of
                `torch.distributed` if not given and that is initialised.
            world_size: How many processes share the set.
            options: Of `nearfirst.open`; each worker has a budget of its own.
        """
        super().__init__()
        if errors not in {"raise", "skip", "yield"}:
            raise ValueError(f"errors is 'raise', 'skip' or 'yield', not {errors!r}")
        if callable(rank):
            raise TypeError("rank is a process of world_size; a function of an entry is priority")
        if priority is not None and not callable(priority):
            raise TypeError(f"priority is a function of an entry, not {type(priority).__name__}")
        if (rank is None) != (world_size is None):
            raise ValueError("rank and world_size are given together")
        if world_size is not None and world_size < 1:
            raise ValueError(f"world_size is at least 1, not {world_size}")
        if rank is not None and world_size is not None and not 0 <= rank < world_size:
            raise ValueError(f"rank is from 0 to {world_size - 1}, not {rank}")
        if shuffle and (priority is not None or "order" in options):
            raise TypeError("shuffle is an order; there cannot be another")
        # Here, and not in every worker once the loop begins.
        inspect.signature(nearfirst.open).bind(*specs, **options)
        self._specs = specs
        self._transform = transform or named_bytes
        self._priority = priority
        self._shuffle = shuffle
        self._seed = seed
        self._errors = errors
        self._rank, self._world_size = rank, world_size
        self._options = options
        self._epoch = 0
        # What was loaded or marked: it does not come again in this epoch.
        self._done: set[bytes] = set()
        # What came of the loop that began last, for `state_dict`.
        self._given: set[bytes] = set()
        # What came of a loop that ended its epoch; its last batch may be marked after that.
        self._ended: set[bytes] = set()

    def __iter__(self) -> Iterator[Sample]:
        """Open the set and take this worker's share, from the beginning of the epoch.

        Only `load_state_dict` and `mark` leave something out: a loop that was broken off does not.
        """
        self._given, self._ended = set(), set()
        return _Samples(self)

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch: with its own order, and nothing done.

        Workers that live for one epoch only do not tell their `DataLoader` that it ended.
        """
        if epoch != self._epoch:
            self._epoch, self._done, self._given = epoch, set(), set()
        self._ended = set()

    def mark(self, names: Iterable[Name]) -> None:
        """Count members as done in this epoch: what a loop over a `DataLoader` has used.

        They do not come again in it; `set_epoch` begins the next. Workers count for themselves,
        and a plain `DataLoader` does not tell; those that run already are not told either. Without
        workers there is no need to mark.
        """
        if isinstance(names, str | bytes | os.PathLike):
            raise TypeError("mark takes several names; one is a list of one")
        self._done |= {_digest(os.fsencode(name)) for name in names} - self._ended

    def state_dict(self) -> dict[str, Any]:
        """What is done, for `load_state_dict` here or in another process.

        `StatefulDataLoader` of torchdata asks every worker for it.
        """
        return {"epoch": self._epoch, "done": b"".join(sorted(self._done | self._given))}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where another left off: what was done in its epoch does not come again."""
        done = state["done"]
        starts = range(0, len(done), _DIGEST_BYTES)
        self._epoch = state["epoch"]
        self._done = {done[at : at + _DIGEST_BYTES] for at in starts}
        self._given = set()

    def __getstate__(self) -> dict[str, Any]:
        """With the rank, which a worker that is spawned cannot ask for."""
        rank, world_size = self._ranks()
        return self.__dict__ | {"_rank": rank, "_world_size": world_size}

    def _ranks(self) -> tuple[int, int]:
        if self._rank is not None and self._world_size is not None:
            return self._rank, self._world_size
        if dist.is_available() and dist.is_initialized():
            return dist.get_rank(), dist.get_world_size()
        return 0, 1

    def share(self) -> tuple[int, int]:
        """Which share is this process's or worker's, of how many."""
        rank, ranks = self._ranks()
        worker = get_worker_info()
        if worker is None:
            return rank, ranks
        return rank * worker.num_workers + worker.id, ranks * worker.num_workers

    def tells(self, error: Exception, name: str) -> bool:
        """Whether this worker is who tells its rank of an error.

        Of a member the one whose share it is. What is wrong with a listing all see,
        unless it is of a kind that passes.
        """
        worker = get_worker_info()
        if worker is None or isinstance(error, _PASSING):
            return True
        whose = int.from_bytes(_digest(os.fsencode(name))) % worker.num_workers
        return bool(whose == worker.id)

    def _opened(self) -> Set:
        """The share that is not done."""
        number, of = self.share()
        if of > 1 and self._options.get("duplicates") == "content":
            raise ValueError(
                "duplicates='content' is for one process without workers: "
                "each of several would give the same content"
            )
        # Of this epoch, also for functions that are called once the next has begun.
        done = frozenset(self._done)
        draw = hashlib.blake2b(f"{self._seed} {self._epoch}".encode()).digest()

        def is_wanted(entry: Entry) -> bool:
            digest = _digest(os.fsencode(entry.name))
            return int.from_bytes(digest) % of == number and digest not in done

        def lot(entry: Entry) -> float:
            return float(int.from_bytes(_digest(os.fsencode(entry.name), draw)[:3]))

        rank = lot if self._shuffle else self._priority
        members = nearfirst.open(*self._specs, rank=rank, errors="yield", **self._options)
        return members.filter(is_wanted)


class _Samples(Generic[Sample]):
    """The samples of one epoch. An error that is raised does not end them."""

    def __init__(self, dataset: NearDataset[Sample]) -> None:
        self._dataset = dataset
        self._epoch, self._given = dataset._epoch, dataset._given  # noqa: SLF001
        self._members: Set | None = dataset._opened()  # noqa: SLF001

    def __iter__(self) -> Iterator[Sample]:
        return self

    def __next__(self) -> Any:  # noqa: ANN401 - a sample, or an exception
        dataset = self._dataset
        while self._members is not None:
            member = next(self._members, None)
            if member is None:
                self._members.close()
                self._members = None
                # Another loop over the same epoch may have ended it.
                if dataset._epoch == self._epoch:  # noqa: SLF001
                    dataset.set_epoch(self._epoch + 1)
                    dataset._ended = self._given  # noqa: SLF001
                break
            self._given.add(_digest(os.fsencode(member.name)))
            try:
                with member:
                    return _transformed(member, dataset._transform)  # noqa: SLF001
            except Exception as error:
                if not dataset.tells(error, member.name):
                    _LOG.warning("%sanother worker tells: %s", _worker(), error)
                elif dataset._errors == "raise":  # noqa: SLF001
                    raise
                elif dataset._errors == "yield":  # noqa: SLF001
                    return error
                else:
                    _LOG.warning("%sskipped %s: %s", _worker(), member.name, error)
        raise StopIteration


def _transformed(member: Member, transform: Callable[[Member], Sample]) -> Sample:
    """Make a sample; raise what kept a member away, whatever a transform would make of it."""
    if member.error is not None:
        raise member.error
    try:
        return transform(member)
    except StopIteration as error:
        # It would pass for the end of the samples.
        raise RuntimeError("the transform raised StopIteration") from error


def _worker() -> str:
    """Name the worker that a line in the log is of, if there are several."""
    worker = get_worker_info()
    return "" if worker is None else f"worker {worker.id} of {worker.num_workers}: "


def _digest(name: bytes, key: bytes = b"") -> bytes:
    return hashlib.blake2b(name, digest_size=_DIGEST_BYTES, key=key).digest()
