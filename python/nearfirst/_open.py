"""Opens sets: Python's arguments, as the library wants them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Literal, TypeAlias

from nearfirst import _nearfirst
from nearfirst._fsspec_store import FsspecStore, fsspec_store
from nearfirst._nearfirst import Spec
from nearfirst._store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsspec import AbstractFileSystem

    from nearfirst._nearfirst import Asked, Entry, Set

Name: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
# Less may count as no time.
_SECONDS_MIN = 1e-9
# A year: who wants to wait for ever waits no longer.
_SECONDS_MAX = 366 * 24 * 3600
_Order: TypeAlias = Literal["ready", "listed", "name", "rank"]


def open(  # noqa: A001, PLR0913
    *specs: Name | Spec,
    rank: Callable[[Entry], float] | None = None,
    order: _Order | Iterable[Name] = "ready",
    duplicates: Literal["name", "content"] = "name",
    budget: int | None = None,
    jobs: int | None = None,
    spill: int | str | os.PathLike[str] | None = None,
    allow_programs: bool = False,
    allow_private_links: bool = False,
    storage_options: Mapping[str, object] | None = None,
    stores: Mapping[str, Store | AbstractFileSystem] | None = None,
    stall: float | None = None,
    attempts: int | None = None,
    recall: bool | int = False,
    wait: bool | float = False,
    errors: Literal["raise", "yield"] = "raise",
) -> Set:
    """Open the set of the objects that specs stand for.

    Text is a spec as the command line takes it: a pattern over paths or URLs
    (`s3://logs/**/*.gz`), a query, a program, `@file`. A `pathlib.Path` is the
    file of that name, whatever is in it. Nothing is listed or fetched before
    something is asked for.

    Args:
        specs: What is wanted.
        rank: The priority of a member by what listing told of it; higher is
            sooner. A hint, never a reason to wait.
        order: `ready` first, as `listed`, by `name`, by `rank`, or these names
            first and then others.
        duplicates: What makes two members one: the same `name`, found before anything is
            fetched, or the same `content` too, found once it is here, and whole.
        budget: Bytes of memory for what is fetched and not yet read: three fifths are data, the
            rest is what an allocator takes besides.
        jobs: Requests in flight to one server or bucket, at most.
        spill: Bytes that may lie on disk beyond the budget (0: none), or the
            folder for them and for copies of members that have a path or a descriptor.
        allow_programs: Run the programs that specs name.
        allow_private_links: Follow links of public pages to private networks and to files of
            this machine; names in lists of servers as well.
        storage_options: Options of object stores (`region`, `endpoint`,
            `access_key_id`), over those of the environment; also by the names that
            fsspec, obstore and boto have for them (`key`, `secret`, `endpoint_url`).
        stores: Stores written in Python, and file systems of fsspec, by the
            scheme of their names; they come before the library's own.
        stall: Seconds that a request may bring nothing (default: 20, and 30 where it
            lists or asks a question); an attempt that does is given up. So is a program
            that prints nothing (default: 600).
        attempts: How often a part is tried without getting on before its object is
            given up (default: 5).
        recall: Ask for what lies in cold storage to be restored, which the store
            charges for: for so many days, or for one if `True`. What is not there
            yet is then a `Cold` that says how long that takes at most.
        wait: Wait for what is being restored, each member for so many seconds at
            most, or without end if `True`; the others come meanwhile.
        errors: Whether a member that cannot be read is raised (the next call
            goes on), or yielded with its `error`.

    Raises:
        SpecError: Text that is no spec.
        TypeError: Arguments of a wrong type.
        ValueError: Arguments out of range.
    """
    if errors not in ("raise", "yield"):
        raise ValueError(f"errors is 'raise' or 'yield', not {errors!r}")
    if rank is not None and not callable(rank):
        raise TypeError(f"rank is a function of an entry, not {type(rank).__name__}")
    word, replay = _order(order)
    if word == "rank" and rank is None:
        raise ValueError("order='rank' is an order by rank, and none is given")
    if wait is not False and recall is False:
        raise ValueError("wait is for what is restored: it goes with recall")
    spill_bytes, spill_folder = _spill(spill)
    options = _options(storage_options)
    if recall is not False and recall is not True:
        # This spelling comes before all others.
        options["s3_restore_days"] = str(_count("recall", recall, 1))
    return _nearfirst.open(
        [_spec(spec) for spec in specs],
        rank,
        word,
        replay,
        duplicates,
        None if budget is None else _count("budget", budget, 1),
        None if jobs is None else _count("jobs", jobs, 1, 2**32 - 1),
        spill_bytes,
        spill_folder,
        _flag("allow_programs", allow_programs),
        _flag("allow_private_links", allow_private_links),
        options,
        errors == "yield",
        _stores(stores),
        None if stall is None else seconds_of("stall", stall),
        None if attempts is None else _count("attempts", attempts, 1, 2**32 - 1),
        None if recall is False else _wait(wait),
    )


def glob(pattern: Name) -> Spec:
    """Name what matches a csh pattern over a path or a URL."""
    return Spec._glob(os.fsencode(pattern))  # noqa: SLF001


def query(prefix: Name, text: str, suffix: Name = "") -> Spec:
    """Name what the store of `prefix` answers to `text` with, each with `suffix` appended.

    Of a database that is the first column; `NULL` and empty texts name nothing.
    """
    return Spec._query(os.fsencode(prefix), text, os.fsencode(suffix))  # noqa: SLF001


def links(page: Name, selector: str) -> Spec:
    """Name the links of a page that a CSS selector meets: `a[href$=".pdf"]`."""
    return query(page, selector)


def program(*words: Name, folder: Name = "", suffix: Name = "") -> Spec:
    """Name what a program prints, run in `folder` without a shell."""
    encoded = [os.fsencode(word) for word in words]
    return Spec._program(os.fsdecode(folder), encoded, os.fsencode(suffix))  # noqa: SLF001


def list_of(names: Iterable[Name]) -> Spec:
    """Name these objects as they stand: nothing in them is a wildcard."""
    if isinstance(names, str | bytes | os.PathLike):
        raise TypeError("list_of takes several names; open takes one as it stands")
    return Spec._list([os.fsencode(name) for name in names])  # noqa: SLF001


def asking(
    storage_options: Mapping[str, object] | None,
    stores: Mapping[str, Store | AbstractFileSystem] | None,
    stall: float | None,
) -> Asked:
    """Make what a single object is asked about with."""
    return {
        "storage": _options(storage_options),
        "stores": _stores(stores),
        "stall": None if stall is None else seconds_of("stall", stall),
    }


def _spec(spec: Name | Spec) -> Spec:
    if isinstance(spec, Spec):
        return spec
    if isinstance(spec, str | bytes):
        return Spec._parse(os.fsencode(spec))  # noqa: SLF001
    if isinstance(spec, os.PathLike):
        return Spec._list([os.fsencode(spec)])  # noqa: SLF001
    several = "; of several names pass each, or list_of them" if isinstance(spec, Iterable) else ""
    raise TypeError(f"a spec is text, a path or a Spec, not {type(spec).__name__}{several}")


def _order(order: _Order | Iterable[Name]) -> tuple[str, list[bytes] | None]:
    if isinstance(order, str):
        return order, None
    if isinstance(order, bytes | os.PathLike) or not isinstance(order, Iterable):
        raise TypeError("order is a word or several names")
    return "listed", [os.fsencode(name) for name in order]


def _spill(spill: int | str | os.PathLike[str] | None) -> tuple[int | None, str | None]:
    if spill is None:
        return None, None
    if isinstance(spill, str | os.PathLike):
        folder = os.fspath(spill)
        is_dir = os.path.isdir(folder)  # noqa: PTH112 - pathlib is slow to import
        if not (is_dir and os.access(folder, os.W_OK | os.X_OK)):
            raise ValueError(f"spill is no folder that can be written to: {folder!r}")
        return None, folder
    if not isinstance(spill, Integral):
        raise TypeError(f"spill is a whole number or a path, not {type(spill).__name__}")
    return _count("spill", spill, 0), None


def _count(what: str, given: int, least: int, most: int = 2**64 - 1) -> int:
    if isinstance(given, bool) or not isinstance(given, Integral):
        raise TypeError(f"{what} is a whole number, not {type(given).__name__}")
    count = int(given)
    if count < least:
        raise ValueError(f"{what} is at least {least}, not {count}")
    if count > most:
        raise OverflowError(f"{what} is at most {most}, not {count}")
    return count


def _flag(what: str, flag: bool) -> bool:  # noqa: FBT001 - it is what is looked at
    if not isinstance(flag, bool):
        raise TypeError(f"{what} is True or False, not {flag!r}")
    return flag


def _wait(wait: bool | float) -> float:  # noqa: FBT001 - a bool is all of it, or nothing
    if isinstance(wait, bool):
        return _SECONDS_MAX if wait else 0
    return seconds_of("wait", wait)


def seconds_of(what: str, seconds: float) -> float:
    """Check that an argument is a number of seconds to wait."""
    if isinstance(seconds, bool) or not isinstance(seconds, Real):
        raise TypeError(f"{what} is a number of seconds, not {type(seconds).__name__}")
    if not _SECONDS_MIN <= seconds <= _SECONDS_MAX:
        limits = f"at least {_SECONDS_MIN} and at most {_SECONDS_MAX} s"
        raise ValueError(f"{what} is {limits}, not {seconds}")
    return float(seconds)


def _stores(stores: Mapping[str, Store | AbstractFileSystem] | None) -> list[tuple[str, object]]:
    given = {} if stores is None else dict(stores)
    return [(scheme, _store(scheme, given[scheme])) for scheme in sorted(given)]


def _is_scheme(text: str) -> bool:
    plain = text.translate(dict.fromkeys(map(ord, "+.-")))
    return text[:1].isalpha() and plain.isalnum() and text.isascii()


def _store(scheme: str, store: object) -> Store | FsspecStore:
    if not isinstance(scheme, str) or not _is_scheme(scheme):
        raise ValueError(f"a scheme is what stands before '://' in a name, not {scheme!r}")
    # Who has one has imported it.
    spec = sys.modules.get("fsspec.spec")
    if spec is not None and isinstance(store, spec.AbstractFileSystem):
        return fsspec_store(store)
    if isinstance(store, type) or not isinstance(store, Store):
        found = type(store).__name__
        raise TypeError(f"a store has list, stat and read (nearfirst.Store); {found} does not")
    return store


# How file systems of fsspec are kept and called, and what they keep: there are none here.
_OF_FSSPEC = frozenset(
    {
        *("asynchronous", "skip_instance_cache"),
        *("use_listings_cache", "listings_expiry_time", "max_paths"),
        *("default_block_size", "default_cache_type", "default_fill_cache"),
    }
)
# What goes on to the clients of s3fs, which are none here: nothing, if it is empty.
_OF_CLIENTS = frozenset({"config_kwargs", "s3_additional_kwargs"})
# What s3fs does not do unless it is told to, and is not done here.
_OFF = frozenset({"cache_regions", "version_aware"})


def _options(options: Mapping[str, object] | None) -> dict[str, str]:
    given = {} if options is None else dict(options)
    # What s3fs hands on to boto, and others to their clients.
    for word in ("client_kwargs", "client_options"):
        more = given.pop(word, None)
        if isinstance(more, Mapping):
            given |= more
        elif more is not None:
            raise TypeError(f"{word} is a mapping, not {type(more).__name__}")
    return {name: _option(name, value) for name, value in given.items() if _says(name, value)}


def _says(name: object, value: object) -> bool:
    """Whether an option says anything."""
    is_empty = value is None or (name in _OF_CLIENTS and isinstance(value, Mapping) and not value)
    return not (is_empty or name in _OF_FSSPEC or (name in _OFF and value is False))


def _option(name: object, value: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"a storage option has a name that is text, not {name!r}")
    if not isinstance(value, str | Real):
        raise TypeError(f"storage option {name} is text or a number, not {type(value).__name__}")
    return str(value).lower() if isinstance(value, bool) else str(value)
