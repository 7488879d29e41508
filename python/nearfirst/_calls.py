"""Threads that call stores written in Python; the library's own never run their code."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TypeAlias

from nearfirst._fsspec_store import FsspecStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nearfirst._nearfirst import Call, Calls, Entry

    # `None` where what follows may be long in coming.
    _Listing: TypeAlias = Iterator[Entry | None]

# Names handed over at a time: as many as come within this time, and no more than this.
_BATCH_S = 0.02
_BATCH_MAX = 1000


def start(calls: Calls) -> None:
    """Start a thread that answers calls until their store is not used any more."""
    thread = threading.Thread(target=_serve, args=(calls,), name="nearfirst-store", daemon=True)
    thread.start()


def _serve(calls: Calls) -> None:
    while (call := calls.take()) is not None:
        if call.starts_another:
            try:
                start(calls)
            except RuntimeError:
                # There may be no more of them, or Python ends; the next call tries again.
                calls.not_started()
        try:
            call.answer(_answered(call))
        except BaseException as error:  # noqa: BLE001 - whoever waits for it is told
            call.fail(error)
        # It must not be kept while the next is waited for.
        del call


def _answered(call: Call) -> object:
    if call.part is not None:
        if isinstance(call.store, FsspecStore):
            return call.store.read_part(*call.part, is_last=call.is_last)
        return call.store.read(*call.part)
    if call.listing is not None:
        return _batch(call.listing)
    if call.is_listing:
        return _batch(_listing(call))
    return call.store.stat(call.name)


def _listing(call: Call) -> _Listing:
    if isinstance(call.store, FsspecStore):
        return call.store.listed(call.name, call.prefix or "", recursive=call.recursive)
    return iter(call.store.list(call.name, recursive=call.recursive))


def _batch(listing: _Listing) -> tuple[list[Entry], _Listing | None]:
    """What of a listing is known soon, and the listing unless it ended."""
    until = time.monotonic() + _BATCH_S
    entries: list[Entry] = []
    try:
        for entry in listing:
            if entry is not None:
                entries.append(entry)
            is_full = len(entries) == _BATCH_MAX or time.monotonic() > until
            if is_full or (entry is None and entries):
                return entries, listing
    except Exception as error:
        if not entries:
            raise
        return entries, _raising(error)
    return entries, None


def _raising(error: Exception) -> _Listing:
    """Be what is left of a listing that ended in an error."""
    raise error
    yield
