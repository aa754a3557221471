"""The layout transform as a Relax call: made here and recognised here.

A transform that moves no element (one pixel, or block 1) is a reshape, which costs nothing.
"""

from __future__ import annotations

import math

import numpy as np
import tvm_ffi
from tvm import relax, tirx
from tvm.ir import GenericConst

from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.types import uniform
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name, static_shape
from tvm_neocpu.relay_passes.operators.call_form import OPAQUE, CallForm
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload

TRANSFORM = "relax.layout_transform"


def is_free(logical: tuple[int, int, int, int], before: Layout, after: Layout) -> bool:
    """Whether both layouts store a (N, C, H, W) tensor in the same order."""
    return TransformWorkload(*logical, before.block, after.block).is_free


def transform(
    data: relax.Expr, logical: tuple[int, int, int, int], before: Layout, after: Layout
) -> relax.Expr:
    """The expression that stores ``data`` in another layout; not yet emitted."""
    if before == after:
        return data
    if is_free(logical, before, after):
        return relax.op.reshape(data, after.shape_of(logical))
    return relax.op.layout_transform(data, _index_map(before, after))


def stored_in(array: np.ndarray, before: Layout, after: Layout) -> np.ndarray:
    """A feature map stored in ``before``, stored in ``after``: a view where that is possible."""
    if before.is_blocked:
        logical = before.logical_shape(array.shape)
        array = array.transpose(0, 1, 4, 2, 3).reshape(logical)
    if not after.is_blocked:
        return array
    batch, channels, height, width = array.shape
    blocks = array.reshape(batch, channels // after.block, after.block, height, width)
    return blocks.transpose(0, 1, 3, 4, 2)


def transform_layouts(expr: relax.Expr) -> tuple[Layout, Layout] | None:
    """(before, after) of a call that :func:`transform` wrote, by its ranks and innermost extents.

    ``None`` for any other expression: a transform from NCHW to NHWC, or one that pads.
    """
    if op_name(expr) != TRANSFORM:
        return None
    source, result = static_shape(expr.args[0]), static_shape(expr)
    if source is None or result is None or math.prod(source) != math.prod(result):
        return None
    before, after = _layout_of_rank(source), _layout_of_rank(result)
    if before == after or len(source) not in (4, 5):
        return None
    ours = tirx.IndexMap.from_func(_index_map(before, after))
    same = tvm_ffi.structural_equal(expr.attrs.index_map, ours)
    return (before, after) if same else None


def transform_workload(expr: relax.Expr) -> TransformWorkload | None:
    """The workload of a transform call of ours; ``None`` for any other expression."""
    layouts = transform_layouts(expr)
    if layouts is None:
        return None
    before, after = layouts
    source = static_shape(expr.args[0])
    assert source is not None
    logical, types = before.logical_shape(source), uniform(dtype_of(expr))
    return TransformWorkload(*logical, before.block, after.block, types)


def count_transforms(mod: object) -> int:
    """The number of layout transforms in a module's functions, transforms of constants excluded."""
    found = 0

    def visit(expr: relax.Expr) -> None:
        nonlocal found
        if transform_layouts(expr) is not None and not isinstance(expr.args[0], GenericConst):
            found += 1

    for func in mod.functions.values():  # type: ignore[attr-defined]
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return found


def _layout_of_rank(shape: tuple[int, ...]) -> Layout:
    return Layout(shape[4]) if len(shape) == 5 else Layout(0)


def _index_map(before: Layout, after: Layout):
    """An index map between plain and blocked, or between two blocks."""
    if not before.is_blocked:
        x = after.block
        return lambda n, c, h, w: (n, c // x, h, w, c % x)
    y = before.block
    if not after.is_blocked:
        return lambda n, o, h, w, i: (n, o * y + i, h, w)
    x = after.block
    return lambda n, o, h, w, i: (n, (o * y + i) // x, h, w, (o * y + i) % x)


LAYOUT_TRANSFORM_FORM = CallForm(
    operator="layout_transform",
    op=TRANSFORM,
    read=transform_workload,
    decides=False,
    pattern=OPAQUE,
)
