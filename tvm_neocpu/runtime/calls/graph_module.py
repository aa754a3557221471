"""Running a built network: inputs and outputs by name or number, and timing."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm_ffi
from numpy.typing import NDArray

from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.runtime.calls.functions import Function, Functions
from tvm_neocpu.runtime.calls.inputs import Inputs, Key, find
from tvm_neocpu.runtime.calls.timing import BenchmarkResult, time_calls
from tvm_neocpu.runtime.ffi.machine import flat
from tvm_neocpu.runtime.files.module_info import ModuleInfo
from tvm_neocpu.runtime.process import forking
from tvm_neocpu.runtime.streams.waking import call_as_caller


class UnsetInputWarning(UserWarning):
    """A network ran with an input that was never set, and read zeros."""


class GraphModule:
    """One instance of a network. Outputs are new tensors at every run.

    Any number of threads may call every method, and each call is atomic: ``run(data=x)`` sets and
    runs in one step, and ``benchmark`` keeps other threads out until it ends. Holding ``lock``
    makes several calls one step:

        with module.lock:
            module.run(data=image)
            scores = module.get_output("scores")

    Runs of one module follow each other. To run at the same time, make one module for each thread
    with ``lib["default"](tvm.cpu())``: they share the weights, and TVM gives each thread a pool of
    ``TVM_NUM_THREADS`` workers. The lock does not cover memory that the caller writes directly:
    arrays from `input_array`, and arrays given to `set_input_zero_copy`.

    A forked child may use the module; `tvm_neocpu.runtime.process.forking` says how, and what it
    costs.
    """

    def __init__(self, functions: Functions, info: ModuleInfo) -> None:
        self.info = info
        self.lock = threading.RLock()
        self._functions = functions
        self._running = forking.fork_lock()
        self._inputs = self._new_inputs()
        functions.find(self._inputs.given)  # what takes time happens here, not at the first run
        self._outputs: list[Any] = []
        forking.renew_after_fork(self)

    def set_input(self, key: Key | None = None, value: Any = None, **inputs: Any) -> None:
        """Copy in one input by name or number, and any others by keyword.

        ``value`` is anything NumPy reads, or a TVM tensor. Raises ShapeError on a wrong name,
        shape or dtype (nothing is converted). A network for several shapes takes any of them: the
        next run finds the function for the shapes that all inputs have then.
        """
        with self.lock:
            if key is not None:
                self._inputs.copy_in(self._inputs.index(key), value)
            for name, array in inputs.items():
                self._inputs.copy_in(self._inputs.index(name), array)

    def set_input_zero_copy(self, key: Key, value: Any) -> None:
        """Use the caller's memory as an input: each run reads what it holds at that time.

        ``value`` is a TVM tensor, or a contiguous array whose data is aligned to 64 bytes, such as
        one of `input_array`. Raises ShapeError otherwise.
        """
        with self.lock:
            self._inputs.share(self._inputs.index(key), value)

    def input_array(self, key: Key, shape: Sequence[int] | None = None) -> NDArray[Any]:
        """The module's own memory for an input: writing there sets the input without a copy.

        ``shape`` is the input's shape from now on, where the network takes several.
        """
        with self.lock:
            return self._inputs.own(self._inputs.index(key), shape)

    def run(self, **inputs: Any) -> None:
        """Set the given inputs, and run the network once.

        Warns once of inputs that were never set (UnsetInputWarning): they are zero. In the main
        thread, Ctrl-C ends a loop of the network within a second, or some 16 trips. Raises
        ShapeError where the library has no function for the inputs' shapes and cannot compile one.
        """
        with self.lock:
            if inputs:
                self.set_input(**inputs)
            self._functions.find(self._inputs.given)
            unset = self._inputs.take_unset()
            self._outputs = self._run(self._inputs)
        if unset:
            names = ", ".join(map(repr, unset))
            warnings.warn(
                f"the network ran with zeros for input {names}, never set: "
                "use set_input() or run(name=array); to time it, use benchmark()",
                UnsetInputWarning,
                stacklevel=2,
            )

    def get_output(self, key: Key, out: Any = None) -> tvm_ffi.Tensor:
        """An output of the last run by name or number; copied into ``out`` if given.

        ``out`` is a TVM tensor or an array. Raises ShapeError for an output that is not there, and
        NeoCpuError before the first run.
        """
        with self.lock:
            outputs = self._outputs
        if not outputs:
            raise NeoCpuError("there are no outputs yet: call run() first")
        found = outputs[self.get_output_index(key)]
        if out is None:
            return found
        if isinstance(out, np.ndarray):
            np.copyto(out, found.numpy())
        else:
            found.copyto(out)
        return out

    def get_input(self, key: Key) -> tvm_ffi.Tensor:
        """The tensor that the next run will read."""
        with self.lock:
            return self._inputs.tensors[self._inputs.index(key)]

    def get_input_index(self, key: Key) -> int:
        """The number of an input. Raises ShapeError for a name or number that is not there."""
        return self._inputs.index(key)

    def get_output_index(self, key: Key) -> int:
        """The number of an output. Raises ShapeError for a name or number that is not there."""
        return find(key, self.info.outputs, "output")

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Shapes and dtypes by input name; -1 for an extent that may vary."""
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
        **_: Any,
    ) -> Callable[[], BenchmarkResult]:
        """A timer of ``"run"`` with the inputs as they are, set or not; call it for a result.

        ``dev`` and TVM's other options change nothing here.
        """
        if func_name != "run":
            raise NeoCpuError(f'only "run" can be timed, not {func_name!r}')

        def measure() -> BenchmarkResult:
            with self.lock:
                run, tensors = self._fitted(self._inputs).run, self._inputs.tensors

                def timed() -> BenchmarkResult:
                    return time_calls(lambda: run(*tensors), number, repeat, min_repeat_ms)

                return forking.call(self._running, timed)

        return measure

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
        """Seconds per run: ``repeat`` results, each the mean of ``number`` runs, after a warm-up.

        ``end_to_end`` includes copying the inputs in and the outputs out. ``min_repeat_ms`` adds
        runs to a repeat until it takes that long (not with ``end_to_end``). Inputs need not be set.
        """
        if end_to_end:
            return self._benchmark_end_to_end(repeat, number)
        timer = self.time_evaluator(
            func_name, device, number, repeat, min_repeat_ms or 0, **options
        )
        return timer()

    def after_fork_in_child(self) -> None:
        """Renew the lock if another thread held it: that thread does not exist in the child."""
        if not self.lock.acquire(blocking=False):
            self.lock = threading.RLock()
        else:
            self.lock.release()

    def _run(self, inputs: Inputs) -> list[tvm_ffi.Tensor]:
        run = self._fitted(inputs).run
        return flat(forking.call(self._running, call_as_caller, run, *inputs.tensors))

    def _fitted(self, inputs: Inputs) -> Function:
        """The function for the inputs' shapes; inputs that were never set get the shapes it has."""
        function = self._functions.find(inputs.given)
        if None in inputs.given:
            inputs.fit_unset(function.entry.completed(inputs.given))
        return function

    def _new_inputs(self) -> Inputs:
        nothing = [None] * len(self.info.inputs)
        return Inputs(self.info.inputs, self.info.entries[0].completed(nothing))

    def _benchmark_end_to_end(self, repeat: int, number: int) -> BenchmarkResult:
        inputs = self._new_inputs()  # what the caller bound stays bound
        with self.lock:
            self._fitted(self._inputs)
            arrays = [tensor.numpy() for tensor in self._inputs.tensors]
            self._copy_run_copy(inputs, arrays)
            seconds = []
            for _ in range(repeat):
                start = time.perf_counter()
                for _ in range(number):
                    self._copy_run_copy(inputs, arrays)
                seconds.append((time.perf_counter() - start) / number)
        return BenchmarkResult(seconds)

    def _copy_run_copy(self, inputs: Inputs, arrays: list[NDArray[Any]]) -> None:
        for index, array in enumerate(arrays):
            inputs.copy_in(index, array)
        for output in self._run(inputs):
            output.numpy()
