"""`python -m tvm_neocpu.bench kernels --network resnet50 --threads 1`: each kernel against peak."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path

from rich.console import Console

from tvm_neocpu import cli, pipeline, threads
from tvm_neocpu.contrib.kernels.ceilings import Ceilings, PeakKernel, read_bandwidth
from tvm_neocpu.contrib.kernels.measure import time_network
from tvm_neocpu.contrib.kernels.report import as_json, show
from tvm_neocpu.relay_frontend import from_onnx
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.target import parse_target
from tvm_neocpu.version import __version__


def bench_kernels(argv: list[str]) -> int:
    """The ``kernels`` subcommand of the benchmark command; returns its exit code."""
    words, flags = cli.split_target_flags(argv)
    options = _parser().parse_args(words)
    count = options.threads or threads.thread_count()
    threads.pin_process(count)
    threads.use_threads(count)
    target = parse_target(cli.target_text(options.target, flags))
    _, model = cli.load_network(options.network)
    mod, _ = from_onnx(model, cli.parse_shapes(options.shape) or None)
    graph = ExtractConvGraph(target.cpu)(pipeline.fold(mod, target.cpu))
    peak = PeakKernel(target)
    groups = list(time_network(graph, target, options.tries, peak))
    ceilings = Ceilings(peak.gflops(), read_bandwidth(target))
    console = Console()
    show(groups, ceilings, console if console.is_terminal else Console(width=190))
    if options.json:
        about = {
            "network": options.network,
            "threads": count,
            "cpu": target.cpu.name,
            "machine": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "version": __version__,
        }
        options.json.write_text(json.dumps({**about, **as_json(groups, ceilings)}, indent=2) + "\n")
    return 0


def _parser() -> cli.Parser:
    parser = cli.Parser(prog="python -m tvm_neocpu.bench kernels", description=__doc__)
    parser.add_argument("--network", default="resnet50", help="of the zoo, or an ONNX file")
    parser.add_argument("--target", default="llvm", help="as for tuning (default: this machine)")
    parser.add_argument("--threads", type=cli.positive, help="threads to run on (default: cores)")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME:1,3,224,224")
    parser.add_argument(
        "--tries", type=cli.positive, default=3, help="configs an implementation (default: 3)"
    )
    parser.add_argument("--json", type=Path, metavar="F", help="write everything to this file")
    return parser
