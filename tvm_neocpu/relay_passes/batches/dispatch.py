"""The functions that run any batch as a sum of specialised ones, in the compiled code itself.

    main(x: (n, ..)):                        with the sizes 1, 2, 4
        y = allocate (n, ..)
        return main_into(x, y)

    main_into(x, y):                         y may be the caller's
        if n == 4: return main_batch4_into(x, y)
        if n == 2: ..                        an input of a size runs as it is
        return main_from4(x, y, 0)

    main_from4(x, y, i):                     rows i.. of y are not computed yet
        if i + 4 <= n: main_runs4(x, y, i, (n - i) // 4)
        return main_from2(x, y, n - (n - i) % 4)

    main_runs4(x, y, i, c):                  c runs, the first from row i on
        if c == 1: main_batch4_into(x[i : i + 4], y[i : i + 4])
        else: main_runs4(x, y, i, c // 2); main_runs4(x, y, i + 4 * (c // 2), c - c // 2)

Relax has no loops. A function that calls itself for each half is only log2(c) calls deep. Rows are
views where every row begins at a multiple of ALIGNMENT and the specialisation takes tensors at an
offset; else they are copied. The functions are TVMScript text: it reads as the sketch
above does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from math import prod
from textwrap import indent
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GlobalVar
from tvm.script import from_source

from tvm_neocpu.core.arena import ALIGNMENT
from tvm_neocpu.relay_passes.ir.tensor_types import tensors_of
from tvm_neocpu.relay_passes.ir.written_outputs import (
    WRITTEN,
    into_name,
    offsets_of,
    written_outputs,
)


def batch_name(network: str, size: int) -> str:
    """The name of a network's specialisation for a batch."""
    return f"{network}_batch{size}"


def add_dispatch(
    mod: tvm.IRModule,
    network: str,
    symbolic: relax.Function,
    sizes: Sequence[int],
    prepare: Callable[[tvm.IRModule], tvm.IRModule] = lambda made: made,
) -> tvm.IRModule:
    """The module with a public function ``network`` that runs any batch.

    ``mod`` has a function :func:`batch_name` for each of ``sizes``, 1 among them, and may have
    those that write their outputs into tensors of the caller: they are called in their place.
    Where these write an output at every size, there is such a function for any batch too.

    ``symbolic`` is the network for any batch; the new function takes and gives what it does. Each
    tensor has the batch as its first extent; the result is one tensor or a flat tuple of tensors.
    ``prepare`` is what ``mod`` went through; the new functions go through it by themselves.
    """
    names = {size: batch_name(network, size) for size in sorted(sizes)}
    written = {size: written_outputs(mod, name) for size, name in names.items()}
    shifted = {size: offsets_of(mod, name) for size, name in names.items()}
    text = _Text(network, symbolic, written, shifted)
    known = {str(var.name_hint): var for var in mod.get_global_vars()}
    functions = dict(mod.functions)
    for var, func in prepare(from_source(text.module())).functions.items():
        if var.name_hint not in known:
            if var.name_hint == into_name(network):
                func = func.with_attr(WRITTEN, text.written_always)
            here = [(GlobalVar, lambda each: known.get(str(each.name_hint), each))]
            functions[var] = tvm_ffi.structural_map(func, here)
    return tvm.IRModule(functions, attrs=mod.attrs)


