"""ONNX models of a single node, and a check of what we make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx.compose
import pytest
import tvm
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from tvm_neocpu import relay

Array = NDArray[Any]


def node_model(
    op_type: str,
    inputs: Sequence[Array],
    constants: Sequence[Array | None] = (),
    *,
    opset: int = 22,
    outputs: int = 1,
    **attributes: Any,
) -> onnx.ModelProto:
    """One node; its first inputs are the graph's, the others are constants or omitted."""
    names = [f"x{place}" for place in range(len(inputs))]
    weights = [
        numpy_helper.from_array(array, f"w{place}")
        for place, array in enumerate(constants)
        if array is not None
    ]
    rest = ["" if array is None else f"w{place}" for place, array in enumerate(constants)]
    results = [f"y{place}" for place in range(outputs)]
    node = helper.make_node(op_type, [*names, *rest], results, "node", **attributes)
    graph = helper.make_graph(
        [node],
        "single",
        [value_of(name, array) for name, array in zip(names, inputs, strict=True)],
        [helper.make_empty_tensor_value_info(name) for name in results],
        weights,
    )
    # IR version 9 is what the oldest ONNX Runtime that we test with reads.
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def value_of(name: str, array: Array) -> onnx.ValueInfoProto:
    """A graph's input of an array's type and shape."""
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape)


@dataclass(frozen=True)
class Case:
    """One node: its inputs, its constant inputs (``None`` omits one) and its attributes."""

    op_type: str
    inputs: Sequence[Array]
    constants: Sequence[Array | None] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1


def check_together(cases: Sequence[Case], opset: int = 18, tolerance: float = 2e-5) -> None:
    """All nodes in one model, because a build takes longer than a node; each as ONNX Runtime."""
    graph = onnx.GraphProto(name="together")
    feeds: list[Array] = []
    for place, case in enumerate(cases):
        model = node_model(
            case.op_type,
            case.inputs,
            case.constants,
            opset=opset,
            outputs=case.outputs,
            **case.attributes,
        )
        part = onnx.compose.add_prefix_graph(model.graph, f"case{place}_")
        for name in ("node", "input", "output", "initializer"):
            getattr(graph, name).extend(getattr(part, name))
        feeds += case.inputs
    opsets = [helper.make_opsetid("", opset)]
    whole = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    found, expected = ours(whole, feeds), onnx_runtime(whole, feeds)
    at = 0
    for case in cases:
        to = at + case.outputs
        name = f"{case.op_type} {[a.shape for a in case.inputs]} {dict(case.attributes)}"
        for one, other in zip(found[at:to], expected[at:to], strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype), name
            scale = float(np.max(np.abs(other.astype("float64")), initial=0)) or 1.0
            scale = scale if np.isfinite(scale) else 1.0
            np.testing.assert_allclose(
                one, other, rtol=tolerance, atol=tolerance * scale, err_msg=name
            )
        at = to


def ours(model: onnx.ModelProto, inputs: Sequence[Array], freeze: bool = True) -> list[Array]:
    """What the model computes when it is imported and built here."""
    mod, params = relay.frontend.from_onnx(model, freeze_params=freeze)
    module = relay.build(mod, target="llvm", params=params)["default"](tvm.cpu())
    for place, array in enumerate(inputs):
        module.set_input(place, array)
    module.run()
    return [module.get_output(place).numpy() for place in range(module.get_num_outputs())]


def onnx_runtime(model: onnx.ModelProto, inputs: Sequence[Array]) -> list[Array]:
    """What ONNX Runtime computes."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 3  # errors alone
    session = ort.InferenceSession(model.SerializeToString(), options)
    names = [value.name for value in session.get_inputs()]
    return list(session.run(None, dict(zip(names, inputs, strict=True))))


def assert_same(found: Sequence[Array], expected: Sequence[Array], tolerance: float = 2e-5) -> None:
    """Shapes, types and values; the tolerance is of the largest value."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        scale = float(np.max(np.abs(other.astype("float64")), initial=0)) or 1.0
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * scale, equal_nan=False)


def check_node(model: onnx.ModelProto, *inputs: Array) -> None:
    """Our outputs are ONNX Runtime's."""
    assert_same(ours(model, inputs), onnx_runtime(model, inputs))


def image(*shape: int, dtype: str = "float32") -> Array:
    """Seeded normal values."""
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)
