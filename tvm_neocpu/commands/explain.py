"""The explain command line: options in; table, page and JSON of `contrib/explain` out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.commands.shared.precision import add_precision_options, in_precision, layers_table
from tvm_neocpu.contrib.explain import page, table
from tvm_neocpu.contrib.explain.as_json import as_json
from tvm_neocpu.contrib.explain.explain_model import explain_model
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes
from tvm_neocpu.targets import parse_target

DESCRIPTION = """Why each layer is built as it is: `python -m tvm_neocpu.explain resnet50 --html
resnet50.html`. Shows what a build for the target would choose now, from the logs that it would
find: the implementation of each node, its layouts, and what the runner-up would cost the whole
network; the layout transforms that remain; how far the sum can be from the optimum; what no
template takes, and why. Nothing is built or measured; `profile --html` writes the same page with
measured times."""


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_explain, argv)


def _explain(argv: list[str]) -> int:
    words, flags = cli.split_target_flags(argv)
    parser = _parser()
    options = parser.parse_args(words)
    disk.check_reports(options.json, options.html)
    cli.take_threads(options, flags)
    cpu = parse_target(cli.target_text(options.target, flags)).cpu
    name, model = cli.load_network(options.models[0])
    shapes = resolve_shapes(model.graph, cli.parse_shapes(options.shape))
    model, precision = in_precision(name, model, shapes, options, flags)
    with cli.logs_of(options):
        network = explain_model(name, model, shapes, cpu)
    table.show(network, cli.console(table.PLAIN_WIDTH))
    if precision is not None:
        cli.console(width=100).print(layers_table(name, precision))
    about = {"precision": precision.as_json()} if precision else {}
    disk.write_report(options.json, as_json(network) | about)
    if options.html:
        disk.write_text(options.html, page.render(network))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(prog="python -m tvm_neocpu.explain", description=DESCRIPTION)
    cli.add_common_options(parser, models=1)
    add_precision_options(parser)
    parser.add_argument(
        "--html", type=Path, metavar="F", help="write one page with the graph drawn to this file"
    )
    cli.add_json_option(parser)
    return parser
