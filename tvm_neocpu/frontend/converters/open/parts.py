"""Slice, Split, Concat and Gather over extents that a run computes."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import relax, te, tirx

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.places import extents_of, from_end
from tvm_neocpu.frontend.converters.compute.run_checks import require, require_within
from tvm_neocpu.frontend.converters.known import Extent, as_expr
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.frontend.converters.open.at_run_time import (
    at_extents,
    equal,
    names_of,
    read,
)
from tvm_neocpu.relay_passes.operators.call_form import OUT_ELEMWISE_FUSABLE

# What exporters write for the end of an axis.
_FAR = 2**31 - 1


def slice_(node: Node) -> relax.Expr:
    """Elements from ``starts`` to ``ends`` by ``steps``, as Python slices have them.

    TVM's importer takes axes and steps that a run computes.
    """
    if any(node.input(place) is not None and node.known(place) is None for place in (3, 4)):
        steps = read(node, 4)
        if steps is not None:
            zero = tirx.const(0, "int64")
            require(node, [tirx.NE(as_expr(step), zero) for step in steps.flat])
        return node.by_tvm()
    own = extents_of(node.data)
    if node.opset >= 10:
        starts, ends, axes, steps = (_list(node, place) for place in range(1, 5))
    else:
        starts, ends, axes = (node.attributes.get(name) for name in ("starts", "ends", "axes"))
        steps = None
    starts, ends = list(starts or []), list(ends or [])
    axes = list(range(len(starts))) if axes is None else list(axes)
    steps = [1] * len(starts) if steps is None else list(steps)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise UnsupportedOperatorError(f"starts {starts}, ends {ends}, axes {axes}, steps {steps}")
    if any(not isinstance(axis, int) or not -len(own) <= axis < len(own) for axis in axes):
        raise UnsupportedOperatorError(f"axes {axes} of data of rank {len(own)}")
    if 0 in steps:
        raise UnsupportedOperatorError(f"steps {steps}")
    firsts: list[Extent] = [0] * len(own)
    by, result = [1] * len(own), list(own)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        firsts[axis], result[axis] = _range(node, start, end, step, own[axis])
        by[axis] = step
    return _strided(node, node.data, firsts, by, result)


def _range(
    node: Node, start: Extent, end: Extent, step: int, extent: Extent
) -> tuple[Extent, Extent]:
    """The first element of a slice and the number of its elements."""
    simple = node.extents.simple
    if all(isinstance(number, int) for number in (start, end, extent)):
        first, last, _ = slice(start, end, step).indices(extent)
        return first, len(range(first, last, step))
    low, high = (0, extent) if step > 0 else (-1, as_expr(extent) - 1)
    first = simple(_bounded(node, start, extent, low, high))
    last = simple(_bounded(node, end, extent, low, high))
    if step > 0:
        count = tirx.floordiv(
            as_expr(last) - as_expr(first) + (step - 1), tirx.const(step, "int64")
        )
    else:
        count = tirx.floordiv(
            as_expr(first) - as_expr(last) + (-step - 1), tirx.const(-step, "int64")
        )
    return first, simple(tirx.max(count, tirx.const(0, "int64")))


def _bounded(node: Node, place: Extent, extent: Extent, low: Extent, high: Extent) -> Extent:
    """A place that may count from the end, moved into the axis."""
    if isinstance(place, int):
        if place >= _FAR:
            return high
        if place <= -_FAR:
            return low
        moved = as_expr(place) if place >= 0 else as_expr(extent) + place
    elif node.extents.proves(place >= 0):
        moved = place
    else:
        moved = tirx.Select(place < 0, place + as_expr(extent), place)
    return tirx.max(tirx.min(moved, as_expr(high)), as_expr(low))


def _strided(
    node: Node,
    data: relax.Expr,
    firsts: Sequence[Extent],
    steps: Sequence[int],
    result: Sequence[Extent],
) -> relax.Expr:
    own = extents_of(data)
    known = node.extents
    if all(
        first == 0 and step == 1 and known.same(extent, mine)
        for first, step, extent, mine in zip(firsts, steps, result, own, strict=True)
    ):
        return data
    shape = names_of(node, result, [f"sliced_{axis}" for axis in range(len(own))])

    def compute(data: te.Tensor, shape: list[tirx.Expr], firsts: list[tirx.Expr]) -> te.Tensor:
        def element(*at: tirx.Var) -> tirx.Expr:
            places = zip(at, firsts, steps, strict=True)
            return data(*(first + place * step for place, first, step in places))

        return te.compute(shape, element, name="slice")

    given = [[as_expr(number) for number in part] for part in (shape, firsts)]
    return node.builder.emit_te(compute, data, *given, primfunc_name_hint="slice")


def split(node: Node) -> relax.Expr:
    """Parts of equal length, the last one shorter, or of given lengths; a run checks their sum."""
    own = extents_of(node.data)
    axis = int(node.attributes.get("axis", 0))
    if not -len(own) <= axis < len(own):
        raise UnsupportedOperatorError(f"axis {axis} is outside data of rank {len(own)}")
    axis %= len(own)
    lengths = _lengths(node, own[axis])
    total = sum(lengths[1:], lengths[0])
    if not node.extents.same(total, own[axis]):
        require(node, [equal(total, own[axis])])
        require_within(node, lengths)
    parts, first = [], 0
    for length in lengths:
        firsts, result = [0] * len(own), list(own)
        firsts[axis], result[axis] = first, length
        part = _strided(node, node.data, firsts, [1] * len(own), result)
        parts.append(part)
        first = node.extents.simple(as_expr(first) + as_expr(length))
    return parts[0] if len(parts) == 1 else relax.Tuple(parts)


def _lengths(node: Node, extent: Extent) -> list[Extent]:
    given = node.attributes.get("split")
    if given is not None:
        return [int(length) for length in given]
    values = read(node, 1)
    if values is not None:
        return list(values.flat)
    count = int(node.attributes.get("num_outputs", node.outputs))
    length = tirx.floordiv(as_expr(extent) + (count - 1), tirx.const(count, "int64"))
    zero = tirx.const(0, "int64")
    return [
        node.extents.simple(tirx.max(tirx.min(length, as_expr(extent) - length * at), zero))
        for at in range(count)
    ]


def concat(node: Node) -> relax.Expr:
    """Tensors behind each other; a run checks that their other extents are equal."""
    axis = int(node.attributes["axis"])
    values = [node.required(place) for place in range(len(node.inputs))]
    shapes = [extents_of(value) for value in values]
    rank = len(shapes[0])
    if any(len(shape) != rank for shape in shapes) or not -rank <= axis < rank:
        raise UnsupportedOperatorError(f"axis {axis} of tensors of ranks {[*map(len, shapes)]}")
    axis %= rank
    common = [
        next((shape[at] for shape in shapes if isinstance(shape[at], int)), shapes[0][at])
        for at in range(rank)
    ]
    fitted = []
    for value, shape in zip(values, shapes, strict=True):
        target = [shape[at] if at == axis else common[at] for at in range(rank)]
        fitted.append(at_extents(node, value, target))
    lengths = [shape[axis] for shape in shapes]
    if all(isinstance(length, int) for length in lengths):
        return relax.op.concat(fitted, axis)
    ends = [as_expr(lengths[0])]
    for length in lengths[1:]:
        ends.append(as_expr(node.extents.simple(ends[-1] + as_expr(length))))
    (total,) = names_of(node, [ends[-1]], ["joined"])

    def compute(parts: list[te.Tensor], ends: list[tirx.Expr], total: tirx.Expr) -> te.Tensor:
        def element(*at: tirx.Var) -> tirx.Expr:
            result = None
            for place in range(len(parts) - 1, -1, -1):
                first = ends[place - 1] if place else tirx.const(0, "int64")
                value = parts[place](*at[:axis], at[axis] - first, *at[axis + 1 :])
                inside = at[axis] < ends[place]
                result = value if result is None else tirx.if_then_else(inside, value, result)
            return result

        shape = [*parts[0].shape[:axis], total, *parts[0].shape[axis + 1 :]]
        return te.compute(shape, element, name="concat")

    # No reshape is fused with it: each element would be a tower of choices and remainders.
    return node.builder.emit_te(
        compute,
        fitted,
        ends,
        as_expr(total),
        primfunc_name_hint="concat",
        primfunc_attrs={"op_pattern": OUT_ELEMWISE_FUSABLE},
    )


def gather(node: Node) -> relax.Expr:
    """``data`` and whole numbers of any shape ``s`` -> ``data.shape`` with ``s`` for one axis.

    A computed index outside the axis takes the nearest element, of an empty axis a 0.
    """
    own, axis = extents_of(node.data), int(node.attributes["axis"])
    if not -len(own) <= axis < len(own):
        raise UnsupportedOperatorError(f"axis {axis} is outside data of rank {len(own)}")
    axis %= len(own)
    index = node.required(1)
    places = len(extents_of(index))

    def compute(data: te.Tensor, index: te.Tensor) -> te.Tensor:
        shape = [*data.shape[:axis], *index.shape, *data.shape[axis + 1 :]]

        def element(*at: tirx.Var) -> tirx.Expr:
            place = _inside(index(*at[axis : axis + places]), data.shape[axis])
            return _guarded(data, [*at[:axis], place, *at[axis + places :]], [axis])

        return te.compute(shape, element, name="gather")

    return node.builder.emit_te(compute, node.data, index, primfunc_name_hint="gather")


def gather_elements(node: Node) -> relax.Expr:
    """``data`` and indices of its rank -> the indices' shape: ``data[.., indices[i], ..]``."""
    own, axis = extents_of(node.data), int(node.attributes["axis"])
    index = node.required(1)
    other = extents_of(index)
    if not -len(own) <= axis < len(own) or len(own) != len(other):
        raise UnsupportedOperatorError(f"axis {axis}, ranks {len(own)} and {len(other)}")
    axis %= len(own)
    fits = [
        tirx.LE(as_expr(theirs), as_expr(mine))
        for at, (mine, theirs) in enumerate(zip(own, other, strict=True))
        if at != axis and not node.extents.same(mine, theirs)
    ]
    require(node, fits)

    def compute(data: te.Tensor, index: te.Tensor) -> te.Tensor:
        def element(*at: tirx.Var) -> tirx.Expr:
            place = _inside(index(*at), data.shape[axis])
            return _guarded(data, [*at[:axis], place, *at[axis + 1 :]], [axis])

        return te.compute(index.shape, element, name="gather_elements")

    return node.builder.emit_te(compute, node.data, index, primfunc_name_hint="gather_elements")


