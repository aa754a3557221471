"""What may lie at an offset: tensors of a network in its arena or in tensors of its caller.

A function takes a tensor at an offset once :func:`.memory_params.with_memory_params` rewrote it.
All its callers see the same function, so that one caller that TVM plans keeps it as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import tvm
from tvm import relax, tirx
from tvm.ir import Call, GenericConst, GlobalVar
from tvm.relax import Function, Var, VarBinding

from tvm_neocpu.relay_passes.ir.exprs import op_name, variables
from tvm_neocpu.relay_passes.memory.explicit import (
    ALLOCATE,
    RESHAPE,
    Bindings,
    callee,
    with_allocations,
)
from tvm_neocpu.relay_passes.memory.over_operands import over_operands
from tvm_neocpu.topi.tir.functions.memory_params import (
    Placed,
    are_constant,
    takes_memory_params,
    with_memory_params,
)

# Whether the function of a name can take memory of the arena.
Suits = Callable[[str], bool]


@dataclass(frozen=True)
class Shifted:
    """The inputs and outputs of a network that may lie at an offset, by number.

    ``names`` are all the variables of these in the network.
    """

    inputs: Sequence[int]
    outputs: Sequence[int]
    names: Collection[Var]


@dataclass(frozen=True)
class AtOffsets:
    """What may lie at an offset in the networks of a module that get an arena.

    ``mod`` has explicit allocations in these. ``owners`` has, for each, the variables of tensors
    that the arena may hold, with the variables of their allocations. ``shifted`` has those that
    take tensors of their callers at an offset. ``movable`` are the functions called with any of
    these tensors, and the numbers of the parameters that get them, ascending. ``over`` has the
    parameters that a function's result may lie over, as far as its callers are concerned.
    """

    mod: tvm.IRModule
    bindings: Mapping[GlobalVar, Bindings]
    owners: Mapping[GlobalVar, Mapping[Var, Var]]
    shifted: Mapping[GlobalVar, Shifted]
    movable: Mapping[str, Sequence[int]]
    over: Mapping[str, Sequence[int]]

    @classmethod
    def of(cls, mod: tvm.IRModule, at_offset: Collection[str] = ()) -> AtOffsets:
        """``at_offset`` names the networks that should take their callers' tensors so."""
        explicit, networks = _explicit(mod)
        suits = cache(partial(_suits, explicit, _called_elsewhere(explicit, networks)))
        bindings = {var: list(explicit[var].body.blocks[0].bindings) for var in networks}
        memory = {var: _Memory.of(explicit, var, bindings[var], suits) for var in networks}
        owners = {var: found.owners() for var, found in memory.items()}
        shifted = {
            var: found.shifted() for var, found in memory.items() if var.name_hint in at_offset
        }
        moving = {
            var: {*owners[var], *(shifted[var].names if var in shifted else ())} for var in networks
        }
        movable = _movable(bindings, moving, suits)
        return cls(explicit, bindings, owners, shifted, movable, over_operands(bindings, owners))

    def placed(self, name: str, func: tirx.PrimFunc) -> Placed:
        """One of the ``movable`` functions as its callers lay out its memory."""
        return with_memory_params(func, self.movable[name], self.over.get(name, ()))


def _explicit(mod: tvm.IRModule) -> tuple[tvm.IRModule, list[GlobalVar]]:
    """The module with explicit allocations in the functions that get an arena, and these."""
    explicit = with_allocations(mod)
    networks = {var: func for var, func in explicit.functions.items() if isinstance(func, Function)}
    chains = [var for var, func in networks.items() if _is_chain(explicit, func)]
    # TVM would make copies of the reshapes in a function that is half explicit.
    left = [(mod.get_global_var(v.name_hint), v) for v in networks if v not in chains]
    for original, var in left:
        explicit.update_func(var, mod[original])
    return explicit, chains


def _is_chain(mod: tvm.IRModule, network: Function) -> bool:
    """Whether the network only calls PrimFuncs, reshapes tensors and passes them on."""
    blocks = network.body.blocks
    return len(blocks) == 1 and all(_is_simple(mod, binding) for binding in blocks[0].bindings)


