"""The layers that `single_layers.py` times: every kind that networks have, one ONNX model each.

A layer is one node, or the few nodes that a network always has together. Inputs and outputs are
plain NCHW, so that our layout transforms count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Shape = tuple[int, ...]
Array = NDArray[Any]


@dataclass(frozen=True)
class Layer:
    """One ONNX node; ``constants`` are its inputs behind the first ``inputs``.

    Inputs are named x0, x1..., constants c0, c1..., outputs y0, y1... ``nodes`` take the place of
    the one node.
    """

    name: str
    operator: str
    inputs: tuple[Shape, ...]
    constants: tuple[Array | None, ...] = ()
    outputs: int = 1
    attributes: Mapping[str, Any] = field(default_factory=dict)
    nodes: tuple[onnx.NodeProto, ...] = ()
    opset: int = 18

    @property
    def file_name(self) -> str:
        return "".join(c if c.isalnum() else "_" for c in self.name) + ".so"

    def model(self) -> onnx.ModelProto:
        """The node alone."""
        fed = [f"x{place}" for place in range(len(self.inputs))]
        fixed = [
            numpy_helper.from_array(value, f"c{place}")
            for place, value in enumerate(self.constants)
            if value is not None
        ]
        names = ["" if value is None else f"c{place}" for place, value in enumerate(self.constants)]
        made = [f"y{place}" for place in range(self.outputs)]
        node = helper.make_node(self.operator, [*fed, *names], made, **self.attributes)
        graph = helper.make_graph(
            list(self.nodes) or [node],
            "layer",
            [
                helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
                for name, shape in zip(fed, self.inputs, strict=True)
            ],
            [helper.make_empty_tensor_value_info(name) for name in made],
            fixed,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 9
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
        types = {value.name: value.type for value in inferred.graph.value_info}
        types |= {v.name: v.type for v in inferred.graph.output if v.type.WhichOneof("value")}
        for value in model.graph.output:
            # GroupNormalization has no shape inference.
            value.type.CopyFrom(types.get(value.name, model.graph.input[0].type))
        return model


def _normal(*shape: int) -> Array:
    scale = 1 / np.sqrt(np.prod(shape[1:]) if len(shape) > 1 else 1)
    return (np.random.default_rng(1).standard_normal(shape) * scale).astype("float32")


def _times(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers))


def conv(
    inputs: int,
    size: int | Shape,
    outputs: int,
    kernel: int | Shape,
    stride: int | Shape = 1,
    groups: int = 1,
    dilation: int = 1,
    batch: int = 1,
) -> Layer:
    """A convolution with bias, padded so that stride 1 keeps the size.

    ``size``: one number for a square image, or the extents of a sequence, an image or a volume.
    """
    extents = (size, size) if isinstance(size, int) else size
    taps = (kernel,) * len(extents) if isinstance(kernel, int) else kernel
    steps = (stride,) * len(extents) if isinstance(stride, int) else stride
    kind = " depthwise" if groups == inputs > 1 else f" g{groups}" if groups > 1 else ""
    kind += f" d{dilation}" if dilation > 1 else ""
    start = f"conv{'' if len(extents) == 2 else f'{len(extents)}d'} "
    start += f"{batch}x" if batch > 1 else ""
    step = _times(steps) if len(set(steps)) > 1 else str(steps[0])
    name = f"{start}{inputs}x{_times(extents)}->{outputs} {_times(taps)} s{step}{kind}"
    attributes = {
        "kernel_shape": taps,
        "strides": steps,
        "pads": [dilation * (tap - 1) // 2 for tap in taps] * 2,
        "dilations": [dilation] * len(extents),
        "group": groups,
    }
    constants = (_normal(outputs, inputs // groups, *taps), _normal(outputs))
    return Layer(name, "Conv", ((batch, inputs, *extents),), constants, attributes=attributes)


def conv_transpose(
    inputs: int,
    size: int | Shape,
    outputs: int,
    kernel: int,
    stride: int,
    pad: int = 0,
    groups: int = 1,
    **attributes: Any,
) -> Layer:
    extents = (size, size) if isinstance(size, int) else size
    sides = len(extents)
    told = {"kernel_shape": [kernel] * sides, "strides": [stride] * sides, "group": groups}
    name = (
        f"ConvTranspose {inputs}x{_times(extents)}->{outputs} {_times([kernel] * sides)} s{stride}"
    )
    name += " depthwise" if groups > 1 else ""
    constants = (_normal(inputs, outputs // groups, *[kernel] * sides), _normal(outputs))
    told |= {"pads": [pad] * (2 * sides), **attributes}
    return Layer(name, "ConvTranspose", ((1, inputs, *extents),), constants, attributes=told)


def pool(
    operator: str, channels: int, size: int | Shape, kernel: int, stride: int, **attributes: Any
) -> Layer:
    extents = (size, size) if isinstance(size, int) else size
    taps = [kernel] * len(extents)
    pads = [kernel // 2 if kernel % 2 else 0] * (2 * len(extents))
    told = {"kernel_shape": taps, "strides": [stride] * len(extents), "pads": pads, **attributes}
    given = "".join(f" {k}={v}" for k, v in attributes.items())
    name = f"{operator} {channels}x{_times(extents)} {_times(taps)} s{stride}{given}"
    return Layer(name, operator, ((1, channels, *extents),), attributes=told)


def unary(
    operator: str, *shape: int, constants: Sequence[Array | None] = (), **attributes: Any
) -> Layer:
    told = {k: v for k, v in attributes.items() if k != "keepdims"}
    small = [c.tolist() for c in constants if c is not None and c.dtype == "int64" and c.size < 5]
    given = " ".join([*(f"{k}={v}" for k, v in told.items()), *map(str, small)])
    name = f"{operator} {_times(shape)} {given}".strip()
    return Layer(name, operator, (shape,), tuple(constants), attributes=attributes)


def top_k(k: int, *shape: int, axis: int = -1) -> Layer:
    name = f"TopK {k} of {_times(shape)}"
    ks = np.array([k], "int64")
    return Layer(name, "TopK", (shape,), (ks,), outputs=2, attributes={"axis": axis})


def recurrent(
    operator: str, steps: int, batch: int, inputs: int, units: int, directions: int = 1
) -> Layer:
    """A whole sequence; its first output, the states of all steps."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[operator] * units
    direction = "bidirectional" if directions == 2 else "forward"
    sides = " both directions" if directions == 2 else ""
    weights = (_normal(directions, gates, inputs) * directions, _normal(directions, gates, units))
    return Layer(
        f"{operator} {steps} steps of {batch}x{inputs}->{units}{sides}",
        operator,
        ((steps, batch, inputs),),
        (*weights, _normal(directions, 2 * gates)),
        attributes={"hidden_size": units, "direction": direction},
    )


