"""Each group of a network, measured and predicted: layer by layer, and as one function.

    TVM_NUM_THREADS=1 taskset -c 1 python benchmarks/groups/group_profiles.py mobilenet_v2 \
        --json out.json

Both builds run under one plan in one process, in turns; every call is timed inside the network.
Beside each time stand those that two models predict:

- `l2`: the profiler of `python -m tvm_neocpu.schedule --machine this-cpu` (`CpuL2`);
- `model`: the cost model that plans choose groups by.

What is in no group is listed with the time of its call in either build, so that the rows sum to
the network. `peak` is the time at the FMA peak, which is measured after every round: the best try
of each, the median of these.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import tvm

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.codegen.kernel_cache import KernelCache
from tvm_neocpu.codegen.kernel_store import store_for
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.kernels.ceilings import PeakKernel
from tvm_neocpu.contrib.profile.watch_calls import watch_calls
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.contrib.schedule.onnx_graph import schedule_graph
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.conv_graph import ConvGraph
from tvm_neocpu.core.network.equal_keys import kth_of_equal
from tvm_neocpu.core.network.layer_group import LayerGroup
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.folded_network import FoldedNetwork, open_onnx
from tvm_neocpu.scheduling.graph.schedule_graph import OpKind, ScheduleGraph
from tvm_neocpu.scheduling.partition.units import fused_units
from tvm_neocpu.scheduling.profilers.cpu_l2 import DTYPE, ITEM_BYTES, CpuL2
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.fused_block.cost import apart_seconds, predict_seconds
from tvm_neocpu.topi.fused_block.geometry import FusedBlock
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.tuning.in_network.processes.machine import Lowered

ROUNDS, RUNS, PEAK_TRIES = 5, 12, 16
Ids = tuple[str, ...]
Undisturbed = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Times:
    """Seconds of the calls of one build by the nodes that they compute, and of the whole run.

    ``rest`` are the calls that compute no convolution or product.
    """

    of: Mapping[Ids, float]
    rest: float
    wall: float


class Builds:
    """A network with its groups and without them, ready to be timed."""

    def __init__(self, network: str) -> None:
        content = model_zoo.build(network).SerializeToString()
        shapes = {"data": model_zoo.input_shape(network)}
        self.folded = open_onnx(content, shapes, "llvm")
        self.plan = choose_plan(self.folded.graph, self.folded.cpu)
        self._plans = (replace(self.plan, groups=()), self.plan)
        self._lowered = [self.folded.lower(plan) for plan in self._plans]
        self._kernels = KernelCache(self.folded.target, store_for(self.folded.target))
        for lowered in self._lowered:
            self._kernels.load(lowered.module)  # compiled now, not while the machine is quiet
        self._inputs = [tvm.runtime.tensor(array) for array in self.folded.inputs]

    def timed(self, ruler: PeakKernel) -> tuple[Times, Times, float]:
        """Layer by layer, with groups, and the FMA peak in GFLOP/s, which take turns; medians."""
        rounds, peaks = [], []
        for _ in range(ROUNDS):
            rounds.append([self._watched(at) for at in range(2)])
            peaks.append(max(ruler.gflops() for _ in range(PEAK_TRIES)))
        apart, fused = (_median([found[at] for found in rounds]) for at in range(2))
        return apart, fused, median(peaks)

    def _watched(self, at: int) -> Times:
        # Kernels are found by name: each build has its own.
        code = self._kernels.load(self._lowered[at].module).mod
        found = watch_calls(code, self._inputs, RUNS)
        nodes = list(nodes_of([call.name for call in found.calls], self._lowered[at], self, at))
        of = {ids: call.seconds for ids, call in zip(nodes, found.calls, strict=True) if ids}
        rest = sum(call.seconds for ids, call in zip(nodes, found.calls, strict=True) if not ids)
        return Times(of, rest, found.wall)

    def named(self, at: int) -> Iterator[tuple[Any, Ids]]:
        """What the functions of a build compute, and the nodes that it is."""
        graph, plan = self.folded.graph, self._plans[at]
        grouped = {member for group in plan.groups or () for member in group.members}
        for group in plan.groups or ():
            yield plan.members_of(group, graph), group.members
        for node in graph.convs:
            if node.id not in grouped:
                yield node.workload, (node.id,)


def nodes_of(
    calls: Sequence[str], lowered: Lowered, builds: Builds, at: int
) -> Iterator[Ids | None]:
    """The nodes that each call computes; ``None`` for one that computes none."""
    keys = []
    for name in calls:
        scheme = lowered.schemes.get(name)
        keys.append(lowered.groups.get(name) or (scheme[0] if scheme else None))
    yield from kth_of_equal(keys, builds.named(at))


def _median(rounds: Sequence[Times]) -> Times:
    of = {ids: median(found.of[ids] for found in rounds) for ids in rounds[0].of}
    walls, rests = ([getattr(found, key) for found in rounds] for key in ("wall", "rest"))
    return Times(of, median(rests), median(walls))


def places_of(graph: ConvGraph, drawn: ScheduleGraph) -> dict[str, tuple[int, ...]]:
    """A convolution's operations in the schedule graph, by the id of its node.

    Both graphs list convolutions in file order. Raises ValueError where one differs.
    """
    units = {group[0]: group for group in fused_units(drawn).groups}
    there = [at for at, node in enumerate(drawn.nodes) if node.kind is OpKind.CONV]
    convs = [node for node in graph.convs if isinstance(node.workload, ConvWorkload)]
    found = {}
    for node, at in zip(convs, there, strict=False):
        work = node.workload
        if drawn.nodes[at].macs * 2 != work.flops:  # type: ignore[union-attr]
            raise ValueError(f"{drawn.nodes[at].label} is not {work}")
        found[node.id] = units[at]
    return found


def _known_places(graph: ConvGraph, drawn: ScheduleGraph) -> dict[str, tuple[int, ...]] | None:
    """:func:`places_of`; ``None``, and a line, for channels that compiling has padded."""
    try:
        return places_of(graph, drawn)
    except ValueError as error:
        print(f"without the profiler's figures: {error}")
        return None


def predicted(
    group: LayerGroup,
    network: FoldedNetwork,
    plan: Plan,
    l2: CpuL2,
    places: Mapping[str, Any] | None,
) -> dict[str, float | None]:
    """Microseconds of a group by both models, layer by layer and as one.

    ``None`` where the profiler finds that the group does not fit L2, or knows no ``places``.
    """
    cpu = network.cpu
    members = [
        Member(network.graph.by_id[id].workload, plan.configs[id])  # type: ignore[arg-type]
        for id in group.members
    ]
    block = FusedBlock(tuple(members), group.bands)
    profiled: dict[str, float | None] = {"l2_apart_us": None, "l2_fused_us": None}
    if places is not None:
        apart = sum(l2.price(places[id]).cycles for id in group.members)
        fused = l2.price([node for id in group.members for node in places[id]])
        profiled["l2_apart_us"] = apart / cpu.ghz / 1e3
        profiled["l2_fused_us"] = fused.cycles / cpu.ghz / 1e3 if fused.is_possible else None
    return {
        **profiled,
        "model_apart_us": apart_seconds(block, cpu) * 1e6,
        "model_fused_us": predict_seconds(block, cpu) * 1e6,
    }


def profile(network: str, undisturbed: Undisturbed) -> dict[str, Any]:
    """The report of one network."""
    builds = Builds(network)
    cpu: Cpu = builds.folded.cpu
    drawn = schedule_graph(model_zoo.find(network).sketch(), ITEM_BYTES)
    places, l2 = _known_places(builds.folded.graph, drawn), CpuL2(drawn, cpu)
    ruler = PeakKernel(parse_target("llvm"), DTYPE)
    with undisturbed():
        apart, fused, peak = builds.timed(ruler)
    by_id, models = builds.folded.graph.by_id, {}
    for group in builds.plan.groups or ():
        if len(group.members) > 1:
            models[group.members] = predicted(group, builds.folded, builds.plan, l2, places)
    rows = []
    for ids, seconds in fused.of.items():
        works = [by_id[id].workload for id in ids]
        alone = [apart.of.get((id,)) for id in ids]
        rows.append(
            {
                "layers": [str(work) for work in works],
                "apart_us": None if None in alone else sum(alone) * 1e6,  # type: ignore[arg-type]
                "fused_us": seconds * 1e6,
                "peak_us": sum(work.flops for work in works) / peak / 1e3,  # type: ignore[union-attr]
                **models.get(ids, {}),
            }
        )
    return {
        "network": network,
        "peak_gflops": peak,
        "apart_ms": apart.wall * 1e3,
        "fused_ms": fused.wall * 1e3,
        "rest_us": {"apart": apart.rest * 1e6, "fused": fused.rest * 1e6},
        "rows": rows,
    }


def equal_rows(rows: Sequence[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    """Rows of equal layers as one, with their number; means of the times."""
    found: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        found[tuple(row["layers"])].append(row)
    return [
        (
            len(equal),
            {
                key: value if key == "layers" else _mean([row[key] for row in equal])
                for key, value in equal[0].items()
            },
        )
        for equal in found.values()
    ]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if len(known) == len(values) else None


def lines_of(report: Mapping[str, Any]) -> Iterator[str]:
    """The report as a Markdown table."""
    keys = ("apart", "fused", "peak", "l2_apart", "l2_fused", "model_apart", "model_fused")
    yield (
        "{network}: {apart_ms:.3f} ms layer by layer, {fused_ms:.3f} ms with groups; FMA peak "
        "{peak_gflops:.1f} GFLOP/s".format(**report)
    )
    yield f"| times | layers | {' | '.join(key.replace('_', ', ') for key in keys)} |"
    yield "|---" * (len(keys) + 2) + "|"
    for count, row in equal_rows(report["rows"]):
        cells = [row.get(f"{key}_us") for key in keys]
        shown = " | ".join("" if cell is None else f"{cell:.0f}" for cell in cells)
        yield f"| {count} | {' -> '.join(row['layers'])} | {shown} |"
    yield "all other calls: {apart:.0f} us, {fused:.0f} us".format(**report["rest_us"])


def main(arguments: Sequence[str] | None = None, undisturbed: Undisturbed = nullcontext) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--json", type=Path, metavar="F")
    options = parser.parse_args(arguments)
    reports = []
    for network in options.networks:
        reports.append(profile(network, undisturbed))
        print("\n".join(lines_of(reports[-1])), flush=True)
    if options.json:
        cpu = parse_target("llvm").cpu
        result = {**provenance(cpu.name, cpu.cores), "networks": reports}
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
