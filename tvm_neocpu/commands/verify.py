"""The verify command line: `python -m tvm_neocpu verify model.onnx --shape data:1,3,224,224`.

Compares every output with ONNX Runtime's, on random inputs or those of `--input`. Where one differs
by more than the tolerance, the network is halved until the first operation that deviates is found.
The exit code is 1 then. `--precision` changes our build only: ONNX Runtime runs the file as it is.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

import onnx
from rich.table import Table

from tvm_neocpu.commands.shared import cli, disk, networks
from tvm_neocpu.commands.shared.precision import add_precision_options, in_precision
from tvm_neocpu.contrib.peers.compare import BF16_TOLERANCE, TOLERANCE
from tvm_neocpu.contrib.peers.quantised import expected_outputs
from tvm_neocpu.contrib.verify import engines
from tvm_neocpu.contrib.verify.compare_outputs import (
    Arrays,
    Engine,
    OutputCheck,
    check_outputs,
)
from tvm_neocpu.contrib.verify.first_deviation import Deviation, first_deviation
from tvm_neocpu.core.accuracy.precision import FP32
from tvm_neocpu.frontend.reading.at_shapes import at_shapes
from tvm_neocpu.frontend.reading.onnx_model import graph_inputs, resolve_shapes
from tvm_neocpu.runtime.files.module_info import TensorInfo

# The exit code where an output differs from the reference's.
DIFFERS = 1


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    return cli.guarded(_verify, argv)


def _verify(argv: list[str]) -> int:
    words, flags = cli.split_target_flags(argv)
    options = _parser().parse_args(words)
    cli.take_threads(options, flags)
    disk.check_writable(options.json)
    ours = partial(_ours, target=cli.target_text(options.target, flags))
    report: list[dict[str, Any]] = []
    try:
        with cli.logs_of(options):
            for spec in options.models:
                report.append(_checked(spec, options, flags, ours))
    finally:  # what was compared stays, though the next network is none
        if report:
            disk.write_report(options.json, {"networks": report})
    differs = any(output["differs"] for network in report for output in network["outputs"])
    return DIFFERS if differs else 0


def _checked(
    spec: str, options: argparse.Namespace, flags: Sequence[str], ours: Engine
) -> dict[str, Any]:
    """Compare one network's outputs, print what was found, and give it as JSON."""
    name, model = cli.load_network(spec)
    infos = _tensors(model, options.shape)
    shapes = {info.name: info.shape for info in infos}
    model = at_shapes(model, shapes)
    inputs = networks.inputs_for(infos, options.input, options.seed)
    tolerance = options.tolerance or _tolerance(model, inputs, options.precision)
    compiled, chosen = in_precision(name, model, shapes, options, flags)

    def whole(_: onnx.ModelProto, inputs: Arrays) -> Sequence[Any]:
        return ours(compiled, inputs)

    checks = check_outputs(model, inputs, whole, _reference, tolerance)
    _show(name, checks)
    if not any(check.differs for check in checks):
        return _as_json(name, checks, None)
    if chosen is not None:
        print(f"{name}: precision was chosen for the whole network, no part of it is compared")
        return _as_json(name, checks, None)
    # Parts keep the metadata that asks for half precision, which ONNX Runtime does not read.
    deviation = first_deviation(
        compiled, inputs, ours, _reference, tolerance, partial(print, flush=True)
    )
    print(f"{name}: {_said(deviation)}")
    return _as_json(name, checks, deviation)


def _tolerance(model: onnx.ModelProto, inputs: Arrays, precision: str) -> float:
    if precision != FP32:
        return BF16_TOLERANCE
    expected = expected_outputs(model, inputs)
    return TOLERANCE if expected is None else expected.tolerance


# Tests put engines of their own in their place.
_ours = engines.run_ours
_reference = engines.run_reference


def _tensors(model: onnx.ModelProto, texts: Sequence[str]) -> list[TensorInfo]:
    """The inputs with their shapes resolved."""
    shapes = resolve_shapes(model.graph, cli.parse_shapes(texts))
    return [
        TensorInfo(
            value.name,
            shapes[value.name],
            onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type).name,
        )
        for value in graph_inputs(model.graph)
    ]


def _show(name: str, checks: Sequence[OutputCheck]) -> None:
    table = Table(title=f"{name}: outputs against ONNX Runtime's")
    for heading in ("output", "shape", "error / largest value", ""):
        table.add_column(heading, justify="right" if "error" in heading else "left")
    for check in checks:
        verdict = "differs" if check.differs else "right"
        table.add_row(check.name, str(list(check.shape)), f"{check.error:.1e}", verdict)
    cli.console(width=100).print(table)


def _said(found: Deviation | None) -> str:
    if found is None:
        return "no part of the network deviates by itself; the fault is in what is fused"
    return (
        f"the first operation that deviates is {found.operator} {found.node!r}: output "
        f"{found.check.name!r} by {found.check.error:.1e} of its largest value"
    )


def _as_json(name: str, checks: Sequence[OutputCheck], found: Deviation | None) -> dict[str, Any]:
    rows = [
        {"output": c.name, "shape": list(c.shape), "differs": c.differs}
        | {"error": c.error, "tolerance": c.tolerance}
        for c in checks
    ]
    first = found and {"node": found.node, "operator": found.operator, "error": found.check.error}
    return {"network": name, "outputs": rows, "first_deviation": first}


def _parser() -> argparse.ArgumentParser:
    parser = cli.Parser(prog="python -m tvm_neocpu verify", description=__doc__)
    cli.add_common_options(parser)
    networks.add_input_options(parser)
    parser.add_argument(
        "--tolerance",
        type=cli.positive_number,
        help=f"of the largest value (default: {TOLERANCE:.0e}; {BF16_TOLERANCE} in another "
        "--precision; for a quantised network twice what ONNX Runtime's own ways to run it differ "
        "by)",
    )
    add_precision_options(parser)
    cli.add_json_option(parser)
    return parser
