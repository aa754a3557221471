"""Remove layout transforms that undo each other, repeat each other or transform constants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.relay_passes.ir.constants import array_of, constant_of
from tvm_neocpu.relay_passes.ir.exprs import over_variables, static_shape
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions
from tvm_neocpu.relay_passes.operators.layout_transform import (
    stored_in,
    transform,
    transform_layouts,
)


@dataclass(frozen=True)
class EliminateTransforms:
    """Keep at most one transform between a tensor and each layout in which it is read.

    NCHW16c -> NCHW -> NCHW16c becomes nothing, and a -> b -> c becomes a -> c. Two transforms of
    one tensor to one layout become one. A constant is transformed at compile time.

    Needs: transforms are calls that :func:`transform_layouts` reads.
    Leaves: no transform of a transform's result, and no dead code.
    """

    name: ClassVar[str] = "eliminate-transforms"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_regions(mod, lambda scope: _Rewriter(scope).run())


@dataclass
class _Rewriter:
    """One region.

    ``renamed`` maps old variables to new expressions; ``origin`` maps the result of a transform to
    the tensor before the first transform and its layout; ``made`` has the transforms so far.
    """

    scope: Scope
    origin: dict[relax.Var, tuple[relax.Expr, Layout]] = field(default_factory=dict)
    made: dict[tuple[relax.Expr, Layout], relax.Expr] = field(default_factory=dict)
    renamed: dict[relax.Var, relax.Expr] = field(default_factory=dict)

    def run(self) -> None:
        for binding in self.scope.region.bindings:
            self.renamed[binding.var] = self._rewritten(binding.value)
        for var in self.scope.region.outputs:
            self.scope.bind(var, self.renamed[var])

    def _rewritten(self, value: relax.Expr) -> relax.Expr:
        layouts = transform_layouts(value)
        value = over_variables(value, lambda variable: self.renamed.get(variable, variable))
        if isinstance(value, relax.Var):
            return value
        if layouts is None:
            return self.scope.emit(value)
        return self._transform(value.args[0], *layouts)

    def _transform(self, data: relax.Expr, before: Layout, after: Layout) -> relax.Expr:
        constant = array_of(data)
        if constant is not None:
            return constant_of(stored_in(constant, before, after))
        source, first = self.origin.get(data, (data, before))
        if first == after:
            return source
        if (source, after) not in self.made:
            logical = first.logical_shape(static_shape(source))
            moved = self.scope.emit(transform(source, logical, first, after))
            self.made[source, after] = moved
            self.origin[moved] = (source, first)
        return self.made[source, after]
