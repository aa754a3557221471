"""Relax operators that are lowered to our vectorised arithmetic instead of to calls of libm.

A table for ``relax.transform.LegalizeOps``. TVM legalises tensors that are not float32.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import partial

from tvm import relax, te, tirx, topi
from tvm.ir import GenericConst, GlobalVar

from tvm_neocpu.core.machine.half import BF16
from tvm_neocpu.relay_passes.ir.exprs import dtype_of, op_name
from tvm_neocpu.relay_passes.legalizing.formula_chains import FormulaChains
from tvm_neocpu.relay_passes.legalizing.tvms_own import Legalization, as_tvm_does
from tvm_neocpu.relay_passes.operators.call_form import OPAQUE
from tvm_neocpu.topi.math import arcs, extremes, remainder, softmax, vector_math

Formula = Callable[[tirx.Expr], tirx.Expr]

FORMULAS: dict[str, Formula] = {
    "relax.acos": arcs.acos,
    "relax.asin": arcs.asin,
    "relax.atan": arcs.atan,
    "relax.erf": vector_math.erf,
    "relax.exp": vector_math.exp,
    "relax.log": vector_math.log,
    "relax.nn.gelu": vector_math.gelu,
    "relax.nn.gelu_tanh": vector_math.gelu_tanh,
    "relax.nn.silu": vector_math.silu,
    "relax.sigmoid": vector_math.sigmoid,
    "relax.sign": vector_math.sign,
    "relax.tanh": vector_math.tanh,
}


def vector_legalization(ends: Container[GlobalVar] = ()) -> dict[str, Legalization]:
    """Operator name -> the function that makes a PrimFunc call of its call.

    ``ends`` are functions that epilogues begin behind; the table is for one module.
    """
    chains = FormulaChains(ends)
    table: dict[str, Legalization] = {name: _elementwise(f, chains) for name, f in FORMULAS.items()}
    table["relax.nn.softplus"] = _softplus(chains)
    table["relax.mod"] = _mod(chains)
    table["relax.nn.relu"] = _relu
    table["relax.clip"] = _clip
    table["relax.maximum"] = _extreme(topi.maximum)
    table["relax.minimum"] = _extreme(topi.minimum)
    table["relax.max"] = _over_axes(extremes.largest)
    table["relax.min"] = _over_axes(extremes.smallest)
    table["relax.nn.softmax"] = _over_axis(softmax.softmax)
    table["relax.nn.log_softmax"] = _over_axis(softmax.log_softmax)
    return table


def legalize_cast(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """A legalisation of ``relax.astype``: TVM's. A cast of bf16 is fused with nothing.

    TVM computes bf16 with integers, and rewrites all of a function for that: a formula beside such
    a cast gave inf, or bound one name twice.
    """
    if BF16.dtype not in (dtype_of(call), dtype_of(call.args[0])) or call.ty.shape is None:
        return as_tvm_does(builder, call)
    return _emit(builder, call, lambda x: topi.cast(x, dtype_of(call)), {"op_pattern": OPAQUE})


def _elementwise(formula: Formula, chains: FormulaChains) -> Legalization:
    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        if not _is_ours(call):
            return as_tvm_does(builder, call)
        return _emit_formula(builder, call, partial(_mapped, formula), chains)

    return legalize


def _softplus(chains: FormulaChains) -> Legalization:
    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        if not _is_ours(call):
            return as_tvm_does(builder, call)
        beta, threshold = float(call.attrs.beta), float(call.attrs.threshold)
        formula = partial(vector_math.softplus, beta=beta, threshold=threshold)
        # An exponential and a logarithm.
        return _emit_formula(builder, call, partial(_mapped, formula), chains, weight=2)

    return legalize


def _mod(chains: FormulaChains) -> Legalization:
    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        if not _is_ours(call):
            return as_tvm_does(builder, call)

        def compute(x: te.Tensor | tirx.Expr, y: te.Tensor | tirx.Expr) -> te.Tensor:
            def element(*index: tirx.Var) -> tirx.Expr:
                return remainder.fmod(_broadcast(x, index), _broadcast(y, index))

            return te.compute(call.ty.shape.values, element, name="mod")

        # As long as two others.
        return _emit_formula(builder, call, compute, chains, weight=2)

    return legalize


def _broadcast(operand: te.Tensor | tirx.Expr, index: tuple[tirx.Var, ...]) -> tirx.Expr:
    """The element of an operand that belongs to an element of the result."""
    if not isinstance(operand, te.Tensor):
        return operand
    behind = index[len(index) - len(operand.shape) :]
    places = zip(behind, operand.shape, strict=True)
    return operand(*(0 if isinstance(n, tirx.IntImm) and n.value == 1 else i for i, n in places))


def _relu(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    if not _is_float(call):
        return as_tvm_does(builder, call)
    return _emit(builder, call, partial(_mapped, vector_math.relu))


def _clip(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """The bounds are attributes or scalars of any type: constants of the data's type here."""
    bounds = [getattr(bound, "value", bound) for bound in call.args[1:]]
    if not _is_float(call) or not all(isinstance(bound, int | float) for bound in bounds):
        return as_tvm_does(builder, call)
    low, high = (tirx.const(float(bound), dtype_of(call)) for bound in bounds)
    formula = partial(vector_math.clip, low=low, high=high)
    return _emit(builder, call, partial(_mapped, formula), operands=1)