def resize(mode: str, scale: float, *shape: int, **attributes: Any) -> Layer:
    given = "".join(f" {k}={v}" for k, v in attributes.items())
    return Layer(
        f"Resize {_times(shape)} by {scale:g} mode={mode}{given}",
        "Resize",
        (shape,),
        (None, np.array([1, 1, scale, scale], "f4")),
        attributes={"mode": mode, **attributes},
    )


def layers() -> Iterator[Layer]:
    """All of them."""
    yield from convolutions()
    yield from grouped_convolutions()
    yield from other_convolutions()
    yield from pools()
    yield from products()
    yield from recurrences()
    yield from norms_and_rows()
    yield from elementwise()
    yield from data_movement()
    yield from resizes()


def convolutions() -> Iterator[Layer]:
    yield conv(3, 224, 64, 7, 2)
    yield conv(3, 224, 32, 3, 2)
    yield conv(3, 224, 24, 3, 2)
    yield conv(3, 224, 64, 3)
    yield conv(3, 227, 96, 11, 4)
    yield conv(3, 224, 96, 4, 4)
    yield conv(3, 224, 384, 16, 16)
    yield conv(1, 28, 32, 5)
    yield conv(64, 56, 64, 1)
    yield conv(64, 56, 64, 3)
    yield conv(128, 56, 128, 3, 2)
    yield conv(256, 14, 256, 3)
    yield conv(512, 14, 512, 3, 2)
    yield conv(512, 7, 512, 3)
    yield conv(256, 14, 1024, 1)
    yield conv(1024, 14, 256, 1)
    yield conv(512, 28, 1024, 1, 2)
    yield conv(16, 55, 64, 1)  # SqueezeNet's
    yield conv(64, 55, 16, 1)
    yield conv(96, 54, 16, 1)
    yield conv(32, 27, 128, 1)
    yield conv(16, 55, 64, 3)
    yield conv(48, 13, 192, 1)
    yield conv(512, 13, 1000, 1)
    yield conv(17, 57, 33, 1)
    yield conv(17, 57, 33, 3)
    yield conv(67, 26, 67, 3)
    yield conv(24, 56, 144, 1)
    yield conv(144, 56, 24, 1)
    yield conv(255, 13, 255, 1)
    yield conv(192, 17, 192, 5)
    yield conv(192, 17, 192, (1, 7))
    yield conv(192, 17, 192, (7, 1))
    yield conv(64, 35, 96, 5)
    yield conv(128, 28, 32, 3)  # DenseNet's
    yield conv(24, 80, 24, 3)
    yield conv(256, 28, 256, 3, dilation=2)
    yield conv(256, 33, 256, 3, dilation=12)
    yield conv(64, 14, 64, 3, batch=4)
    yield conv(96, 1, 4, 1)  # squeeze-excite
    yield conv(4, 1, 96, 1)
    yield conv(1152, 1, 48, 1)
    yield conv(48, 1, 1152, 1)


