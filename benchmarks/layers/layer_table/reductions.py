"""What sums or compares: pools, products, recurrences, norms, softmax, the best of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .layer import Layer, Shape, normal, times, unary


def pool(
    operator: str, channels: int, size: int | Shape, kernel: int, stride: int, **attributes: Any
) -> Layer:
    extents = (size, size) if isinstance(size, int) else size
    taps = [kernel] * len(extents)
    pads = [kernel // 2 if kernel % 2 else 0] * (2 * len(extents))
    told = {"kernel_shape": taps, "strides": [stride] * len(extents), "pads": pads, **attributes}
    given = "".join(f" {k}={v}" for k, v in attributes.items())
    name = f"{operator} {channels}x{times(extents)} {times(taps)} s{stride}{given}"
    return Layer(name, operator, ((1, channels, *extents),), attributes=told)


def top_k(k: int, *shape: int, axis: int = -1) -> Layer:
    name = f"TopK {k} of {times(shape)}"
    ks = np.array([k], "int64")
    return Layer(name, "TopK", (shape,), (ks,), outputs=2, attributes={"axis": axis})


def recurrent(
    operator: str, steps: int, batch: int, inputs: int, units: int, directions: int = 1
) -> Layer:
    """A whole sequence; its first output, the states of all steps."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator] * units
    direction = "bidirectional" if directions == 2 else "forward"
    sides = " both directions" if directions == 2 else ""
    weights = (normal(directions, gates, inputs) * directions, normal(directions, gates, units))
    return Layer(
        f"{operator} {steps} steps of {batch}x{inputs}->{units}{sides}",
        operator,
        ((steps, batch, inputs),),
        (*weights, normal(directions, 2 * gates)),
        attributes={"hidden_size": units, "direction": direction},
    )


def pools() -> Iterator[Layer]:
    yield pool("MaxPool", 64, 112, 3, 2)
    yield pool("MaxPool", 64, 112, 2, 2)
    yield pool("MaxPool", 256, 13, 5, 1)
    yield pool("MaxPool", 256, 13, 13, 1)
    yield pool("MaxPool", 192, 28, 3, 1)
    yield pool("MaxPool", 96, 55, 3, 2, ceil_mode=1)
    yield pool("MaxPool", 64, (400,), 2, 2)
    yield pool("MaxPool", 32, (8, 28, 28), 2, 2)
    yield pool("AveragePool", 192, 35, 3, 1)
    yield pool("AveragePool", 192, 35, 3, 2, count_include_pad=1)
    yield pool("AveragePool", 128, 56, 2, 2)
    yield pool("AveragePool", 512, 14, 7, 7)
    yield pool("LpPool", 64, 56, 3, 2)
    yield unary("GlobalAveragePool", 1, 2048, 7, 7)
    yield unary("GlobalAveragePool", 1, 96, 112, 112)
    yield unary("GlobalMaxPool", 1, 512, 14, 14)


def products() -> Iterator[Layer]:
    yield Layer("Gemm 1x2048->1000", "Gemm", ((1, 2048),), (normal(2048, 1000), normal(1000)))
    yield Layer(
        "Gemm 1x9216->4096 tB",
        "Gemm",
        ((1, 9216),),
        (normal(4096, 9216), normal(4096)),
        attributes={"transB": 1},
    )
    yield Layer("Gemm 16x512->1000", "Gemm", ((16, 512),), (normal(512, 1000), normal(1000)))
    yield Layer("Gemm 4x400->120", "Gemm", ((4, 400),), (normal(400, 120), normal(120)))
    yield Layer("MatMul 1x196x768->768", "MatMul", ((1, 196, 768),), (normal(768, 768),))
    yield Layer("MatMul 1x3136x96->384", "MatMul", ((1, 3136, 96),), (normal(96, 384),))
    yield Layer("MatMul 26x1x512->97", "MatMul", ((26, 1, 512),), (normal(512, 97),))
    yield Layer("MatMul 196x768x768", "MatMul", ((196, 768), (768, 768)))
    yield Layer("MatMul 4x100x60x33", "MatMul", ((4, 100, 60), (4, 60, 33)))
    yield Layer("MatMul 12x196x64x196", "MatMul", ((1, 12, 196, 64), (1, 12, 64, 196)))
    yield Layer("MatMul 12x197x197x64", "MatMul", ((1, 12, 197, 197), (1, 12, 197, 64)))
    yield Layer(
        "Einsum bhqd,bhkd 12x196x64",
        "Einsum",
        ((1, 12, 196, 64),) * 2,
        attributes={"equation": "bhqd,bhkd->bhqk"},
    )


