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
        if (n - i) % 4 >= 3: return main_padded4(x, y, n - (n - i) % 4)      3 rows and a zero row
        return main_from2(x, y, n - (n - i) % 4)

    main_runs4(x, y, i, c):                  c runs, the first from row i on
        if c == 1: main_batch4_into(x[i : i + 4], y[i : i + 4])
        else: main_runs4(x, y, i, c // 2); main_runs4(x, y, i + 4 * (c // 2), c - c // 2)

Relax has no loops. A function that calls itself for each half is only log2(c) calls deep. Rows are
views where every row begins at a multiple of ALIGNMENT and the specialisation takes tensors at an
offset; else they are copied. The functions are TVMScript (:mod:`.dispatch_text`): it reads as the
sketch above does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GlobalVar
from tvm.script import from_source

from tvm_neocpu.relay_passes.batches.dispatch_text import DispatchText, Specialised
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
    padded_from: Mapping[int, int] = MappingProxyType({}),
) -> tvm.IRModule:
    """The module with a public function ``network`` that runs any batch.

    ``mod`` has a function :func:`batch_name` for each of ``sizes``, and may have
    those that write their outputs into tensors of the caller: they are called in their place.
    Fewer rows than a size run padded to it, from ``padded_from[size]`` on; the smallest size is 1,
    or takes any number so. A function named ``network`` that ``mod`` has gives way to the new one.
    Where these write an output at every size, there is such a function for any batch too.

    ``symbolic`` is the network for any batch; the new function takes and gives what it does. Each
    tensor has the batch as one extent; the result is one tensor or a flat tuple of tensors.
    ``prepare`` is what ``mod`` went through; the new functions go through it by themselves.
    """
    specialised = {size: _specialised(mod, batch_name(network, size)) for size in sorted(sizes)}
    text = DispatchText(network, symbolic, specialised, padded_from)
    known = {str(var.name_hint): var for var in mod.get_global_vars()}
    stub = known.pop(network, None)
    functions = {var: func for var, func in mod.functions.items() if var.name_hint != network}
    for var, func in prepare(from_source(text.module())).functions.items():
        if var.name_hint not in known:
            if var.name_hint == into_name(network):
                func = func.with_attr(WRITTEN, text.written_always)
            here = [(GlobalVar, lambda each: known.get(str(each.name_hint), each))]
            functions[var] = tvm_ffi.structural_map(func, here)
    if stub is not None:
        functions = _calling(functions, next(var for var in functions if var.name_hint == network))
    return tvm.IRModule(functions, attrs=mod.attrs)


def _calling(functions: Mapping[GlobalVar, Any], new: GlobalVar) -> dict[GlobalVar, Any]:
    """The functions with this name where another of the same spelling was called."""
    here = [(GlobalVar, lambda each: new if each.name_hint == new.name_hint else each)]
    return {
        var: tvm_ffi.structural_map(func, here) if isinstance(func, relax.Function) else func
        for var, func in functions.items()
    }


def _specialised(mod: tvm.IRModule, name: str) -> Specialised:
    """What the module has for one batch."""
    written = written_outputs(mod, name)
    return Specialised(into_name(name) if written else name, written, *offsets_of(mod, name))
