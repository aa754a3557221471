"""A network's profile: rows of operations with their share of the time and of the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import tvm
from tvm import tirx

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.codegen.kernel_cache import KernelCache
from tvm_neocpu.codegen.kernel_store import store_for
from tvm_neocpu.contrib.kernels.ceilings import Ceilings
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.profile.watch_calls import Call, watch_calls
from tvm_neocpu.core.machine.dot import ANY_WEIGHTS
from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.equal_keys import kth_of_equal
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import FP32, Types
from tvm_neocpu.folded_network import open_onnx
from tvm_neocpu.frontend.reading.onnx_nodes import OnnxNodes
from tvm_neocpu.relay_passes.operators.new.recurrence import layer_in
from tvm_neocpu.topi.fused_block.template import layers_of
from tvm_neocpu.topi.recurrence.cost import ALGORITHM as RECURRENCE
from tvm_neocpu.topi.sweep.workload import SweepWorkload
from tvm_neocpu.topi.table import implementation_of
from tvm_neocpu.tuning.database.history import current_history
from tvm_neocpu.tuning.in_network.processes.machine import Lowered, Scheme

# What a call is that no template computed.
PLAIN = "TVM's own"
# What a group of layers is that one function computes.
GROUP = "fused"
_ARROW = " -> "
# What decides which instruction multiplies: the types, and the bits of the weights.
Arithmetic = tuple[Types, int]
FLOATS: Arithmetic = (FP32, ANY_WEIGHTS)


@dataclass(frozen=True)
class ProfileRow:
    """One call. ``flops`` is 0 where it is not known; a multiply-add counts as two.

    ``what`` is the workload, ``node`` the ONNX node that it came from, empty if that is not known,
    ``algorithm`` and ``config`` say how it is computed, ``layouts`` what the config reads and
    writes (``"8c -> 16c"``). Those of a group's layers are joined by arrows; it has several
    ``layers``. ``peak`` is what the machine reaches in its types, in GFLOP/s.
    """

    call: Call
    what: str
    algorithm: str
    layouts: str
    config: str
    flops: int
    node: str = ""
    peak: float = 0.0
    layers: int = 1

    @property
    def gflops(self) -> float:
        """GFLOP/s."""
        return self.flops / self.call.seconds / 1e9 if self.call.seconds else 0.0

    @property
    def share_of_peak(self) -> float:
        """0 where the operation has no peak."""
        return self.gflops / self.peak if self.peak else 0.0

    @property
    def bandwidth(self) -> float:
        """GB/s of the tensors that the call reads and writes, each once."""
        return self.call.moved / self.call.seconds / 1e9 if self.call.seconds else 0.0


@dataclass(frozen=True)
class Profile:
    """``wall`` are the seconds of a run that nobody watched, ``machine`` those that Relax's machine
    takes for itself in a run of so many calls, measured on another network.

    ``rows_of`` has the rows of the conv graph's nodes, by their ids, where they are known.
    """

    network: str
    cpu: str
    threads: int
    ceilings: Ceilings
    rows: tuple[ProfileRow, ...]
    wall: float
    rows_of: Mapping[str, ProfileRow] = field(default_factory=dict)
    machine: float = 0.0

    @property
    def explained(self) -> float:
        """The seconds of all rows and the machine's own over the wall time: about 1."""
        return (self.operations + self.machine) / self.wall

    @property
    def operations(self) -> float:
        """Seconds of all rows."""
        return sum(row.call.seconds for row in self.rows)


def profile_network(
    network: Network,
    peak_of: Callable[[Types, int, int], float],
    bandwidth_of: Callable[[int], float],
    runs: int,
    turn_of_peer: Callable[[], None] = lambda: None,
) -> Profile:
    """Build as `relay.build` would, of the kernels that the cache has, and time ``runs`` runs.

    ``peak_of`` measures the GFLOP/s of multiply-adds of some types, with integer weights of so many
    bits, on so many cores; ``bandwidth_of`` the GB/s of some cores. A small network runs on one.
    Peaks are medians of measurements between the runs, where ``turn_of_peer`` is called, too.
    """
    folded = open_onnx(network.content, network.shapes, network.target)
    cpu = folded.cpu
    lowered = folded.lower(choose_plan(folded.graph, cpu, current_history(cpu)))
    inputs = [tvm.runtime.tensor(array) for array in folded.inputs]
    kernels = KernelCache(folded.target, store_for(folded.target))
    code = kernels.load(lowered.module).mod
    known = [scheme[0] for scheme in lowered.schemes.values()]
    multiplied = {_arithmetic(w) for w in known if not isinstance(w, SweepWorkload)} | {FLOATS}
    measured: dict[Arithmetic, list[float]] = {each: [] for each in multiplied}

    def turn_of_others() -> None:
        turn_of_peer()
        for each, readings in measured.items():
            readings.append(peak_of(*each, cpu.cores))

    bandwidth = bandwidth_of(cpu.cores)
    found = watch_calls(code, inputs, runs, turn_of_others)
    peaks = {each: median(readings) for each, readings in measured.items()}
    functions = _functions_of(lowered.module)
    schemes = [_schemes_of(call.name, lowered) for call in found.calls]
    nodes = OnnxNodes(network.model, network.shapes)
    workloads = [workload for each in schemes for workload, _ in each]
    named = iter(nodes.names_of(workloads, changed_by_passes=True))
    names = [[next(named) for _ in each] for each in schemes]
    rows = tuple(
        _row(call, each, name, functions.get(call.name), peaks)
        for call, each, name in zip(found.calls, schemes, names, strict=True)
    )
    there = [(node.workload, node.id) for node in folded.graph.convs]
    ids = iter(kth_of_equal(workloads, there))
    rows_of = {
        node: row
        for row, each in zip(rows, schemes, strict=True)
        for node in [next(ids) for _ in each]
        if node is not None
    }
    ceilings = Ceilings(max(peaks.values()), bandwidth)
    return Profile(
        network.name, cpu.name, cpu.cores, ceilings, rows, found.wall, rows_of, found.machine
    )


