"""Plots as small SVG texts: lines with a quartile band, distributions, scatters, bars.

They follow the reader's light or dark scheme, also when shown as an image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_WIDTH, _HEIGHT = 640, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 44, 76
_TICKS = 6
_LEGEND_STEP = 150
_STYLE = """
  svg { font: 13px system-ui, sans-serif; background: #fff; color: #222 }
  .frame { stroke: #8888; fill: none } .grid { stroke: #8883 } text { fill: currentColor }
  .title { font-weight: 600 } .target { stroke: currentColor; stroke-dasharray: 5 4; opacity: .6 }
  .s0 { color: #1f6fd0 } .s1 { color: #d0561f } .s2 { color: #23884d } .s3 { color: #8650b8 }
  .line { stroke: currentColor; stroke-width: 2; fill: none }
  .band { fill: currentColor; opacity: .18 }
  .goal { stroke: currentColor; stroke-width: 2.5 }
  .dot { fill: currentColor } .faint { fill: currentColor; opacity: .55 }
  @media (prefers-color-scheme: dark) {
    svg { background: #14171a; color: #dde1e5 }
    .s0 { color: #6fb0ff } .s1 { color: #ff9d6b } .s2 { color: #6fd39a } .s3 { color: #c9a2f2 }
  }
"""


@dataclass(frozen=True)
class Point:
    """A value and, for a band, what lies around it."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """One contestant's points."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Axis:
    """What is along one side."""

    label: str
    logarithmic: bool = False
    from_zero: bool = True


@dataclass(frozen=True)
class Target:
    """A line to reach."""

    y: float
    label: str


@dataclass
class Plot:
    """What is shown; the functions of this module turn it into SVG."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    targets: Sequence[Target] = field(default_factory=tuple)


def lines(plot: Plot) -> str:
    """Lines with markers, and a band between each point's low and high."""
    frame = _Frame(plot)
    for number, series in enumerate(plot.series):
        banded = [p for p in series.points if p.low is not None and p.high is not None]
        if banded:
            edge = [(p.x, p.high or 0.0) for p in banded]
            edge += [(p.x, p.low or 0.0) for p in reversed(banded)]
            frame.add(f'<path class="band s{number}" d="{frame.path(edge)}Z"/>')
        drawn = frame.path([(p.x, p.y) for p in series.points])
        frame.add(f'<path class="line s{number}" d="{drawn}"/>')
        frame.dots(series.points, f"dot s{number}", 3.2)
    return frame.finished()


def steps(plot: Plot) -> str:
    """Distributions: the share of runs that took at most so long."""
    frame = _Frame(plot)
    for number, series in enumerate(plot.series):
        drawn = [(series.points[0].x, 0.0)]
        for before, point in zip([series.points[0], *series.points], series.points, strict=False):
            drawn += [(point.x, drawn[-1][1] if before is point else before.y), (point.x, point.y)]
        frame.add(f'<path class="line s{number}" d="{frame.path(drawn)}"/>')
    return frame.finished()


def distribution(name: str, values: Sequence[float]) -> Series:
    """The points of [`steps`] for some values."""
    ordered = sorted(values)
    return Series(name, [Point(x, (i + 1) / len(ordered)) for i, x in enumerate(ordered)])


def scatter(plot: Plot, *, diagonal: bool = False) -> str:
    """Dots, with a line where both values are the same if `diagonal`."""
    frame = _Frame(plot)
    if diagonal:
        least = max(frame.x_range[0], frame.y_range[0])
        most = min(frame.x_range[1], frame.y_range[1])
        frame.add(f'<path class="target" d="{frame.path([(least, least), (most, most)])}"/>')
    for number, series in enumerate(plot.series):
        frame.dots(series.points, f"faint s{number}", 3.6)
    return frame.finished()


@dataclass(frozen=True)
class Bar:
    """One labelled value, with what lies around it and what was to be reached."""

    label: str
    value: float
    low: float
    high: float
    target: float | None = None


def bars(title: str, unit: str, of: Sequence[Bar]) -> str:
    """Horizontal bars from zero, each with a whisker and a mark at its target."""
    left, step, top = 250, 27, 56
    height = top + step * len(of) + 16
    most = max(max(bar.high, bar.target or 0.0) for bar in of) * 1.16
    scale = (_WIDTH - left - _RIGHT) / most
    body = [_text_element(16, 22, title, "start", "title"), _text_element(16, 41, unit, "start")]
    for number, bar in enumerate(of):
        y = top + number * step
        middle = y + 9
        whisker = f"M{left + bar.low * scale:.1f} {middle}H{left + bar.high * scale:.1f}"
        width = f'{bar.value * scale:.1f}" height="18"'
        body += [
            _text_element(left - 8, y + 13, bar.label, "end"),
            f'<rect class="faint s0" x="{left}" y="{y}" width="{width}/>',
            f'<path class="line s0" d="{whisker}"/>',
        ]
        if bar.target is not None:
            body.append(f'<path class="goal" d="M{left + bar.target * scale:.1f} {y - 3}v24"/>')
        end = left + max(bar.value, bar.high, bar.target or 0.0) * scale + 6
        body.append(_text_element(end, y + 13, f"{bar.value:.3g}", "start"))
    return _document(title, height, body)


class _Frame:
    def __init__(self, plot: Plot) -> None:
        self.plot = plot
        points = [point for series in plot.series for point in series.points]
        ys = [y for p in points for y in (p.y, p.low, p.high) if y is not None]
        ys += [target.y for target in plot.targets]
        self.x_range = _range([p.x for p in points], plot.x)
        self.y_range = _range(ys, plot.y)
        self._body: list[str] = []
        self._axes()
        self._legend()

    def add(self, element: str) -> None:
        self._body.append(element)

    def path(self, points: Sequence[tuple[float, float]]) -> str:
        return "M" + "L".join(f"{self._x(x):.1f} {self._y(y):.1f}" for x, y in points)

    def dots(self, points: Sequence[Point], kind: str, radius: float) -> None:
        for p in points:
            at = f'cx="{self._x(p.x):.1f}" cy="{self._y(p.y):.1f}"'
            self.add(f'<circle class="{kind}" {at} r="{radius}"/>')

    def finished(self) -> str:
        return _document(self.plot.title, _HEIGHT, self._body)

    def _x(self, value: float) -> float:
        return _LEFT + _share(value, self.x_range, self.plot.x) * (_WIDTH - _LEFT - _RIGHT)

    def _y(self, value: float) -> float:
        span = _HEIGHT - _TOP - _BOTTOM
        return _HEIGHT - _BOTTOM - _share(value, self.y_range, self.plot.y) * span

    def _axes(self) -> None:
        bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
        for value in _ticks(self.x_range, self.plot.x):
            x = self._x(value)
            self.add(f'<path class="grid" d="M{x:.1f} {_TOP}V{bottom}"/>')
            self._text(x, bottom + 17, _number(value))
        for value in _ticks(self.y_range, self.plot.y):
            y = self._y(value)
            self.add(f'<path class="grid" d="M{_LEFT} {y:.1f}H{right}"/>')
            self._text(_LEFT - 7, y + 4, _number(value), anchor="end")
        size = f'width="{right - _LEFT}" height="{bottom - _TOP}"'
        self.add(f'<rect class="frame" x="{_LEFT}" y="{_TOP}" {size}/>')
        self._text(_LEFT, 20, self.plot.title, anchor="start", kind="title")
        self._text(_LEFT, 37, self.plot.y.label, anchor="start")
        self._text((_LEFT + right) / 2, bottom + 36, self.plot.x.label)
        for target in self.plot.targets:
            y = self._y(target.y)
            self.add(f'<path class="target" d="M{_LEFT} {y:.1f}H{right}"/>')
            self._text(right - 5, y - 5, target.label, anchor="end")

    def _legend(self) -> None:
        for number, series in enumerate(self.plot.series):
            x, y = _LEFT + number * _LEGEND_STEP, _HEIGHT - 14
            self.add(f'<rect class="dot s{number}" x="{x}" y="{y - 10}" width="11" height="11"/>')
            self._text(x + 17, y, series.name, anchor="start")

    def _text(
        self, x: float, y: float, text: str, *, anchor: str = "middle", kind: str = ""
    ) -> None:
        self.add(_text_element(x, y, text, anchor, kind))


def _text_element(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    styled = f' class="{kind}"' if kind else ""
    at = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f"<text{styled} {at}>{escape(text)}</text>"


def _document(title: str, height: int, body: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">'
    elements = "\n".join(body)
    named = f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>"
    return f"{head}\n{named}\n{elements}\n</svg>\n"


def _range(values: Sequence[float], axis: Axis) -> tuple[float, float]:
    least, most = min(values), max(values)
    if axis.logarithmic:
        return least / 1.15, most * 1.15
    if axis.from_zero:
        least = 0.0
    margin = (most - least or 1.0) * 0.04
    return least if axis.from_zero else least - margin, most + margin


def _share(value: float, bounds: tuple[float, float], axis: Axis) -> float:
    scale: Callable[[float], float] = math.log10 if axis.logarithmic else float
    least, most = map(scale, bounds)
    return (scale(max(value, bounds[0])) - least) / (most - least)


def _ticks(bounds: tuple[float, float], axis: Axis) -> list[float]:
    least, most = bounds
    if axis.logarithmic:
        decades = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
        steps_of_ten = (1, 2, 5) if len(decades) <= _TICKS // 2 else (1,)
        ticks = [step * 10.0**decade for decade in decades for step in steps_of_ten]
        return [tick for tick in ticks if least <= tick <= most]
    rough = (most - least) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= rough)
    first = math.ceil(least / step)
    return [step * n for n in range(first, math.floor(most / step) + 1)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"  # noqa: PLR2004
