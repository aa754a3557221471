"""Div and Mod. Whole numbers by 0 give 0, where ONNX Runtime refuses or ends the process."""

from __future__ import annotations

import numpy as np
from tvm import relax

from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.frontend.converters.pointwise.elementwise import FLOATS, as_type


def divide(node: Node) -> relax.Expr:
    """``x / y``, of whole numbers towards 0; the least number by -1 is itself."""
    if not isinstance(node.data.ty, relax.TensorType) or node.dtype in FLOATS:
        return node.by_tvm()
    if _is_harmless(node):
        return node.by_tvm()
    safe = _safe_divisor(node)
    quotient = node.emit(node.tvm_conversion([node.data, safe]))
    is_number = _as_number(node, relax.op.not_equal(node.required(1), relax.const(0, node.dtype)))
    return relax.op.multiply(quotient, is_number)


def modulo(node: Node) -> relax.Expr:
    """``fmod`` 1: the sign of the dividend, as C has it; 0: that of the divisor, as Python has it.

    TVM's own floor modulo of floats is NaN for an infinite divisor.
    """
    if node.dtype not in FLOATS and _is_harmless(node):
        return node.by_tvm()
    wide, x, y = node.dtype, node.data, node.required(1)
    if node.dtype == "float16":
        wide, x, y = "float32", as_type(node, x, "float32"), as_type(node, y, "float32")
    rest = node.emit(relax.op.mod(x, y if node.dtype in FLOATS else _safe_divisor(node)))
    if node.attributes["fmod"] or node.dtype.startswith("uint"):
        return as_type(node, rest, node.dtype)
    zero = relax.const(np.array(0, wide), wide)
    signs_differ = node.emit(
        relax.op.not_equal(
            as_type(node, node.emit(relax.op.less(rest, zero)), "int8"),
            as_type(node, node.emit(relax.op.less(y, zero)), "int8"),
        )
    )
    is_rest = node.emit(relax.op.not_equal(rest, zero))
    moves = node.emit(relax.op.logical_and(signs_differ, is_rest))
    moved = node.emit(relax.op.add(rest, y))
    return as_type(node, node.emit(relax.op.where(moves, moved, rest)), node.dtype)


def _is_harmless(node: Node) -> bool:
    """Whether the divisor is known, and is neither 0 nor -1 anywhere."""
    divisor = node.known(1)
    return divisor is not None and not np.isin(divisor, (0, -1)).any()


def _safe_divisor(node: Node) -> relax.Var:
    """The divisor, 1 where a CPU would trap.

    Of the least number by -1 the quotient is no number of the type, and x86 traps, too. Sums in
    place of selections: inside of a Select TVM puts the divisor itself back, and computes both of
    its branches.
    """
    x, y = node.data, node.required(1)
    is_zero = _as_number(node, relax.op.equal(y, relax.const(0, node.dtype)))
    safe = node.emit(relax.op.add(y, is_zero))
    if not node.dtype.startswith("int"):
        return safe
    is_minus = _as_number(node, relax.op.equal(y, relax.const(-1, node.dtype)))
    # TVM takes x == -2^31 for false.
    above_least = relax.const(np.iinfo(node.dtype).min + 1, node.dtype)
    is_least = _as_number(node, relax.op.less(x, above_least))
    overflows = node.emit(relax.op.multiply(is_minus, is_least))
    return node.emit(relax.op.add(safe, node.emit(relax.op.add(overflows, overflows))))


def _as_number(node: Node, is_true: relax.Expr) -> relax.Var:
    return node.emit(relax.op.astype(node.emit(is_true), node.dtype))
