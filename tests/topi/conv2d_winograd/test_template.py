"""The Winograd template: its precision, its vectors, and where it pads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
from nests import SKYLAKE, nest
from samples import HOST, run, stored
from tvm import te
from winograd_layer import check_layer

from tvm_neocpu.core.machine.cpu import AVX2, MIB, NEON, Cpu
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.topi.conv2d.reference import convolved
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.definition import PAD
from tvm_neocpu.topi.conv2d_winograd.geometry import FLAT, WinogradConfig, WinogradGeometry
from tvm_neocpu.topi.conv2d_winograd.misfit import misfit
from tvm_neocpu.topi.conv2d_winograd.packing import pack_weight, packed_shape
from tvm_neocpu.topi.conv2d_winograd.template import compute
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.schedule import prologue
from tvm_neocpu.topi.schedule_function import schedule_blocks, schedule_function

CHANNELS, FILTERS, SIDE = 512, 16, 12
CONV = ConvWorkload(1, CHANNELS, SIDE, SIDE, FILTERS, (3, 3), padding=(1, 1, 1, 1))
ROW = ConvWorkload(1, CHANNELS, SIDE, SIDE, FILTERS, (1, 7), padding=(0, 3, 0, 3))
FIVE = ConvWorkload(1, CHANNELS, SIDE, SIDE, FILTERS, (5, 5), padding=(2, 2, 2, 2))
STRIDED = ConvWorkload(1, CHANNELS, SIDE, SIDE, FILTERS, (3, 3), (2, 2), (1, 1, 1, 1))
STEM = ConvWorkload(1, 3, SIDE, SIDE, FILTERS, (7, 7), (2, 2), (3, 3, 3, 3))


def largest_error(conv: ConvWorkload, tile: int) -> float:
    """Of the template on unit-variance data, over the largest output."""
    ic_bn = 16 if conv.in_channels % 16 == 0 else 0
    config = WinogradConfig(ic_bn, oc_bn=16, tile=tile, reg_n=2, reg_m=2, th_bn=2)
    rng = np.random.default_rng(0)
    data = np.abs(rng.normal(size=conv.in_shape)).astype("float32")
    weight = rng.normal(size=conv.weight_shape).astype("float32") / 68
    no_bias = np.zeros((1, 1, 1, 1, FILTERS), "float32")
    expected = np.maximum(stored(convolved(conv, data, weight), Layout(16)), 0)
    inputs = [stored(data, Layout(ic_bn)), pack_weight(weight, conv, config), no_bias]
    found = run(kernel(conv, config, SKYLAKE), inputs, expected.shape, "float32")
    return float(np.max(np.abs(found - expected)) / np.max(expected))


BOUNDS = [
    pytest.param(CONV, 2, 2e-6, id="F(2x2, 3x3)"),
    pytest.param(CONV, 3, 1e-5, id="F(3x3, 3x3)"),
    pytest.param(CONV, 4, 2e-5, id="F(4x4, 3x3)"),
    pytest.param(CONV, 6, 1e-4, id="F(6x6, 3x3)"),
    pytest.param(ROW, 2, 1e-5, id="F(1x2, 1x7)"),
    pytest.param(ROW, 3, 4e-5, id="F(1x3, 1x7)"),
    pytest.param(FIVE, 2, 2e-5, id="F(2x2, 5x5)"),
    pytest.param(STRIDED, 2, 2e-6, id="F(2x2, 3x3) of stride 2"),
    pytest.param(STRIDED, 4, 2e-5, id="F(4x4, 3x3) of stride 2"),
    pytest.param(STEM, 4, 2e-5, id="F(4x4, 4x4) over phases"),
]


@pytest.mark.parametrize(("conv", "tile", "bound"), BOUNDS)
def test_errors_stay_within_the_stated_bounds(conv: ConvWorkload, tile: int, bound: float) -> None:
    error = largest_error(conv, tile)
    assert error < bound
    assert error > bound / 100, "the bound says nothing"


@pytest.mark.parametrize(
    ("side", "by_channels", "copied"),
    [
        pytest.param(16, True, False, id="chunks of channels would wait for a copy"),
        pytest.param(16, False, False, id="small images are close anyway"),
        pytest.param(256, False, True, id="a copy reads large ones in order"),
    ],
)
def test_images_are_padded_in_a_copy_where_that_pays(
    side: int, by_channels: bool, copied: bool
) -> None:
    conv = ConvWorkload(1, 16, side, side, 16, (3, 3), padding=(1, 1, 1, 1))
    config = WinogradConfig(16, 16, 4, 4, th_bn=side // 4, parallel_oc=by_channels)
    assert (PAD in kernel(conv, config, SKYLAKE).script()) is copied


def test_computed_images_are_computed_once() -> None:
    """Tiles overlap: without the copy each would compute its share of a prologue again."""
    conv = ConvWorkload(1, 16, 16, 16, 16, (3, 3), padding=(1, 1, 1, 1))
    config = WinogradConfig(16, 16, 4, 4, th_bn=4, parallel_oc=True)
    x = te.placeholder((1, 1, 16, 16, 16), name="x")
    w = te.placeholder(packed_shape(conv, config), name="w")
    data = prologue.compute([x], [("relu", None)])
    func = te.create_prim_func([x, w, compute(data, w, conv, config)])
    assert PAD in schedule_blocks(func, SKYLAKE).script()


def test_what_outgrows_l2_is_padded_in_a_copy() -> None:
    """One image of 1 MiB: the CPU says whether it stays in L2 from one chunk to the next."""
    conv = ConvWorkload(1, 16, 128, 128, 16, (3, 3), padding=(1, 1, 1, 1))
    assert conv.in_bytes == MIB
    config = WinogradConfig(16, 16, 4, 4)
    small, large = (Cpu("cpu", AVX2, cores=2, l2=size) for size in (MIB // 2, MIB))
    assert PAD in kernel(conv, config, small).script()
    assert PAD not in kernel(conv, config, large).script()


IMAGE = ConvWorkload(1, 32, 16, 16, 64, (3, 3), padding=(1, 1, 1, 1))
TRANSFORMS = ("winograd_rows", "winograd_pack", "winograd_columns", "winograd_inverse")


@pytest.mark.parametrize(
    ("cpu", "lanes"),
    [(SKYLAKE, 16), (Cpu("haswell", AVX2, 2), 8), (Cpu("cortex-a72", NEON, 1), 4)],
    ids=["avx512", "avx2", "neon"],
)
def test_a_transform_takes_one_register_of_the_cpu_at_a_time(cpu: Cpu, lanes: int) -> None:
    config = WinogradConfig(32, 64, 4, 4)
    for block in TRANSFORMS:
        assert vector_of(nest(IMAGE, config, block, cpu)) == lanes, block
    # A statement of the product takes at most as many registers as a row of its tile has.
    assert vector_of(nest(IMAGE, config, "winograd_product_update", cpu)) <= 8 * lanes


def vector_of(loops: str) -> int:
    """Elements of the innermost loop, which is a vector."""
    kind, extent = loops.split(", ")[-1].split()
    assert kind == "vector"
    return int(extent)


@pytest.mark.parametrize("parallel_oc", [False, True], ids=["chunks of rows", "of channels"])
def test_a_stem_transforms_as_many_vectors_as_it_is_charged_for(parallel_oc: bool) -> None:
    """12 channels over phases: three vectors of 4 in a chunk, one of 16 in a pass of its own."""
    stem = ConvWorkload(1, 3, 64, 64, 32, (7, 7), (2, 2), (3, 3, 3, 3))
    config = WinogradConfig(0, 32, 4, 4, th_bn=8 if parallel_oc else 1, parallel_oc=parallel_oc)
    loops = nest(stem, config, "winograd_pack").split(", ")
    lanes = vector_of(loops[-1])
    vectors = 1 if parallel_oc else 3
    assert lanes * vectors == WinogradGeometry(stem, config).transformed_channels
    assert lanes == (16 if parallel_oc else 4)
    assert ("3" in loops) is (not parallel_oc)


SQUARE = ConvWorkload(2, 8, 20, 28, 16, (3, 3), padding=(1, 1, 1, 1))
BATCH = ConvWorkload(6, 16, 7, 8, 32, (3, 3), padding=(1, 1, 1, 1))
FLAT_CASES = [
    pytest.param(SQUARE, WinogradConfig(8, 16, 4, 3, FLAT, 1), id="rows of 7 tiles: 3, 3 and 1"),
    pytest.param(
        SQUARE, WinogradConfig(8, 8, 4, 4, FLAT, 5), id="35 tiles of a chunk: 8 x 4 and 3"
    ),
    pytest.param(SQUARE, WinogradConfig(8, 8, 4, 7, FLAT, 5), id="five times 7"),
    pytest.param(SQUARE, WinogradConfig(4, 8, 2, 9, FLAT, 2, True), id="140 tiles, by channels"),
    pytest.param(replace(STEM, batch=2), WinogradConfig(0, 8, 4, 3, FLAT, 1), id="plain data"),
    pytest.param(ROW, WinogradConfig(16, 16, 3, 5, FLAT, 4), id="tiles of one row"),
    pytest.param(
        BATCH, WinogradConfig(8, 16, 4, 5, FLAT, 4), id="4 tiles of each of two images: 5 and 3"
    ),
    pytest.param(BATCH, WinogradConfig(16, 8, 4, 7, FLAT, 13, True), id="of six, by channels"),
    pytest.param(BATCH, WinogradConfig(4, 16, 2, 9, FLAT, 12, oc_chunks=2), id="by core"),
    pytest.param(
        replace(BATCH, stride=(2, 2)), WinogradConfig(8, 8, 2, 6, FLAT, 6, True), id="stride 2"
    ),
]


def test_a_narrower_tile_at_the_end_is_cut_off_in_a_network() -> None:
    """Relax has shapes of 64 bits; no sum of the tiles before the last one stands under a test."""
    config = WinogradConfig(16, 16, 4, 5, FLAT, 3)
    assert WinogradGeometry(CONV, config).ends_narrower
    shapes = (1, CHANNELS // 16, SIDE, SIDE, 16), packed_shape(CONV, config)
    x, w = (
        te.placeholder([tvm.tirx.IntImm("int64", extent) for extent in shape], "float32", name)
        for shape, name in zip(shapes, "xw", strict=True)
    )
    func = te.create_prim_func([x, w, compute(x, w, CONV, config)])
    lowered: list[str] = []

    @tvm.instrument.pass_instrument
    class AfterCutting:
        def run_after_pass(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
            if info.name == "s_tir.LoopPartition":
                lowered.append(mod.script())

    with tvm.transform.PassContext(instruments=[AfterCutting()]):
        tvm.compile(schedule_function(func, SKYLAKE), target=HOST.target)
    # 9 tiles: one of 5, one of 4; the first one's conditions are known to hold.
    assert "if T.bool(True)" in lowered[0]


@pytest.mark.parametrize(("conv", "config"), FLAT_CASES)
def test_tiles_as_one_axis(conv: ConvWorkload, config: WinogradConfig) -> None:
    """Register tiles go from one row of tiles into the next; a narrower one ends a chunk."""
    assert WinogradGeometry(conv, config).is_flat and misfit(conv, config) is None
    rng = np.random.default_rng(0)
    data = rng.normal(size=conv.in_shape).astype("float32")
    weight = rng.normal(size=conv.weight_shape).astype("float32") / 68
    check_layer(conv, config, data, weight, 4e-5)


@pytest.mark.parametrize("th_bn", [1, 4], ids=["rows in chunks", "all rows"])
def test_chunks_of_channels_that_transform_the_input(th_bn: int) -> None:
    """The same numbers as chunks of rows, in one parallel loop: no core waits for another one."""
    conv = ConvWorkload(2, 32, 14, 11, 64, (3, 3), padding=(1, 1, 1, 1))
    rows = WinogradConfig(16, 16, 4, 3, th_bn=th_bn)
    by_core = replace(rows, oc_chunks=2)
    rng = np.random.default_rng(0)
    data = stored(rng.normal(size=conv.in_shape).astype("float32"), Layout(16))
    weight = rng.normal(size=conv.weight_shape).astype("float32")
    inputs = [data, pack_weight(weight, conv, rows), np.zeros((1, 4, 1, 1, 16), "float32")]
    expected, found = (
        run(kernel(conv, config, HOST.cpu), inputs, (2, 4, 14, 11, 16), "float32")
        for config in (rows, by_core)
    )
    np.testing.assert_array_equal(found, expected)
    apart = replace(rows, th_bn=4, parallel_oc=True)
    loops = [kernel(conv, c, SKYLAKE).script().count("T.parallel(") for c in (by_core, apart)]
    assert loops == [1, 2]
