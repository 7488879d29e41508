"""Texts and trees to read, the same on every machine: made from a seed and a list of words."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

BLOCK_BYTES = 8 << 20
MARK_EVERY_BYTES = 256 << 10
MILESTONE = "milestone"
"""On the first line of each 8 MiB: few."""
COMMON = "storage"
"""On about one line in thirty: frequent."""

_SYLLABLES = [a + b for a in "bcdfghjklmnprstvyz" for b in "aeiou"]
# With ASCII in each, and without a byte 0xa0: so GNU wc before 9.5, too, has them for words in C.
_FOREIGN = ["naïve", "façade", "Übergröße", "señor", "1-Ελλάδα", "web-журнал", "PC-計算機"]
_LINE_WORDS = (4, 16)


def _words(rng: random.Random) -> list[str]:
    made = {"".join(rng.choices(_SYLLABLES, k=rng.randint(1, 4))) for _ in range(3000)}
    # Sorted: the order of a set differs from run to run.
    words = sorted(made)
    words += [word.capitalize() for word in words[::9]]
    words += [f"{word}ed" for word in words[::7]] + [str(rng.randint(1, 99999)) for _ in range(150)]
    words += [COMMON] * (len(words) // 300) + _FOREIGN * (len(words) // 400)
    return words


def _block(seed: int) -> list[bytes]:
    rng = random.Random(seed)
    words = _words(rng)
    lines: list[bytes] = []
    size = 0
    while size < BLOCK_BYTES:
        line = " ".join(rng.choices(words, k=rng.randint(*_LINE_WORDS))).encode() + b"\n"
        lines.append(line)
        size += len(line)
    return lines


def mark(number: int) -> str:
    """What is on one line only, about `number` times 256 KiB into the file."""
    return f"mark-{number:06}-here"


def marks(size: int) -> int:
    """How many marks a text of this size holds for certain."""
    return (size - (64 << 10)) // MARK_EVERY_BYTES


def mark_offset(number: int) -> int:
    """Where a mark is, to within a line."""
    return number * MARK_EVERY_BYTES


def write_text(path: Path, size: int, seed: int) -> None:
    """A text of exactly `size` bytes: lines of words and numbers, a few words not ASCII."""
    lines = _block(seed)
    rng = random.Random(seed + 1)
    with path.open("wb") as file:
        written = 0
        number = 0
        while written < size:
            turn = rng.randrange(len(lines))
            block = b"".join(lines[turn:] + lines[:turn])
            for start in range(0, BLOCK_BYTES, MARK_EVERY_BYTES):
                about = f" {MILESTONE}" if start == 0 else ""
                head = f"{mark(number)}{about}\n".encode()
                piece = head + block[start : start + MARK_EVERY_BYTES - len(head) - 1] + b"\n"
                number += 1
                # A cut may fall inside a character: begin and end the piece with whole lines.
                first = piece.index(b"\n", len(head)) + 1
                last = piece.rindex(b"\n", 0, -1) + 1
                filler = len(piece) - len(head) - (last - first)
                piece = head + piece[first:last] + b"." * (filler - 1) + b"\n"
                file.write(piece)
                written += len(piece)
        file.truncate(size)


def write_tree(root: Path, files: int, seed: int) -> None:
    """A tree of files of 300 bytes to 8 KiB: 100 to a folder, 20 folders to a folder."""
    rng = random.Random(seed)
    text = b"".join(_block(seed))
    for number in range(files):
        folder = root / f"part{number // 2000:02}" / f"folder{number // 100 % 20:02}"
        if number % 100 == 0:
            folder.mkdir(parents=True)
        start = rng.randrange(len(text) - 8192)
        piece = text[start : start + rng.randint(300, 8192)]
        head = f"file {number}\n" + (f"{MILESTONE}\n" if number % 1000 == 0 else "")
        suffix = rng.choice(["txt", "log", "c", "md"])
        (folder / f"file{number:05}.{suffix}").write_bytes(head.encode() + piece + b"\n")
