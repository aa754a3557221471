"""Tensors whose first extent is the batch, and functions of them, in TVMScript."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from textwrap import indent
from typing import Any

from tvm_neocpu.core.alignment import ALIGNMENT
from tvm_neocpu.core.types import item_bytes


class Rows:
    """A tensor whose first extent is the batch, in TVMScript."""

    def __init__(self, name: str, ty: Any) -> None:
        self.name = name
        self.dtype = str(ty.dtype)
        self._image = [int(extent) for extent in ty.shape.values[1:]]
        self.row = prod(self._image)
        self._row_bytes = self.row * item_bytes(self.dtype)

    def extents(self, batch: int | str) -> str:
        return f"[{', '.join(map(str, [batch, *self._image]))}]"

    def type(self, batch: int | str, quoted: bool = False) -> str:
        return _tensor([_quote(batch, quoted), *self._image], self.dtype)

    def flat_type(self, batch: int | str, quoted: bool = False) -> str:
        return _tensor([_quote(batch, quoted), self.row], self.dtype)

    def flat(self, value: str, batch: int | str) -> str:
        return _view(value, f"[{batch}, {self.row}]", self.flat_type(batch))

    def shaped(self, value: str, batch: int | str) -> str:
        return _view(value, self.extents(batch), self.type(batch))

    @property
    def rows_are_aligned(self) -> bool:
        """Whether each row begins where generated code wants its tensors to begin."""
        return self._row_bytes % ALIGNMENT == 0

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
        return _allocation(name, f"[{batch}, {self.row}]", self.dtype)

    def copy(self, kind: str, size: int) -> str:
        return f"{kind}_{size}_{self.row}_{self.dtype}"

    def load(self, size: int) -> str:
        return self._copies("load", size, "part[vi, vj] = whole[first + vi, vj]")

    def store(self, size: int) -> str:
        return self._copies("store", size, "whole[first + vi, vj] = part[vi, vj]")

    def load_padded(self, size: int) -> str:
        """As :meth:`load`, where fewer rows are left: zeros stand for the others."""
        zero = f"T.{self.dtype}(0)"
        row = f"T.if_then_else(first + vi < n, whole[first + vi, vj], {zero})"
        return self._copies("load_padded", size, f"part[vi, vj] = {row}")

    def store_padded(self, size: int) -> str:
        """As :meth:`store`, of the rows that exist."""
        kept = "T.where(first + i < n)"
        return self._copies("store_padded", size, "whole[first + vi, vj] = part[vi, vj]", kept)

    def _copies(self, kind: str, size: int, statement: str, guard: str = "") -> str:
        part = f'part: T.Buffer(({size}, {self.row}), "{self.dtype}")'
        whole, first = "handle: T.handle", "first: T.int64"
        loads = kind.startswith("load")
        params = [whole, first, part] if loads else [part, whole, first]
        guards = [f"            {guard}"] if guard else []
        return "\n".join(
            [
                "@T.prim_func(private=True, s_tir=True)",
                f"def {self.copy(kind, size)}({', '.join(params)}):",
                '    T.func_attr({"tirx.noalias": True})',
                "    n = T.int64()",
                f'    whole = T.match_buffer(handle, (n, {self.row}), "{self.dtype}")',
                f"    for i, j in T.grid({size}, {self.row}):",
                '        with T.sblock("rows"):',
                '            vi, vj = T.axis.remap("SS", [i, j])',
                *guards,
                f"            {statement}",
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
