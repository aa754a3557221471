"""Clock readings inside the network, for a machine that no Python instrument reaches.

TVM 0.27 has no `profile` for Relax's virtual machine. A server takes an instrument only by the name
of a function that is registered there. So the network carries its own clock: a PrimFunc
that calls libc's `clock_gettime` and writes a row of a tensor.

    main(x):                    stamped(x, w0, stamps):
      conv(x, W, y)               stamp(stamps, 0)
      pool(y, z)                  kernel_5f(x, w0, y)
      return z                    stamp(stamps, 1)
                                  stamp(stamps, 2)
                                  kernel_a1(y, z)
                                  stamp(stamps, 3)
                                  return z, stamps

It costs two calls of the virtual machine, some 3 us, around each kernel. Of these the time between
two readings holds one dispatch, under a microsecond.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import ir, relax, tirx
from tvm.script import tirx as T

MAIN, STAMPED, STAMP = "main", "stamped", "neocpu_stamp"
# Linux's number of the clock that never goes back; a row is a timespec of a 64-bit system.
_CLOCK_MONOTONIC, _ROW = 1, 2


@dataclass(frozen=True)
class StampedNetwork:
    """``main`` and ``stamped``, both with ``constants`` as further parameters, and no kernels.

    ``calls`` names the function between readings 2 i and 2 i + 1.
    """

    module: tvm.IRModule
    calls: Sequence[str]
    constants: Sequence[tvm.runtime.Tensor]

    @property
    def no_stamps(self) -> NDArray[Any]:
        """What ``stamped`` takes as its last parameter and returns filled: seconds, nanoseconds."""
        return np.zeros((2 * len(self.calls), _ROW), "int64")

    def seconds(self, stamps: NDArray[Any]) -> Iterator[tuple[str, float]]:
        """(function, seconds) of each call that was made."""
        before, after = stamps[0::2], stamps[1::2]
        passed = (after - before).astype(float) @ (1.0, 1e-9)
        for name, row, seconds in zip(self.calls, after, passed, strict=True):
            if row.any():  # a call of the branch that was taken
                yield name, float(seconds)


def stamp_network(lowered: tvm.IRModule, symbols: Mapping[str, str]) -> StampedNetwork:
    """The network of a module that Relax's default pipeline lowered.

    ``symbols`` maps the kernels' names to those in the libraries that will be there.
    """
    kernels = {
        str(var.name_hint): ir.GlobalVar(symbols[str(var.name_hint)])
        for var, func in lowered.functions.items()
        if isinstance(func, tirx.PrimFunc)
    }
    functions = {
        var: _Rewrite(kernels, lifts=False).function(func, str(var.name_hint))
        for var, func in lowered.functions.items()
        if isinstance(func, relax.Function) and str(var.name_hint) != MAIN
    }
    plain = _Rewrite(kernels)
    stamped = _Rewrite(kernels, stamps=relax.Var("stamps", relax.TensorType(dtype="int64", ndim=2)))
    for name, rewrite in ((MAIN, plain), (STAMPED, stamped)):
        functions[ir.GlobalVar(name)] = rewrite.function(lowered[MAIN], name)
    constants = [constant.value for constant, _ in plain.lifted.values()]
    return StampedNetwork(tvm.IRModule(functions), stamped.calls, constants)


def stamp_kernel() -> tirx.PrimFunc:
    """``neocpu_stamp(stamps, index)`` writes the time into a row."""

    @T.prim_func(private=True)  # type: ignore[untyped-decorator]  # TVM has no types
    def stamp(handle: T.handle, index: T.int64) -> None:
        rows = T.int64()
        stamps = T.match_buffer(handle, (rows, _ROW), "int64")
        T.evaluate(
            T.call_extern(
                "int32", "clock_gettime", T.int32(_CLOCK_MONOTONIC), T.address_of(stamps[index, 0])
            )
        )

    return stamp


@dataclass
class _Rewrite:
    """Kernels get their symbols, their constants become parameters, calls get readings."""

    kernels: Mapping[str, ir.GlobalVar]
    lifts: bool = True
    stamps: relax.Var | None = None
    calls: list[str] = field(default_factory=list)
    # By the constant's identity; the constant is held with it, so that the identity stays its own.
    lifted: dict[int, tuple[ir.GenericConst, relax.Var]] = field(default_factory=dict)

    def function(self, old: relax.Function, name: str) -> relax.Function:
        body = self._sequence(old.body)
        parameters = [*old.params, *(parameter for _, parameter in self.lifted.values())]
        result = old.ret_ty
        if self.stamps is not None:
            parameters.append(self.stamps)
            both = relax.Var("both", relax.AnyType())
            pair = relax.VarBinding(both, relax.Tuple([body.body, self.stamps]))
            body = relax.SeqExpr([*body.blocks, relax.BindingBlock([pair])], both)
            result = relax.AnyType()
        return relax.Function(parameters, body, result, False).with_attr("global_symbol", name)

    def _sequence(self, old: relax.SeqExpr) -> relax.SeqExpr:
        blocks = [
            relax.BindingBlock([new for each in block.bindings for new in self._binding(each)])
            for block in old.blocks
        ]
        return relax.SeqExpr(blocks, old.body)

    def _binding(self, old: relax.Binding) -> Iterator[relax.Binding]:
        value = old.value
        if isinstance(value, relax.If):
            branches = (self._sequence(each) for each in (value.true_branch, value.false_branch))
            yield relax.VarBinding(old.var, relax.If(value.cond, *branches))
            return
        kernel = _kernel_of(value, self.kernels)
        if kernel is None:
            yield old
            return
        arguments = [self._argument(each) for each in value.args]
        called = relax.Call(kernel, arguments, value.attrs, value.ty_args)
        if self.stamps is None:
            yield relax.VarBinding(old.var, called)
            return
        number = 2 * len(self.calls)
        self.calls.append(str(value.op.name_hint))
        yield self._reading(number)
        yield relax.VarBinding(old.var, called)
        yield self._reading(number + 1)

    def _reading(self, number: int) -> relax.Binding:
        stamp = ir.GlobalVar(STAMP)
        nothing = relax.Var("_", relax.TupleType([]))
        return relax.VarBinding(
            nothing, relax.Call(stamp, [self.stamps, tirx.IntImm("int64", number)])
        )

    def _argument(self, old: relax.Expr) -> relax.Expr:
        if not self.lifts or not isinstance(old, ir.GenericConst):
            return old
        return self.lifted.setdefault(hash(old), (old, relax.Var(f"w{len(self.lifted)}", old.ty)))[
            1
        ]


def _kernel_of(value: relax.Expr, kernels: Mapping[str, ir.GlobalVar]) -> ir.GlobalVar | None:
    if not isinstance(value, relax.Call) or not isinstance(value.op, ir.GlobalVar):
        return None
    return kernels.get(str(value.op.name_hint))
