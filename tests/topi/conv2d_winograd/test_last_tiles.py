"""Last tiles that overhang the output: fewer products, and nothing read beyond the image."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from fresh_process import run_script
from nests import SKYLAKE
from samples import HOST, run, stored
from tvm.s_tir import SBlockRealize
from winograd_layer import check_layer

from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig, WinogradGeometry
from tvm_neocpu.topi.conv2d_winograd.packing import pack_weight
from tvm_neocpu.topi.kernel import kernel, unscheduled
from tvm_neocpu.topi.schedule_function import schedule_blocks
from tvm_neocpu.topi.tir.loops.rewrite_loops import over_body
from tvm_neocpu.topi.tir.tiles.drop_tiles import runs_of

# Outputs of the last tile: 1, 2 and 3 of 4, and of tiles of 3 and 2.
TAIL_CASES = [
    pytest.param((13, 14), WinogradConfig(16, 16, 4, 4, 4, 4, True), id="one register tile"),
    pytest.param((14, 14), WinogradConfig(16, 32, 4, 4, 2, 4, True), id="rows cut in 2 and 1"),
    pytest.param((14, 15), WinogradConfig(16, 16, 4, 4, 1, 1), id="chunks of rows"),
    pytest.param((9, 7), WinogradConfig(16, 32, 4, 2, 2, 4), id="a grid of 4 x 2 for 3 x 2 tiles"),
    pytest.param((7, 7), WinogradConfig(16, 32, 2, 4, 2, 4, True), id="F(2x2)"),
    pytest.param((8, 10), WinogradConfig(32, 16, 3, 4, 1, 3, True), id="F(3x3)"),
    pytest.param((5, 1), WinogradConfig(16, 16, 4, 1, 1, 2, True), id="columns of one output"),
]


def with_tails(
    config: WinogradConfig, side: tuple[int, int], stride: int, batch: int
) -> tuple[ConvWorkload, np.ndarray, np.ndarray]:
    """A convolution of so many outputs, its data and its weights."""
    height, width = (stride * (extent - 1) + 1 for extent in side)
    conv = ConvWorkload(batch, 32, height, width, 32, (3, 3), (stride, stride), (1, 1, 1, 1))
    rng = np.random.default_rng(1)
    data = rng.normal(size=conv.in_shape).astype("float32")
    return conv, data, rng.normal(size=conv.weight_shape).astype("float32") / 17


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("side", "config"), TAIL_CASES)
def test_last_tiles_multiply_less(
    side: tuple[int, int], config: WinogradConfig, stride: int
) -> None:
    conv, data, weight = with_tails(config, side, stride, batch=2)
    assert (conv.out_height, conv.out_width) == side
    assert WinogradGeometry(conv, config).drops_tiles is (stride == 1)
    check_layer(conv, config, data, weight, 1e-5)


@pytest.mark.parametrize(("side", "config"), TAIL_CASES)
def test_as_many_products_are_written_as_are_charged(
    side: tuple[int, int], config: WinogradConfig
) -> None:
    conv, *_ = with_tails(config, side, 1, batch=1)
    geometry = WinogradGeometry(conv, config)
    charged = sum(pixels * count for pixels, count in geometry.register_tiles)
    scheduled = schedule_blocks(unscheduled(conv, config), SKYLAKE)
    made = multiply_adds(scheduled.body, 1)
    assert made == charged * geometry.out_blocks * conv.in_channels * config.oc_bn
    tiles = np.prod(geometry.tiled.tiles) * geometry.tiled.products
    assert made < tiles * conv.in_channels * conv.out_channels


def multiply_adds(stmt: tvm.tirx.Stmt, passes: int) -> int:
    """How often the block that sums up products runs."""
    if isinstance(stmt, SBlockRealize) and stmt.block.name_hint == "winograd_product_update":
        return passes
    if isinstance(stmt, tvm.tirx.For):
        passes *= int(stmt.extent)
    found = 0

    def count(inner: tvm.tirx.Stmt) -> tvm.tirx.Stmt:
        nonlocal found
        found += multiply_adds(inner, passes)
        return inner

    over_body(stmt, count)
    return found


@pytest.mark.parametrize(
    ("needed", "runs"),
    [
        ((2, 2, 2), [(2, range(3))]),
        ((3, 4, 4, 4, 4, 3), [(3, range(0, 6, 5)), (4, range(1, 5))]),
        ((1, 2, 1, 2, 1), [(1, range(0, 5, 2)), (2, range(1, 4, 2))]),
        ((1, 1, 2, 1), [(1, range(2)), (2, range(2, 3)), (1, range(3, 4))]),
    ],
)
def test_products_that_need_as_many_tiles_share_a_nest(
    needed: tuple[int, ...], runs: list[tuple[int, range]]
) -> None:
    assert runs_of(needed) == runs


def test_what_a_dropped_tile_would_read_is_not_read() -> None:
    """Infinity in the last pixel: outputs that see it are not finite, nor are those of its tile."""
    config = WinogradConfig(16, 16, 4, 4, 4, 4, True)
    conv, data, weight = with_tails(config, (14, 14), 1, batch=1)
    data[..., 13, 13] = np.inf
    no_bias = np.zeros((1, 2, 1, 1, 16), "float32")
    inputs = [stored(data, Layout(16)), pack_weight(weight, conv, config), no_bias]
    found = run(kernel(conv, config, HOST.cpu), inputs, (1, 2, 14, 14, 16), "float32")
    assert np.isfinite(found[:, :, :12, :12]).all()
    assert np.isfinite(found[:, :, :12]).all() and np.isfinite(found[:, :, :, :12]).all()


# The image ends where a page begins that nobody may read.
BEFORE_A_LOCKED_PAGE = """
import ctypes, mmap
import numpy as np, tvm
from tvm.ir.transform import PassContext
from tvm_neocpu.codegen.kernels import build_module
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig, WinogradGeometry
from tvm_neocpu.topi.kernel import kernel

host = parse_target()
conv = ConvWorkload(1, 16, 64, 1, 16, (3, 1), padding=(1, 0, 1, 0))
config = WinogradConfig(16, 16, 3, 1)
assert WinogradGeometry(conv, config).tails[0].recurrence
page, size = mmap.PAGESIZE, conv.in_bytes
assert size % page == 0
memory = np.frombuffer(mmap.mmap(-1, size + page), "uint8")
locked = ctypes.c_void_p(memory.ctypes.data + size)
assert ctypes.CDLL(None).mprotect(locked, ctypes.c_size_t(page), 0) == 0
data = memory[:size].view("float32").reshape(1, 1, 64, 1, 16)
func = kernel(conv, config, host.cpu).with_attr("global_symbol", "main")
others = [np.zeros([int(side) for side in param.shape], "float32") for param in func.params[1:]]
call = build_module({"main": func}, host.target, PassContext.current())["main"]
call(tvm.runtime.from_dlpack(data), *map(tvm.runtime.tensor, others))
"""


def test_pixels_beyond_an_image_are_not_read() -> None:
    """A last tile's select reads both its sides: what whole tiles have there, too."""
    run_script(BEFORE_A_LOCKED_PAGE)
