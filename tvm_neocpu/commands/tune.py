"""Tune networks for a CPU: `python -m tvm_neocpu.tune resnet50 --target llvm -mcpu=skylake-avx512`.

Writes one log per network, which `relay.build` consumes; a search that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tvm_neocpu.commands import cli
from tvm_neocpu.commands.tune_network import tune_network
from tvm_neocpu.core.errors import TargetError
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.runtime import threads
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.search.budget import Limits
from tvm_neocpu.tuning.search.terminal_progress import progress_for
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
        lacks = ", ".join(target.missing)
        raise TargetError(f"cannot measure code for {target.cpu.name} here: no {lacks}")
    threads.use_threads(target.cpu.cores)  # -num-cores counts too: records are keyed by it
    shapes = cli.parse_shapes(options.shape)
    networks = [cli.load_network(spec) for spec in options.models]
    logs = [cli.prepare_log(options.log or cli.default_log(target, name)) for name, _ in networks]
    for (name, model), log in zip(networks, logs, strict=True):
        mod, _ = from_onnx(model, shapes or None)
        print(f"{name} on {target.cpu.name}, {target.cpu.cores} threads -> {log}", flush=True)
        summary = tune_network(
            mod,
            target,
            log,
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
        "--trials", type=cli.positive, help="candidates to measure per workload (default: all)"
    )
    parser.add_argument(
        "--time-budget", type=_seconds, metavar="S", help="seconds for a network (default: no end)"
    )
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="use what the log has already (default), or measure everything again",
    )
    parser.add_argument("--tuner", choices=TUNERS, default=next(iter(TUNERS)))
    parser.add_argument("--seed", type=int, default=0, help="of the random and xgb tuners")
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not seconds > 0:
        raise ValueError
    return seconds


_seconds.__name__ = "positive number"
