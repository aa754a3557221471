"""Prologues: which chains convolutions take along, and what LowerToTemplates makes of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax, te, tirx
from tvm.relax.op import add, concat, multiply, negative
from tvm.relax.op.nn import conv2d, max_pool2d, relu

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.relay_passes.ir.regions import count_uses
from tvm_neocpu.relay_passes.lowering.lower_to_templates import LowerToTemplates, layout_key
from tvm_neocpu.relay_passes.lowering.read_prologue import Prologue, read_prologue
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct import template as conv2d_nchwc
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig

Emit = Callable[[relax.Expr], relax.Var]
Build = Callable[[Emit, relax.Var, relax.Var], relax.Expr]

RNG = np.random.default_rng(0)
SHAPE = (2, 3, 5, 7, 8)
SCALE, SHIFT = (relax.const(RNG.normal(size=(1, 3, 1, 1, 8)).astype("float32")) for _ in "st")
CONV = ConvWorkload(2, 24, 5, 7, 16, (1, 1))
CONFIG = ConvConfig(8, 16, 7)
WEIGHT = RNG.normal(size=CONV.weight_shape).astype("float32")


def conv(x: relax.Expr) -> relax.Expr:
    layouts = {"data_layout": "NCHW8c", "kernel_layout": "OIHW", "out_layout": "NCHW16c"}
    return conv2d(x, relax.const(WEIGHT), **layouts)


def module(build: Build) -> tvm.IRModule:
    """From x, a feature map, and y, one value per channel."""
    builder = relax.BlockBuilder()
    shapes = {"x": SHAPE, "y": (2, 3, 1, 1, 8)}
    x, y = (relax.Var(name, relax.TensorType(shape, "float32")) for name, shape in shapes.items())
    with builder.function("main", [x, y]):
        with builder.dataflow():
            result = builder.emit_output(build(builder.emit, x, y))
        builder.emit_func_output(result)
    return builder.get()


def scaled(emit: Emit, x: relax.Expr) -> relax.Var:
    return emit(relu(emit(add(emit(multiply(x, SCALE)), SHIFT))))


def prologue_of(build: Build) -> Prologue | None:
    """That of the one convolution in what ``build`` makes."""
    main = module(build)["main"]
    values = {b.var: b.value for block in main.body.blocks for b in block.bindings}
    (call,) = [v for v in values.values() if isinstance(v, relax.Call) and "conv2d" in str(v.op)]
    return read_prologue(call.args[0], values.get, count_uses(main))


def test_scale_shift_relu_becomes_the_templates_first_stage() -> None:
    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        def compute(parts: list[te.Tensor], operands: list[te.Tensor], w: te.Tensor) -> te.Tensor:
            (data,), (s, t) = parts, operands
            first = te.compute(
                SHAPE,
                lambda n, c, h, v, i: tirx.Max(
                    tirx.const(0, "float32"),
                    data(n, c, h, v, i) * s(0, c, 0, 0, i) + t(0, c, 0, 0, i),
                ),
                name="prologue",
                attrs={"neocpu.prologue_parts": 1},
            )
            return conv2d_nchwc.compute(first, w, CONV, CONFIG)

        packed = relax.const(conv2d_nchwc.pack_weight(WEIGHT, CONV, CONFIG))
        attrs = {"op_pattern": 4}
        return b.emit_te(
            compute,
            [x],
            [SCALE, SHIFT],
            packed,
            primfunc_name_hint="conv2d",
            primfunc_attrs=attrs,
        )

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(SHAPE, "float32"))
    y = relax.Var("y", relax.TensorType((2, 3, 1, 1, 8), "float32"))
    with builder.function("main", [x, y]):
        with builder.dataflow():
            result = builder.emit_output(expected(builder, x))
        builder.emit_func_output(result)
    lower = LowerToTemplates(Cpu("haswell", AVX2, cores=1), {layout_key(CONV, CONFIG): CONFIG})
    after = lower(module(lambda emit, x, y: emit(conv(scaled(emit, x)))))
    tvm.ir.assert_structural_equal(after, builder.get())


def pooled(emit: Emit, x: relax.Expr) -> relax.Var:
    return emit(max_pool2d(x, [1, 1], layout="NCHW8c", out_layout="NCHW8c"))


def wide(x: relax.Expr) -> relax.Expr:
    """A convolution of 48 channels."""
    weight = relax.const(np.ones((16, 48, 1, 1), "float32"))
    return conv2d(x, weight, data_layout="NCHW8c", kernel_layout="OIHW")


def beside(emit: Emit, x: relax.Var) -> relax.Expr:
    """The pool's result is read by the chain and by others."""
    pool = pooled(emit, x)
    return relax.Tuple([emit(negative(pool)), emit(conv(scaled(emit, pool)))])


ONE = relax.const(1.0, "float32")
TAKEN: dict[str, tuple[Build, list[str], int]] = {
    "a gate": (lambda emit, x, y: conv(emit(multiply(y, x))), ["multiply"], 1),
    "what others read first": (lambda emit, x, y: beside(emit, x), ["multiply", "add", "relu"], 1),
    "a scalar": (lambda emit, x, y: conv(emit(relu(emit(add(x, ONE))))), ["add", "relu"], 1),
    "a concat": (lambda emit, x, y: wide(emit(concat([x, x], 1))), [], 2),
    "and what follows it": (
        lambda emit, x, y: wide(emit(relu(emit(concat([x, emit(negative(x))], 1))))),
        ["relu"],
        2,
    ),
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken_along(name: str) -> None:
    build, operators, parts = TAKEN[name]
    found = prologue_of(build)
    assert found is not None
    assert [operator.split(".")[-1] for operator, _ in found.operations] == operators
    assert len(found.parts) == parts


def read_twice(emit: Emit, x: relax.Var) -> relax.Expr:
    chain = scaled(emit, x)
    return relax.Tuple([emit(negative(chain)), emit(conv(chain))])


LEFT: dict[str, Build] = {
    "no chain": lambda emit, x, y: conv(x),
    "a chain that others read": lambda emit, x, y: read_twice(emit, x),
    "another's epilogue": lambda emit, x, y: conv(scaled(emit, pooled(emit, x))),
    "a sum of feature maps": lambda emit, x, y: conv(emit(add(x, pooled(emit, x)))),
    "a concat of rows": lambda emit, x, y: conv(emit(concat([x, x], 2))),
    "other operations": lambda emit, x, y: conv(emit(negative(x))),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left(name: str) -> None:
    assert prologue_of(LEFT[name]) is None
