"""Stacks of dense convolutions as one function against the same layers one by one, in turns.

    TVM_NUM_THREADS=1 python benchmarks/groups/fused_stacks.py vgg16 unet --save DIR
    TVM_NUM_THREADS=1 taskset -c 1 python benchmarks/groups/fused_stacks.py vgg16 unet \
        --load DIR --json F

Layers alone in a loop, under those schemes that the cost model finds fastest and that fit each
other. Each stack is timed in several bands, those first that the model finds fastest, whether L2
holds them or not (`fits`). `gain` is the median over rounds of one by one over as one, beside what
the model predicts. `--save DIR` writes the kernels instead of timing them, `--load DIR` times what
was written, so that nothing is compiled while the machine is kept quiet.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import tvm
from tvm import tirx

from tvm_neocpu.contrib.kernels.measure import random_tensor
from tvm_neocpu.contrib.provenance import provenance
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.targets import CompileTarget, parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.cost.ranking import best_per_layout
from tvm_neocpu.topi.cost.roofline import L2_SHARE
from tvm_neocpu.topi.fused_block.cost import apart_seconds, predict_seconds
from tvm_neocpu.topi.fused_block.geometry import FusedBlock, candidates, misfit
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.fused_block.template import Layer, fused_function
from tvm_neocpu.topi.kernel import kernel, unscheduled

# Schemes of each layer, and bands of each stack, that are looked at.
SCHEMES, BANDS = 6, 3
TOLERANCE = 1e-4


def conv(channels: int, size: int, out: int, kernel: int = 3) -> ConvWorkload:
    padding = (kernel // 2,) * 4
    return ConvWorkload(1, channels, size, size, out, (kernel,) * 2, padding=padding)


STACKS: dict[str, tuple[tuple[ConvWorkload, ...], ...]] = {
    "vgg16": (
        (conv(3, 224, 64), conv(64, 224, 64)),
        (conv(64, 112, 128), conv(128, 112, 128)),
        (conv(128, 56, 256), conv(256, 56, 256)),
    ),
    "unet": (
        (conv(3, 256, 64), conv(64, 256, 64)),
        (conv(64, 128, 128), conv(128, 128, 128)),
    ),
    "resnet18": ((conv(64, 56, 64), conv(64, 56, 64)),),
    "resnet50": ((conv(256, 56, 64, 1), conv(64, 56, 64), conv(64, 56, 256, 1)),),
    "densenet121": ((conv(64, 56, 128, 1), conv(128, 56, 32)),),
    # The pool between them is left out: one that keeps the image's size would read as much.
    "tiny_yolov2": ((conv(16, 208, 32), conv(32, 208, 64)),),
}


@dataclass(frozen=True)
class Stack:
    """Layers one by one, and as one function in several bands."""

    network: str
    blocks: tuple[FusedBlock, ...]
    target: CompileTarget

    @property
    def members(self) -> tuple[Member, ...]:
        return self.blocks[0].members

    def compiled(self) -> tvm.runtime.Executable:
        """Functions layer0, layer1, .. and stack0, stack1, .. of the bands."""
        cpu = self.target.cpu
        apart = [unscheduled(m.workload, m.config) for m in self.members]
        layers = [Layer(func, reads=0 if at else None) for at, func in enumerate(apart)]
        functions = {
            f"layer{at}": kernel(m.workload, m.config, cpu) for at, m in enumerate(self.members)
        }
        for at, block in enumerate(self.blocks):
            func = fused_function(block, layers, cpu)
            assert func is not None
            functions[f"stack{at}"] = func
        named = {name: f.with_attr("global_symbol", name) for name, f in functions.items()}
        return tvm.compile(tvm.IRModule(named), target=self.target.target)

    def timed(self, code: tvm.runtime.Module, rounds: int) -> Iterator[dict[str, Any]]:
        """A row of the report for each of the bands."""
        cpu, rng = self.target.cpu, np.random.default_rng(7)
        functions = [unscheduled(m.workload, m.config) for m in self.members]
        maps = [_tensor(functions[0].params[0], rng)]
        maps += [_tensor(func.params[-1], rng) for func in functions]
        operands = [[_tensor(each, rng) for each in func.params[1:-1]] for func in functions]
        result = _tensor(functions[-1].params[-1], rng)

        def apart() -> None:
            for at, others in enumerate(operands):
                code[f"layer{at}"](maps[at], *others, maps[at + 1])

        def fused(at: int) -> None:
            code[f"stack{at}"](maps[0], *chain.from_iterable(operands), result)

        count = len(self.blocks)
        runs = [apart, *(partial(fused, at) for at in range(count))]
        times = [[_seconds(run) for run in runs] for _ in range(rounds)]
        for at, block in enumerate(self.blocks):
            fused(at)
            largest, expected = np.abs(maps[-1].numpy()).max(), maps[-1].numpy()
            ratios = sorted(row[0] / row[at + 1] for row in times)
            yield {
                "network": self.network,
                "layers": [str(member.workload) for member in self.members],
                "configs": [repr(member.config) for member in self.members],
                "bands": list(block.bands),
                "working_kib": block.working_bytes // 1024,
                "fits": block.working_bytes <= L2_SHARE * cpu.l2,
                "apart_us": median(row[0] for row in times) * 1e6,
                "fused_us": median(row[at + 1] for row in times) * 1e6,
                "gain": median(ratios),
                "quartiles": [ratios[rounds // 4], ratios[3 * rounds // 4]],
                "predicted": apart_seconds(block, cpu) / predict_seconds(block, cpu),
                "difference": float(np.abs(result.numpy() - expected).max() / largest),
            }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="+", choices=sorted(STACKS))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, metavar="F")
    parser.add_argument("--save", type=Path, metavar="DIR")
    parser.add_argument("--load", type=Path, metavar="DIR")
    options = parser.parse_args(arguments)
    target = parse_target("llvm")
    rows = []
    for network in options.networks:
        for at, layers in enumerate(STACKS[network]):
            stack = Stack(network, _bands(layers, target.cpu), target)
            name = f"{network}_{at}_{target.cpu.cores}.so"
            if options.save:
                options.save.mkdir(parents=True, exist_ok=True)
                stack.compiled().export_library(str(options.save / name))
                continue
            code = (
                tvm.runtime.load_module(str(options.load / name))
                if options.load
                else stack.compiled().jit()
            )
            rows += stack.timed(code, options.rounds)
    for row in rows:
        print(
            "{network} {layers}: bands {bands}, {working_kib} KiB, {apart_us:.0f} -> "
            "{fused_us:.0f} us, {gain:.3f} ({quartiles[0]:.3f}-{quartiles[1]:.3f}), "
            "predicted {predicted:.3f}".format(**row)
        )
    if options.json:
        report = {**provenance(target.cpu.name, target.cpu.cores), "stacks": rows}
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    wrong = [row["layers"] for row in rows if not row["difference"] <= TOLERANCE]  # NaN is wrong
    print(f"outputs differ: {wrong or 'none'}")
    return 1 if wrong else 0


def _bands(layers: Sequence[ConvWorkload], cpu: Cpu) -> tuple[FusedBlock, ...]:
    """The fastest bands of the fastest schemes."""
    schemes = [best_per_layout(layer, cpu)[:SCHEMES] for layer in layers]
    fitting = []
    for chosen in product(*schemes):
        members = [Member(w, c.config) for w, c in zip(layers, chosen, strict=True)]
        if misfit(members) is None:
            fitting.append((sum(c.seconds for c in chosen), members))
    _, members = min(fitting, key=lambda found: found[0])
    offered = sorted(candidates(members, cpu.cores), key=lambda block: predict_seconds(block, cpu))
    # One of each height of bands: runs of two lengths differ little.
    by_rows: dict[int, FusedBlock] = {}
    for block in offered:
        by_rows.setdefault(block.bands.rows, block)
    return tuple(by_rows.values())[:BANDS]


def _tensor(param: tirx.Var, rng: np.random.Generator) -> tvm.runtime.Tensor:
    return random_tensor([int(extent) for extent in param.shape], str(param.dtype), rng)


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    raise SystemExit(main())
