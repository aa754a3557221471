"""What is known at import of the numbers that only a run computes.

Extents have names, bounds and definitions. Small integer tensors, which files compute of shapes,
have their elements as expressions of extents::

    Shape(x) -> Gather(0) -> Concat(.., [4]) -> Reshape          x: (n, 2, 2)
                             values [n, 4]                       a Reshape to (n, 4)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax, tirx
from tvm.sym import Analyzer

Extent = int | tirx.Expr
# Elements are ints and expressions of extents.
Numbers = npt.NDArray[Any]

# No tensor has more elements along an axis.
_MOST = 2**40


class Extents:
    """The extents of one model, and the integer tensors that are computed of them."""

    def __init__(self) -> None:
        # Extents are kept by their names, or replaced by what defines them.
        self._ranges = Analyzer()
        self._definitions = Analyzer()
        self._values: dict[relax.Var, Numbers] = {}
        self._bounded: set[tirx.Var] = set()

    def new(self, name: str, most: int | None = None) -> tirx.Var:
        """An extent that a run computes, at most ``most``."""
        var = tirx.Var(name, "int64")
        self.adopt(var, most)
        return var

    def adopt(self, var: tirx.Var, most: int | None = None) -> None:
        """Learn that a variable is an extent, which is never negative."""
        if var in self._bounded:
            return
        self._bounded.add(var)
        for analyzer in (self._ranges, self._definitions):
            analyzer.bind(var, _up_to(most))

    def defined(self, name: str, extent: tirx.Expr) -> tirx.Var:
        """A name for an expression of extents."""
        var = tirx.Var(name, "int64")
        self._bounded.add(var)
        self._ranges.bind(var, _up_to(self.most(extent)))
        self._definitions.bind(var, extent)
        return var

    def most(self, extent: Extent) -> int | None:
        """The largest value that the extent may have; ``None`` where no bound is known."""
        if isinstance(extent, int):
            return extent
        bound = int(self._ranges.const_int_bound(extent).max_value)
        return bound if bound < _MOST else None

    def same(self, one: Extent, other: Extent) -> bool:
        """Whether two numbers are known to be equal."""
        if isinstance(one, int) and isinstance(other, int):
            return one == other
        difference = self._definitions.simplify(as_expr(one) - as_expr(other))
        return isinstance(difference, tirx.IntImm) and int(difference) == 0

    def proves(self, condition: bool | tirx.Expr) -> bool:
        """Whether a condition is known to hold."""
        if isinstance(condition, bool):
            return condition
        return bool(self._definitions.can_prove(condition))

    def simple(self, number: Extent) -> Extent:
        """The number in fewer terms; an int where it is one."""
        if isinstance(number, (int, np.integer)):
            return int(number)
        found = self._ranges.simplify(number)
        settled = self._definitions.simplify(number)
        if isinstance(settled, tirx.IntImm):
            return int(settled)
        return int(found) if isinstance(found, tirx.IntImm) else found

    def know(self, tensor: relax.Var, numbers: Numbers) -> None:
        """Remember the elements of an integer tensor."""
        self._values[tensor] = numbers

    def values(self, tensor: relax.Expr | None) -> Numbers | None:
        """The elements of an integer tensor; ``None`` where they are not known."""
        return self._values.get(tensor) if isinstance(tensor, relax.Var) else None


def _up_to(most: int | None) -> tvm.ir.Range:
    last = _MOST if most is None else most
    return tvm.ir.Range(tirx.const(0, "int64"), tirx.const(last + 1, "int64"))


def as_expr(extent: Extent) -> tirx.Expr:
    """The extent as an expression."""
    return tirx.const(extent, "int64") if isinstance(extent, int) else extent


def numbers(values: Any) -> Numbers:
    """An array of ints and expressions, from a flat list or an array."""
    given = values.ravel().tolist() if isinstance(values, np.ndarray) else list(values)
    found = np.empty(len(given), object)
    for place, value in enumerate(given):
        found[place] = value
    return found.reshape(values.shape) if isinstance(values, np.ndarray) else found