class _Text:
    """TVMScript of the functions, over flat rows: (n, C, H, W) is seen as (n, C * H * W).

    ``written`` are the outputs that the specialisation for a batch takes, by batch, ascending;
    ``shifted`` the inputs and outputs that it takes at an offset.
    """

    def __init__(
        self,
        network: str,
        symbolic: relax.Function,
        written: Mapping[int, Sequence[int]],
        shifted: Mapping[int, tuple[Collection[int], Collection[int]]],
    ) -> None:
        self.network = network
        self.written = written
        self.shifted = shifted
        self.sizes = tuple(written)
        self.inputs = [_Rows(f"x{at}", var.ty) for at, var in enumerate(symbolic.params)]
        outputs = tensors_of(symbolic.ret_ty)
        self.outputs = [_Rows(f"y{at}", ty) for at, ty in enumerate(outputs)]
        self.gives_tuple = isinstance(symbolic.ret_ty, relax.TupleType)

    @cached_property
    def written_always(self) -> list[int]:
        """The outputs that are written into tensors of the caller at every size."""
        numbers = range(len(self.outputs))
        return [at for at in numbers if all(at in taken for taken in self.written.values())]

    def module(self) -> str:
        parts = self.entries()
        for size, smaller in zip(self.sizes, (0, *self.sizes[:-1]), strict=True):
            parts += [self.declaration(size), self.runs(size), self.rest(size, smaller)]
        text = "\n".join(parts)
        parts = [copy for name, copy in self.copies().items() if f"cls.{name}," in text] + parts
        return "@I.ir_module\nclass M:\n" + "\n".join(indent(part, "    ") for part in parts)

    def declaration(self, size: int) -> str:
        """A specialisation as far as the parser needs it; the module has the real one."""
        made = [each.allocated(each.name, size) for each in self.outputs]
        taken = [f"{self.outputs[at].name}_" for at in self.written[size]]
        params = [f"{each.name}: {each.type(size)}" for each in self.inputs]
        params += [
            f"{name}: {self.outputs[at].type(size)}"
            for name, at in zip(taken, self.written[size], strict=True)
        ]
        return _function(
            f"{self.callee(size)}({', '.join(params)})",
            self.results([each.type(size) for each in self.outputs]),
            [*made, f"return {self.pack([each.name for each in self.outputs])}"],
        )

    def entries(self) -> list[str]:
        """The function for any batch, and the one that it calls with memory for its outputs."""
        if not self.written_always:
            return [self.entry(self.network, [])]
        taken = [self.outputs[at] for at in self.written_always]
        made = [each.allocated(each.name, "n") for each in taken]
        passed = ", ".join(each.name for each in [*self.inputs, *taken])
        name = into_name(self.network)
        lines = ["cls = M", "n = T.int64()", *made, f"r = cls.{name}({passed})", "return r"]
        params = ", ".join(f"{each.name}: {each.type('n', quoted=True)}" for each in self.inputs)
        quoted = self.results([each.type("n", quoted=True) for each in self.outputs])
        whole = _function(f"{self.network}({params})", quoted, lines, private=False)
        return [self.entry(name, taken), whole]

    def entry(self, name: str, taken: Sequence[_Rows]) -> str:
        """Batches of a size at once, any other from the largest size on; ``taken`` are the outputs
        that it has as parameters.
        """
        params = ", ".join(
            f"{each.name}: {each.type('n', quoted=True)}" for each in [*self.inputs, *taken]
        )
        lines = ["cls = M", "n = T.int64()"]
        results = self.results([each.type("n") for each in self.outputs])
        depth = 0
        for size in reversed(self.sizes):
            branch = [f"if R.prim_value(n == {size}):"]
            branch += [
                f"    a{each.name} = R.match_cast({each.name}, {each.type(size)})"
                for each in [*self.inputs, *taken]
            ]
            places = [self.outputs[at] for at in self.written[size]]
            branch += [
                f"    {each.allocated(f'a{each.name}', size)}"
                for each in places
                if each not in taken
            ]
            exact = ", ".join(f"a{each.name}" for each in [*self.inputs, *places])
            branch.append(f"    d = cls.{self.callee(size)}({exact})")
            branch.append(f"    r = R.match_cast(d, {results})")
            branch.append("else:")
            lines += [" " * 4 * depth + line for line in branch]
            depth += 1
        whole = [*self.inputs, *taken]
        rest = [f"w{each.name} = {each.flat(each.name, 'n')}" for each in whole]
        rest += [
            f"w{each.name} = R.builtin.alloc_tensor(R.shape([n, {each.row}]), "
            f'R.dtype("{each.dtype}"), R.prim_value(0))'
            for each in self.outputs
            if each not in taken
        ]
        passed = ", ".join(f"w{each.name}" for each in [*self.inputs, *self.outputs])
        rest.append(f"f = cls.{self.rest_name(self.sizes[-1])}({passed}, R.shape([0]))")
        rest += [
            f"o{each.name} = {each.shaped(f'f[{at}]', 'n')}" for at, each in enumerate(self.outputs)
        ]
        rest.append(f"r = {self.pack([f'o{each.name}' for each in self.outputs])}")
        lines += [" " * 4 * depth + line for line in rest]
        quoted = self.results([each.type("n", quoted=True) for each in self.outputs])
        return _function(f"{name}({params})", quoted, [*lines, "return r"], private=False)

    def rest(self, size: int, smaller: int) -> str:
        """The rows that are left: as many runs of ``size`` as they give, then smaller ones."""
        lines = ["cls = M", "n = T.int64()", "i = T.int64()"]
        names, same = [each.name for each in self.inputs], [each.name for each in self.outputs]
        lines.append(f"if R.prim_value(i + {size} <= n):")
        passed = ", ".join([*names, *same])
        lines.append(
            f"    f = cls.{self.runs_name(size)}({passed}, R.shape([i, (n - i) // {size}]))"
        )
        lines += ["else:", f"    f = ({', '.join(same)},)"]
        if not smaller:
            return self.over_rows(self.rest_name(size), "i", [*lines, "return f"])
        left = [f"f[{at}]" for at in range(len(same))]
        lines.append(
            f"r = cls.{self.rest_name(smaller)}({', '.join([*names, *left])}, "
            f"R.shape([n - (n - i) % {size}]))"
        )
        return self.over_rows(self.rest_name(size), "i", [*lines, "return r"])

    def runs(self, size: int) -> str:
        """``c`` runs of ``size`` rows, the first from row ``i`` on."""
        names, same = [each.name for each in self.inputs], [each.name for each in self.outputs]
        lines = ["cls = M", "n = T.int64()", "i = T.int64()", "c = T.int64()"]
        lines.append("if R.prim_value(c == 1):")
        lines += [f"    {line}" for line in self.one_run(size)]
        lines.append(f"    f = ({', '.join(f's{name}' for name in same)},)")
        lines.append("else:")
        call = f"cls.{self.runs_name(size)}"
        lines.append(f"    h = {call}({', '.join([*names, *same])}, R.shape([i, c // 2]))")
        half = ", ".join([*names, *(f"h[{at}]" for at in range(len(same)))])
        lines.append(f"    f = {call}({half}, R.shape([i + {size} * (c // 2), c - c // 2]))")
        return self.over_rows(self.runs_name(size), "i, c", [*lines, "return f"])

    def one_run(self, size: int) -> list[str]:
        """``size`` rows from row ``i`` on; ``sy`` are the outputs after it."""
        shifted_inputs, shifted_outputs = self.shifted[size]
        lines = []
        for at, each in enumerate(self.inputs):
            if at in shifted_inputs and each.rows_are_aligned:
                lines.append(f"q{each.name} = {each.rows(each.name, size, 'i')}")
                continue
            lines.append(
                f"p{each.name} = R.call_tir(cls.{each.copy('load', size)}, ({each.name}, i), "
                f"out_ty={each.flat_type(size)})"
            )
            lines.append(f"q{each.name} = {each.shaped(f'p{each.name}', size)}")
        taken = self.written[size]
        in_place = {at for at in taken if at in shifted_outputs}
        in_place = {at for at in in_place if self.outputs[at].rows_are_aligned}
        for at in taken:
            each = self.outputs[at]
            if at in in_place:
                lines.append(f"q{each.name} = {each.rows(each.name, size, 'i')}")
            else:
                lines.append(each.allocated(f"q{each.name}", size))
        passed = [*self.inputs, *(self.outputs[at] for at in taken)]
        names = ", ".join(f"q{each.name}" for each in passed)
        lines.append(f"d = cls.{self.callee(size)}({names})")
        for at, each in enumerate(self.outputs):
            if at in in_place:
                lines.append(f"s{each.name} = {each.name}")
                continue
            done = f"d[{at}]" if self.gives_tuple else "d"
            lines.append(f"e{each.name} = {each.flat(done, size)}")
            lines.append(
                f"s{each.name} = R.call_tir_inplace(cls.{each.copy('store', size)}, "
                f"(e{each.name}, {each.name}, i), inplace_indices=[1], "
                f"out_ty={each.flat_type('n')})"
            )
        return lines

    def over_rows(self, name: str, extents: str, lines: Sequence[str]) -> str:
        """A function over all rows of the inputs and of the results so far."""
        tensors = [*self.inputs, *self.outputs]
        params = [f"{each.name}: {each.flat_type('n', quoted=True)}" for each in tensors]
        results = ", ".join(each.flat_type("n", quoted=True) for each in self.outputs)
        symbols = ", ".join(f'"{extent}"' for extent in extents.split(", "))
        signature = f"{name}({', '.join(params)}, at: R.Shape([{symbols}]))"
        return _function(signature, f"R.Tuple({results})", lines)

    def copies(self) -> dict[str, str]:
        """The functions that copy rows, by name."""
        found = {}
        for size in self.sizes:
            found.update({each.copy("load", size): each.load(size) for each in self.inputs})
            found.update({each.copy("store", size): each.store(size) for each in self.outputs})
        return found

    def callee(self, size: int) -> str:
        """The function for a batch."""
        name = batch_name(self.network, size)
        return into_name(name) if self.written[size] else name

    def rest_name(self, size: int) -> str:
        return f"{self.network}_from{size}"

    def runs_name(self, size: int) -> str:
        return f"{self.network}_runs{size}"

    def results(self, types: Sequence[str]) -> str:
        return f"R.Tuple({', '.join(types)})" if self.gives_tuple else types[0]

    def pack(self, names: Sequence[str]) -> str:
        return f"({', '.join(names)},)" if self.gives_tuple else names[0]


