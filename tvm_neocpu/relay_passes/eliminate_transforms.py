"""Remove layout transforms that undo each other, repeat each other or move constants.

A constant is moved at compile time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.core.layout import Layout
from tvm_neocpu.relay_passes.ir.calls import static_shape
from tvm_neocpu.relay_passes.ir.constants import array_of, constant_of
from tvm_neocpu.relay_passes.ir.rebuild import Emit, over_variables, rebuild_main
from tvm_neocpu.relay_passes.layouts.transform import (
    stored_in,
    transform,
    transform_layouts,
)


@dataclass(frozen=True)
class EliminateTransforms:
    """NCHW16c -> NCHW -> NCHW16c is nothing; a -> b -> c is a -> c; twins are one;
    a constant that is moved is another constant.

    What a removed transform alone used is removed with it.
    """

    name: ClassVar[str] = "eliminate-transforms"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        rewriter = _Rewriter()
        rebuilt = rebuild_main(mod, rewriter.visit, rewriter.replace)
        return relax.transform.DeadCodeElimination(["main"])(rebuilt)


@dataclass
class _Rewriter:
    # new variable -> (the tensor before the first transform, its layout)
    origin: dict[relax.Var, tuple[relax.Expr, Layout]] = field(default_factory=dict)
    made: dict[tuple[relax.Expr, Layout], relax.Expr] = field(default_factory=dict)
    renamed: dict[relax.Var, relax.Expr] = field(default_factory=dict)

    def visit(self, var: relax.Var, value: relax.Expr, emit: Emit) -> None:
        if isinstance(value, relax.Var):
            self.renamed[var] = self.replace(value, emit)
            return
        layouts = transform_layouts(value)
        if layouts is None:
            self.renamed[var] = emit(self.replace(value, emit))
            return
        self.renamed[var] = self._transform(self.replace(value.args[0], emit), *layouts, emit)

    def replace(self, value: relax.Expr, _: Emit) -> relax.Expr:
        """The expression over the new variables."""
        return over_variables(value, lambda variable: self.renamed.get(variable, variable))

    def _transform(self, data: relax.Expr, before: Layout, after: Layout, emit: Emit) -> relax.Expr:
        constant = array_of(data)
        if constant is not None:
            return constant_of(stored_in(constant, before, after))
        source, first = self.origin.get(data, (data, before))
        if first == after:
            return source
        if (source, after) not in self.made:
            logical = first.logical_shape(static_shape(source))
            moved = emit(transform(source, logical, first, after))
            self.made[source, after] = moved
            self.origin[moved] = (source, first)
        return self.made[source, after]
