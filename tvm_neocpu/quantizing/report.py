"""What a quantised network is like: a table for people, a dictionary for JSON."""

from __future__ import annotations

import math
from typing import Any

from rich.table import Table

from tvm_neocpu.quantizing.quantize_model import Quantised

# Layers that the table shows; JSON has all.
SHOWN = 8


def summary(name: str, result: Quantised) -> list[str]:
    """A few lines: how much is in int8, and how far the outputs are from fp32."""
    accuracy, layers = result.accuracy, result.layers
    in_int8 = sum(layer in result.chosen for layer in layers)
    lines = [
        f"{name}: {in_int8} of {len(layers)} layers in int8, {result.share:.1%} of the "
        f"multiply-adds",
        f"SQNR at the output {accuracy.sqnr:.1f} dB (relative error {accuracy.error:.2e})",
    ]
    if accuracy.agreement is not None:
        rows = sum(total for _, total in accuracy.top1.values())
        lines.append(f"top-1 agreement with fp32 {accuracy.agreement:.1%} of {rows} rows")
    lines.append(
        f"SQNR with ONNX Runtime's integer kernels on this CPU {result.with_kernels.sqnr:.1f} dB"
    )
    if result.choice:
        lines.append(f"predicted relative error {result.choice.predicted:.2e}")
    return lines


def worst_layers(name: str, result: Quantised) -> Table:
    """Layers by SQNR, worst first, errors of the layers before included."""
    table = Table(title=f"{name}: layers by SQNR, worst first")
    table.add_column("layer")
    table.add_column("operator")
    table.add_column("in")
    for heading in ("SQNR", "of the multiply-adds"):
        table.add_column(heading, justify="right")
    rows = sorted(result.accuracy.layers.items(), key=lambda item: item[1].sqnr)
    total = sum(result.layers.values()) or 1.0
    for layer, powers in rows[:SHOWN]:
        precision = "int8" if layer in result.chosen else "fp32"
        share = f"{result.layers[layer] / total:.1%}"
        table.add_row(layer, result.operators[layer], precision, f"{powers.sqnr:.1f} dB", share)
    return table


def as_json(name: str, result: Quantised) -> dict[str, Any]:
    """Everything that was measured. An SQNR without noise is null."""
    accuracy = result.accuracy
    layers = [
        {
            "layer": layer,
            "operator": result.operators[layer],
            "int8": layer in result.chosen,
            "multiply_adds": work,
            "sqnr_db": _finite(accuracy.layers[layer].sqnr) if layer in accuracy.layers else None,
        }
        for layer, work in result.layers.items()
    ]
    choice = result.choice
    return {
        "network": name,
        "share_int8": result.share,
        "sqnr_db": _finite(accuracy.sqnr),
        "error": accuracy.error,
        "sqnr_db_of_onnx_runtimes_kernels": _finite(result.with_kernels.sqnr),
        "top1_agreement": accuracy.agreement,
        "outputs": {n: _finite(powers.sqnr) for n, powers in accuracy.outputs.items()},
        "layers": layers,
        "returned_to_fp32": list(choice.returned) if choice else [],
        "predicted_error": choice.predicted if choice else None,
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
