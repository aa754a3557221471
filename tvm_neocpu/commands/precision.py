"""Options for precision, which `compile`, `tune` and `explain` share."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from tvm_neocpu.commands import cli
from tvm_neocpu.core.precision import DEFAULT_ERROR, FP32, check_half, half_line, request_of

if TYPE_CHECKING:
    import onnx

    from tvm_neocpu.precision.report import Report


def add_precision_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--precision``, ``--max-error`` and ``--accuracy-data``, for :func:`in_precision`."""
    parser.add_argument(
        "--precision",
        default=FP32,
        metavar="P",
        help="fp32 (default); int8 for every layer that can; auto for layers where int8 is faster; "
        "fp16 or bf16: weights of layers that wait for memory",
    )
    parser.add_argument(
        "--max-error",
        type=cli.positive_number,
        metavar="E",
        help="the outputs' relative error on the accuracy data is at most E: 0.1 is 20 dB "
        f"(default: {DEFAULT_ERROR} for auto, no bound for int8)",
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
    table.add_column("layer")
    table.add_column("in")
    for heading in ("of the multiply-adds", "error alone in int8"):
        table.add_column(heading, justify="right")
    total = sum(layer.multiply_adds for layer in report.layers.values()) or 1.0
    for layer, found in report.layers.items():
        error = "" if found.noise is None else f"{found.noise:.1e}"
        precision = "int8" if found.int8 else "fp32"
        table.add_row(Text(layer), precision, f"{found.multiply_adds / total:.1%}", error)
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
    from tvm_neocpu.runtime import threads
    from tvm_neocpu.targets import parse_target
    from tvm_neocpu.tuning.database.history import current_history

    if options.threads:
        threads.use_threads(options.threads)
    target = parse_target(cli.target_text(options.target, flags))
    if request.half is not None:
        from tvm_neocpu.frontend.half_metadata import asking_for_half

        check_half(request.precision, target.cpu)
        print(f"{name}: {half_line(request.precision, target.cpu)}", flush=True)
        return asking_for_half(model, request.half), None
    with cli.logs_of(options):
        history = current_history(target.cpu)
        chosen = choose_precision(model, shapes, request, target.cpu, history, name)
    for line in chosen.report.lines():
        print(f"{name}: {line}", flush=True)
    return chosen.model, chosen.report
