"""What equal layers, and the stand-ins of a tuning session, have in common before their schedules.

Equal layers are one function, which their template computes once: ResNet-50 has 53 layers and 22
functions. A stand-in has new configs for some layers only, and every layer's packed weight lies
where the last stand-in had it: filling the weights anew and computing known functions took half of
a stand-in without new kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir import GenericConst
from tvm.relax.utils import gen_call_tir_inputs

from tvm_neocpu.relay_passes.ir.constants import Array, constant_of

# Functions to remember; a stand-in has at most some 150 of them.
MOST = 600

# A template's function and the type of what it computes.
_Function = tuple[tirx.PrimFunc, relax.Type]


class KnownFunctions:
    """Functions of templates by what they compute, the latest ``most`` of them."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._functions: dict[Any, _Function] = {}

    def __len__(self) -> int:
        return len(self._functions)

    def call(
        self,
        builder: relax.BlockBuilder,
        name: str,
        scheme: Hashable,
        compute: Callable[..., Any],
        tensors: Sequence[relax.Expr],
        pattern: int,
    ) -> relax.Call:
        """A call of what ``compute`` makes of tensors.

        ``scheme`` says what that is: the function is known where the same scheme was computed of
        tensors of these types before.
        """
        types = tuple(_type_of(tensor) for tensor in tensors)
        key = (name, pattern, scheme, types)
        known = self._functions.pop(key, None)
        if known is None:
            function, _, type_ = gen_call_tir_inputs(
                compute, *tensors, primfunc_attrs={"op_pattern": pattern}
            )
            known = function, type_
        self._functions[key] = known  # the last again
        while len(self._functions) > self._most:
            del self._functions[next(iter(self._functions))]
        return relax.call_tir(builder.add_func(known[0], name), list(tensors), known[1])


class LoweredBefore:
    """Functions of templates, the latest ``most`` of them, and memory for weights of any values."""

    def __init__(self, most: int = MOST) -> None:
        self.functions = KnownFunctions(most)
        self._memory: dict[tuple[int, str], Array] = {}

    def weight(self, values: Array, shape: Sequence[int], dtype: str) -> GenericConst:
        """A constant of some size in the memory of a weight, which has the weight's values again
        and again. The weight itself stays where it is: its address is its name.
        """
        count = math.prod(shape)
        place = (int(values.ctypes.data), dtype)
        memory = self._memory.get(place)
        if memory is None or memory.size < count:
            filled = constant_of(np.resize(values, count).astype(dtype))
            memory = self._memory[place] = np.from_dlpack(filled.value)
        view = memory[:count].reshape(shape)
        return relax.const(tvm.runtime.from_dlpack(view))


def is_static(tensors: Sequence[relax.Expr]) -> bool:
    """Whether all extents are numbers."""
    return all(isinstance(extent, tirx.IntImm) for tensor in tensors for extent in tensor.ty.shape)


def _type_of(tensor: relax.Expr) -> tuple[tuple[int, ...], str]:
    return tuple(int(extent) for extent in tensor.ty.shape), str(tensor.ty.dtype)