def _extreme(combine: Callable[[te.Tensor, te.Tensor], te.Tensor]) -> Legalization:
    """Max or min of two tensors. TVM's take the second operand if either is NaN."""

    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        if not _is_float(call):
            return as_tvm_does(builder, call)
        left, right = call.args
        if isinstance(right, GenericConst):
            left, right = right, left

        def compute(one: te.Tensor, other: te.Tensor) -> te.Tensor:
            if isinstance(left, GenericConst):
                return combine(one, other)
            return topi.where(topi.isnan(one), one, combine(one, other))

        hint = op_name(call).removeprefix("relax.")
        return builder.call_te(compute, left, right, primfunc_name_hint=hint)

    return legalize


def _over_axis(compute: Callable[[te.Tensor, int], te.Tensor]) -> Legalization:
    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        if not _is_ours(call):
            return as_tvm_does(builder, call)
        return _emit(builder, call, lambda x: compute(x, int(call.attrs.axis)))

    return legalize


def _over_axes(compute: Callable[[te.Tensor, tuple[int, ...], bool], te.Tensor]) -> Legalization:
    def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
        data = call.args[0]
        if not _is_float(call) or data.ty.shape is None:
            return as_tvm_does(builder, call)
        rank, given = data.ty.ndim, call.attrs.axis
        axes = tuple(range(rank)) if given is None else tuple(int(axis) % rank for axis in given)
        keeps = bool(call.attrs.keepdims)
        return _emit(builder, call, lambda x: compute(x, axes, keeps))

    return legalize


def _mapped(formula: Formula, x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *index: formula(x(*index)), name="activation")


def _emit_formula(
    builder: relax.BlockBuilder,
    call: relax.Call,
    compute: Callable[..., te.Tensor],
    chains: FormulaChains,
    weight: int = 1,
) -> relax.Expr:
    cut = any(chains.is_full(builder, operand, weight) for operand in call.args)
    attrs = {"op_pattern": OPAQUE} if cut else None
    made = _emit(builder, call, compute, attrs)
    chains.add(made, weight, cut)
    return made


def _emit(
    builder: relax.BlockBuilder,
    call: relax.Call,
    compute: Callable[..., te.Tensor],
    attrs: Mapping[str, int] | None = None,
    operands: int | None = None,
) -> relax.Expr:
    hint = op_name(call).removeprefix("relax.").replace(".", "_")
    return builder.call_te(
        compute,
        *call.args[:operands],
        primfunc_name_hint=hint,
        primfunc_attrs=dict(attrs or {}) or None,
    )


def _is_float(call: relax.Call) -> bool:
    """Whether it is a tensor of floats, of known rank."""
    return dtype_of(call) in ("float16", "float32", "float64") and call.ty.shape is not None


def _is_ours(call: relax.Call) -> bool:
    """Whether it is a float32 tensor of known rank; ``call_te`` needs the rank."""
    return dtype_of(call) == vector_math.DTYPE and call.ty.shape is not None


__all__ = ["FORMULAS", "legalize_cast", "vector_legalization"]
