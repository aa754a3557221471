"""`python -m tvm_neocpu bench --hint throughput resnet50`: calls a second, each engine at its best.

Each engine runs in a process of its own, as many calls at the same time as it likes.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.table import Table

from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.contrib.deploy.first_inference import PACKAGES
from tvm_neocpu.contrib.peers.isolated import EngineError
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.peers.table import OURS
from tvm_neocpu.contrib.peers.throughput import ENGINES, SECONDS, IsolatedRate, compare_rates
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.messages.plural import plural


def bench_throughput(networks: Sequence[Network], runs: int, cpu: str, path: Path | None) -> int:
    """Compare, show, write; the exit code is 0. ``runs`` are turns of each engine."""
    rows = [(network.name, _rates(network, runs)) for network in networks]
    count = networks[0].threads
    _show(rows, count)
    report: dict[str, Any] = {
        **provenance(cpu, count, ("onnxruntime", "openvino")),
        "networks": [
            {"network": name, "calls_per_second": rates, "speedup_over_best_peer": _speedup(rates)}
            for name, rates in rows
        ],
    }
    disk.write_report(path, report)
    return 0


def _rates(network: Network, runs: int) -> dict[str, float]:
    with contextlib.ExitStack() as processes:
        runners = {}
        for engine in ENGINES:
            if find_spec(PACKAGES[engine]) is None:
                print(f"warning: {engine} is not installed", file=sys.stderr)
                continue
            try:
                runner = processes.enter_context(IsolatedRate(engine, network))
                runner.rate(SECONDS / 10)  # what loading does not find
                runners[engine] = runner
            except EngineError as error:
                if engine == OURS:
                    raise
                print(f"warning: {engine} cannot run {network.name}: {error}", file=sys.stderr)
        return compare_rates(runners, runs)


def _speedup(rates: dict[str, float]) -> float | None:
    peers = [rate for engine, rate in rates.items() if engine != OURS]
    return rates[OURS] / max(peers) if peers else None


def _show(rows: Sequence[tuple[str, dict[str, float]]], count: int) -> None:
    table = Table(
        title=f"throughput on {plural(count, 'thread')}",
        caption="calls a second, median of turns; all in float32, each engine in its best settings",
    )
    table.add_column("network")
    for engine in ENGINES:
        table.add_column(engine, justify="right")
    table.add_column("vs best peer", justify="right")
    for name, rates in rows:
        cells = [f"{rates[engine]:.1f}" if engine in rates else "-" for engine in ENGINES]
        ratio = _speedup(rates)
        table.add_row(name, *cells, "-" if ratio is None else f"{ratio:.2f}x")
    cli.console(width=100).print(table)
