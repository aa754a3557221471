"""WidenGroups: fewer, wider groups that compute the same."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.relay_passes.channels.widen_groups import (
    WidenGroups,
    block_diagonal,
    groups_to_merge,
)
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload
from tvm_neocpu.topi.conv2d.workload import ConvWorkload


def conv(in_channels: int, out_channels: int, groups: int) -> ConvWorkload:
    return ConvWorkload(1, in_channels, 6, 6, out_channels, (3, 3), groups=groups)


@pytest.mark.parametrize(
    ("workload", "lanes", "merged"),
    [
        (conv(128, 128, 32), 16, 4),  # ResNeXt 32x4d
        (conv(128, 128, 32), 8, 2),
        (conv(64, 64, 4), 16, 1),  # wide enough
        (conv(64, 64, 1), 16, 1),
        (conv(12, 24, 6), 16, 6),  # never enough: all groups
        (conv(9, 9, 3), 4, 1),  # nine would be more than two vectors
        (conv(104, 104, 13), 16, 1),  # RegNet-Y: all 13 would multiply twelve zeros of 13
        (conv(112, 112, 14), 16, 2),
        (conv(28, 28, 7), 16, 7),  # no other factor, and less than two vectors
    ],
)
def test_the_fewest_groups_that_fill_a_vector(
    workload: ConvWorkload, lanes: int, merged: int
) -> None:
    assert groups_to_merge(workload, lanes) == merged


def test_block_diagonal_weights_compute_the_same() -> None:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((8, 2, 1, 1), dtype=np.float32)
    pixel = rng.standard_normal(8, dtype=np.float32)
    grouped = [weight[k, :, 0, 0] @ pixel[k // 2 * 2 :][:2] for k in range(8)]
    wide = block_diagonal(weight, groups=4, merged=2)
    widened = [wide[k, :, 0, 0] @ pixel[k // 4 * 4 :][:4] for k in range(8)]
    np.testing.assert_allclose(grouped, widened, rtol=1e-6)


@pytest.mark.parametrize(("isa", "groups"), [(AVX512, 8), (AVX2, 16)])
def test_a_narrow_grouped_convolution_is_rewritten(isa: object, groups: int) -> None:
    after = WidenGroups(Cpu("test", isa, 2))(_network(groups=32))  # type: ignore[arg-type]
    assert _only_conv(after).groups == groups


def test_depthwise_and_dense_convolutions_are_left_alone() -> None:
    for groups in (1, 128):
        before = _network(groups)
        after = WidenGroups(Cpu("test", AVX512, 2))(before)
        assert _only_conv(after) == _only_conv(before)


def _network(groups: int) -> tvm.IRModule:
    data = relax.Var("data", relax.TensorType((1, 128, 6, 6), "float32"))
    weight = relax.const(np.ones((128, 128 // groups, 3, 3), np.float32))
    builder = relax.BlockBuilder()
    with builder.function("main", [data]):
        with builder.dataflow():
            result = builder.emit_output(relax.op.nn.conv2d(data, weight, groups=groups))
        builder.emit_func_output(result)
    return builder.get()


def _only_conv(mod: tvm.IRModule) -> ConvWorkload:
    found = [
        workload
        for binding in mod["main"].body.blocks[0].bindings
        if (workload := conv_workload(binding.value)) is not None
    ]
    assert len(found) == 1
    return found[0]


def test_groups_of_a_short_vector_stay_where_it_issues_at_full_rate() -> None:
    """Zen 4: 16 groups of 8 channels, of 32 groups of 4."""
    after = WidenGroups(Cpu("test", AVX512, 2, narrow=2))(_network(groups=32))
    assert _only_conv(after).groups == 16
