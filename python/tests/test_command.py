"""`python -m nearfirst`, and what importing costs."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import nearfirst


def run(path: Path | str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": str(path)}
    command = [sys.executable, "-m", "nearfirst", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_it_is_the_command(tmp_path: Path) -> None:
    command = tmp_path / "nearfirst"
    command.write_text('#!/bin/sh\necho "$@"\nexit 3\n')
    command.chmod(0o755)
    done = run(tmp_path, "wc", "a b", "-l")
    assert (done.stdout, done.returncode) == ("wc a b -l\n", 3)


def test_it_says_that_there_is_no_command(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 127
    assert "make install" in done.stderr


def test_it_has_the_version_of_the_sources() -> None:
    manifest = tomllib.loads((Path(__file__).parents[2] / "Cargo.toml").read_text())
    assert nearfirst.__version__ == manifest["workspace"]["package"]["version"]


def test_importing_it_imports_nothing_slow() -> None:
    code = "import sys, nearfirst; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    slow = {"asyncio", "fsspec", "html", "inspect", "numpy", "pandas", "pathlib", "subprocess"}
    assert not slow & set(modules)
