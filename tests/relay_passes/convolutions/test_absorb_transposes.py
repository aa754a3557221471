"""Products of computed tensors: one call each, transposes absorbed, dense layers left alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from onnx_net import Net, check
from tvm import relax
from tvm.relax import op

from tvm_neocpu.relay_passes.convolutions.absorb_transposes import AbsorbTransposes
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.operators.new.batch_matmul import matmul_workload
from tvm_neocpu.relay_passes.planning.find_fallbacks import FindFallbacks
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload

CPU = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512").cpu
Emit = Callable[[relax.Expr], relax.Var]


def rewritten(
    body: Callable[[Emit, relax.Var, relax.Var], relax.Expr],
    left: tuple[int, ...],
    right: tuple[int, ...],
    dtype: str = "float32",
) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x, y = (
        relax.Var(name, relax.TensorType(shape, dtype))
        for name, shape in (("x", left), ("y", right))
    )
    with builder.function("main", [x, y]):
        with builder.dataflow():
            result = builder.emit_output(body(builder.emit, x, y))
        builder.emit_func_output(result)
    return AbsorbTransposes()(builder.get())


def matrix(*shape: int) -> relax.Expr:
    return relax.const(np.ones(shape, "float32"))


def called(mod: tvm.IRModule) -> list[relax.Call]:
    (block,) = mod["main"].body.blocks
    return [binding.value for binding in block.bindings]


def test_transposes_of_both_operands_are_absorbed() -> None:
    mod = rewritten(
        lambda emit, x, y: op.matmul(
            emit(op.permute_dims(x, [0, 2, 1, 3])), emit(op.permute_dims(y, [0, 2, 3, 1]))
        ),
        (1, 49, 3, 8),
        (1, 50, 3, 8),
    )
    (call,) = called(mod)
    axes = (0, 2, 1, 3), (0, 2, 3, 1)
    assert matmul_workload(call) == MatmulWorkload((1, 49, 3, 8), (1, 50, 3, 8), *axes)
    assert FindFallbacks(CPU)(mod).fallbacks == ()


def test_a_transpose_without_axes_turns_all() -> None:
    mod = rewritten(lambda emit, x, y: op.matmul(emit(op.permute_dims(x)), y), (7, 4), (7, 5))
    (call,) = called(mod)
    assert list(call.attrs["left_axes"]) == [1, 0]


def test_a_constant_may_stand_on_the_left() -> None:
    mod = rewritten(lambda emit, x, y: op.add(emit(op.matmul(matrix(6, 7), x)), y), (7, 5), (6, 5))
    assert op_name(called(mod)[0]) == "relax.neocpu.batch_matmul"


@pytest.mark.parametrize(
    ("left", "right", "dtype"),
    [((4, 7), (7, 5), "int32"), ((7,), (7, 5), "float32"), ((4, 7), (7,), "float32")],
)
def test_other_products_stay(left: tuple[int, ...], right: tuple[int, ...], dtype: str) -> None:
    (call,) = called(rewritten(lambda emit, x, y: op.matmul(x, y), left, right, dtype))
    assert op_name(call) == "relax.matmul"


def test_dense_layers_stay() -> None:
    mod = rewritten(lambda emit, x, y: op.matmul(x, matrix(7, 5)), (3, 4, 7), (7, 5))
    assert op_name(called(mod)[0]) == "relax.matmul"
    assert FindFallbacks(CPU)(mod).fallbacks == ()


def attention(net: Net, x: str, heads: int) -> str:
    """(N, T, C) -> (N, T, C), its transposes as exporters write them."""
    batch, length, width = net.shape
    size = width // heads
    split = net.integers(batch, length, heads, size)
    parts = [
        net(
            "Reshape",
            net("Add", net("MatMul", x, net.weight(width, width)), net.weight(width)),
            split,
        )
        for _ in range(3)
    ]
    orders = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
    q, k, v = (
        net("Transpose", part, perm=order) for part, order in zip(parts, orders, strict=True)
    )
    scores = net("Mul", net("MatMul", q, k), net.constant(np.float32(size**-0.5)))
    mixed = net("Transpose", net("MatMul", net("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
    merged = net("Reshape", mixed, net.integers(batch, length, width))
    return net("Add", x, net("MatMul", merged, net.weight(width, width)))


def test_numbers_of_a_transformer_block() -> None:
    net = Net((2, 17, 24))
    x = attention(net, "data", 3)
    y = net("Relu", net("Add", net("MatMul", x, net.weight(24, 50)), net.weight(50)))
    y = net("Add", net("MatMul", y, net.weight(50, 24)), net.weight(24))
    check(
        net.model(
            net(
                "Gemm",
                net("Reshape", net("Add", x, y), net.integers(34, 24)),
                net.weight(9, 24),
                net.weight(9),
                transB=1,
                alpha=0.5,
                beta=2.0,
            )
        )
    )
