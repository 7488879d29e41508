"""What is in the page cache: asked, evicted, read in; and how often somebody emptied all of it."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

_CACHESTAT = 451  # the same number on every architecture
_LIBC = ctypes.CDLL(None, use_errno=True)
# A copy of it stays in the cache of a processor, as that of programs that read.
_PIECE_BYTES = 256 << 10
# On a page, as the buffers of cat and wc: 16 bytes behind it a processor copies at two thirds of
# the speed. Written before it is read into: fresh memory would cost as much as the reading.
_BUFFER = memoryview(mmap.mmap(-1, _PIECE_BYTES))
_BUFFER[:] = b"\1" * _PIECE_BYTES
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Counts(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64)
        for name in ("cached", "dirty", "writeback", "evicted", "recently_evicted")
    )


def resident_bytes(path: Path, offset: int = 0, length: int | None = None) -> int:
    """Bytes of the pages of a range (to the end of the file if without length) in memory."""
    size = path.stat().st_size
    length = size - offset if length is None else length
    fd = os.open(path, os.O_RDONLY)
    try:
        counts = _Counts()
        asked = _Range(offset, length)
        if _LIBC.syscall(_CACHESTAT, fd, ctypes.byref(asked), ctypes.byref(counts), 0) != 0:
            raise OSError(ctypes.get_errno(), "cachestat (Linux 6.5 or later)", str(path))
    finally:
        os.close(fd)
    return min(int(counts.cached) * PAGE_BYTES, size)


def flush(path: Path) -> None:
    """Writes the file back, so that no run pays for it."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def evict(path: Path) -> None:
    """Drops the file's own pages, after writing them back."""
    flush(path)
    fd = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def read_in(path: Path, offset: int = 0, length: int | None = None) -> None:
    """Reads a range, to the end of the file if without length."""
    fd = os.open(path, os.O_RDONLY)
    try:
        end = path.stat().st_size if length is None else offset + length
        while offset < end:
            got = os.preadv(fd, [_BUFFER[: end - offset]], offset)
            if got == 0:
                break
            offset += got
    finally:
        os.close(fd)


def read_pages(path: Path, offsets: list[int], length: int) -> None:
    """Reads pieces and nothing around them: readahead is off."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
        for offset in offsets:
            os.pread(fd, length, offset)
    finally:
        os.close(fd)


def drops() -> int:
    """How often the whole page cache was dropped since boot, by anybody."""
    for line in Path("/proc/vmstat").read_text().splitlines():
        if line.startswith("drop_pagecache "):
            return int(line.split()[1])
    return 0
