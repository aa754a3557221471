"""A layer and its pool as a group: which rows are there when, and what its function computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import compiled
from tvm import te, tirx, topi
from tvm.tirx import For, ForKind, IfThenElse

from tvm_neocpu.core.machine.cpu import KIB, Cpu
from tvm_neocpu.core.network.conv_graph import RowWindow
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import FLAT, WinogradConfig
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.fused_block.pool_template import pool_of, pooled_function
from tvm_neocpu.topi.fused_block.pooled_conv import PooledConv, bands_of, misfit
from tvm_neocpu.topi.fused_block.template import layers_of, members_key
from tvm_neocpu.topi.kernel import kernel, unscheduled
from tvm_neocpu.topi.schedule import shares
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.tir.loops.rewrite_loops import block_with

CPU: Cpu = parse_target("llvm").cpu


def stem(height: int, width: int, stride: int = 1, batch: int = 1) -> ConvWorkload:
    """Three channels to 16 by 3x3 windows."""
    return ConvWorkload(batch, 3, height, width, 16, (3, 3), (stride,) * 2, (1, 1, 1, 1))


DIRECT = ConvConfig(0, 8, 4, reg_m=1, oh_bn=3)
WINOGRAD = WinogradConfig(8, 8, 4, 2)
# 6x4 tiles in chunks of 8 as one axis: 3, 3 and 2.
ONE_AXIS = WinogradConfig(8, 8, 4, 3, FLAT, 2)
BLOCKED = ConvWorkload(1, 16, 21, 13, 16, (3, 3), padding=(1, 1, 1, 1))
WINDOWS = st.builds(RowWindow, st.integers(2, 5), st.integers(1, 5), st.integers(0, 1))


@settings(max_examples=examples(60))
@given(height=st.integers(5, 40), window=WINDOWS, chunk=st.integers(1, 6), rows=st.integers(1, 20))
def test_each_row_of_the_pool_finds_its_rows_in_the_ring(
    height: int, window: RowWindow, chunk: int, rows: int
) -> None:
    """The loops as they are written, over sets of rows."""
    layer = Member(stem(height, 9), replace(DIRECT, oh_bn=chunk))
    count = (height + 2 * window.before - window.taps) // window.stride + 1
    group = PooledConv(layer, window, count, min(rows, count))
    made: list[int] = []
    for band in range(group.bands):
        begin, end = band * group.rows, min((band + 1) * group.rows, count)
        ring: dict[int, int] = {}
        for at in range(group.first_chunk(band), group.last_chunk(band) + 1):
            for row in range(at * group.step, (at + 1) * group.step):
                ring[row % (group.slots * group.step)] = row
            for row in range(max(group.ready(at), begin), min(group.ready(at + 1), end)):
                first = row * window.stride - window.before
                read = [r for r in range(first, first + window.taps) if 0 <= r < height]
                assert [ring[r % (group.slots * group.step)] for r in read] == read
                made.append(row)
    assert made == list(range(count))


def test_one_band_a_core_computes_no_chunk_twice_and_many_bands_do() -> None:
    one, many = bands_of(Member(stem(24, 9), DIRECT), RowWindow(3, 2, 1), 12, replace(CPU, cores=1))
    assert (one.bands, one.slots, one.chunks_of(0)) == (1, 2, 8)
    assert many.bands == 6
    assert sum(many.chunks_of(band) for band in range(many.bands)) > 8


def test_chunks_of_channels_are_no_group() -> None:
    layer = Member(stem(24, 9), replace(DIRECT, parallel_oc=True))
    assert misfit(layer) == "chunks of 3x24x9->16 3x3 p1 are no rows, but blocks of channels"
    conv = ConvWorkload(1, 16, 24, 9, 16, (3, 3), padding=(1, 1, 1, 1))
    winograd = Member(conv, WinogradConfig(8, 8, 4, 3, oc_chunks=2))
    assert "but blocks of channels" in str(misfit(winograd))
    pairs = Member(replace(conv, batch=2), WinogradConfig(8, 8, 4, 3, FLAT, 12))
    assert "but several images" in str(misfit(pairs))
    assert bands_of(layer, RowWindow(2, 2, 0), 12, CPU) == ()


def test_a_ring_that_outgrows_l2_is_no_group() -> None:
    layer, window = Member(stem(24, 24), DIRECT), RowWindow(2, 2, 0)
    (group, *_) = bands_of(layer, window, 12, CPU)
    assert bands_of(layer, window, 12, replace(CPU, l2=group.ring_bytes)) == ()
    assert bands_of(layer, window, 12, replace(CPU, l2=512 * KIB)) != ()


def max_pool(conv: ConvWorkload, taps: int, stride: int, pads: tuple[int, ...]) -> tirx.PrimFunc:
    """TVM's own pool over what the layer writes, in blocks of 8 channels; pads as ONNX has them."""
    shape = (conv.batch, conv.out_channels // 8, conv.out_height, conv.out_width, 8)
    data = te.placeholder(shape, "float32", "data")
    pooled = topi.nn.pool2d(
        data, [taps] * 2, [stride] * 2, [1, 1], list(pads), "max", layout="NCHW8c"
    )
    return te.create_prim_func([data, pooled])


# (layer, config, taps, stride, pads, rows of a band)
CASES = [
    (stem(23, 11, 2), DIRECT, 3, 2, (0, 1, 1, 0), 2),
    (stem(9, 7, batch=3), replace(DIRECT, oh_bn=1), 2, 2, (0, 0, 0, 0), 1),
    (stem(24, 9), replace(DIRECT, oh_bn=8), 3, 1, (1, 0, 0, 1), 24),
    (BLOCKED, WINOGRAD, 3, 2, (1, 1, 1, 1), 11),
    (BLOCKED, WINOGRAD, 3, 3, (0, 1, 0, 1), 2),
    (BLOCKED, ONE_AXIS, 3, 2, (1, 1, 1, 1), 11),
]


@pytest.mark.parametrize("case", CASES)
def test_a_group_computes_what_layer_and_pool_do(
    case: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Band by band, the last one first: none waits for another, none writes another's rows."""
    # Pools as small as these have no loop over rows.
    monkeypatch.setattr(shares, "MIN_PARALLEL_WORK", 1)
    conv, config, taps, stride, pads, rows = case
    pool = max_pool(conv, taps, stride, pads)
    layer, reader = Member(conv, config), pool_of(pool, 0, CPU)
    assert reader is not None
    assert reader.window == RowWindow(taps, stride, pads[0])
    group = PooledConv(layer, reader.window, reader.height, rows)
    first = unscheduled(conv, config)
    func = pooled_function(group, first, reader, CPU)
    assert func is not None
    assert layers_of(func) == (f"{conv} -> pool", conv.flops)
    assert members_key(func) is not None

    rng = np.random.default_rng(0)

    def tensor(param: tirx.Var) -> tvm.runtime.Tensor:
        shape = [int(extent) for extent in param.shape]
        return tvm.runtime.tensor(rng.random(shape, "float32") - 0.5)

    given = [tensor(param) for param in first.params[:-1]]
    between, expected = tensor(first.params[-1]), tensor(pool.params[-1])
    compiled(kernel(conv, config, CPU))(*given, between)
    compiled(schedule_function(pool, CPU))(between, expected)
    found = tensor(pool.params[-1])
    run = compiled(any_trip(func))
    for trip in reversed(range(group.trips)):
        before = found.numpy().copy()
        run(trip, *given, found)
        image, begin = trip // group.bands, trip % group.bands * rows
        others = np.ones_like(before, dtype=bool)
        others[image, :, begin : begin + rows] = False
        np.testing.assert_array_equal(found.numpy()[others], before[others])
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=0, atol=1e-5)


def any_trip(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with one trip of its loop, whose number is its first argument."""
    loop = func.body.block.body
    assert isinstance(loop, For)
    number = tirx.Var("number", "int64")
    one = IfThenElse(loop.loop_var.equal(number), loop.body, None)
    one = For(loop.loop_var, loop.min, loop.extent, ForKind.SERIAL, one)
    return tirx.PrimFunc([number, *func.params], block_with(func.body, one))


def test_what_is_no_pool_over_rows_is_none() -> None:
    shape = (1, 2, 12, 10, 8)
    data = te.placeholder(shape, "float32", "data")
    flipped = te.compute(shape, lambda n, c, y, x, i: data[n, c, 11 - y, x, i] + 1.0, name="flip")
    assert pool_of(te.create_prim_func([data, flipped]), 0, CPU) is None
    plain = te.placeholder((1, 16, 12, 10), "float32", "data")
    pooled = topi.nn.pool2d(plain, [2, 2], [2, 2], [1, 1], [0] * 4, "max")
    assert pool_of(te.create_prim_func([plain, pooled]), 0, CPU) is None
