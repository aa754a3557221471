"""Noise that layers in half precision add at the outputs.

It is measured in bf16, one run of the samples for each layer. Rounding to nearest makes an error of
at most the unit roundoff u for each number, relative to it. Its power is u^2 / 5.6 of the signal's
for normal values of any spread, u^2 / 6.5 for values spread evenly over powers of two. So the noise
of another type follows from the ratio of the roundoffs: fp16's is 18 dB below bf16's (u is 8 times
smaller). Where bf16 rounds the data too, that is an upper bound: fp16 weights meet fp32 data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from tvm_neocpu.core.half import BF16, BY_DTYPE
from tvm_neocpu.quantizing.accuracy.compare import Powers
from tvm_neocpu.quantizing.onnx_graphs import copy_of, fed_weights
from tvm_neocpu.quantizing.onnx_runs import Sample, runner
from tvm_neocpu.quantizing.rewriting.in_half import cast_data, rounded


def measure_bf16(
    model: onnx.ModelProto, layers: Mapping[str, bool], samples: Sequence[Sample]
) -> dict[str, float]:
    """Layer -> the noise power of it alone in bf16, relative to the signal at the outputs.

    Of several outputs the worst counts. ``layers`` says of each whether its data are rounded, too.
    """
    if not layers:
        return {}
    changed = copy_of(model)
    weight_of = {node.name: node.input[1] for node in model.graph.node if node.name in layers}
    weights = fed_weights(changed.graph, set(weight_of.values()))
    _add_switches(changed.graph, [name for name, data in layers.items() if data])
    run = runner(changed)
    off = {_switch(name): np.array(False) for name in layers}
    wanted = [run({**sample, **off, **weights}) for sample in samples]
    found = {}
    for name in layers:
        source = weight_of[name]
        fed = {**weights, source: rounded(weights[source], BF16.dtype)}
        outputs = [Powers() for _ in wanted[0]]
        for sample, exact in zip(samples, wanted, strict=True):
            results = run({**sample, **off, **fed, _switch(name): np.array(True)})
            for powers, one, other in zip(outputs, exact, results, strict=True):
                powers.add(one, other)
        found[name] = max(powers.error**2 for powers in outputs)
    return found


def in_type(bf16_power: float, dtype: str) -> float:
    """What the noise of bf16 is in a type of half precision, by the ratio of roundoffs."""
    return bf16_power * (BY_DTYPE[dtype].rounding / BF16.rounding) ** 2


def _add_switches(graph: onnx.GraphProto, layers: Sequence[str]) -> None:
    """In front of each of these layers casts, and a choice between their result and the data."""
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        if node.name in layers:
            switch, plain, chosen = _switch(node.name), node.input[0], f"{node.name}.chosen"
            graph.input.append(helper.make_tensor_value_info(switch, TensorProto.BOOL, []))
            graph.node.extend(cast_data(node))
            graph.node.append(helper.make_node("Where", [switch, node.input[0], plain], [chosen]))
            node.input[0] = chosen
        graph.node.append(node)


def _switch(layer: str) -> str:
    return f"{layer}.rounds"
