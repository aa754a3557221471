"""One arena for a network's activations and its kernels' workspace.

TVM's planner reuses whole allocations, and kernels allocate their workspace apart from them. The
working set is larger than it need be, and the first touch of a line in an inference misses all
caches, because the weights passed through them since. In an arena a buffer lies at any offset that
is free during its live range. ResNet-50 touched 7.2 MB instead of 12.5 MB; on AMD Zen 5 it is 1 %
faster on one thread and 1-4 % on two, the more the busier memory is. With sums over their residuals
(:mod:`.over_operands`) it is 5.2 MB.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import ClassVar, NamedTuple

import tvm
from tvm import relax, tirx
from tvm.ir import Call, GlobalVar, TupleType
from tvm.relax import Function, Var, VarBinding
from tvm.relax.expr import _update_type

from tvm_neocpu.core.arena import Lifetime, place_tightly
from tvm_neocpu.core.types import item_bytes
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.ir.written_outputs import with_offsets
from tvm_neocpu.relay_passes.memory.at_offsets import AtOffsets
from tvm_neocpu.relay_passes.memory.explicit import RESHAPE, callee, uses_of, viewed
from tvm_neocpu.relay_passes.memory.over_operands import laid_over
from tvm_neocpu.topi.tir.functions.memory_params import Placed, Workspace


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
        found = AtOffsets.of(mod, self.at_offset)
        if not found.bindings:
            return mod
        return relax.transform.Normalize()(_Planner(found).planned())


class _Planner:
    """The functions of one module that have arenas."""

    def __init__(self, found: AtOffsets) -> None:
        self._found = found
        self._functions = _functions(found)
        over = {name: each.placed.over for name, each in self._functions.items()}
        laid = {
            var: laid_over(bindings, found.owners[var], over)
            for var, bindings in found.bindings.items()
        }
        self._bindings = {var: bindings for var, (bindings, _) in laid.items()}
        self._owners = {var: owners for var, (_, owners) in laid.items()}

    def planned(self) -> tvm.IRModule:
        mod = self._found.mod
        placements = {var: self._placed(var) for var in self._found.bindings}
        size = max(placement.size for placement in placements.values())
        planned = {
            var: func for var, func in mod.functions.items() if var.name_hint not in self._functions
        }
        planned |= {each.name: each.placed.func for each in self._functions.values()}
        for var, placement in placements.items():
            planned[var] = self._rewritten(var, placement, size)
        return tvm.IRModule(planned, attrs=mod.attrs)

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
        rewritten: list[relax.Binding] = [arena.binding] if placement.has_any else []
        for binding in self._bindings[network]:
            if binding.var in placed:
                rewritten.append(arena.allocated(binding, placed[binding.var]))
            elif callee(binding) in functions:
                rewritten += arena.called(binding, functions[callee(binding)])
            elif op_name(binding.value) == RESHAPE:
                rewritten.append(viewed(binding))
            else:
                rewritten.append(binding)
        old = self._found.mod[network]
        body = relax.SeqExpr([relax.BindingBlock(rewritten)], old.body.body)
        new = Function(old.params, body, old.ret_ty, old.is_pure, old.attrs, old.span)
        shifted = self._found.shifted.get(network)
        return new if shifted is None else with_offsets(new, shifted.inputs, shifted.outputs)


@dataclass(frozen=True)
class _Placement:
    """One network's arena: its bytes, offsets of tensors, offsets of workspaces by call."""

    size: int
    tensors: Mapping[Var, int]
    workspaces: Sequence[int]

    @property
    def has_any(self) -> bool:
        """Whether something lies in it, if only tensors without elements."""
        return bool(self.tensors or self.workspaces)


class _Rewritten(NamedTuple):
    """A rewritten function and its name."""

    name: GlobalVar
    placed: Placed


def _functions(found: AtOffsets) -> dict[str, _Rewritten]:
    """The functions whose parameters are ``movable``, rewritten, by name."""
    rewritten = {name: found.placed(name, found.mod[name]) for name in found.movable}
    return {
        name: _Rewritten(_function_name(name, placed.func), placed)
        for name, placed in rewritten.items()
    }


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
    uses = uses_of(bindings, owners)
    return {
        binding.var: Lifetime(_bytes(binding.value), uses[binding.var][0], uses[binding.var][-1])
        for binding in bindings
        if binding.var in uses
    }


def _bytes(allocation: Call) -> int:
    shape, dtype = allocation.args[:2]
    return prod(int(extent) for extent in shape.values) * item_bytes(str(dtype.value))


def _workspaces(binding: VarBinding, functions: Mapping[str, _Rewritten]) -> tuple[Workspace, ...]:
    name = callee(binding)
    return functions[name].placed.spaces if name in functions else ()


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
        function: _Rewritten,
    ) -> list[VarBinding]:
        """The workspaces of a call, then the call with them behind its arguments."""
        tensors = [
            VarBinding(
                Var("workspace", relax.TensorType([space.elements], space.dtype)),
                self._at(next(self.offsets), relax.ShapeExpr([space.elements]), space.dtype),
            )
            for space in function.placed.spaces
        ]
        args = [*binding.value.args, *(tensor.var for tensor in tensors)]
        call = Call(function.name, args, binding.value.attrs, binding.value.ty_args)
        return [*tensors, VarBinding(binding.var, call)]

    def _at(self, offset: int, shape: relax.ShapeExpr, dtype: str) -> Call:
        return relax.op.memory.alloc_tensor(self.binding.var, offset, shape, dtype)
