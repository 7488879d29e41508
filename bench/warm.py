"""Everything in memory: one large text, a tree of small files, and starting at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import corpus
import measure
import page_cache
import svg
from bench import Bench, Data, Experiment, Row
from measure import Sample, Spread

if TYPE_CHECKING:
    from pathlib import Path

    from peers import Peers

OURS = "nearfirst"
TEXT_BYTES = 1 << 30
QUICK_TEXT_BYTES = 32 << 20
TREE_FILES = 50_000
QUICK_TREE_FILES = 1_000
LINES_TARGET = 1.8
WORDS_TARGET = 8
START_RUNS = 5
START_MARGIN_S = 5e-3
# No literal in it is long enough to jump to.
REGEX = r"\b[a-z]{4}[aeiou]d [0-9]{4,5}\b"


@dataclass(frozen=True)
class Race:
    """The same job for us and one peer."""

    name: str
    peer: str
    ours: list[str | Path]
    theirs: list[str | Path]
    target: float | None
    locale: str = "C.UTF-8"


def _wc(peers: Peers, option: str, target: float, locale: str = "C.UTF-8") -> Race:
    options = [option] if option else []
    named = f"wc {option}".strip() + ("" if option == "-l" else f", {locale}")
    ours: list[str | Path] = [peers.nearfirst, "wc", *options]
    return Race(named, "GNU wc", ours, [peers.wc, *options], target, locale)


def _grep(peers: Peers, name: str, *arguments: str, peer: str = "ripgrep") -> Race:
    ours: list[str | Path] = [peers.nearfirst, "grep", *arguments]
    rival: list[str | Path] = [peers.rg, "--no-config"] if peer == "ripgrep" else [peers.grep]
    target = LINES_TARGET if peer == "ripgrep" else None
    return Race(f"grep, {name}", peer, ours, [*rival, *arguments], target)


def _line_races(peers: Peers) -> list[Race]:
    return [
        _wc(peers, "-l", LINES_TARGET),
        _grep(peers, "rare literal", corpus.MILESTONE),
        _grep(peers, "rare literal, line numbers", "-n", corpus.MILESTONE),
        _grep(peers, "frequent literal, counted", "-c", corpus.COMMON),
        _grep(peers, "frequent literal, printed", corpus.COMMON),
        _grep(peers, "regex", "-c", REGEX),
        _grep(peers, "rare literal", corpus.MILESTONE, peer="GNU grep"),
    ]


def _word_races(peers: Peers) -> list[Race]:
    # Of `wc -m` in the locale C both know the answer from the size.
    return [
        _wc(peers, "", WORDS_TARGET),
        _wc(peers, "", WORDS_TARGET, "C"),
        _wc(peers, "-m", WORDS_TARGET),
    ]


def _tree_races(peers: Peers) -> list[Race]:
    grep: list[str | Path] = [peers.nearfirst, "grep"]
    rg: list[str | Path] = [peers.rg, "--no-config"]
    find: list[str | Path] = [peers.nearfirst, "find", "."]
    gnu: list[str | Path] = [peers.find, "."]
    name = ["-name", "*7.txt"]
    size = ["-type", "f", "-size", "+6k"]
    return [
        Race("tree: grep", "ripgrep", [*grep, corpus.MILESTONE], [*rg, corpus.MILESTONE], 1),
        Race("tree: grep -l, frequent", "ripgrep", [*grep, "-l", "ra"], [*rg, "-l", "ra"], 1),
        Race("tree: find -name", "GNU find", [*find, *name], [*gnu, *name], 1),
        Race("tree: find -size", "GNU find", [*find, *size], [*gnu, *size], 1),
    ]


def _race(bench: Bench, race: Race, at: Path, files: list[str | Path], runs: int) -> Data:
    bench.say(race.name)
    env = {"LC_ALL": race.locale, "NEARFIRST_STATE": str(bench.work / "state")}

    def once(name: str, _number: int) -> Sample:
        for path in files:
            _make_warm(at / path)
        command = race.ours if name == OURS else race.theirs
        return measure.run([*command, *files], env=env, unordered=not files, folder=at)

    for name in (OURS, race.peer):
        once(name, 0)
    samples = measure.interleaved([OURS, race.peer], runs, bench.rng(race.name), once, alone=True)
    as_json = {name: [sample.as_json() for sample in of] for name, of in samples.items()}
    return {
        "name": race.name,
        "peer": race.peer,
        "target": race.target,
        "samples": as_json,
        "same_output": measure.same_output(as_json),
    }


def _make_warm(path: Path) -> None:
    """Some machines take idle pages away; a run on half a file in memory would say nothing."""
    if page_cache.resident_bytes(path) < path.stat().st_size:
        page_cache.read_in(path)


def _measure_text(bench: Bench, races: list[Race]) -> Data:
    size = QUICK_TEXT_BYTES if bench.quick else TEXT_BYTES
    with bench.folder("text") as at:
        corpus.write_text(at / "text", size, bench.seed)
        page_cache.flush(at / "text")
        run = [_race(bench, race, at, ["text"], bench.runs) for race in races]
    return {"bytes": size, "races": run}


def _measure_lines(bench: Bench) -> Data:
    return _measure_text(bench, _line_races(bench.peers))


def _measure_words(bench: Bench) -> Data:
    return _measure_text(bench, _word_races(bench.peers))


def _measure_tree(bench: Bench) -> Data:
    files = QUICK_TREE_FILES if bench.quick else TREE_FILES
    with bench.folder("tree") as at:
        corpus.write_tree(at, files, bench.seed)
        races = [_race(bench, race, at, [], bench.runs) for race in _tree_races(bench.peers)]
    return {"files": files, "races": races}


def _measure_start(bench: Bench) -> Data:
    tiny = "tiny"
    own = bench.peers.nearfirst
    commands: dict[str, list[str | Path]] = {
        "ripgrep": [bench.peers.rg, "--no-config", "line", tiny],
        "grep": [own, "grep", "line", tiny],
        "wc": [own, "wc", tiny],
        "find": [own, "find", tiny],
        "sleds": [own, "sleds", tiny],
        "order": [own, "order", tiny],
        "devices": [own, "devices"],
        "GNU wc": [bench.peers.wc, tiny],
    }
    with bench.folder("start") as at:
        (at / tiny).write_text("one line\n")
        env = {"NEARFIRST_STATE": str(bench.work / "state")}

        def once(name: str, _number: int) -> Sample:
            return measure.run(commands[name], env=env, folder=at)

        for name in commands:
            once(name, 0)
        runs = START_RUNS * bench.runs
        samples = measure.interleaved(list(commands), runs, bench.rng("start"), once, alone=True)
    return {"samples": {name: [s.as_json() for s in of] for name, of in samples.items()}}


def _race_rows(data: Data) -> list[Row]:
    rows = []
    for race in data["races"]:
        ours, theirs = race["samples"][OURS], race["samples"][race["peer"]]
        ratio, goal = measure.ratios(theirs, ours), race["target"]
        different = "" if race["same_output"] else " (outputs differ!)"
        rows.append(
            Row(
                what=race["name"] + different,
                ours=measure.seconds(ours).as_time(),
                peer=f"{race['peer']} {measure.seconds(theirs).as_time()}",
                reached=ratio.as_ratio(),
                target=f"≥ {goal:g}x" if goal else "",
                met=ratio.median >= goal and race["same_output"] if goal else None,
            )
        )
    return rows


def _race_plots(name: str, title: str, data: Data) -> dict[str, str]:
    bars = []
    for race in data["races"]:
        ratio = measure.ratios(race["samples"][race["peer"]], race["samples"][OURS])
        label = f"{race['name']} / {race['peer']}"
        bars.append(svg.Bar(label, ratio.median, ratio.low, ratio.high, race["target"]))
    return {name: svg.bars(title, "times faster (median, quartiles); the mark is the target", bars)}


def _line_plots(data: Data) -> dict[str, str]:
    return _race_plots("warm-lines", f"Lines of {data['bytes'] >> 20} MiB in memory", data)


def _word_plots(data: Data) -> dict[str, str]:
    return _race_plots("warm-words", f"Words of {data['bytes'] >> 20} MiB in memory", data)


def _tree_plots(data: Data) -> dict[str, str]:
    return _race_plots("warm-tree", f"A tree of {data['files']:,} small files in memory", data)


def _start_rows(data: Data) -> list[Row]:
    samples = data["samples"]
    base = measure.seconds(samples["ripgrep"])
    rows = []
    for name, of in samples.items():
        if name in {"ripgrep", "GNU wc"}:
            continue
        more = Spread.of(
            [a["seconds"] - b["seconds"] for a, b in zip(of, samples["ripgrep"], strict=True)]
        )
        rows.append(
            Row(
                what=f"start of {name} on a tiny file",
                ours=measure.seconds(of).as_time(),
                peer=f"ripgrep {base.as_time()}",
                reached=f"{more.median * 1e3:+.2g} ms",
                target=f"≤ +{START_MARGIN_S * 1e3:g} ms",
                met=more.median <= START_MARGIN_S,
            )
        )
    return rows


def _start_plots(data: Data) -> dict[str, str]:
    bars = []
    for name, of in data["samples"].items():
        ms = Spread.of([sample["seconds"] * 1e3 for sample in of])
        bars.append(svg.Bar(name, ms.median, ms.low, ms.high))
    return {"start": svg.bars("From start to end on a tiny file", "milliseconds", bars)}


EXPERIMENTS = (
    Experiment("warm-lines", "Lines of a large warm text", _measure_lines, _race_rows, _line_plots),
    Experiment("warm-words", "Words of a large warm text", _measure_words, _race_rows, _word_plots),
    Experiment(
        "warm-tree", "A tree of small files in memory", _measure_tree, _race_rows, _tree_plots
    ),
    Experiment("start", "Starting", _measure_start, _start_rows, _start_plots),
)