def grouped_convolutions() -> Iterator[Layer]:
    yield conv(32, 112, 32, 3, 1, 32)
    yield conv(144, 56, 144, 3, 2, 144)
    yield conv(576, 14, 576, 3, 1, 576)
    yield conv(22, 56, 22, 3, 1, 22)
    yield conv(44, 28, 44, 5, 1, 44)
    yield conv(96, 56, 96, 5, 2, 96)
    yield conv(17, 57, 17, 3, 1, 17)
    yield conv(960, 7, 960, 5, 1, 960)
    yield conv(96, 56, 96, 7, 1, 96)
    yield conv(384, 14, 384, 7, 1, 384)
    yield conv(192, 28, 192, 3, 1, 192, dilation=2)
    yield conv(32, 56, 64, 3, 1, 32)  # two filters a channel
    yield conv(256, 28, 256, 3, 1, 32)
    yield conv(128, 56, 128, 3, 1, 32)
    yield conv(1024, 7, 1024, 3, 1, 32)
    yield conv(104, 28, 104, 3, 1, 13)
    yield conv(96, 27, 256, 5, 1, 2)
    yield conv(240, 28, 60, 1, 1, 3)  # ShuffleNet's
    yield conv(72, 28, 72, 3, 2, 9)


def other_convolutions() -> Iterator[Layer]:
    """Transposed, deformable, of sequences and volumes, with computed weights."""
    yield conv_transpose(64, 28, 32, 2, 2)
    yield conv_transpose(64, 28, 32, 4, 2, 1)
    yield conv_transpose(64, 28, 32, 3, 2, 1, output_padding=[1, 1])
    yield conv_transpose(64, 28, 32, 3, 1, 1)
    yield conv_transpose(256, 8, 128, 5, 2, 2, output_padding=[1, 1])
    yield conv_transpose(21, 28, 21, 16, 8, 4)
    yield conv_transpose(21, 28, 21, 4, 2, 1, groups=21)
    yield conv_transpose(128, (200,), 64, 16, 8, 4)
    yield conv_transpose(32, (8, 14, 14), 16, 2, 2)
    yield conv(64, (400,), 128, 3)
    yield conv(1, (16000,), 64, 80, 4)
    yield conv(256, (1000,), 256, 1)
    yield conv(256, (400,), 256, 31, 1, 256)
    yield conv(64, (1000,), 64, 3, dilation=4)
    yield conv(16, (8, 28, 28), 32, 3)
    yield conv(3, (8, 56, 56), 32, (3, 7, 7), (1, 2, 2))
    yield conv(64, (8, 14, 14), 64, 3)
    yield conv(64, (8, 14, 14), 128, 1)
    yield conv(64, (8, 14, 14), 128, 3, 2)
    yield conv(54, (8, 14, 14), 54, 3, 1, 54)
    pads = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    yield Layer(
        "DeformConv 64x28x28->64 3x3",
        "DeformConv",
        ((1, 64, 28, 28),),
        (_normal(64, 64, 3, 3), np.tile(_normal(1, 18, 1, 1), (1, 1, 28, 28)) * 4, _normal(64)),
        attributes=pads,
        opset=19,
    )
    # StyleGAN's modulated convolution and CondConv's: the weights are inputs.
    weights = ((1, 64, 32, 32), (64, 64, 3, 3))
    yield Layer("Conv 64x32x32->64 3x3, computed weights", "Conv", weights, attributes=pads)
    weights = ((1, 256, 16, 16), (256, 64, 3, 3))
    pads = {**pads, "group": 4}
    yield Layer("Conv 256x16x16->256 3x3 g4, computed weights", "Conv", weights, attributes=pads)
    weights = ((1, 80, 68, 100), (80, 10, 1, 1))  # CondInst's heads of 8 objects
    attributes = {"group": 8}
    name = "Conv 80x68x100->80 1x1 g8, computed weights"
    yield Layer(name, "Conv", weights, attributes=attributes)
    yield squeeze_excite(67, 26, 16)
    yield squeeze_excite(96, 56, 4)
    yield squeeze_excite(672, 14, 28)


