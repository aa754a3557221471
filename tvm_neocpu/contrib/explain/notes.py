"""What the time of an explained network leaves out, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tvm
from tvm import relax

from tvm_neocpu.codegen.network import LOOP
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.relay_passes.batches.row_runs import is_heavy
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.ir.regions import bindings_of, relax_functions
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions


def notes_of(mod: tvm.IRModule, rows: Mapping[str, tvm.IRModule]) -> tuple[str, ...]:
    """A line for loops, and one for layers whose rows a run counts (``rows``)."""
    loops = [func for _, func in relax_functions(mod) if func.attrs and LOOP in func.attrs]
    found = []
    if loops:
        found.append(f"{plural(len(loops), 'loop')}: one trip of each counts, a run may take more")
    layers = list(_layers(rows.values()))
    if layers:
        found.append(
            f"{plural(len(layers), 'layer')} whose rows a run counts: planned for several numbers "
            f"of rows, their time is not counted: {', '.join(layers)}"
        )
    return tuple(found)


def _layers(rows: Iterable[tvm.IRModule]) -> Iterable[str]:
    """``"matmul nx12544 -> nx1024"`` for each heavy layer."""
    for mod in rows:
        for binding in bindings_of(mod["main"]):
            if isinstance(binding, relax.VarBinding) and is_heavy(binding.value):
                name = op_name(binding.value).removeprefix("relax.").removeprefix("nn.")
                yield f"{name} {_shape(binding.value.args[0])} -> {_shape(binding.var)}"


def _shape(tensor: relax.Expr) -> str:
    """``"nx64"``."""
    dims = dimensions(tensor.ty) or ()
    return "x".join("n" if dim is None else str(dim) for dim in dims)