def gather_nd(node: Node) -> relax.Expr:
    """``data`` and indices ``(.., k)`` -> ``(.., *rest)``: each row names k leading axes."""
    own, index = extents_of(node.data), node.required(1)
    batch, other = int(node.attributes.get("batch_dims", 0)), extents_of(index)
    named = other[-1] if other else None
    if not isinstance(named, int) or batch + named > len(own):
        raise UnsupportedOperatorError("the number of axes that it takes is not known at import")
    if batch:
        pairs = zip(own[:batch], other[:batch], strict=True)
        require(node, [equal(mine, theirs) for mine, theirs in pairs])
    rows = len(other) - 1

    def compute(data: te.Tensor, index: te.Tensor) -> te.Tensor:
        def element(*at: tirx.Var) -> tirx.Expr:
            places = [
                _inside(index(*at[:rows], tirx.const(part, "int64")), data.shape[batch + part])
                for part in range(named)
            ]
            taken = [*at[:batch], *places, *at[rows:]]
            return _guarded(data, taken, range(batch, batch + named))

        return te.compute(
            [*index.shape[:-1], *data.shape[batch + named :]], element, name="gather_nd"
        )

    return node.builder.emit_te(compute, node.data, index, primfunc_name_hint="gather_nd")


def _inside(place: tirx.Expr, extent: tirx.Expr) -> tirx.Expr:
    moved = from_end(place, extent)
    return tirx.max(tirx.min(moved, extent - 1), tirx.const(0, "int64"))


def _guarded(data: te.Tensor, places: Sequence[tirx.Expr], axes: Sequence[int]) -> tirx.Expr:
    """An element; 0 where an axis that the places name is empty, which no run may read."""
    open_axes = [axis for axis in axes if not isinstance(data.shape[axis], tirx.IntImm)]
    if not open_axes:
        return data(*places)
    filled = tirx.all(*(data.shape[axis] > 0 for axis in open_axes))
    return tirx.if_then_else(filled, data(*places), tirx.const(0, data.dtype))


def _list(node: Node, place: int) -> list[Extent] | None:
    values = read(node, place)
    return None if values is None else list(values.flat)
