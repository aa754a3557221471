"""The function that runs any batch as a sum of specialised ones, in the compiled code itself.

    main(x: (n, ..)):                        with the sizes 1, 2, 4
        if n == 4: return main_batch4(x)     an input of a size runs as it is
        if n == 2: ..
        y = allocate (n, ..)
        return main_from4(x, y, 0)

    main_from4(x, y, i):                     rows i.. of y are not computed yet
        if i + 4 <= n: main_runs4(x, y, i, (n - i) // 4)
        return main_from2(x, y, n - (n - i) % 4)

    main_runs4(x, y, i, c):                  c runs, the first from row i on
        if c == 1: copy x[i : i + 4]; main_batch4; copy to y[i : i + 4]
        else: main_runs4(x, y, i, c // 2); main_runs4(x, y, i + 4 * (c // 2), c - c // 2)

Relax has no loops. A function that calls itself for each half is only log2(c) calls deep. The
functions are TVMScript text: it reads as the sketch above does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from textwrap import indent
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GlobalVar
from tvm.script import from_source

from tvm_neocpu.relay_passes.ir.tensor_types import tensors_of


def batch_name(network: str, size: int) -> str:
    """The name of a network's specialisation for a batch."""
    return f"{network}_batch{size}"


def add_dispatch(
    mod: tvm.IRModule, network: str, symbolic: relax.Function, sizes: Sequence[int]
) -> tvm.IRModule:
    """The module with a public function ``network`` that runs any batch.

    ``mod`` has a function :func:`batch_name` for each of ``sizes``, 1 among them. ``symbolic`` is
    the network for any batch; the new function takes and gives what it does. Each tensor has the
    batch as its first extent; the result is one tensor or a flat tuple of tensors.
    """
    text = _Text(network, symbolic, tuple(sorted(sizes))).module()
    known = {str(var.name_hint): var for var in mod.get_global_vars()}
    made = from_source(text)
    functions = dict(mod.functions)
    for var, func in made.functions.items():
        if var.name_hint not in known:
            here = [(GlobalVar, lambda each: known.get(str(each.name_hint), each))]
            functions[var] = tvm_ffi.structural_map(func, here)
    return tvm.IRModule(functions, attrs=mod.attrs)


