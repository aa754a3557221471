"""The text of the functions that run any batch: TVMScript, as :mod:`.dispatch` sketches it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from textwrap import indent

from tvm import relax

from tvm_neocpu.relay_passes.batches.rows import Rows, function
from tvm_neocpu.relay_passes.ir.tensor_types import tensors_of
from tvm_neocpu.relay_passes.ir.written_outputs import into_name


@dataclass(frozen=True)
class Specialised:
    """The function to call for one batch.

    It takes the outputs ``written`` behind its inputs. ``shifted_inputs`` and ``shifted_outputs``
    are those that it takes at an offset.
    """

    name: str
    written: Sequence[int]
    shifted_inputs: Collection[int]
    shifted_outputs: Collection[int]


class DispatchText:
    """TVMScript of the functions, over flat rows: (n, C, H, W) is seen as (n, C * H * W).

    What stands before the batch stays: (T, n, C) is seen as it is, and its rows are copied.

    ``specialised`` has the functions for single batches, by batch, ascending. Where at least
    ``padded_from[size]`` rows are left, and fewer than the size, they run padded to the size.
    """

    def __init__(
        self,
        network: str,
        symbolic: relax.Function,
        specialised: Mapping[int, Specialised],
        padded_from: Mapping[int, int],
    ) -> None:
        self.padded_from = padded_from
        self.network = network
        self.specialised = specialised
        self.sizes = tuple(specialised)
        self.inputs = [Rows(f"x{at}", var.ty) for at, var in enumerate(symbolic.params)]
        outputs = tensors_of(symbolic.ret_ty)
        self.outputs = [Rows(f"y{at}", ty) for at, ty in enumerate(outputs)]
        self.gives_tuple = isinstance(symbolic.ret_ty, relax.TupleType)

    @cached_property
    def written_always(self) -> list[int]:
        """The outputs that are written into tensors of the caller at every size."""
        numbers = range(len(self.outputs))
        made = self.specialised.values()
        return [at for at in numbers if all(at in each.written for each in made)]

    def module(self) -> str:
        parts = self.entries()
        for size, smaller in zip(self.sizes, (0, *self.sizes[:-1]), strict=True):
            parts += [self.declaration(size), self.runs(size), self.rest(size, smaller)]
            parts += [self.padded(size)] if size in self.padded_from else []
        text = "\n".join(parts)
        parts = [copy for name, copy in self.copies().items() if f"cls.{name}," in text] + parts
        return "@I.ir_module\nclass M:\n" + "\n".join(indent(part, "    ") for part in parts)

    def declaration(self, size: int) -> str:
        """A specialisation as far as the parser needs it; the module has the real one."""
        made = [each.allocated(each.name, size) for each in self.outputs]
        callee = self.specialised[size]
        taken = [self.outputs[at] for at in callee.written]
        params = [f"{each.name}: {each.type(size)}" for each in self.inputs]
        params += [f"{each.name}_: {each.type(size)}" for each in taken]
        return function(
            f"{callee.name}({', '.join(params)})",
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
        return [self.entry(name, taken), self.over_batch(self.network, self.inputs, lines)]

    def entry(self, name: str, taken: Sequence[Rows]) -> str:
        """Batches of a size at once, any other from the largest size on; ``taken`` are the outputs
        that it has as parameters.
        """
        whole = [*self.inputs, *taken]
        lines = ["cls = M", "n = T.int64()"]
        results = self.results([each.type("n") for each in self.outputs])
        depth = 0
        for size in reversed(self.sizes):
            branch = [f"if R.prim_value(n == {size}):"]
            branch += [
                f"    a{each.name} = R.match_cast({each.name}, {each.type(size)})" for each in whole
            ]
            places = [self.outputs[at] for at in self.specialised[size].written]
            branch += [
                f"    {each.allocated(f'a{each.name}', size)}"
                for each in places
                if each not in taken
            ]
            exact = ", ".join(f"a{each.name}" for each in [*self.inputs, *places])
            branch.append(f"    d = cls.{self.specialised[size].name}({exact})")
            branch.append(f"    r = R.match_cast(d, {results})")
            branch.append("else:")
            lines += [" " * 4 * depth + line for line in branch]
            depth += 1
        rest = [f"w{each.name} = {each.flat(each.name, 'n')}" for each in whole]
        rest += [
            each.flat_allocated(f"w{each.name}", "n") for each in self.outputs if each not in taken
        ]
        passed = ", ".join(f"w{each.name}" for each in [*self.inputs, *self.outputs])
        rest.append(f"f = cls.{self.rest_name(self.sizes[-1])}({passed}, R.shape([0]))")
        rest += [
            f"o{each.name} = {each.shaped(f'f[{at}]', 'n')}" for at, each in enumerate(self.outputs)
        ]
        rest.append(f"r = {self.pack([f'o{each.name}' for each in self.outputs])}")
        lines += [" " * 4 * depth + line for line in rest]
        return self.over_batch(name, whole, [*lines, "return r"])

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
        so_far = [f"f[{at}]" for at in range(len(same))]
        at_rest = f"({', '.join([*names, *so_far])}, R.shape([n - (n - i) % {size}]))"
        smallest = f"r = ({', '.join(so_far)},)"
        last = f"r = cls.{self.rest_name(smaller)}{at_rest}" if smaller else smallest
        if size in self.padded_from:
            lines.append(f"if R.prim_value((n - i) % {size} >= {self.padded_from[size]}):")
            lines += [f"    r = cls.{self.padded_name(size)}{at_rest}", "else:", f"    {last}"]
        else:
            lines.append(last)
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

    def padded(self, size: int) -> str:
        """The rows from ``i`` on, fewer than ``size``, with zeros behind them."""
        callee = self.specialised[size]
        lines = ["cls = M", "n = T.int64()", "i = T.int64()"]
        for each in self.inputs:
            lines.append(
                f"p{each.name} = R.call_tir(cls.{each.copy('load_padded', size)}, "
                f"({each.name}, i), out_ty={each.flat_type(size)})"
            )
            lines.append(f"q{each.name} = {each.shaped(f'p{each.name}', size)}")
        lines += [self.outputs[at].allocated(f"qy{at}", size) for at in callee.written]
        passed = [*self.inputs, *(self.outputs[at] for at in callee.written)]
        lines.append(f"d = cls.{callee.name}({', '.join(f'q{each.name}' for each in passed)})")
        for at, each in enumerate(self.outputs):
            done = f"d[{at}]" if self.gives_tuple else "d"
            lines.append(f"e{each.name} = {each.flat(done, size)}")
            lines.append(self.stored(each, "store_padded", size))
        results = ", ".join(f"s{each.name}" for each in self.outputs)
        return self.over_rows(self.padded_name(size), "i", [*lines, f"return ({results},)"])

    def stored(self, each: Rows, kind: str, size: int) -> str:
        """The statement that copies rows of an output to their place."""
        return (
            f"s{each.name} = R.call_tir_inplace(cls.{each.copy(kind, size)}, "
            f"(e{each.name}, {each.name}, i), inplace_indices=[1], out_ty={each.flat_type('n')})"
        )

    def one_run(self, size: int) -> list[str]:
        """``size`` rows from row ``i`` on; ``sy`` are the outputs after it."""
        callee = self.specialised[size]
        lines = []
        for at, each in enumerate(self.inputs):
            if at in callee.shifted_inputs and each.rows_are_aligned:
                lines.append(f"q{each.name} = {each.rows(each.name, size, 'i')}")
                continue
            lines.append(
                f"p{each.name} = R.call_tir(cls.{each.copy('load', size)}, ({each.name}, i), "
                f"out_ty={each.flat_type(size)})"
            )
            lines.append(f"q{each.name} = {each.shaped(f'p{each.name}', size)}")
        in_place = {
            at
            for at in callee.written
            if at in callee.shifted_outputs and self.outputs[at].rows_are_aligned
        }
        for at in callee.written:
            each = self.outputs[at]
            if at in in_place:
                lines.append(f"q{each.name} = {each.rows(each.name, size, 'i')}")
            else:
                lines.append(each.allocated(f"q{each.name}", size))
        passed = [*self.inputs, *(self.outputs[at] for at in callee.written)]
        names = ", ".join(f"q{each.name}" for each in passed)
        lines.append(f"d = cls.{callee.name}({names})")
        for at, each in enumerate(self.outputs):
            if at in in_place:
                lines.append(f"s{each.name} = {each.name}")
                continue
            done = f"d[{at}]" if self.gives_tuple else "d"
            lines.append(f"e{each.name} = {each.flat(done, size)}")
            lines.append(self.stored(each, "store", size))
        return lines

    def over_batch(self, name: str, params: Sequence[Rows], lines: Sequence[str]) -> str:
        """A public function of tensors of any batch, which gives the network's outputs."""
        typed = ", ".join(f"{each.name}: {each.type('n', quoted=True)}" for each in params)
        results = self.results([each.type("n", quoted=True) for each in self.outputs])
        return function(f"{name}({typed})", results, lines, private=False)

    def over_rows(self, name: str, extents: str, lines: Sequence[str]) -> str:
        """A function over all rows of the inputs and of the results so far."""
        tensors = [*self.inputs, *self.outputs]
        params = [f"{each.name}: {each.flat_type('n', quoted=True)}" for each in tensors]
        results = ", ".join(each.flat_type("n", quoted=True) for each in self.outputs)
        symbols = ", ".join(f'"{extent}"' for extent in extents.split(", "))
        signature = f"{name}({', '.join(params)}, at: R.Shape([{symbols}]))"
        return function(signature, f"R.Tuple({results})", lines)

    def copies(self) -> dict[str, str]:
        """The functions that copy rows, by name."""
        found = {}
        for size in self.sizes:
            found.update({each.copy("load", size): each.load(size) for each in self.inputs})
            found.update({each.copy("store", size): each.store(size) for each in self.outputs})
        for size in self.padded_from:
            for each in self.inputs:
                found[each.copy("load_padded", size)] = each.load_padded(size)
            for each in self.outputs:
                found[each.copy("store_padded", size)] = each.store_padded(size)
        return found

    def rest_name(self, size: int) -> str:
        return f"{self.network}_from{size}"

    def padded_name(self, size: int) -> str:
        return f"{self.network}_padded{size}"

    def runs_name(self, size: int) -> str:
        return f"{self.network}_runs{size}"

    def results(self, types: Sequence[str]) -> str:
        return f"R.Tuple({', '.join(types)})" if self.gives_tuple else types[0]

    def pack(self, names: Sequence[str]) -> str:
        return f"({', '.join(names)},)" if self.gives_tuple else names[0]
