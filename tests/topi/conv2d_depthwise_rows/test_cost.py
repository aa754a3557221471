"""What the cost model says of rows in words beside bytes that are widened one by one."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.types import U8S8
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise_rows.geometry import RowsConfig
from tvm_neocpu.topi.cost.ranking import ranked


@pytest.mark.parametrize(("stride", "gains"), [(1, True), (2, False)])
def test_words_gain_where_outputs_share_them(stride: int, gains: bool) -> None:
    """Zen 3: 148 us for 170 with a stride of 1, 55 for 48 with one of 2."""
    shape = (1, 144, 56, 56, 144, (3, 3), (stride, stride), (1, 1, 1, 1))
    conv = ConvWorkload(*shape, groups=144, types=U8S8)
    cpu = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver3").cpu
    found: dict[str, float] = {}
    for candidate in ranked(conv, cpu):
        found.setdefault(candidate.config.template, candidate.seconds)
    assert (found[RowsConfig.template] < found["depthwise_conv2d_NCHWc"]) == gains
