"""Images side by side: made and recognised, in NCHW and in blocks, and copied for other readers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from onnx_net import Net, check
from tvm import relax

from tvm_neocpu.relay_passes.layouts.depth_windows import (
    is_stack,
    read_side_by_side,
    side_by_side,
)
from tvm_neocpu.topi.image.depth import Depth

Build = Callable[[relax.BlockBuilder, relax.Var], relax.Expr]
DEPTHS = [
    Depth(1, 6, 6, 3, before=1),
    Depth(2, 3, 2, 2, stride=2, before=1),
    Depth(1, 6, 2, 2, 2, 3),
    Depth(3, 2, 2, 1, before=1),
]


def module(build: Build, shape: tuple[int, ...]) -> tvm.IRModule:
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(build(builder, x))
        builder.emit_func_output(result)
    return builder.get()


def stacked(depth: Depth, shape: tuple[int, ...]) -> tvm.IRModule:
    return module(lambda b, x: side_by_side(b.emit, x, depth), shape)


def found_in(mod: tvm.IRModule) -> tuple[relax.Expr, Depth] | None:
    main = mod["main"]
    made = {b.var: b.value for block in main.body.blocks for b in block.bindings}
    return read_side_by_side(list(made)[-1], made.get)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("image", [(4, 3, 5), (2, 3, 5, 8)])
def test_what_is_made_is_recognised(depth: Depth, image: tuple[int, ...]) -> None:
    mod = stacked(depth, (6, *image))
    found = found_in(mod)
    assert found is not None
    source, read = found
    assert source.same_as(mod["main"].params[0])
    np.testing.assert_array_equal(read.images(), depth.images())


@pytest.mark.parametrize("depth", DEPTHS)
def test_whoever_does_not_recognise_it_has_it_copied(depth: Depth) -> None:
    x = np.random.default_rng(0).normal(size=(6, 4, 3, 5)).astype("float32")
    zeros = np.concatenate([x, np.zeros_like(x[:1])])
    expected = zeros[depth.images()].reshape(-1, depth.taps * 4, 3, 5)
    run = relax.VirtualMachine(tvm.compile(stacked(depth, x.shape), "llvm"), tvm.cpu())
    np.testing.assert_array_equal(run["main"](tvm.runtime.tensor(x)).numpy(), expected)


def padded(net: Net, x: str) -> str:
    """An image of zeros behind the others."""
    return net("Pad", x, net.integers(0, 0, 0, 0, 1, 0, 0, 0))


def gathered(net: Net, x: str, *images: int) -> str:
    return net("Gather", x, net.integers(*images), axis=0)


def backwards(net: Net) -> str:
    return net.conv(gathered(net, padded(net, "data"), 3, 2, 1, 0, 4), 16, 24, 3)


def zeros_first(net: Net) -> str:
    return net.conv(gathered(net, padded(net, "data"), 4, 3, 2, 1, 0), 16, 24, 3)


def pairs(net: Net) -> str:
    x = gathered(net, padded(net, "data"), 1, 0, 2, 1, 3, 2, 4, 3)
    return net.conv(net("Reshape", x, net.integers(4, 32, 6, 7)), 32, 24)


def between_layers(net: Net) -> str:
    """A group of layers works on one image at a time."""
    x = net("Relu", net.conv("data", 16, 96))
    x = net("Relu", net.conv(gathered(net, x, 3, 2, 1, 0), 96, 96, 3, group=96))
    return net.conv(x, 96, 16)


def shuffled(net: Net, x: str, images: int, channels: int) -> str:
    x = net("Reshape", x, net.integers(images, 2, channels // 2, 6, 7))
    x = net("Transpose", x, perm=[0, 2, 1, 3, 4])
    return net("Reshape", x, net.integers(images, channels, 6, 7))


def shuffled_images(net: Net) -> str:
    """A stack has other channels than the images whose channels were shuffled."""
    x = net("Relu", shuffled(net, net.conv("data", 16, 16), 4, 16))
    x = net("Relu", net.conv(net("Reshape", x, net.integers(1, 64, 6, 7)), 64, 32))
    return x


def shuffled_stack(net: Net) -> str:
    x = net("Reshape", net.conv("data", 16, 16), net.integers(2, 32, 6, 7))
    return net.conv(shuffled(net, net("Relu", x), 2, 32), 32, 24)


@pytest.mark.parametrize(
    "build",
    [backwards, zeros_first, pairs, between_layers, shuffled_images, shuffled_stack],
)
def test_networks_that_gather_and_stack_images_themselves(build: Callable[[Net], str]) -> None:
    net = Net((4, 16, 6, 7))
    check(net.model(build(net)))


def gather(images: list[int], axis: int = 0) -> Build:
    return lambda b, x: relax.op.take(x, relax.const(images, "int64"), axis)


OTHERS: dict[str, Build] = {
    "images out of step": gather([0, 3, 1]),
    "images out of bounds": gather([-1, 0, 1]),
    "channels": gather([0, 1], axis=1),
    "another reshape": lambda b, x: relax.op.reshape(x, (6, 2, 2, 15)),
    "no gather": lambda b, x: relax.op.reshape(x, (3, 8, 3, 5)),
}


def test_a_reshape_of_nothing_is_no_stack() -> None:
    empty = relax.Var("x", relax.TensorType((0, 0, 3, 3), "float32"))
    builder = relax.BlockBuilder()
    assert not is_stack(builder.normalize(relax.op.reshape(empty, (0, 4, 3, 3))))


@pytest.mark.parametrize("name", OTHERS)
def test_other_calls_are_not(name: str) -> None:
    assert found_in(module(OTHERS[name], (6, 4, 3, 5))) is None
