"""What files cost, and the order in which they are read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import nearfirst
import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "lines"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(20_000)))
    return path


def test_sleds_cover_the_file(file: Path) -> None:
    end = 0
    for sled in nearfirst.sleds(file):
        assert sled.offset == end
        assert sled.place in ("near", "far", "unknown")
        end += sled.length
    assert end == file.stat().st_size


def test_a_delivery_time_covers_what_is_known(file: Path) -> None:
    best, linear = nearfirst.delivery_time(file), nearfirst.delivery_time(file, plan="linear")
    assert 0 <= best.p50 <= linear.p50
    assert best.is_known == (best.unknown_bytes == 0)
    assert best.cold_bytes == 0


def test_each_byte_is_picked_once(file: Path) -> None:
    pieces = {piece.offset: piece.data for piece in nearfirst.pick(file, size=4096)}
    assert all(len(data) <= 4096 for data in pieces.values())
    assert b"".join(pieces[offset] for offset in sorted(pieces)) == file.read_bytes()


def test_records_are_not_cut(file: Path) -> None:
    pieces = {piece.offset: bytes(piece) for piece in nearfirst.pick(file, size=999, record=b"\n")}
    assert all(data.startswith(b"line ") and data.endswith(b"\n") for data in pieces.values())
    assert b"".join(pieces[offset] for offset in sorted(pieces)) == file.read_bytes()


def test_what_is_near_comes_first(tmp_path: Path) -> None:
    far, near = tmp_path / "far", tmp_path / "near"
    for path in (far, near):
        path.write_bytes(bytes(1 << 20))
    descriptor = os.open(far, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    names = [str(far), str(tmp_path / "none"), str(near)]
    ordered = list(nearfirst.order(names))
    assert sorted(ordered) == sorted(names)
    if any(sled.place == "far" for sled in nearfirst.sleds(far)):
        assert ordered == [str(near), str(far), str(tmp_path / "none")]
    else:
        # A file system in memory, or one that does not let go.
        assert ordered == [str(far), str(near), str(tmp_path / "none")]


def test_memory_is_a_device() -> None:
    devices = {device.name: device for device in nearfirst.devices()}
    assert devices["memory"].latency is not None
    assert devices["memory"].mounted_on is not None


def test_what_cannot_be_asked_about(tmp_path: Path) -> None:
    with pytest.raises(nearfirst.NotFound):
        nearfirst.sleds(tmp_path / "none")
    with pytest.raises(nearfirst.Unsupported):
        nearfirst.delivery_time("https://host/object")
    with pytest.raises(nearfirst.NearfirstError):
        nearfirst.pick(tmp_path)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"plan": "worst"}, ValueError),
        ({"record": b"\r\n"}, ValueError),
        ({"record": "\n"}, TypeError),
        ({"size": 0}, ValueError),
    ],
)
def test_bad_picks(file: Path, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        nearfirst.pick(file, **options)
