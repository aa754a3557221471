"""FuseBlocks: which calls become one, and what stays as it was."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import tvm
from tvm import relax, tirx
from tvm.s_tir import Schedule

from tvm_neocpu.core.cpu import AVX2, Cpu
from tvm_neocpu.core.layer_group import Bands, Members
from tvm_neocpu.relay_passes import fuse_blocks
from tvm_neocpu.relay_passes.fuse_blocks import FuseBlocks
from tvm_neocpu.relay_passes.fuse_functions import FuseFunctions
from tvm_neocpu.relay_passes.lower_to_templates import LowerToTemplates
from tvm_neocpu.relay_passes.schedule_functions import ScheduleFunctions
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.fused_block.geometry import Member, candidates, misfit
from tvm_neocpu.topi.fused_block.template import layers_of
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
    """Groups of the fewest rows, of all layers that may be one, of so many layers each."""
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
        if misfit(found) is None
    }


def every_pair(mod: tvm.IRModule) -> dict[Members, Bands]:
    """The same of depthwise layers with what reads them."""
    pairs = every_group(mod, 2).items()
    return {members: bands for members, bands in pairs if members[0][0].is_depthwise}


def fused(mod: tvm.IRModule) -> tvm.IRModule:
    return FuseBlocks(CPU, every_pair(mod))(mod)


def calls(mod: tvm.IRModule) -> list[tuple[str, int]]:
    """("fused_block" or "layer", count of operands) of each call, in order."""
    values = [binding.value for block in mod["main"].body.blocks for binding in block.bindings]
    return [
        ("fused_block" if "block" in value.args[0].name_hint else "layer", len(value.args[1]))
        for value in values
        if isinstance(value, tvm.ir.Call)
    ]


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


def pooled(net: Layers, x: relax.Expr) -> relax.Var:
    return net(op.nn.max_pool2d(x, [3, 3], padding=1, layout="NCHW8c"))


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse_blocks, "saved_share", lambda block, cpu: 1.0)


def test_what_something_else_reads_too_is_an_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool reads the expansion in front of the depthwise layer, and moves behind the group."""

    def tapped(net: Layers) -> relax.Expr:
        x = net.conv(net.x)
        side = pooled(net, x)
        return op.add(pooled(net, net.conv(net.depthwise(x))), side)

    always(monkeypatch)
    before = lowered(tapped)
    after = FuseBlocks(CPU, every_group(before, 3))(before)
    values = [binding.value for block in after["main"].body.blocks for binding in block.bindings]
    kinds = [type(value).__name__ for value in values]
    assert kinds == ["Call", "TupleGetItem", "TupleGetItem", *["Call"] * (len(kinds) - 3)]
    (func,) = (f for v, f in after.functions.items() if v.name_hint == "fused_block")
    # The input, three weights; the expansion, the result.
    assert len(func.params) == 4 + 2


def test_a_layer_that_needs_what_others_make_of_the_tap_stays_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The residual of the projection is made of the expansion: the group would wait for itself."""

    def circular(net: Layers) -> relax.Expr:
        x = net.conv(net.x)
        side = pooled(net, x)
        weight = relax.const(np.zeros((16, 16, 1, 1), "float32"))
        layouts = {"data_layout": "NCHW8c", "out_layout": "NCHW8c", "kernel_layout": "OIHW"}
        total = net(op.add(net(op.nn.conv2d(net.depthwise(x), weight, **layouts)), side))
        return op.add(pooled(net, total), pooled(net, side))

    always(monkeypatch)
    before = lowered(circular)
    assert FuseBlocks(CPU, every_group(before, 3))(before).same_as(before)
    names = [name for name, _ in calls(FuseBlocks(CPU, every_group(before, 2))(before))]
    assert names.count("fused_block") == 1


def test_a_tap_that_costs_more_than_the_group_gains_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plan may have the layers because of another place."""
    monkeypatch.setattr(fuse_blocks, "saved_share", lambda block, cpu: -0.01)

    def tapped(net: Layers) -> relax.Expr:
        x = net.depthwise(net.x)
        return op.add(pooled(net, net.conv(x)), pooled(net, x))

    before = lowered(tapped)
    assert fused(before).same_as(before)


def test_a_tensor_that_something_else_reads_ends_a_group_in_front() -> None:
    def shared(net: Layers) -> relax.Expr:
        x = net.conv(net.x)
        return op.add(net.conv(net.depthwise(x)), x)

    before = lowered(shared)
    found = calls(FuseBlocks(CPU, every_group(before, 2, 3))(before))
    assert [name for name, _ in found] == ["layer", "fused_block"]
