"""The whole way on small networks: what comes out, how accurate, and what the options do."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_net import Net

from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.quantizing.calibration.range_methods import METHODS
from tvm_neocpu.quantizing.onnx_runs import runner
from tvm_neocpu.quantizing.quantize_model import Settings, quantize_model
from tvm_neocpu.quantizing.rewriting.dequantised import dequantised_weights

Samples = list[dict[str, np.ndarray]]


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_stays_near_fp32(
    method: str, per_channel: bool, network: onnx.ModelProto, samples: Samples
) -> None:
    result = quantize_model(network, "net", samples, Settings(method, per_channel))
    assert result.share == 1.0 and result.accuracy.agreement == 1.0
    assert result.accuracy.sqnr > 30
    assert len(result.accuracy.layers) == len(result.layers) == 7
    assert all(powers.sqnr > 20 for powers in result.accuracy.layers.values())


def test_the_file_is_standard_onnx(network: onnx.ModelProto, samples: Samples) -> None:
    """ONNX's reference evaluator computes the same levels as ONNX Runtime in exact arithmetic."""
    model = quantize_model(network, "net", samples[:4], Settings(per_channel=True)).model
    onnx.checker.check_model(model, full_check=True)
    assert {entry.domain for entry in model.opset_import} == {""}
    (found,) = runner(model)(samples[0])
    model.opset_import[0].version = 19  # the evaluator's oldest DequantizeLinear
    (wanted,) = ReferenceEvaluator(model).run(None, samples[0])
    np.testing.assert_allclose(found, wanted, atol=0.02 * np.abs(wanted).max())
    read = {name for node in model.graph.node for name in node.input}
    assert {tensor.name for tensor in model.graph.initializer} <= read


def test_what_is_quantised_and_what_is_not(network: onnx.ModelProto, samples: Samples) -> None:
    graph = quantize_model(network, "net", samples[:2], Settings()).model.graph
    kinds = Counter(node.op_type for node in graph.node)
    # Batch norms are folded; ReLU and ReLU6 are ranges now.
    assert not kinds.keys() & {"BatchNormalization", "Relu", "Clip"}
    made = {name: node for node in graph.node for name in node.output}

    def makers(operator: str) -> set[str]:
        (node,) = (node for node in graph.node if node.op_type == operator)
        return {made[name].op_type for name in node.input if name in made}

    assert makers("Add") == {"DequantizeLinear"}
    assert makers("Mul") == {"DequantizeLinear", "Sigmoid"}
    assert made[graph.output[0].name].op_type == "Gemm"  # scores keep their precision
    types = {tensor.data_type for tensor in graph.initializer if tensor.name.endswith("_quantized")}
    assert types == {onnx.TensorProto.INT8, onnx.TensorProto.INT32}


def test_weights_of_zero_and_dead_channels(network: onnx.ModelProto, samples: Samples) -> None:
    model = onnx.ModelProto.FromString(network.SerializeToString())
    for tensor in model.graph.initializer[:1]:
        weight = onnx.numpy_helper.to_array(tensor).copy()
        weight[3:5] = 0
        tensor.CopyFrom(onnx.numpy_helper.from_array(weight, tensor.name))
    for per_channel in (False, True):
        result = quantize_model(model, "net", samples[:4], Settings(per_channel=per_channel))
        assert result.accuracy.sqnr > 25
        for weight in dequantised_weights(result.model).values():
            assert np.isfinite(weight).all()


def test_inputs_of_zeros_alone(network: onnx.ModelProto) -> None:
    zeros = [{"data": np.zeros((1, 8, 12, 12), "float32")}]
    result = quantize_model(network, "net", zeros, Settings())
    assert np.isfinite(runner(result.model)(zeros[0])[0]).all()


def test_seven_bits_use_half_of_the_levels(network: onnx.ModelProto, samples: Samples) -> None:
    model = quantize_model(network, "net", samples[:2], Settings(weight_bits=7)).model
    weights = [
        onnx.numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if tensor.data_type == onnx.TensorProto.INT8 and len(tensor.dims) > 1
    ]
    assert len(weights) == 7 and all(np.abs(weight.astype(int)).max() == 64 for weight in weights)


def test_wide_results_are_not_rounded(network: onnx.ModelProto, samples: Samples) -> None:
    """The gate's convolution is read by a sigmoid alone."""

    def maker(settings: Settings) -> str:
        graph = quantize_model(network, "net", samples[:2], settings).model.graph
        (sigmoid,) = (node for node in graph.node if node.op_type == "Sigmoid")
        return next(n.op_type for n in graph.node if sigmoid.input[0] in n.output)

    assert maker(Settings()) == "DequantizeLinear"
    assert maker(Settings(wide_results=True)) == "Conv"


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("activation", ["Relu", "Clip"])
@pytest.mark.parametrize("dense", [False, True])
def test_an_activation_that_fp32_reads_is_not_lost(
    dense: bool, activation: str, wide: bool
) -> None:
    """The writer drops it with the pair behind it; where the pair goes, it has to stay."""
    net = Net((1, 8, 5, 5), biases=True)
    bounds = [net.constant(0.0), net.constant(0.7)] if activation == "Clip" else []
    if dense:
        x = net("Flatten", net("GlobalAveragePool", "data"))
        x = net("Gemm", x, net.weight(12, 8), net.weight(12), transB=1)
    else:
        x = net.conv("data", 8, 12, 3)
    model = net.model(net("Sigmoid", net(activation, x, *bounds)))
    if dense:
        del model.graph.output[0].type.tensor_type.shape.dim[2:]
    rng = np.random.default_rng(0)
    samples = [{"data": rng.standard_normal((1, 8, 5, 5), dtype="float32")} for _ in range(3)]
    result = quantize_model(model, "net", samples, Settings(wide_results=wide))
    assert result.accuracy.sqnr > 35


