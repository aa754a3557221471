"""Are the search's costs true? `python -m tvm_neocpu.bench plan resnet50 --log F --json out.json`.

Builds each network under the global search's plan, the greedy plan (every convolution takes its own
fastest scheme), one layout for all, and some random plans. Predicts and measures each of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_neocpu import pipeline
from tvm_neocpu.choose_plan import known_costs
from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.plans.compare import compare_plans
from tvm_neocpu.contrib.plans.report import as_json, show
from tvm_neocpu.contrib.plans.result import SAME_ANSWER, NetworkPlans
from tvm_neocpu.contrib.plans.spread import plans_of
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.errors import NeoCpuError, TargetError
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.runtime.process import threads
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database.history import current_history

PACKAGES = ("numpy", "scipy")


@dataclass(frozen=True)
class _Settings:
    shapes: dict[str, tuple[int, ...]]
    threads: int
    target: str
    runs: int
    randoms: int
    seed: int


def bench_plan(argv: list[str]) -> int:
    """The ``plan`` subcommand of ``bench``; returns its exit code."""
    words, flags = cli.split_target_flags(argv)
    options = _parser().parse_args(words)
    count = threads.take_cores(options.threads)
    text = cli.target_text(options.target, flags)
    target = parse_target(text)
    if not target.runs_here:
        raise TargetError(f"cannot run code for {target.cpu.name} here: {target.why_not_here}")
    disk.check_writable(options.json)
    shapes = cli.parse_shapes(options.shape)
    settings = _Settings(shapes, count, text, options.runs, options.random, options.seed)
    console = cli.console(width=120)
    report = provenance(target.cpu.name, count, PACKAGES) | {"networks": []}
    with cli.logs_of(options):
        for spec in options.models:
            network = _compare(spec, settings)
            show([network], count, console)
            _check_answers(network)
            report["networks"].append(as_json(network))
            disk.write_report(options.json, report)
    return 0


def _compare(spec: str, settings: _Settings) -> NetworkPlans:
    name, model = cli.load_network(spec)
    shapes = resolve_shapes(model.graph, settings.shapes)
    network = Network(name, model, shapes, settings.threads, settings.target)
    cpu = parse_target(settings.target).cpu
    mod, _ = from_onnx(model, shapes)
    graph = ExtractConvGraph(cpu)(pipeline.fold(mod, cpu))
    history = current_history(cpu)
    plans = plans_of(graph, cpu, history, settings.randoms, settings.seed)
    schemes, *_ = known_costs(graph, cpu, history)
    prices = {
        (w, scheme.config): scheme.seconds for w, found in schemes.items() for scheme in found
    }
    return compare_plans(network, graph.hash, plans, settings.runs, prices)


def _check_answers(network: NetworkPlans) -> None:
    """Raise NeoCpuError if two plans compute different outputs: one of them is wrong."""
    if network.largest_difference > SAME_ANSWER:
        worst = max(network.plans, key=lambda plan: plan.timing.error)
        raise NeoCpuError(
            f"{network.network}: plan {worst.priced.name} differs from the global one by "
            f"{worst.timing.error:.1e} of the largest output: please report it"
        )


def _parser() -> cli.Parser:
    parser = cli.Parser(prog="python -m tvm_neocpu.bench plan", description=__doc__)
    cli.add_common_options(parser)
    parser.add_argument(
        "--runs", type=cli.positive, default=40, help="timed runs of each plan (default: 40)"
    )
    parser.add_argument("--random", type=cli.positive, default=4, help="random plans (default: 4)")
    cli.add_seed_option(parser, "the random plans")
    cli.add_json_option(parser)
    return parser
