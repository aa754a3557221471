"""Equalisation keeps the function and makes the ranges of channels equal."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_net import Net

from tvm_neocpu.quantizing.onnx_graphs import attribute, weights_of
from tvm_neocpu.quantizing.onnx_runs import runner
from tvm_neocpu.quantizing.quantize_model import Settings, quantize_model
from tvm_neocpu.quantizing.rewriting.equalise import channel_ranges, equalise, find_pairs


def chain(between: str, group: int = 1) -> onnx.ModelProto:
    """Two convolutions whose channels between them differ a hundredfold."""
    net = Net((1, 8, 10, 10), biases=True)
    x = net.conv("data", 8, 16, 3)
    uneven = np.geomspace(0.1, 10, 16).reshape(-1, 1, 1, 1).astype("float32")
    for tensor in net.weights[:2]:
        weight = onnx.numpy_helper.to_array(tensor) * uneven.reshape(
            -1, *[1] * (len(tensor.dims) - 1)
        )
        tensor.CopyFrom(onnx.numpy_helper.from_array(weight.astype("float32"), tensor.name))
    if between:
        extra = [net.constant(0.0), net.constant(6.0)] if between == "Clip" else []
        x = net(between, x, *extra)
    model = net.model(net.conv(x, 16, 16, 3, group=group))
    if group == 1:  # small channels count as much as large ones
        tensor = net.weights[-2]
        weight = onnx.numpy_helper.to_array(tensor) / uneven.reshape(1, -1, 1, 1)
        changed = onnx.numpy_helper.from_array(weight.astype("float32"), tensor.name)
        place = [weight.name for weight in model.graph.initializer].index(tensor.name)
        model.graph.initializer[place].CopyFrom(changed)
    return model


@pytest.mark.parametrize("group", [1, 4, 16])
@pytest.mark.parametrize("between", ["", "Relu", "LeakyRelu"])
def test_the_function_stays_and_ranges_become_equal(between: str, group: int) -> None:
    model = chain(between, group)
    changed = equalise(model)
    data = {"data": np.random.default_rng(1).standard_normal((1, 8, 10, 10), dtype="float32")}
    (wanted,), (found,) = runner(model)(data), runner(changed)(data)
    np.testing.assert_allclose(found, wanted, atol=1e-4 * np.abs(wanted).max())
    (pair,) = find_pairs(changed.graph)
    known = weights_of(changed.graph)
    first, second = (
        onnx.numpy_helper.to_array(known[node.input[1]]).astype(float)
        for node in (pair.first, pair.second)
    )
    out, _ = channel_ranges(first, 1)
    _, into = channel_ranges(second, attribute(pair.second, "group", 1))
    np.testing.assert_allclose(out, into, rtol=0.02)


def test_equalised_weights_lose_less() -> None:
    rng = np.random.default_rng(2)
    samples = [{"data": rng.standard_normal((1, 8, 10, 10), dtype="float32")} for _ in range(4)]
    plain, equal = (
        quantize_model(chain("Relu"), "net", samples, Settings(equalise=yes)).accuracy.sqnr
        for yes in (False, True)
    )
    assert equal > plain + 3


def test_a_clip_a_second_reader_and_a_shared_weight_stop_it() -> None:
    assert not find_pairs(chain("Clip").graph)
    read_twice = chain("Relu")
    read_twice.graph.output.append(onnx.ValueInfoProto(name=read_twice.graph.node[0].output[0]))
    assert not find_pairs(read_twice.graph)
    net = Net((1, 8, 10, 10))
    weight = net.weight(8, 8, 3, 3)
    x = net("Conv", "data", weight, pads=[1] * 4)
    assert not find_pairs(net.model(net("Conv", x, weight, pads=[1] * 4)).graph)


def test_no_bias_grows_far_beyond_the_largest() -> None:
    """A channel of tiny weights and a usual bias had all of its tensor's range."""
    model = chain("Relu")
    known = weights_of(model.graph)
    weight, bias = (known[name] for name in model.graph.node[0].input[1:3])
    tiny = onnx.numpy_helper.to_array(weight).copy()
    tiny[3] *= 1e-7
    threes = np.full(16, 3.0, "float32")
    weight.CopyFrom(onnx.numpy_helper.from_array(tiny, weight.name))
    bias.CopyFrom(onnx.numpy_helper.from_array(threes, bias.name))
    changed = weights_of(equalise(model).graph)
    assert np.abs(onnx.numpy_helper.to_array(changed[bias.name])).max() <= 4.0001 * 3.0
