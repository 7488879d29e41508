"""A file system of fsspec that brings near what another one holds.

`nearfirst::s3://bucket/key` and `nearfirst://s3://bucket/key` are what
`s3://bucket/key` is. Many files (`cat`, `get`, `fsspec.open_files`) are fetched side
by side, and a file that is read from its beginning is fetched ahead.
"""

from __future__ import annotations

import io
import os
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, NoReturn, SupportsIndex

from fsspec import AbstractFileSystem, filesystem, get_filesystem_class
from fsspec.callbacks import DEFAULT_CALLBACK, Callback
from fsspec.core import OpenFile, split_protocol
from fsspec.implementations.chained import ChainedFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.utils import isfilelike

import nearfirst
from nearfirst._fsspec_store import info_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from typing_extensions import Buffer

_PREFIX = "nearfirst://"


class NearfirstFileSystem(ChainedFileSystem):
    """The files of another file system, brought near.

    It reads; to write, use the other file system.
    """

    protocol = "nearfirst"

    def __init__(  # noqa: PLR0913, PLR0917 - as file systems over others are made
        self,
        fs: AbstractFileSystem | None = None,
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        fo: str | None = None,
        budget: int | None = None,
        jobs: int | None = None,
        stall: float | None = None,
        inner: dict[str, Any] | None = None,
        **options: Any,  # noqa: ANN401 - the base class's
    ) -> None:
        """Over `fs`, or what fsspec makes of `target_protocol` and `target_options`.

        `budget`, `jobs` and `stall` are those of `nearfirst.open`; `inner` is what
        fsspec makes of the URL behind `nearfirst://`.
        """
        super().__init__(**options)
        if fs is None:
            if inner is None and target_protocol is None:
                raise ValueError(
                    "nearfirst:// stands before another URL, as in nearfirst://s3://b/k"
                )
            if inner is None:
                inner = {"protocol": target_protocol}
            elif target_protocol is not None:
                # What follows in a chain is what the inner one is over.
                target_options = {
                    "target_protocol": target_protocol,
                    "target_options": target_options,
                    "fo": fo,
                }
            fs = filesystem(**(inner | (target_options or {})))
        self.fs = fs
        self._how: dict[str, Any] = {"budget": budget, "jobs": jobs, "stall": stall}

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:  # noqa: ANN401 - one path, or several
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = super()._strip_protocol(path)
        protocol, _ = split_protocol(path)
        return path if protocol is None else get_filesystem_class(protocol)._strip_protocol(path)  # noqa: SLF001

    def unstrip_protocol(self, name: str) -> str:  # noqa: D102
        return f"{_PREFIX}{self.fs.unstrip_protocol(self._strip_protocol(name))}"

    @classmethod
    def _get_kwargs_from_urls(cls, path: str) -> dict[str, Any]:
        inner = path.removeprefix(_PREFIX)
        protocol, _ = split_protocol(inner)
        if inner == path or protocol is None:
            return {}
        options = get_filesystem_class(protocol)._get_kwargs_from_urls(inner)  # noqa: SLF001
        # Not as `target_protocol`, which fsspec passes of what follows in a chain.
        return {"inner": {"protocol": protocol} | options}

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:  # noqa: ANN401, D102, FBT001, FBT002
        return self.fs.ls(self._strip_protocol(path), detail=detail, **options)

    def info(self, path: str, **options: Any) -> Any:  # noqa: ANN401, D102
        return info_of(self.fs, self._strip_protocol(path), **options)

    def find(self, path: str, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401, D102
        return self.fs.find(self._strip_protocol(path), *arguments, **options)

    def ukey(self, path: str) -> Any:  # noqa: ANN401, D102
        return self.fs.ukey(self._strip_protocol(path))

    def created(self, path: str) -> Any:  # noqa: ANN401, D102
        return self.fs.created(self._strip_protocol(path))

    def modified(self, path: str) -> Any:  # noqa: ANN401, D102
        return self.fs.modified(self._strip_protocol(path))

    def invalidate_cache(self, path: str | None = None) -> None:  # noqa: D102
        self.fs.invalidate_cache(path)

    def cat_file(self, path: str, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401, D102
        return self.fs.cat_file(self._strip_protocol(path), *arguments, **options)

    def cat_ranges(self, paths: Iterable[str], *arguments: Any, **options: Any) -> Any:  # noqa: ANN401, D102
        return self.fs.cat_ranges(self._strip_protocol(list(paths)), *arguments, **options)

    def cat(
        self,
        path: str | list[str],
        recursive: bool = False,  # noqa: FBT001, FBT002 - as the base class has it
        on_error: str = "raise",
        **options: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Read files, side by side: a dictionary by path, or the bytes of a single path.

        `on_error` is `raise`, `omit` or `return`, as of every file system. `start`, `end` and
        other options are for the file system below, which then reads.
        """
        paths = self.expand_path(path)
        if recursive:
            # Files only, which `expand_path` does not tell from folders.
            paths = sorted({found for each in paths for found in self._found(each)})
        if not isinstance(path, list) and paths == [self._strip_protocol(path)]:
            return self.cat_file(paths[0], **options)
        if options:
            return self._parts(paths, on_error, **options)
        coming = _Coming(self, paths)
        read: dict[str, bytes | Exception] = {}
        for each, member in coming:
            with member:
                try:
                    with _as_raised_below():
                        read[each] = member.read()
                except (nearfirst.NearfirstError, OSError) as error:
                    if on_error == "raise":
                        raise
                    if on_error == "return":
                        read[each] = error
        return {each: read[each] for each in paths if each in read}

    def _parts(
        self,
        paths: list[str],
        on_error: str,
        start: int | None = None,
        end: int | None = None,
        **options: Any,  # noqa: ANN401
    ) -> dict[str, bytes | Exception]:
        """The same part of each file, as the file system below reads it."""
        read = self.fs.cat_ranges(paths, start, end, on_error="return", **options)
        parts: dict[str, bytes | Exception] = {}
        for each, part in zip(paths, read, strict=True):
            if isinstance(part, Exception):
                if on_error == "raise":
                    raise part
                if on_error == "omit":
                    continue
            parts[each] = part
        return parts

    def get(
        self,
        rpath: str | list[str],
        lpath: Any,  # noqa: ANN401
        recursive: bool = False,  # noqa: FBT001, FBT002 - as the base class has it
        callback: Callback = DEFAULT_CALLBACK,
        maxdepth: int | None = None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        """Copy files to this machine, to where every file system copies them, side by side."""
        planned = _Planned(self)
        AbstractFileSystem.get(planned, rpath, lpath, recursive, maxdepth=maxdepth, **options)
        callback.set_size(len(planned.copies))
        for path, member in _Coming(self, list(planned.copies)):
            targets = planned.copies[path]
            with member, callback.branched(path, targets[0]) as child:
                _copied(member, targets, child)
            callback.relative_update(1)

    def _found(self, path: str) -> list[str]:
        """The files below a path, or itself if there is nothing: to fail as it is read."""
        found: list[str] = self.find(path)
        return found if found or self.exists(path) else [path]

    def open_many(self, files: Sequence[OpenFile]) -> list[Any]:
        """Open the files of an `OpenFiles`, which are fetched side by side."""
        coming = _Coming(self, [self._strip_protocol(file.path) for file in files])
        return [coming.opened(file) for file in files]

    def _open(self, path: str, mode: str = "rb", **options: Any) -> Any:  # noqa: ANN401
        if mode != "rb":
            self._not_written()
        if options.get("cache_type") == "none":
            # Who keeps blocks (blockcache) fetches ranges itself, and nothing ahead.
            return self.fs.open(path, mode, **options)
        info = self.info(path)
        if info["type"] == "directory":
            raise IsADirectoryError(path)
        return _Coming(self, [path]).open(path, size=info.get("size"))

    def _not_written(self, *arguments: Any, **options: Any) -> NoReturn:  # noqa: ANN401
        del arguments, options
        raise NotImplementedError("nearfirst:// reads; to write, use the file system it wraps")

    mkdir = makedirs = rmdir = cp_file = _rm = _not_written


class _Planned:
    """Stands in for a file system that is asked what it would copy where."""

    def __init__(self, files: NearfirstFileSystem) -> None:
        self.expand_path = files.expand_path
        self.isdir = files.isdir
        self.copies: dict[str, list[Any]] = {}
        self._stripped = files._strip_protocol  # noqa: SLF001

    def get_file(self, rpath: str, lpath: Any, **options: Any) -> None:  # noqa: ANN401
        del options
        self.copies.setdefault(self._stripped(rpath), []).append(lpath)


def _copied(member: nearfirst.Member, targets: list[Any], callback: Callback) -> None:
    """Write a member into files, by name or open; make folders where it is one."""
    if member.error is not None and isinstance(member.error.__cause__, IsADirectoryError):
        for target in targets:
            os.makedirs(target, exist_ok=True)  # noqa: PTH103 - as it is named
        return
    callback.set_size(member.size)
    with _as_raised_below(), ExitStack() as opened:
        chunks = member.chunks()
        first = next(chunks, b"")
        local = LocalFileSystem(auto_mkdir=True)
        files = [
            target if isfilelike(target) else opened.enter_context(local.open(target, "wb"))
            for target in targets
        ]
        for view in chain([first], chunks):
            for file in files:
                file.write(view)
            callback.relative_update(len(view))


@contextmanager
def _as_raised_below() -> Iterator[None]:
    """An `OSError` of the file system below, such as of a folder, comes as it is."""
    try:
        yield
    except nearfirst.NearfirstError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        raise


class _Coming:
    """Files that are fetched in the order in which they are expected to be read."""

    def __init__(self, files: NearfirstFileSystem, paths: Sequence[str]) -> None:
        self.files = files
        self._paths = {files.fs.unstrip_protocol(path): path for path in paths}
        self._members: Iterator[nearfirst.Member] | None = None
        self._here: dict[str, nearfirst.Member] = {}
        self._lock = Lock()

    def _begun(self) -> Iterator[nearfirst.Member]:
        if self._members is None:
            # Nothing is fetched of files that are not read.
            protocols = {name.partition("://")[0] for name in self._paths}
            self._members = nearfirst.open(
                nearfirst.list_of(self._paths),
                order="listed",
                stores=dict.fromkeys(protocols, self.files.fs),
                errors="yield",
                **self.files._how,  # noqa: SLF001
            )
        return self._members

    def __iter__(self) -> Iterator[tuple[str, nearfirst.Member]]:
        """All of them."""
        for member in self._begun():
            yield self._paths[member.name], member

    def taken(self, path: str) -> nearfirst.Member | None:
        """The member of a path, once; `None` of one that was taken before."""
        with self._lock:
            while path not in self._here:
                member = next(self._begun(), None)
                if member is None:
                    return None
                self._here[self._paths[member.name]] = member
            return self._here.pop(path)

    def open(self, path: str, mode: str = "rb", size: int | None = None) -> _BufferedFile:
        """A file that is read as it comes."""
        del mode
        return _BufferedFile(_ComingFile(self, path, size))

    def opened(self, file: OpenFile) -> Any:  # noqa: ANN401
        """As `file` is opened: decompressed, decoded."""
        path = self.files._strip_protocol(file.path)  # noqa: SLF001
        how = (file.mode, file.compression, file.encoding, file.errors, file.newline)
        return OpenFile(self, path, *how).open()


_BUFFER_BYTES = 128 << 10


class _ComingFile(io.RawIOBase):
    """A file that is fetched ahead while it is read forwards.

    Once it is read elsewhere than where the last read ended, it is read through
    the file system below, with that one's own cache.
    """

    mode = "rb"

    def __init__(self, coming: _Coming, path: str, size: int | None) -> None:
        self.fs = coming.files
        self.path = path
        if size is not None:
            self.size = size
        self._coming = coming
        self._at = 0
        self._read = 0
        self._member: nearfirst.Member | None = None
        self._elsewhere: Any = None

    @cached_property
    def size(self) -> int:
        size: int = self.fs.info(self.path)["size"]
        return size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        if self.closed:
            raise ValueError("the file is closed")
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at}.get(whence)
        if base is None:
            base = self.size
        if base + offset < 0:
            raise ValueError("a position is not negative")
        self._at = base + offset
        return self._at

    def readinto(self, buffer: Buffer, /) -> int:
        member = self._next() if self._elsewhere is None else None
        if member is not None:
            with _as_raised_below():
                count = member.readinto(buffer)
            self._read += count
        else:
            self._elsewhere.seek(self._at)
            count = self._elsewhere.readinto(buffer)
        self._at += count
        return count

    def _next(self) -> nearfirst.Member | None:
        """The member, if what it gives next is what is wanted."""
        if self._at == self._read == 0 and self._member is None:
            self._member = self._coming.taken(self.path)
        if self._member is not None and self._at == self._read:
            return self._member
        self._elsewhere = self.fs.fs.open(self.path, "rb")
        self._let_go()
        return None

    def _let_go(self) -> None:
        if self._member is not None:
            self._member.close()
            self._member = None

    def close(self) -> None:
        if not self.closed:
            self._let_go()
            if self._elsewhere is not None:
                self._elsewhere.close()
        super().close()


class _BufferedFile(io.BufferedReader):
    """With what files of fsspec say of themselves."""

    blocksize = _BUFFER_BYTES

    def __init__(self, file: _ComingFile) -> None:
        super().__init__(file, self.blocksize)
        self._file = file
        self.fs = file.fs
        self.path = file.path

    @property
    def size(self) -> int:
        return self._file.size

    # The base class has this one, too, and it refuses.
    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[Any, ...]:
        del protocol
        return _reopened, (self.fs, self.path, self.tell())


def _reopened(files: NearfirstFileSystem, path: str, at: int) -> Any:  # noqa: ANN401
    """A file as it was pickled: it is opened anew, at its position."""
    file = files.open(path)
    file.seek(at)
    return file
