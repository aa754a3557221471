"""The engines that `single_layers.py` times, each in a process of its own.

In one process their threads disturb each other. ONNX Runtime's spin for a while after a run; a
short kernel of ours that shares their core then takes up to five times as long.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import tvm
from layer_table import Layer, layers
from numpy.typing import NDArray

from tvm_neocpu.contrib.peers.onnx_runtime import OnnxRuntimeRunner
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.core.machine.cores import allowed_cpus
from tvm_neocpu.runtime.built_module import load
from tvm_neocpu.runtime.calls.timing import time_calls, warm_up
from tvm_neocpu.runtime.process.threads import BIND, thread_count
from tvm_neocpu.tuning.in_network.processes.resting import rest

# Least seconds of a timed burst.
BURST = 3e-3

Arrays = list[NDArray[Any]]


class Engine(ABC):
    """One layer at a time. The caller is on the first core it may use, its threads on the others.

    Linux may leave a caller on the core of one of its threads: 256x14x14->1024 took 935 us on two
    threads, as on one, in place of 490.
    """

    def __init__(self) -> None:
        self._first, *self._others = sorted(allowed_cpus())
        if set(range(thread_count())) <= allowed_cpus():
            os.environ[BIND] = "1"  # before TVM's first parallel loop

    @cached_property
    def _layers(self) -> dict[str, Layer]:
        return {layer.name: layer for layer in layers()}

    def load(self, name: str) -> Arrays:
        """Take a layer; returns its outputs."""
        layer = self._layers[name]
        shapes = {f"x{place}": shape for place, shape in enumerate(layer.inputs)}
        # The threads that an engine creates may run where their creator may.
        os.sched_setaffinity(0, self._others or {self._first})
        self._timer, outputs = self._loaded(
            layer, Network(layer.name, layer.model(), shapes, thread_count())
        )
        os.sched_setaffinity(0, {self._first})
        self._number = max(1, round(BURST / self._timer(2)))
        return outputs

    def bursts(self, count: int) -> list[float]:
        """Microseconds of a run, the mean of each burst; then the threads are asleep."""
        warm_up(partial(self._timer, self._number))
        number = max(1, round(BURST / self._timer(self._number)))
        found = [1e6 * self._timer(number) for _ in range(count)]
        rest()
        return found

    @abstractmethod
    def _loaded(self, layer: Layer, network: Network) -> tuple[Callable[[int], float], Arrays]:
        """What runs the layer so often and returns the mean seconds of a run; the outputs."""


class Theirs(Engine):
    """ONNX Runtime. Its inputs are bound, so that a run takes no lock."""

    def _loaded(self, layer: Layer, network: Network) -> tuple[Callable[[int], float], Arrays]:
        runner = OnnxRuntimeRunner(network)
        runner.run()
        return lambda number: time_calls(runner.run, number, 1).min, runner.outputs()


class Ours(Engine):
    """What `--save` compiled. The module's timer takes its lock once a burst."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def _loaded(self, layer: Layer, network: Network) -> tuple[Callable[[int], float], Arrays]:
        module = load(self._folder / layer.file_name)["default"](tvm.cpu())
        module.set_input(**network.inputs)
        module.run()
        outputs = [module.get_output(k).numpy() for k in range(module.get_num_outputs())]
        return lambda number: module.time_evaluator("run", number=number, repeat=1)().min, outputs
