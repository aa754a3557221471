"""Results that lie over what is added to them and read by nobody later.

    r = alloc_tensor(..); ..                      r = alloc_tensor(..); ..
    y = alloc_tensor(..); conv_add(x, w, r, y)    y = r; conv_add(x, w, y)

A residual's lines are near when its sum is stored; those of a buffer of its own have to be fetched,
to be written only (docs/kernels/memory.md: ResNet-50 gains 2 % in fp32, 5 % of integers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tvm.ir import Call, GlobalVar
from tvm.relax import Var, VarBinding

from tvm_neocpu.relay_passes.memory.explicit import Bindings, callee, uses_of


def over_operands(
    bindings: Mapping[GlobalVar, Bindings], owners: Mapping[GlobalVar, Mapping[Var, Var]]
) -> dict[str, list[int]]:
    """By function: the parameters that are last read by it, wherever it is called.

    Whether its result can be written over one of them is the function's affair.
    """
    found: dict[str, set[int]] = {}
    for network, calls in bindings.items():
        uses = uses_of(calls, owners[network])
        for at, binding in enumerate(calls):
            name = callee(binding)
            if name:
                ending = _ending_at(at, binding.value, owners[network], uses)
                found[name] = found.get(name, ending) & ending
    return {name: sorted(places) for name, places in found.items() if places}


def _ending_at(
    at: int, call: Call, owners: Mapping[Var, Var], uses: Mapping[Var, Sequence[int]]
) -> set[int]:
    """The arguments whose memory nothing else in the call has, and nobody reads later."""
    roots = [owners.get(arg) if isinstance(arg, Var) else None for arg in call.args]
    *operands, result = roots
    if result is None:
        return set()
    return {
        place
        for place, root in enumerate(operands)
        if root is not None and roots.count(root) == 1 and uses[root][-1] == at
    }


def laid_over(
    bindings: Bindings, owners: Mapping[Var, Var], over: Mapping[str, int | None]
) -> tuple[list[VarBinding], dict[Var, Var]]:
    """The bindings and owners of a network whose functions write over these arguments.

    Needs: the last argument of a call is the result's allocation, no view of it.
    """
    names: dict[Var, Var] = {}
    for binding in bindings:
        place = over.get(callee(binding))
        if place is not None:
            names[binding.value.args[-1]] = binding.value.args[place]
    # In the order of the calls: what lies over another result has that one's memory.
    roots: dict[Var, Var] = {}
    for result, operand in names.items():
        root = owners[operand]
        roots[owners[result]] = roots.get(root, root)
    laid = [_over(binding, names, over) for binding in bindings]
    return laid, {var: roots.get(root, root) for var, root in owners.items()}


def _over(
    binding: VarBinding, names: Mapping[Var, Var], over: Mapping[str, int | None]
) -> VarBinding:
    if binding.var in names:
        return VarBinding(binding.var, names[binding.var])
    place, call = over.get(callee(binding)), binding.value
    if place is None:
        return binding
    args = [arg for at, arg in enumerate(call.args) if at != place]
    return VarBinding(binding.var, Call(call.op, args, call.attrs, call.ty_args))
