"""What files of this machine cost, and in which order reading them is cheapest."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from nearfirst import _nearfirst
from nearfirst.errors import NearfirstError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from nearfirst._nearfirst import DeliveryTime, Device, Piece, Sled
    from nearfirst._open import Name

_PIECE_BYTES = 1 << 20


def sleds(name: Name) -> list[Sled]:
    """Say where each part of a file is, and what it costs; nothing is read.

    Raises:
        NearfirstError: The file cannot be asked about, or is not of this machine.
    """
    return _nearfirst.sleds(os.fsencode(name))


def delivery_time(name: Name, plan: Literal["best", "linear"] = "best") -> DeliveryTime:
    """Estimate how long reading a whole file takes, near first or in file order.

    Raises:
        NearfirstError: The file cannot be asked about, or is not of this machine.
    """
    return _nearfirst.delivery_time(os.fsencode(name), plan)


def pick(
    name: Name,
    *,
    size: int = _PIECE_BYTES,
    record: bytes | None = None,
    plan: Literal["best", "linear"] = "best",
) -> Iterator[Piece]:
    """Read a file in pieces of at most `size` bytes, near first, each byte once.

    With a `record` separator (one byte) every piece starts at the start of a
    record and ends with one, or at the end of the file; a longer record comes
    whole.

    Raises:
        NearfirstError: The file cannot be read, or is not of this machine.
    """
    if size < 1:
        raise ValueError(f"size is at least 1, not {size}")
    return _nearfirst.pick(os.fsencode(name), size, record, plan)


def order(names: Iterable[Name]) -> Iterator[str]:
    """Order names of files, nearest first.

    What is wholly in memory comes at once, as it is named; the others follow
    once all are named, by the time that reading them takes: known before
    unknown, before what must be recalled, before what cannot be asked about.
    """
    waiting: list[tuple[tuple[int, float], int, str]] = []
    for index, name in enumerate(names):
        text = os.fsdecode(name)
        cost = _cost(text)
        if cost is None:
            yield text
        else:
            waiting.append((cost, index, text))
    for _, _, text in sorted(waiting):
        yield text


def devices() -> list[Device]:
    """List every device behind a mount, and every other one that was measured."""
    return _nearfirst.devices()


def _cost(name: str) -> tuple[int, float] | None:
    """What sorts as the cost does; nothing of what is wholly in memory."""
    try:
        parts = sleds(name)
        if all(part.place == "near" for part in parts):
            return None
        time = delivery_time(name)
    except NearfirstError:
        return 3, 0.0
    if time.cold_bytes:
        return 2, time.cold_bytes
    if time.unknown_bytes:
        return 1, time.unknown_bytes
    return 0, time.p50
