"""File systems of fsspec as stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from nearfirst._nearfirst import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fsspec import AbstractFileSystem

# By the identity of the file system, which a store keeps: the same one makes sets share an engine.
_STORES: WeakValueDictionary[int, FsspecStore] = WeakValueDictionary()

# What file systems call the version of an object and the time of its last change.
_VERSIONS = ("ETag", "etag", "version_id", "versionId", "generation", "sha256", "checksum")
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
        read: bytes = self._files.cat_file(self._path(entry.name), start=start, end=end)
        return read

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


def _entry(name: str, info: Mapping[str, Any]) -> Entry:
    version = next((str(info[key]) for key in _VERSIONS if info.get(key)), None)
    modified = next((_seconds(info[key]) for key in _TIMES if info.get(key)), None)
    return Entry(name, info.get("size"), version=version, modified=modified)


def _seconds(time: object) -> float | None:
    if hasattr(time, "timestamp"):
        time = time.timestamp()
    return float(time) if isinstance(time, int | float) and time >= 0 else None
