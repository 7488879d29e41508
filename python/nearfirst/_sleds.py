"""What objects cost, and in which order reading them is cheapest."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from nearfirst import _nearfirst
from nearfirst._open import asking, seconds_of
from nearfirst.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fsspec import AbstractFileSystem

    from nearfirst._nearfirst import Asked, DeliveryTime, Device, Keys, Pieces, Sled
    from nearfirst._open import Name
    from nearfirst._store import Store

_PIECE_BYTES = 1 << 20
# Names of objects that are asked about together.
_ASKED_TOGETHER = 256


class Sleds(list["Sled"]):
    """The sleds of one object; a notebook shows them as a bar."""

    def _repr_html_(self) -> str:
        # Few need it, and it takes longer to import than all else.
        from nearfirst import _display  # noqa: PLC0415

        return _display.sleds(self)


def sleds(
    name: Name,
    *,
    storage_options: Mapping[str, object] | None = None,
    stores: Mapping[str, Store | AbstractFileSystem] | None = None,
    stall: float | None = None,
) -> Sleds:
    """Say where each part of an object is, and what it costs; nothing is read.

    Of an object of a server its store is asked; `storage_options` and `stores` are
    those of `open`, and `stall` is how many seconds a store may take to answer
    (default: 20): it is not asked again then. What a server takes is known once
    something was read from it. What is not a regular file has no sleds, nor has one
    whose size the kernel does not tell (`/proc`).

    Raises:
        NearfirstError: It cannot be asked about.
    """
    asked = asking(storage_options, stores, stall)
    return Sleds(_nearfirst.sleds(os.fsencode(name), asked))


def delivery_time(
    name: Name,
    plan: Literal["best", "linear"] = "best",
    *,
    storage_options: Mapping[str, object] | None = None,
    stores: Mapping[str, Store | AbstractFileSystem] | None = None,
    stall: float | None = None,
) -> DeliveryTime:
    """Estimate how long reading a whole object takes, near first or in file order.

    Of what has no sleds that is 0 s: what is in a folder does not count. The
    options are those of `sleds`.

    Raises:
        NearfirstError: It cannot be asked about.
    """
    asked = asking(storage_options, stores, stall)
    return _nearfirst.delivery_time(os.fsencode(name), plan, asked)


def pick(
    name: Name,
    *,
    size: int = _PIECE_BYTES,
    record: bytes | None = None,
    plan: Literal["best", "linear"] = "best",
) -> Pieces:
    """Read a file in pieces of at most `size` bytes, near first, each byte once.

    With a `record` separator (one byte) every piece starts at the start of a
    record and ends with one, or at the end of the file; a longer record comes
    whole.

    Where the rest of the file is, is asked again once a 32nd of it has been
    yielded (at least 1 MiB) and nothing near is left, and once an eighth has
    while something is; `refresh()` of the pieces asks at once. A piece that cannot be
    read is raised, and the next call tries it again.

    Raises:
        NearfirstError: The file cannot be read, is not of this machine, or is made as it is read
            (`/proc`).
    """
    if size < 1:
        raise ValueError(f"size is at least 1, not {size}")
    if record is not None and not isinstance(record, bytes):
        raise TypeError(f"record is one byte, such as b'\\n', not {type(record).__name__}")
    return _nearfirst.pick(os.fsencode(name), size, record, plan)


def order(
    names: Iterable[Name],
    *,
    storage_options: Mapping[str, object] | None = None,
    stores: Mapping[str, Store | AbstractFileSystem] | None = None,
    stall: float | None = None,
) -> Iterator[str]:
    """Order names of files and objects, nearest first.

    What is wholly in memory comes at once, as it is named; the others follow
    once all are named, by the time that reading them takes: known before
    unknown, before what must be recalled, before what cannot be asked about.
    A name that is not there cannot be asked about, and is found out by reading it.
    Servers are asked about 32 objects side by side; `storage_options`, `stores`
    and `stall` are those of `sleds`.

    Raises:
        NearfirstError: None of the first objects of servers can be asked about, for another
            reason than that it is not there.
    """
    if isinstance(names, str | bytes | os.PathLike):
        raise TypeError("order takes several names")
    waiting: list[tuple[int, int, str]] = []
    for index, (name, key) in enumerate(_asked(names, asking(storage_options, stores, stall))):
        text = os.fsdecode(name)
        if key == 0:
            yield text
        else:
            waiting.append((key, index, text))
    for _, _, text in sorted(waiting):
        yield text


def devices() -> list[Device]:
    """List every device behind a mount, and every other one that was measured."""
    return _nearfirst.devices()


def calibrate(*paths: Name, seconds: float = 3.0, save: bool = True) -> list[Device]:
    """Measure the devices that files are on, and say what they take.

    A little is read at random places for the latency and in sequence for the
    bandwidth, past the page cache; no file is changed.

    Args:
        paths: Folders, or files of a megabyte or more, on the devices. Without any, memory and
            all devices behind mounts, but for those that cannot be measured.
        seconds: To spend on a device, at the most, more than 0; a few reads are made in any case.
        save: Whether to write it down in the device table of this user, or of the
            system if this is root.

    Raises:
        NearfirstError: A device that was asked for cannot be measured.
        OSError: The table cannot be written.
        TypeError: Arguments of a wrong type.
        ValueError: Seconds out of range.
    """
    names = [os.fsdecode(path) for path in paths]
    return _nearfirst.calibrate(names, seconds_of("seconds", seconds), bool(save))


def _asked(names: Iterable[Name], asked: Asked) -> Iterator[tuple[bytes, int]]:
    """Names with what sorts as their costs do: paths one by one, URLs side by side."""
    keys = _nearfirst.Keys(asked)
    urls: list[bytes] = []
    is_first = True
    for name in map(os.fsencode, names):
        if keys.is_path(name):
            yield name, keys.of_path(name)
            continue
        urls.append(name)
        if len(urls) == _ASKED_TOGETHER:
            yield from _of_urls(keys, urls, is_first=is_first)
            urls, is_first = [], False
    if urls:
        yield from _of_urls(keys, urls, is_first=is_first)


def _of_urls(keys: Keys, urls: list[bytes], *, is_first: bool) -> Iterator[tuple[bytes, int]]:
    found = keys.of_urls(urls)
    wrong = [error for _, error in found if error and not isinstance(error, NotFound)]
    if is_first and len(wrong) == len(found):
        raise wrong[0]
    return zip(urls, (key for key, _ in found), strict=True)
