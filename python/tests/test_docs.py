"""The examples of the documentation run as they stand."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from nearfirst.fsspec import NearfirstFileSystem

if TYPE_CHECKING:
    import pytest

DOCS = Path(__file__).parents[2] / "docs" / "python.md"


FOR_TORCH = "torch"


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.DOTALL | re.MULTILINE)


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path("logs").mkdir(exist_ok=True)
        Path(f"logs/{name}.txt").write_text(f"line of {name}\n")
    Path("archives").mkdir()
    with zipfile.ZipFile("archives/one.zip", "w") as archive:
        archive.writestr("inside", "text")
    Path("tables").mkdir()
    for number in range(5):
        table = pa.table({"number": range(number), "word": ["a"] * number})
        pq.write_table(table, f"tables/{number}.parquet")
    fsspec.register_implementation("nearfirst", NearfirstFileSystem, clobber=True)
    found = [example for example in examples() if FOR_TORCH not in example]
    assert len(found) == 11
    names: dict[str, object] = {}
    exec(compile("\n".join(found), DOCS, "exec"), names)  # noqa: S102
    # A set is not collected while its own rank function refers to it, as it does here.
    names.clear()


def test_the_examples_print_what_they_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    test_the_examples_run(tmp_path, monkeypatch)
    printed = capsys.readouterr().out
    for expected in (
        "1 True ['logs/a.txt', 'logs/b.txt'] True",
        "['inside']",
        "missing: logs/none.txt",
        "words://box/two b'zwei'",
        "memory://box/one.txt b'eins'",
        "['eins']",
        "\n10\n10\n10\n10\n",
    ):
        assert expected in printed
