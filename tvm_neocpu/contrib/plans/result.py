"""The result of comparing a network's plans: predictions beside measurements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median, quantiles

from scipy.stats import spearmanr

from tvm_neocpu.contrib.peers.compare import Timing
from tvm_neocpu.contrib.plans.runner import CallTime, Scheme
from tvm_neocpu.contrib.plans.spread import GLOBAL, GREEDY, PricedPlan
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.sweep.workload import SweepWorkload

# Max difference of outputs, over the largest output: Winograd and the order of sums change them.
SAME_ANSWER = 1e-3
# Min share of its core that a run needs: below it, another process spoils the times.
DISTURBED = 0.95


@dataclass(frozen=True)
class PlanResult:
    """Seconds of a plan: ``predicted`` is the search's sum plus everything else."""

    priced: PricedPlan
    predicted: float
    timing: Timing

    @property
    def measured(self) -> float:
        """Median seconds of a run."""
        return self.timing.median

    @property
    def error(self) -> float:
        """Predicted over measured time, minus 1; below 0, the network is slower than predicted."""
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class SchemeTime:
    """A workload under a config: seconds of all its calls in one run of the network.

    ``predicted`` is the search's price, ``in_network`` was measured inside the network.
    """

    workload: str
    config: str
    calls: int
    predicted: float
    in_network: float


@dataclass(frozen=True)
class NetworkPlans:
    """One network's plans; ``calls`` are those of one run under the global search's plan.

    ``core_share`` is the min share of its core that a plan's runs got: see :data:`DISTURBED`.
    """

    network: str
    graph: str
    plans: tuple[PlanResult, ...]
    calls: tuple[CallTime, ...]
    schemes: tuple[SchemeTime, ...]
    core_share: float = 1.0

    @property
    def everything_else(self) -> float:
        """See :func:`everything_else`."""
        return everything_else(self.calls)

    @property
    def conv_seconds(self) -> float:
        """Seconds of the global plan's convolutions, measured in the network."""
        return sum(scheme.in_network for scheme in self.schemes)

    @property
    def transform_seconds(self) -> float:
        """Seconds of the global plan's layout transforms, measured in the network."""
        return sum(c.seconds for c in self.calls if _is_of(c, TransformWorkload))

    @property
    def sweep_seconds(self) -> float:
        """Seconds of the global plan's sweeps, measured in the network."""
        return sum(c.seconds for c in self.calls if _is_of(c, SweepWorkload))

    @property
    def spearman(self) -> float | None:
        """Rank correlation of predicted and measured times; None for fewer than three plans."""
        if len(self.plans) < 3:
            return None
        predicted = [plan.predicted for plan in self.plans]
        return float(spearmanr(predicted, [plan.measured for plan in self.plans]).statistic)

    def plan(self, name: str) -> PlanResult:
        """The plan that has ``name`` among its names."""
        return next(plan for plan in self.plans if name in plan.priced.names)

    @property
    def gain(self) -> float:
        """The greedy plan's measured time over the global plan's: above 1, the search pays."""
        return self.plan(GREEDY).measured / self.plan(GLOBAL).measured

    @property
    def predicted_gain(self) -> float:
        """The greedy plan's predicted time over the global plan's."""
        return self.plan(GREEDY).predicted / self.plan(GLOBAL).predicted

    @property
    def gain_quartiles(self) -> tuple[float, float]:
        """First and third quartile of the gain over interleaved pairs of runs."""
        pairs = zip(self.plan(GREEDY).timing.seconds, self.plan(GLOBAL).timing.seconds, strict=True)
        low, _, high = quantiles([greedy / ours for greedy, ours in pairs], n=4)
        return low, high

    @property
    def largest_difference(self) -> float:
        """Max difference of any plan's outputs from the global plan's, over the largest output."""
        return max(plan.timing.error for plan in self.plans)


def everything_else(calls: tuple[CallTime, ...]) -> float:
    """Seconds of a run in functions that the search does not price."""
    return sum(call.seconds for call in calls if call.scheme is None)


def scheme_times(
    calls: tuple[CallTime, ...], prices: Mapping[Scheme, float]
) -> tuple[SchemeTime, ...]:
    """The convolutions and dense layers among the calls, summed by scheme, the slowest first.

    ``prices`` are seconds of one call, by (workload, config).
    """
    found: dict[Scheme, list[CallTime]] = {}
    for call in calls:
        if call.scheme is not None and not _is_of(call, TransformWorkload, SweepWorkload):
            found.setdefault(call.scheme, []).append(call)
    times = []
    for scheme, alike in found.items():
        workload, config = scheme
        count = sum(call.calls for call in alike)
        price = prices.get(scheme, float("nan"))
        seconds = sum(call.seconds for call in alike)
        times.append(SchemeTime(str(workload), str(config), count, count * price, seconds))
    return tuple(sorted(times, key=lambda time: time.in_network, reverse=True))


def median_calls(rounds: list[list[CallTime]]) -> tuple[CallTime, ...]:
    """Each function's median seconds over several rounds of the same network."""
    seconds: dict[str, list[float]] = {}
    for calls in rounds:
        for call in calls:
            seconds.setdefault(call.name, []).append(call.seconds)
    return tuple(
        CallTime(call.name, call.scheme, call.calls, median(seconds[call.name]))
        for call in rounds[-1]
    )


def _is_of(call: CallTime, *types: type[Workload]) -> bool:
    return call.scheme is not None and isinstance(call.scheme[0], types)
