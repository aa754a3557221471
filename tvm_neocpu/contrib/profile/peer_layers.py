"""What a peer's layers take, as its own profiler has it, in a process of its own."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from tvm_neocpu.contrib.peers.isolated import IsolatedRunner
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.core.accuracy.middle_half import middle_half


@dataclass(frozen=True)
class PeerLayer:
    """A layer that ran: the nodes that the peer fused into it, by its names of them, and its kind.

    ``computes`` says whether it is a convolution or a product, not something beside one.
    """

    names: tuple[str, ...]
    kind: str
    seconds: float
    computes: bool


class OpenVinoLayers:
    """OpenVINO with its performance counters on."""

    # Its types of layers that multiply.
    HEAVY = frozenset({"Convolution", "FullyConnected", "MatMul"})

    def __init__(self, network: Network) -> None:
        from tvm_neocpu.contrib.peers.openvino_cpu import compiled_for_latency

        compiled = compiled_for_latency(network, PERF_COUNT=True)
        self._fused = {
            op.friendly_name: _original_names(op) for op in compiled.get_runtime_model().get_ops()
        }
        self._request = compiled.create_infer_request()
        self._inputs = network.inputs

    def layers(self, runs: int) -> list[PeerLayer]:
        """Means over the middle half of so many runs, in the order of a run."""
        seconds: dict[str, list[float]] = defaultdict(list)
        kinds: dict[str, str] = {}
        for _ in range(runs):
            self._request.infer(self._inputs)
            for layer in self._request.profiling_info:
                if layer.real_time.total_seconds():
                    seconds[layer.node_name].append(layer.real_time.total_seconds())
                    kinds[layer.node_name] = layer.node_type
        return [
            PeerLayer(
                self._fused.get(name, (name,)), kinds[name], _usual(each), kinds[name] in self.HEAVY
            )
            for name, each in seconds.items()
        ]


def _original_names(op: Any) -> tuple[str, ...]:
    """OpenVINO splits the bias off a convolution, and names the rest so."""
    names = op.get_rt_info()["originalLayersNames"].astype(str).split(",")
    return tuple(name.removesuffix("/WithoutBiases") for name in names)


class OnnxRuntimeLayers:
    """ONNX Runtime with its profiler on; a fused layer has the name of its last node."""

    HEAVY = frozenset({"Conv", "FusedConv", "FusedGemm", "FusedMatMul", "Gemm", "MatMul"})
    _ENDING = "_kernel_time"

    def __init__(self, network: Network) -> None:
        self._network = network

    def layers(self, runs: int) -> list[PeerLayer]:
        """Means over the middle half of so many runs, in the order of a run."""
        from tvm_neocpu.contrib.peers.onnx_runtime import session_of

        with tempfile.TemporaryDirectory(prefix="neocpu-") as folder:
            prefix = str(Path(folder) / "profile")
            session = session_of(self._network, enable_profiling=True, profile_file_prefix=prefix)
            for _ in range(runs):
                session.run(None, self._network.inputs)
            events = json.loads(Path(session.end_profiling()).read_text())
        return self.read(events)

    def read(self, events: list[dict[str, Any]]) -> list[PeerLayer]:
        """The layers of a profile's events."""
        seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
        for event in events:
            if event.get("cat") == "Node" and event["name"].endswith(self._ENDING):
                kind = event["args"]["op_name"]
                seconds[event["name"].removesuffix(self._ENDING), kind].append(event["dur"] / 1e6)
        return [
            PeerLayer((_plain(name),), kind, _usual(each), kind in self.HEAVY)
            for (name, kind), each in seconds.items()
        ]


def _usual(seconds: list[float]) -> float:
    """As our own calls are timed. A median would be of the faster state of a clock that has two."""
    return fmean(middle_half(seconds, float))


def _plain(name: str) -> str:
    """Its transformers write `fused Conv_0` and `conv1_nchwc`."""
    return name.removeprefix("fused ").removesuffix("_nchwc")


PEERS: Mapping[str, Callable[[Network], Any]] = {
    "openvino": OpenVinoLayers,
    "onnxruntime": OnnxRuntimeLayers,
}


class IsolatedLayers(IsolatedRunner):
    """One peer's layers, in a process of its own. Raises EngineError."""

    def __init__(self, peer: str, network: Network) -> None:
        super().__init__(partial(PEERS[peer], network))

    def layers(self, runs: int) -> list[PeerLayer]:
        found: list[PeerLayer] = self._ask("layers", runs)
        return found
