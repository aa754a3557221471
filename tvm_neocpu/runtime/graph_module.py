"""Running a built network: inputs by name or number, outputs by number, and timing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.runtime.module import BenchmarkResult

from tvm_neocpu.core.arena import ALIGNMENT
from tvm_neocpu.core.errors import NeoCpuError, ShapeError
from tvm_neocpu.runtime.module_info import ModuleInfo, TensorInfo

Key = str | int


class GraphModule:
    """One instance of a network. Inputs are zero until they are set; outputs are new at every run.

    A TVM thread pool belongs to a Python thread: use a module from one thread at a time.
    """

    def __init__(self, vm: relax.VirtualMachine, info: ModuleInfo, device: Any) -> None:
        self.info = info
        self._vm = vm
        self._main = vm["main"]
        self._device = device
        self._buffers = [_zeros(tensor, device) for tensor in info.inputs]
        self._views = [np.from_dlpack(buffer) for buffer in self._buffers]
        self._bound = list(self._buffers)
        self._index = {tensor.name: number for number, tensor in enumerate(info.inputs)}
        self._outputs: list[Any] = []

    def set_input(self, key: Key | None = None, value: Any = None, **inputs: Any) -> None:
        """Copy in one input by name or number, and any others by keyword.

        ``value`` is anything NumPy reads, or a TVM tensor. Raises ShapeError on a wrong name,
        shape or dtype (nothing is converted).
        """
        if key is not None:
            self._copy_in(self.get_input_index(key), value)
        for name, array in inputs.items():
            self._copy_in(self.get_input_index(name), array)

    def set_input_zero_copy(self, key: Key, value: Any) -> None:
        """Use the caller's memory as an input: later changes to it are seen by the next run.

        ``value`` is a TVM tensor, or a contiguous array whose data is aligned to 64 bytes, such as
        one of `input_array`. Raises ShapeError otherwise.
        """
        index = self.get_input_index(key)
        tensor = self.info.inputs[index]
        if not isinstance(value, tvm.runtime.Tensor):
            value = _share(tensor, value)
        _check(tensor, tuple(value.shape), str(value.dtype))
        self._bound[index] = value

    def input_array(self, key: Key) -> NDArray[Any]:
        """The module's own memory for an input, to be written in place: no copy at all."""
        index = self.get_input_index(key)
        self._bound[index] = self._buffers[index]
        return self._views[index]

    def run(self, **inputs: Any) -> None:
        """Run the network once, after setting the given inputs."""
        if inputs:
            self.set_input(**inputs)
        result = self._main(*self._bound)
        self._outputs = _flatten(result)

    def get_output(self, index: int, out: Any = None) -> tvm.runtime.Tensor:
        """An output of the last run; copied into ``out`` (a tensor or an array) if given."""
        if not self._outputs:
            raise NeoCpuError("there are no outputs yet: call run() first")
        if not 0 <= index < len(self._outputs):
            raise ShapeError(f"no output {index}: the network has {len(self._outputs)}")
        found = self._outputs[index]
        if out is None:
            return found
        if isinstance(out, np.ndarray):
            np.copyto(out, found.numpy())
        else:
            found.copyto(out)
        return out

    def get_input(self, key: Key) -> tvm.runtime.Tensor:
        """The tensor that the next run will read."""
        return self._bound[self.get_input_index(key)]

    def get_input_index(self, key: Key) -> int:
        """An input's number. Raises ShapeError for a name or number that is not there."""
        if isinstance(key, str) and key in self._index:
            return self._index[key]
        if isinstance(key, int) and 0 <= key < len(self._bound):
            return key
        known = ", ".join(map(str, self.info.inputs))
        raise ShapeError(f"the network has no input {key!r}; it has {known}")

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Shapes and dtypes by input name."""
        shapes = {tensor.name: tensor.shape for tensor in self.info.inputs}
        return shapes, {tensor.name: tensor.dtype for tensor in self.info.inputs}

    def get_num_inputs(self) -> int:
        return len(self.info.inputs)

    def get_num_outputs(self) -> int:
        return len(self.info.outputs)

    @property
    def module(self) -> GraphModule:
        """Classic scripts time ``module.module.time_evaluator("run", dev)``."""
        return self

    def time_evaluator(
        self,
        func_name: str,
        dev: Any = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        **options: Any,
    ) -> Callable[[], BenchmarkResult]:
        """A timer of ``"run"`` with the inputs as they are; call it for a result."""
        if func_name != "run":
            raise NeoCpuError(f'only "run" can be timed, not {func_name!r}')
        timer = self._vm.module.time_evaluator(
            "main",
            dev if dev is not None else self._device,
            number=number,
            repeat=repeat,
            min_repeat_ms=min_repeat_ms,
            **options,
        )
        return lambda: timer(*self._bound)

    def benchmark(
        self,
        device: Any = None,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        end_to_end: bool = False,
        **options: Any,
    ) -> BenchmarkResult:
        """Seconds of a run: ``repeat`` means over ``number`` runs each, after one to warm up.

        ``end_to_end`` counts copying the inputs in and the outputs out too. Without
        ``min_repeat_ms``, ``number`` counts; with it, runs are added until a repeat takes so long.
        """
        if end_to_end:
            return self._benchmark_end_to_end(repeat, number)
        timer = self.time_evaluator(
            func_name, device, number, repeat, min_repeat_ms or 0, **options
        )
        return timer()

    def _benchmark_end_to_end(self, repeat: int, number: int) -> BenchmarkResult:
        arrays = [tensor.numpy() for tensor in self._bound]
        self._copy_run_copy(arrays)
        seconds = []
        for _ in range(repeat):
            start = time.perf_counter()
            for _ in range(number):
                self._copy_run_copy(arrays)
            seconds.append((time.perf_counter() - start) / number)
        return BenchmarkResult(seconds)

    def _copy_run_copy(self, arrays: list[NDArray[Any]]) -> None:
        for index, array in enumerate(arrays):
            self._copy_in(index, array)
        self.run()
        for output in self._outputs:
            output.numpy()

    def _copy_in(self, index: int, value: Any) -> None:
        tensor = self.info.inputs[index]
        if isinstance(value, tvm.runtime.Tensor):
            _check(tensor, tuple(value.shape), str(value.dtype))
            value.copyto(self._buffers[index])
        else:
            array = np.asarray(value)
            _check(tensor, array.shape, str(array.dtype))
            np.copyto(self._views[index], array)
        self._bound[index] = self._buffers[index]


def _check(tensor: TensorInfo, shape: tuple[int, ...], dtype: str) -> None:
    if tuple(shape) != tensor.shape:
        raise ShapeError(f"input {tensor.name!r} is {list(tensor.shape)}, not {list(shape)}")
    if dtype != tensor.dtype:
        raise ShapeError(f"input {tensor.name!r} is {tensor.dtype}, not {dtype}")


def _share(tensor: TensorInfo, value: Any) -> tvm.runtime.Tensor:
    """The array as a TVM tensor over the same memory."""
    array = np.asarray(value)
    aligned = array.ctypes.data % ALIGNMENT == 0
    if not (aligned and array.flags.c_contiguous and array.flags.writeable):
        raise ShapeError(
            f"input {tensor.name!r} cannot share this array: its memory must be writeable, "
            f"contiguous and aligned to {ALIGNMENT} bytes; use input_array() or set_input()"
        )
    return tvm.runtime.from_dlpack(array)


def _zeros(tensor: TensorInfo, device: Any) -> tvm.runtime.Tensor:
    return tvm.runtime.tensor(np.zeros(tensor.shape, tensor.dtype), device=device)


def _flatten(result: Any) -> list[Any]:
    if isinstance(result, tvm.runtime.Tensor):
        return [result]
    return [tensor for part in result for tensor in _flatten(part)]
