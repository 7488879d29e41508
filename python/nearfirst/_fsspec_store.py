"""File systems of fsspec as stores."""

from __future__ import annotations

from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

from nearfirst._nearfirst import Entry
from nearfirst.errors import Changed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fsspec import AbstractFileSystem

    _Info: TypeAlias = Mapping[str, Any]

# By the identity of the file system, which a store keeps: the same one makes sets share an engine.
_STORES: WeakValueDictionary[int, FsspecStore] = WeakValueDictionary()

# What file systems call the version of an object and the time of its last change.
_VERSIONS = (
    *("ETag", "etag", "version_id", "versionId", "generation", "sha256", "sha", "blob_id"),
    *("checksum", "Last-Modified"),
)
_TIMES = ("mtime", "LastModified", "last_modified", "modified", "created")

# Where the `find` is that goes folder by folder, for who has no better one.
_PLAIN_FIND = ("fsspec.spec", "fsspec.asyn")


class FsspecStore:
    """A file system of fsspec as a store."""

    # However long a large folder takes, what is in it is given at once.
    _lists_whole = True

    def __init__(self, files: AbstractFileSystem) -> None:
        """Of a file system."""
        self._files = files

    def listed(self, folder: str, prefix: str, *, recursive: bool) -> Iterator[Entry | None]:
        """List the files below a folder whose names there begin with `prefix`.

        Before the next folder is listed it gives `None`.
        """
        root = self._path(folder)
        for info in self._found(root, prefix, recursive=recursive):
            if info is None:
                yield None
            elif info["type"] == "file":
                below = _below(root, info["name"])
                if below and below.startswith(prefix):
                    yield _entry(folder + below, info)

    def stat(self, name: str) -> Entry:
        """Ask about a file."""
        info = info_of(self._files, self._path(name))
        if info["type"] == "directory":
            raise IsADirectoryError(name)
        return _entry(name, info)

    def read_part(self, entry: Entry, start: int, end: int, *, is_last: bool) -> bytes:
        """Read a part of a range; after the last, ask whether the file is still what it was."""
        path = self._path(entry.name)
        if start == 0 and end == entry.size:
            # The whole comes in one answer; a byte too many tells that it has grown.
            read: bytes = self._files.cat_file(path, start=0, end=end + 1)
            if len(read) > end and not _may_grow(entry):
                raise Changed(entry.name)
            return read[:end]
        part: bytes = self._files.cat_file(path, start=start, end=end)
        ends = is_last or len(part) < end - start
        if ends and not _is_still(entry, self._now(path)):
            raise Changed(entry.name)
        return part

    def _now(self, path: str) -> _Info:
        """Ask about a file anew; some file systems keep what they know with its folder."""
        for kept in (path, self._files._parent(path)):  # noqa: SLF001
            self._files.invalidate_cache(kept)
        return info_of(self._files, path)

    def _found(self, root: str, prefix: str, *, recursive: bool) -> Iterator[_Info | None]:
        if not recursive:
            yield from self._in(root)
            return
        find = getattr(type(self._files), "_find", type(self._files).find)
        if find.__module__ in _PLAIN_FIND:
            yield from self._walked(root, prefix)
            return
        # Few need it, and it takes long to import.
        from inspect import signature  # noqa: PLC0415

        takes_prefix = prefix and "prefix" in signature(find).parameters
        options = {"prefix": prefix} if takes_prefix else {}
        with suppress(FileNotFoundError):
            yield from self._files.find(root, detail=True, **options).values()

    def _walked(self, root: str, prefix: str) -> Iterator[_Info | None]:
        """All below a folder, folder by folder; of what may not be listed it tells in the end."""
        denied: PermissionError | None = None
        folders = [root]
        while folders:
            folder = folders.pop()
            try:
                found = sorted(self._in(folder), key=itemgetter("name"))
            except PermissionError as error:
                denied = denied or error
                continue
            yield from found
            yield None
            inside = (info["name"] for info in reversed(found) if info["type"] == "directory")
            # A folder may be listed in itself.
            folders += [
                name
                for name in inside
                if name.rstrip("/") != folder.rstrip("/") and _below(root, name).startswith(prefix)
            ]
        if denied is not None:
            raise denied

    def _in(self, folder: str) -> Iterable[_Info]:
        """What is in a folder; nothing in one that is not there (any more)."""
        try:
            found: list[_Info] = self._files.ls(folder, detail=True)
        except FileNotFoundError:
            return []
        return found

    def _path(self, name: str) -> str:
        """As the file system calls it, whatever scheme it is known here by."""
        scheme, _, rest = name.partition("://")
        protocols = self._files.protocol
        is_own = scheme == protocols or (scheme in protocols and not isinstance(protocols, str))
        stripped: str = self._files._strip_protocol(name)  # noqa: SLF001
        # One over another, such as a cache, gives files the URLs that the other one does.
        if is_own or self._files.unstrip_protocol(stripped) == name:
            return stripped
        path: str = self._files._strip_protocol(rest)  # noqa: SLF001
        return path


def fsspec_store(files: AbstractFileSystem) -> FsspecStore:
    """Make a file system of fsspec a store, always the same one."""
    store = _STORES.get(id(files))
    if store is None:
        store = _STORES[id(files)] = FsspecStore(files)
    return store


def info_of(files: AbstractFileSystem, path: str, **options: object) -> _Info:
    """Ask about a file; of a cache that does not find it, what it caches."""
    try:
        info: _Info = files.info(path, **options)
    except FileNotFoundError:
        # Few need it, and it takes long to import.
        from fsspec.implementations.cached import CachingFileSystem  # noqa: PLC0415

        # Caches look for it in its folder, which not every web server lists.
        if not isinstance(files, CachingFileSystem):
            raise
        return info_of(files.fs, path, **options)
    return info


def _below(root: str, name: str) -> str:
    """What follows the name of a folder and a slash: further slashes begin a name."""
    return name.removeprefix(root).removeprefix("/")


def _entry(name: str, info: _Info) -> Entry:
    version = next(_versions(info), None)
    return Entry(name, info.get("size"), version=version, modified=_modified(info))


def _is_still(entry: Entry, info: _Info) -> bool:
    """Whether a file is still the one that was listed."""
    size = info.get("size")
    is_longer = size is not None and entry.size is not None and size > entry.size
    if is_longer and _may_grow(entry):
        return True
    # What lists may leave out quotes of a tag that others give.
    versions = {version.strip('"') for version in _versions(info)}
    is_same = entry.version is None or entry.version.strip('"') in versions
    return is_same and size in (None, entry.size)


def _may_grow(entry: Entry) -> bool:
    """Whether what is longer is taken for a log that was added to: nothing else is told of it."""
    return entry.version in (None, _dated(entry.modified, entry.size))


def _versions(info: _Info) -> Iterator[str]:
    """What tells a content from a later one, the surest first."""
    yield from (str(info[key]) for key in _VERSIONS if info.get(key))
    modified = _modified(info)
    if modified is not None:
        yield _dated(modified, info.get("size"))


def _dated(modified: float | None, size: int | None) -> str:
    return f"{modified}-{size}"


def _modified(info: _Info) -> float | None:
    return next((_seconds(info[key]) for key in _TIMES if info.get(key)), None)


def _seconds(time: object) -> float | None:
    if hasattr(time, "timestamp"):
        time = time.timestamp()
    return float(time) if isinstance(time, int | float) and time >= 0 else None
