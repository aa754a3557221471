r"""Coordinates of a network's nodes and edges: layers, after Sugiyama, Tagawa and Toda (1981).

Every node lies below all of its predecessors. An edge that passes through layers gets a bend point
in each, so that it runs between their nodes. Each layer's nodes are ordered so that few edges
cross, then shifted so that edges run straight.

    layer 0      a
                / \
    layer 1    b   .      the edge a -> c bends at the point "." in layer 1
                \ /
    layer 2      c
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

Point = tuple[float, float]
Link = tuple[str, str]

ORDER_SWEEPS = 12
PLACE_SWEEPS = 24
GAP_X = 22.0
GAP_Y = 34.0
# Weight of a node on the longest path; other nodes weigh 1, so this path is a straight line.
SPINE_WEIGHT = 1e6
# Width that an edge takes in a layer that it passes through.
BEND_WIDTH = 10.0


@dataclass(frozen=True)
class Drawing:
    """Centres of the boxes; for each edge, its points from the source's lower side downwards."""

    centres: dict[str, Point]
    routes: dict[Link, tuple[Point, ...]]
    width: float
    height: float


def draw(nodes: Sequence[str], links: Iterable[Link], box: Point) -> Drawing:
    """The drawing of ``nodes``, given in topological order; ``box`` is the size of every node.

    Parallel links are drawn once. Parts that no link connects stand one below the other.
    """
    unique = list(dict.fromkeys(links))
    drawings: list[Drawing] = []
    for part in _parts(nodes, unique):
        inside = set(part)
        layers = _Layers.of(part, [link for link in unique if link[0] in inside])
        layers.order()
        drawings.append(layers.place(box))
    return _stacked(drawings)


def _stacked(drawings: Sequence[Drawing]) -> Drawing:
    """The drawings one below the other, centred on one vertical axis."""
    whole = Drawing({}, {}, max((d.width for d in drawings), default=0.0), 0.0)
    for drawing in drawings:
        left = (whole.width - drawing.width) / 2
        top = whole.height + (GAP_Y if whole.centres else 0.0)
        centres = {node: (x + left, y + top) for node, (x, y) in drawing.centres.items()}
        routes = {
            link: tuple((x + left, y + top) for x, y in points)
            for link, points in drawing.routes.items()
        }
        whole = Drawing(
            whole.centres | centres, whole.routes | routes, whole.width, top + drawing.height
        )
    return whole


def _parts(nodes: Sequence[str], links: Iterable[Link]) -> list[list[str]]:
    """The connected parts; their nodes, and the parts themselves, in the order of ``nodes``."""
    leader = {node: node for node in nodes}

    def find(node: str) -> str:
        while leader[node] != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for source, target in links:
        leader[find(target)] = find(source)
    parts: dict[str, list[str]] = {}
    for node in nodes:
        parts.setdefault(find(node), []).append(node)
    return list(parts.values())


