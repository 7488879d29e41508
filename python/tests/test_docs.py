"""The examples of the documentation run as they stand."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

DOCS = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path("logs").mkdir(exist_ok=True)
        Path(f"logs/{name}.txt").write_text(f"line of {name}\n")
    Path("archives").mkdir()
    with zipfile.ZipFile("archives/one.zip", "w") as archive:
        archive.writestr("inside", "text")
    examples = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    assert len(examples) == 7
    together = "\n".join(examples)
    names: dict[str, object] = {}
    exec(compile(together, DOCS, "exec"), names)  # noqa: S102
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
    ):
        assert expected in printed
