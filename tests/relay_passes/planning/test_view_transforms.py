"""ViewTransforms: layout transforms before, views after."""

from __future__ import annotations

import tvm
from relax_net import module, pack, repack, unpack
from tvm import relax

from tvm_neocpu.relay_passes.ir.rewrite import tidy
from tvm_neocpu.relay_passes.operators.layout_transform import count_transforms
from tvm_neocpu.relay_passes.planning.view_transforms import ViewTransforms

op = relax.op


def check(before, expected, shape: tuple[int, ...]) -> None:
    after = ViewTransforms()(module(before, shape))
    assert count_transforms(after) == 0
    tvm.ir.assert_structural_equal(tidy(after), tidy(module(expected, shape)))


def test_a_transform_becomes_a_view_of_the_same_shape() -> None:
    check(
        lambda emit, x: emit(pack(x, 16)),
        lambda emit, x: emit(op.reshape(x, (2, 3, 3, 5, 16))),
        (2, 48, 3, 5),
    )
    check(
        lambda emit, x: emit(repack(x, 16, 8)),
        lambda emit, x: emit(op.reshape(x, (2, 6, 3, 5, 8))),
        (2, 3, 3, 5, 16),
    )
    check(
        lambda emit, x: emit(unpack(x, 16)),
        lambda emit, x: emit(op.reshape(x, (2, 48, 3, 5))),
        (2, 3, 3, 5, 16),
    )


def test_what_is_between_transforms_stays() -> None:
    check(
        lambda emit, x: emit(unpack(emit(op.nn.relu(emit(pack(x, 16)))), 16)),
        lambda emit, x: emit(
            op.reshape(emit(op.nn.relu(emit(op.reshape(x, (2, 3, 3, 5, 16))))), (2, 48, 3, 5))
        ),
        (2, 48, 3, 5),
    )


def test_transposes_that_move_no_channel_block_stay() -> None:
    def network(emit, x):
        return emit(op.permute_dims(x, (0, 2, 3, 1)))

    check(network, network, (2, 48, 3, 5))
