"""Which operators take extents that only a run knows, and how."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from tvm import relax, tirx

from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.node import Converter, Node
from tvm_neocpu.frontend.converters.open.broadcast import broadcast_together
from tvm_neocpu.frontend.converters.open.padding import pad
from tvm_neocpu.frontend.converters.open.parts import (
    concat,
    gather,
    gather_elements,
    gather_nd,
    slice_,
    split,
)
from tvm_neocpu.frontend.converters.open.products import gemm, matmul
from tvm_neocpu.frontend.converters.open.resize import resize
from tvm_neocpu.frontend.converters.open.shapes import (
    constant_of_shape,
    expand,
    flatten,
    range_,
    reshape,
    squeeze,
    tile,
)
from tvm_neocpu.relay_passes.ir.tensor_types import static_shape_of

# Inputs that name extents or places: a node that gets one of them from a run is open too.
_NUMBERS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "ConstantOfShape": (0,),
        "Expand": (1,),
        "Pad": (1,),
        "Range": (0, 1, 2),
        "Reshape": (1,),
        "Resize": (1, 2, 3),
        "Slice": (1, 2, 3, 4),
        "Split": (1,),
        "Tile": (1,),
        "Upsample": (1,),
    }
)


def is_open(node: Node) -> bool:
    """Whether a run computes an extent of the node's inputs or of its result."""
    tensors = [value for value in node.inputs if value is not None]
    if not all(isinstance(value.ty, relax.TensorType) for value in tensors):
        return False
    if any(value.ty.shape is None for value in tensors):
        return False
    if any(static_shape_of(value.ty) is None for value in tensors):
        for extent in (extent for value in tensors for extent in value.ty.shape.values):
            if isinstance(extent, tirx.Var):
                node.extents.adopt(extent)
        return True
    places = _NUMBERS.get(node.op_type, ())
    return any(node.input(place) is not None and node.known(place) is None for place in places)


def broadcasting(convert: Converter) -> Converter:
    """The converter after its inputs are given extents that broadcast without a question."""

    @functools.wraps(convert)
    def converted(node: Node) -> relax.Expr:
        inputs = [node.required(place) for place in range(len(node.inputs))]
        return convert(replace(node, inputs=tuple(broadcast_together(node, inputs))))

    return converted


def _folded(operation: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Converter:
    """An operation of any number of tensors, two at a time."""

    def convert(node: Node) -> relax.Expr:
        result = node.data
        for value in node.inputs[1:]:
            if value is None:
                raise UnsupportedOperatorError("an input is missing")
            result = node.emit(operation(result, value))
        return result

    return convert


def _mean(node: Node) -> relax.Expr:
    count = relax.const(len(node.inputs), node.dtype)
    return relax.op.divide(node.emit(_folded(relax.op.add)(node)), count)


OPEN: Mapping[str, Converter] = MappingProxyType(
    {
        "Concat": concat,
        "ConstantOfShape": constant_of_shape,
        "Expand": expand,
        "Flatten": flatten,
        "Gather": gather,
        "GatherElements": gather_elements,
        "GatherND": gather_nd,
        "Gemm": gemm,
        "MatMul": matmul,
        "Max": broadcasting(_folded(relax.op.maximum)),
        "Mean": broadcasting(_mean),
        "Min": broadcasting(_folded(relax.op.minimum)),
        "Pad": pad,
        "Range": range_,
        "Reshape": reshape,
        "Resize": resize,
        "Slice": slice_,
        "Split": split,
        "Squeeze": squeeze,
        "Sum": broadcasting(_folded(relax.op.add)),
        "Tile": tile,
        "Upsample": resize,
    }
)

# Their own converters do, once the extents of their inputs broadcast.
_BINARY = "Add BitShift Div Equal Greater GreaterOrEqual Less LessOrEqual Mod Mul PRelu Pow Sub"
_LOGICAL = "And BitwiseAnd BitwiseOr BitwiseXor Or Where Xor"
BROADCAST = frozenset([*_BINARY.split(), *_LOGICAL.split()])


def open_converter(op_type: str, otherwise: Converter | None) -> Converter | None:
    """What converts a node of open extents; ``otherwise`` is its converter for known ones."""
    if op_type in BROADCAST:
        return broadcasting(otherwise or Node.by_tvm)
    return OPEN.get(op_type, otherwise)
