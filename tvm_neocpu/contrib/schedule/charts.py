"""Charts of memory over time, as inline SVG: steps, a scale, a legend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from tvm_neocpu.contrib.explain.page import colours_of
from tvm_neocpu.contrib.schedule.experiment import Experiment

WIDTH, HEIGHT = 900.0, 200.0
LEFT, TOP, BOTTOM = 70.0, 12.0, 26.0

# Where a line goes on at a new height: (x, y), and the x of its end.
Line = tuple[Sequence[tuple[float, float]], float]


def buffer_chart(found: Experiment) -> str:
    """Fast memory that each group of the best partition takes, over cycles."""
    at, points = 0.0, []
    for price in found.best.prices:
        points.append((at, price.buffer_bytes / 1024))
        at += price.cycles
    top = max([found.capacity / 1024, *(y for _, y in points)])
    marks = {f"buffer {found.capacity / 1024:.0f} KiB": found.capacity / 1024}
    return _chart({found.best.partitioner: (points, at)}, top, "KiB", f"{at:.0f} cycles", marks)


def live_chart(found: Experiment) -> str:
    """Bytes alive at each step of each order, every tensor whole."""
    lines: dict[str, Line] = {
        each.order: ([(step, size / 1e6) for step, size in enumerate(each.alive)], len(each.alive))
        for each in found.memory
    }
    top = max((max(each.alive, default=0) for each in found.memory), default=0) / 1e6
    return _chart(lines, top, "MB", f"{len(found.graph)} steps", {})


def _chart(
    lines: Mapping[str, Line], top: float, unit: str, end: str, marks: Mapping[str, float]
) -> str:
    top = top or 1.0
    wide, high = WIDTH + LEFT + 12, HEIGHT + TOP + BOTTOM
    colours = colours_of(lines)
    parts = [
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" role="img" width="{wide:.0f}"'
        f' height="{high:.0f}" viewBox="0 0 {wide:.0f} {high:.0f}">',
        f"<title>{escape(', '.join(lines))}: {escape(unit)} over {escape(end)}</title>",
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = TOP + HEIGHT * (1 - share)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}h{WIDTH}"/>')
        figure = _figure(share * top)
        parts.append(f'<text class="scale" x="{LEFT - 6}" y="{y + 4:.1f}">{figure}</text>')
    for name, value in marks.items():
        y = TOP + HEIGHT * (1 - value / top)
        parts.append(f'<path class="mark" d="M{LEFT} {y:.1f}h{WIDTH}"/>')
        parts.append(f'<text x="{LEFT + 6}" y="{y + 12:.1f}">{escape(name)}</text>')
    for name, (points, last) in lines.items():
        path = _steps(points, last, top)
        parts.append(f'<path class="line" style="stroke:{colours[name]}" d="{path}"/>')
    base = TOP + HEIGHT + 18
    parts.append(f'<text class="scale" x="{LEFT + WIDTH}" y="{base}">{escape(end)}</text>')
    x = LEFT
    for name, colour in colours.items():
        parts.append(f'<rect x="{x}" y="{base - 9}" width="10" height="10" style="fill:{colour}"/>')
        parts.append(f'<text x="{x + 14}" y="{base}">{escape(name)}</text>')
        x += 30 + 7 * len(name)
    parts.append(f'<text class="scale" x="{LEFT - 6}" y="{base}">{escape(unit)}</text>')
    return "\n".join([*parts, "</svg>"])


def _steps(points: Sequence[tuple[float, float]], last: float, top: float) -> str:
    """A line that keeps each height until the next point."""
    last = last or 1.0
    path = f"M{LEFT} {TOP + HEIGHT}"
    for x, y in points:
        path += f"H{LEFT + WIDTH * x / last:.1f}V{TOP + HEIGHT * (1 - y / top):.1f}"
    return f"{path}H{LEFT + WIDTH}"


def _figure(value: float) -> str:
    """Three digits, or all before the point: 0.0122, 26.2, 1536."""
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"
