"""Tune networks for a CPU: `python -m tvm_neocpu.tune resnet50 --target llvm -mcpu=skylake-avx512`.

Writes one log per network, which `relay.build` reads. After an interrupt the same command goes on
where it stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import partial

from tvm_neocpu.commands import cli
from tvm_neocpu.core.errors import TargetError
from tvm_neocpu.core.fallback import tell
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.frontend.onnx_model import resolve_shapes
from tvm_neocpu.pipeline import fold, search_plan
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.relay_passes.find_fallbacks import FindFallbacks
from tvm_neocpu.runtime import threads
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.local_search.budget import Limits
from tvm_neocpu.tuning.local_search.terminal_progress import progress_for
from tvm_neocpu.tuning.tune_graph import tune_graph
from tvm_neocpu.tuning.tuners import TUNERS


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_tune, argv)


def _tune(argv: list[str]) -> int:
    words, flags = cli.split_target_flags(argv)
    options = _parser().parse_args(words)
    if options.threads:
        threads.use_threads(options.threads)
    target = parse_target(cli.target_text(options.target, flags))
    if not target.runs_here:
        raise TargetError(
            f"cannot measure code for {target.cpu.name} here: {target.why_not_here}; "
            "tune on the target itself"
        )
    cpu = target.cpu
    threads.use_threads(cpu.cores)  # records are keyed by the threads, which -num-cores may set
    shapes = cli.parse_shapes(options.shape)
    networks = [cli.load_network(spec) for spec in options.models]
    logs = [cli.prepare_log(options.log or cli.default_log(target, name)) for name, _ in networks]
    for (name, model), log in zip(networks, logs, strict=True):
        mod, _ = from_onnx(model, resolve_shapes(model.graph, shapes))
        print(f"{name} on {cpu.name}, {cpu.cores} threads -> {log}", flush=True)
        folded = fold(mod, cpu)
        tell(FindFallbacks(cpu)(folded), "warn")  # no candidate is measured for these
        graph = ExtractConvGraph(cpu)(folded)
        summary = tune_graph(
            graph,
            target.target,
            cpu,
            partial(search_plan, graph, cpu),
            TuningLog(log),
            limits=Limits(trials=options.trials, seconds=options.time_budget),
            tuner=lambda task: TUNERS[options.tuner](task, options.seed),
            resume=options.resume,
            progress=progress_for(sys.stdout),
        )
        print(f"{name}: {summary}", flush=True)
        if summary.interrupted:
            return cli.INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(prog="python -m tvm_neocpu.tune", description=__doc__)
    cli.add_common_options(parser)
    parser.add_argument(
        "--trials", type=cli.positive, help="max candidates to measure per workload (default: all)"
    )
    parser.add_argument(
        "--time-budget",
        type=_seconds,
        metavar="S",
        help="seconds for each network (default: no limit)",
    )
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="keep what the log holds already (default), or measure everything again",
    )
    parser.add_argument("--tuner", choices=TUNERS, default=next(iter(TUNERS)))
    parser.add_argument("--seed", type=int, default=0, help="seed of the random and xgb tuners")
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise ValueError
    return seconds


_seconds.__name__ = "positive number"
