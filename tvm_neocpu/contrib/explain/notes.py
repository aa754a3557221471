"""What the time of an explained network leaves out, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import tvm
from tvm import relax

from tvm_neocpu.codegen.network import LOOP
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.messages.fallback import Coverage
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.relay_passes.batches.row_runs import is_heavy
from tvm_neocpu.relay_passes.ir.exprs import CALL_TIR, op_name, operands
from tvm_neocpu.relay_passes.ir.regions import bindings_of, relax_functions
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions, tensors_of
from tvm_neocpu.relay_passes.layouts.elementwise import RULES as ELEMENTWISE
from tvm_neocpu.relay_passes.layouts.flow import FlowKind
from tvm_neocpu.relay_passes.layouts.table import decided_flow
from tvm_neocpu.relay_passes.operators.new.recurrence import OP as RECURRENCE

# Operations that no layout goes through, element by element all the same.
# fmt: off
_OF_ELEMENTS = frozenset(f"relax.{name}" for name in (
    "bitwise_and", "bitwise_or", "equal", "greater", "greater_equal", "isfinite", "isinf", "isnan",
    "less", "less_equal", "logical_and", "logical_not", "logical_or", "mod", "not_equal", "where",
))
# fmt: on
# What makes another name for a tensor; the empty text stands for what makes no tensor.
_WITHOUT_CODE = frozenset(("", "expand_dims", "flatten", "reshape", "squeeze", "tensor_to_shape"))


def notes_of(
    mod: tvm.IRModule, rows: Mapping[str, tvm.IRModule], cpu: Cpu, coverage: Coverage
) -> tuple[str, ...]:
    """A line for loops, one for layers whose rows a run counts (``rows``), and one for operations
    that neither the plan nor ``coverage`` has.
    """
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
    if unpriced := _unpriced(mod, cpu, coverage):
        found.append(f"beside this, of unknown time: {', '.join(unpriced)}")
    return tuple(found)


def _unpriced(mod: tvm.IRModule, cpu: Cpu, coverage: Coverage) -> list[str]:
    """``"2 softmax"`` for each kind of operation that nothing has a time for, the most first.

    What follows a product or a convolution element by element is its epilogue.
    """
    known = {each.operator for each in coverage.fallbacks} | _WITHOUT_CODE
    counted: Counter[str] = Counter()
    for _, func in relax_functions(mod):
        products: set[relax.Var] = set()
        for binding in bindings_of(func):
            value, name = binding.value, op_name(binding.value)
            is_epilogue = name in ELEMENTWISE and not products.isdisjoint(operands(value))
            if is_heavy(value) or is_epilogue:
                products.add(binding.var)
            elif not isinstance(value, relax.Call) or name == RECURRENCE:
                continue
            elif decided_flow(value, cpu).kind is FlowKind.BOUNDARY:
                counted[_label(value)] += 1
    return [f"{count} {name}" for name, count in counted.most_common() if name not in known]


def _label(call: relax.Call) -> str:
    """``"softmax"``; a function of the importer's by its name, those of elements by one."""
    name = op_name(call)
    if name == CALL_TIR:
        return str(call.args[0].name_hint)
    if name in ELEMENTWISE or name in _OF_ELEMENTS:
        return "elementwise"
    is_operator = name.startswith("relax.") and tensors_of(call.ty)
    return name.removeprefix("relax.").removeprefix("nn.") if is_operator else ""


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
