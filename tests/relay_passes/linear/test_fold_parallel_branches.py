"""FoldParallelBranches, Before -> Expected, and in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from one_function import Build, channels, const, module_of, normalized, whole
from onnx_net import Net, assert_close, check
from tvm import relax
from tvm.relax.op import add, multiply
from tvm.relax.op.nn import conv2d, relu

from tvm_neocpu import pipeline, relay
from tvm_neocpu.contrib.model_zoo import build
from tvm_neocpu.relay_passes.ir.rewrite import tidy
from tvm_neocpu.relay_passes.linear.fold_parallel_branches import FoldParallelBranches
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target

CPU = parse_target().cpu
IMAGE = (1, 4, 6, 7)


def module(build: Build, shape: tuple[int, ...] = IMAGE) -> tvm.IRModule:
    return module_of(shape, build)


def assert_folds(before: Build, expected: Build, shape: tuple[int, ...] = IMAGE) -> None:
    mod = module(before, shape)
    fingerprint = mod.script()
    after = FoldParallelBranches()(mod)
    tvm.ir.assert_structural_equal(after, tidy(module(expected, shape)))
    assert mod.script() == fingerprint, "the pass changed its argument"


def assert_stays(before: Build, shape: tuple[int, ...] = IMAGE) -> None:
    assert_folds(before, before, shape)


W3, W1 = whole(4, 4, 3, 3), whole(4, 4, 1, 1, seed=1)
ROW, COLUMN = whole(4, 4, 1, 3, seed=2), whole(4, 4, 3, 1, seed=3)
GAMMA, BETA = 2 * whole(4, seed=4), whole(4, seed=5)
ONES = np.eye(4, dtype="float32").reshape(4, 4, 1, 1)


def centred(weight: np.ndarray, size: tuple[int, int] = (3, 3)) -> np.ndarray:
    """The kernel in the middle of zeros."""
    result = np.zeros((*weight.shape[:2], *size), "float32")
    top, left = ((size[i] - weight.shape[2 + i]) // 2 for i in (0, 1))
    result[:, :, top : top + weight.shape[2], left : left + weight.shape[3]] = weight
    return result


# --- folded --------------------------------------------------------------------------------------


def test_3x3_1x1_and_identity_each_with_a_batch_norm() -> None:
    """RepVGG's block."""

    def before(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        three = normalized(conv2d(x, const(W3), padding=1), GAMMA, BETA)
        one = normalized(conv2d(x, const(W1)), 2 * GAMMA, BETA)
        return relu(add(add(three, one), normalized(x, GAMMA, -BETA)))

    def by_row(gamma: np.ndarray) -> np.ndarray:
        return (gamma / 2).reshape(-1, 1, 1, 1)

    weight = W3 * by_row(GAMMA) + centred(W1) * by_row(2 * GAMMA) + centred(ONES) * by_row(GAMMA)
    shift = BETA - GAMMA + BETA - 2 * GAMMA - BETA - GAMMA
    assert_folds(
        before,
        lambda b, x: relu(add(conv2d(x, const(weight), padding=1), channels(shift))),
    )


def test_3x3_with_its_row_and_its_column() -> None:
    """ACNet's block, with a stride."""
    stride = {"strides": 2}
    assert_folds(
        lambda b, x: add(
            conv2d(x, const(W3), padding=1, **stride),
            add(
                conv2d(x, const(ROW), padding=(0, 1), **stride),
                conv2d(x, const(COLUMN), padding=(1, 0), **stride),
            ),
        ),
        lambda b, x: conv2d(x, const(W3 + centred(ROW) + centred(COLUMN)), padding=1, **stride),
    )


@pytest.mark.parametrize("first", [True, False])
def test_the_tensor_itself_is_a_branch(first: bool) -> None:
    """A residual block without an activation on its branch."""

    def before(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        x = b.emit(relu(x))
        y = conv2d(x, const(W3), padding=1)
        return add(x, y) if first else add(y, x)

    assert_folds(before, lambda b, x: conv2d(relu(x), const(W3 + centred(ONES)), padding=1))


def test_groups_have_an_identity_of_their_own() -> None:
    weight = whole(4, 1, 3, 3)
    dirac = centred(np.ones((4, 1, 1, 1), "float32"))
    assert_folds(
        lambda b, x: add(conv2d(x, const(weight), padding=1, groups=4), x),
        lambda b, x: conv2d(x, const(weight + dirac), padding=1, groups=4),
    )


def test_dilated_kernels_take_what_falls_on_their_taps() -> None:
    window = {"padding": 2, "dilation": 2}
    assert_folds(
        lambda b, x: add(conv2d(x, const(W3), **window), conv2d(x, const(W1))),
        lambda b, x: conv2d(x, const(W3 + centred(W1)), **window),
    )


def test_other_summands_stay() -> None:
    def sums(b: relax.BlockBuilder, x: relax.Expr, folded: bool) -> relax.Expr:
        other = b.emit(relu(x))
        if folded:
            return add(conv2d(x, const(W3 + centred(W1)), padding=1), other)
        y = add(conv2d(x, const(W3), padding=1), other)
        return add(y, conv2d(x, const(W1)))

    assert_folds(lambda b, x: sums(b, x, False), lambda b, x: sums(b, x, True))


def test_two_tensors_have_a_convolution_each() -> None:
    def before(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        y = b.emit(relu(x))
        one = add(conv2d(x, const(W3), padding=1), conv2d(y, const(W3), padding=1))
        return add(one, add(conv2d(x, const(W1)), conv2d(y, const(2 * W1))))

    def expected(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        one = conv2d(x, const(W3 + centred(W1)), padding=1)
        return add(one, conv2d(relu(x), const(W3 + centred(2 * W1)), padding=1))

    after = FoldParallelBranches()(module(before))
    convs = [text for text in after.script().splitlines() if "conv2d" in text]
    assert len(convs) == 2
    data = np.random.default_rng(2).standard_normal(IMAGE, dtype="float32")
    assert_close(_run(after, data), _run(module(expected), data))


# --- not folded ----------------------------------------------------------------------------------


def test_a_branch_that_something_else_reads_stays() -> None:
    def before(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        one = b.emit(conv2d(x, const(W1)))
        return multiply(add(conv2d(x, const(W3), padding=1), one), relu(one))

    assert_stays(before)


def test_a_sum_that_something_else_reads_is_a_sum_of_its_own() -> None:
    def before(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        inner = b.emit(add(relu(x), conv2d(x, const(W3), padding=1)))
        return multiply(add(inner, conv2d(x, const(W1))), inner)

    assert_stays(before)


# Each pair reads the same tensor and gives the same shape.
UNLIKE: dict[str, tuple[tuple[np.ndarray, dict[str, Any]], tuple[np.ndarray, dict[str, Any]]]] = {
    "a row and a column are six taps, their union nine": (
        (ROW, {"padding": (0, 1)}),
        (COLUMN, {"padding": (1, 0)}),
    ),
    "groups differ": ((W3, {"padding": 1}), (whole(4, 1, 3, 3), {"padding": 1, "groups": 4})),
    "dilations differ": ((W3, {"padding": 1}), (W3, {"padding": 2, "dilation": 2})),
}


@pytest.mark.parametrize("case", list(UNLIKE))
def test_unlike_windows_stay(case: str) -> None:
    (one, window), (other, other_window) = UNLIKE[case]
    assert_stays(
        lambda b, x: add(conv2d(x, const(one), **window), conv2d(x, const(other), **other_window))
    )


def test_strides_that_give_one_size_by_chance_stay() -> None:
    """A single row of pixels: strides 1 and 2 agree in size, not in place."""
    weight = whole(4, 4, 1, 1)
    assert_stays(
        lambda b, x: add(conv2d(x, const(weight)), conv2d(x, const(weight), strides=(2, 1))),
        (1, 4, 1, 5),
    )


def test_an_activation_in_a_branch_keeps_it() -> None:
    assert_stays(lambda b, x: add(relu(conv2d(x, const(W3), padding=1)), x))


# --- numbers -------------------------------------------------------------------------------------


def _run(mod: tvm.IRModule, data: np.ndarray) -> np.ndarray:
    executable = tvm.compile(relax.transform.LegalizeOps()(mod), "llvm")
    vm = relax.VirtualMachine(executable, tvm.cpu())
    return vm["main"](tvm.runtime.tensor(data)).numpy()


@pytest.mark.parametrize(("stride", "size"), [(1, 8), (2, 7)])
def test_every_padding_folds_to_the_same_numbers(stride: int, size: int) -> None:
    """3x3, 1x1, 1x3, 5x5 of odd paddings, and the identity, on even and odd images."""
    rng = np.random.default_rng(stride)
    windows = [((3, 3), (1, 1, 1, 1)), ((1, 1), (0, 0, 0, 0)), ((5, 5), (2, 2, 2, 2))]
    windows += [((1, 3), (0, 2, 0, 0)), ((2, 2), (1, 0, 0, 1))]

    def before(b: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
        terms = [
            normalized(
                conv2d(
                    x,
                    const(rng.standard_normal((4, 4, *kernel))),
                    strides=stride,
                    padding=padding,
                ),
                whole(4),
                whole(4, seed=7),
            )
            for kernel, padding in windows
        ]
        if stride == 1:
            terms += [normalized(x, whole(4), whole(4)), x]
        y = terms[0]
        for term in terms[1:]:
            y = add(y, term)
        return y

    shape = (2, 4, size, size)
    mod = module(before, shape)
    after = FoldParallelBranches()(mod)
    assert after.script().count("nn.conv2d") == 1
    data = np.random.default_rng(3).standard_normal(shape, dtype="float32")
    unfolded = relax.transform.DecomposeOpsForInference()(mod)
    assert_close(_run(after, data), _run(unfolded, data))


def test_blocks_of_repvgg_and_acnet_against_onnx_runtime() -> None:
    net = Net((1, 16, 9, 9))

    def branch(x: str, kernel: tuple[int, int]) -> str:
        pads = [kernel[0] // 2, kernel[1] // 2] * 2
        weight = net.weight(16, 16, *kernel)
        return net.batch_norm(net("Conv", x, weight, pads=pads), 16)

    x = net("Add", branch("data", (3, 3)), branch("data", (1, 1)))
    x = net("Relu", net("Add", x, net.batch_norm("data", 16)))
    y = net("Add", branch(x, (3, 3)), net("Add", branch(x, (1, 3)), branch(x, (3, 1))))
    model = net.model(net("Relu", y))
    check(model)
    mod, _ = relay.frontend.from_onnx(model)
    assert len(ExtractConvGraph(CPU)(pipeline.fold(mod, CPU)).convs) == 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "convs"), [("repvgg_a0", 22), ("acnet_resnet18", 20)])
def test_the_zoos_networks_fold_to_one_convolution_a_layer(name: str, convs: int) -> None:
    """And the classifier, which the graph counts too."""
    mod, _ = relay.frontend.from_onnx(build(name))
    assert len(ExtractConvGraph(CPU)(pipeline.fold(mod, CPU)).convs) == convs + 1
