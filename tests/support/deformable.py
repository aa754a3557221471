"""Deformable convolutions for tests: shapes, random ones, ONNX models, and their oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_node import value_of

from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload

Array = NDArray[Any]

SAME = (1, 1, 1, 1)
DEFORMS = {
    "deformable": DeformConvWorkload(1, 32, 9, 11, 48, (3, 3), padding=SAME, masked=True),
    "deformable, prime": DeformConvWorkload(1, 13, 7, 6, 37, (3, 2), padding=(1, 0, 2, 1)),
    "deformable, offset groups": DeformConvWorkload(
        1, 24, 8, 7, 32, (3, 3), (2, 1), SAME, offset_groups=3, masked=True
    ),
    "deformable, groups": DeformConvWorkload(
        2, 24, 7, 9, 36, (2, 3), (1, 2), (2, 1, 0, 3), (2, 1), groups=3, offset_groups=2
    ),
    "deformable, one pixel": DeformConvWorkload(1, 16, 1, 1, 8, (3, 3), padding=SAME),
    "deformable, a batch": DeformConvWorkload(5, 8, 4, 3, 20, (1, 1), masked=True),
}


@st.composite
def deformables(draw: st.DrawFn, min_side: int = 1) -> DeformConvWorkload:
    """Workloads of every attribute; images have ``min_side`` rows and columns or more."""
    groups, offset_groups = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    inputs = groups * offset_groups * draw(st.sampled_from([1, 3, 4, 8, 16]))
    outputs = groups * draw(st.sampled_from([1, 2, 5, 16, 37]))
    kernel, stride, dilation = (
        draw(st.tuples(st.integers(1, largest), st.integers(1, largest))) for largest in (4, 3, 3)
    )
    padding = draw(st.tuples(*[st.integers(0, 3)] * 4))
    sides = [
        max(min_side, dilation[i] * (kernel[i] - 1) + 1 - padding[i] - padding[i + 2])
        + draw(st.integers(0, 7))
        for i in (0, 1)
    ]
    return DeformConvWorkload(
        draw(st.integers(1, 2)),
        inputs,
        *sides,
        outputs,
        kernel,
        stride,
        padding,
        dilation,
        groups,
        offset_groups,
        draw(st.booleans()),
    )


def operands_of(deform: DeformConvWorkload, reach: float = 2.0, seed: int = 0) -> list[Array]:
    """Data, weight, offset, and the mask if there is one; offsets of about ``reach`` pixels.

    Every fifth offset is whole, so that places on pixels and on the border occur.
    """
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(size=each.shape).astype(each.dtype) for each in deform.operands]
    arrays[2] *= reach
    arrays[2].flat[::5] = np.round(arrays[2].flat[::5])
    return arrays


def deform_model(
    deform: DeformConvWorkload,
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array],
    opset: int = 19,
    **attributes: Any,
) -> onnx.ModelProto:
    """One DeformConv; its tensors are named ``data weight offset bias mask``, each in one mapping.

    ``attributes`` replace the workload's; ``None`` omits one.
    """
    names = ["data", "weight", "offset", "bias", "mask"]
    given = [name if name in inputs or name in constants else "" for name in names]
    while not given[-1]:
        given.pop()
    window = {
        "strides": deform.stride,
        "pads": deform.padding,
        "dilations": deform.dilation,
        "kernel_shape": deform.kernel,
        "group": deform.groups,
        "offset_group": deform.offset_groups,
        **attributes,
    }
    kept = {name: value for name, value in window.items() if value is not None}
    graph = helper.make_graph(
        [helper.make_node("DeformConv", given, ["out"], "node", **kept)],
        "deformable",
        [value_of(name, array) for name, array in inputs.items()],
        [helper.make_empty_tensor_value_info("out")],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def by_onnx_runtime(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Array:
    """What ONNX Runtime computes; a version that lacks DeformConv skips the test."""
    ort = pytest.importorskip("onnxruntime")
    options = ort.SessionOptions()
    options.log_severity_level = 3  # errors alone
    try:
        session = ort.InferenceSession(model.SerializeToString(), options)
    except ort.capi.onnxruntime_pybind11_state.NotImplemented:
        pytest.skip("this ONNX Runtime has no DeformConv for CPUs")
    (result,) = session.run(None, dict(feeds))
    return result


def by_onnx_reference(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Array:
    """What ONNX's reference computes: seconds for a thousand outputs."""
    (result,) = ReferenceEvaluator(model).run(None, dict(feeds))
    return result


def assert_close(found: Array, expected: Array, tolerance: float = 2e-5) -> None:
    """Shape, type and values; the tolerance is of the largest value."""
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    bound = tolerance * max(1e-3, float(np.abs(expected.astype("float64")).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound, equal_nan=False)


def names_of(deform: DeformConvWorkload) -> Sequence[str]:
    """The names of its operands, as :func:`deform_model` takes them."""
    return [operand.name for operand in deform.operands]
