"""What the build puts into a wheel beside maturin's."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("maturin")
sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
build_wheel: Any = pytest.importorskip("build_wheel")


def test_a_program_is_added_and_the_record_stays_as_it_was(tmp_path: Path) -> None:
    wheel = tmp_path / "a-1-py3-none-any.whl"
    record = zipfile.ZipInfo("a-1.dist-info/RECORD", (2026, 1, 2, 3, 4, 6))
    record.external_attr = 0o100644 << 16
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("a/__init__.py", "")
        made.writestr(record, "a/__init__.py,,\n")
    build_wheel._add_script(wheel, "run", b"program")  # noqa: SLF001
    with zipfile.ZipFile(wheel) as made:
        assert made.namelist() == ["a/__init__.py", "a-1.data/scripts/run", record.filename]
        program, after = made.infolist()[1:]
        assert (after.external_attr, after.date_time) == (record.external_attr, record.date_time)
        assert (program.external_attr >> 16, program.date_time) == (0o100755, record.date_time)
        first, second = made.read(record.filename).decode().splitlines()
    assert first.startswith("a-1.data/scripts/run,sha256=")
    assert (first.endswith(",7"), second) == (True, "a/__init__.py,,")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (None, []),
        ({"build-args": "--compatibility off"}, []),
        ({"build-args": "--target aarch64-unknown-linux-gnu"}, ["aarch64-unknown-linux-gnu"]),
        ({"maturin.build-args": ["--target=x", "--zig"]}, ["x"]),
    ],
)
def test_the_program_is_for_the_machine_of_the_wheel(settings: Any, expected: list[str]) -> None:
    told = build_wheel._target(build_wheel._settings(settings))  # noqa: SLF001
    assert told[1:] == expected
