"""The network as an inline SVG.

A box is a node: its upper half has the colour of the layout that the node reads, its lower half
that of the layout it writes. A diamond on an edge is a layout transform. Where the network was
timed, a box has a third colour, from cold to hot. A thin edge carries what has no layout to decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape

from tvm_neocpu.contrib.explain import words
from tvm_neocpu.contrib.explain.frame import edge_path, framed, short_label
from tvm_neocpu.contrib.explain.layered import Drawing, Link, Point, draw
from tvm_neocpu.contrib.explain.timed import Timed, TimedNode
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.core.network.conv_graph import NodeKind
from tvm_neocpu.global_search.network.explain import Explanation, NodeRow, TransformRow

BOX = (226.0, 44.0)
CORNER = 6.0
# Max characters of a node's first line; its tooltip has the whole label.
MAX_LABEL = 30
# Width of a join or boundary: it decides little.
NARROW = 120.0


def network_svg(
    found: Explanation,
    layout_colours: Mapping[str, str],
    algorithm_colours: Mapping[str, str],
    names: Mapping[str, str] | None = None,
    timed: Timed | None = None,
) -> str:
    """The drawing. Each box has all colours as CSS properties; the page's style picks one.

    ``names`` are ONNX nodes by the ids of the graph's.
    """
    links = [(edge.src, edge.dst) for edge in found.graph.edges] + list(found.graph.flows)
    drawing = draw([row.node.id for row in found.nodes], links, BOX)
    rows = {row.node.id: row for row in found.nodes}
    moved = _transforms_by_link(found)
    slowest = max((row.option.seconds for row in found.nodes), default=0.0)
    parts = list(_edges(drawing, rows, layout_colours, moved, frozenset(found.graph.flows)))
    for row in found.nodes:
        option = row.option
        colours = {
            "reads": layout_colours[str(option.reads)],
            "writes": layout_colours[str(option.writes)],
            "algorithm": algorithm_colours[words.algorithm(row.node, option)],
        }
        share = option.seconds / slowest if slowest else 0.0
        time = timed.nodes.get(row.node.id) if timed else None
        if time is not None:
            colours["time"] = time.colour
        name = (names or {}).get(row.node.id, "")
        parts.append(_box(row, drawing.centres[row.node.id], colours, share, name, time))
    parts += _marks(drawing, moved)
    return framed(drawing, f"{plural(len(rows), 'node')} and the tensors between them", parts)


def _transforms_by_link(found: Explanation) -> dict[Link, list[TransformRow]]:
    moved: dict[Link, list[TransformRow]] = {}
    for row in found.transforms:
        for target in row.targets:
            moved.setdefault((row.source.id, target.id), []).append(row)
    return moved


def _edges(
    drawing: Drawing,
    rows: Mapping[str, NodeRow],
    colours: Mapping[str, str],
    moved: Mapping[Link, list[TransformRow]],
    flows: frozenset[Link],
) -> Iterator[str]:
    for link, points in drawing.routes.items():
        colour = colours[str(rows[link[0]].option.writes)]
        kind = "edge moved" if link in moved else "edge flow" if link in flows else "edge"
        yield (
            f'<path class="{kind}" data-from="{escape(link[0])}" data-to="{escape(link[1])}"'
            f' style="--writes:{colour}" d="{edge_path(points)}"/>'
        )


def _box(
    row: NodeRow,
    centre: Point,
    colours: Mapping[str, str],
    share: float,
    name: str,
    time: TimedNode | None,
) -> str:
    node, option = row.node, row.option
    is_conv = node.kind is NodeKind.CONV
    width, height = (BOX[0] if is_conv else NARROW), BOX[1]
    corner = CORNER if is_conv else height / 2
    (x, y), left, top = centre, centre[0] - width / 2, centre[1] - height / 2
    style = ";".join(f"--{name}:{colour}" for name, colour in colours.items())
    shape = f'x="{left:.1f}" y="{top:.1f}" width="{width}" height="{height}" rx="{corner}"'
    second = words.choice(node, option).replace("->", "→")
    if option.config is not None:
        second += f" · {words.ms(option.seconds)} ms"
    first = escape(short_label(name or node.label, MAX_LABEL))
    timed = ""
    if time is not None:
        timed = f'<text class="small time" x="{x:.1f}" y="{y + 13:.1f}">{escape(time.text)}</text>'
    kinds = f"node {node.kind.value}{' timed' if time is not None else ''}"
    return (
        f'<g class="{kinds}" data-node="{escape(node.id)}" tabindex="0"'
        f' style="{style}"><title>{escape(node.label)}</title>'
        f'<rect class="card" {shape}/>'
        f'<path class="reads" d="{_half(left, y, width, height / 2, corner, -1)}"/>'
        f'<path class="writes" d="{_half(left, y, width, height / 2, corner, 1)}"/>'
        f"{_bar(left, top + height, width, share) if is_conv else ''}"
        f'<rect class="rim" {shape}/>'
        f'<text x="{x:.1f}" y="{y - 6:.1f}">{first}</text>'
        f'<text class="small" x="{x:.1f}" y="{y + 13:.1f}">{escape(second)}</text>{timed}</g>'
    )


def _half(left: float, y: float, width: float, height: float, r: float, side: int) -> str:
    """The upper (-1) or lower (1) half of a box with rounded corners."""
    r = min(r, height)
    turn = 1 if side < 0 else 0
    return (
        f"M{left:.1f} {y:.1f}v{side * (height - r):.1f}"
        f"a{r:.1f} {r:.1f} 0 0 {turn} {r:.1f} {side * r:.1f}h{width - 2 * r:.1f}"
        f"a{r:.1f} {r:.1f} 0 0 {turn} {r:.1f} {-side * r:.1f}v{-side * (height - r):.1f}z"
    )


def _bar(left: float, bottom: float, width: float, share: float) -> str:
    """A bar along the box's lower side: the node's share of the slowest node's time."""
    length = (width - 2 * CORNER) * share
    return (
        f'<rect class="bar" x="{left + CORNER:.1f}" y="{bottom - 3:.1f}"'
        f' width="{length:.1f}" height="3"/>'
    )


def _marks(drawing: Drawing, moved: Mapping[Link, list[TransformRow]]) -> Iterator[str]:
    """For each transform a diamond and its time, on the last segment of the edge to its reader."""
    for link, transforms in moved.items():
        (from_x, from_y), (to_x, to_y) = drawing.routes[link][-2:]
        x, y = (from_x + to_x) / 2, (from_y + to_y) / 2
        micros = sum(row.seconds for row in transforms) * 1e6
        first = transforms[0]
        what = f"{first.before} to {first.after}: {micros:.1f} microseconds"
        yield (
            f'<g class="transform" data-from="{escape(link[0])}" data-to="{escape(link[1])}">'
            f"<title>{escape(what)}</title>"
            f'<path d="M{x:.1f} {y - 7:.1f}l7 7l-7 7l-7 -7z"/>'
            f'<text x="{x + 11:.1f}" y="{y + 4:.1f}">{micros:.0f} µs</text></g>'
        )