def as_json(profile: Profile) -> dict[str, Any]:
    """Everything, in milliseconds, bytes, GFLOP/s and GB/s."""
    return {
        "network": profile.network,
        "wall_ms": profile.wall * 1e3,
        "operations_ms": profile.operations * 1e3,
        "machine_ms": profile.machine * 1e3,
        "explained": profile.explained,
        "peak_gflops": profile.ceilings.peak,
        "bandwidth_gbs": profile.ceilings.bandwidth,
        "operations": [
            {
                "name": row.call.name,
                "node": row.node,
                "what": row.what,
                "algorithm": row.algorithm,
                "layouts": row.layouts,
                "config": row.config,
                "start_ms": row.call.start * 1e3,
                "ms": row.call.seconds * 1e3,
                "share": row.call.seconds / profile.wall,
                "gflops": row.gflops,
                "share_of_peak": row.share_of_peak,
                "bytes": row.call.moved,
                "share_of_bandwidth": row.bandwidth / profile.ceilings.bandwidth,
            }
            for row in profile.rows
        ],
    }


def chrome_trace(profile: Profile) -> dict[str, Any]:
    """The run as events of Chrome's and Perfetto's trace viewers; times are microseconds."""
    return {
        "displayTimeUnit": "ms",
        "traceEvents": [
            {
                "name": row.what or row.call.name,
                "cat": row.algorithm,
                "ph": "X",
                "ts": row.call.start * 1e6,
                "dur": row.call.seconds * 1e6,
                "pid": profile.network,
                "tid": plural(profile.threads, "thread"),
                "args": {
                    "function": row.call.name,
                    "node": row.node,
                    "config": row.config,
                    "gflops": row.gflops,
                },
            }
            for row in profile.rows
        ],
    }


def _functions_of(module: tvm.IRModule) -> dict[str, tuple[str, str, int]]:
    """(algorithm, layers, operations) of functions that say what they are, by name."""
    asked = ((GROUP, layers_of), (RECURRENCE, layer_in))
    return {
        str(var.name_hint): (algorithm, *found)
        for var, func in module.functions.items()
        for algorithm, ask in asked
        if isinstance(func, tirx.PrimFunc) and (found := ask(func)) is not None
    }


def _schemes_of(name: str, lowered: Lowered) -> list[Scheme]:
    """What a function computes, and how: one layer, those of a group, or none of a template's."""
    if name in lowered.groups:
        return list(lowered.groups[name])
    return [lowered.schemes[name]] if name in lowered.schemes else []


def _arithmetic(workload: Workload) -> Arithmetic:
    return workload.types, workload.weight_bits


def _row(
    call: Call,
    schemes: Sequence[Scheme],
    names: Sequence[str],
    said: tuple[str, str, int] | None,
    peaks: Mapping[Arithmetic, float],
) -> ProfileRow:
    node = _ARROW.join(filter(None, names))
    if said is not None:
        algorithm, what, flops = said
        configs = [config for _, config in schemes]
        layouts = _layouts(configs[0], configs[-1]) if configs else ""
        told, layers = _ARROW.join(map(str, configs)), max(1, len(schemes))
        peak = peaks[FLOATS]
        return ProfileRow(call, what, algorithm, layouts, told, flops, node, peak, layers)
    if not schemes:
        return ProfileRow(call, call.name.replace("_", " "), PLAIN, "", "", 0)
    ((workload, config),) = schemes
    if isinstance(workload, SweepWorkload):
        return ProfileRow(call, str(workload), PLAIN, "", "", 0)
    algorithm = implementation_of(config).describe(workload, config)
    layouts = _layouts(config, config)
    peak = peaks[_arithmetic(workload)]
    return ProfileRow(
        call, str(workload), algorithm, layouts, str(config), workload.flops, node, peak
    )


def _layouts(first: Config, last: Config) -> str:
    """Blocks of channels that the first config reads and the last one writes."""
    reads, writes = getattr(first, "ic_bn", 0), getattr(last, "oc_bn", 0)
    return f"{reads or 1}c -> {writes or 1}c" if reads or writes else ""
