"""Pieces of a network: together they are the network, whatever is changed inside."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tvm_neocpu.quantizing.accuracy.pieces import Pieces, side_by_side
from tvm_neocpu.quantizing.onnx_graphs import copy_of, set_weights, weights_of
from tvm_neocpu.quantizing.onnx_runs import runner
from tvm_neocpu.quantizing.rewriting.choose_nodes import layers_of
from tvm_neocpu.quantizing.rewriting.prepare import prepare

Samples = list[dict[str, np.ndarray]]
SCALE = np.float32(1.25)


@pytest.fixture(scope="module")
def ready(network: onnx.ModelProto) -> onnx.ModelProto:
    return prepare(network, "net")


@pytest.fixture(scope="module")
def pieces(ready: onnx.ModelProto, samples: Samples) -> Pieces:
    """Cut behind every operation whose result is a tensor of four dimensions."""
    layers = [node.name for node in layers_of(ready.graph)]
    weights = [node.input[1] for node in layers_of(ready.graph)]
    return Pieces(ready, cuts_of(ready), weights, layers, samples[0])


def cuts_of(model: onnx.ModelProto) -> list[str]:
    return [node.output[0] for node in model.graph.node if node.op_type in ("Relu", "Add", "Mul")]


def scaled(model: onnx.ModelProto, tensor: str, reader: str | None = None) -> onnx.ModelProto:
    """A copy in which a tensor is larger, for all that read it or for one operation."""
    changed = copy_of(model)
    nodes = list(changed.graph.node)
    for node in nodes:
        if reader in (None, node.name):
            node.input[:] = ["larger" if name == tensor else name for name in node.input]
    set_weights(changed.graph, {"scale": SCALE})
    del changed.graph.node[:]
    known = {value.name for value in model.graph.input}
    twin = helper.make_node("Mul", [tensor, "scale"], ["larger"])
    if tensor in known:
        changed.graph.node.append(twin)
    for node in nodes:
        changed.graph.node.append(node)
        if tensor in node.output:
            changed.graph.node.append(twin)
    return changed


def test_unchanged(ready: onnx.ModelProto, pieces: Pieces, samples: Samples) -> None:
    for sample in samples[:3]:
        found = pieces.outputs(pieces.exact(sample))
        np.testing.assert_allclose(found[0], runner(ready)(sample)[0], rtol=1e-4, atol=1e-5)


def test_a_tensor_for_all_its_readers(
    ready: onnx.ModelProto, pieces: Pieces, samples: Samples
) -> None:
    exact = pieces.exact(samples[0])
    for tensor in ["data", *cuts_of(ready)]:
        wanted = runner(scaled(ready, tensor))(samples[0])[0]
        found = pieces.changed(exact, rounding={tensor: lambda values: values * SCALE})[0]
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=tensor)
        assert np.abs(found - pieces.outputs(exact)[0]).max() > 1e-3, tensor


def test_the_weight_and_the_data_of_a_layer(
    ready: onnx.ModelProto, pieces: Pieces, samples: Samples
) -> None:
    exact = pieces.exact(samples[0])
    for node in layers_of(ready.graph):
        changed = copy_of(ready)
        weight = numpy_helper.to_array(weights_of(ready.graph)[node.input[1]]) * SCALE
        set_weights(changed.graph, {node.input[1]: weight})
        found = pieces.changed(exact, operands={node.input[1]: weight})[0]
        wanted = runner(changed)(samples[0])[0]
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=node.name)
        larger = {node.name: exact[node.input[0]] * SCALE}
        found = pieces.changed(exact, data=larger)[0]
        wanted = runner(scaled(ready, node.input[0], node.name))(samples[0])[0]
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=node.name)


def test_what_comes_before_a_change_is_not_computed(
    ready: onnx.ModelProto, pieces: Pieces, samples: Samples
) -> None:
    exact = pieces.exact(samples[0])
    last = layers_of(ready.graph)[-1]
    weight = pieces.operands[last.input[1]] * SCALE
    kept = {last.input[0], *(output.name for output in ready.graph.output)}
    lost = {name: value if name in kept else value * np.nan for name, value in exact.items()}
    wanted, found = (pieces.changed(v, operands={last.input[1]: weight}) for v in (exact, lost))
    np.testing.assert_array_equal(wanted[0], found[0])
    assert np.isfinite(found[0]).all()


def test_results_keep_their_order() -> None:
    assert side_by_side(lambda x: x * x, range(20)) == [x * x for x in range(20)]
