"""The schedule of sums of products that no template owns: convolutions and matrix products.

for b, i, j, k: y[b, i, j] += x[b, i, k] * w[b, k, j]

The last spatial axis (j; a convolution's columns) becomes vectors if some factor lies side by side
along it. A spatial axis that this factor does not have (i; a convolution's output channels) gives
the rows of a register tile: each vector that is loaded serves all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, Schedule
from tvm.s_tir.schedule import LoopRV, SBlockRV

from tvm_neocpu.core.machine.cpu import VectorUnit
from tvm_neocpu.core.network.layout import largest_factor
from tvm_neocpu.topi.schedule import steps
from tvm_neocpu.topi.tir.loops.affine import uses

# With fewer columns than this a vector of them is no faster than they are one by one.
MIN_COLUMNS = 4
# Vectors of a tile's row, best first.
_ROW_VECTORS = (2, 3, 4, 1)
# Rows of a tile at most.
_MAX_ROWS = 8
# Registers of a tile's step beside the tile: a row of the vectors, and a broadcast factor.
_OTHER_REGISTERS = 5


def factors_of(block: SBlock) -> tuple[TensorLoad, ...]:
    """The elements whose product a block sums; empty for any other block.

    # y[..] = y[..] + cast(a[..]) * b[..]  ->  (a[..], b[..])
    """
    stored = getattr(block.body, "value", None)
    if block.init is None or not isinstance(stored, tirx.Add):
        return ()
    parts = _parts(stored.b)
    if len(parts) < 2 or not all(isinstance(part, TensorLoad) for part in parts):
        return ()
    # A square is a norm, not a matrix product.
    return () if all(_are_same(part, parts[0]) for part in parts[1:]) else tuple(parts)


def _are_same(one: TensorLoad, other: TensorLoad) -> bool:
    same = one.source.same_as(other.source)
    return same and bool(tvm_ffi.structural_equal(list(one.indices), list(other.indices)))


def is_contraction(sch: Schedule, block: SBlockRV) -> bool:
    """Whether a block sums products of different elements."""
    return bool(factors_of(sch.get(block)))


def tile_contraction(sch: Schedule, block: SBlockRV, unit: VectorUnit, parallel: bool) -> bool:
    """Order and vectorise the loops of a contraction; ``parallel``: over the tiles.

    # for n, o, x, c, k  ->  for n, x_o, o_o: tile = 0; for c, k: tile[o, x] += ..; store tile

    Returns False, with nothing changed, where no factor lies side by side along the last spatial
    axis, or the extent of that axis is not known.
    """
    axes, loops = list(sch.get(block).iter_vars), sch.get_loops(block)
    is_reduced = [int(axis.iter_type) == steps.REDUCE_AXIS for axis in axes]
    if len(loops) != len(axes) or all(is_reduced):
        return False
    *outer, last = (place for place, reduced in enumerate(is_reduced) if not reduced)
    extent = steps.static_extent(sch, loops[last])
    along = [load for load in factors_of(sch.get(block)) if _is_along(load, axes[last].var)]
    if extent is None or extent < MIN_COLUMNS or not along:
        return False
    width = _row_width(extent, unit)
    vectors = 1 if width is None else unit.registers_of(width)
    limit = min(_MAX_ROWS, (unit.registers - _OTHER_REGISTERS) // vectors)
    shared = [place for place in outer if not any(_reads(load, axes[place].var) for load in along)]
    place, count = _rows(sch, {place: loops[place] for place in shared}, limit)
    outside = [loops[each] for each in outer if each != place]
    rows: list[LoopRV] = []
    columns = loops[last]
    if width is not None:
        across, columns = sch.split(columns, [None, width])
        outside.append(across)
    if place is not None:
        down, row = sch.split(loops[place], [None, count])
        outside.append(down)
        rows.append(row)
    reduction = [loop for loop, reduced in zip(loops, is_reduced, strict=True) if reduced]
    if width is None:
        _keep_in_cache(sch, block, _Nest(outside, reduction, rows, columns), parallel)
    else:
        _keep_in_registers(sch, block, _Nest(outside, reduction, rows, columns), parallel, unit)
    return True


@dataclass(frozen=True)
class _Nest:
    """The loops of a contraction by what they are for; ``rows`` has one loop or none."""

    outside: list[LoopRV]
    reduction: list[LoopRV]
    rows: list[LoopRV]
    columns: LoopRV


def _keep_in_registers(
    sch: Schedule, block: SBlockRV, nest: _Nest, parallel: bool, unit: VectorUnit
) -> None:
    """The tile is ``local``: rows unrolled and lanes in vectors where it is zeroed, summed, stored.

    All its indices are constants then, and LLVM promotes it to registers.
    """
    sch.reorder(*nest.outside, *nest.reduction, *nest.rows, nest.columns)
    store = sch.cache_write(block, 0, steps.LOCAL)
    outside = [steps.parallel_fused(sch, *nest.outside)] if parallel else nest.outside
    sch.reverse_compute_at(store, outside[-1], preserve_unit_loops=True)
    _tile(sch, [*nest.rows, nest.columns], unit)
    _tile(sch, sch.get_loops(store)[len(outside) :], unit)
    # Last: the sum alone is no reduction that can be vectorised or run in parallel.
    zero = sch.decompose_reduction(block, nest.reduction[0])
    _tile(sch, sch.get_loops(zero)[len(outside) :], unit)


def _keep_in_cache(sch: Schedule, block: SBlockRV, nest: _Nest, parallel: bool) -> None:
    """For columns that are no multiple of a vector: whole rows are summed where they are stored.

    # for c, k: for x: y[0, x] += a * b[x]; y[1, x] += a' * b[x]; ..

    LLVM makes vectors of the columns' loop, and a scalar loop of their remainder.
    """
    sch.reorder(*nest.outside, *nest.reduction, nest.columns, *nest.rows)
    if parallel and nest.outside:
        steps.parallel_fused(sch, *nest.outside)
    steps.unroll_all(sch, *nest.rows)
    sch.decompose_reduction(block, nest.reduction[0])


def _tile(sch: Schedule, loops: Sequence[LoopRV], unit: VectorUnit) -> None:
    *rows, lanes = loops
    steps.unroll_all(sch, *rows)
    steps.vectorize_lanes(sch, lanes, unit)


def _row_width(extent: int, unit: VectorUnit) -> int | None:
    """The columns of a tile: whole vectors that divide the extent; ``None`` if none do."""
    widths = (vectors * unit.lanes for vectors in _ROW_VECTORS)
    return next((width for width in widths if extent % width == 0), None)


def _rows(sch: Schedule, loops: dict[int, LoopRV], limit: int) -> tuple[int | None, int]:
    """The innermost of the axes that can be split into tiles of rows, and the rows of a tile."""
    for place, loop in reversed(loops.items()):
        extent = steps.static_extent(sch, loop)
        count = 1 if extent is None else largest_factor(extent, limit)
        if count > 1:
            return place, count
    return None, 1


def _is_along(load: TensorLoad, axis: tirx.Var) -> bool:
    """Whether consecutive values of the axis read consecutive elements: ``x[n, c, axis + k]``."""
    *others, last = load.indices
    if any(uses(index, axis) for index in others):
        return False
    terms = _terms(last)
    own = [term for term in terms if term.same_as(axis)]
    return len(own) == 1 and not any(uses(term, axis) for term in terms if not term.same_as(axis))


def _terms(index: Any) -> list[Any]:
    """``[a, b, c]`` for ``a + b + c``."""
    return [*_terms(index.a), *_terms(index.b)] if isinstance(index, tirx.Add) else [index]


def _reads(load: TensorLoad, axis: tirx.Var) -> bool:
    return any(uses(index, axis) for index in load.indices)


def _parts(product: Any) -> list[Any]:
    """``[a, b, c]`` for ``a * b * c``; casts are looked through."""
    if isinstance(product, tirx.Mul):
        return [*_parts(product.a), *_parts(product.b)]
    return [product.value if isinstance(product, tirx.Cast) else product]
