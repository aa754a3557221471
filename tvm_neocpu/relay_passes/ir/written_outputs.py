"""What functions say of their caller's tensors: which they write, which may be parts of others.

``NAME_into`` takes what ``NAME`` takes, then the tensors for the outputs that its attribute
numbers, and gives what ``NAME`` gives. A tensor *at an offset* begins behind the start of its
memory, at a multiple of ``ALIGNMENT`` bytes: rows of another tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import relax

# The attribute of such a function: the numbers of the outputs that it takes, in their order.
WRITTEN = "neocpu_written_outputs"


def into_name(network: str) -> str:
    """The name of the function that takes a network's outputs."""
    return f"{network}_into"


def written_outputs(mod: tvm.IRModule, network: str) -> tuple[int, ...]:
    """The outputs that ``NAME_into`` takes; empty if there is no such function."""
    for var, func in mod.functions.items():
        if var.name_hint == into_name(network) and func.attrs and WRITTEN in func.attrs:
            return tuple(map(int, func.attrs[WRITTEN]))
    return ()


# The attributes of a function whose inputs and outputs may lie at an offset: their numbers.
_INPUTS, _OUTPUTS = "neocpu_offset_inputs", "neocpu_offset_outputs"


def with_offsets(
    func: relax.Function, inputs: Sequence[int], outputs: Sequence[int]
) -> relax.Function:
    """The function, marked: these may lie at an offset."""
    return func.with_attrs({_INPUTS: list(inputs), _OUTPUTS: list(outputs)})


def offsets_of(mod: tvm.IRModule, name: str) -> tuple[frozenset[int], frozenset[int]]:
    """The inputs and the outputs of a function that may lie at an offset; none of an unknown one.

    A function ``NAME_into`` takes those outputs at an offset.
    """
    for var, func in mod.functions.items():
        if var.name_hint == name and func.attrs and _INPUTS in func.attrs:
            both = (func.attrs[_INPUTS], func.attrs[_OUTPUTS])
            inputs, outputs = (frozenset(map(int, numbers)) for numbers in both)
            return inputs, outputs
    return frozenset(), frozenset()
