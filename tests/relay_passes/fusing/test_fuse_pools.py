"""FusePools: which calls become one, and what stays as it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.s_tir import Schedule

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.network.layer_group import Bands, Members
from tvm_neocpu.relay_passes.fusing import fuse_pools
from tvm_neocpu.relay_passes.fusing.fuse_functions import FuseFunctions
from tvm_neocpu.relay_passes.fusing.fuse_pools import FusePools
from tvm_neocpu.relay_passes.lowering.lower_to_templates import LowerToTemplates
from tvm_neocpu.relay_passes.lowering.schedule_functions import ScheduleFunctions
from tvm_neocpu.topi.fused_block.template import layers_of
from tvm_neocpu.topi.schedule_function import anchor_of

op = relax.op
CPU = Cpu("haswell", AVX2, cores=1)
Build = Callable[[relax.BlockBuilder, relax.Var], relax.Expr]


def conv(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Var:
    weight = relax.const(np.zeros((16, 16, 3, 3), "float32"))
    layouts = {"data_layout": "NCHW8c", "out_layout": "NCHW8c", "kernel_layout": "OIHW"}
    return builder.emit(op.nn.relu(builder.emit(op.nn.conv2d(x, weight, padding=1, **layouts))))


def pool(builder: relax.BlockBuilder, x: relax.Expr) -> relax.Var:
    return builder.emit(op.nn.max_pool2d(x, [3, 3], strides=[2, 2], padding=1, layout="NCHW8c"))


def lowered(build: Build) -> tvm.IRModule:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 2, 32, 32, 8), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(build(builder, x))
        builder.emit_func_output(result)
    return FuseFunctions()(LowerToTemplates(CPU)(builder.get()))


def every_layer(mod: tvm.IRModule) -> dict[Members, Bands]:
    anchors = [
        anchor
        for func in mod.functions.values()
        if isinstance(func, tirx.PrimFunc) and (anchor := anchor_of(Schedule(func))) is not None
    ]
    return {((anchor.workload, anchor.config),): Bands(8) for anchor in anchors}


def calls(mod: tvm.IRModule) -> list[tuple[bool, int]]:
    """(whether it is a group, count of operands) of each call, in order."""
    values = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    found = [value for value in values if isinstance(value, tvm.ir.Call)]
    return [("fused_pool" in value.args[0].name_hint, len(value.args[1])) for value in found]


def test_a_layer_and_its_pool_become_one_call() -> None:
    before = lowered(lambda b, x: conv(b, pool(b, conv(b, x))))
    after = FusePools(CPU, every_layer(before))(before)
    assert calls(before) == [(False, 2), (False, 1), (False, 2)]
    assert calls(after) == [(True, 2), (False, 2)]
    func = after["fused_pool"]
    assert layers_of(func) == ("16x32x32->16 3x3 p1 -> pool", 2 * 16 * 16 * 9 * 32 * 32)
    assert ScheduleFunctions(CPU)(after)["fused_pool"].same_as(func)


def test_no_group_is_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is scheduled already: TVM refused one whose SiLU stands in two tiles."""
    before = lowered(lambda b, x: conv(b, pool(b, conv(b, x))))
    planned, asked, member_of = every_layer(before), [], fuse_pools.member_of
    grouped = FusePools(CPU, planned)(before)

    def asks(func: tirx.PrimFunc) -> object:
        asked.append(layers_of(func))
        return member_of(func)

    monkeypatch.setattr(fuse_pools, "member_of", asks)
    tvm.ir.assert_structural_equal(FusePools(CPU, planned)(grouped), grouped)
    assert asked == [None]


def test_equal_stems_share_a_function() -> None:
    def two(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return relax.Tuple([pool(b, conv(b, x)), pool(b, conv(b, conv(b, x)))])

    before = lowered(two)
    after = FusePools(CPU, every_layer(before))(before)
    assert sum(is_group for is_group, _ in calls(after)) == 2
    names = [var.name_hint for var in after.get_global_vars() if "fused_pool" in var.name_hint]
    assert names == ["fused_pool"]


def pool_along_the_channels(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
    return b.emit(op.mean(conv(b, x), [2, 3], keepdims=True))


APART: dict[str, Build] = {
    "another layer reads it too": lambda b, x: op.add(
        b.emit(op.nn.max_pool2d(y := conv(b, x), [3, 3], padding=1, layout="NCHW8c")), y
    ),
    "the image is one window": pool_along_the_channels,
    "there is no pool": lambda b, x: conv(b, conv(b, x)),
}


@pytest.mark.parametrize("build", APART.values(), ids=APART.keys())
def test_these_stay_apart(build: Build) -> None:
    before = lowered(build)
    assert FusePools(CPU, every_layer(before))(before).same_as(before)


def test_what_the_plan_leaves_apart_stays_apart() -> None:
    before = lowered(lambda b, x: pool(b, conv(b, x)))
    assert FusePools(CPU, {})(before).same_as(before)
    for bands in (Bands(17), Bands(8, 2)):
        planned = dict.fromkeys(every_layer(before), bands)
        assert FusePools(CPU, planned)(before).same_as(before)
