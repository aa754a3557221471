"""The loops that a config asks for, outermost first: NeoCPU's Algorithm 1, as scheduled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm.s_tir import Schedule

from tvm_neocpu.core.config import Config
from tvm_neocpu.core.workload import Workload
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.kernel import unscheduled
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.schedule_function import schedule_blocks

CONV = ConvWorkload(1, 16, 14, 14, 64, (3, 3), padding=(1, 1, 1, 1))
TILE = ConvConfig(ic_bn=8, oc_bn=16, reg_n=7, unroll_ker=True, reg_m=2, oh_bn=7)
DEPTHWISE = replace(CONV, out_channels=16, groups=16)
DENSE = DenseWorkload(8, 64, 100)

# tirx.ForKind
KINDS = {0: "", 1: "parallel ", 2: "vector ", 3: "unroll "}


def nest(workload: Workload, config: Config, block: str) -> str:
    """The loops around a block, but those of one iteration."""
    sch = Schedule(schedule_blocks(unscheduled(workload, config)))
    loops = [sch.get(loop) for loop in sch.get_loops(sch.get_sblock(block))]
    kept = [f"{KINDS[int(loop.kind)]}{loop.extent}" for loop in loops if int(loop.extent) > 1]
    return ", ".join(kept)


# Chunks; channel blocks, rows and columns of tiles; ic.outer, kernel rows and columns, ic.inner;
# rows, columns and channels of a tile.
DIRECT = [
    (TILE, "4, 7, 2, 2, 3, unroll 3, 8, unroll 2, unroll 7, vector 16"),
    (
        replace(TILE, oh_bn=1),
        "parallel 7, 4, 2, 2, 3, unroll 3, 8, unroll 2, unroll 7, vector 16",
    ),
    (
        replace(TILE, parallel_oc=True),
        "parallel 4, 7, 2, 2, 3, unroll 3, 8, unroll 2, unroll 7, vector 16",
    ),
    (replace(TILE, unroll_ker=False), "4, 7, 2, 2, 3, 3, 8, unroll 2, unroll 7, vector 16"),
    (
        replace(TILE, ic_bn=16, oc_bn=48, reg_m=1, oh_bn=1, reg_n=14),
        "parallel 14, 3, unroll 3, 16, unroll 14, unroll 3, vector 16",
    ),
]


@pytest.mark.parametrize(("config", "expected"), DIRECT)
def test_direct(config: ConvConfig, expected: str) -> None:
    conv = replace(CONV, out_channels=48) if config.oc_bn == 48 else CONV
    assert nest(conv, config, "conv2d_acc_update") == expected


def test_a_pair_of_tiles_is_written_out() -> None:
    """Seventeen columns in tiles of nine: the second tile's loop knows that it has eight."""
    conv = replace(CONV, height=17, width=17)
    config = ConvConfig(ic_bn=8, oc_bn=16, reg_n=9, oh_bn=1)
    expected = "parallel 17, 4, unroll 2, 2, 3, unroll 3, 8, unroll 9, vector 16"
    assert nest(conv, config, "conv2d_acc_update") == expected
    sch = Schedule(schedule_blocks(unscheduled(conv, config)))
    assert steps.output_shape(sch, sch.get_sblock("conv2d_acc_update"))[3] == 17


# Channel blocks; rows and columns of tiles; the kernel; a tile.
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            DepthwiseConfig(16, 7, True, 2),
            "7, 2, unroll 3, unroll 3, unroll 2, unroll 7, vector 16",
        ),
        (DepthwiseConfig(8, 7, False, 1), "parallel 2, 14, 2, 3, 3, unroll 7, vector 8"),
    ],
)
def test_depthwise(config: DepthwiseConfig, expected: str) -> None:
    assert nest(DEPTHWISE, config, "depthwise_acc_update") == expected


# Blocks of outputs; rows of the batch; the reduction; a tile.
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (DenseConfig(16, 4, 8), "parallel 7, 2, 8, unroll 8, unroll 4, vector 16"),
        (DenseConfig(32, 1, 4), "parallel 4, 8, 16, unroll 4, vector 32"),
    ],
)
def test_dense(config: DenseConfig, expected: str) -> None:
    assert nest(DENSE, config, "dense_acc_update") == expected
