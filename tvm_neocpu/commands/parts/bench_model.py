"""How good is the cost model? `python -m tvm_neocpu.bench model --log F --json out.json`.

Compares predictions with the times in a log (default: this user's log of this CPU): rank
correlation, and regret, which is how much slower the model's choice is than the best known. By
operator, by layer, and for each network of the zoo that the log has a verdict of. It measures
nothing. `--fit` fits the model's constants to the log and prints them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tvm_neocpu import pipeline
from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.cost_model.fit import fit
from tvm_neocpu.contrib.cost_model.quality import Judged, NetworkSummary, judge, network_summary
from tvm_neocpu.contrib.cost_model.readings import MIN_READINGS, readings_of
from tvm_neocpu.contrib.cost_model.report import ModelReport, as_json, show, show_fit
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.errors import LogError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database.log import LogContents, load_log

PACKAGES = ("scipy",)


def bench_model(argv: list[str]) -> int:
    """The ``model`` subcommand of ``bench``; returns its exit code."""
    words, flags = cli.split_target_flags(argv)
    options = _parser().parse_args(words)
    target = parse_target(cli.target_text(options.target, flags))
    disk.check_writable(options.json)
    path = options.log or cli.default_log(target, "workloads")
    log = load_log(path)
    readings = readings_of(log.records, target.cpu)
    if not readings.layers:
        raise LogError(
            f"{path} has no layer with {MIN_READINGS} measured configs on {target.cpu.name}: "
            "`python -m tvm_neocpu.tune` measures some"
        )
    judged = judge(readings.layers)
    report = ModelReport(target.cpu.name, readings, judged, _networks(log, target.cpu, judged))
    console = cli.console(width=190)
    show(report, console)
    fitted = fit(readings) if options.fit else None
    if fitted is not None:
        show_fit(fitted, console)
    about = {"log": str(path), **provenance(target.cpu.name, target.cpu.cores, PACKAGES)}
    disk.write_report(options.json, {**about, **as_json(report, fitted)})
    return 0


def _networks(log: LogContents, cpu: Cpu, judged: tuple[Judged, ...]) -> tuple[NetworkSummary, ...]:
    """The networks of the zoo that the log has a verdict of, as they are built today."""
    seen = {(v.network, v.threads) for v in log.verdicts if v.cpu == cpu.name}
    found = []
    for name in sorted({name for name, _ in seen} & set(model_zoo.names())):
        counts = Counter(n.workload for n in _graph_of(name, cpu).convs if n.workload is not None)
        for threads in sorted(threads for other, threads in seen if other == name):
            known = network_summary(name, threads, counts, judged)
            found += [known] if known is not None else []
    return tuple(found)


def _graph_of(name: str, cpu: Cpu) -> ConvGraph:
    _, model = cli.load_network(name)
    mod, _ = from_onnx(model, resolve_shapes(model.graph, {}))
    return ExtractConvGraph(cpu)(pipeline.fold(mod, cpu))


def _parser() -> cli.Parser:
    parser = cli.Parser(prog="python -m tvm_neocpu.bench model", description=__doc__)
    parser.add_argument("--target", default="llvm", help="as for tuning (default: this machine)")
    parser.add_argument("--log", type=Path, metavar="F", help="the log (default: this user's)")
    parser.add_argument("--fit", action="store_true", help="fit the model's constants to the log")
    cli.add_json_option(parser)
    return parser
