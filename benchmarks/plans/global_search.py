"""How long the global search takes, whether it proves its optimum, and what it gains over greedy.

    python benchmarks/plans/global_search.py --json benchmarks/results/global_search.json

The cost model predicts every time of a plan. No kernel runs, so any target can be given. The greedy
plan takes each convolution's fastest scheme and the best layouts for the joins between them.

The exit code is 1 if a search is over its time limit, or if a global plan is slower than greedy.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import onnx
from irregular_networks import rails, random_network, ssd_ladder
from rich.console import Console
from rich.table import Table

from tvm_neocpu.choose_plan import known_costs
from tvm_neocpu.commands.shared import cli
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.provenance import commit, model_name
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.global_search import build_layout_graph, explain, plan_of, solve
from tvm_neocpu.pipeline import apply_plan, fold
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.runtime.process import host as host_cpu
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database.history import History

RANDOM_CONVS = 1000
ROUNDING = 1e-9
# Max seconds: of the search for a network of the zoo or a ladder, of all graph passes for "random".
LIMITS = {"zoo": 1.0, "ladder": 10.0, "random": 60.0}


@dataclass(frozen=True)
class Result:
    """Sizes, seconds of each stage (None without a module), predicted milliseconds of the plans."""

    network: str
    group: str
    convs: int
    joins: int
    edges: int
    candidates: int
    import_s: float | None
    fold_s: float | None
    extract_s: float | None
    candidates_s: float
    layout_graph_s: float
    solve_s: float
    explain_s: float
    apply_s: float | None
    method: str
    optimal: bool
    lower_bound_ms: float
    global_ms: float
    greedy_ms: float | None
    transforms: int

    @property
    def gain(self) -> float | None:
        """The greedy plan's time over the global plan's: above 1 the search pays."""
        return None if self.greedy_ms is None else self.greedy_ms / self.global_ms

    @property
    def passes_s(self) -> float:
        """Seconds from the imported model to the altered module."""
        stages = (self.fold_s, self.extract_s, self.candidates_s, self.layout_graph_s)
        return sum(s or 0.0 for s in (*stages, self.solve_s, self.apply_s))

    @property
    def in_time(self) -> bool:
        """Whether the search, for the random network all passes, stayed within its limit."""
        spent = self.passes_s if self.group == "random" else self.layout_graph_s + self.solve_s
        return spent < LIMITS[self.group]


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """The function's result, and the seconds it took."""
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def search_model(name: str, group: str, model: onnx.ModelProto, cpu: Cpu) -> Result:
    """Time every stage from the ONNX model to the altered module."""
    (mod, _), import_s = timed(from_onnx, model)
    folded, fold_s = timed(fold, mod, cpu)
    graph, extract_s = timed(ExtractConvGraph(cpu), folded)
    before = {"import_s": import_s, "fold_s": fold_s, "extract_s": extract_s}
    return search_graph(name, group, graph, cpu, before, folded)


def search_graph(
    name: str,
    group: str,
    graph: ConvGraph,
    cpu: Cpu,
    before: dict[str, float] | None = None,
    folded: Any = None,
) -> Result:
    """Time the search on a conv graph.

    before: the seconds of earlier stages by field name. folded: the module that the plan is applied
    to, if there is one.
    """
    (schemes, *prices), candidates_s = timed(known_costs, graph, cpu, History(cpu.name, cpu.cores))
    layout_graph, layout_graph_s = timed(build_layout_graph, graph, schemes, *prices)
    solution, solve_s = timed(solve, layout_graph.problem)
    explained, explain_s = timed(explain, layout_graph, solution)
    apply_s = None
    if folded is not None:
        _, apply_s = timed(apply_plan, folded, plan_of(layout_graph, solution), cpu)
    greedy = explained.greedy_seconds
    stages = dict.fromkeys(("import_s", "fold_s", "extract_s")) | (before or {})
    return Result(
        network=name,
        group=group,
        convs=len(graph.convs),
        joins=len(graph.joins),
        edges=len(graph.edges),
        candidates=sum(map(len, layout_graph.options)),
        **stages,
        candidates_s=candidates_s,
        layout_graph_s=layout_graph_s,
        solve_s=solve_s,
        explain_s=explain_s,
        apply_s=apply_s,
        method=solution.method,
        optimal=solution.optimal,
        lower_bound_ms=solution.lower_bound * 1e3,
        global_ms=solution.cost * 1e3,
        greedy_ms=None if greedy is None else greedy * 1e3,
        transforms=len(explained.transforms),
    )


