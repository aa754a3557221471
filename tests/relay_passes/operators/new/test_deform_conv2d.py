"""The call of a deformable convolution: its type, its workload, other layouts, no template."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from deformable import DEFORMS, assert_close, deformables, operands_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nests import SKYLAKE
from tvm import relax

from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.types import uniform
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, static_shape
from tvm_neocpu.relay_passes.operators.heavy import flops_of
from tvm_neocpu.relay_passes.operators.new.deform_conv2d import (
    DEFORM_CONV2D_FORM,
    deform_conv2d,
)
from tvm_neocpu.relay_passes.operators.table import read_decision, why_no_template
from tvm_neocpu.topi.deform_conv2d.reference import deformed
from tvm_neocpu.topi.deform_conv2d.workload import DeformConvWorkload

DEFORM = DEFORMS["deformable, offset groups"]


def call_of(
    deform: DeformConvWorkload,
    before: Layout = NCHW,
    after: Layout = NCHW,
    shapes: dict[str, Any] | None = None,
    weight: relax.Expr | None = None,
) -> relax.Call:
    """A normalised call; ``shapes`` replaces those of operands."""
    given = {each.name: each.shape for each in deform.operands}
    given |= {"data": before.shape_of(deform.in_shape), **(shapes or {})}
    tensors = [
        relax.Var(name, relax.TensorType(shape, deform.types.data)) for name, shape in given.items()
    ]
    constant = relax.const(np.zeros(deform.weight_shape), deform.types.data)
    tensors[1] = constant if weight is None else weight
    return relax.BlockBuilder().normalize(call_on(deform, tensors, before, after))


def call_on(deform: DeformConvWorkload, tensors: list[relax.Expr], *layouts: Layout) -> relax.Call:
    """The call on these tensors, with its input's layout and its output's."""
    window = (deform.stride, deform.padding, deform.dilation)
    return deform_conv2d(tensors, *window, deform.groups, deform.offset_groups, *layouts)


@pytest.mark.parametrize("before", [NCHW, Layout(1), Layout(8)])
@pytest.mark.parametrize("after", [NCHW, Layout(16)])
def test_a_workload_is_the_same_in_every_layout(before: Layout, after: Layout) -> None:
    call = call_of(DEFORM, before, after)
    assert read_decision(call) == (DEFORM_CONV2D_FORM, DEFORM)
    assert DEFORM_CONV2D_FORM.layouts(call) == (before, after)
    assert static_shape(call) == after.shape_of(DEFORM.out_shape)


@pytest.mark.parametrize("name", DEFORMS)
def test_other_layouts_keep_the_workload(name: str) -> None:
    deform, plain = DEFORMS[name], call_of(DEFORMS[name])
    data = relax.Var("x", relax.TensorType(Layout(1).shape_of(deform.in_shape), "float32"))
    tensors = [data, *plain.args[1:]]
    altered = DEFORM_CONV2D_FORM.alter(plain, tensors, Layout(1), Layout(deform.out_channels))
    normalised = relax.BlockBuilder().normalize(altered)
    assert read_decision(normalised) == (DEFORM_CONV2D_FORM, deform)
    assert static_shape(normalised)[1] == 1


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_the_type_is_the_datas(dtype: str) -> None:
    deform = replace(DEFORM, types=uniform(dtype))
    call = call_of(deform)
    assert dtype_of(call) == dtype
    assert read_decision(call) == (DEFORM_CONV2D_FORM, deform)


def test_a_weight_that_is_not_constant_is_no_decision() -> None:
    weight = relax.Var("w", relax.TensorType(DEFORM.weight_shape, "float32"))
    call = call_of(DEFORM, weight=weight)
    assert read_decision(call) is None
    assert why_no_template(call, SKYLAKE) == "its weight is not constant"


def test_mixed_types_are_no_decision() -> None:
    weight = relax.const(np.zeros(DEFORM.weight_shape), "float64")
    call = call_of(DEFORM, weight=weight)
    assert read_decision(call) is None
    assert why_no_template(call, SKYLAKE) == "its types are float32 and float64"


def test_half_precision_has_no_template() -> None:
    call = call_of(replace(DEFORM, types=uniform("float16")))
    assert why_no_template(call, SKYLAKE) == "no template for float16"
    assert why_no_template(call_of(DEFORM), SKYLAKE) is None


def test_its_products_are_arithmetic() -> None:
    """Masked or not: the product is the convolution's."""
    count = DEFORM_CONV2D_FORM.multiply_adds
    assert count is not None
    for masked in (False, True):
        assert flops_of(call_of(replace(DEFORM, masked=masked)), count) == DEFORM.conv.flops


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        ({"offset": (1, 54, 4, 8)}, r"its offset is \[1, 54, 4, 8\], not \[1, 54, 4, 7\]"),
        ({"mask": (1, 26, 4, 7)}, "its mask is"),
        ({"data": (1, 23, 8, 7)}, "3 groups do not divide 23 input channels"),
        ({"data": (1, 27, 8, 7)}, "its weight is"),
        ({"data": (1, 24, 8)}, "two spatial axes"),
    ],
)
def test_arguments_that_do_not_fit(shapes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        call_of(DEFORM, shapes=shapes)


def test_shapes_must_be_known() -> None:
    rows = tvm.tirx.Var("rows", "int64")
    with pytest.raises(ValueError, match="all its shapes must be known"):
        call_of(DEFORM, shapes={"data": (1, 24, rows, 7)})


def legalised(deform: DeformConvWorkload, arrays: list[np.ndarray]) -> np.ndarray:
    """What TVM's own pipeline makes of the call."""
    builder = relax.BlockBuilder()
    tensors = [
        relax.Var(each.name, relax.TensorType(each.shape, each.dtype)) for each in deform.operands
    ]
    with builder.function("main", tensors):
        with builder.dataflow():
            result = builder.emit_output(call_on(deform, tensors))
        builder.emit_func_output(result)
    executable = tvm.compile(builder.get(), tvm.target.Target({"kind": "llvm"}))
    inputs = [tvm.runtime.tensor(array) for array in arrays]
    return relax.VirtualMachine(executable, tvm.cpu())["main"](*inputs).numpy()


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-5), ("float64", 1e-13)])
@pytest.mark.parametrize("name", DEFORMS)
def test_without_a_template(name: str, dtype: str, tolerance: float) -> None:
    deform = replace(DEFORMS[name], types=uniform(dtype))
    arrays = operands_of(deform)
    assert_close(legalised(deform, arrays), deformed(deform, *arrays), tolerance)


def test_half_precision_is_computed_in_single_precision() -> None:
    """The expectation is of the same rounded operands, in double precision."""
    half = replace(DEFORM, types=uniform("float16"))
    arrays = operands_of(half)
    wide = [array.astype("float32") for array in arrays]
    expected = deformed(replace(DEFORM, types=uniform("float32")), *wide).astype("float16")
    assert_close(legalised(half, arrays), expected, 1e-3)


@given(deform=deformables(), reach=st.sampled_from([0.0, 1.0, 50.0]))
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
def test_any_workload_without_a_template(deform: DeformConvWorkload, reach: float) -> None:
    arrays = operands_of(deform, reach)
    assert_close(legalised(deform, arrays), deformed(deform, *arrays))
