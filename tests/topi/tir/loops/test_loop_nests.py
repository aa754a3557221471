"""Looking at scheduled loop nests: the block inside, where it reads, which operand is which."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from nests import SKYLAKE
from tvm import te, tirx
from tvm.s_tir import SBlockRealize, Schedule
from tvm.sym import Analyzer
from tvm.tirx import Evaluate, For, SeqStmt, Stmt

from tvm_neocpu.core.network.config import Config
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.kernel import unscheduled
from tvm_neocpu.topi.schedule_function import schedule_blocks
from tvm_neocpu.topi.tir.loops.loop_nests import (
    corner,
    data_read,
    innermost_block,
    loops_of,
    position,
    uses,
    weight_read,
)
from tvm_neocpu.topi.tir.loops.rewrite_loops import rewrite_loops, with_body

Product = Callable[[tirx.Expr, tirx.Expr], tirx.Expr]


def update_of(product: Product, types: str = "float32") -> SBlockRealize:
    """The multiply-add of acc[n, c] += x[n, k] * w[k, c], its zeroing split off."""
    x, w = te.placeholder((4, 8), types, "x"), te.placeholder((8, 16), types, "w")
    k = te.reduce_axis((0, 8), name="k")
    acc = te.compute((4, 16), lambda n, c: te.sum(product(x[n, k], w[k, c]), axis=[k]), name="acc")
    sch = Schedule(te.create_prim_func([x, w, acc]))
    block = sch.get_sblock("acc")
    n, c, step = sch.get_loops(block)
    sch.reorder(n, step, c)
    sch.decompose_reduction(block, step)
    return block_named(sch.mod["main"], "acc_update")


def block_named(func: tirx.PrimFunc, name: str) -> SBlockRealize:
    """The block of that name, as it stands in a function."""
    found: list[SBlockRealize] = []

    def look(loop: For, body: Stmt, _: tuple[For, ...]) -> For:
        block = innermost_block(body)
        if block is not None and block.block.name_hint == name and not found:
            found.append(block)
        return with_body(loop, body)

    rewrite_loops(func, look)
    return found[0]


@pytest.mark.parametrize(
    "product",
    [
        lambda x, w: x * w,
        lambda x, w: w * x,
        lambda x, w: x.astype("float64") * w.astype("float64"),
        lambda x, w: w.astype("float64") * x.astype("float64"),
        lambda x, w: (w + w) * x,
    ],
    ids=["data first", "weight first", "cast", "cast, weight first", "weight twice"],
)
def test_operands_are_found_in_any_order(product: Product) -> None:
    update = update_of(product)
    weight, data = weight_read(update), data_read(update)
    assert weight is not None and weight.source.name == "w"
    assert data is not None and data.source.name == "x"


def test_what_is_not_read_is_not_found() -> None:
    squared = update_of(lambda x, w: w * w)
    assert data_read(squared) is None and weight_read(squared) is not None
    summed = update_of(lambda x, w: x)
    assert weight_read(summed) is None and data_read(summed) is not None


CONV = ConvWorkload(1, 32, 8, 8, 32, (3, 3), padding=(1, 1, 1, 1))


@pytest.mark.parametrize(
    ("config", "block", "data"),
    [
        (ConvConfig(16, 16, 8), "conv2d_acc_update", "conv2d_pad"),
        (ConvConfig(0, 16, 8), "conv2d_acc_update", "conv2d_pad"),
        (Im2colConfig(16, 16, 8), "im2col_product_update", "im2col_columns"),
        (WinogradConfig(16, 16, 2, 4), "winograd_product_update", "winograd_pack"),
    ],
    ids=["direct", "direct, plain", "im2col", "winograd"],
)
def test_operands_of_the_templates(config: Config, block: str, data: str) -> None:
    update = block_named(schedule_blocks(unscheduled(CONV, config), SKYLAKE), block)
    weight, read = weight_read(update), data_read(update)
    assert weight is not None and weight.source.name == "weight"
    assert read is not None and read.source.name == data


def loop(name: str, extent: int, body: Stmt) -> For:
    return For(tirx.Var(name, "int32"), 0, extent, tirx.ForKind.SERIAL, body)


def test_loops_and_the_block_behind_requests() -> None:
    update = update_of(lambda x, w: x * w)
    request = Evaluate(tirx.const(0, "int32"))
    inner = loop("inner", 3, SeqStmt([request, update]))
    outer = loop("outer", 5, SeqStmt([request, inner]))
    assert innermost_block(outer).same_as(update)
    assert [str(found.loop_var.name) for found in loops_of(outer)] == ["outer", "inner"]
    assert innermost_block(loop("empty", 3, request)) is None


def test_position_counts_passes() -> None:
    inner = loop("inner", 3, Evaluate(tirx.const(0, "int32")))
    outer = loop("outer", 5, inner)
    place, count = position([outer, inner])
    assert count == 15
    analyzer = Analyzer()
    analyzer.bind(outer.loop_var, tirx.const(4, "int32"))
    analyzer.bind(inner.loop_var, tirx.const(2, "int32"))
    assert int(analyzer.simplify(place)) == 14
    assert position([])[1] == 1


def test_corners_of_a_region() -> None:
    """The first and the last pass through the loops over pixels of a tile."""
    func = schedule_blocks(unscheduled(CONV, ConvConfig(16, 16, 4, reg_m=2)), SKYLAKE)
    found: list[tuple[int, ...]] = []

    def look(outer: For, body: Stmt, around: tuple[For, ...]) -> For:
        update = innermost_block(outer)
        tile = loops_of(outer)
        if update is not None and update.block.name_hint == "conv2d_acc_update" and len(tile) == 3:
            region = data_read(update).region
            first, last = (corner(update, region, tile, at_end) for at_end in (False, True))
            analyzer = Analyzer()
            found.append(
                tuple(int(analyzer.simplify(b - a)) for a, b in zip(first, last, strict=True))
            )
        return with_body(outer, body)

    rewrite_loops(func, look)
    # One row down and three columns on from the first pixel; the block and its channel stay.
    assert found == [(0, 0, 1, 3, 0)]


def test_uses() -> None:
    a, b = tirx.Var("a", "int32"), tirx.Var("b", "int32")
    assert uses(a * 4 + 1, a)
    assert not uses(a * 4 + 1, b)
    assert not uses(tirx.const(3, "int32"), a)
