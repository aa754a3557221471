"""Inputs and outputs that are bound once, for many runs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_neocpu.core.errors import SessionError, ShapeError
from tvm_neocpu.runtime.calls.feed import Bound
from tvm_neocpu.runtime.calls.inputs import Key, check, find, not_shareable
from tvm_neocpu.runtime.calls.output_targets import Target, target_of
from tvm_neocpu.runtime.calls.values import as_input
from tvm_neocpu.runtime.ffi.arrays import aligned_zeros, is_shareable
from tvm_neocpu.runtime.ffi.ways import Way
from tvm_neocpu.runtime.files.module_info import OPEN, ModuleInfo, TensorInfo

Array = NDArray[Any]

# Of NumPy's search for an element that two strided arrays share, in its own unit.
MAX_WORK = 10_000


class IOBinding:
    """What a network reads and writes, until it is bound anew.

    A run reads what the arrays hold at that time. Not safe from several threads at once: each has
    its own binding; all may belong to one session.
    """

    def __init__(
        self,
        info: ModuleInfo,
        run: Callable[[Bound], list[Array]],
        way: Way,
        streams: object,
    ) -> None:
        """``streams`` are the session's that it belongs to."""
        self.streams = streams
        self._info = info
        self._run = run
        self._way = way
        self._inputs: list[tuple[Array, Any | None] | None] = [None] * len(info.inputs)
        self._targets: dict[int, Target] = {}
        self._bound: Bound | None = None
        self._outputs: list[Array] = []

    def bind_input(self, key: Key, value: Any, *, copy: bool | None = None) -> None:
        """Read an input from ``value`` in every run, by name or number.

        ``value`` is an array of NumPy, torch or anything else that shares CPU memory. It is read
        where it is if it is contiguous, aligned to 64 bytes and writeable. Where it is not, each
        run copies it; ``copy=False`` refuses it instead (ShapeError). ``copy=True`` copies it once,
        here: later changes of ``value`` do not count.
        """
        index = find(key, self._info.inputs, "input")
        _check_copy(copy)
        info = self._info.inputs[index]
        array = as_input(info, value)
        if copy is False and not is_shareable(array):
            raise not_shareable(info)
        own = _aligned_copy(array) if copy else array.view()  # whose shape nobody else changes
        self._inputs[index] = own, self._way.tensor_over(own)
        self._bound = None

    def bind_output(self, key: Key, out: Any = None, *, copy: bool | None = None) -> None:
        """Have every run write an output into ``out``; a new array without one.

        ``out`` is an array of NumPy, or of torch and others over CPU memory. The network computes
        into it if it is contiguous, aligned to 64 bytes, apart from all inputs, and if the network
        does not return an input, a weight or part of a tensor there. Else each run copies;
        ``copy=False`` refuses it instead (ShapeError, here or at the run). Two outputs share no
        element: the run refuses that.

        Raises ShapeError where ``out`` has another shape or type, or cannot be written.
        """
        index = find(key, self._info.outputs, "output")
        _check_copy(copy)
        self._bound = None
        if out is None:
            self._targets.pop(index, None)
            return
        target = target_of(self._info.outputs[index], out, copy is False, self._way.tensor_over)
        if copy:
            target = Target(target.array, None)
        self._targets[index] = target

    def input_array(self, key: Key, shape: Sequence[int] | None = None) -> Array:
        """New memory for an input, bound, that every run reads where it is: write the input there.

        ``shape`` is needed where the network takes several.
        """
        index = find(key, self._info.inputs, "input")
        array = _new(self._info.inputs[index], shape, "input")
        self.bind_input(index, array, copy=False)
        return array

    def output_array(self, key: Key, shape: Sequence[int] | None = None) -> Array:
        """New memory for an output, bound; a run computes into it where `bind_output` says so."""
        index = find(key, self._info.outputs, "output")
        array = _new(self._info.outputs[index], shape, "output")
        self.bind_output(index, array)
        return array

    def run(self) -> None:
        """Run once.

        Raises SessionError for an input that was never bound, and for outputs that share memory.
        """
        found = self._run(self._all_bound())
        self._outputs = [
            _written(info.name, array, self._targets.get(number))
            for number, (info, array) in enumerate(zip(self._info.outputs, found, strict=True))
        ]

    def __reduce__(self) -> str:
        """What is bound is this session's."""
        raise SessionError(
            "a binding is neither pickled nor copied: take another one with session.io_binding()"
        )

    def _all_bound(self) -> Bound:
        if self._bound is None:
            for info, bound in zip(self._info.inputs, self._inputs, strict=True):
                if bound is None:
                    raise SessionError(
                        f"no value is bound to input {info.name!r}: call bind_input()"
                    )
            self._check_apart()
            pairs = [bound for bound in self._inputs if bound is not None]
            values, tensors = [one for one, _ in pairs], [other for _, other in pairs]
            self._bound = Bound(values, tensors, dict(self._targets))
        return self._bound

    def _check_apart(self) -> None:
        for (one, first), (other, second) in combinations(self._targets.items(), 2):
            if _overlap(first.array, second.array):
                names = [self._info.outputs[number].name for number in (one, other)]
                raise SessionError(
                    f"outputs {names[0]!r} and {names[1]!r} are bound to the same memory"
                )

    def outputs(self) -> dict[str, Array]:
        """The last run's outputs by name: the bound arrays, new ones for the others."""
        if not self._outputs:
            raise SessionError("there are no outputs yet: call run() first")
        names = [info.name for info in self._info.outputs]
        return dict(zip(names, self._outputs, strict=True))


def _check_copy(copy: object) -> None:
    if copy is not None and not isinstance(copy, bool):
        raise SessionError(f"copy is True, False or None, not {copy!r}")


def _overlap(one: Array, other: Array) -> bool:
    """Whether an element is part of both; not where that takes long to find out."""
    try:
        return np.shares_memory(one, other, max_work=MAX_WORK)
    except np.exceptions.TooHardError:
        return False


def _aligned_copy(array: Array) -> Array:
    own = aligned_zeros(array.shape, str(array.dtype))
    np.copyto(own, array)
    return own


def _new(info: TensorInfo, shape: Sequence[int] | None, kind: str) -> Array:
    if shape is None and OPEN in info.shape:
        raise ShapeError(f"{kind} {info.name!r} is {info.shape_text}: say its shape")
    try:
        wanted = tuple(map(operator.index, info.shape if shape is None else shape))
    except TypeError as error:
        raise ShapeError(f"a shape is whole numbers, not {shape!r}") from error
    check(info, wanted, info.dtype, kind)
    return aligned_zeros(wanted, info.dtype)


def _written(name: str, array: Array, target: Target | None) -> Array:
    if target is None or array is target.array:
        return array
    if array.shape != target.array.shape:  # an open extent came out otherwise than bound
        raise ShapeError(
            f"output {name!r} is {list(array.shape)} now, and {list(target.array.shape)} is bound "
            "to it"
        )
    np.copyto(target.array, array)
    return target.array
