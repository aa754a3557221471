"""AlterOpLayout: a module and a plan before, layouts and transforms after."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_neocpu.core.config import Config, ConvConfig, DenseConfig, DepthwiseConfig
from tvm_neocpu.core.conv_graph import NodeKind
from tvm_neocpu.core.cpu import AVX2, Cpu
from tvm_neocpu.core.errors import PlanError
from tvm_neocpu.core.layout import Layout
from tvm_neocpu.core.plan import Plan
from tvm_neocpu.relay_passes.alter_op_layout import AlterOpLayout
from tvm_neocpu.relay_passes.eliminate_transforms import EliminateTransforms
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.relay_passes.layout_transform import count_transforms
from tvm_neocpu.topi import strategy

op = relax.op

CPU = Cpu("haswell", AVX2, cores=1)
SHAPE = (1, 16, 6, 6)
RNG = np.random.default_rng(0)


class Net:
    """Writes a module, every operation bound to a variable."""

    def __init__(self) -> None:
        self.builder = relax.BlockBuilder()

    def __call__(self, value: relax.Expr) -> relax.Var:
        return self.builder.emit(value)

    def conv(
        self, x: relax.Var, weight: relax.Expr, ic_bn: int = 0, oc_bn: int = 0, groups: int = 1
    ) -> relax.Var:
        """A convolution that keeps the image's size; blocks of 0 are plain NCHW."""
        return self(
            op.nn.conv2d(
                x,
                weight,
                padding=int(weight.ty.shape[2]) // 2,
                groups=groups,
                data_layout=str(Layout(ic_bn)),
                out_layout=str(Layout(oc_bn)),
                kernel_layout="OIHW",
            )
        )

    def pack(self, x: relax.Var, b: int) -> relax.Var:
        return self(op.layout_transform(x, lambda n, c, h, w: (n, c // b, h, w, c % b)))

    def unpack(self, x: relax.Var, b: int) -> relax.Var:
        return self(op.layout_transform(x, lambda n, o, h, w, i: (n, o * b + i, h, w)))

    def repack(self, x: relax.Var, a: int, b: int) -> relax.Var:
        """From blocks of ``a`` channels to blocks of ``b``."""

        def index_map(n, o, h, w, i):
            return n, (o * a + i) // b, h, w, (o * a + i) % b

        return self(op.layout_transform(x, index_map))


Build = Callable[..., relax.Expr]


def module(build: Build, *shapes: tuple[int, ...]) -> tvm.IRModule:
    net = Net()
    types = [relax.TensorType(shape, "float32") for shape in shapes or (SHAPE,)]
    inputs = [relax.Var(f"x{i}", ty) for i, ty in enumerate(types)]
    with net.builder.function("main", inputs):
        with net.builder.dataflow():
            result = net.builder.emit_output(build(net, *inputs))
        net.builder.emit_func_output(result)
    return net.builder.get()


def plan_for(mod: tvm.IRModule, configs: Sequence[Config], joins: Sequence[int]) -> Plan:
    """A plan that lists configs, and blocks of joins, in the order of the program."""
    graph = ExtractConvGraph(CPU)(mod)
    join_nodes = [node.id for node in graph.nodes if node.kind is NodeKind.JOIN]
    return Plan(
        graph.hash,
        dict(zip([node.id for node in graph.convs], configs, strict=True)),
        dict(zip(join_nodes, map(Layout, joins), strict=bool(joins))),
    )


def altered(mod: tvm.IRModule, configs: Sequence[Config], *joins: int) -> tvm.IRModule:
    return AlterOpLayout(plan_for(mod, configs, joins), CPU)(mod)


def check(
    before: Build,
    configs: Sequence[Config],
    expected: Build,
    *shapes: tuple[int, ...],
    joins: Sequence[int] = (),
) -> None:
    after = altered(module(before, *shapes), configs, *joins)
    tvm.ir.assert_structural_equal(after, module(expected, *shapes))


def blocks(ic_bn: int, oc_bn: int) -> Config:
    return ConvConfig(ic_bn, oc_bn, reg_n=2)


def const(values: np.ndarray | float) -> relax.Expr:
    return relax.const(np.ascontiguousarray(values, "float32"))


def weight(*shape: int) -> relax.Expr:
    return const(RNG.normal(size=shape))


# Weights, named after their outputs; all but two have 16 inputs.
W16, W16B, W32, W8, W1 = (weight(outputs, 16, 3, 3) for outputs in (16, 16, 32, 8, 1))
DOWN, UP, DEPTHWISE = weight(4, 16, 1, 1), weight(16, 4, 1, 1), weight(16, 1, 3, 3)
DENSE, FLAT = weight(16, 10), weight(16 * 36, 10)
BIAS = RNG.normal(size=(1, 16, 1, 1))
BLOCKED_BIAS = BIAS.reshape(1, 2, 8, 1, 1).transpose(0, 1, 3, 4, 2)


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


def test_a_join_brings_its_operands_to_the_layout_of_the_plan() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net(op.multiply(net.conv(x, W16), net.conv(x, W16B)))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y, z = net.conv(x, W16, 0, 16), net.conv(x, W16B, 0, 8)
        y, z = net.repack(y, 16, 4), net.repack(z, 8, 4)
        return net.unpack(net(op.multiply(y, z)), 4)

    check(before, [blocks(0, 16), blocks(0, 8)], expected, joins=[4])


def test_concat_of_unequal_blocks() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net(op.concat([net.conv(x, W32), net.conv(x, W8)], axis=-3))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y, z = net.conv(x, W32, 0, 16), net.conv(x, W8, 0, 8)
        return net.unpack(net(op.concat([net.repack(y, 16, 8), z], axis=1)), 8)

    check(before, [blocks(0, 16), blocks(0, 8)], expected, joins=[8])


def test_depthwise_keeps_its_block() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net.conv(net.conv(x, W16), DEPTHWISE, groups=16)

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net.conv(x, W16, 0, 16)
        return net.unpack(net.conv(y, DEPTHWISE, 16, 16, groups=16), 16)

    check(before, [blocks(0, 16), DepthwiseConfig(16, 2)], expected)


def test_pooling_takes_the_layout_and_keeps_its_attributes() -> None:
    largest = {"pool_size": [3, 2], "strides": [2, 1], "padding": [1, 0, 1, 1], "ceil_mode": True}
    average = {"pool_size": [2, 2], "dilation": [2, 1], "count_include_pad": True}

    def before(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.nn.max_pool2d(net.conv(x, W16), **largest))
        return net(op.nn.adaptive_avg_pool2d(net(op.nn.avg_pool2d(y, **average)), [1, 2]))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.nn.max_pool2d(net.conv(x, W16, 0, 8), layout="NCHW8c", **largest))
        y = net(op.nn.avg_pool2d(y, layout="NCHW8c", **average))
        return net.unpack(net(op.nn.adaptive_avg_pool2d(y, [1, 2], "NCHW8c")), 8)

    check(before, [blocks(0, 8)], expected)


@pytest.mark.parametrize("method", ["linear", "nearest_neighbor"])
def test_resizing_takes_the_layout_and_keeps_its_attributes(method: str) -> None:
    attributes = {
        "roi": (0.0, 0.0, 1.0, 1.0),
        "method": method,
        "coordinate_transformation_mode": "asymmetric",
        "rounding_method": "floor",
        "cubic_alpha": -0.5,
        "cubic_exclude": 1,
        "extrapolation_value": 2.0,
    }

    def before(net: Net, x: relax.Var) -> relax.Var:
        return net(op.image.resize2d(net.conv(x, W16), (9, 11), **attributes))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net.conv(x, W16, 0, 8)
        return net.unpack(net(op.image.resize2d(y, (9, 11), layout="NCHW8c", **attributes)), 8)

    check(before, [blocks(0, 8)], expected)


def test_padding() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net(op.nn.pad(net.conv(x, W16), [0, 0, 0, 0, 1, 2, 0, 3], "constant", 0.5))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net.conv(x, W16, 0, 8)
        y = net(op.nn.pad(y, [0, 0, 0, 0, 1, 2, 0, 3, 0, 0], "constant", 0.5))
        return net.unpack(y, 8)

    check(before, [blocks(0, 8)], expected)


def test_constants_of_every_channel_are_blocked_and_single_ones_are_scalars() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.add(net.conv(x, W16), const(BIAS)))
        y = net(op.subtract(const(BIAS[0]), y))
        return net(op.clip(net(op.multiply(y, const(np.full((1, 1, 1), 2)))), 0, 6))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.add(net.conv(x, W16, 0, 8), const(BLOCKED_BIAS)))
        y = net(op.subtract(const(BLOCKED_BIAS), y))
        y = net(op.clip(net(op.multiply(y, relax.const(2.0, "float32"))), 0, 6))
        return net.unpack(y, 8)

    check(before, [blocks(0, 8)], expected)


