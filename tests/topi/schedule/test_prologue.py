"""Prologues: a template computes its data on the way in as if it had been stored."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
import tvm
from nests import SKYLAKE, nest_of
from samples import HOST as TARGET
from samples import compiled
from tvm import te
from tvm.s_tir import Schedule

from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.types import BF16_WEIGHTS
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_amx.geometry import Bf16TilesConfig
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.schedule import prologue, steps
from tvm_neocpu.topi.schedule_function import schedule_blocks, schedule_function
from tvm_neocpu.topi.table import implementation_of

Floats = npt.NDArray[np.float32]

SAME = (1, 1, 1, 1)
POINTWISE = ConvWorkload(2, 26, 7, 11, 13, (1, 1))
SQUARE = ConvWorkload(2, 26, 7, 11, 13, (3, 3), padding=SAME)
UNEVEN = ConvWorkload(1, 26, 9, 7, 16, (3, 3), stride=(2, 1), padding=(0, 2, 1, 0))
DILATED = ConvWorkload(1, 26, 9, 9, 16, (3, 3), padding=(2, 0, 2, 1), dilation=(2, 1))
GROUPED = ConvWorkload(1, 52, 5, 6, 16, (3, 3), padding=SAME, groups=2)
PLAIN_TILES = ConvWorkload(1, 32, 10, 10, 16, (3, 3))
DEPTHWISE = ConvWorkload(2, 26, 7, 11, 26, (3, 3), padding=(1, 0, 0, 2), groups=26)

CASES: list[tuple[ConvWorkload, Config]] = [
    (POINTWISE, ConvConfig(13, 13, 11)),
    (POINTWISE, ConvConfig(0, 13, 4, reg_m=2)),
    (POINTWISE, ConvConfig(13, 13, 11, parallel_oc=True)),
    (SQUARE, ConvConfig(13, 13, 11, reg_m=2, oh_bn=2)),
    (SQUARE, ConvConfig(13, 13, 4, parallel_oc=True)),
    (UNEVEN, ConvConfig(13, 16, 7)),
    (DILATED, ConvConfig(13, 8, 5)),
    (GROUPED, ConvConfig(13, 8, 6)),
    (PLAIN_TILES, WinogradConfig(16, 16, 4, 2)),
    (SQUARE, WinogradConfig(13, 13, 2, 3)),
    (SQUARE, WinogradConfig(13, 13, 4, 3, parallel_oc=True)),
    (DEPTHWISE, DepthwiseConfig(13, 13, 4, oh_bn=2)),
    (POINTWISE, Im2colConfig(13, 13, 6, 26)),
    (POINTWISE, Im2colConfig(13, 13, 5, 4, parallel_oc=True)),
    (UNEVEN, Im2colConfig(13, 16, 7, 2)),
    (SQUARE, Im2colConfig(0, 13, 11, 7)),
    *(
        (replace(conv, types=BF16_WEIGHTS), config)
        for conv, config in (
            (POINTWISE, Bf16Config(13, 13, 11)),
            (SQUARE, Bf16Config(26, 13, 11, reg_m=2, oh_bn=2)),
            (SQUARE, Bf16Config(13, 13, 4, parallel_oc=True)),
            (GROUPED, Bf16Config(13, 8, 6)),
            (ConvWorkload(1, 96, 7, 8, 16, (3, 3), padding=SAME), Bf16TilesConfig(32, 16, 8)),
        )
    ),
]


def of_few_bits(x: npt.NDArray[np.float64]) -> Floats:
    return x.astype(ml_dtypes.bfloat16).astype("float32")


def scaled(x: Floats, scale: Floats, shift: Floats) -> Floats:
    return np.maximum(x * scale + shift, 0)


def output(
    conv: ConvWorkload,
    config: Config,
    data: te.Tensor,
    given: list[te.Tensor],
    inputs: list[Floats],
) -> Floats:
    """What the template makes of ``data``, which are computed from what is given."""
    template, rng = implementation_of(config), np.random.default_rng(1)
    weight = rng.normal(size=conv.weight_shape).astype(conv.types.weight)
    packed = template.pack_weight(weight, conv, config)
    w = te.placeholder(packed.shape, str(packed.dtype), name="w")
    result = template.compute(data, w, conv, config)
    func = te.create_prim_func([*given, w, result])
    assert steps.find_block(Schedule(schedule_blocks(func, TARGET.cpu)), prologue.PROLOGUE) is None
    out = tvm.runtime.tensor(np.full([int(e) for e in result.shape], np.nan, "float32"))
    run = compiled(schedule_function(func, TARGET.cpu))
    run(*[tvm.runtime.tensor(array) for array in (*inputs, packed)], out)
    return out.numpy()


@pytest.mark.parametrize(("conv", "config"), CASES)
def test_computed_data_are_as_good_as_stored(conv: ConvWorkload, config: Config) -> None:
    """Data of one part, and a Concat of three.

    Products of numbers of few bits are exact: what bf16 rounds is the same number either way.
    """
    rng, shape = np.random.default_rng(0), layouts_of(config)[0].shape_of(conv.in_shape)
    x = of_few_bits(rng.normal(size=shape))
    channels = tuple(1 if axis in (0, 2, 3) else extent for axis, extent in enumerate(shape))
    scale, shift = of_few_bits(rng.normal(size=(2, *channels)))
    # Where nothing is left out, zeros of the padding would become max(0 * s + t, 0) = 1.
    shift += 1
    stored = te.placeholder(shape, name="x")
    expected = output(conv, config, stored, [stored], [scaled(x, scale, shift)])
    for most_parts in (1, 3):
        split = np.array_split(x, min(most_parts, shape[1]), axis=1)
        parts = [np.ascontiguousarray(part) for part in split]
        stages = [te.placeholder(part.shape, name=f"x{i}") for i, part in enumerate(parts)]
        s, t = (te.placeholder(channels, name=name) for name in "st")
        chain = [("multiply", s), ("add", t), ("relu", None)]
        computed = prologue.compute(stages, chain)
        found = output(conv, config, computed, [*stages, s, t], [*parts, scale, shift])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=f"{most_parts}")


def nest(config: Config, parts: int, stage: str = "conv2d_pad", channels: int = 26) -> str:
    """The loops of the stage that computes 39 blocked channels of a pointwise convolution."""
    conv = ConvWorkload(1, 39, 6, 5, channels, (1, 1))
    stages = [te.placeholder((1, 3 // parts, 6, 5, 13), name=f"x{i}") for i in range(parts)]
    data = prologue.compute(stages, [("relu", None)])
    packed = implementation_of(config).packed_shape(conv, config)
    w = te.placeholder(packed, name="w")
    result = implementation_of(config).compute(data, w, conv, config)
    scheduled = schedule_blocks(te.create_prim_func([*stages, w, result]), SKYLAKE)
    assert prologue.PARTS_KEY not in scheduled.script()
    return nest_of(scheduled, stage)


def test_a_prologue_is_computed_by_chunks_of_rows() -> None:
    assert nest(ConvConfig(13, 13, 5, oh_bn=2), 1).startswith("parallel 3, 3, 2, 5")


def test_the_blocks_of_a_concat_are_one_loop() -> None:
    assert nest(ConvConfig(13, 13, 5, oh_bn=2), 3).startswith("parallel 3, 3, 2, 5")


def test_chunks_of_channels_share_one_pass() -> None:
    assert nest(ConvConfig(13, 13, 5, parallel_oc=True), 1).startswith("parallel 18, 5")


@pytest.mark.parametrize("split", [False, True])
def test_rows_that_one_block_of_channels_reads_are_computed_by_rows(split: bool) -> None:
    config = ConvConfig(13, 13, 5, oh_bn=2, parallel_oc=split)
    assert nest(config, 1, channels=13).startswith("parallel 3, 2, 3, 5")


@pytest.mark.parametrize(
    ("config", "parts", "loops"),
    [
        # 30 pixels are two chunks of 3 tiles of 5; in a pass of their own, two pieces.
        (Im2colConfig(13, 13, 5, 3), 1, "parallel 2, 3, 15"),
        (Im2colConfig(13, 13, 5, 3), 3, "parallel 2, 3, 15"),
        (Im2colConfig(13, 13, 5, 6, parallel_oc=True), 3, "parallel 2, 3, 15"),
    ],
)
def test_columns_of_one_tap_are_runs(config: Im2colConfig, parts: int, loops: str) -> None:
    assert nest(config, parts, "im2col_columns").startswith(loops)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_step_keeps_the_type_of_its_data(dtype: str) -> None:
    """A ReLU right behind the data, and one behind arithmetic."""
    x, scale = (te.placeholder((1, 4, 2, 2), dtype, name) for name in "xs")
    for steps_before in ([], [("multiply", scale)]):
        computed = prologue.compute([x], [*steps_before, ("relu", None)])
        assert computed.dtype == dtype
