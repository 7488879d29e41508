"""Builds wheels with maturin, and puts the command `nearfirst` into them.

By maturin alone a wheel has a module or a program. Where the sources of the command are not
there, as in a source distribution, the wheel is without it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import maturin
from maturin import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parent.parent
_PROGRAM = 0o100755


def build_wheel(wheel_directory: str, *arguments: Any, **options: Any) -> str:  # noqa: ANN401
    """Build a wheel, and the command into it."""
    built: str = maturin.build_wheel(wheel_directory, *arguments, **options)
    return _with_command(wheel_directory, built)


def build_editable(wheel_directory: str, *arguments: Any, **options: Any) -> str:  # noqa: ANN401
    """Build a wheel that refers to the sources, and the command into it."""
    built: str = maturin.build_editable(wheel_directory, *arguments, **options)
    return _with_command(wheel_directory, built)


def _with_command(folder: str, name: str) -> str:
    if (ROOT / "crates" / "cli").exists():
        _add_script(Path(folder, name), "nearfirst", _command().read_bytes())
    return name


def _command() -> Path:
    """Build the command, without what only a debugger reads."""
    what = ["-p", "nearfirst-cli", "--bin", "nearfirst", "--release", "--locked"]
    how = ["--message-format", "json-render-diagnostics", "--", "-C", "strip=symbols"]
    told = subprocess.run(  # noqa: S603
        ["cargo", "rustc", *what, *how],  # noqa: S607 - maturin finds it in PATH too
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    )
    messages = map(json.loads, told.stdout.splitlines())
    (built,) = filter(None, (message.get("executable") for message in messages))
    return Path(built)


def _add_script(wheel: Path, name: str, content: bytes) -> None:
    """Add a program, and a line about it to the record of the wheel."""
    part = wheel.with_suffix(".part")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as new:
        (record,) = (each for each in old.namelist() if each.endswith(".dist-info/RECORD"))
        for entry in old.infolist():
            if entry.filename != record:
                new.writestr(entry, old.read(entry))
        program = zipfile.ZipInfo(record.replace(".dist-info/RECORD", f".data/scripts/{name}"))
        program.external_attr = _PROGRAM << 16
        program.compress_type = zipfile.ZIP_DEFLATED
        new.writestr(program, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        line = f"{program.filename},sha256={digest},{len(content)}\n"
        new.writestr(record, line + old.read(record).decode())
    part.replace(wheel)
