"""Options for precision, which `compile`, `tune`, `explain`, `profile` and `verify` share."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from tvm_neocpu.commands.shared import cli
from tvm_neocpu.core.accuracy.precision import (
    DEFAULT_ERROR,
    DEFAULT_HALF_ERROR,
    FP32,
    HALF_DTYPES,
    INT8,
    check_half,
    half_line,
    request_of,
)

if TYPE_CHECKING:
    import onnx

    from tvm_neocpu.precision.report import Report


def add_precision_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--precision``, ``--max-error`` and ``--accuracy-data``, for :func:`in_precision`."""
    parser.add_argument(
        "--precision",
        default=FP32,
        metavar="P",
        help="fp32 (default); int8 for every layer that can; auto: each layer's fastest precision; "
        "fp16 or bf16: weights of layers that wait for memory, and bf16 products",
    )
    parser.add_argument(
        "--max-error",
        type=cli.positive_number,
        metavar="E",
        help="the outputs' relative error on the accuracy data is at most E: 0.1 is 20 dB "
        f"(default: {DEFAULT_ERROR} for auto, {DEFAULT_HALF_ERROR} for fp16 and bf16 with data, no "
        "bound for int8)",
    )
    parser.add_argument(
        "--accuracy-data",
        type=Path,
        metavar="DIR|F.npz",
        help="typical inputs: ranges come from them, and the error is measured on them",
    )


def layers_table(name: str, report: Report) -> Table:
    """Every layer's precision, in the network's order."""
    table = Table(title=f"{name}: precision of its layers")
    layers = report.layers.values()
    halves = [half for half in HALF_DTYPES if any(half in layer.halves for layer in layers)]
    table.add_column("layer")
    table.add_column("in")
    for heading in ("of the multiply-adds", *(f"error alone in {p}" for p in (INT8, *halves))):
        table.add_column(heading, justify="right")
    total = sum(layer.multiply_adds for layer in layers) or 1.0
    for layer, found in report.layers.items():
        errors = [found.noise, *(found.halves.get(half) for half in halves)]
        alone = ["" if error is None else f"{error:.1e}" for error in errors]
        table.add_row(Text(layer), found.precision, f"{found.multiply_adds / total:.1%}", *alone)
    return table


def in_precision(
    name: str,
    model: onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]],
    options: argparse.Namespace,
    flags: Sequence[str],
) -> tuple[onnx.ModelProto, Report | None]:
    """The model to compile instead, and what was chosen; the model itself for fp32.

    Raises what :func:`request_of` and `choose_precision` raise.
    """
    request = request_of(options.precision, options.max_error, options.accuracy_data)
    if request is None:
        return model, None
    from tvm_neocpu.precision.choose import choose_precision
    from tvm_neocpu.targets import parse_target
    from tvm_neocpu.tuning.database.history import current_history

    cli.take_threads(options, flags)
    target = parse_target(cli.target_text(options.target, flags))
    if request.precision in HALF_DTYPES:
        check_half(request.precision, target.cpu)
    if request.half is not None:
        from tvm_neocpu.frontend.reading.half_metadata import asking_for_half

        print(f"{name}: {half_line(request.precision, target.cpu)}", flush=True)
        return asking_for_half(model, request.half), None
    with cli.logs_of(options):
        history = current_history(target.cpu)
        chosen = choose_precision(model, shapes, request, target.cpu, history, name)
    for line in chosen.report.lines():
        print(f"{name}: {line}", flush=True)
    return chosen.model, chosen.report
