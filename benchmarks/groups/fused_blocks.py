"""Networks with groups of layers against the same networks layer by layer, interleaved.

    TVM_NUM_THREADS=1 taskset -c 1 python benchmarks/groups/fused_blocks.py mobilenet_v2 mnasnet1_0
    TVM_NUM_THREADS=2 python benchmarks/groups/fused_blocks.py mobilenet_v2 \
        --json fused_2_threads.json

Both builds run under one plan in one process, in turns. For each network: the groups' functions,
median milliseconds of either build, and the median over rounds of layer by layer over fused, with
its quartiles. `--save DIR` writes both builds instead of timing them, `--load DIR` times what was
written, so that nothing is compiled while the machine is kept quiet. `--json F` adds a report to
the list in a file: another process places its buffers elsewhere, so one run is not enough.
`--doubtful` adds the groups whose gain lies within the model's error, which `tune` tries, `--pools`
only those of them that are a convolution with its pool.

The exit code is 1 if outputs differ, or if a fused network is clearly slower: three quarters of the
rounds say so, by 2 % in the median.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import two_builds
from in_turns import Run, in_turns

from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.folded_network import open_onnx
from tvm_neocpu.pipeline import APART, apply_plan, compute_templates, schedule_module
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.fused_block.template import layers_of
from tvm_neocpu.tuning.group_candidates import with_doubtful_groups
from tvm_neocpu.tuning.pool_candidates import planned_pool_groups

BUILDS = ("apart", "fused")
Undisturbed = Callable[[], AbstractContextManager[object]]


def main(arguments: Sequence[str] | None = None, undisturbed: Undisturbed = nullcontext) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", type=Path, metavar="F")
    parser.add_argument("--save", type=Path, metavar="DIR")
    parser.add_argument("--load", type=Path, metavar="DIR")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--doubtful", action="store_const", dest="tried", const="all")
    kinds.add_argument("--pools", action="store_const", dest="tried", const="pools")
    options = parser.parse_args(arguments)
    if options.save:
        for network in options.networks:
            save(network, options.save, options.tried)
        return 0
    found = []
    for network in options.networks:
        is_saved = options.load is not None
        runs = (
            two_builds.load(network, options.load, BUILDS)
            if is_saved
            else built(network, options.tried)
        )
        with undisturbed():
            found.append(measured(network, runs[0], runs[1], options.rounds))
        print(
            "{network}: apart {apart_ms:.3f} ms, fused {fused_ms:.3f} ms, {gain:.3f} "
            "({quartiles[0]:.3f}-{quartiles[1]:.3f})".format(**found[-1]),
            flush=True,
        )
    if options.json:
        cpu = parse_target("llvm").cpu
        reports = json.loads(options.json.read_text()) if options.json.exists() else []
        reports.append(
            {
                **provenance(cpu.name, cpu.cores),
                "rounds": options.rounds,
                **({"doubtful": options.tried} if options.tried else {}),
                "networks": found,
            }
        )
        options.json.write_text(json.dumps(reports, indent=1) + "\n")
    return two_builds.verdict(found)


def modules(
    network: str, tried: str | None, target: str = "llvm"
) -> tuple[list[tvm.IRModule], Any, np.ndarray]:
    """The network lowered both ways, the target, its input; doubtful groups that are ``tried``."""
    content = model_zoo.build(network).SerializeToString()
    folded = open_onnx(content, {"data": model_zoo.input_shape(network)}, target)
    plan, cpu = choose_plan(folded.graph, folded.cpu), folded.cpu
    if tried == "all":
        plan = with_doubtful_groups(plan, folded.graph, cpu)
    elif tried == "pools":
        taken = {member for group in plan.groups or () for member in group.members}
        pools = planned_pool_groups(folded.graph, plan.configs, cpu, taken, doubtful=True)
        plan = replace(plan, groups=(*(plan.groups or ()), *pools))
    altered = apply_plan(folded.module, plan, cpu)
    computed = compute_templates(altered, plan.by_layout(folded.graph), cpu)
    groups = {"apart": APART, "fused": plan.group_bands(folded.graph)}
    lowered = [schedule_module(computed, cpu, groups[build]) for build in BUILDS]
    fused = sum(layers_of(func) is not None for func in lowered[1].functions.values())
    print(f"{network}: {fused} functions of groups, {cpu.name}, {cpu.cores} threads")
    return lowered, folded.target, folded.inputs[0]


def built(network: str, tried: str | None) -> list[Run]:
    """Both builds, ready to run; a kernel that the cache folder has is not compiled again."""
    return two_builds.ready(*modules(network, tried))


def save(network: str, folder: Path, tried: str | None) -> None:
    """Both builds and their input as files."""
    lowered, target, data = modules(network, tried)
    two_builds.save(network, folder, dict(zip(BUILDS, lowered, strict=True)), target, data)


def measured(network: str, apart: Run, fused: Run, rounds: int) -> dict[str, Any]:
    """One row of the report."""
    return {"network": network, **in_turns(apart, fused, rounds).row("apart_ms", "fused_ms")}


if __name__ == "__main__":
    raise SystemExit(main())
