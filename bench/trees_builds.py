"""Builds, of Lei & Duchamp: builds of several UNIX programs whose sources are far.

What is built is near, in a shadow tree: a folder with links to the sources. So are compilers and
the system's headers, which are in memory after the first source anyhow.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import Bench, Data, Experiment, Row
from trees_pair import conditions, gains
from trees_paper import (
    HOW,
    NEVER_SLOWER_TARGET,
    Remote,
    Work,
    cell,
    cpu_rows,
    link,
    linked_rows,
    links,
)

if TYPE_CHECKING:
    from types import ModuleType

    from conditions import Far

HERE = Path(__file__).resolve().parent
ROUNDS_MAX = 3
GAIN_TARGET = 1.2
PROJECTS_QUICK = 1
SUFFIXES = (".c", ".h")


@dataclass(frozen=True)
class Project:
    """A program to build, of Debian's sources."""

    name: str
    package: str
    configure: str
    make: tuple[str, ...]
    binary: str


PROJECTS = (
    Project(
        "Lua",
        "lua5.4",
        "true",
        (
            *("make", "-s", "-C", "src", "MYCFLAGS=-DLUA_USE_LINUX -O0", "MYLIBS=-Wl,-E,-ldl"),
            *("a", "lua"),
        ),
        "src/lua",
    ),
    Project("gzip", "gzip", "./configure -q", ("make", "-s", "CFLAGS=-O0"), "gzip"),
    Project("sed", "sed", "./configure -q", ("make", "-s", "CFLAGS=-O0"), "sed/sed"),
)


def _recorder() -> ModuleType:
    """The program that records traces, which knows how to get sources."""
    loader = SourceFileLoader("record", str(HERE / "trees" / "record"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    # Its data classes look their module up.
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


def devices() -> tuple[Far, ...]:
    """The paper's links, and a server of today at 10 ms."""
    return (*links(), link("10 ms", 10e-3, 100e6))


def _sources(project: Project) -> Path:
    """Unpacked and configured."""
    record: Any = _recorder()
    place = record.Place(record.WORK, "")
    record.WORK.mkdir(parents=True, exist_ok=True)
    folder: Path = record.source(place, project.package)
    place.prepare(project.configure, folder)
    return folder


def _digest(binary: Path) -> str:
    return hashlib.blake2b(binary.read_bytes(), digest_size=8).hexdigest()


def _shadow(sources: Path, far: Path, shadow: Path) -> None:
    """A new folder to build in: links to what is far, and what configuring left behind."""
    shutil.rmtree(shadow, ignore_errors=True)
    for source in sources.rglob("*"):
        at = source.relative_to(sources)
        if source.is_dir() and not source.is_symlink():
            (shadow / at).mkdir(parents=True, exist_ok=True)
        elif source.suffix in SUFFIXES:
            (shadow / at).parent.mkdir(parents=True, exist_ok=True)
            (shadow / at).symlink_to(far / at)
        else:
            (shadow / at).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, shadow / at, follow_symlinks=False)


def _cell(bench: Bench, project: Project, device: Far, sources: Path) -> Data:
    with bench.folder("builds") as at:
        remote = Remote(bench.peers.slowfs, at, device)
        shutil.copytree(sources, remote.source, symlinks=True, dirs_exist_ok=True)
        remote.flush()

        work = Work(
            project.make,
            at / "shadow",
            lambda: _shadow(sources, remote.path, at / "shadow"),
            lambda: _digest(at / "shadow" / project.binary),
        )
        name = f"trees-builds: {project.name} over {device.name}"
        bench.say(name)
        return cell(bench, remote, work, name, min(bench.runs, ROUNDS_MAX))


def _measure(bench: Bench) -> Data:
    measured: dict[str, list[Data]] = {device.name: [] for device in devices()}
    for project in PROJECTS[:PROJECTS_QUICK] if bench.quick else PROJECTS:
        sources = _sources(project)
        for device in devices():
            samples = _cell(bench, project, device, sources)
            measured[device.name].append({"project": project.name, "samples": samples})
    said = conditions(min(bench.runs, ROUNDS_MAX), devices=", ".join(map(str, devices())))
    return {"devices": measured, "conditions": said}


def _target(device: str) -> float:
    return GAIN_TARGET if device == devices()[-1].name else NEVER_SLOWER_TARGET


def _rows(data: Data) -> list[Row]:
    rows = []
    bandwidths = {device.name: device.bandwidth for device in devices()}
    for device, cells in data["devices"].items():
        target, bandwidth = _target(device), bandwidths[device]
        for of in cells:
            rows += linked_rows(f"{device}, {of['project']}", of["samples"], target, bandwidth)
        rows += cpu_rows(f"{device}, all", [of["samples"] for of in cells])
    return rows


def _plots(data: Data) -> dict[str, str]:
    plots = {}
    for mode, how in HOW.items():
        cells = (
            (f"{of['project']}, {device}", of["samples"], _target(device))
            for device, cells in data["devices"].items()
            for of in cells
        )
        title = f"Builds: how many times faster with {how} (Figure 8)"
        plots[f"trees-builds-{mode}"] = gains(title, cells, mode)
    return plots


EXPERIMENTS = (
    Experiment(
        "trees-builds", "Access trees: Builds (Tables 4 and 5, Figure 8)", _measure, _rows, _plots
    ),
)