def test_a_bound_sends_layers_back(network: onnx.ModelProto, samples: Samples) -> None:
    free = quantize_model(network, "net", samples, Settings())
    bound = free.accuracy.error / 2
    result = quantize_model(network, "net", samples, Settings(max_error=bound))
    assert result.accuracy.error <= bound * 1.001
    assert result.choice is not None and 0 < len(result.choice.returned) < 12
    assert 0 < result.share < 1
    assert result.choice.measured == pytest.approx(result.accuracy.error, rel=1e-3)


def test_a_bound_that_nothing_meets_names_the_best(
    network: onnx.ModelProto, samples: Samples
) -> None:
    with pytest.raises(NeoCpuError, match="the best reachable is") as caught:
        quantize_model(network, "net", samples[:4], Settings(max_error=1e-7))
    best = float(str(caught.value).split("reachable is ")[1].split(",")[0])
    assert best > 1e-7
    # It can be reached.
    result = quantize_model(network, "net", samples[:4], Settings(max_error=best))
    assert result.accuracy.error <= best * 1.001


def test_several_inputs_and_an_open_batch() -> None:
    text = """
        g (float[N,4,6,6] a, float[N,4,6,6] b) => (float[N,3] y) {
          s = Conv (a, w)
          t = Conv (b, w)
          u = Add (s, t)
          p = GlobalAveragePool (u)
          f = Flatten (p)
          y = Gemm <transB = 1> (f, v)
        }"""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 11]> {text}')
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=(8, 4, 3, 3)), "v": rng.normal(size=(3, 8))}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(value.astype("float32"), name)
        for name, value in weights.items()
    )
    data = rng.normal(size=(6, 2, 1, 4, 6, 6)).astype("float32")
    samples = [{"a": one, "b": other} for one, other in data]
    for per_channel in (False, True):  # the shared weight is corrected and rounded for both
        result = quantize_model(model, "net", samples, Settings(per_channel=per_channel))
        assert result.accuracy.sqnr > 30 and result.share == 1.0
    batch = {"a": np.concatenate(list(data[:, 0])), "b": np.concatenate(list(data[:, 1]))}
    (found,) = runner(result.model)(batch)
    assert found.shape == (6, 3)


def test_a_network_of_half_precision(network: onnx.ModelProto, samples: Samples) -> None:
    """It is widened first; its outputs keep their type."""
    text = "g (float16[1,4,6,6] x) => (float16[1,8,4,4] y) { y = Conv (x, w) }"
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    weight = np.random.default_rng(0).normal(size=(8, 4, 3, 3)).astype("float16")
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    data = np.random.default_rng(1).normal(size=(1, 4, 6, 6)).astype("float16")
    result = quantize_model(model, "half", [{"x": data}], Settings())
    assert result.accuracy.sqnr > 30
    assert runner(result.model)({"x": data})[0].dtype == np.float16


@pytest.mark.parametrize("reader", ["output", "branch"])
def test_what_a_relu_clips_stays_for_others_that_read_it(reader: str) -> None:
    """The layer's result got the ReLU's range: its other reader saw no negative number."""
    net = Net((1, 3, 8, 8))
    made = net.conv("data", 3, 6, 3)
    behind = net.conv(net("Relu", made), 6, 4, 3)
    if reader == "branch":
        behind = net("Add", behind, net.conv(made, 6, 4, 3))
    model = net.model(behind)
    if reader == "output":
        model.graph.output.append(onnx.ValueInfoProto(name=made))
        model = onnx.shape_inference.infer_shapes(model)
    rng = np.random.default_rng(0)
    samples = [{"data": rng.standard_normal((1, 3, 8, 8), dtype="float32")} for _ in range(8)]
    quantised = quantize_model(model, "net", samples, Settings()).model
    for found, wanted in zip(runner(quantised)(samples[0]), runner(model)(samples[0]), strict=True):
        assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


@pytest.mark.parametrize("method", METHODS)
def test_values_far_from_zero_and_near_each_other(method: str) -> None:
    """float32 has no 2048 bins between them."""
    net = Net((1, 3, 8, 8))
    far = net("Add", net.conv("data", 3, 6, 3), net.constant(1e5))
    model = net.model(net.conv(far, 6, 4, 3))
    rng = np.random.default_rng(0)
    samples = [{"data": 1e-3 * rng.random((1, 3, 8, 8), dtype="float32")} for _ in range(2)]
    assert quantize_model(model, "net", samples, Settings(method)).share == 1.0


def test_seven_bits_of_rows() -> None:
    net = Net((1, 8, 20))
    model = net.model(net("Conv", net("Conv", "data", net.weight(8, 8, 3)), net.weight(4, 8, 3)))
    rng = np.random.default_rng(0)
    samples = [{"data": rng.standard_normal((1, 8, 20), dtype="float32")} for _ in range(4)]
    result = quantize_model(model, "net", samples, Settings(weight_bits=7))
    assert result.accuracy.sqnr > 25


def test_names_that_the_writer_would_give_are_told() -> None:
    net = Net((1, 3, 8, 8))
    model = net.model(net.conv(net("Relu", net.conv("data", 3, 6, 3)), 6, 4, 3))
    (relu,) = (node for node in model.graph.node if node.op_type == "Relu")
    renamed = f"{model.graph.node[0].input[1]}_scale"
    for node in model.graph.node:
        node.input[:] = [renamed if name == relu.output[0] else name for name in node.input]
    relu.output[0] = renamed
    samples = [{"data": np.ones((1, 3, 8, 8), "float32")}]
    with pytest.raises(NeoCpuError, match="quantiser cannot write this network: KeyError"):
        quantize_model(model, "net", samples, Settings())
