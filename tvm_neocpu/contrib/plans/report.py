"""The comparison of plans as a table for people and as JSON for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from tvm_neocpu.contrib.plans.result import DISTURBED, NetworkPlans, PlanResult
from tvm_neocpu.contrib.plans.spread import GLOBAL
from tvm_neocpu.core.messages.plural import plural

_MILLI = 1e3
HEADINGS = (
    "plan",
    "convolutions",
    "pools, joins",
    "transforms",
    "everything else",
    "predicted",
    "measured",
)


def show(networks: list[NetworkPlans], threads: int, console: Console) -> None:
    """Print one row per plan, in milliseconds, and the conclusions of each network."""
    lines = box.HEAVY_HEAD if console.is_terminal else box.ASCII
    for network in networks:
        title = f"{network.network}, plans on {plural(threads, 'thread')}, ms"
        table = Table(title=title, box=lines)
        table.add_column(HEADINGS[0])
        for heading in (*HEADINGS[1:], "error"):
            table.add_column(heading, justify="right")
        for plan in network.plans:
            table.add_row(*_row(network, plan))
        console.print(table)
        for line in conclusions(network):
            console.print(line)


def conclusions(network: NetworkPlans) -> list[str]:
    """Rank correlation, gain, and how far the global plan's prediction is off, as lines of text."""
    low, high = network.gain_quartiles
    rank = "-" if network.spearman is None else f"{network.spearman:.2f}"
    ours = network.plan(GLOBAL)
    timed = ours.priced.timed_seconds / ours.priced.conv_seconds if ours.priced.conv_seconds else 1
    lines = [
        f"rank correlation (Spearman) {rank}; global over greedy {network.gain:.3f}x measured "
        f"({low:.3f}-{high:.3f} for half of the pairs), {network.predicted_gain:.3f}x predicted",
        f"inside the network of the global plan: convolutions {network.conv_seconds * _MILLI:.3f} "
        f"ms, predicted {ours.priced.conv_seconds * _MILLI:.3f} ({timed:.0%} of it from the log); "
        f"pools and joins {network.sweep_seconds * _MILLI:.3f} ms, predicted "
        f"{ours.priced.sweep_seconds * _MILLI:.3f}; "
        f"transforms {network.transform_seconds * _MILLI:.3f} ms, predicted "
        f"{ours.priced.transform_seconds * _MILLI:.3f}",
    ]
    if network.core_share < DISTURBED:
        lines.append(
            f"DISTURBED: the runs got {network.core_share:.0%} of their core, another process the "
            "rest; measure again on an idle machine"
        )
    return lines


def as_json(network: NetworkPlans) -> dict[str, Any]:
    """Everything that was measured and predicted; times in milliseconds."""
    ours = network.plan(GLOBAL)
    return {
        "network": network.network,
        "graph": network.graph,
        "error": ours.error,
        "spearman": network.spearman,
        "gain": network.gain,
        "gain_quartiles": network.gain_quartiles,
        "predicted_gain": network.predicted_gain,
        "core_share": network.core_share,
        "largest_difference": network.largest_difference,
        "everything_else_ms": network.everything_else * _MILLI,
        "in_network": {
            "convolutions_ms": network.conv_seconds * _MILLI,
            "sweeps_ms": network.sweep_seconds * _MILLI,
            "transforms_ms": network.transform_seconds * _MILLI,
        },
        "plans": [_plan_json(plan) for plan in network.plans],
        "schemes": [_milliseconds(asdict(scheme)) for scheme in network.schemes],
        "other_calls": [
            {"function": call.name, "calls": call.calls, "ms": call.seconds * _MILLI}
            for call in network.calls
            if call.scheme is None
        ],
    }


def _plan_json(plan: PlanResult) -> dict[str, Any]:
    return {
        "names": plan.priced.names,
        "convolutions_ms": plan.priced.conv_seconds * _MILLI,
        "of_it_from_log_ms": plan.priced.timed_seconds * _MILLI,
        "sweeps_ms": plan.priced.sweep_seconds * _MILLI,
        "transforms_ms": plan.priced.transform_seconds * _MILLI,
        "predicted_ms": plan.predicted * _MILLI,
        "measured_ms": plan.measured * _MILLI,
        "error": plan.error,
        "runs_ms": [seconds * _MILLI for seconds in plan.timing.seconds],
    }


def _milliseconds(times: dict[str, Any]) -> dict[str, Any]:
    for name in ("predicted", "in_network"):
        times[f"{name}_ms"] = times.pop(name) * _MILLI
    return times


def _row(network: NetworkPlans, plan: PlanResult) -> list[str]:
    seconds = (
        plan.priced.conv_seconds,
        plan.priced.sweep_seconds,
        plan.priced.transform_seconds,
        network.everything_else,
        plan.predicted,
        plan.measured,
    )
    return [plan.priced.name, *(f"{_MILLI * s:.3f}" for s in seconds), f"{plan.error:+.1%}"]
