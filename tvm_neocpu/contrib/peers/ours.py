"""This package."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import tvm
from numpy.typing import NDArray

from tvm_neocpu import relay
from tvm_neocpu.contrib.peers.runner import Network, TimedRuns
from tvm_neocpu.runtime.built_module import BuiltModule, load
from tvm_neocpu.tuning.database.history import apply_history_best
from tvm_neocpu.version import __version__

VERSION = __version__


class OurRunner(TimedRuns):
    """The network as built here, or from a library that was exported before."""

    def __init__(self, network: Network, library: Path | None = None) -> None:
        built = load(library) if library else _build(network)
        self._module = built["default"](tvm.cpu())
        self._module.set_input(**network.inputs)

    def run(self) -> None:
        self._module.run()

    def outputs(self) -> list[NDArray[Any]]:
        numbers = range(self._module.get_num_outputs())
        return [self._module.get_output(number).numpy() for number in numbers]


def _build(network: Network) -> BuiltModule:
    mod, params = relay.frontend.from_onnx(network.model, network.shapes)
    logs = apply_history_best(network.logs) if network.logs else contextlib.nullcontext()
    with logs:
        return relay.build(
            mod, target=network.target, params=params, precision=network.precision, cache=False
        )
