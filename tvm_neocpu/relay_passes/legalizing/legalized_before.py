"""Operators whose equal calls are legalised once.

TVM computes a function for each call, some 1.5 ms, and then finds that the module has it already:
NASNet-A mobile adds 90 pairs of tensors, of nine shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm_ffi
from tvm import relax

from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, op_name, operands
from tvm_neocpu.relay_passes.legalizing.tvms_own import Legalization, as_tvm_does
from tvm_neocpu.relay_passes.lowering.lowered_before import is_static

# What reads and makes tensors alone; their functions depend on nothing else but attributes.
OPERATORS = ("relax.add", "relax.concat", "relax.multiply", "relax.nn.relu")


class LegalizedBefore:
    """What calls became, for one module: the functions are the builder's."""

    def __init__(self) -> None:
        self._known: dict[Any, list[tuple[Any, relax.Call]]] = {}

    def of(self, op: str, legalize: Legalization | None) -> Legalization:
        """The legalisation, TVM's where there is none, which is asked once for equal calls."""
        first = legalize or as_tvm_does

        def legalized(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
            tensors = _tensors(call)
            if tensors is None:
                return first(builder, call)
            known = self._known.setdefault((op, *map(_type_of, tensors)), [])
            for attrs, made in known:
                if tvm_ffi.structural_equal(attrs, call.attrs):
                    return relax.call_tir(made.args[0], tensors, made.ty_args[0])
            made = first(builder, call)
            if op_name(made) == CALL_TIR and _are_same(operands(made.args[1]), tensors):
                known.append((call.attrs, made))
            return made

        return legalized


def _tensors(call: relax.Call) -> list[relax.Expr] | None:
    """What it reads, if these are different variables of known shapes.

    TVM makes a constant of one element a part of the function.
    """
    args = operands(call)
    if len(args) == 1 and isinstance(args[0], relax.Tuple):
        args = operands(args[0])
    variables = all(isinstance(arg, relax.Var) for arg in args)
    if not variables or len(set(args)) < len(args):
        return None
    tensors = all(isinstance(arg.ty, relax.TensorType) and arg.ty.shape is not None for arg in args)
    shaped = tensors and all(isinstance(arg.ty.shape, relax.ShapeExpr) for arg in args)
    return args if shaped and is_static(args) else None


def _type_of(tensor: relax.Expr) -> tuple[tuple[int, ...], str]:
    return tuple(map(int, tensor.ty.shape.values[:])), str(tensor.ty.dtype)


def _are_same(some: Sequence[relax.Expr], others: Sequence[relax.Expr]) -> bool:
    return len(some) == len(others) and all(
        one.same_as(other) for one, other in zip(some, others, strict=True)
    )
