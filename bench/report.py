"""The plots and the table of README.md, made of what was measured."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench import Data, Experiment, Row

BEGIN = "<!-- results: written by bench/run -->"
END = "<!-- end of results -->"


def save(out: Path, name: str, conditions: Data, data: Data) -> None:
    """Keeps a measurement with the conditions it was made under."""
    out.mkdir(exist_ok=True)
    text = json.dumps({"conditions": conditions, "data": data}, indent=1, ensure_ascii=False)
    (out / f"{name}.json").write_text(text + "\n")


def write(out: Path, bench_folder: Path, experiments: Sequence[Experiment]) -> None:
    """Draws the plots and replaces the results in README.md by those of all saved measurements.

    Of an experiment that was not measured here, what README.md says stays.
    """
    readme = bench_folder / "README.md"
    said = _sections(readme)
    parts = []
    plots = bench_folder / "plots"
    plots.mkdir(exist_ok=True)
    for experiment in experiments:
        path = out / f"{experiment.name}.json"
        if not path.exists():
            if experiment.title in said:
                parts.append(said[experiment.title])
            continue
        saved = json.loads(path.read_text())
        drawn = experiment.plots(saved["data"])
        for name, text in drawn.items():
            (plots / f"{name}.svg").write_text(text)
        rows = experiment.rows(saved["data"])
        parts.append(_section(experiment.title, saved["conditions"], rows, list(drawn)))
    _replace(readme, "\n".join(parts))


def _sections(readme: Path) -> dict[str, str]:
    """The results that README.md has, by their titles."""
    results = readme.read_text().split(BEGIN)[1].split(END)[0]
    sections = results.split("### ")[1:]
    return {section.split("\n", 1)[0]: "### " + section.rstrip() + "\n" for section in sections}


def _section(title: str, conditions: Data, rows: Sequence[Row], plots: Sequence[str]) -> str:
    said = "; ".join(f"{name}: {value}" for name, value in conditions.items())
    lines = [
        f"### {title}",
        "",
        said + ".",
        "",
        "| what | ours | peer | reached | target | |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        met = {True: "reached", False: "**missed**", None: ""}[row.met]
        cells = (row.what, row.ours, row.peer, row.reached, row.target, met)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines.append("")
    lines += [f"![{name}](plots/{name}.svg)" for name in plots]
    return "\n".join(lines) + "\n"


def _replace(readme: Path, results: str) -> None:
    text = readme.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    readme.write_text(f"{before}{BEGIN}\n\n{results}\n{END}{after}")