@dataclass
class _Layers:
    """Rows of nodes and bend points; ``above`` and ``below`` link neighbouring rows only."""

    rows: list[list[str]]
    chains: dict[Link, list[str]]
    bends: set[str]
    above: dict[str, list[str]] = field(default_factory=dict)
    below: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Sequence[str], links: Sequence[Link]) -> _Layers:
        rank = _ranks(nodes, links)
        rows: list[list[str]] = [[] for _ in range(1 + max(rank.values()))]
        for node in nodes:
            rows[rank[node]].append(node)
        layers = cls(rows, {}, set())
        for source, target in links:
            between = [f"{source}>{target}@{r}" for r in range(rank[source] + 1, rank[target])]
            for row, bend in enumerate(between, rank[source] + 1):
                rows[row].append(bend)
            layers.bends.update(between)
            layers.chains[source, target] = [source, *between, target]
        for chain in layers.chains.values():
            for upper, lower in pairwise(chain):
                layers.below.setdefault(upper, []).append(lower)
                layers.above.setdefault(lower, []).append(upper)
        return layers

    def order(self) -> None:
        """Sort rows by their neighbours' mean place, down and up; keep the fewest crossings."""
        best, fewest = [list(row) for row in self.rows], self.crossings()
        for sweep in range(ORDER_SWEEPS):
            downwards = sweep % 2 == 0
            rows = self.rows if downwards else self.rows[::-1]
            for fixed, row in pairwise(rows):
                _sort(row, fixed, self.above if downwards else self.below)
            crossings = self.crossings()
            if crossings < fewest:
                best, fewest = [list(row) for row in self.rows], crossings
        self.rows = best

    def crossings(self) -> int:
        """How many pairs of links cross."""
        count = 0
        for upper, lower in pairwise(self.rows):
            place = {node: k for k, node in enumerate(lower)}
            ends = [sorted(place[other] for other in self.below.get(node, ())) for node in upper]
            seen: list[int] = []
            for targets in ends:
                count += sum(1 for end in seen for target in targets if target < end)
                seen += targets
        return count

    def place(self, box: Point) -> Drawing:
        """Coordinates: each node as near to its neighbours' mean as the widths in its row allow."""
        width, height = box
        wide = {n: BEND_WIDTH if n in self.bends else width for row in self.rows for n in row}
        x = self._columns(wide)
        left = min(x[node] - wide[node] / 2 for node in wide)
        right = max(x[node] + wide[node] / 2 for node in wide)
        y = {n: k * (height + GAP_Y) + height / 2 for k, row in enumerate(self.rows) for n in row}
        centre = {node: (x[node] - left, y[node]) for node in wide}
        routes = {link: self._route(chain, centre, height) for link, chain in self.chains.items()}
        centres = {node: at for node, at in centre.items() if node not in self.bends}
        total = len(self.rows) * (height + GAP_Y) - GAP_Y
        return Drawing(centres, routes, right - left, total)

    def _columns(self, wide: dict[str, float]) -> dict[str, float]:
        # Without a fixed line the many small shifts of a deep network add up to a slant.
        spine = self._spine()
        near = {node: self.above.get(node, []) + self.below.get(node, []) for node in wide}
        x = dict.fromkeys(wide, 0.0)
        for sweep in range(PLACE_SWEEPS):
            for row in self.rows if sweep % 2 == 0 else reversed(self.rows):
                wished = [
                    0.0 if n in spine else _mean([x[other] for other in near[n]], x[n]) for n in row
                ]
                weights = [SPINE_WEIGHT if node in spine else 1.0 for node in row]
                gaps = [(wide[a] + wide[b]) / 2 + GAP_X for a, b in pairwise(row)]
                x |= zip(row, closest_with_gaps(wished, gaps, weights), strict=True)
        return x

    def _spine(self) -> set[str]:
        """The nodes of one longest path: one in every row."""
        here = self.rows[-1][0]
        spine = {here}
        while any(node not in self.bends for node in self.above.get(here, ())):
            here = next(node for node in self.above[here] if node not in self.bends)
            spine.add(here)
        return spine

    def _route(
        self, chain: list[str], centre: dict[str, Point], height: float
    ) -> tuple[Point, ...]:
        """From the source's lower side, vertically through each row, to the target's upper side."""
        points: list[Point] = []
        for node in chain:
            x, y = centre[node]
            if node != chain[0]:
                points.append((x, y - height / 2))
            if node != chain[-1]:
                points.append((x, y + height / 2))
        return tuple(points)


def _sort(row: list[str], fixed: list[str], near: dict[str, list[str]]) -> None:
    """Order a row by the mean places of its nodes' neighbours in the fixed row."""
    place = {node: float(k) for k, node in enumerate(fixed)}
    own = {node: float(k) for k, node in enumerate(row)}
    row.sort(key=lambda n: _mean([place[other] for other in near.get(n, ())], own[n]))


def _ranks(nodes: Sequence[str], links: Sequence[Link]) -> dict[str, int]:
    """A node's layer: the length of the longest path to it from any start.

    A start, a node without predecessors, lies just above its first consumer.
    """
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for source, target in links:
        before.setdefault(target, []).append(source)
        after.setdefault(source, []).append(target)
    rank: dict[str, int] = {}
    for node in nodes:
        rank[node] = 1 + max((rank[other] for other in before.get(node, ())), default=-1)
    for node in nodes:
        if node not in before and node in after:
            rank[node] = min(rank[other] for other in after[node]) - 1
    return rank


def closest_with_gaps(
    wished: Sequence[float], gaps: Sequence[float], weights: Sequence[float]
) -> list[float]:
    """Ascending places near the wished ones; place ``i + 1`` is ``gaps[i]`` or more behind ``i``.

    They minimise the weighted sum of squared distances from ``wished``. With the gaps subtracted
    this is isotonic regression, solved by pooling adjacent violators (Ayer et al., 1955).

        wished [1, 1], gaps [2], weights [1, 1] -> [0, 2]
    """
    offsets = [0.0, *accumulate(gaps)]
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for wish, offset, weight in zip(wished, offsets, weights, strict=True):
        mean, total, members = wish - offset, weight, 1
        while pools and pools[-1][0] > mean:
            earlier, its_weight, its_members = pools.pop()
            mean = (mean * total + earlier * its_weight) / (total + its_weight)
            total += its_weight
            members += its_members
        pools.append((mean, total, members))
    flat = [mean for mean, _, members in pools for _ in range(members)]
    return [place + offset for place, offset in zip(flat, offsets, strict=True)]


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
