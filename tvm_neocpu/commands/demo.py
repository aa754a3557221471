"""The whole product in three minutes: tune ResNet-18, build it untuned and tuned, compare.

`make demo` runs this. The log stays in demo-out/, where the tuned build reads it.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import onnx
import tvm
from rich.table import Table

from tvm_neocpu import pipeline, relay
from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.commands.parts.tuning_session import network_session
from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.commands.shared.exit_codes import INTERRUPTED
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.peers.compare import Timing, compare
from tvm_neocpu.contrib.peers.isolated import IsolatedRunner
from tvm_neocpu.contrib.peers.ours import OurRunner
from tvm_neocpu.contrib.peers.runner import Network, Runner
from tvm_neocpu.contrib.peers.table import ENGINES
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.folded_network import opener
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.relay_passes.operators.layout_transform import count_transforms
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.runtime.process import threads
from tvm_neocpu.specialize import build_networks
from tvm_neocpu.targets import CompileTarget, parse_target
from tvm_neocpu.tuning.database.history import History, apply_history_best, current_history
from tvm_neocpu.tuning.in_network.ratios import Ratio
from tvm_neocpu.tuning.in_network.report.outcome import Outcome, speedup

Libraries = dict[str, Path]
Timings = dict[str, Timing]

RUNS = 50
PEER = "ONNX Runtime"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_demo, argv)


def _demo(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    target, count = parse_target("llvm"), threads.thread_count()
    log = disk.prepare_log(options.folder / f"{options.model}.log")
    log.write_text("")  # the demonstration starts without records
    model = model_zoo.build(options.model)
    mod, _ = relay.frontend.from_onnx(model)

    print(
        f"tuning {options.model} for {target.cpu.name}, {plural(count, 'thread')} -> {log}",
        flush=True,
    )
    outcome = _tune(model, target, log, options.seconds)
    print(outcome, flush=True)
    if outcome.interrupted:
        return INTERRUPTED

    nothing = History(target.cpu.name, target.cpu.cores)
    with apply_history_best(log):
        tuned = current_history(target.cpu)
        libraries = {
            "untuned": _export(mod, target, nothing, options.folder / "untuned.so"),
            "tuned": _export(mod, target, tuned, options.folder / "tuned.so"),
        }
        transforms = {
            "untuned": _transforms(mod, target, nothing),
            "tuned": _transforms(mod, target, tuned),
        }
    timings = _timings(options.model, model, count, libraries)
    _report(timings, transforms, count)
    print(about_tuning(timings["tuned"].over(timings["untuned"]), outcome))
    return 0


def _tune(model: onnx.ModelProto, target: CompileTarget, log: Path, seconds: float) -> Outcome:
    shapes = resolve_shapes(model.graph, {})
    open_network = opener(model.SerializeToString(), shapes, "llvm")
    nothing = History(target.cpu.name, target.cpu.cores)
    return network_session(open_network, open_network(), nothing, log, budget=seconds).run()


def _export(mod: tvm.IRModule, target: CompileTarget, history: History, path: Path) -> Path:
    """Build with the history's plan and records, and export code and weights to ``path``."""
    build_networks({"main": mod}, target, history=history).export_library(path)
    return path


def _transforms(mod: tvm.IRModule, target: CompileTarget, history: History) -> str:
    """``"N -> M"``: layout transforms before and after the plan is applied.

    Before: every convolution converts its input from NCHW and its output back.
    """
    folded = pipeline.fold(mod, target.cpu)
    graph = ExtractConvGraph(target.cpu)(folded)
    plan = choose_plan(graph, target.cpu, history)
    configs = [plan.configs[node.id] for node in graph.convs]
    # One transform before each convolution that reads blocks (the first reads NCHW), one after it.
    alone = sum(1 + bool(getattr(config, "ic_bn", 0)) for config in configs)
    return f"{alone} -> {count_transforms(pipeline.apply_plan(folded, plan, target.cpu))}"


def _timings(name: str, model: onnx.ModelProto, count: int, libraries: Libraries) -> Timings:
    """Times of both builds and, if it is installed, ONNX Runtime, measured in turns.

    Errors are differences from the last of them.
    """
    network = Network(name, model, {"data": model_zoo.input_shape(name)}, count)
    peer = next(engine for engine in ENGINES if engine.name == PEER)
    with contextlib.ExitStack() as processes:
        runners: dict[str, Runner] = {
            label: processes.enter_context(IsolatedRunner(partial(OurRunner, network, path)))
            for label, path in libraries.items()
        }
        if peer.installed:
            runners[PEER] = processes.enter_context(peer.isolate(network))
        return compare(runners, RUNS)


def _report(timings: Timings, transforms: dict[str, str], count: int) -> None:
    table = Table(title=f"medians of {RUNS} runs in turns, {plural(count, 'thread')}, float32")
    for heading in ("build", "ms", f"vs {PEER}", "largest error", "layout transforms"):
        table.add_column(heading, justify="left" if heading == "build" else "right")
    peer = timings.get(PEER)
    for label, timing in timings.items():
        ratio = f"{peer.median / timing.median:.2f}x" if peer else "-"
        error = f"{timing.error:.1e}" if peer else "-"
        row = (f"{timing.median * 1e3:.2f}", ratio, error, transforms.get(label, "-"))
        table.add_row(label, *row)
    cli.console(width=100).print(table)


def about_tuning(turns: Ratio, outcome: Outcome) -> str:
    """What tuning brought, by the proof; the table's own ratio beside it, and why it may differ.

    ``turns`` is the tuned build's time over the untuned one's in the table.
    """
    seen = f"the table's turns say {speedup(turns)}"
    if not outcome.improved:
        return f"No faster plan was proven, so both builds run the same; {seen}."
    assert outcome.proof is not None
    return (
        f"Tuned is {speedup(outcome.proof.ratio, 'faster ')}: that was proven. For comparison, "
        f"{seen}: they are fewer, and short bursts after a pause."
    )


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(prog="python -m tvm_neocpu.demo", description=__doc__)
    parser.add_argument("--model", default="resnet18", choices=model_zoo.names())
    parser.add_argument("--seconds", type=float, default=170.0, help="how long to tune")
    parser.add_argument(
        "--folder", type=Path, default=Path("demo-out"), help="folder for the log and the builds"
    )
    return parser
