"""Writes a network down as ONNX, layer by layer, with seeded weights that keep the signal at unit size.

Each method adds one node, named as the caller says, and returns its output. Weights are drawn from the generator that
was passed in, in the order of the calls: the same calls with the same seed give the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from . import moments
from .moments import Moments

OPSET = 17
IR_VERSION = 8
Floats = NDArray[np.float32]

INPUT_NAME = "data"
OUTPUT_NAME = "output"

# How much of its mean each filter gives up, 0 to 1. With none, deep networks answer every input alike, because the positive
# mean that each ReLU leaves drowns the rest; with all of it, each ReLU enlarges small differences 1.2 times (Yang et al. 2019,
# "A Mean Field Theory of Batch Normalization"), and rounding errors show after forty layers.
CENTRING = 0.6
# The size of random biases and of the errors of batch norm means, beside a signal of 1.
OFFSET = 0.1

Size = int | tuple[int, int]


@dataclass(frozen=True, eq=False)
class Tensor:
    """A value in the graph: its name, its shape (NCHW, or NC once flat) and what its channels hold."""

    name: str
    shape: tuple[int, ...]
    moments: Moments

    @property
    def channels(self) -> int:
        return self.shape[1]


class GraphBuilder:
    """One ONNX model under construction, `data` in and `output` out, all float32."""

    def __init__(self, name: str, input_shape: tuple[int, ...], rng: np.random.Generator) -> None:
        self._rng = rng
        self._model = onnx.ModelProto(ir_version=IR_VERSION, producer_name="tvm_neocpu")
        self._model.opset_import.append(helper.make_opsetid("", OPSET))
        # The graph grows inside the model: assembling it afterwards would copy every weight once more.
        self._graph = self._model.graph
        self._graph.name = name
        entry = helper.make_tensor_value_info(INPUT_NAME, TensorProto.FLOAT, input_shape)
        self._graph.input.append(entry)
        self.data = Tensor(INPUT_NAME, input_shape, moments.STANDARD)

    def finish(self, last: Tensor) -> onnx.ModelProto:
        """The model, whose output is `last`, the result of the node added last."""
        node = self._graph.node[-1]
        if node.output[0] != last.name:
            raise ValueError(
                f"the output must be the last node's: {node.output[0]}, not {last.name}"
            )
        node.output[0] = OUTPUT_NAME
        exit_ = helper.make_tensor_value_info(OUTPUT_NAME, TensorProto.FLOAT, last.shape)
        self._graph.output.append(exit_)
        return self._model

    def conv(
        self,
        x: Tensor,
        name: str,
        filters: int,
        kernel: Size,
        stride: Size = 1,
        padding: Size = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> Tensor:
        """Convolution with OIHW weights; without `bias` a batch norm is expected to follow."""
        window = _pair(kernel)
        weight, after = self._draw_weight((filters, x.channels // groups, *window), x.moments)
        inputs = [x.name, self._add_parameter(f"{name}.weight", weight)]
        if bias:
            inputs.append(self._add_parameter(f"{name}.bias", self._draw_bias(filters)))
            after = moments.after_shift(after, OFFSET**2)
        shape = (x.shape[0], filters, *_sliding(x.shape, window, _pair(stride), _pair(padding)))
        attributes = _window_attributes(window, _pair(stride), _pair(padding))
        return self._add("Conv", name, inputs, shape, after, group=groups, **attributes)

    def batch_norm(self, x: Tensor, name: str, gain: float = 1.0, epsilon: float = 1e-5) -> Tensor:
        """Batch norm in inference form; its output has a root mean square of about `gain` in every channel."""
        channels, size = x.channels, math.sqrt(x.moments.power)
        mean = np.float32(OFFSET * size) * self._normal(channels)
        variance = np.float32(size**2) * self._uniform(0.8, 1.2, channels)
        gamma = np.float32(gain) * self._uniform(0.8, 1.2, channels)
        beta = np.float32(OFFSET * gain) * self._normal(channels)
        parameters = {"weight": gamma, "bias": beta, "running_mean": mean, "running_var": variance}
        inputs = [self._add_parameter(f"{name}.{key}", value) for key, value in parameters.items()]
        after = moments.after_scale(x.moments, gain / size)
        after = moments.after_shift(after, 2 * (OFFSET * gain) ** 2)
        return self._add(
            "BatchNormalization", name, [x.name, *inputs], x.shape, after, epsilon=epsilon
        )

    def gemm(self, x: Tensor, name: str, features: int) -> Tensor:
        """Fully connected layer, weights (features, inputs), with bias."""
        weight, after = self._draw_weight((features, x.channels), x.moments)
        bias = self._draw_bias(features)
        after = moments.after_shift(after, OFFSET**2)
        inputs = [
            x.name,
            self._add_parameter(f"{name}.weight", weight),
            self._add_parameter(f"{name}.bias", bias),
        ]
        return self._add("Gemm", name, inputs, (x.shape[0], features), after, transB=1)

    def relu(self, x: Tensor, name: str) -> Tensor:
        return self._add_elementwise("Relu", x, name, lambda v: np.maximum(v, 0))

    def relu6(self, x: Tensor, name: str) -> Tensor:
        """`Clip` to 0..6; the bounds are constant nodes, so that every initializer is a weight."""
        bounds = [self._add_scalar(f"{name}.min", 0.0), self._add_scalar(f"{name}.max", 6.0)]
        return self._add_elementwise("Clip", x, name, lambda v: np.clip(v, 0, 6), bounds)

    def tanh(self, x: Tensor, name: str) -> Tensor:
        return self._add_elementwise("Tanh", x, name, np.tanh)

    def softmax(self, x: Tensor, name: str) -> Tensor:
        """Softmax over the last axis; the moments of its input are passed on unchanged."""
        return self._add("Softmax", name, [x.name], x.shape, x.moments, axis=-1)

    def max_pool(
        self, x: Tensor, name: str, kernel: Size, stride: Size, padding: Size = 0
    ) -> Tensor:
        after = moments.after_maximum(x.moments, math.prod(_pair(kernel)))
        return self._add_pool("MaxPool", x, name, (kernel, stride, padding), after)

    def average_pool(
        self, x: Tensor, name: str, kernel: Size, stride: Size, padding: Size = 0
    ) -> Tensor:
        """Average over windows in which padding counts as zeros, PyTorch's default."""
        after = moments.after_average(x.moments, math.prod(_pair(kernel)))
        window = (kernel, stride, padding)
        return self._add_pool("AveragePool", x, name, window, after, count_include_pad=1)

    def global_average_pool(self, x: Tensor, name: str) -> Tensor:
        after = moments.after_average(x.moments, math.prod(x.shape[2:]))
        shape = (*x.shape[:2], 1, 1)
        return self._add("GlobalAveragePool", name, [x.name], shape, after)

    def add(self, one: Tensor, other: Tensor, name: str) -> Tensor:
        if one.shape != other.shape:
            raise ValueError(f"{name}: cannot add {one.shape} and {other.shape}")
        after = moments.after_sum(one.moments, other.moments)
        return self._add("Add", name, [one.name, other.name], one.shape, after)

    def concat(self, parts: Sequence[Tensor], name: str) -> Tensor:
        """Concatenation over channels."""
        batch, _, *image = parts[0].shape
        shape = (batch, sum(part.channels for part in parts), *image)
        after = moments.after_concat([(part.channels, part.moments) for part in parts])
        return self._add("Concat", name, [part.name for part in parts], shape, after, axis=1)

    def flatten(self, x: Tensor, name: str) -> Tensor:
        """NCHW to (N, C * H * W)."""
        positions = math.prod(x.shape[2:])
        shape = (x.shape[0], x.channels * positions)
        return self._add("Flatten", name, [x.name], shape, x.moments, axis=1)

    def _add(
        self,
        operator: str,
        name: str,
        inputs: Sequence[str],
        shape: tuple[int, ...],
        after: Moments,
        **attributes: object,
    ) -> Tensor:
        """Add a node whose only output carries the node's own name."""
        node = helper.make_node(operator, list(inputs), [name], name=name, **attributes)
        self._graph.node.append(node)
        return Tensor(name, shape, after)

    def _add_elementwise(
        self,
        operator: str,
        x: Tensor,
        name: str,
        function: Callable[[Floats], Floats],
        more_inputs: Sequence[str] = (),
    ) -> Tensor:
        after = moments.after_elementwise(x.moments, function)
        return self._add(operator, name, [x.name, *more_inputs], x.shape, after)

    def _add_pool(
        self,
        operator: str,
        x: Tensor,
        name: str,
        window: tuple[Size, Size, Size],
        after: Moments,
        **attributes: object,
    ) -> Tensor:
        kernel, stride, padding = (_pair(size) for size in window)
        shape = (*x.shape[:2], *_sliding(x.shape, kernel, stride, padding))
        attributes |= _window_attributes(kernel, stride, padding)
        return self._add(operator, name, [x.name], shape, after, **attributes)

    def _add_scalar(self, name: str, value: float) -> str:
        tensor = helper.make_tensor(name, TensorProto.FLOAT, (), [value])
        self._graph.node.append(helper.make_node("Constant", [], [name], name=name, value=tensor))
        return name

    def _add_parameter(self, name: str, value: Floats) -> str:
        tensor = self._graph.initializer.add(name=name, data_type=TensorProto.FLOAT)
        tensor.dims.extend(value.shape)
        tensor.raw_data = value.astype("<f4", copy=False).tobytes()
        return name

    def _draw_weight(self, shape: tuple[int, ...], before: Moments) -> tuple[Floats, Moments]:
        """Normal weights (outputs first), such that the outputs have a mean square of 1; and those outputs' moments."""
        weight = self._normal(shape)
        fan_in = math.prod(shape[1:])
        filters = weight.reshape(shape[0], fan_in)
        filters -= np.float32(CENTRING) * filters.mean(axis=1, keepdims=True)
        kept = 1 - CENTRING
        gain = 1 / moments.after_filters(before, kept, 1.0).power
        weight *= np.float32(math.sqrt(gain / fan_in))
        return weight, moments.after_filters(before, kept, gain)

    def _draw_bias(self, size: int) -> Floats:
        return np.float32(OFFSET) * self._normal(size)

    def _normal(self, shape: int | tuple[int, ...]) -> Floats:
        return self._rng.standard_normal(shape, dtype=np.float32)

    def _uniform(self, low: float, high: float, size: int) -> Floats:
        return np.float32(low) + np.float32(high - low) * self._rng.random(size, dtype=np.float32)


def _pair(size: Size) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else size


def _sliding(
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
) -> tuple[int, ...]:
    """Height and width after a sliding window, rounded down."""
    sizes = zip(shape[2:], kernel, stride, padding, strict=True)
    return tuple((size + 2 * pad - span) // step + 1 for size, span, step, pad in sizes)


def _window_attributes(
    kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]
) -> dict[str, tuple[int, ...]]:
    return {"kernel_shape": kernel, "strides": stride, "pads": padding + padding}