class _Text:
    """TVMScript of the functions, over flat rows: (n, C, H, W) is seen as (n, C * H * W)."""

    def __init__(self, network: str, symbolic: relax.Function, sizes: tuple[int, ...]) -> None:
        self.network = network
        self.sizes = sizes
        self.inputs = [_Rows(f"x{at}", var.ty) for at, var in enumerate(symbolic.params)]
        outputs = tensors_of(symbolic.ret_ty)
        self.outputs = [_Rows(f"y{at}", ty) for at, ty in enumerate(outputs)]
        self.gives_tuple = isinstance(symbolic.ret_ty, relax.TupleType)

    def module(self) -> str:
        parts = [*self.copies(), self.entry()]
        for size, smaller in zip(self.sizes, (0, *self.sizes[:-1]), strict=True):
            parts += [self.declaration(size), self.runs(size), self.rest(size, smaller)]
        return "@I.ir_module\nclass M:\n" + "\n".join(indent(part, "    ") for part in parts)

    def declaration(self, size: int) -> str:
        """A specialisation as far as the parser needs it; the module has the real one."""
        made = [
            f"{each.name} = R.builtin.alloc_tensor(R.shape({each.extents(size)}), "
            f'R.dtype("{each.dtype}"), R.prim_value(0))'
            for each in self.outputs
        ]
        params = ", ".join(f"{each.name}: {each.type(size)}" for each in self.inputs)
        return _function(
            f"{batch_name(self.network, size)}({params})",
            self.results([each.type(size) for each in self.outputs]),
            [*made, f"return {self.pack([each.name for each in self.outputs])}"],
        )

    def entry(self) -> str:
        """Batches of a size at once, any other from the largest size on."""
        params = ", ".join(f"{each.name}: {each.type('n', quoted=True)}" for each in self.inputs)
        lines = ["cls = M", "n = T.int64()"]
        results = self.results([each.type("n") for each in self.outputs])
        depth = 0
        for size in reversed(self.sizes):
            branch = [f"if R.prim_value(n == {size}):"]
            exact = [f"a{each.name}" for each in self.inputs]
            branch += [
                f"    a{each.name} = R.match_cast({each.name}, {each.type(size)})"
                for each in self.inputs
            ]
            branch.append(f"    d = cls.{batch_name(self.network, size)}({', '.join(exact)})")
            branch.append(f"    r = R.match_cast(d, {results})")
            branch.append("else:")
            lines += [" " * 4 * depth + line for line in branch]
            depth += 1
        rest = [f"w{each.name} = {each.flat(each.name, 'n')}" for each in self.inputs]
        rest += [
            f"z{each.name} = R.builtin.alloc_tensor(R.shape([n, {each.row}]), "
            f'R.dtype("{each.dtype}"), R.prim_value(0))'
            for each in self.outputs
        ]
        passed = [f"w{each.name}" for each in self.inputs] + [f"z{e.name}" for e in self.outputs]
        rest.append(f"f = cls.{self.rest_name(self.sizes[-1])}({', '.join(passed)}, R.shape([0]))")
        rest += [
            f"o{each.name} = {each.shaped(f'f[{at}]', 'n')}" for at, each in enumerate(self.outputs)
        ]
        rest.append(f"r = {self.pack([f'o{each.name}' for each in self.outputs])}")
        lines += [" " * 4 * depth + line for line in rest]
        quoted = self.results([each.type("n", quoted=True) for each in self.outputs])
        return _function(f"{self.network}({params})", quoted, [*lines, "return r"], private=False)

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
        for each in self.inputs:
            lines.append(
                f"    p{each.name} = R.call_tir(cls.{each.copy('load', size)}, ({each.name}, i), "
                f"out_ty={each.flat_type(size)})"
            )
            lines.append(f"    q{each.name} = {each.shaped(f'p{each.name}', size)}")
        parts = ", ".join(f"q{each.name}" for each in self.inputs)
        lines.append(f"    d = cls.{batch_name(self.network, size)}({parts})")
        for at, each in enumerate(self.outputs):
            done = f"d[{at}]" if self.gives_tuple else "d"
            lines.append(f"    e{each.name} = {each.flat(done, size)}")
            lines.append(
                f"    s{each.name} = R.call_tir_inplace(cls.{each.copy('store', size)}, "
                f"(e{each.name}, {each.name}, i), inplace_indices=[1], "
                f"out_ty={each.flat_type('n')})"
            )
        lines.append(f"    f = ({', '.join(f's{name}' for name in same)},)")
        lines.append("else:")
        call = f"cls.{self.runs_name(size)}"
        lines.append(f"    h = {call}({', '.join([*names, *same])}, R.shape([i, c // 2]))")
        half = ", ".join([*names, *(f"h[{at}]" for at in range(len(same)))])
        lines.append(f"    f = {call}({half}, R.shape([i + {size} * (c // 2), c - c // 2]))")
        return self.over_rows(self.runs_name(size), "i, c", [*lines, "return f"])

    def over_rows(self, name: str, extents: str, lines: Sequence[str]) -> str:
        """A function over all rows of the inputs and of the results so far."""
        tensors = [*self.inputs, *self.outputs]
        params = [f"{each.name}: {each.flat_type('n', quoted=True)}" for each in tensors]
        results = ", ".join(each.flat_type("n", quoted=True) for each in self.outputs)
        symbols = ", ".join(f'"{extent}"' for extent in extents.split(", "))
        signature = f"{name}({', '.join(params)}, at: R.Shape([{symbols}]))"
        return _function(signature, f"R.Tuple({results})", lines)

    def copies(self) -> list[str]:
        """The functions that copy rows, each once."""
        found = {}
        for size in self.sizes:
            found.update({each.copy("load", size): each.load(size) for each in self.inputs})
            found.update({each.copy("store", size): each.store(size) for each in self.outputs})
        return list(found.values())

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
