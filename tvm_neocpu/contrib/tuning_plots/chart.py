"""A chart as inline SVG: axes, steps, points. Colours are the page's of `contrib/explain`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]

WIDTH, HEIGHT = 760.0, 420.0
LEFT, RIGHT, TOP, BOTTOM = 70.0, 16.0, 14.0, 46.0
# Ticks of an axis, about.
TICKS = 6


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic axis from ``low`` to ``high``, ``low < high``."""

    title: str
    low: float
    high: float
    log: bool = False

    @classmethod
    def of(cls, title: str, values: Sequence[float], log: bool = False) -> Axis:
        """An axis that holds all values; those of a logarithmic axis are above 0."""
        low, high = (min(values), max(values)) if values else (1.0, 10.0)
        if log:
            return cls(title, low / 1.1, high * 1.1, log)
        return cls(title, min(0.0, low), high if high > min(0.0, low) else 1.0)

    def share(self, value: float) -> float:
        """Where the value lies, from 0 at ``low`` to 1 at ``high``."""
        low, high, at = ((math.log(x) if self.log else x) for x in (self.low, self.high, value))
        return (at - low) / (high - low)

    def ticks(self) -> list[float]:
        """Round values on the axis."""
        if self.log:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            found = [k * 10.0**e for e in decades for k in (1, 2, 5)]
        else:
            raw = (self.high - self.low) / TICKS
            unit = 10.0 ** math.floor(math.log10(raw))
            step = next(k * unit for k in (1, 2, 5, 10) if k * unit >= raw)
            first = math.ceil(self.low / step)
            found = [place * step for place in range(first, first + 2 * TICKS + 1)]
        return [value for value in found if self.low <= value <= self.high]


def steps(
    x: Axis, y: Axis, curves: Mapping[str, Sequence[Point]], colours: Mapping[str, str]
) -> str:
    """One falling staircase for each name."""
    marks = []
    for name, points in curves.items():
        places = [_place(x, y, point) for point in points]
        path = f"M{places[0][0]:.1f} {places[0][1]:.1f}"
        path += "".join(f"H{px:.1f}V{py:.1f}" for px, py in places[1:])
        marks.append(
            f'<path fill="none" stroke="{colours[name]}" stroke-width="2" d="{path}">'
            f"<title>{escape(name)}</title></path>"
        )
    return _drawn(x, y, marks)


def scatter(
    x: Axis, y: Axis, groups: Mapping[str, Sequence[Point]], colours: Mapping[str, str]
) -> str:
    """Points, and the line on which both axes are equal."""
    low, high = max(x.low, y.low), min(x.high, y.high)
    marks = []
    if low < high:
        (x1, y1), (x2, y2) = _place(x, y, (low, low)), _place(x, y, (high, high))
        line = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
        marks.append(f'<line {line} stroke="currentColor" stroke-opacity="0.4"/>')
    for name, points in groups.items():
        dots = "".join(
            f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.5"/>'
            for px, py in (_place(x, y, point) for point in points)
        )
        title = f"<title>{escape(name)}</title>"
        marks.append(f'<g fill="{colours[name]}" fill-opacity="0.55">{title}{dots}</g>')
    return _drawn(x, y, marks)


def _place(x: Axis, y: Axis, point: Point) -> Point:
    across = LEFT + x.share(point[0]) * (WIDTH - LEFT - RIGHT)
    return across, HEIGHT - BOTTOM - y.share(point[1]) * (HEIGHT - TOP - BOTTOM)


def _drawn(x: Axis, y: Axis, marks: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{WIDTH:.0f}"'
            f' height="{HEIGHT:.0f}" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}"'
            ' font-family="system-ui, sans-serif" font-size="12" fill="currentColor">',
            f"<title>{escape(y.title)} over {escape(x.title)}</title>",
            *_axes(x, y),
            *marks,
            "</svg>",
        ]
    )


def _axes(x: Axis, y: Axis) -> Iterator[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    frame = f"M{LEFT} {TOP}V{bottom}H{right}"
    yield f'<path fill="none" stroke="currentColor" stroke-opacity="0.6" d="{frame}"/>'
    for value in x.ticks():
        across = _place(x, y, (value, y.low))[0]
        yield f'<text x="{across:.1f}" y="{bottom + 17}" text-anchor="middle">{value:g}</text>'
    for value in y.ticks():
        down = _place(x, y, (x.low, value))[1]
        yield (
            f'<path stroke="currentColor" stroke-opacity="0.12" d="M{LEFT} {down:.1f}H{right}"/>'
            f'<text x="{LEFT - 7}" y="{down + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
    middle = (LEFT + right) / 2
    yield f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x.title)}</text>'
    yield (
        f'<text transform="translate(14 {(TOP + bottom) / 2:.1f}) rotate(-90)"'
        f' text-anchor="middle">{escape(y.title)}</text>'
    )
