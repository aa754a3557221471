"""The final check of a build: does the network get what its operations should take?"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.messages.fallback import Coverage, Fallback
from tvm_neocpu.core.messages.told import tell_user
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.topi.cost.ranking import predict_seconds

# A network is slow whose operations take ten times what they take at the CPU's peak.
SLOW = 0.1
# Calls and cold caches decide the time of smaller networks, whatever computes them.
MIN_SECONDS = 1e-3
# What no template takes has no price. It is assumed to run at this share of the peak: code that
# TVM writes is seldom faster for products, often slower.
FALLBACK_SHARE = 1 / 16
MAX_NAMED = 3


class SlowNetworkWarning(UserWarning):
    """A network will run below a tenth of the speed that its multiply-adds allow."""


@dataclass(frozen=True)
class Priced:
    """One operation: predicted seconds, and the seconds that its products take at the peak.

    Of a recurrent layer both are its predicted seconds: its steps wait for each other and read R
    again and again, on every machine.
    """

    label: str
    seconds: float
    at_peak: float


def warn_if_slow(graph: ConvGraph, plan: Plan, coverage: Coverage, cpu: Cpu) -> None:
    """Warn once of a network that is slow by prediction, and name what makes it so."""
    text = slow_report(graph, plan, coverage, cpu)
    if text is not None:
        tell_user(SlowNetworkWarning(text))


def slow_report(graph: ConvGraph, plan: Plan, coverage: Coverage, cpu: Cpu) -> str | None:
    """One line that names the operations with the most lost time; ``None`` for a fast network.

    Fallbacks whose arithmetic is unknown do not count: nothing can be said of them.
    """
    peak = 1e9 * cpu.peak_gflops("float32") * cpu.cores
    priced = [
        Priced(node.label, predict_seconds(node.workload, config, cpu), node.workload.flops / peak)
        for node in graph.convs
        if node.workload is not None and (config := plan.configs.get(node.id)) is not None
    ]
    priced += [_assumed(each, peak) for each in coverage.fallbacks if each.flops]
    priced += [Priced(str(each), each.seconds, each.seconds) for each in coverage.fixed]
    seconds, at_peak = sum(p.seconds for p in priced), sum(p.at_peak for p in priced)
    if seconds < MIN_SECONDS or at_peak >= SLOW * seconds:
        return None
    worst = sorted(priced, key=lambda p: p.at_peak - p.seconds)[:MAX_NAMED]
    named = "; ".join(f"{p.label} ({p.seconds * 1e3:.2f} ms)" for p in worst)
    return (
        f"this network will take about {seconds * 1e3:.1f} ms on {cpu.name}, and its multiply-adds "
        f"{at_peak * 1e3:.1f} ms at the peak of {cpu.cores} cores; most is lost in {named}"
    )


def _assumed(fallback: Fallback, peak: float) -> Priced:
    at_peak = (fallback.flops or 0) / peak
    return Priced(str(fallback), at_peak / FALLBACK_SHARE, at_peak)
