"""Small networks of 1x1 and depthwise layers, lowered, and every group that they may have."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.s_tir import Schedule

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.network.layer_group import Bands, Members
from tvm_neocpu.relay_passes.fusing.fuse_functions import FuseFunctions
from tvm_neocpu.relay_passes.lowering.lower_to_templates import LowerToTemplates
from tvm_neocpu.topi.fused_block.geometry import candidates, misfit
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.schedule_function import anchor_of

op = relax.op
CPU = Cpu("haswell", AVX2, cores=2)
Build = Callable[["Layers"], relax.Expr]


class Layers:
    """Writes layers of 16 channels at 14x14; ``x`` is the input."""

    def __init__(self, builder: relax.BlockBuilder, x: relax.Var) -> None:
        self.builder, self.x = builder, x

    def __call__(self, value: relax.Expr) -> relax.Var:
        return self.builder.emit(value)

    def conv(self, x: relax.Expr, size: int = 1, groups: int = 1) -> relax.Var:
        weight = relax.const(np.zeros((16, 16 // groups, size, size), "float32"))
        layouts = {"data_layout": "NCHW8c", "out_layout": "NCHW8c", "kernel_layout": "OIHW"}
        call = op.nn.conv2d(x, weight, padding=size // 2, groups=groups, **layouts)
        return self(op.nn.relu(self(call)))

    def depthwise(self, x: relax.Expr) -> relax.Var:
        return self.conv(x, size=3, groups=16)


def lowered(build: Build) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 2, 14, 14, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(build(Layers(builder, x)))
        builder.emit_func_output(result)
    return FuseFunctions()(LowerToTemplates(CPU)(builder.get()))


def every_group(mod: tvm.IRModule, *counts: int) -> dict[Members, Bands]:
    """Groups of the fewest rows around a depthwise layer, of so many layers each."""
    anchors = [
        anchor
        for func in mod.functions.values()
        if isinstance(func, tirx.PrimFunc) and (anchor := anchor_of(Schedule(func))) is not None
    ]
    layers = [Member(anchor.workload, anchor.config) for anchor in anchors]
    return {
        tuple((each.workload, each.config) for each in found): candidates(found, 2)[0].bands
        for count in counts
        for found in product(layers, repeat=count)
        if any(each.workload.is_depthwise for each in found) and misfit(found) is None
    }


def calls(mod: tvm.IRModule) -> list[tuple[str, int]]:
    """("fused_block" or "layer", count of operands) of each call, in order."""
    values = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    return [
        ("fused_block" if "block" in value.args[0].name_hint else "layer", len(value.args[1]))
        for value in values
        if isinstance(value, tvm.ir.Call)
    ]
