"""The schedule command line: options in; table, page and JSON of `contrib/schedule` out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import onnx

from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.schedule import page, table
from tvm_neocpu.contrib.schedule.as_json import as_json
from tvm_neocpu.contrib.schedule.experiment import Experiment, run_experiment
from tvm_neocpu.contrib.schedule.onnx_graph import schedule_graph
from tvm_neocpu.scheduling.profilers.cpu_l2 import DTYPE, ITEM_BYTES, L2_SHARE, CpuL2
from tvm_neocpu.scheduling.profilers.machine import SHIPPED, load_machine
from tvm_neocpu.scheduling.profilers.pe_array import PeArray
from tvm_neocpu.targets import parse_target

THIS_CPU = "this-cpu"
DESCRIPTION = """Which operations of a network to fuse, and in which order to run them:
`python -m tvm_neocpu.schedule nasnet_a_mobile --machine nvdla-small --html nasnet.html`. Compares
all partitioners and all orders by predicted cycles, memory traffic and buffer, and all orders and
allocators by the memory that the whole network takes. Nothing is built or measured."""


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_schedule, argv)


def _schedule(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    disk.check_reports(options.json, options.html)
    name, model = _network(options.model)
    found = experiment(name, model, options.machine, cli.parse_shapes(options.shape))
    table.show(found, cli.console(140))
    disk.write_report(options.json, as_json(found))
    if options.html:
        disk.write_text(options.html, page.render(found))
    return 0


def experiment(
    name: str, model: onnx.ModelProto, machine: str, shapes: dict[str, tuple[int, ...]]
) -> Experiment:
    """The experiment on a shipped machine, a machine file or this CPU.

    Raises MachineFileError, ScheduleError, ShapeError, ModelFileError.
    """
    if machine == THIS_CPU:
        cpu = parse_target("llvm").cpu
        graph = schedule_graph(model, ITEM_BYTES, shapes)
        peak = cpu.multiply_adds_per_cycle(DTYPE) * cpu.cores
        return run_experiment(name, cpu.name, graph, CpuL2(graph, cpu), peak, L2_SHARE * cpu.l2)
    array = load_machine(machine, (THIS_CPU,))
    graph = schedule_graph(model, array.element_bytes, shapes)
    profiler = PeArray(graph, array)
    return run_experiment(
        name, array.name, graph, profiler, array.macs_per_cycle, array.buffer_bytes
    )


def _network(spec: str) -> tuple[str, onnx.ModelProto]:
    """As `cli.load_network`; a network of the zoo without the values of its weights."""
    if spec in model_zoo.names():
        return spec, model_zoo.find(spec).sketch()
    return cli.load_network(spec)


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(prog="python -m tvm_neocpu.schedule", description=DESCRIPTION)
    parser.add_argument("model", metavar="MODEL", help="a network of the zoo, or an ONNX file")
    parser.add_argument(
        "--machine",
        default=SHIPPED[0],
        metavar="M",
        help=f"{', '.join(SHIPPED)}, {THIS_CPU} or a TOML file (default: {SHIPPED[0]})",
    )
    cli.add_shape_option(parser)
    parser.add_argument("--json", type=Path, metavar="F", help="write all figures to this file")
    parser.add_argument(
        "--html", type=Path, metavar="F", help="write one page with the network drawn to this file"
    )
    return parser
