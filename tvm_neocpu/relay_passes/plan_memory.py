"""One arena for a network's activations and its kernels' workspace.

TVM's planner reuses whole allocations, and kernels allocate their workspace apart from them. The
working set is larger than it need be, and the first touch of a line in an inference misses all
caches, because the weights passed through them since. In an arena a buffer lies at any offset that
is free during its live range. ResNet-50 touches 7.2 MB instead of 12.5 MB; on AMD Zen 5 it is 1 %
faster on one thread and 1-4 % on two, the more the busier memory is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import tvm
from tvm import relax, tirx
from tvm.ir import Call, GenericConst, GlobalVar, TupleType
from tvm.relax import Function, Var, VarBinding
from tvm.relax.expr import _update_type

from tvm_neocpu.core.arena import Lifetime, place_tightly
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.relay_passes.ir.exprs import op_name, variables
from tvm_neocpu.relay_passes.ir.written_outputs import with_offsets
from tvm_neocpu.topi.tir.memory_params import (
    Workspace,
    are_constant,
    takes_memory_params,
    with_memory_params,
)

ALLOCATE, RESHAPE = "relax.builtin.alloc_tensor", "relax.reshape"
# The call that TVM turns a reshape into. Of a reshape among explicit allocations it makes a copy.
VIEW = relax.ExternFunc("vm.builtin.reshape")


@dataclass(frozen=True)
class PlanMemory:
    """Allocate the results of calls explicitly, most of them at offsets of one arena.

    Tensors that the network returns, and tensors that share memory with these, have allocations of
    their own. TVM plans any function that has branches or casts, or calls anything but PrimFuncs.
    Each planned function has an arena, and all arenas have the size of the largest: one function
    runs at a time, and TVM's pool gives the next one of equal size the same memory.

    Networks of the names ``at_offset`` take inputs, and write outputs, at an offset, where all
    functions that take these can (:mod:`.ir.written_outputs`).

    Needs: functions are scheduled; each scheduled function shows the workspace that it allocates.
    Leaves: explicit allocations and calls; PrimFuncs that take their workspace as arguments and
    whose parameters may lie at an offset. Functions that TVM plans are as they were.
    """

    name: ClassVar[str] = "plan-memory"
    at_offset: Collection[str] = ()

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        explicit, planned = _explicit(mod)
        if not planned:
            return mod
        return relax.transform.Normalize()(_Planner(explicit, planned, self.at_offset).planned())


def arguments_at_offsets(
    mod: tvm.IRModule, at_offset: Collection[str] = ()
) -> dict[str, list[int]]:
    """The arguments that PlanMemory will place, by function: the numbers of its parameters.

    A guess before functions are scheduled: that of all functions is assumed to succeed.
    """
    explicit, planned = _explicit(mod)
    movable = _Planner(explicit, planned, at_offset).movable
    return {name: sorted(params) for name, params in movable.items()}


def _explicit(mod: tvm.IRModule) -> tuple[tvm.IRModule, list[GlobalVar]]:
    """The module with explicit allocations in the functions that get an arena, and these."""
    explicit = tvm.transform.Sequential(
        [
            relax.transform.RewriteDataflowReshape(),
            relax.transform.ToNonDataflow(),
            relax.transform.RemovePurityChecking(),
            relax.transform.CallTIRRewrite(),
        ]
    )(mod)
    networks = {var: func for var, func in explicit.functions.items() if isinstance(func, Function)}
    planned = [var for var, func in networks.items() if _is_chain(explicit, func)]
    # TVM would make copies of the reshapes in a function that is half explicit.
    left = [(mod.get_global_var(v.name_hint), v) for v in networks if v not in planned]
    for original, var in left:
        explicit.update_func(var, mod[original])
    return explicit, planned


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


class _Planner:
    """The functions of one module that have arenas."""

    def __init__(
        self, mod: tvm.IRModule, networks: Sequence[GlobalVar], at_offset: Collection[str]
    ) -> None:
        self._mod = mod
        self._networks = networks
        self._bindings = {var: list(mod[var].body.blocks[0].bindings) for var in networks}
        fixed = _called_elsewhere(mod, networks)
        self._owners = {
            var: _owners(mod, bindings, mod[var].body.body, fixed)
            for var, bindings in self._bindings.items()
        }
        self._shifted = {
            var: _Shifted.of(mod, mod[var], self._bindings[var], fixed)
            for var in networks
            if var.name_hint in at_offset
        }
        moving = {
            var: {*owners, *(self._shifted[var].names if var in self._shifted else ())}
            for var, owners in self._owners.items()
        }
        self.movable = _movable(mod, self._bindings, moving, fixed)
        self._functions: dict[str, _Rewritten] = {}

    def planned(self) -> tvm.IRModule:
        self._functions = _functions(self._mod, self.movable)
        placements = {var: self._placed(var) for var in self._networks}
        size = max(placement.size for placement in placements.values())
        planned = {
            var: func
            for var, func in self._mod.functions.items()
            if var.name_hint not in self._functions
        }
        planned |= {var: func for var, func, _ in self._functions.values()}
        for var, placement in placements.items():
            planned[var] = self._rewritten(var, placement, size)
        return tvm.IRModule(planned, attrs=self._mod.attrs)

    def _placed(self, network: GlobalVar) -> _Placement:
        bindings, owners = self._bindings[network], self._owners[network]
        lifetimes = _lifetimes(bindings, owners)
        spaces = [
            Lifetime(space.size, at, at)
            for at, binding in enumerate(bindings)
            for space in _workspaces(binding, self._functions)
        ]
        offsets, size = place_tightly([*lifetimes.values(), *spaces])
        tensors = dict(zip(lifetimes, offsets, strict=False))
        return _Placement(size, tensors, offsets[len(lifetimes) :])

    def _rewritten(self, network: GlobalVar, placement: _Placement, size: int) -> Function:
        arena = _Arena.of(size, placement.workspaces)
        functions, placed = self._functions, placement.tensors
        rewritten: list[relax.Binding] = [arena.binding] if placement.size else []
        for binding in self._bindings[network]:
            if binding.var in placed:
                rewritten.append(arena.allocated(binding, placed[binding.var]))
            elif _callee(binding) in functions:
                rewritten += arena.called(binding, *functions[_callee(binding)])
            elif op_name(binding.value) == RESHAPE:
                rewritten.append(_viewed(binding))
            else:
                rewritten.append(binding)
        old = self._mod[network]
        body = relax.SeqExpr([relax.BindingBlock(rewritten)], old.body.body)
        new = Function(old.params, body, old.ret_ty, old.is_pure, old.attrs, old.span)
        shifted = self._shifted.get(network)
        return new if shifted is None else with_offsets(new, shifted.inputs, shifted.outputs)


@dataclass(frozen=True)
class _Shifted:
    """The inputs and outputs of a network that may lie at an offset, and the names that they have
    in it.
    """

    inputs: Sequence[int]
    outputs: Sequence[int]
    names: Collection[Var]

    @classmethod
    def of(
        cls,
        mod: tvm.IRModule,
        network: Function,
        bindings: Sequence[VarBinding],
        fixed: frozenset[str],
    ) -> _Shifted:
        """An input that is returned stays: whoever reads the output may not take an offset."""
        results = _results(network.body.body, bindings)
        roots: dict[Var, Var] = {param: param for param in network.params}
        unsuited: set[Var] = set()
        for binding in bindings:
            value = binding.value
            if op_name(value) == ALLOCATE:
                roots[binding.var] = binding.var
            elif isinstance(value, Var) or op_name(value) == RESHAPE:
                source = value if isinstance(value, Var) else value.args[0]
                if source in roots:
                    roots[binding.var] = roots[source]
            elif isinstance(value, relax.Tuple) and binding.var.same_as(network.body.body):
                continue
            elif not _suits(mod, _callee(binding), fixed):
                unsuited |= {roots[name] for name in variables(value) if name in roots}
        given = {*network.params}
        of_results = [roots.get(result) for result in results]
        unsuited |= {root for root in of_results if root in given}
        wanted = (given | {*of_results}) - unsuited
        return cls(
            [at for at, param in enumerate(network.params) if param in wanted],
            [at for at, root in enumerate(of_results) if root is not None and root in wanted],
            [name for name, root in roots.items() if root in wanted],
        )


def _results(result: relax.Expr, bindings: Sequence[VarBinding]) -> list[relax.Expr]:
    """The tensors of a flat result."""
    last = next((binding.value for binding in bindings if binding.var.same_as(result)), result)
    expr = last if isinstance(last, relax.Tuple) else result
    return list(expr.fields) if isinstance(expr, relax.Tuple) else [expr]


@dataclass(frozen=True)
class _Placement:
    """One network's arena: its bytes, offsets of tensors, offsets of workspaces by call."""

    size: int
    tensors: Mapping[Var, int]
    workspaces: Sequence[int]


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


