"""The constants of the cost model fitted to a log: least regret, and times in proportion.

The loss of a layer is its regret minus 1 (what the user loses), the same within pairs of layouts
(what the global search loses), and, at a tenth, how far the logarithms of predicted over measured
times spread around their median (regret alone is flat nearly everywhere). One constant after the
other takes the best of its neighbours on a grid, until none gets better. A fifth of the workloads
is held out: a fit that helps there is no accident.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from tvm_neocpu.contrib.cost_model.constants import CONSTANTS, Constant, tried
from tvm_neocpu.contrib.cost_model.quality import Judged, judge
from tvm_neocpu.contrib.cost_model.readings import Layer, Readings

# Every so manieth workload is held out.
HOLD_OUT = 5
SPREAD_WEIGHT = 0.1
# What a constant is multiplied by on the way; a step that gains less than this is not taken.
STEPS = (0.5, 0.8, 0.9, 1.1, 1.25, 2.0)
MIN_GAIN = 1e-4
MAX_PASSES = 4


@dataclass(frozen=True)
class Fitted:
    """A constant's value today and the fitted one."""

    constant: Constant
    before: float
    after: float


@dataclass(frozen=True)
class Fit:
    """The result; ``fitted_on`` says which readings. Losses are those of :func:`loss`."""

    fitted_on: str
    constants: tuple[Fitted, ...]
    loss_before: float
    loss_after: float
    held_out_before: float
    held_out_after: float


def fit(readings: Readings, constants: Sequence[Constant] = CONSTANTS) -> Fit:
    """Fit the constants to the layers that are not held out. It takes minutes on a large log."""
    used, held_out = split(readings.layers)
    today = {constant: constant.value for constant in constants}
    values, best = dict(today), loss(used)
    start = best
    for _ in range(MAX_PASSES):
        before = best
        for constant in constants:
            values, best = _improved(values, best, constant, used)
        if before - best < MIN_GAIN:
            break
    with tried(values):
        after = loss(held_out)
    cpu = readings.layers[0].cpu.name
    threads = " and ".join(map(str, readings.threads))
    return Fit(
        f"{len(used)} layers of {cpu} on {threads} threads, {len(held_out)} held out",
        tuple(Fitted(constant, today[constant], values[constant]) for constant in constants),
        start,
        best,
        loss(held_out),
        after,
    )


def split(layers: Iterable[Layer]) -> tuple[tuple[Layer, ...], tuple[Layer, ...]]:
    """(used, held out): all readings of a workload are on one side."""
    layers = tuple(layers)
    names = sorted({str(layer.workload) for layer in layers})
    held = frozenset(names[HOLD_OUT - 1 :: HOLD_OUT])
    used = tuple(layer for layer in layers if str(layer.workload) not in held)
    return used, tuple(layer for layer in layers if str(layer.workload) in held)


def loss(layers: Iterable[Layer]) -> float:
    """The mean over layers, weighed by the square root of their time; 0 without any layer."""
    judged = judge(layers)
    weights = [math.sqrt(each.layer.best) for each in judged]
    total = sum(w * _layer_loss(each) for w, each in zip(weights, judged, strict=True))
    return total / sum(weights) if weights else 0.0


def _layer_loss(each: Judged) -> float:
    pairs = zip(each.predicted, each.layer.seconds, strict=True)
    logs = [math.log(predicted / seconds) for predicted, seconds in pairs]
    middle = median(logs)
    spread = fmean(abs(value - middle) for value in logs)
    return (each.regret - 1) + (each.layout_regret - 1) + SPREAD_WEIGHT * spread


def _improved(
    values: dict[Constant, float], best: float, constant: Constant, layers: Sequence[Layer]
) -> tuple[dict[Constant, float], float]:
    """The values with the constant at the best of its neighbours, and the loss then."""
    found = values
    for step in STEPS:
        value = min(constant.high, max(constant.low, values[constant] * step))
        trial = values | {constant: value}
        with tried(trial):
            reached = loss(layers)
        if reached < best - MIN_GAIN:
            found, best = trial, reached
    return found, best
