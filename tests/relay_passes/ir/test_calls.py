"""What a Relax call computes: workloads of convolutions and dense layers, in any of our layouts."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tvm_neocpu.core.layout import NCHW, Layout
from tvm_neocpu.relay_passes.ir.calls import call_workload, conv_layouts, has_plain_layout
from tvm_neocpu.relay_passes.ir.exprs import static_shape
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.dense.workload import DenseWorkload

op = relax.op
BUILDER = relax.BlockBuilder()
CONV = ConvWorkload(2, 16, 9, 7, 24, (3, 1), (2, 1), (1, 0, 2, 0), (1, 2), groups=4)


def var(shape: tuple[int, ...]) -> relax.Var:
    return relax.Var("x", relax.TensorType(shape, "float32"))


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
    assert conv_layouts(call) == (before, after)
    assert has_plain_layout(call) == (before == after == NCHW)
    assert static_shape(call) == after.shape_of(CONV.out_shape)


def test_padding_written_short_is_written_out() -> None:
    weight = relax.const(np.zeros((8, 4, 3, 3), "float32"))
    call = BUILDER.normalize(op.nn.conv2d(var((1, 4, 5, 5)), weight, padding=[1, 2]))
    assert call_workload(call).padding == (1, 2, 1, 2)


def test_dense() -> None:
    weight = relax.const(np.zeros((12, 30), "float32"))
    assert call_workload(op.matmul(var((5, 12)), weight)) == DenseWorkload(5, 12, 30)
    assert call_workload(op.matmul(var((2, 5, 12)), weight)) is None
    assert call_workload(op.matmul(var((5, 12)), var((12, 30)))) is None


def test_anything_else_is_none() -> None:
    x = var((1, 4, 5, 5))
    assert call_workload(op.nn.relu(x)) is None
    assert call_workload(x) is None
