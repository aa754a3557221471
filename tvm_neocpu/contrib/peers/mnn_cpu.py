"""MNN's CPU backend, in full precision.

The converter is called through `_tools`, the extension module of MNN's wheel. The wheel's command
`mnnconvert` is a wrapper of it that installs a logging package with pip and uploads statistics.
"""

from __future__ import annotations

import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tvm_neocpu.contrib.peers.converter import ConversionError, convert
from tvm_neocpu.contrib.peers.runner import Network, TimedRuns

VERSION = metadata.version("MNN")

# `mnnconvert` returns whether it converted; it does not raise.
_CONVERT = "import sys, _tools; sys.exit(not _tools.mnnconvert(sys.argv))"
_KINDS = {"float32": "float", "int32": "int", "int64": "int64", "uint8": "uint8", "int8": "int8"}


class MnnRunner(TimedRuns):
    """A module whose shapes are fixed, so that MNN prepares every layer for them once."""

    def __init__(self, network: Network) -> None:
        # Importing MNN prints to stdout: only a process that serves this engine does it.
        import MNN.expr
        import MNN.nn

        config = {
            "backend": "CPU",
            "numThread": network.threads,
            "precision": "high",  # float32 throughout
        }
        self._expr = MNN.expr
        self._inputs = [self._variable(array) for array in network.inputs.values()]
        outputs = [output.name for output in network.model.graph.output]
        with tempfile.TemporaryDirectory(prefix="neocpu-mnn-") as folder:
            manager = MNN.nn.create_runtime_manager((config,))
            self._module = MNN.nn.load_module_from_file(
                str(_converted(network, Path(folder))),
                list(network.inputs),
                outputs,
                runtime_manager=manager,
                shape_mutable=False,
            )
            self._manager = manager  # the module does not keep it alive
        self.run()
        if len(self._outputs) != len(outputs):
            raise ConversionError("MNN has no kernel for an operator of the network")

    def run(self) -> None:
        self._outputs = self._module.forward(self._inputs)

    def outputs(self) -> list[NDArray[Any]]:
        plain = (self._expr.convert(value, self._expr.NCHW) for value in self._outputs)
        return [np.array(value.read()) for value in plain]

    def _variable(self, array: NDArray[Any]) -> Any:
        kind = _KINDS.get(str(array.dtype))
        if kind is None:
            raise ConversionError(f"MNN has no input of type {array.dtype}")
        layout, dtype = self._expr.NCHW, getattr(self._expr, kind)
        return self._expr.const(array, list(array.shape), layout, dtype)


def _converted(network: Network, folder: Path) -> Path:
    """The network as a file of MNN's in ``folder``. Raises ConversionError."""
    source, target = folder / "network.onnx", folder / "network.mnn"
    source.write_bytes(network.content)
    files = ["--modelFile", source, "--MNNModel", target]
    convert([sys.executable, "-c", _CONVERT, "-f", "ONNX", *files, "--bizCode", "bench"], folder)
    if not target.exists():
        raise ConversionError("mnnconvert wrote no file")
    return target
