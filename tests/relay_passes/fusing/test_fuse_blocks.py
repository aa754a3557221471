"""FuseBlocks: which calls become one, and what stays as it was."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import tvm
import tvm_ffi
from layers_in_groups import CPU, Build, Layers, calls, every_group, lowered
from tvm import relax, tirx
from tvm.s_tir import Schedule

from tvm_neocpu.core.network.layer_group import Bands, Members
from tvm_neocpu.relay_passes.fusing.fuse_blocks import FuseBlocks
from tvm_neocpu.relay_passes.lowering.schedule_functions import ScheduleFunctions
from tvm_neocpu.relay_passes.memory.plan_memory import PlanMemory
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.fused_block.member import Member
from tvm_neocpu.topi.fused_block.template import layers_of
from tvm_neocpu.topi.schedule_function import anchor_of

op = relax.op


def every_pair(mod: tvm.IRModule) -> dict[Members, Bands]:
    """The same of depthwise layers with what reads them."""
    pairs = every_group(mod, 2).items()
    return {members: bands for members, bands in pairs if members[0][0].is_depthwise}


def fused(mod: tvm.IRModule) -> tvm.IRModule:
    return FuseBlocks(CPU, every_pair(mod))(mod)


def groups_in(build: Build) -> int:
    before = lowered(build)
    after = fused(before)
    found = sum(name == "fused_block" for name, _ in calls(after))
    if not found:
        assert after.same_as(before)
    return found


def test_a_depthwise_layer_and_its_only_reader_become_one_call() -> None:
    before = lowered(lambda net: net.conv(net.depthwise(net.conv(net.x))))
    after = fused(before)
    assert calls(before) == [("layer", 2), ("layer", 2), ("layer", 2)]
    assert calls(after) == [("layer", 2), ("fused_block", 3)]
    (func,) = (f for v, f in after.functions.items() if v.name_hint == "fused_block")
    layers = layers_of(func)
    assert layers is not None
    assert layers[0] == "16x14x14->16 3x3 p1 depthwise -> 16x14x14->16 1x1"


def test_its_function_is_not_scheduled_again() -> None:
    after = fused(lowered(lambda net: net.conv(net.depthwise(net.x))))
    scheduled = ScheduleFunctions(CPU)(after)
    assert scheduled["fused_block"].same_as(after["fused_block"])


def test_it_is_told_of_at_once_as_memory_planning_leaves_it() -> None:
    told: list[tirx.PrimFunc] = []

    def build(net: Layers) -> relax.Expr:
        return net.conv(net.conv(net.depthwise(net.conv(net.x))))

    before = lowered(build)
    after = FuseBlocks(CPU, every_pair(before), told.append)(before)
    final = PlanMemory()(ScheduleFunctions(CPU)(after))
    (func,) = (f for v, f in final.functions.items() if v.name_hint == "fused_block")
    assert [tvm_ffi.structural_equal(each, func) for each in told] == [True]
    assert "_offset" in func.script()  # its tensors lie in the arena


def test_equal_blocks_share_a_function() -> None:
    def two(net: Layers) -> relax.Expr:
        return net.conv(net.depthwise(net.conv(net.depthwise(net.x))))

    after = fused(lowered(two))
    assert [name for name, _ in calls(after)] == ["fused_block", "fused_block"]
    functions = [f for f in after.functions.values() if isinstance(f, tirx.PrimFunc)]
    assert len(functions) == 1


def test_a_residual_is_one_more_operand() -> None:
    def block(net: Layers) -> relax.Expr:
        weight = relax.const(np.zeros((16, 16, 1, 1), "float32"))
        layouts = {"data_layout": "NCHW8c", "out_layout": "NCHW8c", "kernel_layout": "OIHW"}
        return op.add(net(op.nn.conv2d(net.depthwise(net.x), weight, **layouts)), net.x)

    assert calls(fused(lowered(block))) == [("fused_block", 4)]


def read_twice(net: Layers) -> relax.Expr:
    """A squeeze-excite gate reads the depthwise layer too."""
    y = net.depthwise(net.x)
    return op.add(net.conv(y), net(op.mean(y, [2, 3], keepdims=True)))


def read_as_residual(net: Layers) -> relax.Expr:
    """The 1x1 layer comes first, so that the sum is its epilogue."""
    weight = relax.const(np.zeros((16, 16, 1, 1), "float32"))
    layouts = {"data_layout": "NCHW8c", "out_layout": "NCHW8c", "kernel_layout": "OIHW"}
    y = net(op.nn.conv2d(net.x, weight, **layouts))
    return op.add(y, net.depthwise(net.x))


APART: dict[str, Build] = {
    "a gate reads it too": read_twice,
    "it is the residual of another layer": read_as_residual,
    "a pool stands between": lambda net: net.conv(
        net(op.nn.max_pool2d(net.depthwise(net.x), [3, 3], padding=1, layout="NCHW8c"))
    ),
    "its reader is no 1x1 layer": lambda net: net.conv(net.depthwise(net.x), size=3),
    "it is the result": lambda net: net.depthwise(net.conv(net.x)),
}


@pytest.mark.parametrize("build", APART.values(), ids=APART.keys())
def test_these_stay_apart(build: Build) -> None:
    assert groups_in(build) == 0


def test_what_the_plan_leaves_apart_stays_apart() -> None:
    before = lowered(lambda net: net.conv(net.depthwise(net.x)))
    assert FuseBlocks(CPU, {})(before).same_as(before)


def test_a_line_says_why_a_group_of_the_plan_is_none(caplog: pytest.LogCaptureFixture) -> None:
    fits = lowered(lambda net: net.conv(net.depthwise(net.x)))
    ((depthwise, project),) = every_pair(fits)
    thick = ConvWorkload(1, 16, 14, 14, 16, (3, 3), padding=(1, 1, 1, 1))
    config = next(
        Member(found.workload, found.config).config
        for func in lowered(APART["its reader is no 1x1 layer"]).functions.values()
        if isinstance(func, tirx.PrimFunc)
        and (found := anchor_of(Schedule(func))) is not None
        and found.workload == thick
    )
    with caplog.at_level(logging.DEBUG, "tvm_neocpu"):
        for build, groups in (
            (APART["its reader is no 1x1 layer"], {(depthwise, (thick, config)): Bands(1)}),
            (APART["it is the residual of another layer"], every_pair(fits)),
            (lambda net: net.conv(net.depthwise(net.x)), {(depthwise, project): Bands(5)}),
        ):
            before = lowered(build)
            assert FuseBlocks(CPU, groups)(before).same_as(before)
    said = [record.getMessage() for record in caplog.records if "apart" in record.getMessage()]
    assert said == [
        "left apart: 16x14x14->16 3x3 p1 is no 1x1 layer",
        "left apart: 16x14x14->16 3x3 p1 depthwise is an operand of the epilogue",
        "left apart: 5 rows in runs of 1 are no bands of 16x14x14->16 1x1",
    ]


def expanded(net: Layers) -> relax.Expr:
    """A 1x1 layer, a depthwise one, a 1x1 layer with a residual."""
    weight = relax.const(np.zeros((16, 16, 1, 1), "float32"))
    layouts = {"data_layout": "NCHW8c", "out_layout": "NCHW8c", "kernel_layout": "OIHW"}
    deep = net.depthwise(net.conv(net.x))
    return op.add(net(op.nn.conv2d(deep, weight, **layouts)), net.x)


def test_the_expansion_and_both_layers_behind_it_become_one_call() -> None:
    before = lowered(expanded)
    groups = every_group(before, 2, 3)
    # Pairs of the same layers are in the plan of another place of the network.
    assert sorted(map(len, groups)) == [2, 2, 3]
    assert calls(FuseBlocks(CPU, groups)(before)) == [("fused_block", 5)]


def test_a_gate_ends_a_group_behind_the_depthwise_layer() -> None:
    def gated(net: Layers) -> relax.Expr:
        y = net.depthwise(net.conv(net.x))
        return op.add(net.conv(y), net(op.mean(y, [2, 3], keepdims=True)))

    before = lowered(gated)
    names = [name for name, _ in calls(FuseBlocks(CPU, every_group(before, 2, 3))(before))]
    assert names.count("fused_block") == 1
    assert names[0] == "fused_block"


def test_a_tensor_that_something_else_reads_ends_a_group_in_front() -> None:
    def shared(net: Layers) -> relax.Expr:
        x = net.conv(net.x)
        return op.add(net.conv(net.depthwise(x)), x)

    before = lowered(shared)
    found = calls(FuseBlocks(CPU, every_group(before, 2, 3))(before))
    assert [name for name, _ in found] == ["layer", "fused_block"]
