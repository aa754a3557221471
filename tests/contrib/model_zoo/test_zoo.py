"""Every network of the zoo: published size, valid ONNX, activations near 1 in every layer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # it ships no types
import pytest
from numpy.typing import NDArray

from tvm_neocpu.contrib.model_zoo import Network, build, find, input_shape, names
from tvm_neocpu.core.errors import ShapeError, UnknownModelError

# Parameters and billions of multiply-adds (convolutions, fully connected layers) that torchvision
# publishes; LeNet-5 is counted by hand.
PUBLISHED = {
    "resnet18": (11_689_512, 1.814),
    "resnet34": (21_797_672, 3.664),
    "resnet50": (25_557_032, 4.089),
    "resnet101": (44_549_160, 7.801),
    "resnet152": (60_192_808, 11.514),
    "vgg16": (138_357_544, 15.470),
    "densenet121": (7_978_856, 2.834),
    "inception_v3": (23_834_568, 5.713),
    "mobilenet_v2": (3_504_872, 0.301),
    "lenet": (61_706, 0.000417),
}
PROBABILITIES = {"lenet"}  # these end in a softmax
RUNNING_STATISTICS = ("running_mean", "running_var")

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Case:
    """One network, built once for all of its tests."""

    network: Network
    model: onnx.ModelProto
    file: bytes  # the same, serialised
    data: Array  # two different images
    output: Array  # (2, classes), each image run alone


@pytest.fixture(scope="module", params=names())
def case(request: pytest.FixtureRequest) -> Case:
    network = find(request.param)
    model = network.build()
    file = model.SerializeToString()
    data = _images(network)
    session = _session(file)
    rows = [session.run(None, {"data": image[None]})[0] for image in data]
    return Case(network, model, file, data, np.concatenate(rows))


def test_checker_accepts_the_model(case: Case) -> None:
    onnx.checker.check_model(case.file)


def test_has_the_published_number_of_parameters(case: Case) -> None:
    parameters, _ = PUBLISHED[case.network.name]
    assert _count_parameters(case.model) == parameters


def test_does_the_published_amount_of_work(case: Case) -> None:
    _, billions = PUBLISHED[case.network.name]
    assert _count_multiply_adds(case.file) / 1e9 == pytest.approx(billions, rel=0.002)


def test_declares_its_input_and_output(case: Case) -> None:
    (data,), (output,) = case.model.graph.input, case.model.graph.output
    assert (data.name, _shape(data)) == ("data", case.network.input_shape())
    assert (output.name, _shape(output)) == ("output", case.network.output_shape())
    assert case.output[:1].shape == case.network.output_shape()


def test_node_names_are_unique(case: Case) -> None:
    node_names = [node.name for node in case.model.graph.node]
    assert "" not in node_names
    assert len(set(node_names)) == len(node_names)


def test_output_is_of_order_one(case: Case) -> None:
    assert np.isfinite(case.output).all()
    if case.network.name in PROBABILITIES:
        np.testing.assert_allclose(case.output.sum(axis=1), 1, rtol=1e-5)
        return
    assert (case.output.std(axis=1) > 0.3).all()
    assert (case.output.std(axis=1) < 4).all()


def test_different_images_give_different_outputs(case: Case) -> None:
    one, other = case.output
    assert np.linalg.norm(one - other) > 0.05 * np.linalg.norm(one)


def test_every_activation_is_of_order_one(case: Case) -> None:
    model = onnx.ModelProto.FromString(case.file)
    nodes = [node for node in model.graph.node[:-1] if node.op_type != "Constant"]
    for node in nodes:
        model.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
    values = _session(model.SerializeToString()).run(
        [node.name for node in nodes], {"data": case.data[:1]}
    )
    sizes = {node.name: float(np.std(value)) for node, value in zip(nodes, values, strict=True)}
    assert {name: size for name, size in sizes.items() if not 0.1 < size < 6} == {}


def test_same_seed_gives_same_bytes(case: Case) -> None:
    assert build(case.network.name).SerializeToString() == case.file


def test_batch_of_two_computes_the_same(case: Case) -> None:
    model = build(case.network.name, batch=2)
    output = _session(model.SerializeToString()).run(None, {"data": case.data})[0]
    assert output.shape == case.network.output_shape(batch=2)
    np.testing.assert_allclose(output, case.output, rtol=1e-3, atol=1e-3 * case.output.std())


@pytest.mark.parametrize("name", ["lenet", "mobilenet_v2", "resnet18", "densenet121"])
def test_other_seed_gives_other_weights(name: str) -> None:
    pairs = zip(build(name).graph.initializer, build(name, seed=1).graph.initializer, strict=True)
    for one, other in pairs:
        assert one.name == other.name
        assert one.raw_data != other.raw_data


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownModelError) as caught:
        build("resnet51")
    message = str(caught.value)
    assert "\n" not in message
    assert all(name in message for name in ("resnet51", *names()))


def test_empty_batch_is_refused() -> None:
    with pytest.raises(ShapeError, match="not 0"):
        build("lenet", batch=0)


def test_table() -> None:
    assert len(set(names())) == len(names())
    assert set(names()) == set(PUBLISHED)
    assert input_shape("inception_v3", batch=4) == (4, 3, 299, 299)
    assert all(find(name).description for name in names())


def _images(network: Network) -> Array:
    """Two images of blurred noise with mean 0 and variance 1, the second blurred more."""
    rng = np.random.default_rng(7)
    channels, height, width = network.image
    images = []
    for block in (2, 8):
        coarse = rng.standard_normal((channels, height // block + 1, width // block + 1))
        images.append(coarse.repeat(block, 1).repeat(block, 2)[:, :height, :width])
    return np.stack(images).astype(np.float32)


def _session(file: bytes) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return ort.InferenceSession(file, options, providers=["CPUExecutionProvider"])


def _shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple(size.dim_value for size in value.type.tensor_type.shape.dim)


def _count_parameters(model: onnx.ModelProto) -> int:
    weights = model.graph.initializer
    return sum(math.prod(w.dims) for w in weights if not w.name.endswith(RUNNING_STATISTICS))


def _count_multiply_adds(file: bytes) -> int:
    """The sum over convolutions and fully connected layers of outputs times filter size."""
    inferred = onnx.shape_inference.infer_shapes(file, strict_mode=True).graph
    shapes = {value.name: _shape(value) for value in (*inferred.value_info, *inferred.output)}
    filters = {weight.name: math.prod(weight.dims[1:]) for weight in inferred.initializer}
    layers = [node for node in inferred.node if node.op_type in ("Conv", "Gemm")]
    return sum(math.prod(shapes[node.output[0]]) * filters[node.input[1]] for node in layers)
