"""The table of engines, and making those that are installed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec

from tvm_neocpu.contrib.peers.isolated import IsolatedRunner
from tvm_neocpu.contrib.peers.runner import Network, Runner
from tvm_neocpu.core.accuracy.precision import BF16, FP32

OURS, ONNX_RUNTIME = "tvm_neocpu", "ONNX Runtime"


def is_ours(engine: str) -> bool:
    """Whether an engine of this name is ours, in whatever precision."""
    return engine.startswith(OURS)


@dataclass(frozen=True)
class Engine:
    """An engine's name, the packages that it needs, where its runner is, what it computes in."""

    name: str
    packages: tuple[str, ...]
    module: str
    runner: str
    precision: str = FP32

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that are not installed; their names on PyPI are the same."""
        return tuple(package for package in self.packages if find_spec(package) is None)

    @property
    def installed(self) -> bool:
        return not self.missing

    @property
    def version(self) -> str:
        return str(import_module(self.module).VERSION)

    def load(self, network: Network) -> Runner:
        """The network in this engine, in this process; raises what the engine raises."""
        known = replace(network, precision=self.precision)
        runner: Runner = getattr(import_module(self.module), self.runner)(known)
        return runner

    def isolate(self, network: Network) -> IsolatedRunner:
        """The network in this engine, in a process of its own; raises EngineError."""
        return IsolatedRunner(partial(self.load, network))


_HERE = "tvm_neocpu.contrib.peers"
ENGINES: tuple[Engine, ...] = (
    Engine(OURS, ("tvm_neocpu",), f"{_HERE}.ours", "OurRunner"),
    Engine(ONNX_RUNTIME, ("onnxruntime",), f"{_HERE}.onnx_runtime", "OnnxRuntimeRunner"),
    Engine("OpenVINO", ("openvino",), f"{_HERE}.openvino_cpu", "OpenVinoRunner"),
    Engine("MNN", ("MNN",), f"{_HERE}.mnn_cpu", "MnnRunner"),
    Engine("ncnn", ("ncnn", "pnnx"), f"{_HERE}.ncnn_cpu", "NcnnRunner"),
)

# Where engines may multiply in bf16: those that can, beside both of our own.
_OURS, _REFERENCE, _OPENVINO, *_ = ENGINES
ENGINES_IN: dict[str, tuple[Engine, ...]] = {
    FP32: ENGINES,
    BF16: (
        replace(_OURS, precision=BF16),
        replace(_OURS, name=f"{OURS} fp32"),
        _REFERENCE,
        replace(_OPENVINO, precision=BF16),
    ),
}
