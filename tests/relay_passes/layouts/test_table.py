"""How layouts flow: every operator in its class."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.relay_passes.layouts.channel_moves import Interleave, Shuffle, channel_move
from tvm_neocpu.relay_passes.layouts.flow import FlowKind
from tvm_neocpu.relay_passes.layouts.table import RULES, decided_flow, flow_of
from tvm_neocpu.relay_passes.operators.new.depth_rows import DEPTH_ROWS, depth_rows
from tvm_neocpu.relay_passes.operators.new.look_up import LOOK_UP, look_up
from tvm_neocpu.relay_passes.operators.new.quantize import NEAREST, WHOLE_BETWEEN
from tvm_neocpu.topi.image.depth import Depth

op = relax.op

BUILDER = relax.BlockBuilder()


def var(*shape: int, dtype: str = "float32") -> relax.Var:
    return relax.Var("x", relax.TensorType(shape, dtype))


def const(*shape: int) -> relax.Expr:
    return relax.const(np.ones(shape, "float32"))


X, Y, GATE, MASK = var(2, 16, 6, 6), var(2, 16, 6, 6), var(2, 16, 1, 1), var(2, 1, 6, 6)
NARROW, PIXEL, MATRIX = var(2, 4, 6, 6), var(2, 16, 1, 1), var(2, 16)
WHOLE, SYMBOLIC = var(2, 16, 6, 6, dtype="int64"), relax.Var("s", relax.TensorType(ndim=4))
CODES = var(2, 16, 6, 6, dtype="uint8")
WEIGHT, KERNEL = var(8, 16, 3, 3), const(8, 16, 3, 3)

ALONE: list[tuple[relax.Expr, FlowKind]] = [
    (op.nn.conv2d(X, KERNEL), FlowKind.WORKLOAD),
    (op.nn.relu(X), FlowKind.FOLLOW),
    (op.clip(X, 0, 6), FlowKind.FOLLOW),
    (look_up(CODES, np.zeros(256, "uint8")), FlowKind.FOLLOW),
    (op.nn.leakyrelu(X, 0.1), FlowKind.FOLLOW),
    (op.astype(X, "float64"), FlowKind.FOLLOW),
    (op.nn.max_pool2d(X), FlowKind.FOLLOW),
    (op.nn.avg_pool2d(X), FlowKind.FOLLOW),
    (op.nn.adaptive_avg_pool2d(X), FlowKind.FOLLOW),
    (op.mean(X, axis=[2, 3]), FlowKind.FOLLOW),
    (op.max(X, axis=[-1, -2], keepdims=True), FlowKind.FOLLOW),
    (op.nn.pad(X, [0, 0, 0, 0, 1, 1, 1, 1]), FlowKind.FOLLOW),
    (op.nn.pad(X, [0, 0, 0, 0, 1, 1, 1, 1], "reflect"), FlowKind.FOLLOW),
    (op.nn.pad(X, [0, 0, 0, 0, 2, 0, 1, 0], "replicate"), FlowKind.FOLLOW),
    (op.reshape(PIXEL, (2, 16)), FlowKind.FOLLOW),
    (op.image.resize2d(X, (9, 7)), FlowKind.FOLLOW),
    (op.add(X, const(16, 1, 1)), FlowKind.FOLLOW),
    (op.multiply(const(1, 16, 1, 1), X), FlowKind.FOLLOW),
    (op.multiply(X, const()), FlowKind.FOLLOW),
    (op.multiply(X, const(1, 1, 1, 1)), FlowKind.FOLLOW),
    (op.strided_slice(X, [2, -1], [1, 0], [5, 6], [1, 2]), FlowKind.FOLLOW),
]
BOUNDARIES: dict[str, relax.Expr] = {
    "weight that is no constant": op.nn.conv2d(X, WEIGHT),
    "data that is a constant": op.nn.conv2d(const(2, 16, 6, 6), KERNEL),
    "convolution in NHWC": op.nn.conv2d(var(2, 6, 6, 16), KERNEL, data_layout="NHWC"),
    "pooling in NHWC": op.nn.max_pool2d(X, layout="NHWC"),
    "activation of a matrix": op.nn.relu(MATRIX),
    "activation of integers": op.negative(WHOLE),
    "symbolic shape": op.nn.relu(SYMBOLIC),
    "truths": op.astype(X, "bool"),
    "a cast to a type of no feature map": op.astype(X, "bfloat16"),
    "softmax": op.nn.softmax(X, axis=1),
    "mean over channels": op.mean(X, axis=[1]),
    "mean over everything": op.mean(X),
    "padding of channels": op.nn.pad(X, [0, 0, 1, 1, 0, 0, 0, 0]),
    "mirrored channels": op.nn.pad(X, [0, 0, 1, 1, 1, 1, 1, 1], "reflect"),
    "flattening an image": op.reshape(X, (2, 16 * 36)),
    "reshape to an image": op.reshape(MATRIX, (2, 16, 1, 1)),
    "constant of a whole image": op.add(X, const(1, 16, 6, 6)),
    "constant of a row": op.add(X, const(6)),
    "constant that widens": op.multiply(MASK, const(16, 1, 1)),
    "operand of rank 3": op.add(X, var(16, 6, 6)),
    "sum of matrices": op.add(MATRIX, MATRIX),
    "sum of integers": op.add(WHOLE, WHOLE),
    "function of a constant": op.sin(const(1, 16, 6, 6)),
    "concat of batches": op.concat([X, Y], axis=0),
    "concat of batches, counted from behind": op.concat([X, Y], axis=-4),
    "concat with a constant": op.concat([X, const(2, 4, 6, 6)], axis=1),
    "concat of a tuple": op.concat(relax.Var("t", relax.TupleType([X.ty, Y.ty])), axis=1),
    "resize in NHWC": op.image.resize2d(X, (9, 7), layout="NHWC"),
    "transpose": op.permute_dims(X, [0, 2, 3, 1]),
    "every other channel": op.strided_slice(X, [1], [0], [16], [2]),
    "channels backwards": op.strided_slice(X, [1], [15], [3], [-1]),
    "no channel": op.strided_slice(X, [1], [4], [4]),
    "slice of integers": op.strided_slice(WHOLE, [1], [0], [8]),
    "image to NHWC": op.layout_transform(X, lambda n, c, y, x: (n, y, x, c)),
}
JOINS: dict[str, tuple[relax.Expr, tuple[relax.Var, ...], tuple[int, ...]]] = {
    "sum": (op.add(X, Y), (X, Y), (16,)),
    "square": (op.multiply(X, X), (X, X), (16,)),
    "gate": (op.multiply(X, GATE), (X, GATE), (16,)),
    "mask": (op.multiply(MASK, X), (MASK, X), (16,)),
    "masks": (op.add(MASK, MASK), (MASK, MASK), (1,)),
    "concat": (op.concat([X, NARROW, Y], axis=1), (X, NARROW, Y), (4, 16)),
    "leading channels": (op.strided_slice(X, [1], [0], [4]), (X,), (4, 16)),
    "channels in between": (op.strided_slice(X, [1, 2], [4, 0], [10, 3]), (X,), (4, 10, 16)),
    "last channels": (op.strided_slice(X, [-3], [-2], [99]), (X,), (14, 16)),
    "interleave": (channel_move(X, Interleave(2, 2)), (X,), (4,)),
    "channel shuffle": (channel_move(X, Shuffle(2)), (X,), (16,)),
    "rows of a volume's images": (depth_rows(X, Depth(1, 2, 2, 3, before=1)), (X,), (16,)),
    "concat of columns": (op.concat([X, Y], axis=-1), (X, Y), (16,)),
    # A single channel that is concatenated does not broadcast.
    "concat of a single channel": (op.concat([X, MASK], axis=1), (X, MASK), (1, 16)),
}


@pytest.mark.parametrize(("call", "kind"), ALONE, ids=lambda value: _name(value))
def test_one_operand(call: relax.Expr, kind: FlowKind) -> None:
    flow = flow_of(BUILDER.normalize(call))
    assert flow.kind is kind
    (operand,) = flow.operands
    assert any(operand.same_as(tensor) for tensor in (X, MATRIX, PIXEL, CODES))


def test_a_dense_layer_is_a_workload_without_layouts() -> None:
    flow = flow_of(BUILDER.normalize(op.matmul(MATRIX, const(16, 10))))
    assert (flow.kind, flow.operands) == (FlowKind.WORKLOAD, ())


def test_a_linear_layer_over_nhwc_reads_plain_data() -> None:
    flow = flow_of(BUILDER.normalize(op.matmul(X, const(6, 10))))
    assert (flow.kind, flow.operands) == (FlowKind.WORKLOAD, ())
    ((name, tensor),) = flow.plain
    assert name == "data" and tensor.same_as(X)


def test_what_no_template_takes_is_a_boundary() -> None:
    weight = relax.const(np.ones((8, 16, 3, 3), "float16"), "float16")
    half = BUILDER.normalize(op.nn.conv2d(var(2, 16, 6, 6, dtype="float16"), weight))
    assert decided_flow(half, Cpu("", AVX512, cores=2)).kind is FlowKind.BOUNDARY
    whole = BUILDER.normalize(op.nn.conv2d(X, KERNEL))
    assert decided_flow(whole, Cpu("", AVX512, cores=2)).kind is FlowKind.WORKLOAD


@pytest.mark.parametrize("name", JOINS)
def test_joins(name: str) -> None:
    call, operands, channels = JOINS[name]
    flow = flow_of(BUILDER.normalize(call))
    assert flow.kind is FlowKind.JOIN
    assert all(a.same_as(b) for a, b in zip(flow.operands, operands, strict=True))
    assert flow.join_channels == channels


@pytest.mark.parametrize("name", BOUNDARIES)
def test_whatever_depends_on_plain_nchw(name: str) -> None:
    flow = flow_of(BUILDER.normalize(BOUNDARIES[name]))
    assert (flow.kind, flow.operands) == (FlowKind.BOUNDARY, ())


@pytest.mark.parametrize(
    "name", sorted(RULES.keys() - {DEPTH_ROWS, LOOK_UP, NEAREST, WHOLE_BETWEEN})
)
def test_the_tables_name_operators_that_exist(name: str) -> None:
    make: object = op
    for part in name.split(".")[1:]:
        make = getattr(make, part)
    assert isinstance(make, Callable)


def _name(value: object) -> str:
    if isinstance(value, FlowKind):
        return value.value
    return value.op.name.removeprefix("relax.")