def recurrences() -> Iterator[Layer]:
    yield recurrent("LSTM", 32, 1, 256, 256)
    yield recurrent("LSTM", 16, 4, 512, 512)
    yield recurrent("LSTM", 26, 1, 512, 256, directions=2)
    yield recurrent("LSTM", 16, 4, 256, 256, directions=2)
    yield recurrent("LSTM", 50, 1, 40, 100)
    yield recurrent("GRU", 32, 1, 256, 256)
    yield recurrent("GRU", 16, 4, 128, 96, directions=2)
    yield recurrent("RNN", 32, 1, 256, 256)


def norms_and_rows() -> Iterator[Layer]:
    norm = (normal(256), normal(256))
    yield unary("InstanceNormalization", 1, 256, 28, 28, constants=norm)
    yield unary("InstanceNormalization", 1, 32, 113, 113, constants=(norm[0][:32], norm[1][:32]))
    yield unary(
        "BatchNormalization", 1, 256, 28, 28, constants=(*norm, normal(256), abs(normal(256)))
    )
    yield Layer(
        "GroupNormalization 256x28x28 of 32",
        "GroupNormalization",
        ((1, 256, 28, 28),),
        norm,
        attributes={"num_groups": 32},
        opset=21,
    )
    yield unary("LRN", 1, 96, 55, 55, size=5)
    yield unary("MeanVarianceNormalization", 1, 64, 56, 56, axes=[2, 3])
    yield unary("LpNormalization", 1, 256, 28, 28, axis=1)
    yield unary("LayerNormalization", 1, 196, 768, constants=(normal(768), normal(768)))
    yield unary("LayerNormalization", 1, 3136, 96, constants=(normal(96), normal(96)))
    yield unary("Softmax", 1, 1000, axis=-1)
    yield unary("Softmax", 1, 12, 196, 196, axis=-1)
    yield unary("Softmax", 1, 21, 65, 65, axis=1)
    yield unary("Softmax", 8732, 21, axis=-1)
    yield unary("Softmax", 1, 4, 16, 1680, axis=2)
    yield unary("LogSoftmax", 1, 1000, axis=-1)
    yield unary("ReduceMean", 1, 256, 28, 28, constants=(np.array([2, 3]),), keepdims=1)
    yield unary("ReduceMean", 1, 256, 28, 28, constants=(np.array([1]),), keepdims=1)
    yield unary("ReduceMax", 1, 256, 28, 28, constants=(np.array([2, 3]),), keepdims=1)
    yield unary("ReduceMax", 1, 256, 28, 28, constants=(np.array([1]),), keepdims=1)
    yield unary("ReduceSum", 1, 196, 768, constants=(np.array([-1]),), keepdims=1)
    yield unary("ReduceL2", 1, 196, 768, constants=(np.array([-1]),), keepdims=1)
    yield unary("ReduceMean", 1, 196, 768, constants=(np.array([1]),), keepdims=1)
    yield unary("ArgMax", 1, 21, 65, 65, axis=1)
    yield unary("ArgMax", 1, 1000, axis=-1)
    yield unary("ArgMax", 26, 97, axis=-1)
    yield top_k(5, 1, 1000)
    yield top_k(100, 1, 8400)
    yield top_k(1000, 1, 20000)
    yield top_k(10, 64, 1000)
    yield top_k(300, 8, 1000)
    yield top_k(3, 1, 80, 40, 40, axis=1)
    yield unary("CumSum", 196, 768, constants=(np.array(1),))
