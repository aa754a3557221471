"""The im2col template where its guard declines too: every kind of column it can copy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from nests import SKYLAKE, nest
from samples import BIAS, check, run, stored

from tests.support.cpus import ZEN_3
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_im2col import template
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_im2col.space import space
from tvm_neocpu.topi.kernel import kernel

STEM = ConvWorkload(1, 3, 21, 17, 16, (7, 7), (2, 2), (3, 2, 3, 3))
PIXELS = ConvWorkload(8, 32, 1, 1, 48, (1, 1))
IMAGE = ConvWorkload(1, 64, 14, 14, 48, (1, 1))
STRIDED = ConvWorkload(1, 16, 13, 11, 48, (3, 3), (2, 2), (1, 1, 1, 1))


CASES = {
    "plain, chunks of whole rows": (STEM, Im2colConfig(0, 16, 11, 9)),
    "plain, broken rows": (STEM, Im2colConfig(0, 16, 7, 3)),
    "plain, columns in one pass": (STEM, Im2colConfig(0, 8, 11, 9, True)),
    "plain, a batch": (replace(STEM, batch=2, stride=(1, 3)), Im2colConfig(0, 16, 5, 8)),
    "blocked, padded": (STEM, Im2colConfig(3, 16, 13, 4)),
    "blocked, columns in one pass": (STEM, Im2colConfig(3, 16, 13, 4, True)),
    "dilated": (
        ConvWorkload(2, 8, 9, 11, 16, (3, 2), (1, 2), (2, 1, 1, 2), (2, 3)),
        Im2colConfig(8, 16, 9, 3),
    ),
    "plain, dilated": (replace(STEM, kernel=(3, 4), dilation=(3, 2)), Im2colConfig(0, 16, 9, 8)),
    "in place": (PIXELS, Im2colConfig(16, 48, 8)),
    "in place over images": (replace(PIXELS, height=3), Im2colConfig(16, 16, 6, 2, True)),
    "in place, a narrower last tile": (
        replace(PIXELS, batch=1, height=14, width=14),
        Im2colConfig(16, 48, 6, 33, True),
    ),
    "copied: chunks would end in narrower tiles": (
        replace(PIXELS, batch=2, height=14, width=7),
        Im2colConfig(32, 16, 6, 9),
    ),
    "overhanging the batch": (replace(PIXELS, batch=7), Im2colConfig(16, 48, 5)),
    "filled vectors": (replace(PIXELS, out_channels=39), Im2colConfig(32, 13, 7, 1, False, 16)),
    "one pixel": (replace(PIXELS, batch=1), Im2colConfig(8, 16, 1)),
    "two parts, in place": (IMAGE, Im2colConfig(16, 16, 6, 33, parts=2)),
    "four parts, in place over chunks": (IMAGE, Im2colConfig(16, 16, 7, 7, parts=4)),
    "parts of chunks that split channels": (IMAGE, Im2colConfig(8, 16, 6, 33, True, parts=4)),
    "parts of plain data": (IMAGE, Im2colConfig(0, 16, 6, 7, parts=8)),
    "parts of several taps": (STRIDED, Im2colConfig(8, 16, 6, 3, parts=3)),
    "a part of a tap": (STRIDED, Im2colConfig(8, 16, 5, 9, parts=18)),
    "parts, columns in one pass": (STRIDED, Im2colConfig(8, 16, 6, 3, True, parts=6)),
    "parts, filled vectors": (
        replace(IMAGE, out_channels=39),
        Im2colConfig(32, 13, 5, 40, False, 16, parts=2),
    ),
    "parts of a batch": (replace(IMAGE, batch=3, height=5), Im2colConfig(16, 48, 4, 9, parts=4)),
    "pairs of blocks": (replace(IMAGE, out_channels=64), Im2colConfig(16, 16, 14, 14, reg_o=2)),
    "a pair and one block": (IMAGE, Im2colConfig(16, 16, 14, 14, reg_o=2)),
    "three blocks and two, a narrower tile": (
        replace(IMAGE, out_channels=80),
        Im2colConfig(16, 16, 9, 22, reg_o=3),
    ),
    "pairs over chunks": (IMAGE, Im2colConfig(16, 16, 7, 14, reg_o=2)),
    "pairs of copied columns": (STRIDED, Im2colConfig(8, 16, 9, 3, reg_o=2)),
    "pairs of plain data": (replace(STEM, out_channels=48), Im2colConfig(0, 16, 11, 9, reg_o=2)),
    "pairs in parts": (IMAGE, Im2colConfig(16, 16, 6, 33, parts=4, reg_o=2)),
    "pairs of filled vectors": (
        replace(IMAGE, out_channels=39),
        Im2colConfig(32, 13, 5, 40, False, 16, reg_o=2),
    ),
    "more blocks in a tile than there are": (IMAGE, Im2colConfig(16, 16, 6, 33, reg_o=4)),
}


@pytest.mark.parametrize("case", CASES)
def test_columns_of_every_kind(case: str) -> None:
    check(*CASES[case], SKYLAKE, BIAS)


@given(data=st.data())
@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.too_slow])
def test_any_config_of_any_convolution(data: st.DataObject) -> None:
    pairs = [st.tuples(*[st.integers(1, most)] * 2) for most in (4, 3, 2)]
    kernel_size, stride, dilation = (data.draw(pair) for pair in pairs)
    padding = data.draw(st.tuples(*[st.integers(0, 2)] * 4))
    reach = [dilation[i] * (kernel_size[i] - 1) + 1 - padding[i] - padding[i + 2] for i in (0, 1)]
    sides = [max(1, least) + data.draw(st.integers(0, 7)) for least in reach]
    inputs, outputs = (data.draw(st.sampled_from([1, 3, 4, 13, 16, 24])) for _ in range(2))
    batch = data.draw(st.integers(1, 3))
    conv = ConvWorkload(batch, inputs, *sides, outputs, kernel_size, stride, padding, dilation)
    check(conv, data.draw(st.sampled_from(space(conv, SKYLAKE))), SKYLAKE, BIAS)


@given(data=st.data())
@settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])
def test_any_parts_of_any_convolution(data: st.DataObject) -> None:
    """A small cache, so that the space has parts of a small layer."""
    sides = data.draw(st.tuples(*[st.integers(3, 9)] * 2))
    inputs = data.draw(st.sampled_from([32, 48, 64]))
    outputs = data.draw(st.sampled_from([8, 13, 24]))
    conv = ConvWorkload(data.draw(st.integers(1, 2)), inputs, *sides, outputs, (1, 1))
    if data.draw(st.booleans()):
        conv = replace(conv, kernel=(3, 2), padding=(1, 0, 1, 1), stride=(2, 1))
    cpu = replace(ZEN_3, l1=4 * 8 * conv.taps, cores=data.draw(st.sampled_from([1, 2])))
    configs = [config for config in space(conv, cpu) if config.parts > 1]
    check(conv, data.draw(st.sampled_from(configs)), cpu, BIAS)


def test_parts_add_in_the_same_order() -> None:
    """Bit for bit: a tile's sums wait in memory between two parts, and nothing is added later."""
    whole = Im2colConfig(16, 16, 6, 33)
    rng = np.random.default_rng(0)
    data, weight = (rng.normal(size=o.shape).astype("float32") for o in IMAGE.operands)
    bias = np.zeros((1, 3, 1, 1, 16), "float32")
    results = []
    for config in (whole, replace(whole, parts=4)):
        packed = template.pack_weight(weight, IMAGE, config)
        arrays = [stored(data, Layout(16)), packed, bias]
        results.append(run(kernel(IMAGE, config, ZEN_3), arrays, (1, 3, 14, 14, 16), "float32"))
    assert (results[0] == results[1]).all()


