#!/usr/bin/env python3
"""Writes what others ask to be said of their code that is linked in: licences.py FILE [TARGET].

Of each crate the version, the licence and where it is from, then the licences and notices that lie
in its sources, those of C code in it too; each text once. TARGET is the machine that is built for,
if it is another, as rustc calls it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ["nearfirst-cli", "nearfirst-capi", "nearfirst-python"]
# Whose licence is a comment at the start of a source.
IN_SOURCES = {"pcre2-sys": "upstream/include/pcre2.h"}
_TEXT = re.compile(r"(licen[cs]e|copying|unlicense|notice|copyright)[^/]*", re.IGNORECASE)
_CODE = {".c", ".h", ".json", ".py", ".rs", ".toml"}


def _cargo(*arguments: str) -> str:
    return _told("cargo", *arguments, "--locked")


def _told(*command: str) -> str:
    told = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    return told.stdout


def linked(target: str | None = None) -> list[dict[str, Any]]:
    """Crates of others that are linked into what is shipped, as cargo describes them, by name."""
    target = target or _told("rustc", "--print", "host-tuple").strip()
    packages = [word for name in SHIPPED for word in ("--package", name)]
    edges = ["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]
    lines = _cargo("tree", *packages, *edges, "--target", target).splitlines()
    named = {tuple(line.split()[:2]) for line in lines if line}
    metadata = _cargo("metadata", "--format-version=1", "--filter-platform", target)
    others = [crate for crate in json.loads(metadata)["packages"] if crate["source"]]
    found = [crate for crate in others if (crate["name"], f"v{crate['version']}") in named]
    return sorted(found, key=lambda crate: (crate["name"], crate["version"]))


def texts(crate: dict[str, Any]) -> list[str]:
    """What lies in the sources of a crate: licences, notices, and who holds the rights."""
    folder = Path(crate["manifest_path"]).parent
    paths = [path for path in sorted(folder.rglob("*")) if _TEXT.fullmatch(path.name)]
    files = [path for path in paths if path.is_file() and path.suffix.lower() not in _CODE]
    found = [path.read_text(errors="replace") for path in files]
    if source := IN_SOURCES.get(crate["name"]):
        comment = re.findall(r"/\*(.*?)\*/", (folder / source).read_text(), re.DOTALL)
        found += [each for each in comment if "Redistribution" in each][:1]
    return ["\n".join(map(str.rstrip, text.strip("\r\n").splitlines())) for text in found]


def _like(crate: dict[str, Any], crates: list[dict[str, Any]]) -> dict[str, Any]:
    """Whose texts stand for the missing ones of a crate: of its licence, best of its repository."""
    same = [each for each in crates if each["license"] == crate["license"] and texts(each)]
    if not same:
        message = f"{crate['name']}: no text of its licence, {crate['license']}, is known"
        raise SystemExit(message)
    return max(same, key=lambda each: each["repository"] == crate["repository"])


def report(crates: list[dict[str, Any]]) -> str:
    """All of it as one text."""
    numbers: dict[str, int] = {}
    lines = ["Code of others that is linked into nearfirst, and its licences.", ""]
    for crate in crates:
        found = texts(crate)
        source = crate["repository"] or crate["homepage"] or "by its name, from cargo's registry"
        lines += [f"{crate['name']} {crate['version']}", f"    {crate['license']}", f"    {source}"]
        if not found:
            other = _like(crate, crates)
            lines.append(f"    has no text with it; as {other['name']} has it:")
            found = texts(other)
        known = [numbers.setdefault(text, len(numbers) + 1) for text in found]
        lines.append(f"    texts {', '.join(map(str, sorted(set(known))))}")
    for text, number in numbers.items():
        lines += ["", "", f"==== text {number} ====", "", text]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(report(linked(*sys.argv[2:])), encoding="utf-8")
