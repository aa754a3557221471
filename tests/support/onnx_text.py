"""ONNX models written in ONNX's own text, and a comparison of all their outputs with a peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from tvm_neocpu import relay

ort = pytest.importorskip("onnxruntime")

Array = NDArray[Any]
TOLERANCE = 1e-4  # of the largest value


def parsed(text: str, opset: int = 17, **weights: Array) -> onnx.ModelProto:
    """A model of a graph's text, ``g (float[N,3] x) => (y) { ... }``, and weights by name."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> {text}')
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name) for name, value in weights.items()
    )
    return model


def peers(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """What ONNX Runtime computes."""
    options = ort.SessionOptions()
    options.log_severity_level = 3  # errors alone
    return ort.InferenceSession(model.SerializeToString(), options).run(None, dict(inputs))


def exact(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """What ONNX's reference evaluator computes.

    The oracle for products of uint8 and int8: on a CPU without VNNI, ONNX Runtime's saturate.
    """
    return ReferenceEvaluator(model).run(None, dict(inputs))


def ours(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    """What we compute of inputs of these shapes."""
    shapes = {name: value.shape for name, value in inputs.items()}
    mod, params = relay.frontend.from_onnx(model, shapes)
    module = relay.build(mod, target="llvm", params=params)["default"](tvm.cpu())
    for name, value in inputs.items():
        module.set_input(name, value)
    module.run()
    return [module.get_output(place).numpy() for place in range(len(model.graph.output))]


def check_like_peer(model: onnx.ModelProto, **inputs: Array) -> None:
    """All outputs have ONNX Runtime's types, shapes and values."""
    assert_like(ours(model, inputs), peers(model, inputs))


def assert_like(found: Sequence[Array], expected: Sequence[Array]) -> None:
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.dtype == theirs.dtype
        assert mine.shape == theirs.shape
        if theirs.dtype.kind != "f":
            np.testing.assert_array_equal(mine, theirs)
            continue
        atol = TOLERANCE * float(np.abs(theirs).max(initial=0))
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=atol, equal_nan=False)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
