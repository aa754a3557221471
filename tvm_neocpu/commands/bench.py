"""Compare with other engines: `python -m tvm_neocpu.bench resnet50 --threads 2 --json out.json`.

ONNX Runtime, OpenVINO, MNN and ncnn take part if they are installed (`pip install
tvm-neocpu[bench]`). The exit code is 1 if our outputs differ from theirs; a peer that cannot take a
network or gets it wrong is shown so, and is no error.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tvm_neocpu.commands.parts.bench_deploy import bench_deploy
from tvm_neocpu.commands.parts.bench_kernels import bench_kernels
from tvm_neocpu.commands.parts.bench_model import bench_model
from tvm_neocpu.commands.parts.bench_plan import bench_plan
from tvm_neocpu.commands.parts.bench_throughput import bench_throughput
from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.contrib.peers.compare import (
    BF16_TOLERANCE,
    TOLERANCE,
    compare,
    excuse_saturation,
)
from tvm_neocpu.contrib.peers.isolated import EngineError
from tvm_neocpu.contrib.peers.quantised import expected_outputs, sums_saturate_here
from tvm_neocpu.contrib.peers.report import Absence, Comparison, as_json, show
from tvm_neocpu.contrib.peers.runner import Network, Runner
from tvm_neocpu.contrib.peers.table import ENGINES_IN, ONNX_RUNTIME, OURS, Engine, is_ours
from tvm_neocpu.core.accuracy.precision import BF16, FP32
from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.runtime.process import threads
from tvm_neocpu.runtime.session import HINTS
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database.log import load_log

# The exit code where the outputs of ours differ from the reference's.
WRONG_OUTPUTS = 1
NOT_INSTALLED = "not installed"
# Turns of a second for each engine, where calls a second are compared.
MAX_TURNS = 5


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_dispatch, argv)


def _dispatch(argv: list[str]) -> int:
    command = COMMANDS.get(argv[0]) if argv else None
    return command(argv[1:]) if command else _bench_networks(argv)


def _bench_networks(argv: list[str]) -> int:
    words, flags = cli.split_target_flags(argv)
    options = _parser().parse_args(words)
    count = threads.take_cores(options.threads)
    text = cli.target_text(options.target, flags)
    target = parse_target(text)
    disk.check_writable(options.json)
    logs = (options.log,) if options.log else ()
    load_log(logs)  # a missing log is an error before anything is built
    settings = _Settings(
        cli.parse_shapes(options.shape), count, text, logs, options.runs, options.precision
    )
    if options.precision == BF16 and target.cpu.bf16 is None:
        raise NeoCpuError(f"--precision bf16: {target.cpu.name} does not multiply in bf16")
    if options.hint == "throughput":
        if options.precision != FP32:
            raise NeoCpuError("--hint throughput compares engines in fp32: leave out --precision")
        known = [_network(spec, settings) for spec in options.models]
        turns = min(options.runs, MAX_TURNS)
        return bench_throughput(known, turns, target.cpu.name, options.json)
    comparisons: list[Comparison] = []
    for spec in options.models:
        network = _network(spec, settings)
        if not comparisons:  # only now, so that bad input is one line
            _warn_of_missing_engines(options.precision)
        comparisons.append(_compare(network, settings))
    show(comparisons, count, cli.console(width=120), options.precision)
    report = as_json(comparisons, count, target.cpu.name, options.precision)
    disk.write_report(options.json, report)
    return WRONG_OUTPUTS if any([_differs(comparison) for comparison in comparisons]) else 0


# The first word picks the benchmark; any other first word is a network to compare.
COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "networks": _bench_networks,
    "kernels": bench_kernels,
    "plan": bench_plan,
    "model": bench_model,
    "deploy": bench_deploy,
}


@dataclass(frozen=True)
class _Settings:
    shapes: dict[str, tuple[int, ...]]
    threads: int
    target: str
    logs: tuple[Path, ...]
    runs: int
    precision: str = FP32


def _network(spec: str, settings: _Settings) -> Network:
    name, model = cli.load_network(spec)
    shapes = resolve_shapes(model.graph, settings.shapes)
    return Network(name, model, shapes, settings.threads, settings.target, settings.logs)


def _warn_of_missing_engines(precision: str) -> None:
    for engine in ENGINES_IN[precision]:
        if not engine.installed:
            print(f"warning: {engine.name} is {NOT_INSTALLED}: {_install(engine)}", file=sys.stderr)


def _compare(network: Network, settings: _Settings) -> Comparison:
    name = network.name
    runners: dict[str, Runner] = {}
    absent: dict[str, Absence] = {}
    with contextlib.ExitStack() as processes:
        for engine in ENGINES_IN[settings.precision]:
            if not engine.installed:
                absent[engine.name] = Absence(NOT_INSTALLED, _install(engine))
                continue
            try:
                runner = processes.enter_context(engine.isolate(network))
                runner.burst(0)  # one run finds what loading does not
            except EngineError as error:
                if is_ours(engine.name):
                    raise
                absent[engine.name] = Absence(error.state, str(error))
                print(f"warning: {engine.name} cannot run {name}: {error}", file=sys.stderr)
            else:
                runners[engine.name] = runner
        # ONNX Runtime, the first peer, is the reference wherever it runs the network.
        peers = (engine for engine in runners if not is_ours(engine))
        reference = next(peers, OURS)
        # It alone says what a quantised network may compute.
        answers = reference == ONNX_RUNTIME
        expected = expected_outputs(network.at_shapes, network.inputs) if answers else None
        tolerance = TOLERANCE if settings.precision == FP32 else BF16_TOLERANCE
        timings = compare(runners, settings.runs, reference, expected, tolerance)
        if expected is not None and sums_saturate_here():
            timings = excuse_saturation(timings, reference, OURS)
        return Comparison(name, timings, absent, reference)


def _install(engine: Engine) -> str:
    return f"pip install {' '.join(engine.missing)}"


def _differs(comparison: Comparison) -> bool:
    """Whether our outputs are wrong; says so of every engine, on stderr, in one line each."""
    for engine in comparison.differing:
        timing = comparison.timings[engine]
        print(
            f"{'error' if engine == OURS else 'warning'}: {comparison.network}: {engine} differs "
            f"from {comparison.reference} by {timing.error:.1e} of the largest value, "
            f"more than {timing.tolerance:.0e}",
            file=sys.stderr,
        )
    for engine, timing in comparison.timings.items():
        if timing.saturates:
            print(
                f"note: {comparison.network}: {engine} errs by {timing.error:.1e} of the largest "
                "value: this CPU has no VNNI, and its int8 sums saturate; its time counts",
                file=sys.stderr,
            )
    return OURS in comparison.differing


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(
        prog="python -m tvm_neocpu.bench",
        description=__doc__,
        epilog="`bench kernels --help`: each kernel against the FMA peak; `bench plan --help`: are "
        "the layout search's costs true; `bench model --help`: how good is the cost model, by a "
        "log; `bench deploy --help`: time and memory until the first answer. `bench networks` is "
        "this one.",
    )
    cli.add_common_options(parser)
    parser.add_argument(
        "--runs", type=cli.positive, default=50, help="timed runs of each engine (default: 50)"
    )
    parser.add_argument(
        "--hint",
        choices=HINTS,
        default=HINTS[0],
        help="throughput: calls a second instead of the time of one",
    )
    parser.add_argument(
        "--precision",
        choices=tuple(ENGINES_IN),
        default=FP32,
        help="bf16: engines that can multiply in it, beside ours in fp32 (default: all in fp32)",
    )
    cli.add_json_option(parser)
    return parser
