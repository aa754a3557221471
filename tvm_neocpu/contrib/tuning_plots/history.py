"""Curves and points of a log's records: what was found when, and what the cost model had said."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.network.verdict import Verdict
from tvm_neocpu.core.network.workload import Workload

Point = tuple[float, float]
# (workload, config) -> seconds by the cost model, or ``None`` where it does not know the config.
Predict = Callable[[Workload, Config], float | None]

# A session ends where nothing was written for so long: minutes of one do not add to another's.
GAP_SECONDS = 600.0


@dataclass(frozen=True)
class Curve:
    """The best time of a workload so far: (seconds since the first record, milliseconds).

    ``records`` counts what was measured; a time without measuring is left out.
    """

    name: str
    points: tuple[Point, ...]
    records: int

    @property
    def gain(self) -> float:
        """The first time over the best."""
        return self.points[0][1] / self.points[-1][1]


@dataclass(frozen=True)
class History:
    """What the page shows; ``scatter`` has (predicted, measured) milliseconds by template."""

    workloads: tuple[Curve, ...]
    networks: tuple[tuple[str, float, float, float], ...]
    scatter: dict[str, tuple[Point, ...]]
    failed: int


def history_of(records: Sequence[Record], verdicts: Iterable[Verdict], predict: Predict) -> History:
    """Curves of the workloads, the slowest first; (network, ratio, low, high) of each network
    that was compared with a new plan.

    Failed records are counted only. All records are of one machine.
    """
    timed = sorted((r for r in records if r.ok), key=lambda r: r.timestamp)
    moments = _moments([record.timestamp for record in timed])
    by_workload: dict[Workload, list[Point]] = {}
    scatter: dict[str, list[Point]] = {}
    for record, moment in zip(timed, moments, strict=True):
        by_workload.setdefault(record.workload, []).append((moment, 1e3 * record.seconds))
        predicted = predict(record.workload, record.config)
        if predicted:
            points = scatter.setdefault(record.config.template, [])
            points.append((1e3 * predicted, 1e3 * record.seconds))
    curves = [Curve(str(w), _best_so_far(found), len(found)) for w, found in by_workload.items()]
    told = {(v.network or v.graph, v.cpu, v.threads): v for v in verdicts if v.compared}
    return History(
        tuple(sorted(curves, key=lambda curve: -curve.points[-1][1])),
        tuple((name, v.ratio, v.low, v.high) for (name, _, _), v in told.items()),
        {name: tuple(points) for name, points in sorted(scatter.items())},
        sum(not record.ok for record in records),
    )


def rank_correlation(points: Sequence[Point]) -> float | None:
    """Spearman's, of predicted and measured times; ``None`` for fewer than three, or all equal."""
    if len(points) < 3:
        return None
    first, second = (_ranks([point[axis] for point in points]) for axis in (0, 1))
    middle = (len(points) - 1) / 2
    product = sum((a - middle) * (b - middle) for a, b in zip(first, second, strict=True))
    spread = math.prod(
        math.sqrt(sum((a - middle) ** 2 for a in ranks)) for ranks in (first, second)
    )
    return product / spread if spread else None


def _ranks(values: Sequence[float]) -> list[float]:
    """Places in ascending order; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for place in order[start:end]:
            ranks[place] = (start + end - 1) / 2
        start = end
    return ranks


def _moments(timestamps: Sequence[float]) -> list[float]:
    """Seconds of tuning until each: the breaks between sessions do not count."""
    moments: list[float] = []
    passed = 0.0
    for place, moment in enumerate(timestamps):
        step = moment - timestamps[place - 1] if place else 0.0
        passed += step if step <= GAP_SECONDS else 0.0
        moments.append(passed)
    return moments


def _best_so_far(points: Sequence[Point]) -> tuple[Point, ...]:
    """The points at which the best time falls, and the last moment."""
    found: list[Point] = []
    for moment, value in points:
        if not found or value < found[-1][1]:
            found.append((moment, value))
    if points[-1][0] > found[-1][0]:
        found.append((points[-1][0], found[-1][1]))
    return tuple(found)
