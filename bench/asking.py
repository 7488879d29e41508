"""What it costs to ask where a file is."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import corpus
import page_cache
import svg
from bench import Bench, Data, Experiment, Row
from measure import Spread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL_FILES = 20_000
SMALL_BYTES = 8 << 10
LARGE_BYTES = 4 << 30
QUICK_SMALL_FILES = 500
QUICK_LARGE_BYTES = 64 << 20
PIECE_BYTES = 64 << 10
UNIFORM_TARGET_S = 2e-3
MIXED_TARGET_S = 70e-3
SMALL_TARGET_S = 5e-6


def _ask(bench: Bench, files: list[Path], times: int) -> Data:
    """Seconds per file of each pass over the files, by way of asking."""
    names = b"\0".join(str(path).encode() for path in files)
    command: list[str | Path] = [bench.peers.asking, str(times)]
    done = subprocess.run(command, input=names, capture_output=True, check=True)
    answer: Data = json.loads(done.stdout)
    return answer


def _states(size: int, bench: Bench) -> dict[str, Callable[[Path], None]]:
    pages = size // page_cache.PAGE_BYTES
    rng = bench.rng("asking")
    some = sorted(rng.sample(range(pages), pages // 100))
    return {
        "not in memory": lambda _path: None,
        "in memory": page_cache.read_in,
        "first half": lambda path: page_cache.read_in(path, 0, size // 2),
        "every other 64 KiB": lambda path: page_cache.read_pages(
            path, list(range(0, size, 2 * PIECE_BYTES)), PIECE_BYTES
        ),
        "1 % of pages, random": lambda path: page_cache.read_pages(
            path, [page * page_cache.PAGE_BYTES for page in some], 1
        ),
    }


def _measure(bench: Bench) -> Data:
    count = QUICK_SMALL_FILES if bench.quick else SMALL_FILES
    size = QUICK_LARGE_BYTES if bench.quick else LARGE_BYTES
    found: Data = {"small_files": count, "large_bytes": size, "large": {}}
    with bench.folder("asking") as at:
        bench.say(f"asking: {count} small files")
        small = [at / f"small{number:05}" for number in range(count)]
        for path in small:
            path.write_bytes(b"x" * SMALL_BYTES)
        for path in small:
            page_cache.read_in(path)
        found["small"] = _ask(bench, small, bench.runs)
        large = at / "large"
        bench.say(f"asking: a file of {size >> 20} MiB")
        corpus.write_text(large, size, bench.seed)
        for name, prepare in _states(size, bench).items():
            page_cache.evict(large)
            prepare(large)
            found["large"][name] = _ask(bench, [large], bench.runs)
    return found


def _spread(passes: list[float]) -> Spread:
    return Spread.of(passes)


def _rows(data: Data) -> list[Row]:
    rows = []
    ways = (
        ("open_file", "open file"),
        ("opened", "opened for it"),
        ("path", "by path, opened only if that does no harm"),
    )
    for way, label in ways:
        spread = _spread(data["small"][way])
        rows.append(
            Row(
                what=f"asking about a small cached file, {label}",
                ours=f"{spread.median * 1e6:.2f} µs ({spread.least * 1e6:.2f} to "
                f"{spread.most * 1e6:.2f})",
                peer="",
                reached=f"{spread.median * 1e6:.2f} µs",
                target=f"< {SMALL_TARGET_S * 1e6:g} µs",
                met=spread.median < SMALL_TARGET_S,
            )
        )
    for state, answer in data["large"].items():
        spread = _spread(answer["open_file"])
        uniform = state in {"in memory", "not in memory"}
        goal = UNIFORM_TARGET_S if uniform else MIXED_TARGET_S
        rows.append(
            Row(
                what=f"asking about {data['large_bytes'] >> 20} MiB, {state}",
                ours=f"{spread.median * 1e3:.3g} ms ({spread.least * 1e3:.3g} to "
                f"{spread.most * 1e3:.3g})",
                peer="",
                reached=f"{spread.median * 1e3:.3g} ms",
                target=f"< {goal * 1e3:g} ms",
                met=spread.median < goal,
            )
        )
    return rows


def _plots(data: Data) -> dict[str, str]:
    bars = []
    for state, answer in data["large"].items():
        ms = _spread([value * 1e3 for value in answer["open_file"]])
        goal = UNIFORM_TARGET_S if state in {"in memory", "not in memory"} else MIXED_TARGET_S
        bars.append(svg.Bar(state, ms.median, ms.least, ms.most, goal * 1e3))
    title = f"Asking where {data['large_bytes'] >> 20} MiB are"
    return {"asking": svg.bars(title, "milliseconds; the mark is the target", bars)}


EXPERIMENTS = (Experiment("asking", "Asking", _measure, _rows, _plots),)