HEADINGS = (
    "network",
    "convs",
    "joins",
    "candidates",
    "graph s",
    "solve s",
    "passes s",
    "explain s",
    "optimal",
    "method",
    "global ms",
    "greedy ms",
    "gain",
)


def cells(result: Result) -> list[str]:
    return [
        result.network,
        str(result.convs),
        str(result.joins),
        str(result.candidates),
        f"{result.layout_graph_s:.3f}",
        f"{result.solve_s:.3f}",
        f"{result.passes_s:.2f}",
        f"{result.explain_s:.2f}",
        "yes" if result.optimal else f"within {1 - result.lower_bound_ms / result.global_ms:.2%}",
        result.method,
        f"{result.global_ms:.3f}",
        "?" if result.greedy_ms is None else f"{result.greedy_ms:.3f}",
        "?" if result.gain is None else f"{result.gain:.3f}x",
    ]


NOTE = (
    "graph: from candidates to the layout graph; passes: fold, extract, candidates, graph, solve "
    "and alter layout; the cost model predicts the times in ms"
)


def table(results: list[Result], cpu: Cpu) -> Table:
    shown = Table(title=f"global search for {cpu.name}, {cpu.cores} threads", caption=NOTE)
    for heading in HEADINGS:
        shown.add_column(heading, justify="left" if heading in ("network", "method") else "right")
    for result in results:
        shown.add_row(*cells(result))
    return shown


def markdown(results: list[Result], report: dict[str, Any]) -> str:
    rows = [HEADINGS, ["---"] * len(HEADINGS), *map(cells, results)]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    machine = report["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in report["versions"].items())
    return (
        f"# Global search\n\n`python benchmarks/plans/global_search.py`, {report['time']}, commit "
        f"{report['commit']}.\nMachine: {machine['model']}, {machine['cores']} cores, load "
        f"{machine['load']:.1f}; target {machine['target']}, {report['threads']} threads; "
        f"{versions}.\n\n{lines}\n\n{NOTE[0].upper()}{NOTE[1:]}.\n"
    )


def as_json(results: list[Result], cpu: Cpu) -> dict[str, Any]:
    """The results with machine, versions and commit."""
    return {
        "machine": {
            "model": model_name(),
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
            "llvm_name": host_cpu.cpu_name(),
            "platform": platform.platform(),
            "target": cpu.name,
        },
        "threads": cpu.cores,
        "commit": commit(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("apache-tvm", "numpy", "scipy")},
        },
        "limits_s": LIMITS,
        "networks": [
            {**asdict(r), "gain": r.gain, "passes_s": r.passes_s, "in_time": r.in_time}
            for r in results
        ],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "models", nargs="*", help="networks of the zoo (default: all, and irregular ones)"
    )
    parser.add_argument("--target", default="llvm", help='quoted: "llvm -mcpu=NAME"')
    parser.add_argument(
        "--convs",
        type=cli.positive,
        default=RANDOM_CONVS,
        help="convolutions of the random network",
    )
    parser.add_argument("--json", type=Path, metavar="F")
    parser.add_argument("--markdown", type=Path, metavar="F")
    options = parser.parse_args()
    cpu = parse_target(options.target).cpu
    results = [
        search_model(name, "zoo", model_zoo.build(name), cpu)
        for name in options.models or model_zoo.names()
    ]
    if not options.models:
        results.append(search_graph("ssd ladder", "ladder", ssd_ladder(), cpu))
        results.append(search_graph("3 rails, 40 rungs", "ladder", rails(3, 40), cpu))
        model = random_network(options.convs)
        results.append(search_model(f"random {options.convs}", "random", model, cpu))
    Console(width=200).print(table(results, cpu))
    report = as_json(results, cpu)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(results, report))
    late = [result.network for result in results if not result.in_time]
    worse = [
        result.network
        for result in results
        if result.gain is not None and result.gain < 1 - ROUNDING
    ]
    print(f"over the time limit: {', '.join(late) or 'none'}")
    print(f"global behind greedy: {', '.join(worse) or 'none'}")
    return 1 if late or worse else 0


if __name__ == "__main__":
    raise SystemExit(main())
