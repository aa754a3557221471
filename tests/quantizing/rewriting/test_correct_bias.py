"""Bias correction takes out the mean error of rounded weights, layer by layer."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_net import Net

from tvm_neocpu.quantizing.calibration.observe import observe_extremes
from tvm_neocpu.quantizing.onnx_graphs import copy_of, set_weights
from tvm_neocpu.quantizing.onnx_runs import runner
from tvm_neocpu.quantizing.rewriting.choose_nodes import (
    activations_of,
    choose_nodes,
    layers_of,
)
from tvm_neocpu.quantizing.rewriting.correct_bias import bias_shifts, shift_biases
from tvm_neocpu.quantizing.rewriting.dequantised import dequantised_weights
from tvm_neocpu.quantizing.rewriting.prepare import prepare
from tvm_neocpu.quantizing.rewriting.write_qdq import write_qdq


@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize(
    "attributes",
    [{}, {"strides": [2, 2]}, {"group": 4}, {"pads": [0, 2, 1, 0]}, {"dilations": [2, 2]}],
    ids=["plain", "stride", "groups", "uneven padding", "dilated"],
)
def test_the_mean_of_every_channel_is_fp32s_again(
    attributes: dict[str, object], biases: bool
) -> None:
    net = Net((1, 8, 9, 9), biases=biases)
    written = net.model(net.conv("data", 8, 12, 3, **attributes))
    model = prepare(written, "net")
    rng = np.random.default_rng(3)
    # A positive mean, as behind a ReLU: that is what rounding errors of weights multiply.
    samples = [{"data": 1 + rng.random((1, 8, 9, 9), dtype="float32")} for _ in range(5)]
    chosen = choose_nodes(model.graph)
    ranges = observe_extremes(model, samples, activations_of(model.graph, chosen))
    draft = write_qdq(model, ranges, chosen, per_channel=False)
    shifts = bias_shifts(model, draft, layers_of(model.graph), samples)
    corrected = shift_biases(model, shifts)

    def mean_of(model: onnx.ModelProto) -> np.ndarray:
        run = runner(model)
        return np.mean([run(sample)[0].mean(axis=(0, 2, 3)) for sample in samples], axis=0)

    rounded = dequantised_weights(draft)
    before, after = copy_of(model), copy_of(corrected)
    for changed in (before, after):
        (layer,) = layers_of(changed.graph)
        set_weights(changed.graph, {layer.input[1]: rounded[layer.input[1]]})
    wanted = mean_of(model)
    assert np.abs(mean_of(before) - wanted).max() > 1e-3
    np.testing.assert_allclose(mean_of(after), wanted, atol=1e-5)


def test_only_the_layers_that_are_named_change(network: onnx.ModelProto) -> None:
    model = prepare(network, "net")
    layers = layers_of(model.graph)
    changed = shift_biases(model, {layers[2].name: np.ones(16)})
    differing = [
        one.name
        for one, other in zip(layers, layers_of(changed.graph), strict=True)
        if list(one.input) != list(other.input)
    ]
    assert differing == [layers[2].name]


def test_products_alone_have_no_bias_to_correct() -> None:
    """ONNX Runtime was asked for none of the outputs of a network, and refused."""
    net = Net((3, 8))
    model = prepare(net.model(net("MatMul", "data", net.weight(8, 5))), "net")
    samples = [{"data": np.ones((3, 8), "float32")}]
    chosen = choose_nodes(model.graph)
    ranges = observe_extremes(model, samples, activations_of(model.graph, chosen))
    draft = write_qdq(model, ranges, chosen, per_channel=False)
    assert layers_of(model.graph)
    assert bias_shifts(model, draft, layers_of(model.graph), samples) == {}
