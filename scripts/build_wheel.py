"""Builds wheels with maturin, and puts the command `nearfirst` and others' licences into them.

By maturin alone a wheel has a module or a program.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import subprocess
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import licences
import maturin
from maturin import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

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
_TEXT = 0o100644


def build_wheel(wheel_directory: str, *arguments: Any, **options: Any) -> str:  # noqa: ANN401
    """Build a wheel, and the command into it."""
    built: str = maturin.build_wheel(wheel_directory, *arguments, **options)
    return _with_command(wheel_directory, built, _settings(*arguments, **options))


def build_editable(wheel_directory: str, *arguments: Any, **options: Any) -> str:  # noqa: ANN401
    """Build a wheel that refers to the sources, and the command into it."""
    built: str = maturin.build_editable(wheel_directory, *arguments, **options)
    return _with_command(wheel_directory, built, _settings(*arguments, **options))


def _settings(config_settings: Mapping[str, Any] | None = None, *_: Any, **__: Any) -> list[str]:  # noqa: ANN401
    """Of the arguments of a build, the settings as maturin understands them."""
    given: list[str] = maturin.get_maturin_pep517_args(config_settings)
    return given


def _with_command(folder: str, name: str, settings: list[str]) -> str:
    wheel = Path(folder, name)
    _add(wheel, ".data/scripts/nearfirst", _command(settings).read_bytes(), _PROGRAM)
    others = licences.report(licences.linked(*_target(settings)[1:]))
    _add(wheel, ".dist-info/licenses/THIRD-PARTY.txt", others.encode(), _TEXT)
    return name


def _target(settings: list[str]) -> list[str]:
    """Which machine a wheel is for, as cargo is told, if that is said."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--target")
    told, _ = parser.parse_known_args(settings)
    return ["--target", told.target] if told.target else []


def _command(settings: list[str]) -> Path:
    """Build the command, without what only a debugger reads."""
    what = ["-p", "nearfirst-cli", "--bin", "nearfirst", "--release", "--locked"]
    what += _target(settings)
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


def _add(wheel: Path, place: str, content: bytes, mode: int) -> None:
    """Add a file at a place behind the wheel's name, and a line about it to the wheel's record."""
    part = wheel.with_suffix(".part")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as new:
        ending = ".dist-info/RECORD"
        (record,) = (each for each in old.infolist() if each.filename.endswith(ending))
        for entry in old.infolist():
            if entry is not record:
                new.writestr(entry, old.read(entry))
        added = zipfile.ZipInfo(record.filename.replace(ending, place), record.date_time)
        added.external_attr = mode << 16
        added.compress_type = zipfile.ZIP_DEFLATED
        new.writestr(added, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        line = f"{added.filename},sha256={digest},{len(content)}\n"
        new.writestr(record, line + old.read(record).decode())
    part.replace(wheel)
