"""All tiles walk one part of a reduction before the next."""

from __future__ import annotations

from dataclasses import replace

import pytest
from nests import KINDS
from tvm import tirx
from tvm.s_tir import SBlockRealize
from tvm.tirx import Buffer, For, SeqStmt, Stmt

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.kernel import kernel, unscheduled
from tvm_neocpu.topi.schedule_function import schedule_blocks
from tvm_neocpu.topi.tir.tiles.part_by_part import CHUNK_KEY, PART_KEY, walk_parts

CONV = ConvWorkload(1, 64, 14, 14, 48, (1, 1))
WHOLE = Im2colConfig(16, 16, 6, 33)
ZEN_3 = Cpu("znver3", AVX2, cores=2)
TILE = "16, unroll 6, vector 16"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param(WHOLE, [f"3, 33, 4, {TILE}"], id="whole"),
        pytest.param(replace(WHOLE, parts=4), [f"3, 3, 33, {TILE}", f"3, 33, {TILE}"], id="4"),
        pytest.param(replace(WHOLE, parts=2), [f"3, 33, 2, {TILE}"] * 2, id="2"),
        pytest.param(
            replace(WHOLE, parts=4, parallel_oc=True),
            [f"parallel 3, 3, 33, {TILE}", f"parallel 3, 33, {TILE}"],
            id="blocks of channels in parallel",
        ),
    ],
)
def test_the_loops_of_parts(config: Im2colConfig, expected: list[str]) -> None:
    """Parts but the last; blocks of output channels, tiles, steps and channels; pixels, a vector.

    The last part is a nest of its own, which ends in the epilogue.
    """
    assert _nests(schedule_blocks(unscheduled(CONV, config), ZEN_3), "update") == expected


@pytest.mark.parametrize(
    ("parts", "loads", "spills"),
    [(1, 0, 0), (2, 1, 1), (4, 2, 1)],
)
def test_sums_wait_in_memory_between_parts(parts: int, loads: int, spills: int) -> None:
    """A nest of several parts loads them unless it is the first one."""
    text = kernel(CONV, replace(WHOLE, parts=parts), ZEN_3).script()
    assert (
        text.count('sblock("im2col_product_local_from')
        + text.count('sblock("im2col_product_local_last_from')
        == loads
    ), text
    assert text.count('sblock("im2col_product_local_sums_from') == spills
    assert CHUNK_KEY not in text and PART_KEY not in text


def test_tiles_stay_as_small_as_registers() -> None:
    func = kernel(CONV, replace(WHOLE, parts=4), ZEN_3)
    tiles = [buffer for buffer in _allocated(func.body) if buffer.scope() == "local"]
    assert [[int(extent) for extent in tile.shape] for tile in tiles] == [[1, 6, 16]] * 2


def test_a_reduction_in_one_part_stays_as_it_is() -> None:
    func = kernel(CONV, WHOLE, ZEN_3)
    assert walk_parts(func, ZEN_3) is func


def _nests(func: tirx.PrimFunc, name: str) -> list[str]:
    """Loops of more than one pass around each block of that name."""
    found: list[str] = []

    def look(stmt: Stmt, loops: tuple[str, ...]) -> None:
        if isinstance(stmt, For):
            kept = () if int(stmt.extent) == 1 else (f"{KINDS[int(stmt.kind)]}{stmt.extent}",)
            look(stmt.body, loops + kept)
        elif isinstance(stmt, SeqStmt):
            for part in stmt:
                look(part, loops)
        elif isinstance(stmt, SBlockRealize):
            if name in str(stmt.block.name_hint):
                found.append(", ".join(loops))
            look(stmt.block.body, loops)
        elif hasattr(stmt, "body"):
            look(stmt.body, loops)

    look(func.body, ())
    return found


def _allocated(stmt: Stmt) -> list[Buffer]:
    """Buffers of a statement's blocks."""
    if isinstance(stmt, SBlockRealize):
        return [*stmt.block.alloc_buffers, *_allocated(stmt.block.body)]
    if isinstance(stmt, SeqStmt):
        return [buffer for part in stmt for buffer in _allocated(part)]
    return _allocated(stmt.body) if hasattr(stmt, "body") else []