def test_a_matrix_product_over_pixels_copies_nothing() -> None:
    config = Im2colConfig(16, 48, 4, 2)
    assert "im2col_columns" not in kernel(PIXELS, config, SKYLAKE).script()
    strided = replace(PIXELS, stride=(2, 2))
    assert "im2col_columns" in kernel(strided, config, SKYLAKE).script()


def test_a_tile_that_overhangs_the_batch_reads_no_pixel_beyond_it() -> None:
    """What it reads there is never stored, so that no value could tell."""
    exact, over = (
        kernel(replace(PIXELS, batch=batch), Im2colConfig(16, 48, 5), SKYLAKE).script()
        for batch in (5, 7)
    )
    assert "T.min(" in over and "T.min(" not in exact


@pytest.mark.parametrize(
    ("parallel_oc", "expected"),
    [
        (False, "parallel 2, 3, 4, 54, 8, unroll 7, vector 16"),
        (True, "parallel 6, 4, 54, 8, unroll 7, vector 16"),
    ],
)
def test_the_loops_of_the_product(parallel_oc: bool, expected: str) -> None:
    """Chunks and blocks of channels, tiles, taps, channels of a tap, pixels of a tile; a vector."""
    conv = ConvWorkload(1, 48, 7, 8, 48, (3, 3), padding=(1, 1, 1, 1))
    config = Im2colConfig(8, 16, 7, 4, parallel_oc)
    assert nest(conv, config, "im2col_product_update") == expected
