#!/usr/bin/env python3
"""Writes what others ask to be said of their code that is linked in: licences.py FILE [TARGET].

Of each crate, and of Rust's standard library, the version, the licence and where it is from, then
the licences and notices that lie in its sources, those of C code in it too; each text once. TARGET
is the machine that is built for, if it is another, as rustc calls it.
"""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ["nearfirst-cli", "nearfirst-capi", "nearfirst-python"]
# Whose licences are comments at the start of sources.
IN_SOURCES = {
    "pcre2-sys": ["upstream/include/pcre2.h", "upstream/deps/sljit/sljit_src/sljitLir.c"],
}
# Whose text names nobody, so that any crate's stands for all.
NAMELESS = {"MPL-2.0"}
_TEXT = re.compile(r"(licen[cs]e|copying|unlicense|notice|copyright)[^/]*", re.IGNORECASE)
_FOLDER = re.compile(r"licen[cs]es?", re.IGNORECASE)
_CODE = {".c", ".h", ".json", ".py", ".rs", ".toml"}
# A crate, and its texts.
_Known = tuple[dict[str, Any], list[str]]


def _cargo(*arguments: str) -> str:
    return _told(*os.environ.get("CARGO", "cargo").split(), *arguments, "--locked")


def _told(*command: str) -> str:
    told = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)  # noqa: S603
    return told.stdout.decode()


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


def standard_library() -> dict[str, Any]:
    """Rust's standard library, as cargo would describe it; its sources are its toolchain."""
    return {
        "name": "std",
        "version": _told("rustc", "--version").split()[1],
        "license": "MIT OR Apache-2.0",
        "repository": "https://github.com/rust-lang/rust",
    }


def texts(crate: dict[str, Any]) -> list[str]:
    """What lies in the sources of a crate: licences, notices, and who holds the rights."""
    folder = Path(crate["manifest_path"]).parent
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and _is_text(path)]
    found = [path.read_text(encoding="utf-8", errors="replace") for path in files]
    for source in IN_SOURCES.get(crate["name"], []):
        code = (folder / source).read_text(encoding="utf-8")
        comments = re.findall(r"/\*(.*?)\*/", code, re.DOTALL)
        found += [each for each in comments if "Redistribution" in each][:1]
    return [_trimmed(text) for text in found]


def _is_text(path: Path) -> bool:
    named = _TEXT.fullmatch(path.name) or _FOLDER.fullmatch(path.parent.name)
    return named is not None and path.suffix.lower() not in _CODE


def standard_texts() -> list[str]:
    """What the toolchain says of its standard library, if it does, and the licences named there."""
    folder = Path(_told("rustc", "--print", "sysroot").strip(), "share/doc/rust")
    notices = folder / "COPYRIGHT-library.html"
    if not notices.exists():
        return []
    text = re.sub(r"<[^>]*>", "", notices.read_text(encoding="utf-8"))
    text = re.sub(r"\n\s*\n", "\n\n", html.unescape(text))
    licences = sorted(folder.glob("licenses/*.txt"))
    named = [path.read_text(encoding="utf-8") for path in licences if path.stem in text]
    return [_trimmed(each) for each in [text, *named]]


def _trimmed(text: str) -> str:
    return "\n".join(map(str.rstrip, text.strip("\r\n").splitlines()))


def _like(crate: dict[str, Any], known: list[_Known]) -> _Known:
    """Whose texts stand for the missing ones of a crate: of its licence and its repository."""
    place = crate["repository"] or "nowhere"
    for other, found in known:
        is_near = crate["license"] in NAMELESS or other["repository"] == place
        if found and is_near and other["license"] == crate["license"]:
            return other, found
    message = f"{crate['name']}: no text of its licence, {crate['license']}, is known"
    raise SystemExit(message)


def _described(crate: dict[str, Any]) -> list[str]:
    source = crate["repository"] or crate["homepage"] or "by its name, from cargo's registry"
    return [f"{crate['name']} {crate['version']}", f"    {crate['license']}", f"    {source}"]


def report(crates: list[dict[str, Any]]) -> str:
    """All of it as one text."""
    numbers: dict[str, int] = {}
    lines = ["Code of others that is linked into nearfirst, and its licences.", ""]

    def numbered(found: list[str]) -> str:
        known = {numbers.setdefault(text, len(numbers) + 1) for text in found}
        return f"    texts {', '.join(map(str, sorted(known)))}"

    known = [(crate, texts(crate)) for crate in crates]
    for crate, found in known:
        lines += _described(crate)
        if not found:
            other, found = _like(crate, known)  # noqa: PLW2901
            lines.append(f"    has no text with it; as {other['name']} has it:")
        lines.append(numbered(found))
    found = standard_texts()
    lines += _described(standard_library())
    lines.append(numbered(found) if found else "    its texts are not on this machine")
    for text, number in numbers.items():
        lines += ["", "", f"==== text {number} ====", "", text]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(report(linked(*sys.argv[2:])), encoding="utf-8")