def test_mean_that_keeps_dimensions() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net(op.mean(net.conv(x, W16), axis=[2, 3], keepdims=True))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.mean(net.conv(x, W16, 0, 8), axis=[2, 3], keepdims=True))
        return net(op.reshape(y, (1, 16, 1, 1)))

    check(before, [blocks(0, 8)], expected)


@pytest.mark.parametrize(
    "squeeze",
    [
        lambda net, x: net(op.mean(x, axis=[3, -2])),
        lambda net, x: net(op.reshape(net(op.mean(x, axis=[2, 3], keepdims=True)), (1, 16))),
    ],
    ids=["no dimensions kept", "reshape"],
)
def test_mean_to_a_dense_layer_moves_nothing(squeeze: Build) -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net(op.matmul(squeeze(net, net.conv(x, W16)), DENSE))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.mean(net.conv(x, W16, 0, 8), axis=[2, 3], keepdims=True))
        return net(op.matmul(net(op.reshape(y, (1, 16))), DENSE))

    check(before, [blocks(0, 8), DenseConfig(16)], expected)


def test_flattening_an_image_needs_plain_nchw() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net(op.matmul(net(op.reshape(net.conv(x, W16), (1, 16 * 36))), FLAT))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net.unpack(net.conv(x, W16, 0, 8), 8)
        return net(op.matmul(net(op.reshape(y, (1, 16 * 36))), FLAT))

    check(before, [blocks(0, 8), DenseConfig(16)], expected)


