"""`python -m tvm_neocpu.bench kernels --network resnet50 --threads 1`: each kernel against peak.

`--workload '512x7x7->512 3x3 p1'` times one workload instead of a network; it may be repeated.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from functools import cache, partial
from statistics import median

from tvm_neocpu import pipeline
from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.contrib.kernels.ceilings import Ceilings
from tvm_neocpu.contrib.kernels.measure import time_workloads
from tvm_neocpu.contrib.kernels.read_kernels import read_bandwidth
from tvm_neocpu.contrib.kernels.report import as_json, show
from tvm_neocpu.contrib.kernels.tile_peak import peak_kernel
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import BF16_WEIGHTS, FP32, INTEGER_PRODUCTS, U8S8
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.relay_passes.store_half_weights import in_half, rounds_data
from tvm_neocpu.runtime.process import threads
from tvm_neocpu.targets import CompileTarget, parse_target
from tvm_neocpu.topi.table import implementations_of, operator_of
from tvm_neocpu.topi.workload_text import parse_workload

# The ceilings are those of this type, which networks are made of.
DTYPE = "float32"


def bench_kernels(argv: list[str]) -> int:
    """The ``kernels`` subcommand of ``bench``; returns its exit code."""
    words, flags = cli.split_target_flags(argv)
    options = _parser().parse_args(words)
    count = threads.take_cores(options.threads)
    target = parse_target(cli.target_text(options.target, flags))
    disk.check_writable(options.json)
    named = Counter[Workload](map(parse_workload, options.workload))
    workloads = named or _workloads_of(options, target)
    if options.precision == "int8":
        workloads = _in_integers(workloads)
    if options.precision == "bf16":
        workloads = _in_bf16(workloads, target.cpu)
    peak = cache(partial(peak_kernel, target))
    groups = list(time_workloads(workloads, target, options.tries, peak))
    peaks = [timed.peak for group in groups for timed in group]
    ceilings = Ceilings(median(peaks), read_bandwidth(target, DTYPE))
    show(groups, ceilings, cli.console(width=190))
    about = {
        "network": None if options.workload else options.network,
        **provenance(target.cpu.name, count),
    }
    disk.write_report(options.json, {**about, **as_json(groups, ceilings)})
    return 0


def _workloads_of(options: argparse.Namespace, target: CompileTarget) -> Counter[Workload]:
    """The network's distinct workloads; the counter says how often each occurs."""
    _, model = cli.load_network(options.network)
    mod, _ = from_onnx(model, resolve_shapes(model.graph, cli.parse_shapes(options.shape)))
    graph = ExtractConvGraph(target.cpu)(pipeline.fold(mod, target.cpu))
    return Counter(node.workload for node in graph.convs if node.workload is not None)


def _in_integers(workloads: Counter[Workload]) -> Counter[Workload]:
    """The same layers quantised: uint8 data, int8 weights; those that templates have."""
    found: Counter[Workload] = Counter()
    for workload, count in workloads.items():
        entries = implementations_of(operator_of(workload).name)
        if workload.types in INTEGER_PRODUCTS:
            found[workload] += count
        elif any(U8S8 in entry.types for entry in entries):
            found[replace(workload, types=U8S8)] += count  # type: ignore[type-var]
    return found


def _in_bf16(workloads: Counter[Workload], cpu: Cpu) -> Counter[Workload]:
    """The same layers in bf16, those that the CPU multiplies so.

    Raises NeoCpuError for a CPU without the instruction.
    """
    if cpu.bf16 is None:
        raise NeoCpuError(f"--precision bf16: {cpu.name} has no instruction that multiplies bf16")
    found: Counter[Workload] = Counter()
    for workload, count in workloads.items():
        narrow = in_half(workload, BF16_WEIGHTS.weight)
        if workload.types in (FP32, BF16_WEIGHTS) and rounds_data(narrow, cpu):
            found[narrow] += count
    return found


def _parser() -> cli.Parser:
    parser = cli.Parser(prog="python -m tvm_neocpu.bench kernels", description=__doc__)
    parser.add_argument("--network", default="resnet50", help=cli.MODEL_HELP)
    parser.add_argument("--workload", action="append", default=[], metavar="'64x56x56->64 3x3 p1'")
    parser.add_argument("--target", default="llvm", help="as for tuning (default: this machine)")
    parser.add_argument(
        "--threads", type=cli.thread_count, help="threads to run on (default: cores)"
    )
    parser.add_argument("--shape", action="append", default=[], metavar="NAME:1,3,224,224")
    parser.add_argument(
        "--precision",
        choices=("fp32", "int8", "bf16"),
        default="fp32",
        help="int8: the network's layers as if quantised; bf16: those that bf16 is multiplied in "
        "(default: as they are)",
    )
    parser.add_argument(
        "--tries",
        type=cli.positive,
        default=3,
        help="configs to time of each implementation (default: 3)",
    )
    cli.add_json_option(parser)
    return parser