class _Rows:
    """A tensor whose first extent is the batch, in TVMScript."""

    def __init__(self, name: str, ty: Any) -> None:
        self.name = name
        self.dtype = str(ty.dtype)
        self._image = [int(extent) for extent in ty.shape.values[1:]]
        self.row = prod(self._image)

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
        return self.row * np.dtype(self.dtype).itemsize % ALIGNMENT == 0

    def rows(self, value: str, size: int, first: str) -> str:
        """A view of rows of a flat tensor, in their own shape."""
        offset = f"R.prim_value({first} * {self.row * np.dtype(self.dtype).itemsize})"
        return (
            f'R.call_packed("runtime.TVMTensorCreateView", {value}, R.shape({self.extents(size)}), '
            f'R.dtype("{self.dtype}"), {offset}, ty_args=({self.type(size)},))'
        )

    def allocated(self, name: str, batch: int | str) -> str:
        """The statement that makes a tensor."""
        return (
            f"{name} = R.builtin.alloc_tensor(R.shape({self.extents(batch)}), "
            f'R.dtype("{self.dtype}"), R.prim_value(0))'
        )

    def copy(self, kind: str, size: int) -> str:
        return f"{kind}_{size}_{self.row}_{self.dtype}"

    def load(self, size: int) -> str:
        return self._copies("load", size, "part[vi, vj] = whole[first + vi, vj]")

    def store(self, size: int) -> str:
        return self._copies("store", size, "whole[first + vi, vj] = part[vi, vj]")

    def _copies(self, kind: str, size: int, statement: str) -> str:
        part = f'part: T.Buffer(({size}, {self.row}), "{self.dtype}")'
        whole, first = "handle: T.handle", "first: T.int64"
        params = [whole, first, part] if kind == "load" else [part, whole, first]
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
                f"            {statement}",
            ]
        )


def _quote(batch: int | str, quoted: bool) -> int | str:
    return f'"{batch}"' if quoted else batch


def _tensor(extents: Sequence[int | str], dtype: str) -> str:
    return f'R.Tensor(({", ".join(map(str, extents))},), "{dtype}")'


def _view(value: str, extents: str, ty: str) -> str:
    """TVM's own reshape would become a copy here, after all operators are legalised."""
    return f'R.call_packed("vm.builtin.reshape", {value}, R.shape({extents}), ty_args=({ty},))'


def _function(signature: str, result: str, lines: Sequence[str], private: bool = True) -> str:
    heading = f"@R.function(pure=False, private={private})\ndef {signature} -> {result}:\n"
    return heading + indent("\n".join(lines), "    ")
