"""Data movement that TVM's importer lacks or misreads."""

from __future__ import annotations

import math
import operator

import numpy as np
from onnx import helper, numpy_helper
from tvm import relax, te, tirx
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.compute.hand_loops import emit_loops
from tvm_neocpu.frontend.converters.compute.places import places_of
from tvm_neocpu.frontend.converters.compute.run_time_extent import extents_from
from tvm_neocpu.frontend.converters.compute.running_totals import is_across, totals_across
from tvm_neocpu.frontend.converters.inside import inside_axis
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of

# Types whose totals are written here. Of halves TVM's sums are wider.
_TOTALS = ("float32", "float64", "int32", "int64")


def expand(node: Node) -> relax.Expr:
    """The data broadcast with a shape, which may be computed at run time; its length is known."""
    target = node.required(1)
    length = static_shape_of(target.ty) if isinstance(target.ty, relax.TensorType) else None
    own = static_shape_of(node.data.ty)
    if length is None or own is None or len(length) != 1:
        return node.by_tvm()
    try:
        values = node.constant(1)
    except UnsupportedOperatorError:
        return _expanded_at_run_time(node, target, length[0], own)
    if values is None:
        return node.data
    given = [int(value) for value in values.ravel()]
    return relax.op.broadcast_to(node.data, list(np.broadcast_shapes(own, given)))


def tile(node: Node) -> relax.Expr:
    """The data repeated along each axis, as often as a constant says."""
    repeats, own = node.known(1), static_shape_of(node.data.ty)
    if repeats is not None and own is not None:
        if repeats.shape != (len(own),):
            raise UnsupportedOperatorError(f"{repeats.size} repeats for data of rank {len(own)}")
        if repeats.size and repeats.min() < 0:
            raise UnsupportedOperatorError(f"repeats {repeats.tolist()} has a number below 0")
    return node.by_tvm()


def _expanded_at_run_time(
    node: Node, target: relax.Expr, length: int, own: tuple[int, ...]
) -> relax.Expr:
    rank = max(length, len(own))
    if length < rank:
        ones = relax.const(np.ones(rank - length, "int64"), "int64")
        target = node.emit(relax.op.concat([ones, target]))
    padded = (1,) * (rank - len(own)) + own
    kept = relax.const(np.array(padded, "int64"), "int64")
    is_one = node.emit(relax.op.equal(target, relax.const(1, "int64")))
    extents = extents_from(
        node,
        node.emit(relax.op.where(is_one, kept, target)),
        [f"expanded_{axis}" for axis in range(rank)],
    )

    def compute(data: te.Tensor) -> te.Tensor:
        def element(*at: tirx.Var) -> tirx.Expr:
            places = at[rank - len(own) :]
            return data(*(0 if dim == 1 else place for place, dim in zip(places, own, strict=True)))

        return te.compute(extents, element, name="expand")

    return node.builder.emit_te(compute, node.data, primfunc_name_hint="expand")


def unsqueeze(node: Node) -> relax.Expr:
    """New axes of length 1; opset 13 has them as an input, which some write as a scalar."""
    axes = node.input(1)
    if axes is None or not isinstance(axes.ty, relax.TensorType) or axes.ty.ndim != 0:
        return node.by_tvm()
    values = node.constant(1)
    if values is None or not isinstance(node.data.ty, relax.TensorType):
        return node.by_tvm()
    return relax.op.expand_dims(node.data, [int(values.item())])


def constant_of_shape(node: Node) -> relax.Expr:
    """One value in a shape, which may be computed at run time; its length is known."""
    target = node.required(0)
    if not isinstance(target.ty, relax.TensorType):
        return node.by_tvm()
    tensor = node.attributes.get("value")
    value = np.zeros(1, "float32") if tensor is None else numpy_helper.to_array(tensor)
    scalar = relax.const(value.reshape(()), str(value.dtype))
    length = static_shape_of(target.ty)
    if length is None or len(length) != 1:
        raise UnsupportedOperatorError("the rank of its result is not known at import")
    try:
        given = node.constant(0)
    except UnsupportedOperatorError:
        names = [f"filled_{axis}" for axis in range(length[0])]
        return relax.op.full(relax.ShapeExpr(extents_from(node, target, names)), scalar)
    shape = [] if given is None else [int(extent) for extent in given.ravel()]
    return relax.const(np.full(shape, value.item(), value.dtype), str(value.dtype))


def eye_like(node: Node) -> relax.Expr:
    """Ones on diagonal ``k`` of a matrix of the data's shape."""
    shape = static_shape_of(node.data.ty)
    if shape is None or len(shape) != 2:
        raise UnsupportedOperatorError("its data is no matrix of known extents")
    code = node.attributes.get("dtype")
    dtype = node.dtype if code is None else str(helper.tensor_dtype_to_np_dtype(code))
    return relax.const(np.eye(*shape, k=node.attributes["k"], dtype=dtype), dtype)


