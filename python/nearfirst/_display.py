"""How sleds and sets look in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nearfirst._nearfirst import Set, Sled

# Told apart also without colour vision, on light and on dark ground.
_COLOURS = {"near": "#2a9d5c", "far": "#d99a1e", "cold": "#4a7fd4", "unknown": "#8a8a8a"}
_DONE, _FAILED, _LEFT = "#2a9d5c", "#c8453b", "#8a8a8a55"
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_ROWS_MAX = 20


def sleds(parts: Sequence[Sled]) -> str:
    """Show where the parts of a file are, as a bar, and what they cost, as a table."""
    if not parts:
        return "<div>no bytes</div>"
    bar = _bar(
        (part.length, _COLOURS[part.place], f"{part.place} on {part.device}, {_bytes(part.length)}")
        for part in parts
    )
    rows = "".join(_row(part) for part in parts[:_ROWS_MAX])
    more = len(parts) - _ROWS_MAX
    rest = f"<div>and {more} more</div>" if more > 0 else ""
    heads = ("", "from", "bytes", "place", "device", "first byte", "then")
    head = "".join(f"<th>{name}</th>" for name in heads)
    return f"<div>{bar}<table><tr>{head}</tr>{rows}</table>{rest}</div>"


def set_(members: Set) -> str:
    """Show how far a set is, as a bar, and what it is fetched from."""
    yielded, failed, is_whole = members._progress()  # noqa: SLF001
    if members.closed:
        return f"<div>{escape(repr(members))}</div>"
    known = max(members.known, yielded + failed)
    bar = _bar(
        [
            (yielded, _DONE, f"{yielded:,} members"),
            (failed, _FAILED, f"{failed:,} errors"),
            (known - yielded - failed, _LEFT, f"{known - yielded - failed:,} not yet"),
        ]
    )
    names = f"all of {known:,} names" if is_whole else f"{known:,} names known so far"
    said = f"{yielded:,} members yielded, {failed:,} errors, {names}"
    devices = "".join(
        _cells(escape(name), f"{in_flight:,} in flight", f"{_bytes(speed)}/s")
        for name, in_flight, speed in members._devices()  # noqa: SLF001
    )
    return f"<div>{bar}<div>{said}</div>{f'<table>{devices}</table>' if devices else ''}</div>"


def _bar(parts: Iterable[tuple[int, str, str]]) -> str:
    """Parts by their size, colour and title, beside each other."""
    parts = list(parts)
    label = escape("; ".join(title for size, _, title in parts[:_ROWS_MAX] if size))
    shown = "".join(
        f'<div title="{escape(title)}" style="flex:{size} 1 0;background:{colour}"></div>'
        for size, colour, title in parts
        if size
    )
    style = (
        "display:flex;height:14px;max-width:640px;margin:4px 0;overflow:hidden;border-radius:3px"
    )
    return f'<div role="img" aria-label="{label}" style="{style};background:{_LEFT}">{shown}</div>'


def _row(part: Sled) -> str:
    swatch = f'<div style="width:10px;height:10px;background:{_COLOURS[part.place]}"></div>'
    return _cells(
        swatch,
        f"{part.offset:,}",
        _bytes(part.length),
        part.place,
        escape(part.device),
        "?" if part.latency is None else _seconds(part.latency),
        "?" if part.bandwidth is None else f"{_bytes(part.bandwidth)}/s",
    )


def _cells(*cells: str) -> str:
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _bytes(count: float) -> str:
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:  # noqa: PLR2004
        count, unit = count / 1024, unit + 1
    return f"{count:.0f} B" if unit == 0 else f"{count:.3g} {_UNITS[unit]}"


def _seconds(time: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if time >= unit:
            return f"{time / unit:.3g} {name}"
    return f"{time / 1e-9:.3g} ns"
