"""FlattenConcats, Before -> Expected."""

from __future__ import annotations

from collections.abc import Callable

import tvm
from tvm import relax
from tvm.relax.op import add, concat
from tvm.relax.op.nn import relu

from tvm_neocpu.relay_passes.layouts.flatten_concats import FlattenConcats

Build = Callable[[relax.BlockBuilder, relax.Var, relax.Var], relax.Expr]


def module(build: Build) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x, y = (relax.Var(name, relax.TensorType((1, 4, 3, 3), "float32")) for name in "xy")
    with builder.function("main", [x, y]):
        with builder.dataflow():
            result = builder.emit_output(build(builder, x, y))
        builder.emit_func_output(result)
    return builder.get()


def assert_becomes(before: Build, expected: Build) -> None:
    tvm.ir.assert_structural_equal(FlattenConcats()(module(before)), module(expected))


def test_a_concat_of_concats_is_one() -> None:
    assert_becomes(
        lambda b, x, y: concat(
            [b.emit(concat([b.emit(concat([x, y], 1)), x], -3)), y, b.emit(concat([y, y], 1))], 1
        ),
        lambda b, x, y: concat([x, y, x, y, y, y], axis=1),
    )


def test_a_concat_that_others_read_stays_beside() -> None:
    def before(b: relax.BlockBuilder, x: relax.Var, y: relax.Var) -> relax.Expr:
        inner = b.emit(concat([x, y], 1))
        outer = b.emit(concat([inner, x], 1))
        return relax.Tuple([b.emit(relu(inner)), outer])

    def expected(b: relax.BlockBuilder, x: relax.Var, y: relax.Var) -> relax.Expr:
        inner = b.emit(concat([x, y], 1))
        outer = b.emit(concat([x, y, x], 1))
        return relax.Tuple([b.emit(relu(inner)), outer])

    assert_becomes(before, expected)


def test_other_axes_and_what_lies_between_keep_concats_apart() -> None:
    def across(b: relax.BlockBuilder, x: relax.Var, y: relax.Var) -> relax.Expr:
        rows = b.emit(concat([x, y], 2))
        return concat([rows, rows], 1)

    def between(b: relax.BlockBuilder, x: relax.Var, y: relax.Var) -> relax.Expr:
        inner = b.emit(add(b.emit(concat([x, y], 1)), b.emit(concat([y, x], 1))))
        return concat([inner, x], 1)

    for build in (across, between):
        assert_becomes(build, build)