def cumulative(node: Node) -> relax.Expr:
    """CumSum and CumProd along a constant axis, forwards or backwards."""
    given = node.constant(1)
    if given is None or given.size != 1:
        raise UnsupportedOperatorError("axis must be one number")
    axis = node.from_front(int(given.item()))
    is_sum, backwards = node.op_type == "CumSum", bool(node.attributes["reverse"])
    is_exclusive = bool(node.attributes["exclusive"])
    if node.dtype in _TOTALS and is_across(node, axis):
        combine = operator.add if is_sum else operator.mul
        return totals_across(node, axis, combine, int(not is_sum), is_exclusive, backwards)
    operation = relax.op.cumsum if is_sum else relax.op.cumprod
    data = node.emit(relax.op.flip(node.data, axis)) if backwards else node.data
    total = operation(data, axis, node.dtype, is_exclusive)
    return relax.op.flip(node.emit(total), axis) if backwards else total


def reverse_sequence(node: Node) -> relax.Expr:
    """The first ``lengths[b]`` elements of batch ``b`` along the time axis, reversed."""
    batch, time = node.attributes["batch_axis"], node.attributes["time_axis"]
    if {batch, time} != {0, 1}:
        raise UnsupportedOperatorError(f"batch_axis {batch} and time_axis {time}")

    def compute(data: te.Tensor, lengths: te.Tensor) -> te.Tensor:
        def element(*at: tirx.Var) -> tirx.Expr:
            length = lengths(at[batch])
            place = tirx.Cast("int64", at[time])
            turned = tirx.Select(place < length, length - 1 - place, place)
            return data(*(turned if axis == time else at[axis] for axis in range(len(at))))

        return te.compute(data.shape, element, name="reverse_sequence")

    lengths = node.emit(relax.op.astype(inside_axis(node, 1, time, more=1), "int64"))
    return node.builder.emit_te(compute, node.data, lengths, primfunc_name_hint="reverse_sequence")


def space_to_depth(node: Node) -> relax.Expr:
    """``(N, C, H b, W b)`` -> ``(N, C b b, H, W)``; a block's places precede C in DCR."""
    block = int(node.attributes["blocksize"])
    n, c, h, w = (node.extent(axis) for axis in range(4))
    if block < 1 or h % block or w % block:
        raise UnsupportedOperatorError(f"blocks of {block} do not divide {h} x {w}")
    parts = node.emit(relax.op.reshape(node.data, [n, c, h // block, block, w // block, block]))
    order = (
        [0, 3, 5, 1, 2, 4] if node.attributes.get("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    )
    turned = node.emit(relax.op.permute_dims(parts, order))
    return relax.op.reshape(turned, [n, c * block * block, h // block, w // block])


def col2im(node: Node) -> relax.Expr:
    """Columns ``(N, C k, L)`` added up where they came from, in images ``(N, C, ..)``."""
    image, block = ([int(extent) for extent in _required_constant(node, place)] for place in (1, 2))
    axes = len(image)
    dilations = node.ints("dilations", axes, default=1)
    strides = node.ints("strides", axes, default=1)
    pads = node.ints("pads", 2 * axes, default=0)
    counts = [
        (image[i] + pads[i] + pads[i + axes] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1
        for i in range(axes)
    ]
    n, rows, columns = (node.extent(axis) for axis in range(3))
    taps = math.prod(block)
    if len(block) != axes or rows % taps or columns != math.prod(counts):
        raise UnsupportedOperatorError(f"columns {[n, rows, columns]} for an image {image}")
    channels = rows // taps

    def body(data, out) -> None:  # type: ignore[no-untyped-def]
        with T.serial(0, n * channels * math.prod(image)) as i:
            out[i] = tirx.const(0, node.dtype)
        with (
            T.serial(0, n * channels) as c,
            T.serial(0, taps) as tap,
            T.serial(0, columns) as column,
        ):
            taps_at, starts = places_of(tap, block), places_of(column, counts)
            places = [
                start * stride + at * dilation - before
                for start, stride, at, dilation, before in zip(
                    starts, strides, taps_at, dilations, pads[:axes], strict=True
                )
            ]
            flat, inside = c, []
            for place, extent in zip(places, image, strict=True):
                flat = flat * extent + place
                inside += [place >= 0, place < extent]
            with T.If(tirx.all(*inside)), T.Then():
                out[flat] = out[flat] + data[(c * taps + tap) * columns + column]

    return emit_loops(node, "col2im", [node.data], [((n, channels, *image), node.dtype)], body)[0]


def _required_constant(node: Node, place: int) -> list[int]:
    values = node.constant(place)
    if values is None:
        raise UnsupportedOperatorError(f"input {place} is empty")
    return [int(value) for value in values.ravel()]
