"""Layers of integers through the whole pipeline: templates take them, results are exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from one_function import module_of
from tvm import relax

from tvm_neocpu import pipeline
from tvm_neocpu.core.errors import FallbackError
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import U8S8, U8S16
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.table import operator_of

TARGET = parse_target()
PAD = (1, 1, 1, 1)
LAYERS: dict[str, Workload] = {
    "3x3": ConvWorkload(1, 32, 9, 9, 48, (3, 3), padding=PAD, types=U8S8, pad_value=128),
    "1x1": ConvWorkload(2, 32, 5, 7, 16, (1, 1), types=U8S8),
    "first": ConvWorkload(1, 3, 20, 20, 16, (7, 7), (2, 2), (3, 3, 3, 3), types=U8S8),
    "odd channels": ConvWorkload(
        1, 13, 9, 8, 37, (3, 3), padding=(0, 1, 2, 1), types=U8S8, pad_value=255
    ),
    "groups": ConvWorkload(1, 24, 7, 7, 36, (3, 3), padding=PAD, groups=3, types=U8S8),
    "narrow groups": ConvWorkload(1, 32, 7, 7, 32, (3, 3), groups=16, types=U8S8),
    "depthwise": ConvWorkload(
        1, 32, 9, 9, 32, (3, 3), (2, 2), PAD, groups=32, types=U8S8, pad_value=3
    ),
    "zero point of weights": ConvWorkload(1, 16, 7, 7, 32, (3, 3), types=U8S16),
    "dense": DenseWorkload(3, 50, 40, U8S8),
}


def quantized(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    low, high = {"uint8": (0, 256), "int8": (-128, 128), "int16": (-255, 256)}[dtype]
    return rng.integers(low, high, shape).astype(dtype)


def product(
    builder: relax.BlockBuilder, x: relax.Var, layer: Workload, weight: np.ndarray
) -> relax.Expr:
    """The layer as passes write it: padding by a zero point is an operation of its own."""
    if isinstance(layer, DenseWorkload):
        return relax.op.matmul(x, relax.const(weight), out_dtype="int32")
    assert isinstance(layer, ConvWorkload)
    padding = layer.padding
    if any(padding) and layer.pad_value:
        top, left, bottom, right = padding
        widths = [0, 0, 0, 0, top, bottom, left, right]
        x = builder.emit(relax.op.nn.pad(x, widths, "constant", layer.pad_value))
        padding = (0, 0, 0, 0)
    return relax.op.nn.conv2d(
        x,
        relax.const(weight),
        strides=list(layer.stride),
        padding=list(padding),
        dilation=list(layer.dilation),
        groups=layer.groups,
        out_dtype="int32",
    )


def layer_of(layer: Workload, weight: np.ndarray, bias: np.ndarray, scale: np.ndarray):
    """The layer, a bias, a scale, rounding, zero point 3 and saturation."""

    def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        total = builder.emit(product(builder, x, layer, weight))
        biased = builder.emit(relax.op.add(total, relax.const(bias)))
        real = builder.emit(relax.op.astype(biased, "float32"))
        scaled = builder.emit(relax.op.multiply(real, relax.const(scale)))
        rounded = builder.emit(relax.op.round(scaled))
        moved = builder.emit(relax.op.add(rounded, relax.const(np.float32(3))))
        clipped = builder.emit(relax.op.clip(moved, 0, 255))
        return builder.emit(relax.op.astype(clipped, "uint8"))

    return module_of(layer.operands[0].shape, build, "uint8")


@pytest.mark.parametrize("name", LAYERS)
def test_exact(name: str) -> None:
    layer, rng = LAYERS[name], np.random.default_rng(3)
    data, weight = (quantized(rng, each.shape, each.dtype) for each in layer.operands)
    channels = (1, layer.out_shape[1], *(1 for _ in layer.out_shape[2:]))
    bias = rng.integers(-999, 999, channels).astype("int32")
    scale = (rng.random(channels) / 500).astype("float32")
    mod = layer_of(layer, weight, bias, scale)
    total = operator_of(layer).reference(layer, data, weight) + bias
    expected = np.clip(np.rint(total.astype("float32") * scale) + 3, 0, 255).astype("uint8")
    # "error": a layer that no template takes is no success.
    lowered = pipeline.lower(mod, TARGET.cpu, fallback="error")
    machine = relax.VirtualMachine(relax.build(lowered, TARGET.target), tvm.cpu())
    got = machine["main"](tvm.runtime.tensor(data)).numpy()
    np.testing.assert_array_equal(got, expected)


def test_types_that_no_template_multiplies_are_reported() -> None:
    layer = replace(LAYERS["1x1"], types=U8S8)
    weight = np.ones(layer.operands[1].shape, "uint8")

    def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return builder.emit(relax.op.nn.conv2d(x, relax.const(weight), out_dtype="int32"))

    mod = module_of(layer.operands[0].shape, build, "uint8")
    with pytest.raises(FallbackError, match="its types are uint8 x uint8 -> int32"):
        pipeline.lower(mod, TARGET.cpu, fallback="error")


def test_the_graph_names_the_types() -> None:
    layer = LAYERS["1x1"]
    weight = np.ones(layer.operands[1].shape, "int8")
    ones = np.ones((1, layer.out_shape[1], 1, 1))
    mod = layer_of(layer, weight, ones.astype("int32"), ones.astype("float32"))
    graph = ExtractConvGraph(TARGET.cpu)(pipeline.fold(mod, TARGET.cpu))
    (node,) = graph.convs
    assert {edge.dtype for edge in graph.edges} == {"uint8"}
    assert node.label.endswith(" uint8 x int8")
