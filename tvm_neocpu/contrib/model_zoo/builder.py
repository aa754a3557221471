"""Builds a network as ONNX, layer by layer, with weights that keep the signal near 1.

Each method adds one node with the caller's name and returns its output. Weights are drawn from the
given generator in the order of the calls: the same calls with the same seed give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from . import moments
from .draws import OFFSET, Draws, Floats, after_weights
from .moments import Moments, Values
from .window import Padding, Size, Window

OPSET = 17
IR_VERSION = 8
INPUT_NAME = "data"
OUTPUT_NAME = "output"


@dataclass(frozen=True)
class Tensor:
    """A value in the graph: name, shape (NCHW, or NC after flatten) and moments."""

    name: str
    shape: tuple[int, ...]
    moments: Moments

    @property
    def channels(self) -> int:
        return self.shape[1]

    @property
    def image(self) -> tuple[int, ...]:
        """Height and width; empty after flatten."""
        return self.shape[2:]


class GraphBuilder:
    """One ONNX model under construction, from `data` to its outputs, all float32.

    Without a generator the weights have shapes and no values: a sketch, made in milliseconds, that
    can be counted and checked but not run.
    """

    def __init__(
        self, name: str, input_shape: tuple[int, ...], rng: np.random.Generator | None
    ) -> None:
        self._draws = Draws(rng)
        self._shared: set[str] = set()
        self._model = onnx.ModelProto(ir_version=IR_VERSION, producer_name="tvm_neocpu")
        self._model.opset_import.append(helper.make_opsetid("", OPSET))
        # The graph grows inside the model: adding it at the end would copy every weight again.
        self._graph = self._model.graph
        self._graph.name = name
        data = helper.make_tensor_value_info(INPUT_NAME, TensorProto.FLOAT, input_shape)
        self._graph.input.append(data)
        self.data = Tensor(INPUT_NAME, input_shape, moments.NORMALISED_IMAGE)

    def finish(self, last: Tensor | Mapping[str, Tensor]) -> onnx.ModelProto:
        """The model with output `last`, called `output`, or with several of the given names.

        Raises ValueError unless a single `last` is the newest node.
        """
        if isinstance(last, Tensor):
            return self._finish_single(last)
        for name, tensor in last.items():
            self._graph.node.append(helper.make_node("Identity", [tensor.name], [name], name))
            output = helper.make_tensor_value_info(name, TensorProto.FLOAT, tensor.shape)
            self._graph.output.append(output)
        return self._model

    def _finish_single(self, last: Tensor) -> onnx.ModelProto:
        node = self._graph.node[-1]
        if node.output[0] != last.name:
            raise ValueError(f"{last.name} is not the last node, {node.name} is")
        node.output[0] = OUTPUT_NAME
        output = helper.make_tensor_value_info(OUTPUT_NAME, TensorProto.FLOAT, last.shape)
        self._graph.output.append(output)
        return self._model

    def conv(
        self,
        x: Tensor,
        name: str,
        filters: int,
        kernel: Size,
        stride: Size = 1,
        padding: Padding = 0,
        groups: int = 1,
        bias: bool = False,
        dilation: Size = 1,
        weights_of: str | None = None,
    ) -> Tensor:
        """Convolution, weights OIHW; it has a `bias` if no batch norm follows.

        Convolutions with the same `weights_of` share the weights that the first one draws.
        """
        window = Window.of(kernel, stride, padding, dilation)
        after = after_weights(x.moments)
        owner = weights_of or name
        names = [f"{owner}.weight", *([f"{owner}.bias"] if bias else [])]
        if owner not in self._shared:
            weight = self._draws.weight((filters, x.channels // groups, *window.kernel), x.moments)
            self.parameter(names[0], weight)
            if bias:
                self.parameter(names[1], self._draws.offset(filters))
        if weights_of:
            self._shared.add(weights_of)
        inputs = [x.name, *names]
        if bias:
            after = moments.after_shift(after, OFFSET**2)
        shape = (x.shape[0], filters, *window.slide_over(x.image))
        return self.node("Conv", name, inputs, shape, after, group=groups, **window.attributes())

    def conv_transpose(self, x: Tensor, name: str, filters: int, kernel: int) -> Tensor:
        """Transposed convolution with bias whose stride is its kernel: `kernel` times the size."""
        # Every output has one tap of each input channel: the fan-in is the channels.
        weight = self._draws.weight((filters * kernel**2, x.channels), x.moments)
        weight = weight.reshape(filters, kernel, kernel, x.channels).transpose(3, 0, 1, 2)
        inputs = [
            x.name,
            self.parameter(f"{name}.weight", weight),
            self.parameter(f"{name}.bias", self._draws.offset(filters)),
        ]
        after = moments.after_shift(after_weights(x.moments), OFFSET**2)
        shape = (x.shape[0], filters, *(size * kernel for size in x.image))
        window = {"kernel_shape": (kernel, kernel), "strides": (kernel, kernel)}
        return self.node("ConvTranspose", name, inputs, shape, after, **window)

    def batch_norm(self, x: Tensor, name: str, gain: float = 1.0, epsilon: float = 1e-5) -> Tensor:
        """Batch norm in inference form; the root mean square of its output is about `gain`."""
        channels, size = x.channels, math.sqrt(x.moments.power)
        parameters = {
            "weight": np.float32(gain) * self._draws.factor(channels),
            "bias": np.float32(gain) * self._draws.offset(channels),
            "running_mean": np.float32(size) * self._draws.offset(channels),
            "running_var": np.float32(size**2) * self._draws.factor(channels),
        }
        inputs = [self.parameter(f"{name}.{key}", value) for key, value in parameters.items()]
        after = moments.after_scale(x.moments, gain / size)
        after = moments.after_shift(after, 2 * (gain * OFFSET) ** 2)
        inputs.insert(0, x.name)
        return self.node("BatchNormalization", name, inputs, x.shape, after, epsilon=epsilon)

    def gemm(self, x: Tensor, name: str, features: int) -> Tensor:
        """Fully connected layer with bias, weights (features, inputs)."""
        weight = self._draws.weight((features, x.channels), x.moments)
        inputs = [
            x.name,
            self.parameter(f"{name}.weight", weight),
            self.parameter(f"{name}.bias", self._draws.offset(features)),
        ]
        after = moments.after_shift(after_weights(x.moments), OFFSET**2)
        return self.node("Gemm", name, inputs, (x.shape[0], features), after, transB=1)

    def dense(self, x: Tensor, name: str, features: int) -> Tensor:
        """Fully connected layer over the last axis, any rank: MatMul (inputs, features) and Add."""
        weight = self._draws.weight((features, x.shape[-1]), x.moments).T
        inputs = [x.name, self.parameter(f"{name}.weight", weight)]
        shape = (*x.shape[:-1], features)
        y = self.node("MatMul", f"{name}.matmul", inputs, shape, after_weights(x.moments))
        after = moments.after_shift(y.moments, OFFSET**2)
        bias = self.parameter(f"{name}.bias", self._draws.offset(features))
        return self.node("Add", name, [y.name, bias], shape, after)

    def layer_norm(self, x: Tensor, name: str, epsilon: float = 1e-6) -> Tensor:
        """Layer norm over the last axis."""
        size = x.shape[-1]
        inputs = [
            x.name,
            self.parameter(f"{name}.weight", self._draws.factor(size)),
            self.parameter(f"{name}.bias", self._draws.offset(size)),
        ]
        after = moments.after_scale(x.moments, 1 / math.sqrt(x.moments.power))
        after = moments.after_shift(after, OFFSET**2)
        return self.node("LayerNormalization", name, inputs, x.shape, after, epsilon=epsilon)

    def scale(self, x: Tensor, name: str, gain: float) -> Tensor:
        """A trained factor of each channel, all near `gain`."""
        return self._scale(x, name, gain, x.channels)

    def rescale(self, x: Tensor, name: str, gain: float) -> Tensor:
        """A trained factor of the whole tensor, near `gain`."""
        return self._scale(x, name, gain, 1)

    def _scale(self, x: Tensor, name: str, gain: float, count: int) -> Tensor:
        factors = np.float32(gain) * self._draws.factor(count)
        factor = self.parameter(f"{name}.weight", factors.reshape(-1, 1, 1))
        after = moments.after_scale(x.moments, gain)
        return self.node("Mul", name, [x.name, factor], x.shape, after)

    def relu(self, x: Tensor, name: str) -> Tensor:
        return self.elementwise("Relu", x, name, lambda v: np.maximum(v, 0))

    def relu6(self, x: Tensor, name: str) -> Tensor:
        """`Clip` to 0..6; its bounds are constant nodes, so that every initializer is a weight."""
        bounds = [self.constant(f"{name}.min", 0.0), self.constant(f"{name}.max", 6.0)]
        return self.elementwise("Clip", x, name, lambda v: np.clip(v, 0, 6), bounds)

    def tanh(self, x: Tensor, name: str) -> Tensor:
        return self.elementwise("Tanh", x, name, np.tanh)

    def softmax(self, x: Tensor, name: str) -> Tensor:
        """Softmax over the last axis, the end of a network: its output's moments are not right."""
        return self.node("Softmax", name, [x.name], x.shape, x.moments, axis=-1)

    def max_pool(
        self,
        x: Tensor,
        name: str,
        kernel: Size,
        stride: Size,
        padding: Padding = 0,
        ceil: bool = False,
    ) -> Tensor:
        window = Window.of(kernel, stride, padding, ceil=ceil)
        after = moments.after_maximum(x.moments, window.area)
        return self._add_pool("MaxPool", x, name, window, after)

    def average_pool(
        self,
        x: Tensor,
        name: str,
        kernel: Size,
        stride: Size,
        padding: Padding = 0,
        count_padding: bool = True,
    ) -> Tensor:
        """Average over windows; padding counts as zeros, which is PyTorch's default."""
        window = Window.of(kernel, stride, padding)
        after = moments.after_average(x.moments, window.area)
        counts = int(count_padding)
        return self._add_pool("AveragePool", x, name, window, after, count_include_pad=counts)

    def global_average_pool(self, x: Tensor, name: str) -> Tensor:
        after = moments.after_average(x.moments, math.prod(x.image))
        shape = (*x.shape[:2], 1, 1)
        return self.node("GlobalAveragePool", name, [x.name], shape, after)

    def add(self, one: Tensor, other: Tensor, name: str) -> Tensor:
        """Elementwise sum. Raises ValueError unless the shapes are the same."""
        if one.shape != other.shape:
            raise ValueError(f"{name}: cannot add {one.shape} and {other.shape}")
        after = moments.after_sum(one.moments, other.moments)
        return self.node("Add", name, [one.name, other.name], one.shape, after)

    def multiply(self, x: Tensor, gate: Tensor, name: str) -> Tensor:
        """`x` times a gate of its shape, or of one value a channel."""
        after = moments.after_product(x.moments, gate.moments)
        return self.node("Mul", name, [x.name, gate.name], x.shape, after)

    def concat(self, parts: Sequence[Tensor], name: str) -> Tensor:
        """Concatenation over channels. Raises ValueError unless the images are the same size."""
        images = {part.image for part in parts}
        if len(images) != 1:
            raise ValueError(f"{name}: cannot put images of {sorted(images)} side by side")
        channels = sum(part.channels for part in parts)
        shape = (parts[0].shape[0], channels, *parts[0].image)
        after = moments.after_concat([(part.channels, part.moments) for part in parts])
        return self.node("Concat", name, [part.name for part in parts], shape, after, axis=1)

    def flatten(self, x: Tensor, name: str) -> Tensor:
        """NCHW to (N, C * H * W)."""
        shape = (x.shape[0], math.prod(x.shape[1:]))
        return self.node("Flatten", name, [x.name], shape, x.moments, axis=1)

    def node(
        self,
        operator: str,
        name: str,
        inputs: Sequence[str],
        shape: tuple[int, ...],
        after: Moments,
        **attributes: Any,
    ) -> Tensor:
        """Add any node; its only output has the node's own name."""
        self._graph.node.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return Tensor(name, shape, after)

    def elementwise(
        self,
        operator: str,
        x: Tensor,
        name: str,
        function: Callable[[Values], Values],
        constants: Sequence[str] = (),
        **attributes: Any,
    ) -> Tensor:
        """A function of one value; `function` says the same in NumPy, for the moments."""
        after = moments.after_elementwise(x.moments, function)
        return self.node(operator, name, [x.name, *constants], x.shape, after, **attributes)

    def _add_pool(
        self,
        operator: str,
        x: Tensor,
        name: str,
        window: Window,
        after: Moments,
        **attributes: Any,
    ) -> Tensor:
        shape = (*x.shape[:2], *window.slide_over(x.image))
        attributes |= window.attributes()
        return self.node(operator, name, [x.name], shape, after, **attributes)

    def constant(self, name: str, value: float | Sequence[int]) -> str:
        """A constant node: a float scalar, or whole numbers. Every initializer is a weight."""
        if isinstance(value, float):
            tensor = helper.make_tensor(name, TensorProto.FLOAT, (), [value])
        else:
            tensor = helper.make_tensor(name, TensorProto.INT64, (len(value),), value)
        self._graph.node.append(helper.make_node("Constant", [], [name], name, value=tensor))
        return name

    def parameter(self, name: str, value: Floats) -> str:
        """A trained tensor of that name."""
        tensor = self._graph.initializer.add(name=name, data_type=TensorProto.FLOAT)
        tensor.dims.extend(value.shape)
        if self._draws.have_values:
            tensor.raw_data = value.astype("<f4", copy=False).tobytes()
        return name
