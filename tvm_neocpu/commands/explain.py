"""Why each layer is built as it is: `python -m tvm_neocpu.explain resnet50 --html resnet50.html`.

Shows what a build for the target would choose now, from the logs it would find: per node the
implementation, its layouts, and what the next best would cost in the whole; the layout transforms
that are kept; how far from the optimum all of it can be. Nothing is built or measured.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path

from tvm_neocpu.commands import cli
from tvm_neocpu.contrib.explain import page, table
from tvm_neocpu.contrib.explain.as_json import as_json
from tvm_neocpu.contrib.explain.network import ExplainedNetwork
from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.core.cpu import Cpu
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.global_search.network.choose import solution_of
from tvm_neocpu.global_search.network.explain import Explanation, explain
from tvm_neocpu.global_search.network.layout_graph import build_layout_graph
from tvm_neocpu.global_search.solvers.solve import solve
from tvm_neocpu.pipeline import fold, known_costs
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.runtime import threads
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database.history import History, apply_history_best, current_history


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_explain, argv)


def _explain(argv: list[str]) -> int:
    words, flags = cli.split_target_flags(argv)
    parser = _parser()
    options = parser.parse_args(words)
    if len(options.models) > 1:
        parser.error(f"one MODEL at a time, not {len(options.models)}")
    if options.threads:
        threads.use_threads(options.threads)
    cpu = parse_target(cli.target_text(options.target, flags)).cpu
    name, model = cli.load_network(options.models[0])
    mod, _ = from_onnx(model, cli.parse_shapes(options.shape) or None)
    graph = ExtractConvGraph(cpu)(fold(mod, cpu))
    logs = apply_history_best(options.log) if options.log else contextlib.nullcontext()
    with logs:
        explanation, origin = explain_graph(graph, cpu, current_history(cpu))
    network = ExplainedNetwork(name, cpu.name, cpu.cores, origin, explanation)
    table.show(network)
    cli.write_report(options.json, as_json(network))
    if options.html:
        with cli.writing(options.html):
            options.html.write_text(page.render(network), encoding="utf-8")
    return 0


def explain_graph(graph: ConvGraph, cpu: Cpu, history: History) -> tuple[Explanation, str]:
    """What a build would choose, explained; and where that comes from."""
    candidates, transform_seconds = known_costs(graph, cpu, history)
    layout_graph = build_layout_graph(graph, candidates, transform_seconds)
    solution = solve(layout_graph.problem)
    origin = f"a search over what is known ({solution.method})"
    logged = history.plan(graph)
    if logged is not None:
        planned = solution_of(layout_graph, logged, solution)
        origin = f"the log's plan ({logged.method})"
        if planned is None:
            # Records came after the plan: it takes schemes that they have beaten since.
            origin = f"a search over newer records than those of the log's plan ({solution.method})"
        solution = planned or solution
    records = history.schemes(graph.workloads)
    measured = {(r.workload, r.config) for found in records.values() for r in found}
    return explain(layout_graph, solution, measured), origin


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(prog="python -m tvm_neocpu.explain", description=__doc__)
    cli.add_common_options(parser)
    parser.add_argument(
        "--html", type=Path, metavar="F", help="write one page with the graph drawn to this file"
    )
    parser.add_argument("--json", type=Path, metavar="F", help="write everything to this file")
    return parser
