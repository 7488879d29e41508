"""The examples of the documentation run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "python.md"
FOR_TORCH = "torch"

# As an installed package is registered; and tables, which the examples find.
BEFORE = """
import fsspec, pyarrow, pyarrow.parquet
from nearfirst.fsspec import NearfirstFileSystem
fsspec.register_implementation("nearfirst", NearfirstFileSystem, clobber=True)
for number in range(5):
    table = pyarrow.table({"number": range(number), "word": ["a"] * number})
    pyarrow.parquet.write_table(table, f"tables/{number}.parquet")
"""


def test_the_examples_print_what_they_say(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "logs").mkdir(exist_ok=True)
        (tmp_path / f"logs/{name}.txt").write_text(f"line of {name}\n")
    (tmp_path / "archives").mkdir()
    with zipfile.ZipFile(tmp_path / "archives/one.zip", "w") as archive:
        archive.writestr("inside", "text")
    (tmp_path / "tables").mkdir()
    found = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.DOTALL | re.MULTILINE)
    examples = [example for example in found if FOR_TORCH not in example]
    assert len(examples) == 11
    # In a process of its own: what they import leaves threads behind.
    code = "\n".join([BEFORE, *examples])
    command = [sys.executable, "-W", "error::ResourceWarning", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for expected in (
        "1 True ['logs/a.txt', 'logs/b.txt'] True",
        "['inside']",
        "missing: logs/none.txt",
        "words://box/two b'zwei'",
        "memory://box/one.txt b'eins'",
        "['eins']",
        "\n10\n10\n10\n10\n",
    ):
        assert expected in done.stdout
