"""What the build puts into a wheel beside maturin's, and what sources it has."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("maturin")
ROOT = Path(__file__).parents[2]
# Cargo keeps there what it has fetched.
HOME = os.environ.get("HOME", "/")
sys.path.insert(0, str(ROOT / "scripts"))
build_wheel: Any = importlib.import_module("build_wheel")
licences: Any = importlib.import_module("licences")


def test_a_program_is_added_and_the_record_stays_as_it_was(tmp_path: Path) -> None:
    wheel = tmp_path / "a-1-py3-none-any.whl"
    record = zipfile.ZipInfo("a-1.dist-info/RECORD", (2026, 1, 2, 3, 4, 6))
    record.external_attr = 0o100644 << 16
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("a/__init__.py", "")
        made.writestr(record, "a/__init__.py,,\n")
    build_wheel._add(wheel, ".data/scripts/run", b"program", 0o100755)  # noqa: SLF001
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


def _resolve(folder: Path) -> None:
    """Fails where the lock of a workspace does not name all; skips where that cannot be asked."""
    command = ["cargo", "metadata", "--locked", "--format-version=1"]
    told = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    complaint = told.stderr.decode()
    if told.returncode and re.search("failed to (download|fetch)|HTTP request", complaint):
        pytest.skip("the registry of crates cannot be reached")
    assert told.returncode == 0, complaint


@pytest.mark.skipif(not shutil.which("cargo"), reason="there is no cargo")
def test_the_sources_are_those_that_their_lock_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", HOME)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    _resolve(ROOT)
    monkeypatch.chdir(ROOT)
    name = build_wheel.build_sdist(str(tmp_path))
    with tarfile.open(tmp_path / name) as archive:
        archive.extractall(tmp_path, filter="data")
    sources = tmp_path / name.removesuffix(".tar.gz")
    for needed in ("crates/cli/src/main.rs", "scripts/licences.py"):
        assert (sources / needed).exists()
    _resolve(sources)


@pytest.mark.skipif(not shutil.which("cargo"), reason="there is no cargo")
def test_all_that_is_linked_in_is_named_with_its_licence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", HOME)
    _resolve(ROOT)
    command = ["cargo", "tree", "--locked", "-p", "nearfirst-cli", "-e", "normal,no-proc-macro"]
    tree = subprocess.check_output([*command, "--prefix=none"], cwd=ROOT).decode()
    ours = (" (/", f" ({ROOT}")
    lines = {line for line in tree.splitlines() if line and not any(own in line for own in ours)}
    expected = {" ".join(line.replace(" v", " ", 1).split()[:2]) for line in lines}
    text = licences.report(licences.linked())
    named = text.split("==== text 1 ====")[0]
    assert len(expected) > 200
    assert {name for name in expected if f"\n{name}\n    " not in named} == set()
    assert "None" not in named
    crates, standard_library = named.split("\nstd ")
    assert standard_library.splitlines()[1].strip() == "MIT OR Apache-2.0"
    assert len(re.findall(r"^    texts [\d, ]+$", crates, re.MULTILINE)) == len(
        re.findall(r"^\S+ \d\S+$", crates, re.MULTILINE)
    )
    holders = ("Akhil Velagapudi", "Apache OpenDAL", "Herczeg", "University of Cambridge")
    for words in ("Mozilla Public License", "CDLA", *holders):
        assert words in text, words


def test_an_index_can_show_what_the_package_says_of_itself() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]
    assert project["urls"]["Repository"] == workspace["package"]["repository"]
    # It has the text alone, and not what lies beside it.
    links = re.findall(r"\]\(([^)]*)\)", (ROOT / project["readme"]).read_text(encoding="utf-8"))
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
