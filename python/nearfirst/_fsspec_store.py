"""File systems of fsspec as stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakValueDictionary

from nearfirst._nearfirst import Entry
from nearfirst.errors import Changed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

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


class FsspecStore:
    """A file system of fsspec as a store."""

    def __init__(self, files: AbstractFileSystem) -> None:
        """Of a file system."""
        self._files = files

    def list(self, folder: str, *, recursive: bool) -> Iterator[Entry]:
        """List the files below a folder."""
        root = self._path(folder)
        if recursive:
            found = self._files.find(root, detail=True).values()
        else:
            found = self._files.ls(root, detail=True)
        for info in found:
            if info["type"] != "file":
                continue
            # One slash is of the folder: others begin the name.
            below = info["name"].removeprefix(root).removeprefix("/")
            yield _entry(folder + below, info)

    def stat(self, name: str) -> Entry:
        """Ask about a file."""
        info = self._files.info(self._path(name))
        if info["type"] == "directory":
            raise IsADirectoryError(name)
        return _entry(name, info)

    def read(self, entry: Entry, start: int, end: int) -> bytes:
        """Read a range."""
        path = self._path(entry.name)
        if start == 0 and end == entry.size:
            # The whole comes in one answer; a byte too many tells that it has grown.
            read: bytes = self._files.cat_file(path, start=0, end=end + 1)
            if len(read) > end:
                raise Changed(entry.name)
            return read
        part: bytes = self._files.cat_file(path, start=start, end=end)
        self._files.invalidate_cache(path)
        if not _is_still(entry, self._files.info(path)):
            raise Changed(entry.name)
        return part

    def _path(self, name: str) -> str:
        """As the file system calls it, whatever scheme it is known here by."""
        scheme, _, rest = name.partition("://")
        protocols = self._files.protocol
        is_own = scheme == protocols or (scheme in protocols and not isinstance(protocols, str))
        path: str = self._files._strip_protocol(name if is_own else rest)  # noqa: SLF001
        return path


def fsspec_store(files: AbstractFileSystem) -> FsspecStore:
    """Make a file system of fsspec a store, always the same one."""
    store = _STORES.get(id(files))
    if store is None:
        store = _STORES[id(files)] = FsspecStore(files)
    return store


def _entry(name: str, info: _Info) -> Entry:
    version = next(_versions(info), None)
    return Entry(name, info.get("size"), version=version, modified=_modified(info))


def _is_still(entry: Entry, info: _Info) -> bool:
    """Whether a file is still the one that was listed."""
    # What lists may leave out quotes of a tag that others give.
    versions = {version.strip('"') for version in _versions(info)}
    is_same = entry.version is None or entry.version.strip('"') in versions
    return is_same and info.get("size") in (None, entry.size)


def _versions(info: _Info) -> Iterator[str]:
    """What tells a content from a later one, the surest first."""
    yield from (str(info[key]) for key in _VERSIONS if info.get(key))
    modified = _modified(info)
    if modified is not None:
        yield f"{modified}-{info.get('size')}"


def _modified(info: _Info) -> float | None:
    return next((_seconds(info[key]) for key in _TIMES if info.get(key)), None)


def _seconds(time: object) -> float | None:
    if hasattr(time, "timestamp"):
        time = time.timestamp()
    return float(time) if isinstance(time, int | float) and time >= 0 else None