def _is_simple(mod: tvm.IRModule, binding: relax.Binding) -> bool:
    if not isinstance(binding, VarBinding):
        return False
    value = binding.value
    if isinstance(value, Call):
        if isinstance(value.op, GlobalVar):
            return isinstance(mod[value.op], tirx.PrimFunc)
        return op_name(value) in (ALLOCATE, RESHAPE)
    return isinstance(value, Var | GenericConst | relax.Tuple | relax.TupleGetItem)


def _called_elsewhere(mod: tvm.IRModule, networks: Sequence[GlobalVar]) -> frozenset[str]:
    """The functions that a function without an arena calls: their parameters must stay."""
    called: set[str] = set()

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, GlobalVar):
            called.add(str(expr.name_hint))

    for var, func in mod.functions.items():
        if isinstance(func, Function) and var not in networks:
            relax.analysis.post_order_visit(func, visit)
    return frozenset(called)


@dataclass(frozen=True)
class _Memory:
    """A network's variables by the memory that they name.

    ``roots`` has the parameter or allocation of each. ``unsuited`` are the roots that somebody
    reads who may not take an offset.
    """

    params: Sequence[Var]
    results: Sequence[relax.Expr]
    roots: Mapping[Var, Var]
    unsuited: Collection[Var]

    @classmethod
    def of(cls, mod: tvm.IRModule, network: GlobalVar, bindings: Bindings, suits: Suits) -> _Memory:
        func = mod[network]
        roots: dict[Var, Var] = {param: param for param in func.params}
        unsuited: set[Var] = set()
        for binding in bindings:
            value = binding.value
            if op_name(value) == ALLOCATE and are_constant(value.args[0].values):
                roots[binding.var] = binding.var
            elif isinstance(value, Var) or op_name(value) == RESHAPE:
                source = value if isinstance(value, Var) else value.args[0]
                if source in roots:
                    roots[binding.var] = roots[source]
            elif isinstance(value, relax.Tuple) and binding.var.same_as(func.body.body):
                continue
            elif not suits(callee(binding)):
                unsuited |= {roots[name] for name in variables(value) if name in roots}
        return cls(list(func.params), _results(func.body.body, bindings), roots, unsuited)

    def owners(self) -> dict[Var, Var]:
        """The tensors that the arena may hold: what is neither given nor returned."""
        excluded = {*self.params, *self.unsuited, *self._returned()}
        return {name: root for name, root in self.roots.items() if root not in excluded}

    def shifted(self) -> Shifted:
        """An input that is returned stays: whoever reads the output may not take an offset."""
        kept = {*self.unsuited, *({*self.params} & {*self._returned()})}
        of_results = [self.roots.get(result) for result in self.results]
        wanted = {*self.params, *of_results} - {None, *kept}
        return Shifted(
            [at for at, param in enumerate(self.params) if param in wanted],
            [at for at, root in enumerate(of_results) if root in wanted],
            [name for name, root in self.roots.items() if root in wanted],
        )

    def _returned(self) -> Iterator[Var]:
        for result in self.results:
            yield from (self.roots[name] for name in variables(result) if name in self.roots)


def _results(result: relax.Expr, bindings: Bindings) -> list[relax.Expr]:
    """The tensors of a flat result."""
    last = next((binding.value for binding in bindings if binding.var.same_as(result)), result)
    expr = last if isinstance(last, relax.Tuple) else result
    return list(expr.fields) if isinstance(expr, relax.Tuple) else [expr]


def _movable(
    bindings: Mapping[GlobalVar, Bindings],
    moving: Mapping[GlobalVar, Collection[Var]],
    suits: Suits,
) -> dict[str, list[int]]:
    """The functions that are called with ``moving`` tensors, and their parameters that get these.

    A function that gets none may have workspace for the arena: it has no parameters here.
    """
    movable: dict[str, set[int]] = {}
    for network, calls in bindings.items():
        for binding in calls:
            name = callee(binding)
            if suits(name):
                args = binding.value.args
                at_call = {at for at, arg in enumerate(args) if arg in moving[network]}
                movable.setdefault(name, set()).update(at_call)
    return {name: sorted(places) for name, places in movable.items()}


def _suits(mod: tvm.IRModule, fixed: frozenset[str], name: str) -> bool:
    """Whether the function of that name can take memory of the arena."""
    func = mod[name] if name and name not in fixed else None
    return isinstance(func, tirx.PrimFunc) and takes_memory_params(func)
