"""EliminateTransforms: moves that undo, repeat or follow each other, before and after."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
from relax_net import module, pack, repack, unpack
from tvm import relax

from tvm_neocpu.relay_passes.ir.rewrite import tidy
from tvm_neocpu.relay_passes.operators.layout_transform import count_transforms
from tvm_neocpu.relay_passes.planning.eliminate_transforms import EliminateTransforms

op = relax.op
Emit = Callable[[relax.Expr], relax.Var]
Build = Callable[[Emit, relax.Var], relax.Expr]
SHAPE = (2, 48, 3, 5)


def check(before: Build, expected: Build, shape: tuple[int, ...] = SHAPE) -> None:
    after = EliminateTransforms()(module(before, shape))
    tvm.ir.assert_structural_equal(after, tidy(module(expected, shape)))


def test_there_and_back_is_nothing() -> None:
    check(
        lambda emit, x: emit(op.nn.relu(emit(unpack(emit(pack(x, 16)), 16)))),
        lambda emit, x: emit(op.nn.relu(x)),
    )
    check(
        lambda emit, x: emit(repack(emit(repack(x, 16, 12)), 12, 16)),
        lambda emit, x: x,
        shape=(2, 3, 3, 5, 16),
    )


def test_one_move_after_the_other_is_one() -> None:
    check(
        lambda emit, x: emit(repack(emit(repack(emit(pack(x, 16)), 16, 8)), 8, 12)),
        lambda emit, x: emit(pack(x, 12)),
    )
    check(
        lambda emit, x: emit(pack(emit(unpack(x, 16)), 24)),
        lambda emit, x: emit(repack(x, 16, 24)),
        shape=(2, 3, 3, 5, 16),
    )


def test_a_move_that_ends_up_free_is_a_reshape() -> None:
    check(
        lambda emit, x: emit(repack(emit(pack(x, 16)), 16, 1)),
        lambda emit, x: emit(op.reshape(x, (2, 48, 3, 5, 1))),
    )


def test_twins_are_one() -> None:
    check(
        lambda emit, x: emit(op.add(emit(pack(x, 16)), emit(pack(x, 16)))),
        lambda emit, x: (lambda y: emit(op.add(y, y)))(emit(pack(x, 16))),
    )


def test_an_intermediate_layout_that_is_read_stays() -> None:
    def before(emit: Emit, x: relax.Var) -> relax.Expr:
        y = emit(pack(x, 16))
        return emit(relax.Tuple([emit(op.nn.relu(y)), emit(repack(y, 16, 8))]))

    def expected(emit: Emit, x: relax.Var) -> relax.Expr:
        y = emit(op.nn.relu(emit(pack(x, 16))))
        return emit(relax.Tuple([y, emit(pack(x, 8))]))

    check(before, expected)


def test_moves_around_an_operation_stay() -> None:
    """Only AlterOpLayout knows which operations a layout flows through."""

    def before(emit: Emit, x: relax.Var) -> relax.Expr:
        return emit(unpack(emit(op.nn.relu(emit(pack(x, 16)))), 16))

    check(before, before)


def test_other_peoples_transforms_stay() -> None:
    """NCHW to NHWC looks like NCHW to NCHW by its ranks; a padded pack is no inverse of unpack."""

    def to_nhwc(emit: Emit, x: relax.Var) -> relax.Expr:
        return emit(op.layout_transform(x, lambda n, c, h, w: (n, h, w, c)))

    def reversed_channels(emit: Emit, x: relax.Var) -> relax.Expr:
        y = emit(op.layout_transform(x, lambda n, c, h, w: (n, c % 3, h, w, c // 3)))
        return emit(unpack(y, 16))

    def padded(emit: Emit, x: relax.Var) -> relax.Expr:
        return emit(unpack(emit(pack(x, 32)), 32))

    for build in (to_nhwc, reversed_channels, padded):
        check(build, build)


def test_transforms_are_counted_but_not_those_of_constants() -> None:
    weight = relax.const(np.zeros((1, 16, 3, 5), "float32"))

    def build(emit: Emit, x: relax.Var) -> relax.Expr:
        return emit(op.add(emit(pack(x, 16)), emit(pack(weight, 16))))

    assert count_transforms(module(build, SHAPE)) == 1


def test_a_move_of_a_constant_is_a_constant() -> None:
    values = np.random.default_rng(0).normal(size=(2, 48, 3, 5)).astype("float32")
    blocked = np.ascontiguousarray(values.reshape(2, 3, 16, 3, 5).transpose(0, 1, 3, 4, 2))
    check(
        lambda emit, x: emit(op.add(emit(pack(x, 16)), emit(pack(relax.const(values), 16)))),
        lambda emit, x: emit(op.add(emit(pack(x, 16)), relax.const(blocked))),
    )
    check(
        lambda emit, x: emit(op.add(x, emit(unpack(relax.const(blocked), 16)))),
        lambda emit, x: emit(op.add(x, relax.const(values))),
    )
    twice = np.ascontiguousarray(values.reshape(2, 6, 8, 3, 5).transpose(0, 1, 3, 4, 2))
    check(
        lambda emit, x: emit(op.add(emit(pack(x, 8)), emit(repack(relax.const(blocked), 16, 8)))),
        lambda emit, x: emit(op.add(emit(pack(x, 8)), relax.const(twice))),
    )
