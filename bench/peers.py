"""The programs that race: ours, GNU's and ripgrep, and the slow file system below them."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class MissingError(Exception):
    """A program that an experiment needs is not on this machine."""


@dataclass(frozen=True)
class Peers:
    """Paths of the programs, all of them present."""

    nearfirst: Path
    slowfs: Path
    asking: Path
    rg: Path
    wc: Path
    grep: Path
    find: Path

    def versions(self) -> dict[str, str]:
        """What each program calls itself."""
        programs = {"nearfirst": self.nearfirst, "ripgrep": self.rg}
        programs |= {"GNU wc": self.wc, "GNU grep": self.grep, "GNU find": self.find}
        return {name: _version(path) for name, path in programs.items()}


def locate() -> Peers:
    """Finds the programs, each by its environment variable, the build folder or PATH.

    Raises:
        MissingError: with what was looked for and how to provide it.
    """
    release = ROOT / "target" / "release"
    return Peers(
        nearfirst=_find("nearfirst", "NEARFIRST_BIN", release / "nearfirst"),
        slowfs=_find("slowfs", "NEARFIRST_SLOWFS", release / "slowfs"),
        asking=_find("asking", "NEARFIRST_ASKING", release / "examples" / "asking"),
        rg=_find("rg", "NEARFIRST_RG", ROOT / "target" / "peers" / "bin" / "rg"),
        wc=_gnu("wc"),
        grep=_gnu("grep"),
        find=_gnu("find"),
    )


def _find(name: str, variable: str, built: Path) -> Path:
    if given := os.environ.get(variable):
        return Path(given).resolve()
    if built.exists():
        return built
    if found := shutil.which(name):
        return Path(found)
    raise MissingError(f"{name}: neither ${variable}, nor {built}, nor in PATH")


def _gnu(name: str) -> Path:
    found = shutil.which(name)
    if found is None or "GNU" not in _version(Path(found), lines=2):
        raise MissingError(f"{name}: no GNU {name} in PATH to compare with")
    return Path(found)


def _version(path: Path, lines: int = 1) -> str:
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return "\n".join(told.stdout.splitlines()[:lines])
