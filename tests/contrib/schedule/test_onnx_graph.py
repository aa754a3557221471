"""ONNX models as schedule graphs."""

from __future__ import annotations

import onnx
import pytest
from onnx import helper

from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.schedule.onnx_graph import schedule_graph
from tvm_neocpu.core.errors import OpenShapeError, ShapeError
from tvm_neocpu.scheduling.graph.schedule_graph import OpKind, Window


@pytest.mark.parametrize(
    ("name", "gmacs", "millions"),
    [("vgg16", 15.47, 138.4), ("resnet50", 4.09, 25.6), ("densenet121", 2.83, 8.0)],
)
def test_multiply_adds_and_weights_are_the_published_ones(
    name: str, gmacs: float, millions: float
) -> None:
    graph = schedule_graph(model_zoo.find(name).sketch(), item_bytes=1)
    assert sum(node.macs for node in graph.nodes) / 1e9 == pytest.approx(gmacs, rel=0.02)
    weights = sum(node.weight_bytes for node in graph.nodes)
    assert weights / 1e6 == pytest.approx(millions, rel=0.02)
    assert not any(node.kind is OpKind.BOUNDARY for node in graph.nodes)


def test_a_small_network_node_by_node(tiny_cnn: onnx.ModelProto) -> None:
    graph = schedule_graph(tiny_cnn)
    kinds = [node.kind for node in graph.nodes]
    assert kinds == [
        OpKind.INPUT,
        OpKind.CONV,
        OpKind.ELEMENTWISE,
        OpKind.POOL,
        OpKind.MOVEMENT,
        OpKind.CONV,
    ]
    conv, pool, dense = graph.nodes[1], graph.nodes[3], graph.nodes[5]
    assert (conv.out_bytes, conv.weight_bytes) == (4 * 16 * 36, 4 * (16 * 8 * 9 + 16))
    assert (conv.macs, conv.shape, conv.in_channels) == (16 * 36 * 8 * 9, (16, 6, 6), 8)
    assert conv.window == Window((3, 3), (1, 1), (1, 1))
    assert pool.is_global
    assert not conv.is_global
    assert (dense.macs, dense.in_channels, dense.shape) == (160, 16, (10, 1, 1))
    assert graph.is_output[5]


def test_a_batch_norm_behind_a_convolution_is_part_of_it(make_model) -> None:
    nodes = [
        helper.make_node("Conv", ["data", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "s", "s", "s"], ["b"]),
        helper.make_node("Identity", ["b"], ["i"]),
        helper.make_node("Relu", ["i"], ["out"]),
    ]
    graph = schedule_graph(make_model(nodes, weights={"w": (4, 8, 1, 1), "s": (4,)}))
    assert [node.label.split()[0] for node in graph.nodes] == ["input", "Conv", "Relu"]


def test_a_tensor_that_is_read_twice_keeps_its_batch_norm(make_model) -> None:
    nodes = [
        helper.make_node("Conv", ["data", "w"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "s", "s", "s"], ["b"]),
        helper.make_node("Add", ["b", "c"], ["out"]),
    ]
    graph = schedule_graph(make_model(nodes, weights={"w": (4, 8, 1, 1), "s": (4,)}))
    assert len(graph) == 4


@pytest.mark.parametrize(
    ("node", "window"),
    [
        (helper.make_node("MaxPool", ["data"], ["out"], kernel_shape=[3, 3], strides=[2, 2]),
         Window((3, 3), (2, 2))),
        (helper.make_node("ConvTranspose", ["data", "w"], ["out"], strides=[2, 2]),
         Window((2, 2), upscale=2)),
        (helper.make_node("Conv", ["data", "w"], ["out"], auto_pad="SAME_UPPER"), Window((2, 2))),
    ],
)  # fmt: skip
def test_windows(make_model, node: onnx.NodeProto, window: Window) -> None:
    graph = schedule_graph(make_model([node], weights={"w": (8, 8, 2, 2)}))
    assert graph.nodes[1].window == window


def test_an_open_shape_is_asked_for(make_model) -> None:
    model = make_model([helper.make_node("Relu", ["data"], ["out"])], ("n", 3, 4, 4))
    with pytest.raises(OpenShapeError, match="dynamic dimensions"):
        schedule_graph(model)
    assert len(schedule_graph(model, shapes={"data": (2, 3, 4, 4)})) == 2


def test_a_shape_that_depends_on_values_is_refused(make_model) -> None:
    nodes = [
        helper.make_node("NonZero", ["data"], ["n"]),
        helper.make_node("Cast", ["n"], ["out"], to=onnx.TensorProto.FLOAT),
    ]
    with pytest.raises(ShapeError, match="is not known before the network runs"):
        schedule_graph(make_model(nodes))
