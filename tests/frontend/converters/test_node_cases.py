"""ONNX's own node tests of the families that we convert, imported, built and run.

None of them is refused.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
import pytest
from numpy.typing import NDArray
from onnx import numpy_helper
from onnx_node import onnx_runtime, ours

FAMILIES = ("averagepool", "convtranspose", "deformconv", "lppool", "maxpool", "resize", "upsample")

# align_corners divides by the length of the result, less one. ONNX's text, ONNX Runtime and PyTorch
# take the whole length that the tensor has; ONNX's expected outputs take `length * scale`, 2.4 in
# place of 2. We follow the text, and compare these cases with ONNX Runtime.
BY_THE_TEXT = frozenset(
    {
        "test_resize_downsample_scales_cubic_align_corners",
        "test_resize_downsample_scales_linear_align_corners",
    }
)


def _names(family: str) -> list[str]:
    """The cases of a family, from its source: to import it takes seconds, at every collection.

    A few cases have no literal name; one test runs these together.
    """
    spec = importlib.util.find_spec(f"{node_cases.__name__}.{family}")
    assert spec and spec.origin
    return re.findall(r'name="(test_\w+)"', Path(spec.origin).read_text(encoding="utf-8"))


CASES = sorted({name for family in FAMILIES for name in _names(family)})


@functools.cache
def _cases() -> dict[str, Any]:
    for family in FAMILIES:
        importlib.import_module(f"{node_cases.__name__}.{family}")
    return {
        case.name: case
        for case in node_cases._NodeTestCases
        if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type.lower() in FAMILIES
    }


def _with_constants(case: Any) -> tuple[onnx.ModelProto, NDArray[Any]]:
    """The case's model, all inputs but the first as constants, and that first input."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    first, *others = case.data_sets[0][0]
    for value, array in zip(model.graph.input[1:], others, strict=True):
        model.graph.initializer.append(numpy_helper.from_array(array, value.name))
    del model.graph.input[1:]
    return model, first


def _run(name: str) -> None:
    case = _cases()[name]
    model, data = _with_constants(case)
    expected = onnx_runtime(model, [data]) if name in BY_THE_TEXT else case.data_sets[0][1]
    for one, other in zip(ours(model, [data]), expected, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=case.rtol, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_a_case_of_the_suite(name: str) -> None:
    _run(name)


def test_the_cases_whose_names_the_suite_computes() -> None:
    assert set(_cases()) >= set(CASES) >= BY_THE_TEXT
    for name in sorted(set(_cases()) - set(CASES)):
        _run(name)
