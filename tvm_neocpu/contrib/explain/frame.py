"""What all drawings of networks share: the SVG around boxes and edges, edges, labels that fit."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import pairwise

from tvm_neocpu.contrib.explain.layered import Drawing, Point

MARGIN = 16.0


def framed(drawing: Drawing, title: str, parts: Iterable[str]) -> str:
    """The SVG around ``parts``, which lie where ``drawing`` has placed them."""
    width, height = drawing.width + 2 * MARGIN, drawing.height + 2 * MARGIN
    head = (
        f'<svg id="graph" xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}"'
        f' height="{height:.0f}" viewBox="{-MARGIN} {-MARGIN} {width:.0f} {height:.0f}">'
    )
    return "\n".join([head, f"<title>{escape(title)}</title>", *parts, "</svg>"])


def edge_path(points: tuple[Point, ...]) -> str:
    """An edge as SVG path data: vertical through each row, an S curve between rows."""
    steps = [f"M{points[0][0]:.1f} {points[0][1]:.1f}"]
    for number, ((x, y), (next_x, next_y)) in enumerate(pairwise(points)):
        if number % 2:
            steps.append(f"V{next_y:.1f}")
            continue
        middle = (y + next_y) / 2
        steps.append(f"C{x:.1f} {middle:.1f} {next_x:.1f} {middle:.1f} {next_x:.1f} {next_y:.1f}")
    return "".join(steps)


def short_label(label: str, longest: int) -> str:
    """What fits on a line of a box; its tooltip has the whole label."""
    label = label.replace("->", "→")
    return label if len(label) <= longest else label[: longest - 1] + "…"
