"""The profile command line: `python -m tvm_neocpu profile resnet50 --html resnet50.html`.

Builds the network as `relay.build` would, times every operation inside it, and shows each beside
what the machine can: GFLOP/s against the measured FMA peak, bytes against the measured bandwidth.
`--compare openvino` puts that peer's times of the same convolutions and products beside ours.
`--html` writes the page of `explain`, the plan with its reasons, with all times in it; `--trace`
what chrome://tracing and Perfetto read.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from rich.table import Table

from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.commands.shared.precision import add_precision_options, in_precision
from tvm_neocpu.contrib.explain.explain_model import explain_model
from tvm_neocpu.contrib.kernels.read_kernels import read_bandwidth
from tvm_neocpu.contrib.kernels.tile_peak import peak_kernel
from tvm_neocpu.contrib.peers.compare import PAUSE_SECONDS
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.profile import cells, compare_layers, page
from tvm_neocpu.contrib.profile.peer_layers import PEERS, IsolatedLayers, PeerLayer
from tvm_neocpu.contrib.profile.profile_network import (
    Profile,
    as_json,
    chrome_trace,
    profile_network,
)
from tvm_neocpu.contrib.profile.watch_calls import TURNS
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.errors import NeoCpuError, TargetError
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.core.types import Types
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.frontend.reading.onnx_nodes import OnnxNodes
from tvm_neocpu.runtime.process import threads
from tvm_neocpu.targets import CompileTarget, parse_target

DTYPE = "float32"
# Measurements of the peak; the best one counts.
TRIES = 8
# Columns of the table, and of its configs.
_WIDTH, _CONFIG_WIDTH = 150, 60


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_profile, argv)


def _profile(argv: list[str]) -> int:
    words, flags = cli.split_target_flags(argv)
    parser = _parser()
    options = parser.parse_args(words)
    count = threads.take_cores(options.threads)
    text = cli.target_text(options.target, flags)
    target = parse_target(text)
    if not target.runs_here:
        raise TargetError(f"cannot run code for {target.cpu.name} here: {target.why_not_here}")
    disk.check_reports(options.json, options.html, options.trace)
    name, model = cli.load_network(options.models[0])
    shapes = resolve_shapes(model.graph, cli.parse_shapes(options.shape))
    model, _ = in_precision(name, model, shapes, options, flags)
    network = Network(name, model, shapes, count, text)
    with cli.logs_of(options):
        with _peer(options.compare, network, options.runs) as peer:
            found = profile_network(
                network,
                _Peaks(target),
                lambda cores: read_bandwidth(_on(target, cores), DTYPE),
                options.runs,
                peer.turn,
            )
        beside = peer.beside(found)
        plan = explain_model(name, network.model, shapes, target.cpu) if options.html else None
    _show(found, options.top, options.configs)
    report = {**provenance(target.cpu.name, count), **as_json(found)}
    if beside is not None:
        _show_comparison(beside)
        report["comparison"] = compare_layers.as_json(beside)
    disk.write_report(options.json, report)
    if options.trace:
        disk.write_text(options.trace, json.dumps(chrome_trace(found)))
    if plan is not None:
        disk.write_text(options.html, page.render(plan, found, beside))
    return 0


class _Peer:
    """The peer to compare with, whose runs take turns with ours; with no runner there is none."""

    def __init__(self, name: str, network: Network, runs: int, runner: IsolatedLayers | None):
        self._name, self._network = name, network
        self._runs, self._runner = max(1, runs // TURNS), runner
        self._turns: list[list[PeerLayer]] = []

    def turn(self) -> None:
        """Its part of the runs. Raises EngineError."""
        if self._runner is not None:
            self._turns.append(self._runner.layers(self._runs))
            time.sleep(PAUSE_SECONDS)  # its threads spin on

    def beside(self, profile: Profile) -> compare_layers.Comparison | None:
        """The profile beside the means of its turns."""
        if self._runner is None:
            return None
        nodes = OnnxNodes(self._network.model, self._network.shapes)
        layers = compare_layers.means(self._turns)
        return compare_layers.compare_layers(profile, self._name, layers, nodes)


@contextmanager
def _peer(name: str | None, network: Network, runs: int) -> Iterator[_Peer]:
    """The peer of that name in a process of its own, as long as we run; raises EngineError."""
    if name is None:
        yield _Peer("", network, runs, None)
        return
    if find_spec(name) is None:
        raise NeoCpuError(f"{name} is not installed: pip install {name}")
    with IsolatedLayers(name, network) as runner:
        yield _Peer(name, network, runs, runner)


def _show_comparison(found: compare_layers.Comparison) -> None:
    """The layers that both time, the dearest of ours first, and what has no partner."""
    table = Table(title=f"beside {found.peer}")
    for heading in cells.LAYER_TEXTS:
        table.add_column(heading)
    for heading in cells.layer_numbers(found.peer):
        table.add_column(heading, justify="right")
    for layer in sorted(found.layers, key=lambda layer: -layer.ours):
        table.add_row(*cells.of_layer(layer))
    cli.console(width=150).print(table)
    print(
        f"all other layers: {found.ours_elsewhere * 1e3:.3f} ms, "
        f"{found.peer} {found.theirs_elsewhere * 1e3:.3f} ms; each engine fuses in its own way"
    )


def _on(target: CompileTarget, cores: int) -> CompileTarget:
    """The same target with fewer cores."""
    return replace(target, cpu=target.cpu.with_cores(cores))


class _Peaks:
    """GFLOP/s of multiply-adds of some types at this moment; each kernel is compiled once."""

    def __init__(self, target: CompileTarget) -> None:
        self._kernel = cache(
            lambda types, bits, cores: peak_kernel(_on(target, cores), types, bits)
        )

    def __call__(self, types: Types, weight_bits: int, cores: int) -> float:
        kernel = self._kernel(types, weight_bits, cores)
        return max(kernel.gflops() for _ in range(TRIES))  # the clock rises, threads wake


def _show(profile: Profile, top: int, with_configs: bool) -> None:
    """The operations that take longest, and what is left."""
    table = Table(title=f"{profile.network} on {profile.cpu}, {plural(profile.threads, 'thread')}")
    for heading in cells.TEXTS:
        table.add_column(heading)
    for heading in cells.NUMBERS:
        table.add_column(heading, justify="right")
    if with_configs:
        table.add_column(cells.CONFIG, max_width=_CONFIG_WIDTH)
    rows = sorted(profile.rows, key=lambda row: -row.call.seconds)
    for row in rows[:top]:
        config = (row.config,) if with_configs else ()
        table.add_row(*cells.of_row(row, profile), *config)
    cli.console(width=_WIDTH + _CONFIG_WIDTH if with_configs else _WIDTH).print(table)
    rest = sum(row.call.seconds for row in rows[top:])
    if rest:
        print(f"{len(rows) - top} more operations: {rest * 1e3:.3f} ms (--top shows them)")
    print(
        f"a run takes {profile.wall * 1e3:.3f} ms; {len(rows)} operations sum to "
        f"{profile.operations / profile.wall:.1%} of it, with the virtual machine's own "
        f"{profile.machine * 1e6:.1f} us to {profile.explained:.1%}; ceilings "
        f"{profile.ceilings.peak:.0f} GFLOP/s, {profile.ceilings.bandwidth:.1f} GB/s"
    )


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(prog="python -m tvm_neocpu profile", description=__doc__)
    cli.add_common_options(parser, models=1)
    add_precision_options(parser)
    parser.add_argument("--runs", type=cli.positive, default=30, help="timed runs (default: 30)")
    parser.add_argument(
        "--top", type=cli.positive, default=40, help="operations to print (default: 40)"
    )
    parser.add_argument("--configs", action="store_true", help="a column of the templates' configs")
    parser.add_argument(
        "--compare",
        choices=PEERS,
        metavar="PEER",
        help=f"a peer's times beside ours: {', '.join(PEERS)}",
    )
    parser.add_argument("--html", type=Path, metavar="F", help="write one page to this file")
    parser.add_argument("--trace", type=Path, metavar="F", help="write a Chrome trace to this file")
    cli.add_json_option(parser)
    return parser
