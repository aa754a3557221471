"""What a Relax call computes: workloads of convolutions and dense layers, in any of our layouts."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import uniform
from tvm_neocpu.relay_passes.ir.exprs import static_shape
from tvm_neocpu.relay_passes.operators.conv2d import CONV2D_FORM
from tvm_neocpu.relay_passes.operators.dense import DENSE_FORM
from tvm_neocpu.relay_passes.operators.table import forms, read_call, read_decision
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.dense.workload import DenseWorkload

op = relax.op
BUILDER = relax.BlockBuilder()
CONV = ConvWorkload(2, 16, 9, 7, 24, (3, 1), (2, 1), (1, 0, 2, 0), (1, 2), groups=4)


def call_workload(call: relax.Expr) -> Workload | None:
    found = read_call(call)
    return None if found is None else found[1]


def var(shape: tuple[int, ...], dtype: str = "float32") -> relax.Var:
    return relax.Var("x", relax.TensorType(shape, dtype))


def conv(before: Layout, after: Layout) -> relax.Call:
    call = op.nn.conv2d(
        var(before.shape_of(CONV.in_shape)),
        relax.const(np.zeros(CONV.weight_shape, "float32")),
        strides=list(CONV.stride),
        padding=list(CONV.padding),
        dilation=list(CONV.dilation),
        groups=CONV.groups,
        data_layout=str(before),
        out_layout=str(after),
        kernel_layout="OIHW",
    )
    return BUILDER.normalize(call)


@pytest.mark.parametrize("before", [NCHW, Layout(1), Layout(4)])
@pytest.mark.parametrize("after", [NCHW, Layout(6)])
def test_a_convolution_is_the_same_in_every_layout(before: Layout, after: Layout) -> None:
    call = conv(before, after)
    assert call_workload(call) == CONV
    assert CONV2D_FORM.layouts(call) == (before, after)
    assert static_shape(call) == after.shape_of(CONV.out_shape)


@pytest.mark.parametrize("after", [NCHW, Layout(6)])
def test_an_altered_call_is_the_same_workload(after: Layout) -> None:
    data = var(Layout(4).shape_of(CONV.in_shape))
    plain = conv(NCHW, NCHW)
    altered = CONV2D_FORM.alter(plain, [data, plain.args[1]], Layout(4), after)
    assert call_workload(BUILDER.normalize(altered)) == CONV


def test_padding_written_short_is_written_out() -> None:
    weight = relax.const(np.zeros((8, 4, 3, 3), "float32"))
    call = BUILDER.normalize(op.nn.conv2d(var((1, 4, 5, 5)), weight, padding=[1, 2]))
    assert call_workload(call).padding == (1, 2, 1, 2)


def test_dense() -> None:
    weight = relax.const(np.zeros((12, 30), "float32"))
    calls = [(var(shape), weight) for shape in ((5, 12), (2, 5, 12), (2, 3, 4, 12), (12,))]
    calls.append((var((5, 12)), var((12, 30))))
    found = [call_workload(BUILDER.normalize(op.matmul(*call))) for call in calls]
    rows = (5, 10, 24, 1)
    assert found == [*(DenseWorkload(count, 12, 30) for count in rows), None]


def test_the_element_type_is_part_of_the_workload() -> None:
    weight = relax.const(np.zeros((12, 30)), "float64")
    wide = BUILDER.normalize(op.matmul(var((5, 12), "float64"), weight))
    assert call_workload(wide) == DenseWorkload(5, 12, 30, uniform("float64"))


def test_a_transform_is_no_decision_of_the_plan() -> None:
    move = op.layout_transform(var((1, 8, 5, 5)), lambda n, c, h, w: (n, c // 4, h, w, c % 4))
    assert read_call(BUILDER.normalize(move)) is not None
    assert read_decision(BUILDER.normalize(move)) is None


def test_each_call_of_an_operator_has_one_form() -> None:
    """A convolution has two calls: Relax's, and ours that pads by a zero point."""
    names = [(form.operator, form.op) for form in forms()]
    assert len(names) == len(set(names))
    assert [name for name, _ in names].count("conv2d") == 2
    assert {CONV2D_FORM, DENSE_FORM} <= set(forms())


def test_anything_else_is_none() -> None:
    x = var((1, 4, 5, 5))
    assert call_workload(op.nn.relu(x)) is None
    assert call_workload(x) is None
