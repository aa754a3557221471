"""Networks in the order of the smallest arena against the same networks in file order, in turns.

    TVM_NUM_THREADS=1 taskset -c 1 python benchmarks/groups/call_orders.py nasnet_a_large \
        --json out.json

Both builds have the same kernels, and both arenas are placed tightly: only the order of the calls
differs. For each network: bytes of both arenas and of the largest live sets, median milliseconds of
either build, and the median over rounds of file order over this order, with its quartiles. A
network whose order stays is named and not timed. `--save DIR` writes both builds instead of timing
them, `--load DIR` times what was written, so that nothing is compiled while the machine is kept
quiet.

The exit code is 1 if outputs differ, or if this order is clearly slower: three quarters of the
rounds say so, by 2 % in the median.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tvm
import two_builds
from in_turns import Run, in_turns
from tvm import relax
from tvm.target import Target

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.arena import largest_live_set, place_tightly
from tvm_neocpu.folded_network import open_onnx
from tvm_neocpu.pipeline import apply_plan, compute_templates
from tvm_neocpu.relay_passes.fusing.fuse_blocks import FuseBlocks
from tvm_neocpu.relay_passes.fusing.fuse_pools import FusePools
from tvm_neocpu.relay_passes.ir.run_passes import run_passes
from tvm_neocpu.relay_passes.lowering.schedule_functions import ScheduleFunctions
from tvm_neocpu.relay_passes.memory.order_calls import OrderCalls, arena_graph, arena_lifetimes
from tvm_neocpu.relay_passes.memory.plan_memory import PlanMemory
from tvm_neocpu.relay_passes.memory.separate_branches import SeparateBranches
from tvm_neocpu.targets import parse_target

BUILDS = ("filed", "ordered")
Undisturbed = Callable[[], AbstractContextManager[object]]


@dataclass(frozen=True)
class Order:
    """A network in one order of its calls: planned, its arena and largest live set."""

    mod: tvm.IRModule
    arena: int
    live: int


@dataclass(frozen=True)
class Orders:
    """A network in file order and in the order of the smallest arena."""

    filed: Order
    ordered: Order
    target: Target
    data: np.ndarray

    @property
    def mods(self) -> list[tvm.IRModule]:
        """As `BUILDS` names them."""
        return [self.filed.mod, self.ordered.mod]

    @property
    def bytes(self) -> dict[str, int]:
        """What the report says of both arenas."""
        return {
            "file_arena": self.filed.arena,
            "arena": self.ordered.arena,
            "largest_live_set": self.ordered.live,
        }


def main(arguments: Sequence[str] | None = None, undisturbed: Undisturbed = nullcontext) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path, metavar="F")
    parser.add_argument("--save", type=Path, metavar="DIR")
    parser.add_argument("--load", type=Path, metavar="DIR")
    options = parser.parse_args(arguments)
    found = []
    for network in options.networks:
        if options.load:
            ready = loaded(network, options.load)
        else:
            orders = both_orders(network)
            if orders is None:
                print(f"{network}: the order stays")
                continue
            if options.save:
                save(network, orders, options.save)
                continue
            ready = built(orders)
        with undisturbed():
            found.append(timed(network, ready, options.rounds))
        print(
            "{network}: arena {file_arena} -> {arena} bytes, {file_ms:.2f} -> {ms:.2f} ms, "
            "{gain:.3f} ({quartiles[0]:.3f}-{quartiles[1]:.3f})".format(**found[-1]),
            flush=True,
        )
    if options.json:
        cpu = parse_target("llvm").cpu
        report = {**provenance(cpu.name, cpu.cores), "networks": found}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return two_builds.verdict(found)


def both_orders(network: str) -> Orders | None:
    """File order and the order of the smallest arena; ``None`` where they are the same."""
    content = model_zoo.build(network).SerializeToString()
    folded = open_onnx(content, {"data": model_zoo.input_shape(network)}, "llvm")
    plan, cpu = choose_plan(folded.graph, folded.cpu), folded.cpu
    altered = apply_plan(folded.module, plan, cpu)
    computed = compute_templates(altered, plan.by_layout(folded.graph), cpu)
    groups = plan.group_bands(folded.graph)
    filed = run_passes(
        computed, FuseBlocks(cpu, groups), FusePools(cpu, groups), ScheduleFunctions(cpu)
    )
    ordered = OrderCalls()(filed)
    if ordered is filed:
        return None
    return Orders(_order(filed), _order(ordered), folded.target, folded.inputs[0])


def _order(scheduled: tvm.IRModule) -> Order:
    viewed = relax.transform.RewriteDataflowReshape()(scheduled)
    graph, _ = arena_graph(viewed, viewed["main"])
    lives = arena_lifetimes(graph, range(len(graph)))
    planned = run_passes(scheduled, PlanMemory(), SeparateBranches())
    return Order(planned, place_tightly(lives)[1], largest_live_set(lives))


class Ready(NamedTuple):
    """Both orders, ready to run, and what the report says of their arenas."""

    filed: Run
    ordered: Run
    bytes: dict[str, int]


def built(orders: Orders) -> Ready:
    """Both orders; a kernel that the cache folder has is not compiled again."""
    return Ready(*two_builds.ready(orders.mods, orders.target, orders.data), orders.bytes)


def save(network: str, orders: Orders, folder: Path) -> None:
    """Both orders, their input and the bytes of their arenas as files."""
    mods = dict(zip(BUILDS, orders.mods, strict=True))
    two_builds.save(network, folder, mods, orders.target, orders.data)
    (folder / f"{network}.json").write_text(json.dumps(orders.bytes))


def loaded(network: str, folder: Path) -> Ready:
    """What :func:`save` wrote."""
    sizes = json.loads((folder / f"{network}.json").read_text())
    return Ready(*two_builds.load(network, folder, BUILDS), sizes)


def timed(network: str, ready: Ready, rounds: int) -> dict[str, Any]:
    """One row of the report."""
    found = in_turns(ready.filed, ready.ordered, rounds)
    return {"network": network, **ready.bytes, **found.row("file_ms", "ms")}


if __name__ == "__main__":
    raise SystemExit(main())
