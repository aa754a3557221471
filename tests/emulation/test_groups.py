"""Groups of layers compiled for an ARM core, their bands run alone and last first, against NumPy.

Workspace holds NaN when a band begins: a band that reads what another one has computed shows.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("unicorn", reason="Unicorn, the emulator, is not installed")

from emulation.kernels import arm, compiled
from samples import Array, as_read, assert_close, drawn, stored, unwritten

from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.layer_group import Bands
from tvm_neocpu.topi.conv2d.reference import convolved
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.fused_block.geometry import FusedBlock
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.fused_block.template import Layer, fused_function
from tvm_neocpu.topi.kernel import unscheduled
from tvm_neocpu.topi.table import implementation_of

TARGET = arm("cortex-a72")
# Rings in runs of equal and unequal length, a halo for each band.
CASES = [
    (1, (1, 1, 1, 1), Bands(1, 5)),
    (1, (1, 1, 1, 1), Bands(3, 2)),
    (1, (1, 1, 1, 1), Bands(3)),
    (2, (0, 1, 2, 1), Bands(1, 3)),
    (2, (0, 1, 2, 1), Bands(5)),
]


def members(stride: int, padding: tuple[int, int, int, int]) -> tuple[Member, ...]:
    """8 -> 16 -> 8 channels over 9 rows of 6."""
    deep = ConvWorkload(1, 16, 9, 6, 16, (3, 3), (stride,) * 2, padding, groups=16)
    return (
        Member(ConvWorkload(1, 8, 9, 6, 16, (1, 1)), ConvConfig(8, 8, reg_n=6)),
        Member(deep, DepthwiseConfig(8, 8, reg_n=2)),
        Member(
            ConvWorkload(1, 16, deep.out_height, deep.out_width, 8, (1, 1)),
            ConvConfig(8, 8, reg_n=deep.out_width),
        ),
    )


@pytest.mark.parametrize(("stride", "padding", "bands"), CASES)
def test_no_band_reads_what_another_computes(
    stride: int, padding: tuple[int, int, int, int], bands: Bands
) -> None:
    layers, rng = members(stride, padding), np.random.default_rng(0)
    image = drawn(layers[0].workload.in_shape, "float32", rng)
    arrays: list[Array] = [stored(image, layouts_of(layers[0].config)[0])]
    for each in layers:
        operand = each.workload.operands[1]
        weight = drawn(operand.shape, "float32", rng)
        bias = drawn((each.workload.out_channels,), "float32", rng)
        image = np.maximum(convolved(each.workload, image, weight) + bias[:, None, None], 0)
        entry = implementation_of(each.config)
        arrays.append(as_read(operand, weight, entry, each.workload, each.config))
        arrays.append(stored(bias[None, :, None, None], layouts_of(each.config)[1]))
    block = FusedBlock(layers, bands)
    plain = [unscheduled(each.workload, each.config) for each in layers]
    functions = [Layer(func, 0 if at else None) for at, func in enumerate(plain)]
    func = fused_function(block, functions, TARGET.cpu)
    assert func is not None
    expected = stored(image, layouts_of(layers[-1].config)[1])
    (found,) = compiled(func, TARGET)("main", [*arrays, unwritten(expected.shape, "float32")])
    assert_close(found, expected, 1e-4)
