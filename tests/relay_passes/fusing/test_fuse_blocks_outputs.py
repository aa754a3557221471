"""FuseBlocks: groups of which something else reads an inner layer too."""

from __future__ import annotations

import numpy as np
import pytest
from layers_in_groups import CPU, Layers, calls, every_group, lowered
from tvm import relax, tirx

from tvm_neocpu.relay_passes.fusing.fuse_blocks import FuseBlocks
from tvm_neocpu.topi.fused_block.cost import PricedBlock
from tvm_neocpu.topi.fused_block.template import layers_of

op = relax.op


def pooled(net: Layers, x: relax.Expr) -> relax.Var:
    return net(op.nn.max_pool2d(x, [3, 3], padding=1, layout="NCHW8c"))


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PricedBlock, "saved_share", 1.0)


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
    # The two layers behind may be a group, whether or not the plan has all three elsewhere.
    for counts in ((2,), (2, 3)):
        names = [name for name, _ in calls(FuseBlocks(CPU, every_group(before, *counts))(before))]
        assert names.count("fused_block") == 1


def test_three_layers_with_an_output_are_taken_where_they_gain_more_than_two(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The plan has both, of equal layers: two need no output, and stand for less time."""

    def tapped(net: Layers) -> relax.Expr:
        x = net.conv(net.x)
        return op.add(pooled(net, net.conv(net.depthwise(x))), pooled(net, x))

    def layers() -> list[int]:
        after = FuseBlocks(CPU, groups)(before)
        found = (layers_of(f) for f in after.functions.values() if isinstance(f, tirx.PrimFunc))
        return [each[0].count(" -> ") + 1 for each in found if each is not None]

    before = lowered(tapped)
    groups = every_group(before, 2, 3)
    always(monkeypatch)
    assert layers() == [3]
    by_members = property(lambda priced: 2.0 - len(priced.block.members))
    monkeypatch.setattr(PricedBlock, "saved_share", by_members)
    assert layers() == [2]


def test_a_tap_that_costs_more_than_the_group_gains_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A plan may have the layers because of another place."""
    monkeypatch.setattr(PricedBlock, "saved_share", -0.01)

    def tapped(net: Layers) -> relax.Expr:
        x = net.depthwise(net.x)
        return op.add(pooled(net, net.conv(x)), pooled(net, x))

    before = lowered(tapped)
    assert FuseBlocks(CPU, every_group(before, 2))(before).same_as(before)
