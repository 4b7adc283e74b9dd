"""Small pictures of rows, as SVG: curves over logarithmic message sizes, and bars."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 600, 320, 64, 32, 34, 44
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # distinguishable without seeing colours (Okabe and Ito, 2008)


def size(count: float) -> str:
    """Bytes with a unit: 1 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.4g} {unit}"
        count /= 1024
    raise AssertionError


def _open(height: int, title: str) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f"<title>{html.escape(title)}</title>",
        _text(12, 20, title, size=13),
    ]


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{html.escape(text)}</text>'


def curves(title: str, across: str, up: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Points by name, joined; both axes are logarithmic, and points at zero are left out."""
    shown = {name: [(x, y) for x, y in points if x > 0 and y > 0] for name, points in series.items()}
    every = [p for points in shown.values() for p in points] or [(1.0, 1.0)]
    low_x, high_x = math.log2(min(x for x, _ in every)), math.log2(max(x for x, _ in every))
    low_y, high_y = math.floor(math.log10(min(y for _, y in every))), math.ceil(math.log10(max(y for _, y in every)))
    high_x, high_y = max(high_x, low_x + 1), max(high_y, low_y + 1)

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + (math.log2(x) - low_x) / (high_x - low_x) * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - (math.log10(y) - low_y) / (high_y - low_y) * (_HEIGHT - _TOP - _BOTTOM),
        )

    out = _open(_HEIGHT, title)
    for power in range(low_y, high_y + 1):
        _, y = place(2.0**low_x, 10.0**power)
        out.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        out.append(_text(_LEFT - 6, y + 4, f"{10.0**power:g}", "end"))
    ticks = sorted({x for x, _ in every})
    for x in ticks[:: max(1, -(-len(ticks) // 7))]:
        out.append(_text(place(x, 10.0**low_y)[0], _HEIGHT - _BOTTOM + 16, size(x), "middle"))
    out.append(_text((_LEFT + _WIDTH) / 2, _HEIGHT - 8, f"{across}; upwards: {up}", "middle"))
    for number, (name, points) in enumerate(shown.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        at = [place(x, y) for x, y in points]
        if at:
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
            out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in at]
        if len(shown) > 1:
            out.append(f'<circle cx="{_LEFT + 12}" cy="{_TOP + 12 + 16 * number}" r="4" fill="{colour}"/>')
            out.append(_text(_LEFT + 22, _TOP + 16 + 16 * number, name))
    return "".join([*out, "</svg>"])


def bars(title: str, unit: str, values: Sequence[tuple[str, float, bool]]) -> str:
    """Horizontal bars: name, length, and whether it stands out."""
    height = _TOP + 22 * max(1, len(values)) + 30
    longest = max((value for _, value, _ in values), default=1.0) or 1.0
    out = _open(height, title)
    names = 180
    for number, (name, value, stands_out) in enumerate(values):
        y = _TOP + 22 * number
        length = value / longest * (_WIDTH - names - 90)
        out.append(_text(names - 6, y + 14, name, "end"))
        out.append(
            f'<rect x="{names}" y="{y + 3}" width="{length:.1f}" height="15" fill="{_COLOURS[1 if stands_out else 0]}"/>'
        )
        out.append(_text(names + length + 6, y + 14, f"{value:.4g}"))
    out.append(_text(names, height - 10, unit))
    return "".join([*out, "</svg>"])
