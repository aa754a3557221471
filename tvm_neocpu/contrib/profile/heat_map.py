"""The network of a profile as an inline SVG, its nodes coloured by their share of the time."""

from __future__ import annotations

from html import escape

from tvm_neocpu.contrib.explain.layered import Point, draw
from tvm_neocpu.contrib.explain.svg import edge_path, short_label
from tvm_neocpu.contrib.profile.profile_network import Profile, ProfileRow
from tvm_neocpu.core.conv_graph import GraphNode, NodeKind

_BOX = (226.0, 44.0)
_NARROW = 110.0  # of a join or boundary: no time of its own is known
_MARGIN = 16.0
# Degrees of hue and per cent of lightness, from no time to the slowest node's.
_COLD, _HOT = (205.0, 92.0), (8.0, 55.0)


def heat_map(profile: Profile) -> str:
    """The drawing; a sentence where the network's graph has no node."""
    if profile.graph is None or not profile.graph.nodes:
        return "<p>The network has no node that chooses a layout.</p>"
    nodes, edges = profile.graph.nodes, profile.graph.edges
    drawing = draw([node.id for node in nodes], [(edge.src, edge.dst) for edge in edges], _BOX)
    width, height = drawing.width + 2 * _MARGIN, drawing.height + 2 * _MARGIN
    slowest = max((row.call.seconds for row in profile.rows_of.values()), default=0.0)
    parts = [
        f'<svg id="network" role="img" viewBox="{-_MARGIN} {-_MARGIN} {width:.0f} {height:.0f}"'
        f' style="width:{width:.0f}px;max-width:none">',
        *(
            f'<path d="{edge_path(points)}" fill="none" stroke="#8795a3" stroke-width="1.5"/>'
            for points in drawing.routes.values()
        ),
    ]
    for node in nodes:
        row = profile.rows_of.get(node.id)
        share = row.call.seconds / slowest if row is not None and slowest else 0.0
        parts.append(_box(node, row, drawing.centres[node.id], share, profile.wall))
    return "\n".join([*parts, "</svg>"])


def _box(node: GraphNode, row: ProfileRow | None, centre: Point, share: float, wall: float) -> str:
    (x, y), height = centre, _BOX[1]
    width = _BOX[0] if node.kind is NodeKind.CONV else _NARROW
    first, second = node.label, ""
    if row is not None:
        first = row.node or node.label
        second = f"{row.call.seconds * 1e3:.3f} ms, {row.call.seconds / wall:.1%}"
    fill = _colour(share) if row is not None else "none"
    return (
        f'<g class="node" data-node="{escape(node.id)}"><title>{escape(node.label)}</title>'
        f'<rect x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width}" height="{height}"'
        f' rx="6" fill="{fill}" stroke="#8795a3"/>'
        f"{_text(x, y - (5 if second else -4), first, row)}"
        f"{_text(x, y + 14, second, row) if second else ''}</g>"
    )


def _text(x: float, y: float, text: str, row: ProfileRow | None) -> str:
    """Dark on a colour, the page's own where there is none."""
    dark = ' style="fill:#1d2733"' if row is not None else ""
    words = escape(short_label(text))
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle"{dark}>{words}</text>'


def _colour(share: float) -> str:
    hue, light = (cold + (hot - cold) * share for cold, hot in zip(_COLD, _HOT, strict=True))
    return f"hsl({hue:.0f} 85% {light:.0f}%)"
