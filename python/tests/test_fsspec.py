"""File systems of fsspec: as stores, and `nearfirst` among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import nearfirst
import pytest

fsspec = pytest.importorskip("fsspec")

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def memory() -> Any:
    """A file system of fsspec with three files."""
    files = fsspec.filesystem("memory", skip_instance_cache=True)
    files.store.clear()
    files.pipe({"/a/x.txt": b"text of x", "/a/b/y.txt": b"text of y", "/a/z.bin": b""})
    return files


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("memory://a/*.txt", {"memory://a/x.txt": b"text of x"}),
        ("memory:///a/*.txt", {"memory:///a/x.txt": b"text of x"}),
        ("memory://a/x.txt", {"memory://a/x.txt": b"text of x"}),
        ("memory://a/**/y*", {"memory://a/b/y.txt": b"text of y"}),
        ("other://a/*", {"other://a/x.txt": b"text of x", "other://a/z.bin": b""}),
    ],
)
def test_a_file_system_is_a_store(memory: Any, spec: str, expected: dict[str, bytes]) -> None:
    members = list(nearfirst.open(spec, stores={"memory": memory, "other": memory}))
    assert {member.name: member.read() for member in members} == expected
    assert all(member.size == len(expected[member.name]) for member in members)
    assert all(member.modified is not None for member in members)


def test_what_is_missing_and_what_is_a_folder(memory: Any) -> None:
    members = nearfirst.open(
        "memory://a/none", "memory://a/b", stores={"memory": memory}, errors="yield"
    )
    errors = {member.name: type(member.error) for member in members}
    assert errors == {
        "memory://a/none": nearfirst.NotFound,
        "memory://a/b": nearfirst.Refused,
    }


def test_local_files_as_fsspec_has_them(folder: Path) -> None:
    files = fsspec.filesystem("file")
    members = nearfirst.open(f"file://{folder}/*.txt", stores={"file": files})
    found = {member.name: member.read() for member in members}
    assert found == {f"file://{folder}/{n}.txt": f"text of {n}".encode() for n in "abc"}
