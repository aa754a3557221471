"""AlterOpLayout where branches meet: the layout of the plan, or else the one that fits best."""

from __future__ import annotations

from relax_net import BIAS, SHAPE, W8, W16, W16B, W32, Net, blocks, check, const, weight
from tvm import relax

op = relax.op

W1, DOWN, UP = weight(1, 16, 3, 3), weight(4, 16, 1, 1), weight(16, 4, 1, 1)


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
