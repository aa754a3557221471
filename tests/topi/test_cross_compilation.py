"""Code for the paper's CPU families: full vectors, fused multiply-adds, tiles in registers."""

from __future__ import annotations

import re

import pytest
import tvm

from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.operator import Implementation
from tvm_neocpu.topi.table import implementations

TARGETS = {
    "AVX-512": "llvm -mtriple=x86_64-linux-gnu -mcpu=skylake-avx512",
    "AVX2": "llvm -mtriple=x86_64-linux-gnu -mcpu=haswell",
    "NEON": "llvm -mtriple=aarch64-linux-gnu -mattr=+neon",
}
MULTIPLY_ADD = {
    "AVX-512": r"vfn?m(?:add|sub)\d+ps\s.*%zmm",
    "AVX2": r"vfn?m(?:add|sub)\d+ps\s.*%ymm",
    "NEON": r"fml[as]\s+v\d+\.4s",
}
WORKLOADS: dict[str, Workload] = {
    "3x3": ConvWorkload(1, 64, 14, 14, 64, (3, 3), padding=(1, 1, 1, 1)),
    "1x1": ConvWorkload(1, 64, 14, 14, 128, (1, 1)),
    "depthwise": ConvWorkload(1, 64, 14, 14, 64, (3, 3), padding=(1, 1, 1, 1), groups=64),
    "dense": DenseWorkload(1, 256, 1000),
    "dense, batch": DenseWorkload(8, 256, 1000),
}
CASES = [
    pytest.param(isa, workload, template, id=f"{isa}-{name}-{template.name}")
    for isa, spec in TARGETS.items()
    for name, workload in WORKLOADS.items()
    for template in implementations(workload, parse_target(spec).cpu)
]


@pytest.mark.parametrize(("isa", "workload", "template"), CASES)
def test_assembly(isa: str, workload: Workload, template: Implementation) -> None:
    target = parse_target(TARGETS[isa])
    space = template.space(workload, target.cpu)
    config = min(space, key=template.price(workload, target.cpu))
    built = tvm.compile(kernel(workload, config, target.cpu), target=target.target)
    assembly = built.mod.inspect_source("asm")
    fused = re.findall(MULTIPLY_ADD[isa], assembly)
    # As many as the register tile has vectors, at least.
    pixels = config.reg_n * getattr(config, "reg_m", 1)
    assert len(fused) >= pixels * max(config.oc_bn // target.cpu.lanes("float32"), 1)
    assert ("zmm" in assembly) == (isa == "AVX-512")
    # Winograd's transforms need more registers than there are; accumulators must never be spilled.
    spilled = [line for line in fused if "(%rsp)" in line]
    assert not spilled or hasattr(config, "tile")