def _owners(
    mod: tvm.IRModule,
    bindings: Sequence[VarBinding],
    result: relax.Expr,
    fixed: frozenset[str] = frozenset(),
) -> dict[Var, Var]:
    """Variables to the variable of their allocation, for the tensors that the arena may hold.

    It may not hold a tensor that the network returns, nor an argument of a function that cannot
    take memory at an offset.
    """
    owners: dict[Var, Var] = {}
    kept = {*variables(result)}
    for binding in bindings:
        value = binding.value
        if op_name(value) == ALLOCATE and are_constant(value.args[0].values):
            owners[binding.var] = binding.var
        elif isinstance(value, Var) or op_name(value) == RESHAPE:
            source = value if isinstance(value, Var) else value.args[0]
            if source in owners:
                owners[binding.var] = owners[source]
        elif not _suits(mod, _callee(binding), fixed):
            kept |= {*variables(value)}
    excluded = {owners[name] for name in kept if name in owners}
    return {name: owner for name, owner in owners.items() if owner not in excluded}


def _viewed(reshape: VarBinding) -> VarBinding:
    view = Call(VIEW, reshape.value.args, None, [reshape.var.ty])
    return VarBinding(reshape.var, view)


# A rewritten function: (its name, itself, the workspaces that follow its arguments).
_Rewritten = tuple[GlobalVar, tirx.PrimFunc, tuple[Workspace, ...]]


