"""Small networks written down as ONNX, and a check of what is built from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from numpy.typing import ArrayLike, NDArray
from onnx import TensorProto, helper, numpy_helper

from tvm_neocpu import relay
from tvm_neocpu.runtime.built_module import BuiltModule

ort = pytest.importorskip("onnxruntime")

Array = NDArray[np.float32]
Compute = Callable[[Array], Array]

TOLERANCE = 1e-4  # of the largest value


@dataclass
class Net:
    """Writes down nodes that start from ``data``; a call returns the name of its result.

    ``biases`` says whether convolutions add one.
    """

    shape: tuple[int, ...]
    biases: bool = False
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def __call__(self, kind: str, *inputs: str, **attributes: Any) -> str:
        return self.several(1, kind, *inputs, **attributes)[0]

    def several(self, outputs: int, kind: str, *inputs: str, **attributes: Any) -> list[str]:
        """A node of several results."""
        names = [f"t{len(self.nodes)}_{place}" for place in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def constant(self, values: ArrayLike, dtype: str = "float32") -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def integers(self, *values: int) -> str:
        return self.constant(values, "int64")

    def weight(self, *shape: int) -> str:
        """Random values that keep the size of what they are multiplied with."""
        return self.constant(self.rng.normal(size=shape) / math.sqrt(math.prod(shape[1:])))

    def conv(
        self, x: str, inputs: int, outputs: int, size: int = 1, group: int = 1, **attributes: Any
    ) -> str:
        """A convolution that keeps the image's size, unless ``attributes`` say otherwise."""
        weights = [self.weight(outputs, inputs // group, size, size)]
        if self.biases:
            weights.append(self.weight(outputs))
        return self("Conv", x, *weights, **{"pads": [size // 2] * 4, "group": group, **attributes})

    def batch_norm(self, x: str, channels: int) -> str:
        """Its shift is above zero: padding on the wrong side of it would show."""
        low, high = np.array([[0.5, 0.5, -0.5, 0.5], [1.5, 1.5, 0.5, 1.5]])
        parts = self.rng.uniform(low, high, (channels, 4)).T
        return self("BatchNormalization", x, *map(self.constant, parts))

    def model(self, result: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("data", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, [None] * 4)],
            self.weights,
        )
        opsets = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def node(
    kind: str, *inputs: str, out: str = "out", name: str = "", **attributes: object
) -> onnx.NodeProto:
    """A node of one output."""
    return helper.make_node(kind, list(inputs), [out], name, **attributes)


def run(lib: BuiltModule, data: Array) -> Array:
    module = lib["default"](tvm.cpu())
    module.set_input(0, data)
    module.run()
    return module.get_output(0).numpy()


def reference(model: onnx.ModelProto, data: Array) -> Array:
    """What ONNX Runtime computes."""
    options = ort.SessionOptions()
    options.log_severity_level = 3  # errors alone
    session = ort.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {session.get_inputs()[0].name: data})[0]


def assert_close(found: Array, expected: Array) -> None:
    atol = TOLERANCE * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol, equal_nan=False)


def check(model: onnx.ModelProto, compute: Compute | None = None) -> None:
    """Compare ``compute``, by default the model as `relay.build` builds it, with ONNX Runtime."""
    dims = model.graph.input[0].type.tensor_type.shape.dim
    shape = [dim.dim_value for dim in dims]
    data = np.random.default_rng(1).standard_normal(shape, dtype=np.float32)
    compute = compute or _built(model)
    assert_close(compute(data), reference(model, data))


def _built(model: onnx.ModelProto) -> Compute:
    mod, params = relay.frontend.from_onnx(model)
    return partial(run, relay.build(mod, target="llvm", params=params))