def squeeze_excite(channels: int, size: int, squeezed: int) -> Layer:
    """A gate: global average, two 1x1 layers, a sigmoid, a product with the image."""
    return Layer(
        f"Squeeze-excite {channels}x{size}x{size} by {squeezed}",
        "",
        ((1, channels, size, size),),
        (
            _normal(squeezed, channels, 1, 1),
            _normal(squeezed),
            _normal(channels, squeezed, 1, 1),
            _normal(channels),
        ),
        nodes=(
            helper.make_node("GlobalAveragePool", ["x0"], ["mean"]),
            helper.make_node("Conv", ["mean", "c0", "c1"], ["small"]),
            helper.make_node("Relu", ["small"], ["positive"]),
            helper.make_node("Conv", ["positive", "c2", "c3"], ["wide"]),
            helper.make_node("Sigmoid", ["wide"], ["gate"]),
            helper.make_node("Mul", ["x0", "gate"], ["y0"]),
        ),
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
    yield Layer("Gemm 1x2048->1000", "Gemm", ((1, 2048),), (_normal(2048, 1000), _normal(1000)))
    yield Layer(
        "Gemm 1x9216->4096 tB",
        "Gemm",
        ((1, 9216),),
        (_normal(4096, 9216), _normal(4096)),
        attributes={"transB": 1},
    )
    yield Layer("Gemm 16x512->1000", "Gemm", ((16, 512),), (_normal(512, 1000), _normal(1000)))
    yield Layer("Gemm 4x400->120", "Gemm", ((4, 400),), (_normal(400, 120), _normal(120)))
    yield Layer("MatMul 1x196x768->768", "MatMul", ((1, 196, 768),), (_normal(768, 768),))
    yield Layer("MatMul 1x3136x96->384", "MatMul", ((1, 3136, 96),), (_normal(96, 384),))
    yield Layer("MatMul 26x1x512->97", "MatMul", ((26, 1, 512),), (_normal(512, 97),))
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
    norm = (_normal(256), _normal(256))
    yield unary("InstanceNormalization", 1, 256, 28, 28, constants=norm)
    yield unary("InstanceNormalization", 1, 32, 113, 113, constants=(norm[0][:32], norm[1][:32]))
    yield unary(
        "BatchNormalization", 1, 256, 28, 28, constants=(*norm, _normal(256), abs(_normal(256)))
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
    yield unary("LayerNormalization", 1, 196, 768, constants=(_normal(768), _normal(768)))
    yield unary("LayerNormalization", 1, 3136, 96, constants=(_normal(96), _normal(96)))
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


def elementwise() -> Iterator[Layer]:
    image = (1, 256, 28, 28)
    for operator in ("Relu", "Sigmoid", "Tanh", "HardSwish", "Exp", "Erf", "LeakyRelu", "Softplus"):
        yield unary(operator, *image)
    for operator in ("HardSigmoid", "Elu", "Selu", "Mish", "Abs", "Neg", "Floor", "Round", "Sign"):
        yield unary(operator, *image)
    yield Layer("Gelu 1x196x768", "Gelu", ((1, 196, 768),), opset=20)
    yield unary("PRelu", *image, constants=(_normal(256, 1, 1),))
    yield unary("Clip", *image, constants=(np.float32(0).reshape(()), np.array(6, "f4")))
    yield unary("Sqrt", *image)
    yield unary("Pow", *image, constants=(np.array(2, "f4"),))
    yield unary("Div", *image, constants=(np.array([3.0], "f4"),))
    yield Layer("Add 256x28x28", "Add", (image,) * 2)
    yield Layer("Add 33x57x57", "Add", ((1, 33, 57, 57),) * 2)
    yield Layer("Max 256x28x28", "Max", (image,) * 2)
    yield Layer("Add along rows 196x768", "Add", ((1, 196, 768), (768,)))
    yield Layer("Mul by a gate 256x28x28", "Mul", (image, (1, 256, 1, 1)))
    yield Layer("Mul by a gate 67x26x26", "Mul", ((1, 67, 26, 26), (1, 67, 1, 1)))
    yield Layer("Mul by a map 256x28x28", "Mul", (image, (1, 1, 28, 28)))


def data_movement() -> Iterator[Layer]:
    yield unary("Transpose", 1, 64, 56, 56, perm=[0, 2, 3, 1])
    yield unary("Transpose", 1, 56, 56, 64, perm=[0, 3, 1, 2])
    yield unary("Transpose", 1, 3, 224, 224, perm=[0, 2, 3, 1])
    yield unary("Transpose", 1, 224, 224, 3, perm=[0, 3, 1, 2])
    yield unary("Transpose", 1, 85, 80, 80, perm=[0, 2, 3, 1])
    yield unary("Transpose", 1, 196, 12, 64, perm=[0, 2, 1, 3])
    yield unary("Transpose", 1, 2, 58, 28, 28, perm=[0, 2, 1, 3, 4])  # a channel shuffle
    yield unary("Transpose", 1, 3, 85, 20, 20, perm=[0, 1, 3, 4, 2])  # YOLO's heads
    yield unary("Transpose", 1000, 256, perm=[1, 0])
    yield unary("Transpose", 512, 1, 26, perm=[2, 1, 0])
    yield unary("Reshape", 1, 256, 28, 28, constants=(np.array([1, 256, 784]),))
    yield unary("DepthToSpace", 1, 64, 28, 28, blocksize=2)
    yield unary("DepthToSpace", 1, 27, 57, 57, blocksize=3, mode="CRD")
    yield unary("SpaceToDepth", 1, 16, 56, 56, blocksize=2)
    edges = np.array([0, 0, 1, 1, 0, 0, 1, 1])
    yield unary("Pad", 1, 64, 56, 56, constants=(edges,))
    yield unary("Pad", 1, 64, 56, 56, constants=(edges,), mode="reflect")
    yield unary("Pad", 1, 64, 56, 56, constants=(edges,), mode="edge")
    yield unary("Pad", 1, 3, 224, 224, constants=(3 * edges,), mode="reflect")
    yield unary("Slice", 1, 256, 28, 28, constants=(np.array([64]), np.array([192]), np.array([1])))
    yield unary(
        "Slice",
        *(1, 3, 320, 320),
        constants=(np.array([0, 0]), np.array([320, 320]), np.array([2, 3]), np.array([2, 2])),
    )
    yield Layer("Concat 2 x 128x28x28", "Concat", ((1, 128, 28, 28),) * 2, attributes={"axis": 1})
    yield Layer(
        "Concat 2 x 64x27x27 rows", "Concat", ((1, 64, 27, 27),) * 2, attributes={"axis": 3}
    )
    yield Layer(
        "Split 256x28x28",
        "Split",
        ((1, 256, 28, 28),),
        outputs=2,
        attributes={"axis": 1, "num_outputs": 2},
    )
    yield unary("Gather", 1000, 256, constants=(np.arange(0, 1000, 7),))
    yield Layer(
        "Gather of 196x256 along 1",
        "Gather",
        ((196, 256),),
        (np.arange(0, 256, 3),),
        attributes={"axis": 1},
    )
    yield Layer(
        "GatherElements of 64x1000",
        "GatherElements",
        ((64, 1000),),
        (np.random.default_rng(2).integers(0, 1000, (64, 100)),),
        attributes={"axis": 1},
    )
    pixels = np.random.default_rng(3).integers(0, 100, (500, 2))
    yield Layer("GatherND 500 of 100x100x64", "GatherND", ((100, 100, 64),), (pixels,))
    yield Layer(
        "ScatterND 500 into 100x100x64",
        "ScatterND",
        ((100, 100, 64),),
        (pixels, _normal(500, 64)),
    )
    yield unary("Expand", 1, 256, 1, 1, constants=(np.array([1, 256, 28, 28]),))
    yield unary("Tile", 1, 64, 28, 28, constants=(np.array([1, 2, 1, 1]),))
    grid = (1, 64, 28, 28), (1, 28, 28, 2)
    for mode in ("bilinear", "nearest"):
        yield Layer(f"GridSample 64x28x28 {mode}", "GridSample", grid, attributes={"mode": mode})
    corners = np.random.default_rng(4).uniform(0, 30, (50, 2))
    boxes = np.concatenate([corners, corners + 15], axis=1).astype("f4")
    yield Layer(
        "RoiAlign 50 of 64x50x50 7x7",
        "RoiAlign",
        ((1, 64, 50, 50),),
        (boxes, np.zeros(50, "int64")),
        attributes={"output_height": 7, "output_width": 7, "sampling_ratio": 2},
    )


def resizes() -> Iterator[Layer]:
    image = (1, 64, 28, 28)
    for mode in ("nearest", "linear", "cubic"):
        yield resize(mode, 2, *image)
    yield resize("nearest", 2, *image, coordinate_transformation_mode="asymmetric")
    yield resize("nearest", 1.5, *image)
    yield resize("linear", 2, *image, coordinate_transformation_mode="align_corners")
    yield resize("linear", 1.5, *image)
    yield resize("linear", 0.5, 1, 64, 56, 56)
    yield resize("linear", 8, 1, 21, 33, 33)
    yield resize("linear", 4, 1, 3, 57, 57)
    yield resize("cubic", 0.5, 1, 3, 224, 224)
    yield resize("linear", 0.5, 1, 64, 56, 56, antialias=1)
