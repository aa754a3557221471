"""Loops written statement by statement, for what no tensor expression says.

    def body(data, out):                    # flat views: element 5 is data[5], whatever the rank
        with T.serial(0, extent) as i:
            out[i] = data[i]

TVM gives such a function no fusion and no schedule: a loop that shall run on all cores is a
``T.parallel``. Everything is one function of the compiled file; nothing calls Python at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm import relax, te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_neocpu.frontend.converters.known import Extent
from tvm_neocpu.frontend.converters.node import Node
from tvm_neocpu.relay_passes.operators.call_form import OPAQUE


def emit_loops(
    node: Node,
    name: str,
    inputs: Sequence[relax.Expr],
    outputs: Sequence[tuple[Sequence[Extent], str]],
    body: Callable[..., None],
) -> list[relax.Var]:
    """Tensors of these shapes and types, which ``body`` fills.

    ``body`` takes a flat view of each input, then one of each output.
    """

    def written(ins: Sequence[tirx.Buffer], outs: Sequence[tirx.Buffer]) -> tirx.Stmt:
        with IRBuilder() as builder:
            with T.seq_scope():
                _name_extents(inputs, ins, outs)
                body(*(T.buffer_proxy(buffer) for buffer in (*ins, *outs)))
            # The scope is an attribute of TVM's builder that its code generation warns of.
            return builder.get().body

    def compute(*tensors: te.Tensor) -> list[te.Tensor]:
        results = te.extern(
            [tuple(shape) for shape, _ in outputs],
            list(tensors),
            written,
            name=name,
            dtype=[dtype for _, dtype in outputs],
        )
        return results if isinstance(results, list) else [results]

    found = node.builder.emit_te(
        compute, *inputs, primfunc_name_hint=name, primfunc_attrs={"op_pattern": OPAQUE}
    )
    if len(outputs) == 1 and not isinstance(found.ty, relax.TupleType):
        return [found]
    return [node.emit(relax.TupleGetItem(found, place)) for place in range(len(outputs))]


def _name_extents(
    inputs: Sequence[relax.Expr], ins: Sequence[tirx.Buffer], outs: Sequence[tirx.Buffer]
) -> None:
    """Extents of the inputs that only a run knows, by the names that ``body`` has for them.

    The function has names of its own for them, but for those that its results' shapes hold.
    """
    given = [
        var
        for buffer in (*ins, *outs)
        for extent in buffer.shape
        for var in tirx.analysis.undefined_vars(extent)
    ]
    named: dict[tirx.Var, tirx.Expr] = {
        known: own
        for value, buffer in zip(inputs, ins, strict=True)
        if isinstance(value.ty.shape, relax.ShapeExpr)
        for known, own in zip(value.ty.shape.values, buffer.shape, strict=True)
        if isinstance(known, tirx.Var) and not any(known.same_as(var) for var in given)
    }
    for known, own in named.items():
        T.bind(own, var=known)
