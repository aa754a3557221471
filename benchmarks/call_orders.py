"""Networks in the order of the smallest arena against the same networks in file order, in turns.

    TVM_NUM_THREADS=1 taskset -c 1 python benchmarks/call_orders.py nasnet_a_large --json out.json

Both builds have the same kernels, and both arenas are placed tightly: only the order of the calls
differs. For each network: bytes of both arenas and of the largest live sets, median milliseconds of
either build, and the median over rounds of file order over this order, with its quartiles. A
network whose order stays is named and not timed.

The exit code is 1 if outputs differ, or if this order is clearly slower: three quarters of the
rounds say so, by 2 % in the median.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import tvm
from in_turns import Run, in_turns, runner
from tvm import relax

from tvm_neocpu.codegen.kernel_cache import KernelCache
from tvm_neocpu.codegen.kernel_store import store_for
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.arena import largest_live_set, place_tightly
from tvm_neocpu.folded_network import open_onnx
from tvm_neocpu.pipeline import apply_plan, choose_plan, compute_templates
from tvm_neocpu.relay_passes.fuse_blocks import FuseBlocks
from tvm_neocpu.relay_passes.fuse_pools import FusePools
from tvm_neocpu.relay_passes.ir.run_passes import run_passes
from tvm_neocpu.relay_passes.order_calls import OrderCalls, arena_graph, arena_lifetimes
from tvm_neocpu.relay_passes.plan_memory import PlanMemory
from tvm_neocpu.relay_passes.schedule_functions import ScheduleFunctions
from tvm_neocpu.relay_passes.separate_branches import SeparateBranches
from tvm_neocpu.targets import parse_target

TOLERANCE, SLOWER = 1e-5, 0.98
Undisturbed = Callable[[], AbstractContextManager[object]]


class Order(NamedTuple):
    """A network in one order of its calls, ready to run; its arena and largest live set."""

    run: Run
    arena: int
    live: int


def main(arguments: Sequence[str] | None = None, undisturbed: Undisturbed = nullcontext) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path, metavar="F")
    options = parser.parse_args(arguments)
    found = []
    for network in options.networks:
        orders = both_orders(network)
        if orders is None:
            print(f"{network}: the order stays")
            continue
        with undisturbed():
            found.append(timed(network, *orders, options.rounds))
        print(
            "{network}: arena {file_arena} -> {arena} bytes, {file_ms:.2f} -> {ms:.2f} ms, "
            "{gain:.3f} ({quartiles[0]:.3f}-{quartiles[1]:.3f})".format(**found[-1]),
            flush=True,
        )
    if options.json:
        cpu = parse_target("llvm").cpu
        report = {**provenance(cpu.name, cpu.cores), "networks": found}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    wrong = [row["network"] for row in found if row["difference"] > TOLERANCE]
    slower = [r["network"] for r in found if r["gain"] < SLOWER and r["quartiles"][1] < 1]
    print(f"outputs differ: {', '.join(wrong) or 'none'}; slower: {', '.join(slower) or 'none'}")
    return 1 if wrong or slower else 0


def both_orders(network: str) -> tuple[Order, Order] | None:
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
    kernels = KernelCache(folded.target, store_for(folded.target))
    first, second = (_order(mod, kernels, folded.inputs[0]) for mod in (filed, ordered))
    return first, second


def _order(scheduled: tvm.IRModule, kernels: KernelCache, data: Any) -> Order:
    viewed = relax.transform.RewriteDataflowReshape()(scheduled)
    graph, _ = arena_graph(viewed, viewed["main"])
    lives = arena_lifetimes(graph, range(len(graph)))
    planned = run_passes(scheduled, PlanMemory(), SeparateBranches())
    run = runner(kernels.load(planned).mod, data)
    return Order(run, place_tightly(lives)[1], largest_live_set(lives))


def timed(network: str, filed: Order, ordered: Order, rounds: int) -> dict[str, Any]:
    """One row of the report."""
    found = in_turns(filed.run, ordered.run, rounds)
    return {
        "network": network,
        "file_arena": filed.arena,
        "arena": ordered.arena,
        "largest_live_set": ordered.live,
        "file_ms": found.first_ms,
        "ms": found.second_ms,
        "gain": found.gain,
        "quartiles": found.quartiles,
        "difference": found.difference,
    }


if __name__ == "__main__":
    raise SystemExit(main())
