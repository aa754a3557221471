"""What comparing a network's plans came to: predictions beside measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median, quantiles

from scipy.stats import spearmanr

from tvm_neocpu.contrib.peers.compare import Timing
from tvm_neocpu.contrib.plans.runner import CallTime
from tvm_neocpu.contrib.plans.spread import GLOBAL, GREEDY, PricedPlan
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload

# The largest difference that summing in another order, or Winograd, may make.
SAME_ANSWER = 1e-3
# Below this share of the core another process took so much of it that times mean nothing.
DISTURBED = 0.95


@dataclass(frozen=True)
class PlanResult:
    """Seconds: ``predicted`` is the search's sum and everything else, ``measured`` the median."""

    priced: PricedPlan
    predicted: float
    timing: Timing

    @property
    def measured(self) -> float:
        return self.timing.median

    @property
    def error(self) -> float:
        """By what share of the measured time the prediction is off; below 0 it promised more."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class SchemeTime:
    """A workload under a config: the search's price for all its calls, and their time in place."""

    workload: str
    config: str
    calls: int
    predicted: float
    in_network: float


@dataclass(frozen=True)
class NetworkPlans:
    """One network; ``calls`` are of the global search's plan, in the network, in one run.

    ``core_share`` is the least share of its core that any plan got: see :data:`DISTURBED`.
    """

    network: str
    graph: str
    plans: tuple[PlanResult, ...]
    calls: tuple[CallTime, ...]
    schemes: tuple[SchemeTime, ...]
    core_share: float = 1.0

    @property
    def everything_else(self) -> float:
        return everything_else(self.calls)

    @property
    def conv_seconds(self) -> float:
        """The global plan's convolutions, in the network."""
        return sum(scheme.in_network for scheme in self.schemes)

    @property
    def transform_seconds(self) -> float:
        """The global plan's layout transforms, in the network."""
        return sum(c.seconds for c in self.calls if c.scheme and _is_transform(c))

    @property
    def spearman(self) -> float | None:
        """Rank correlation of predicted with measured times; None for less than three plans."""
        if len(self.plans) < 3:
            return None
        predicted = [plan.predicted for plan in self.plans]
        return float(spearmanr(predicted, [plan.measured for plan in self.plans]).statistic)

    def plan(self, name: str) -> PlanResult:
        return next(plan for plan in self.plans if name in plan.priced.names)

    @property
    def gain(self) -> float:
        """The greedy plan's measured time over the global one's: above 1 the search pays."""
        return self.plan(GREEDY).measured / self.plan(GLOBAL).measured

    @property
    def predicted_gain(self) -> float:
        return self.plan(GREEDY).predicted / self.plan(GLOBAL).predicted

    @property
    def gain_quartiles(self) -> tuple[float, float]:
        """Half of all interleaved pairs of runs have a gain between these: how sure it is."""
        pairs = zip(self.plan(GREEDY).timing.seconds, self.plan(GLOBAL).timing.seconds, strict=True)
        low, _, high = quantiles([greedy / ours for greedy, ours in pairs], n=4)
        return low, high

    @property
    def largest_difference(self) -> float:
        """Between the outputs of any plan and the global one's, over the largest output."""
        return max(plan.timing.error for plan in self.plans)


def everything_else(calls: tuple[CallTime, ...]) -> float:
    """Seconds of a run in functions that the search does not price."""
    return sum(call.seconds for call in calls if call.scheme is None)


def scheme_times(
    calls: tuple[CallTime, ...], prices: Mapping[object, float]
) -> tuple[SchemeTime, ...]:
    """The convolutions and dense layers among the calls, the slowest first; equal ones together.

    ``prices`` are seconds of one call, by (workload, config).
    """
    found: dict[object, list[CallTime]] = {}
    for call in calls:
        if call.scheme is not None and not _is_transform(call):
            found.setdefault(call.scheme, []).append(call)
    times = []
    for alike in found.values():
        workload, config = alike[0].scheme or ("", "")
        count = sum(call.calls for call in alike)
        price = prices.get(alike[0].scheme, float("nan"))
        seconds = sum(call.seconds for call in alike)
        times.append(SchemeTime(str(workload), str(config), count, count * price, seconds))
    return tuple(sorted(times, key=lambda time: time.in_network, reverse=True))


def median_calls(rounds: list[list[CallTime]]) -> tuple[CallTime, ...]:
    """Each function's median over several rounds of the same network."""
    seconds: dict[str, list[float]] = {}
    for calls in rounds:
        for call in calls:
            seconds.setdefault(call.name, []).append(call.seconds)
    return tuple(
        CallTime(call.name, call.scheme, call.calls, median(seconds[call.name]))
        for call in rounds[-1]
    )


def _is_transform(call: CallTime) -> bool:
    return call.scheme is not None and isinstance(call.scheme[0], TransformWorkload)
