"""One stream: from arrays to arrays, copied where needed, each output in memory of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakMethod

import numpy as np

from tvm_neocpu.runtime.calls.functions import Function, Functions, Shapes
from tvm_neocpu.runtime.ffi.arrays import Extent, address, aligned_zeros
from tvm_neocpu.runtime.ffi.machine import Machine, flat
from tvm_neocpu.runtime.files.module_info import TensorInfo
from tvm_neocpu.runtime.process.forking import late_imports
from tvm_neocpu.runtime.streams.cores import use_here, workers_here
from tvm_neocpu.runtime.streams.crowd import Crowd
from tvm_neocpu.runtime.streams.pace import Pace
from tvm_neocpu.runtime.streams.waking import Waking

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tvm_neocpu.runtime.calls.output_targets import Target, Targets

    Array = NDArray[Any]

# Copying an array of so many bytes takes less time than making a tensor over it.
SMALL = 16 * 1024
# Shapes whose times are remembered: a service may see any batch.
_REMEMBERED = 256
# Functions that ran once, whose outputs are kept until they run again: each may be of a new shape.
_FIRSTS = 8


class Prepared(NamedTuple):
    """A call over memory that stays: what it reads and what it writes."""

    call: Callable[[], None]
    inputs: Sequence[Array]
    outputs: Sequence[Array]


class Bound:
    """What a binding has bound to the inputs and outputs, until something else is.

    ``tensors`` are those over the inputs' ``values``, ``None`` for one that each run copies;
    ``calls`` run the network over all of it, by feed, since so many shapes were forgotten.
    """

    def __init__(
        self, values: Sequence[Array], tensors: Sequence[Any | None], targets: Targets
    ) -> None:
        self.values, self.tensors, self.targets = values, tensors, targets
        self.shapes: Shapes = tuple([value.shape for value in values])
        self.arrays = [targets[number].array for number in sorted(targets)]
        self.calls: dict[Feed, tuple[int, Callable[[], None] | None]] = {}

    @property
    def extents(self) -> list[Extent]:
        """Where the values are."""
        starts = map(address, self.values)
        return [(at, at + value.nbytes) for at, value in zip(starts, self.values, strict=True)]


class Feed:
    """One stream's way from arrays to arrays: functions, memory for inputs that are copied, and
    how many of its threads a call runs on.

    ``cpus`` are those of the stream's thread, to which it belongs. With one CPU any thread may use
    it, one at a time.
    """

    def __init__(
        self, functions: Functions, infos: Sequence[TensorInfo], cpus: Sequence[int]
    ) -> None:
        self._functions = functions
        self._way = functions.way
        self._cpus = cpus
        self._used = len(cpus)
        self._paces: dict[Shapes, Pace] = {}
        self._crowd = Crowd()
        self._waking = Waking()
        self._infos = infos
        self._small: dict[Shapes, Prepared | None] = {}
        self._memory: dict[tuple[int, tuple[int, ...]], tuple[Any, Array]] = {}
        # A function's first outputs, until its second run; then which outputs are constants. What
        # was compiled on demand has functions of the same names, on machines of their own.
        self._first: dict[tuple[Machine, str], list[Any]] = {}
        self._constants: dict[tuple[Machine, str], frozenset[int]] = {}
        # Weakly: who forgets a session must not wait for the collector of garbage.
        functions.when_dropped = WeakMethod(self._forget)

    def run(
        self,
        values: Sequence[Array],
        targets: Targets | None = None,
        tensors: Sequence[Any | None] = (),
    ) -> list[Array]:
        """The outputs, each in memory of its own that nothing else writes.

        ``tensors`` are those over the values, of which the caller has made some.
        An output whose target can be written by the network itself is that target's array. Raises
        ShapeError where the library has no code for the shapes, and for a target that has to be
        written directly and cannot be.
        """
        self._functions.refresh()
        shapes = tuple([value.shape for value in values])
        if not targets:
            small = self._small_call(shapes)
            if small is not None:
                for memory, value in zip(small.inputs, values, strict=True):
                    np.copyto(memory, value)
                self._timed(shapes, small.call)
                return [array.copy() for array in small.outputs]
        function = self._functions.find(shapes)
        known = tensors or (None,) * len(values)
        tensors = [
            self._tensor(index, value) if tensor is None else tensor
            for index, (value, tensor) in enumerate(zip(values, known, strict=True))
        ]
        starts = [tensor.data_ptr() for tensor in tensors]
        taken = [(at, at + value.nbytes) for at, value in zip(starts, values, strict=True)]
        direct = _written_directly(function, taken, targets) if targets else {}
        if not direct or function.into is None:
            result = self._timed(shapes, lambda: function.run(*tensors))
            return self._own((function.machine, function.entry.function), taken, flat(result), {})
        entry, into = function.entry, function.into
        places = [
            direct[number].tensor if number in direct else self._new(function.outputs[number])
            for number in entry.written
        ]
        result = self._timed(shapes, lambda: into(*tensors, *places))
        return self._own((function.machine, entry.into), taken, flat(result), direct)

    def _forget(self, machines: Collection[Machine]) -> None:
        """Let go of what belongs to these machines, and of small calls, which are soon made."""
        self._small.clear()
        self._first = {key: each for key, each in self._first.items() if key[0] not in machines}
        known = self._constants.items()
        self._constants = {key: each for key, each in known if key[0] not in machines}

    def run_bound(self, bound: Bound) -> list[Array]:
        """The same, for what a binding has bound: most of it is checked once."""
        self._functions.refresh()
        forgotten, call = bound.calls.get(self, (-1, None))
        if forgotten != self._functions.forgotten:
            call = self._call_over(bound)
            bound.calls[self] = self._functions.forgotten, call
        if call is None:
            return self.run(bound.values, bound.targets, bound.tensors)
        self._timed(bound.shapes, call)
        return bound.arrays

    def _call_over(self, bound: Bound) -> Callable[[], None] | None:
        """The network over the bound tensors; ``None`` where a run copies anything."""
        function = self._functions.find(bound.shapes)
        count = len(function.outputs)
        if function.into is None or len(bound.targets) < count or None in bound.tensors:
            return None
        direct = _written_directly(function, bound.extents, bound.targets)
        if len(direct) < count:
            return None
        places = [direct[number].tensor for number in function.entry.written]
        return self._functions.over(function, [*bound.tensors, *places])

    def _small_call(self, shapes: Shapes) -> Prepared | None:
        """What runs a network of small arrays, each with a place of its own for all runs; ``None``
        for any other network.

        To copy such arrays takes a fifth of the time in which tensors are made over them.
        """
        if shapes not in self._small:
            if len(self._small) >= _REMEMBERED:
                self._small.clear()
            self._small[shapes] = self._prepared(shapes)
        return self._small[shapes]

    def _prepared(self, shapes: Shapes) -> Prepared | None:
        function = self._functions.find(shapes)
        if function.into is None or len(function.entry.written) < len(function.outputs):
            return None
        inputs = [
            aligned_zeros(shape or (), info.dtype)
            for info, shape in zip(self._infos, shapes, strict=True)
        ]
        outputs = [aligned_zeros(info.shape, info.dtype) for info in function.outputs]
        if any(array.nbytes > SMALL for array in (*inputs, *outputs)):
            return None
        places = [outputs[number] for number in function.entry.written]
        tensors = [self._way.tensor_over(array) for array in (*inputs, *places)]
        return Prepared(self._functions.over(function, tensors), inputs, outputs)

    def _timed(self, shapes: Shapes, run: Callable[[], Any]) -> Any:
        """Run on as many threads as calls of these shapes are fastest with now."""
        if len(self._cpus) == 1:
            return run()
        if len(self._paces) > _REMEMBERED:
            self._paces.clear()
        pace = self._paces.get(shapes)
        if pace is None:
            pace = self._paces[shapes] = Pace(len(self._cpus))
        if pace.threads != self._used:
            self._used = pace.threads
            use_here(self._cpus, self._used)
        if self._used < len(self._cpus):
            result, seconds = self._crowd.away(self._cpus, run)
        else:
            result, seconds = self._waking.call(workers_here(), self._cpus, run)
        pace.note(seconds)
        return result

    def _tensor(self, index: int, value: Array) -> Any:
        shared = self._way.tensor_over(value) if value.nbytes > SMALL else None
        return shared if shared is not None else self._copied(index, value)

    def _copied(self, index: int, array: Array) -> Any:
        key = (index, array.shape)
        if key not in self._memory:
            for other in [known for known in self._memory if known[0] == index]:
                del self._memory[other]
            memory = aligned_zeros(array.shape, self._infos[index].dtype)
            self._memory[key] = self._way.tensor_over(memory), memory
        tensor, memory = self._memory[key]
        np.copyto(memory, array)
        return tensor

    def _new(self, info: TensorInfo) -> Any:
        return self._way.tensor_over(aligned_zeros(info.shape, info.dtype))

    def _own(
        self,
        key: tuple[Machine, str],
        inputs: Sequence[Extent],
        outputs: Sequence[Any],
        direct: Targets,
    ) -> list[Array]:
        """Arrays over the outputs' memory, and copies of those that share it with an input, with
        a weight, or with each other: a network may return what it was given.

        ``key`` is the function's; ``direct`` are the targets that it wrote.
        """
        constants = self._constants.get(key)
        if constants is None:
            first = self._first.pop(key, None)
            if first is None:
                if len(self._first) >= _FIRSTS:
                    self._first.clear()
                self._first[key] = list(outputs)
                return [
                    direct[index].array if index in direct else self._way.array_of(tensor).copy()
                    for index, tensor in enumerate(outputs)
                ]
            # The first outputs are alive still: who has their memory is no new tensor.
            constants = frozenset(
                index
                for index, (one, other) in enumerate(zip(first, outputs, strict=True))
                if one.data_ptr() == other.data_ptr() and index not in direct
            )
            self._constants[key] = constants
        taken = list(inputs)
        arrays = []
        for index, tensor in enumerate(outputs):
            if index in direct:
                arrays.append(direct[index].array)
                taken.append(direct[index].extent)
                continue
            array = self._way.array_of(tensor)
            start = tensor.data_ptr()
            shares = any(low <= start < high for low, high in taken)
            arrays.append(array.copy() if shares or index in constants else array)
            taken.append((start, start + array.nbytes))
        return arrays


def _written_directly(
    function: Function, taken: Sequence[Extent], targets: Targets
) -> dict[int, Target]:
    with late_imports:
        from tvm_neocpu.runtime.calls.output_targets import (
            written_directly,  # few sessions bind outputs
        )

    return written_directly(function, taken, targets)
