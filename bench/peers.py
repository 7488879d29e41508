"""The programs that race: ours, GNU's and ripgrep, and the slow file system below them."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class MissingError(Exception):
    """A program that an experiment needs is not on this machine."""


INSTALLED = (ROOT / (os.environ.get("NEARFIRST_PEERS") or "target/peers")).resolve()
"""What bench/peers and `make setup` install, for several clones if the environment says so."""
_RELEASE = ROOT / "target" / "release"


@dataclass(frozen=True)
class ObjectPeers:
    """An S3 server, and what else reads its objects; bench/peers installs the readers."""

    server: Path
    python: Path
    readers: Path
    rclone: Path
    s5cmd: Path

    def versions(self) -> dict[str, str]:
        """What each program and library calls itself."""
        names = ("boto3", "obstore", "s3fs", "smart_open", "s3torchconnectorclient")
        ask = "import importlib.metadata as m, sys; [print(n, m.version(n)) for n in sys.argv[1:]]"
        command: list[str | Path] = [self.python, "-c", ask, *names]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        s5cmd = subprocess.run([self.s5cmd, "version"], capture_output=True, text=True, check=True)
        versions = dict(line.split() for line in told.splitlines())
        versions["rclone"] = _version(self.rclone).removeprefix("rclone ")
        versions["s5cmd"] = s5cmd.stdout.strip()
        return versions


@dataclass(frozen=True)
class TorchPeers:
    """PyTorch with the data sets that race, and our package, optimised."""

    python: Path
    loop: Path
    images: Path
    package: Path

    def versions(self) -> str:
        """What each library calls itself."""
        names = ("torch", "s3torchconnector", "webdataset", "s3fs", "pillow")
        ask = (
            "import importlib.metadata as m, sys;"
            " print(*(n + ' ' + m.version(n) for n in sys.argv[1:]), sep=', ')"
        )
        command: list[str | Path] = [self.python, "-c", ask, *names]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return told.strip()


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

    @cached_property
    def object_peers(self) -> ObjectPeers:
        """What races over the objects of a server.

        Raises:
            MissingError: if bench/peers did not install them, or there is no versitygw.
        """
        python = INSTALLED / "bench" / "bin" / "python"
        # The package has a program beside a script that starts it, half a second later.
        inside = INSTALLED.glob("bench/lib/python*/site-packages/s5cmd/bin/s5cmd")
        s5cmd = next(inside, INSTALLED / "s5cmd")
        for path in (python, s5cmd):
            if not path.exists():
                raise MissingError(f"{path}: not there; run bench/peers")
        return ObjectPeers(
            server=self.object_server,
            python=python,
            readers=Path(__file__).resolve().parent / "readers.py",
            rclone=_find("rclone", "NEARFIRST_RCLONE", INSTALLED / "bin" / "rclone"),
            s5cmd=s5cmd,
        )

    @property
    def object_server(self) -> Path:
        """An S3 server.

        Raises:
            MissingError: if there is none.
        """
        return _find("versitygw", "NEARFIRST_VERSITYGW", INSTALLED / "bin" / "versitygw")

    @cached_property
    def torch_peers(self) -> TorchPeers:
        """What a PyTorch loop is fed by.

        Raises:
            MissingError: if bench/peers did not install it.
        """
        here = Path(__file__).resolve().parent
        python = INSTALLED / "torch" / "bin" / "python"
        if not python.exists():
            raise MissingError(f"{python}: not there; run bench/peers")
        return TorchPeers(
            python=python,
            loop=here / "torch_loop.py",
            images=here / "torch_images.py",
            package=self.python_package,
        )

    @cached_property
    def python_package(self) -> Path:
        """The folder to import our Python package from, with the optimised module.

        Raises:
            MissingError: if it is not built.
        """
        module = Path(os.environ.get("NEARFIRST_PYTHON", _RELEASE / "lib_nearfirst.so"))
        if not module.exists():
            raise MissingError(f"{module}: not built; run make bench")
        folder = ROOT / "target" / "bench-python"
        package = folder / "nearfirst"
        package.mkdir(parents=True, exist_ok=True)
        sources = list((ROOT / "python" / "nearfirst").glob("*.py"))
        for path, source in (
            *((package / source.name, source) for source in sources),
            (package / "_nearfirst.abi3.so", module),
        ):
            path.unlink(missing_ok=True)
            path.symlink_to(source.resolve())
        return folder

    def example(self, name: str) -> Path:
        """An example program of ours.

        Raises:
            MissingError: if it is not built.
        """
        path = _RELEASE / "examples" / name
        if not path.exists():
            raise MissingError(f"{path}: not built; run make bench")
        return path

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
    return Peers(
        nearfirst=_find("nearfirst", "NEARFIRST_BIN", _RELEASE / "nearfirst"),
        slowfs=_find("slowfs", "NEARFIRST_SLOWFS", _RELEASE / "slowfs"),
        asking=_find("asking", "NEARFIRST_ASKING", _RELEASE / "examples" / "asking"),
        rg=_find("rg", "NEARFIRST_RG", INSTALLED / "bin" / "rg"),
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
