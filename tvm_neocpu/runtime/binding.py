"""Inputs and outputs that are bound once, for many runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm_ffi
from numpy.typing import NDArray

from tvm_neocpu.core.errors import SessionError, ShapeError
from tvm_neocpu.runtime.feed import as_input
from tvm_neocpu.runtime.inputs import Key, check, find, shared
from tvm_neocpu.runtime.module_info import ModuleInfo

Array = NDArray[Any]


class IOBinding:
    """What a network reads and writes, until it is bound anew.

    A run reads what the arrays hold at that time. Not safe from several threads at once: each has
    its own binding; all may belong to one session.
    """

    def __init__(self, info: ModuleInfo, run: Callable[[Sequence[Any]], list[Array]]) -> None:
        self._info = info
        self._run = run
        self._inputs: list[Array | tvm_ffi.Tensor | None] = [None] * len(info.inputs)
        self._targets: list[Array | None] = [None] * len(info.outputs)
        self._outputs: list[Array] = []

    def bind_input(self, key: Key, value: Any, *, copy: bool | None = None) -> None:
        """Read an input from ``value`` in every run, by name or number.

        ``value`` is an array of NumPy, torch or anything else that shares CPU memory. It is read
        where it is if it is contiguous, aligned to 64 bytes and writeable. Where it is not, each
        run copies it; ``copy=False`` refuses it instead (ShapeError).
        """
        index = find(key, self._info.inputs, "input")
        info = self._info.inputs[index]
        array = as_input(info, value)
        if copy is False:
            array = shared(info, array)
        self._inputs[index] = array.copy() if copy and isinstance(array, np.ndarray) else array

    def bind_output(self, key: Key, out: Any = None) -> None:
        """Have every run write an output into ``out``; a new array without one.

        ``out`` is an array of NumPy, or of torch and others over CPU memory. Raises ShapeError
        where it has another shape or type, or cannot be written.
        """
        index = find(key, self._info.outputs, "output")
        if out is None:
            self._targets[index] = None
            return
        info = self._info.outputs[index]
        array = out if isinstance(out, np.ndarray) else np.from_dlpack(out)
        check(info, array.shape, str(array.dtype), "output")
        if not array.flags.writeable:
            raise ShapeError(f"output {info.name!r} cannot be written to a read-only array")
        self._targets[index] = array

    def run(self) -> None:
        """Run once. Raises SessionError for an input that was never bound."""
        values = []
        for info, value in zip(self._info.inputs, self._inputs, strict=True):
            if value is None:
                raise SessionError(f"no value is bound to input {info.name!r}: call bind_input()")
            values.append(value)
        found = self._run(values)
        self._outputs = [
            array if target is None else _written(info.name, array, target)
            for info, array, target in zip(self._info.outputs, found, self._targets, strict=True)
        ]

    def outputs(self) -> dict[str, Array]:
        """The last run's outputs by name: the bound arrays, new ones for the others."""
        if not self._outputs:
            raise SessionError("there are no outputs yet: call run() first")
        names = [info.name for info in self._info.outputs]
        return dict(zip(names, self._outputs, strict=True))


def _written(name: str, array: Array, target: Array) -> Array:
    if array.shape != target.shape:  # an open extent came out otherwise than the array has it
        raise ShapeError(
            f"output {name!r} is {list(array.shape)} now, and {list(target.shape)} is bound to it"
        )
    np.copyto(target, array)
    return target
