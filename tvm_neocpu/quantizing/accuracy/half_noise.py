"""Noise that layers in half precision add at the outputs.

It is measured in bf16, one run of the samples for each layer. Rounding to nearest makes an error of
at most the unit roundoff u for each number, relative to it. Its power is u^2 / 5.6 of the signal's
for normal values of any spread, u^2 / 6.5 for values spread evenly over powers of two. So the noise
of another type follows from the ratio of the roundoffs: fp16's is 18 dB below bf16's (u is 8 times
smaller). Where bf16 rounds the data too, that is an upper bound: fp16 weights meet fp32 data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from numpy.typing import NDArray

from tvm_neocpu.core.machine.half import BF16, BY_DTYPE
from tvm_neocpu.quantizing.accuracy.output_powers import Change, noise_powers
from tvm_neocpu.quantizing.accuracy.pieces import Pieces, Values
from tvm_neocpu.quantizing.onnx_runs import Sample
from tvm_neocpu.quantizing.rewriting.in_half import rounded


def measure_bf16(
    model: onnx.ModelProto, layers: Mapping[str, bool], samples: Sequence[Sample]
) -> dict[str, float]:
    """Layer -> the noise power of it alone in bf16, relative to the signal at the outputs.

    Of several outputs the worst counts. ``layers`` says of each whether its data are rounded, too.
    """
    if not layers:
        return {}
    nodes = {node.name: node for node in model.graph.node if node.name in layers}
    weights = {name: node.input[1] for name, node in nodes.items()}
    pieces = Pieces(model, (), set(weights.values()), layers, samples[0])

    def change(name: str) -> Change:
        weight, source = weights[name], nodes[name].input[0]
        narrow = {weight: rounded(pieces.operands[weight], BF16.dtype)}

        def changed(pieces: Pieces, exact: Values) -> list[NDArray[Any]]:
            data = {name: rounded(exact[source], BF16.dtype)} if layers[name] else {}
            return pieces.changed(exact, operands=narrow, data=data)

        return changed

    return noise_powers(pieces, samples, {name: change(name) for name in layers})


def in_type(bf16_power: float, dtype: str) -> float:
    """What the noise of bf16 is in a type of half precision, by the ratio of roundoffs."""
    return bf16_power * (BY_DTYPE[dtype].rounding / BF16.rounding) ** 2
