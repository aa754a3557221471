"""Reshapes between extents that a run knows: a view, or a flat copy of what leaves its block.

TVM takes the index of every element apart by divisions of unknown sign, for which LLVM needs
minutes where several such reshapes are fused::

    y[a, b] = x[(a * m + b) // k % j, (a * m + b) % k]   ->   y = reshape(x), no computation
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import reduce
from operator import mul

import tvm
from tvm import relax, te, tirx, topi
from tvm.ir import GlobalVar
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, op_name, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions
from tvm_neocpu.relay_passes.legalizing.tvms_own import as_tvm_does
from tvm_neocpu.relay_passes.operators.call_form import OPAQUE

RESHAPE = "relax.reshape"
# The attributes of copies: of known extents, and of others.
_COPY, _FLAT_COPY = "neocpu.reshape", "neocpu.flat_copy"


def legalize_reshape(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """The legalisation of ``relax.reshape``, for the table of ``LegalizeOps``."""
    data, target = call.args
    known = static_shape(data) is not None and static_shape(call) is not None
    if known:
        extents, attrs = static_shape(call), {_COPY: True}
        return builder.call_te(
            topi.reshape, data, extents, primfunc_name_hint="reshape", primfunc_attrs=attrs
        )
    if not isinstance(target, relax.ShapeExpr) or data.ty.shape is None:
        return as_tvm_does(builder, call)

    def written(ins: list[tirx.Buffer], outs: list[tirx.Buffer]) -> tirx.Stmt:
        size = reduce(mul, outs[0].shape, tirx.const(1, "int64"))
        with IRBuilder() as lines:
            with T.seq_scope():
                source, result = (_flat(buffer, size) for buffer in (ins[0], outs[0]))
                with T.parallel(0, size) as at:
                    T.buffer_store(result, source[at], [at])
            return lines.get().body

    def compute(x: te.Tensor, extents: Sequence[tirx.Expr]) -> te.Tensor:
        return te.extern([list(extents)], [x], written, name="reshape", dtype=[str(x.dtype)])

    attrs = {"op_pattern": OPAQUE, _FLAT_COPY: True}
    return builder.call_te(
        compute, data, target, primfunc_name_hint="reshape", primfunc_attrs=attrs
    )


def _flat(buffer: tirx.Buffer, size: tirx.Expr) -> tirx.Buffer:
    """The buffer's memory with one axis: an index into several would be divisions again."""
    offset = buffer.elem_offset
    return T.decl_buffer((size,), str(buffer.dtype), data=buffer.data, elem_offset=offset)


def view_reshaped_results(mod: tvm.IRModule) -> tvm.IRModule:
    """A reshape whose result leaves its block is a view of what a call of the block made.

    TVM makes views of inner variables only, so that a network that ends in a Reshape copied its
    result. What the network was given, or gives back in another shape as well, is still copied::

        lv = f(x); y = call_tir(reshape, lv)    ->    lv = f(x); y = reshape(lv)

    Needs: legalised reshapes, those of inner variables views already.
    """
    copies = _functions_with(_COPY, mod)

    def rewrite(scope: Scope) -> None:
        region, outputs = scope.region, set(scope.region.outputs)
        free = {b.var for b in region.bindings if op_name(b.value) == CALL_TIR} - outputs
        for binding in region.bindings:
            var, value = binding.var, binding.value
            if var in outputs and _calls_one_of(copies, value):
                (source,) = value.args[1].fields
                if source in free:
                    free.discard(source)  # the next shape of it is a copy
                    value = relax.op.reshape(source, var.ty.shape)
            scope.bind(var, value)

    return rewrite_regions(mod, rewrite) if copies else mod


def view_flat_copies(mod: tvm.IRModule) -> tvm.IRModule:
    """Flat copies as views again, but for a result that leaves its block: it has its own memory.

    A tensor of a tuple that leaves becomes a view, as TVM makes one of known extents.
    """
    copies = _functions_with(_FLAT_COPY, mod)
    if not copies:  # as in nearly all networks
        return mod

    def rewrite(scope: Scope) -> None:
        for binding in scope.region.bindings:
            value = binding.value
            if isinstance(binding.var, relax.DataflowVar) and _calls_one_of(copies, value):
                value = relax.op.reshape(value.args[1].fields[0], binding.var.ty.shape)
            scope.bind(binding.var, value)

    return rewrite_regions(mod, rewrite)


def _functions_with(attribute: str, mod: tvm.IRModule) -> set[GlobalVar]:
    return {
        name
        for name, func in mod.functions.items()
        if isinstance(func, tirx.PrimFunc) and func.attrs and attribute in func.attrs
    }


def _calls_one_of(copies: Container[GlobalVar], value: relax.Expr) -> bool:
    return op_name(value) == CALL_TIR and len(value.args[1].fields) == 1 and value.args[0] in copies
