"""What other libraries take of a member: a file, a buffer or a path; near and remote alike."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING, Any

import nearfirst
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from astropy.io import fits
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from conftest import Server

PIXELS: Any = np.arange(48, dtype=np.uint8).reshape(6, 8)


@pytest.fixture(params=["local", "remote"])
def made(
    request: pytest.FixtureRequest, tmp_path: Path, server: Server
) -> Callable[[str, bytes], nearfirst.Member]:
    """Makes a member of its bytes."""

    def member(name: str, content: bytes) -> nearfirst.Member:
        if request.param == "remote":
            return next(nearfirst.open(server.put(name, content)))
        (tmp_path / name).write_bytes(content)
        return next(nearfirst.open(tmp_path / name))

    return member


def saved(save: Callable[[Any], object]) -> bytes:
    file = io.BytesIO()
    save(file)
    return file.getvalue()


def test_an_archive(made: Any) -> None:
    def archived(file: Any) -> None:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("inside", "text")

    member = made("a.zip", saved(archived))
    with member.open() as file, zipfile.ZipFile(file) as archive:
        assert archive.read("inside") == b"text"
    assert zipfile.is_zipfile(member.path())


def test_an_image(made: Any) -> None:
    image = Image.fromarray(PIXELS)
    member = made("image.png", saved(lambda file: image.save(file, "png")))
    with member.open() as file, Image.open(file) as found:
        assert np.array_equal(np.asarray(found), PIXELS)
    with Image.open(member.path()) as found:
        assert found.size == (8, 6)


def test_an_image_of_the_sky(made: Any) -> None:
    member = made("sky.fits", saved(fits.PrimaryHDU(PIXELS).writeto))
    with member.open() as file, fits.open(file) as found:
        assert np.array_equal(found[0].data, PIXELS)
    with fits.open(member.path()) as found:
        assert found[0].data[5, 7] == 47


def test_tables(made: Any) -> None:
    table = pd.DataFrame({"number": [1, 2], "word": ["one", "two"]})
    member = made("table.csv", table.to_csv(index=False).encode())
    with member.open() as file:
        assert pd.read_csv(file).equals(table)
    assert pyarrow.csv.read_csv(pa.BufferReader(member)).to_pandas().equals(table)
    member = made("table.parquet", saved(table.to_parquet))
    with member.open() as file:
        assert pd.read_parquet(file).equals(table)
    with member.open() as file:
        assert pyarrow.parquet.read_table(file).to_pandas().equals(table)


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"text")
    limits: Any = {"budget": np.int64(1 << 20), "jobs": np.int32(2), "stall": np.float32(5)}
    assert [member.read() for member in nearfirst.open(tmp_path / "a", **limits)] == [b"text"]


def test_a_buffer_is_not_copied(made: Any) -> None:
    member = made("pixels", PIXELS.tobytes())
    array, buffer = np.frombuffer(member, dtype=np.uint8), pa.py_buffer(member)
    assert array.ctypes.data == buffer.address
    assert not array.flags.writeable
    del member
    assert np.array_equal(array.reshape(PIXELS.shape), PIXELS)
