"""Iterating sets of local files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import nearfirst
import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.txt").write_text(f"text of {name}")
    return tmp_path


def test_each_member_comes_once_with_its_bytes(folder: Path) -> None:
    members = nearfirst.open(f"{folder}/*.txt")
    found = {member.name: member.read() for member in members}
    assert found == {f"{folder}/{name}.txt": f"text of {name}".encode() for name in "abc"}
    assert list(members) == []
    assert len(list(members.rewind())) == 3
