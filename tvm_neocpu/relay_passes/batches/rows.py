"""Tensors of which one extent is the batch, and functions of them, in TVMScript."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from textwrap import indent
from typing import Any

from tvm import tirx

from tvm_neocpu.core.machine.alignment import ALIGNMENT
from tvm_neocpu.core.types import item_bytes


class Rows:
    """A tensor with the batch as one extent, in TVMScript.

    Flat it is ``(n, row)``, or ``(before, n, row)`` where other extents stand before the batch.
    """

    def __init__(self, name: str, ty: Any) -> None:
        self.name = name
        self.dtype = str(ty.dtype)
        extents = list(ty.shape.values)
        at = next(at for at, extent in enumerate(extents) if not isinstance(extent, tirx.IntImm))
        self._outside = [int(extent) for extent in extents[:at]]
        self._image = [int(extent) for extent in extents[at + 1 :]]
        self.row = prod(self._image)
        self._before = [prod(self._outside)] if prod(self._outside) > 1 else []
        self._row_bytes = self.row * item_bytes(self.dtype)

    def extents(self, batch: int | str) -> str:
        return f"[{', '.join(map(str, [*self._outside, batch, *self._image]))}]"

    def type(self, batch: int | str, quoted: bool = False) -> str:
        return _tensor([*self._outside, _quote(batch, quoted), *self._image], self.dtype)

    def flat_type(self, batch: int | str, quoted: bool = False) -> str:
        return _tensor([*self._before, _quote(batch, quoted), self.row], self.dtype)

    def flat(self, value: str, batch: int | str) -> str:
        return _view(value, self._flat_extents(batch), self.flat_type(batch))

    def shaped(self, value: str, batch: int | str) -> str:
        return _view(value, self.extents(batch), self.type(batch))

    @property
    def rows_are_aligned(self) -> bool:
        """Whether rows are one piece, each where generated code wants its tensors to begin."""
        return not self._before and self._row_bytes % ALIGNMENT == 0

    def rows(self, value: str, size: int, first: str) -> str:
        """A view of rows of a flat tensor, in their own shape."""
        offset = f"R.prim_value({first} * {self._row_bytes})"
        return (
            f'R.call_packed("runtime.TVMTensorCreateView", {value}, R.shape({self.extents(size)}), '
            f'R.dtype("{self.dtype}"), {offset}, ty_args=({self.type(size)},))'
        )

    def allocated(self, name: str, batch: int | str) -> str:
        """The statement that makes a tensor."""
        return _allocation(name, self.extents(batch), self.dtype)

    def flat_allocated(self, name: str, batch: int | str) -> str:
        """The statement that makes a tensor of flat rows."""
        return _allocation(name, self._flat_extents(batch), self.dtype)

    def _flat_extents(self, batch: int | str) -> str:
        return f"[{', '.join(map(str, [*self._before, batch, self.row]))}]"

    def copy(self, kind: str, size: int) -> str:
        return "_".join(map(str, [kind, *self._before, size, self.row, self.dtype]))

    def load(self, size: int) -> str:
        return self._copies("load", size, "part[{at}vi, vj] = whole[{at}first + vi, vj]")

    def store(self, size: int) -> str:
        return self._copies("store", size, "whole[{at}first + vi, vj] = part[{at}vi, vj]")

    def load_padded(self, size: int) -> str:
        """As :meth:`load`, where fewer rows are left: zeros stand for the others."""
        zero = f"T.{self.dtype}(0)"
        row = f"T.if_then_else(first + vi < n, whole[{{at}}first + vi, vj], {zero})"
        return self._copies("load_padded", size, f"part[{{at}}vi, vj] = {row}")

    def store_padded(self, size: int) -> str:
        """As :meth:`store`, of the rows that exist."""
        kept = "T.where(first + i < n)"
        return self._copies(
            "store_padded", size, "whole[{at}first + vi, vj] = part[{at}vi, vj]", kept
        )

    def _copies(self, kind: str, size: int, statement: str, guard: str = "") -> str:
        """The function of a statement, in which ``{at}`` is the index before the batch."""
        outer, inner, axes = ("b, ", "vb, ", "SSS") if self._before else ("", "", "SS")
        extents = ", ".join(map(str, [*self._before, size, self.row]))
        part = f'part: T.Buffer(({extents}), "{self.dtype}")'
        whole, first = "handle: T.handle", "first: T.int64"
        loads = kind.startswith("load")
        params = [whole, first, part] if loads else [part, whole, first]
        guards = [f"            {guard}"] if guard else []
        all_rows = ", ".join(map(str, [*self._before, "n", self.row]))
        return "\n".join(
            [
                "@T.prim_func(private=True, s_tir=True)",
                f"def {self.copy(kind, size)}({', '.join(params)}):",
                '    T.func_attr({"tirx.noalias": True})',
                "    n = T.int64()",
                f'    whole = T.match_buffer(handle, ({all_rows}), "{self.dtype}")',
                f"    for {outer}i, j in T.grid({extents}):",
                '        with T.sblock("rows"):',
                f'            {inner}vi, vj = T.axis.remap("{axes}", [{outer}i, j])',
                *guards,
                f"            {statement.format(at=inner)}",
            ]
        )


def _quote(batch: int | str, quoted: bool) -> int | str:
    return f'"{batch}"' if quoted else batch


def _tensor(extents: Sequence[int | str], dtype: str) -> str:
    return f'R.Tensor(({", ".join(map(str, extents))},), "{dtype}")'


def _allocation(name: str, extents: str, dtype: str) -> str:
    of_type = f'R.dtype("{dtype}")'
    return f"{name} = R.builtin.alloc_tensor(R.shape({extents}), {of_type}, R.prim_value(0))"


def _view(value: str, extents: str, ty: str) -> str:
    """TVM's own reshape would become a copy here, after all operators are legalised."""
    return f'R.call_packed("vm.builtin.reshape", {value}, R.shape({extents}), ty_args=({ty},))'


def function(signature: str, result: str, lines: Sequence[str], private: bool = True) -> str:
    """A Relax function of these statements."""
    heading = f"@R.function(pure=False, private={private})\ndef {signature} -> {result}:\n"
    return heading + indent("\n".join(lines), "    ")
