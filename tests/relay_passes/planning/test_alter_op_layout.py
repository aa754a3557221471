"""AlterOpLayout: a module and a plan before, layouts and transforms after."""

from __future__ import annotations

import pytest
import tvm
from relax_net import (
    CPU,
    SHAPE,
    W16,
    W16B,
    W32,
    Net,
    altered,
    blocks,
    check,
    module,
    plan_for,
    weight,
)
from tvm import relax

from tvm_neocpu.core.errors import PlanError
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.relay_passes.ir.rewrite import tidy
from tvm_neocpu.relay_passes.operators.layout_transform import count_transforms
from tvm_neocpu.relay_passes.planning.alter_op_layout import AlterOpLayout
from tvm_neocpu.relay_passes.planning.eliminate_transforms import EliminateTransforms
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.topi import table
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig

op = relax.op

DEPTHWISE = weight(16, 1, 3, 3)


def test_equal_blocks_need_no_transform_between_them() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net.conv(net(op.nn.relu(net.conv(x, W16))), W16B)

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.nn.relu(net.conv(net.pack(x, 16), W16, 16, 16)))
        return net.unpack(net.conv(y, W16B, 16, 16), 16)

    check(before, [blocks(16, 16), blocks(16, 16)], expected)


def test_unequal_blocks_need_one() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net.conv(net(op.nn.relu(net.conv(x, W16))), W16B)

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.nn.relu(net.conv(x, W16, 0, 16)))
        return net.unpack(net.conv(net.repack(y, 16, 8), W16B, 8, 16), 16)

    check(before, [blocks(0, 16), blocks(8, 16)], expected)


def test_consumers_that_want_the_same_layout_share_its_transform() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        y = net.conv(x, W16)
        return net(op.add(net.conv(y, W16), net.conv(y, W16B)))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net.repack(net.conv(x, W16, 0, 16), 16, 8)
        return net.unpack(net(op.add(net.conv(y, W16, 8, 8), net.conv(y, W16B, 8, 8))), 8)

    check(before, [blocks(0, 16), blocks(8, 8), blocks(8, 8)], expected, joins=[8])


def test_depthwise_keeps_its_block() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net.conv(net.conv(x, W16), DEPTHWISE, groups=16)

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net.conv(x, W16, 0, 16)
        return net.unpack(net.conv(y, DEPTHWISE, 16, 16, groups=16), 16)

    check(before, [blocks(0, 16), DepthwiseConfig(16, 16, 2)], expected)


def test_several_inputs_and_outputs() -> None:
    def before(net: Net, x: relax.Var, y: relax.Var) -> relax.Expr:
        one, two = net.conv(x, W16), net.conv(y, W16B)
        return relax.Tuple([one, net(op.add(one, two)), x])

    def expected(net: Net, x: relax.Var, y: relax.Var) -> relax.Var:
        one = net.conv(net.pack(x, 8), W16, 8, 16)
        total = net(op.add(one, net.conv(y, W16B, 0, 16)))
        return net(relax.Tuple([net.unpack(one, 16), net.unpack(total, 16), x]))

    check(before, [blocks(8, 16), blocks(0, 16)], expected, SHAPE, SHAPE, joins=[16])


def test_a_convolution_that_no_template_takes_stays_in_nchw() -> None:
    """Its weight is an input, so it cannot be packed at compile time."""

    def before(net: Net, x: relax.Var, w: relax.Var) -> relax.Var:
        return net.conv(net(op.nn.conv2d(net.conv(x, W16), w)), W16B)

    def expected(net: Net, x: relax.Var, w: relax.Var) -> relax.Var:
        y = net(op.nn.conv2d(net.unpack(net.conv(x, W16, 0, 8), 8), w))
        return net.unpack(net.conv(net.pack(y, 16), W16B, 16, 16), 16)

    check(before, [blocks(0, 8), blocks(16, 16)], expected, SHAPE, (16, 16, 1, 1))


def test_without_templates_every_convolution_stays_in_nchw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(table._IMPLEMENTATIONS, "conv2d", [])
    mod = module(lambda net, x: net.conv(net(op.nn.relu(net.conv(x, W16))), W16B))
    assert not ExtractConvGraph(CPU)(mod).convs
    tvm.ir.assert_structural_equal(altered(mod, []), tidy(mod))


def test_a_plan_that_lacks_a_convolution_is_refused() -> None:
    mod = module(lambda net, x: net.conv(net.conv(x, W16), W32))
    plan = plan_for(mod, [blocks(16, 16), blocks(16, 16)], [])
    first = dict(list(plan.configs.items())[:1])
    with pytest.raises(PlanError, match=r"no entry for 16x6x6->32 3x3 p1"):
        AlterOpLayout(Plan(plan.graph, first), CPU)(mod)


def test_the_argument_is_left_alone_and_attributes_are_kept() -> None:
    mod = module(lambda net, x: net.conv(x, W16))
    mod = tvm.IRModule({"main": mod["main"].with_attr("num_input", 1)})
    text = mod.script()
    assert altered(mod, [blocks(16, 16)])["main"].attrs["num_input"] == 1
    assert mod.script() == text


def test_equal_blocks_leave_a_residual_network_one_transform_in_and_one_out() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.nn.relu(net.conv(x, W16)))
        for first in (W16, W16B, W16):
            branch = net.conv(net(op.nn.relu(net.conv(y, first))), W16B)
            y = net(op.nn.relu(net(op.add(branch, y))))
        return net(op.nn.max_pool2d(y, [2, 2]))

    after = altered(module(before), [blocks(8, 8)] * 7, 8, 8, 8)
    assert count_transforms(EliminateTransforms()(after)) == count_transforms(after) == 2
