"""Every network of the zoo: valid ONNX, activations near 1 in every layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # it ships no types
import pytest
from every_time import slow_but
from numpy.typing import NDArray

from tvm_neocpu.contrib.model_zoo import Network, build, find, input_shape, names
from tvm_neocpu.core.errors import ShapeError, UnknownModelError

# What the nightly run alone builds: the others stand for their families.
FAST = {"resnet18", "densenet121", "inception_v3", "mobilenet_v2", "lenet"}
PROBABILITIES = {"lenet"}  # these end in a softmax
# Gates are small where the averages that they are made of are; probabilities are small.
SMALL = ("Constant", "Identity", "Sigmoid", "HardSigmoid", "Softmax")

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Case:
    """One network, built once for all of its tests."""

    network: Network
    model: onnx.ModelProto
    file: bytes  # the same, serialised
    data: Array  # two different images
    outputs: list[Array]  # each with both images, each image run alone

    @property
    def scores(self) -> Array:
        """The only output of a classifier."""
        return self.outputs[0]


@pytest.fixture(scope="module", params=slow_but(names(), FAST))
def case(request: pytest.FixtureRequest) -> Case:
    network = find(request.param)
    model = network.build()
    file = model.SerializeToString()
    data = _images(network)
    session = _session(file)
    rows = [session.run(None, {"data": image[None]}) for image in data]
    outputs = [np.concatenate(both) for both in zip(*rows, strict=True)]
    return Case(network, model, file, data, outputs)


def test_checker_accepts_the_model(case: Case) -> None:
    onnx.checker.check_model(case.file)


def test_declares_its_outputs(case: Case) -> None:
    declared = case.network.output_shapes(batch=2).values()
    assert [output.shape for output in case.outputs] == list(declared)


def test_output_is_of_order_one(case: Case) -> None:
    assert all(np.isfinite(output).all() for output in case.outputs)
    if case.network.name in PROBABILITIES:
        np.testing.assert_allclose(case.scores.sum(axis=1), 1, rtol=1e-5)
        return
    if case.network.classes:
        assert (case.scores.std(axis=1) > 0.25).all()
        assert (case.scores.std(axis=1) < 4).all()


def test_different_images_give_different_outputs(case: Case) -> None:
    one, other = case.outputs[-1]
    # Gates of squeeze-excite, made of averages, are alike for images of noise.
    assert np.linalg.norm(one - other) > 0.02 * np.linalg.norm(one)


def test_every_activation_is_of_order_one(case: Case) -> None:
    model = onnx.ModelProto.FromString(case.file)
    nodes = [node for node in model.graph.node[:-1] if node.op_type not in SMALL]
    for node in nodes:
        model.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
    values = _session(model.SerializeToString()).run(
        [node.name for node in nodes], {"data": case.data[:1]}
    )
    sizes = {node.name: float(np.std(value)) for node, value in zip(nodes, values, strict=True)}
    # Averages of whole channels in squeeze-excite vary less than what they are made of.
    lows = {name: 0.02 if ".se." in name else 0.09 for name in sizes}
    assert {name: size for name, size in sizes.items() if not lows[name] < size < 6} == {}


def test_same_seed_gives_same_bytes(case: Case) -> None:
    assert build(case.network.name).SerializeToString() == case.file


def test_batch_of_two_computes_the_same(case: Case) -> None:
    model = build(case.network.name, batch=2)
    outputs = _session(model.SerializeToString()).run(None, {"data": case.data})
    for found, wanted in zip(outputs, case.outputs, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3 * wanted.std())


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
