"""Filters, of Lei & Duchamp: a script of many small programs, each of which reads one far file."""

from __future__ import annotations

import hashlib
import shutil
from typing import TYPE_CHECKING

import svg
from bench import Bench, Data, Experiment, Row
from trees_pair import WITHOUT, conditions, gain
from trees_paper import (
    HOW,
    NEVER_SLOWER_TARGET,
    Remote,
    Work,
    cell,
    cpu_rows,
    linked_rows,
    links,
    series,
)

if TYPE_CHECKING:
    from pathlib import Path

BLOCK_BYTES = 4096
SIZES, SIZES_QUICK = (1, 2, 4, 8, 16, 32, 64), (1, 8)
"""In blocks, as in the paper."""
SMALL_BLOCKS_MAX = 2
"""The paper: "the delay caused by a sequential file access mainly lies in the first one or two
block reads"."""
SMALL_TARGET = 2.0
ROUNDS_MAX = 3
"""As the paper has: a round takes minutes on the radio."""
FILTERS = (
    "awk '{ n += NF } END { print n }'",
    "gzip -c",
    "sed 's/a/b/g'",
    "sort",
    "strings",
    "uniq",
    "base64",
    "grep -c storage",
    "grep -E 'sto(r|p)'",
    "grep -F storage",
    "cut -c 1-20",
    "tr a-z A-Z <",
    "wc",
    "od -x",
    "fold -w 40",
    "expand",
    "unexpand",
    "nl",
    "tac",
    "rev",
    "head -n 5",
    "tail -n 5",
    "cksum",
    "md5sum <",
    "fmt",
    "pr",
    "paste -s",
    "awk '{ print $1 }'",
    "sed -n '1~3p'",
    "sort -r",
    "grep -v storage",
    "cat",
)
"""awk, sed, sort, strings, uniq and the members of the grep family are the paper's; gzip and base64
do here what compress and uuencode did there."""


def _write_script(script: Path) -> None:
    lines = (
        f'{filter_} "$1"/in{number:02} >"$2"/out{number:02}\n'
        for number, filter_ in enumerate(FILTERS)
    )
    script.write_text("#!/bin/sh\n" + "".join(lines))
    script.chmod(0o755)


def _text(bench: Bench, size: int) -> bytes:
    rng = bench.rng(f"trees-filters {size}")
    words = ["storage", "a", "stop", "naming", "of", "server", "block"]
    lines = bytearray()
    while len(lines) < size:
        lines += " ".join(rng.choices(words, k=9)).encode() + b"\n"
    return bytes(lines[:size])


def _digest(folder: Path) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(folder.iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _point(bench: Bench, at: Path, remote: Remote, blocks: int) -> Data:
    for number in range(len(FILTERS)):
        (remote.source / f"in{number:02}").write_bytes(_text(bench, blocks * BLOCK_BYTES))
    remote.flush()
    script, out = at / "filters", at / "out"
    _write_script(script)

    def prepare() -> None:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()

    work = Work([script, remote.path, out], at, prepare, lambda: _digest(out))
    name = f"trees-filters: {remote.device.name}, {blocks} blocks"
    bench.say(name)
    return cell(bench, remote, work, name, min(bench.runs, ROUNDS_MAX))


def _measure(bench: Bench) -> Data:
    measured: dict[str, list[Data]] = {}
    for number, link in enumerate(links()):
        measured[link.name] = []
        for blocks in SIZES_QUICK if bench.quick else SIZES:
            with bench.folder("filters") as at:
                remote = Remote(bench.peers.slowfs, at / f"server{number}", link)
                samples = _point(bench, at, remote, blocks)
            measured[link.name].append({"blocks": blocks, "samples": samples})
    said = conditions(min(bench.runs, ROUNDS_MAX), devices=", ".join(map(str, links())))
    return {"links": measured, "conditions": said}


def _rows(data: Data) -> list[Row]:
    rows = []
    bandwidths = {link.name: link.bandwidth for link in links()}
    for link, points in data["links"].items():
        for point in points:
            blocks = point["blocks"]
            target = SMALL_TARGET if blocks <= SMALL_BLOCKS_MAX else NEVER_SLOWER_TARGET
            what = f"{link}, files of {blocks} block{'s' * (blocks > 1)}"
            rows += linked_rows(what, point["samples"], target, bandwidths[link])
        rows += cpu_rows(f"{link}, all sizes", [point["samples"] for point in points])
    return rows


def _plots(data: Data) -> dict[str, str]:
    plots = {}
    x = svg.Axis("size of each file, blocks of 4 KiB", logarithmic=True)
    ratios = []
    for link, points in data["links"].items():
        cells = [(point["blocks"], point["samples"]) for point in points]
        all_ways = [
            *(series(f"with {how}", cells, mode) for mode, how in HOW.items()),
            series("alone", cells, WITHOUT),
        ]
        title = f"Filters over {link} (Figure 7)"
        y = svg.Axis("seconds", logarithmic=True)
        name = f"trees-filters-{link.split()[0]}"
        plots[name] = svg.lines(svg.Plot(title, x, y, all_ways))
        for mode, how in HOW.items():
            gains = [(blocks, gain(samples, mode)) for blocks, samples in cells]
            points_of = [svg.Point(b, g.median, g.low, g.high) for b, g in gains]
            ratios.append(svg.Series(f"{link}, {how}", points_of))
    target = svg.Target(SMALL_TARGET, "to reach at small files")
    y = svg.Axis("times faster than alone")
    plots["trees-filters-gain"] = svg.lines(svg.Plot("Filters: gain", x, y, ratios, [target]))
    return plots


EXPERIMENTS = (
    Experiment(
        "trees-filters", "Access trees: Filters (Table 3, Figure 7)", _measure, _rows, _plots
    ),
)