def test_squeeze_and_excite_moves_only_pixels() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        y = net.conv(x, W16)
        gate = net.conv(net(op.mean(y, axis=[2, 3], keepdims=True)), DOWN)
        return net(op.multiply(y, net(op.sigmoid(net.conv(gate, UP)))))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net.conv(x, W16, 0, 16)
        gate = net(op.mean(y, axis=[2, 3], keepdims=True))
        gate = net.conv(net(op.reshape(gate, (1, 2, 1, 1, 8))), DOWN, 8, 4)
        gate = net(op.sigmoid(net.conv(gate, UP, 4, 16)))
        return net.unpack(net(op.multiply(y, gate)), 16)

    check(before, [blocks(0, 16), blocks(8, 4), blocks(4, 16)], expected, joins=[16])


def test_x_times_sigmoid_of_x() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        y = net.conv(x, W16)
        return net(op.multiply(y, net(op.sigmoid(y))))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net.conv(x, W16, 0, 16)
        return net.unpack(net(op.multiply(y, net(op.sigmoid(y)))), 16)

    check(before, [blocks(0, 16)], expected, joins=[16])


def test_x_plus_x_takes_one_transform() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        y = net.conv(x, W16)
        return net(op.add(y, y))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net.repack(net.conv(x, W16, 0, 16), 16, 8)
        return net.unpack(net(op.add(y, y)), 8)

    check(before, [blocks(0, 16)], expected, joins=[8])


def test_a_single_channel_broadcasts_over_a_block() -> None:
    def before(net: Net, x: relax.Var, mask: relax.Var) -> relax.Var:
        y = net(op.multiply(net.conv(x, W16), net.conv(x, W1)))
        return net(op.multiply(y, mask))

    def expected(net: Net, x: relax.Var, mask: relax.Var) -> relax.Var:
        y = net(op.multiply(net.conv(x, W16, 0, 16), net.conv(x, W1, 0, 1)))
        mask = net(op.reshape(mask, (1, 1, 6, 6, 1)))
        return net.unpack(net(op.multiply(y, mask)), 16)

    configs = [blocks(0, 16), blocks(0, 1)]
    check(before, configs, expected, SHAPE, (1, 1, 6, 6), joins=[16, 16])


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
    monkeypatch.setitem(strategy._TABLE, "conv2d", [])
    mod = module(lambda net, x: net.conv(net(op.nn.relu(net.conv(x, W16))), W16B))
    assert not ExtractConvGraph(CPU)(mod).convs
    tvm.ir.assert_structural_equal(altered(mod, []), mod)


def test_operations_over_channels_stay_in_nchw() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        halves = net(op.split(net(op.nn.softmax(net.conv(x, W32), axis=1)), 2, axis=1))
        return net.conv(net(relax.TupleGetItem(halves, 1)), W8)

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y = net(op.nn.softmax(net.unpack(net.conv(x, W32, 0, 16), 16), axis=1))
        half = net(relax.TupleGetItem(net(op.split(y, 2, axis=1)), 1))
        return net.unpack(net.conv(half, W8, 0, 8), 8)

    check(before, [blocks(0, 16), blocks(0, 8)], expected)


def test_what_only_constants_go_into_is_plain() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net(op.add(net.conv(x, W16), net(op.sin(const(BIAS)))))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y, wave = net.conv(x, W16, 0, 8), net(op.sin(const(BIAS)))
        return net.unpack(net(op.add(y, net(op.reshape(wave, (1, 2, 1, 1, 8))))), 8)

    check(before, [blocks(0, 8)], expected, joins=[8])


def test_a_join_without_a_plan_takes_the_layout_of_most_bytes() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        gate = net(op.mean(net.conv(x, W16B), axis=[2, 3], keepdims=True))
        return net(op.multiply(gate, net.conv(x, W16)))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        gate = net(op.mean(net.conv(x, W16B, 0, 8), axis=[2, 3], keepdims=True))
        y = net.conv(x, W16, 0, 16)
        gate = net(op.reshape(gate, (1, 1, 1, 1, 16)))
        return net.unpack(net(op.multiply(gate, y)), 16)

    check(before, [blocks(0, 8), blocks(0, 16)], expected)


def test_a_join_without_a_plan_takes_a_layout_that_fits() -> None:
    def before(net: Net, x: relax.Var) -> relax.Var:
        return net(op.concat([net.conv(x, W32), net.conv(x, W8)], axis=1))

    def expected(net: Net, x: relax.Var) -> relax.Var:
        y, z = net.conv(x, W32, 0, 32), net.conv(x, W8, 0, 8)
        return net.unpack(net(op.concat([net.repack(y, 32, 8), z], axis=1)), 8)

    check(before, [blocks(0, 32), blocks(0, 8)], expected)


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
