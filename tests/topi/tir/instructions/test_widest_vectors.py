"""A tile's rows are read in whole registers: the same elements, no vectors that are too short."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from nests import SKYLAKE
from onnx_text import check_like_peer, normal, parsed
from tvm import te, tirx
from tvm.s_tir import Schedule

from tvm_neocpu import relay
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.tir.instructions.widest_vectors import widest_vectors


def row_of_tile(channels: int, lanes: int, step: int = 1, together: int = 1) -> tirx.PrimFunc:
    """Rows of ``channels`` stored from a tile of ``lanes``, a bias of every ``step``-th added.

    ``together`` rows are a loop; where it does not divide them, the last ones are tested for.
    """
    data = te.placeholder((5, lanes), name="data")
    bias = te.placeholder((step * channels,), name="bias")
    tile = te.compute((5, lanes), lambda n, c: data[n, c] * 2.0, name="tile")
    out = te.compute((5, channels), lambda n, c: tile[n, c] + bias[step * c], name="out")
    sch = Schedule(te.create_prim_func([data, bias, out]))
    tile_block, out_block = sch.get_sblock("tile"), sch.get_sblock("out")
    sch.set_scope(tile_block, 0, steps.LOCAL)
    sch.split(sch.get_loops(out_block)[0], [None, together])
    unit = SKYLAKE.unit("float32")
    for block in (tile_block, out_block):
        steps.vectorize_lanes(sch, sch.get_loops(block)[-1], unit)
    return sch.mod["main"]


def opaque_row(channels: int, lanes: int, step: int = 1, together: int = 1) -> tirx.PrimFunc:
    """The same without axes of blocks, as the rewrite finds it."""
    mod = tvm.IRModule({"main": row_of_tile(channels, lanes, step, together)})
    return tvm.s_tir.transform.ConvertBlocksToOpaque()(mod)["main"]


@pytest.mark.parametrize(
    ("channels", "lanes", "parts"),
    [(24, 32, "16, 8"), (40, 48, "16, 16, 8"), (28, 32, "16, 8, 4"), (36, 48, "16, 16, 4")],
)
def test_a_row_is_cut_into_registers_and_a_rest(channels: int, lanes: int, parts: str) -> None:
    before = opaque_row(channels, lanes)
    after = widest_vectors(before, SKYLAKE)
    widths = [int(width) for width in parts.split(", ")]
    assert after.script().count("T.Shuffle(") == sum(width < 16 for width in widths)
    for func in (before, after):
        rng = np.random.default_rng(0)
        inputs = [rng.random((5, lanes), "float32"), rng.random(channels, "float32")]
        out = tvm.runtime.empty((5, channels), "float32")
        built = tvm.compile(func, target=parse_target().target)
        built(*map(tvm.runtime.tensor, inputs), out)
        np.testing.assert_array_equal(out.numpy(), inputs[0][:, :channels] * 2 + inputs[1])


@pytest.mark.parametrize(
    ("channels", "lanes", "step", "why"),
    [
        (24, 32, 2, "the bias would be gathered over more lanes"),
        (32, 32, 1, "whole registers"),
        (12, 16, 1, "one register holds all"),
    ],
)
def test_other_rows_stay(channels: int, lanes: int, step: int, why: str) -> None:
    before = opaque_row(channels, lanes, step)
    assert tvm_ffi.structural_equal(widest_vectors(before, SKYLAKE), before), why


def test_a_row_that_may_not_be_there_is_tested_for() -> None:
    """A store without its test wrote behind the last pixel."""
    after = widest_vectors(opaque_row(24, 32, together=3), SKYLAKE)
    assert after.script().count("T.where(") == 2
    rng = np.random.default_rng(0)
    inputs = [rng.random((5, 32), "float32"), rng.random(24, "float32")]
    # The sixth row is not the function's; its memory begins where vectors may.
    raw = np.zeros(6 * 24 * 4 + 64, "uint8")
    start = -raw.ctypes.data % 64
    memory = raw[start : start + 6 * 24 * 4].view("float32").reshape(6, 24)
    memory[:] = 7
    out = tvm.runtime.from_dlpack(memory[:5])
    tvm.compile(after, target=parse_target().target)(*map(tvm.runtime.tensor, inputs), out)
    np.testing.assert_array_equal(memory[:5], inputs[0][:, :24] * 2 + inputs[1])
    assert (memory[5] == 7).all()


def test_a_slope_without_axes_behind_dead_lanes() -> None:
    """PRelu's zero is a tensor of no axes, which the rewrite took for one of a row."""
    weights = {"w": normal(24, 24, 1, 1), "p": normal(24, 1, 1, seed=1)}
    text = "g (float[1,24,15,15] x) => (y) { c = Conv (x, w) y = PRelu (c, p) }"
    model = parsed(text, **weights)
    mod, params = relay.frontend.from_onnx(model)
    relay.build(mod, "llvm -mcpu=skylake-avx512", params=params, cache=False)
    check_like_peer(model, x=normal(1, 24, 15, 15))


def test_the_tile_of_a_block_with_dead_lanes_stays_in_registers() -> None:
    """LLVM took the tile apart through integers where parts of 8 of a vector of 32 were read."""
    workload = ConvWorkload(1, 3, 32, 28, 24, (3, 3), (2, 2), (1, 1, 1, 1))
    config = ConvConfig(0, 24, 14, unroll_ker=False, reg_m=1, oh_bn=16, oc_lanes=32)
    target = parse_target("llvm -mcpu=skylake-avx512")
    built = tvm.compile(kernel(workload, config, target.cpu), target=target.target)
    assembly = built.mod.inspect_source("asm")
    assert "vfmadd" in assembly
    assert "vpextrq" not in assembly