def _movable(
    mod: tvm.IRModule,
    bindings: Mapping[GlobalVar, Sequence[VarBinding]],
    moving: Mapping[GlobalVar, Collection[Var]],
    fixed: frozenset[str],
) -> dict[str, set[int]]:
    """The functions that are called with ``moving`` tensors, and their parameters that get these.

    These lie in an arena, or at an offset in the caller's memory.
    """
    movable: dict[str, set[int]] = {}
    for network, calls in bindings.items():
        for binding in calls:
            name = _callee(binding)
            if _suits(mod, name, fixed):
                args = binding.value.args
                at_call = {at for at, arg in enumerate(args) if arg in moving[network]}
                movable.setdefault(name, set()).update(at_call)
    return movable


def _functions(mod: tvm.IRModule, movable: Mapping[str, Collection[int]]) -> dict[str, _Rewritten]:
    """The functions whose parameters are ``movable``, rewritten, by name."""
    rewritten = {
        name: with_memory_params(mod[name], sorted(params)) for name, params in movable.items()
    }
    return {
        name: (_function_name(name, func), func, spaces)
        for name, (func, spaces) in rewritten.items()
    }


def _callee(binding: VarBinding) -> str:
    """The name of the function that a binding calls; ``""`` if it calls none."""
    value = binding.value
    called = isinstance(value, Call) and isinstance(value.op, GlobalVar)
    return str(value.op.name_hint) if called else ""


def _suits(mod: tvm.IRModule, name: str, fixed: frozenset[str]) -> bool:
    """Whether the function of that name can take memory of the arena."""
    func = mod[name] if name and name not in fixed else None
    return isinstance(func, tirx.PrimFunc) and takes_memory_params(func)


def _function_name(name: str, func: tirx.PrimFunc) -> GlobalVar:
    """The function's old name with its new type."""
    var = GlobalVar(name)
    params = [
        relax.TensorType([int(extent) for extent in param.shape], str(param.dtype))
        for param in func.params
    ]
    _update_type(var, relax.FuncType(params, TupleType([]), False))
    return var


def _lifetimes(bindings: Sequence[VarBinding], owners: Mapping[Var, Var]) -> dict[Var, Lifetime]:
    """The live range of each allocation: from the first call that takes it to the last."""
    uses: dict[Var, list[int]] = {}
    for at, binding in enumerate(bindings):
        for name in variables(binding.value) if _callee(binding) else ():
            if name in owners:
                uses.setdefault(owners[name], []).append(at)
    return {
        binding.var: Lifetime(_bytes(binding.value), uses[binding.var][0], uses[binding.var][-1])
        for binding in bindings
        if binding.var in uses
    }


def _bytes(allocation: Call) -> int:
    shape, dtype = allocation.args[:2]
    return prod(int(extent) for extent in shape.values) * item_bytes(str(dtype.value))


def _workspaces(binding: VarBinding, functions: Mapping[str, _Rewritten]) -> tuple[Workspace, ...]:
    name = _callee(binding)
    return functions[name][2] if name in functions else ()


@dataclass(frozen=True)
class _Arena:
    """The arena's binding, and the offsets of the workspaces in the order of the calls."""

    binding: VarBinding
    offsets: Iterator[int]

    @classmethod
    def of(cls, size: int, offsets: Sequence[int]) -> _Arena:
        storage = relax.op.memory.alloc_storage(relax.ShapeExpr([size]), 0, "global", "uint8")
        return cls(VarBinding(Var("arena", relax.ObjectType()), storage), iter(offsets))

    def allocated(self, binding: VarBinding, offset: int) -> VarBinding:
        """A tensor of the arena in place of an allocation."""
        shape, dtype = binding.value.args[:2]
        return VarBinding(binding.var, self._at(offset, shape, str(dtype.value)))

    def called(
        self,
        binding: VarBinding,
        function: GlobalVar,
        _: tirx.PrimFunc,
        spaces: Sequence[Workspace],
    ) -> list[VarBinding]:
        """The workspaces of a call, then the call with them behind its arguments."""
        tensors = [
            VarBinding(
                Var("workspace", relax.TensorType([space.elements], space.dtype)),
                self._at(next(self.offsets), relax.ShapeExpr([space.elements]), space.dtype),
            )
            for space in spaces
        ]
        args = [*binding.value.args, *(tensor.var for tensor in tensors)]
        call = Call(function, args, binding.value.attrs, binding.value.ty_args)
        return [*tensors, VarBinding(binding.var, call)]

    def _at(self, offset: int, shape: relax.ShapeExpr, dtype: str) -> Call:
        return relax.op.memory.alloc_tensor(self.binding.var, offset, shape, dtype)
