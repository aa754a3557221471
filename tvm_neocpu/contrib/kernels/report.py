"""Kernel times as a table and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from tvm_neocpu.contrib.kernels.ceilings import Ceilings
from tvm_neocpu.contrib.kernels.measure import KernelTime
from tvm_neocpu.core.network.config import knobs


def show(groups: Sequence[Sequence[KernelTime]], ceilings: Ceilings, console: Console) -> None:
    """Print one row for each config; a group's first row is the cost model's choice."""
    table = Table(title=f"peak {ceilings.peak:.0f} GFLOP/s, reads {ceilings.bandwidth:.0f} GB/s")
    for heading in ("workload", "x", "implementation", "config"):
        table.add_column(heading)
    for heading in ("us", "GFLOP/s", "of peak", "MB", "roofline", "of roofline", "predicted us"):
        table.add_column(heading, justify="right")
    for group in groups:
        for index, timed in enumerate(group):
            table.add_row(
                *_cells(timed, ceilings, chosen=index == 0), end_section=timed is group[-1]
            )
    console.print(table)
    seconds, flops = totals(groups)
    console.print(
        f"untuned choices, whole network: {seconds * 1e3:.3f} ms, {flops / seconds / 1e9:.0f} "
        f"effective GFLOP/s, {share_of_peak(groups):.0%} of peak"
    )


def totals(groups: Sequence[Sequence[KernelTime]]) -> tuple[float, float]:
    """Seconds and operations of the cost model's choices; each counts as often as it occurs."""
    chosen = [group[0] for group in groups if group]
    seconds = sum(timed.seconds * timed.occurrences for timed in chosen)
    flops = sum(timed.workload.flops * timed.occurrences for timed in chosen)
    return seconds, float(flops)


def share_of_peak(groups: Sequence[Sequence[KernelTime]]) -> float:
    """Of the time of those choices, what their operations take at the peak of their types."""
    chosen = [group[0] for group in groups if group]
    least = sum(timed.workload.flops / timed.peak / 1e9 * timed.occurrences for timed in chosen)
    return least / totals(groups)[0]


def as_json(groups: Sequence[Sequence[KernelTime]], ceilings: Ceilings) -> dict[str, Any]:
    """Everything that the table shows, and every config in full."""
    seconds, flops = totals(groups)
    return {
        "peak_gflops": ceilings.peak,
        "read_gbytes_per_second": ceilings.bandwidth,
        "untuned_seconds": seconds,
        "untuned_gflops": flops / seconds / 1e9,
        "untuned_share_of_peak": share_of_peak(groups),
        "kernels": [
            {
                "workload": str(timed.workload),
                "occurrences": timed.occurrences,
                "template": timed.config.template,
                "config": knobs(timed.config),
                "untuned_choice": timed is group[0],
                "seconds": timed.seconds,
                "gflops": timed.gflops,
                "peak_gflops": timed.peak,
                "share_of_peak": timed.share_of_peak,
                "least_bytes": timed.moved_bytes,
                "roofline_gflops": ceilings.bound(timed.workload.flops, timed.moved_bytes),
                "predicted_seconds": timed.predicted,
                "rank": timed.rank,
            }
            for group in groups
            for timed in group
        ],
    }


def _cells(timed: KernelTime, ceilings: Ceilings, chosen: bool) -> list[str]:
    config = " ".join(f"{name}={int(value)}" for name, value in knobs(timed.config).items())
    roofline = ceilings.bound(timed.workload.flops, timed.moved_bytes)
    return [
        str(timed.workload) if chosen else "",
        str(timed.occurrences) if chosen else "",
        ("* " if chosen else "  ") + timed.config.template,
        config,
        f"{timed.seconds * 1e6:.1f}",
        f"{timed.gflops:.0f}",
        f"{timed.share_of_peak:.0%}",
        f"{timed.moved_bytes / 1e6:.1f}",
        f"{roofline:.0f}",
        f"{timed.gflops / roofline:.0%}",
        f"{timed.predicted * 1e6:.1f}",
    ]
