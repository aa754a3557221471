"""Compare with other engines: `python -m tvm_neocpu.bench resnet50 --threads 2 --json out.json`.

ONNX Runtime and OpenVINO take part where they are installed (`pip install tvm-neocpu[bench]`).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from tvm_neocpu import cli, threads
from tvm_neocpu.bench_kernels import bench_kernels
from tvm_neocpu.contrib.peers.compare import compare
from tvm_neocpu.contrib.peers.report import Comparison, as_json, show
from tvm_neocpu.contrib.peers.runner import Network, Runner
from tvm_neocpu.contrib.peers.table import ENGINES, OURS
from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.onnx_model import resolve_shapes
from tvm_neocpu.target import CompileTarget, parse_target
from tvm_neocpu.tuning.history import apply_history_best


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_dispatch, argv)


def _dispatch(argv: list[str]) -> int:
    command = COMMANDS.get(argv[0]) if argv else None
    return command(argv[1:]) if command else _bench_networks(argv)


def _bench_networks(argv: list[str]) -> int:
    words, flags = cli.split_target_flags(argv)
    options = _parser().parse_args(words)
    count = options.threads or threads.thread_count()
    threads.pin_process(count)
    threads.use_threads(count)
    target = parse_target(cli.target_text(options.target, flags))
    if options.json:
        _check_writable(options.json)
    shapes = cli.parse_shapes(options.shape)
    logs = apply_history_best(options.log) if options.log else contextlib.nullcontext()
    with logs:
        comparisons = [
            _compare(spec, shapes, count, target, options.runs) for spec in options.models
        ]
    console = Console()
    # Where nobody watches, a table must not be cut at the 80 columns that rich assumes.
    show(comparisons, count, console if console.is_terminal else Console(width=120))
    if options.json:
        report = as_json(comparisons, count, target.cpu.name)
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


# Further benchmarks, by their first word; without one of these words networks are compared.
COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "networks": _bench_networks,
    "kernels": bench_kernels,
}


def _compare(
    spec: str, shapes: dict[str, tuple[int, ...]], count: int, target: CompileTarget, runs: int
) -> Comparison:
    name, model = cli.load_network(spec)
    network = Network(name, model, resolve_shapes(model.graph, shapes), count, target)
    runners: dict[str, Runner] = {}
    absent: dict[str, str] = {}
    for engine in ENGINES:
        if not engine.installed:
            absent[engine.name] = "not installed"
            continue
        try:
            runners[engine.name] = engine.load(network)
        except Exception as error:  # a peer may refuse a model in any way it likes
            if engine.name == OURS or isinstance(error, NeoCpuError):
                raise
            absent[engine.name] = "failed"
            reason = str(error).strip().splitlines()[:1]
            print(f"warning: {engine.name} cannot run {name}:", *reason, file=sys.stderr)
    return Comparison(name, compare(runners, runs), absent)


def _check_writable(path: Path) -> None:
    try:
        with path.open("a"):
            pass
    except OSError as error:
        raise NeoCpuError(f"cannot write {path}: {error.strerror}") from error


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(prog="python -m tvm_neocpu.bench", description=__doc__)
    cli.add_common_options(parser)
    parser.add_argument(
        "--runs", type=cli.positive, default=50, help="timed runs of each engine (default: 50)"
    )
    parser.add_argument("--json", type=Path, metavar="F", help="write everything to this file")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
