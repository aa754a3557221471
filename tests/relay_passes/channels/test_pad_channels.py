"""PadChannels, Before -> Expected."""

from __future__ import annotations

from functools import partial

import numpy as np
import tvm
from one_function import Build, const, module_of
from tvm import relax
from tvm.relax.op import add, astype, concat, divide, multiply, sigmoid, strided_slice
from tvm.relax.op.nn import conv2d, instance_norm, max_pool2d, relu, softmax

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.relay_passes.channels.pad_channels import PadChannels
from tvm_neocpu.relay_passes.channels.widen_groups import block_diagonal
from tvm_neocpu.relay_passes.layouts.depth_windows import side_by_side
from tvm_neocpu.relay_passes.operators.new.look_up import look_up
from tvm_neocpu.topi.image.depth import Depth

CPU = Cpu("test", AVX512, 2)
IMAGE = (1, 3, 4, 4)
module = partial(module_of, IMAGE)
WIDE, DEAD = 20, 12


def numbers(*shape: int) -> np.ndarray:
    return (np.arange(np.prod(shape)).reshape(shape) + 1).astype("float32")


def longer(array: np.ndarray, axis: int, fill: float = 0) -> np.ndarray:
    widths = [(0, DEAD if place == axis else 0) for place in range(array.ndim)]
    return np.pad(array, widths, constant_values=fill)


def alive(x: relax.Expr) -> relax.Expr:
    return strided_slice(x, [1], [0], [WIDE], [1])


def assert_becomes(before: Build, expected: Build) -> None:
    mod = module(before)
    fingerprint = mod.script()
    tvm.ir.assert_structural_equal(PadChannels(CPU)(mod), module(expected))
    assert mod.script() == fingerprint, "the pass changed its argument"


FIRST, SECOND = numbers(WIDE, 3, 3, 3), numbers(8, WIDE, 1, 1)
WINDOWS, VECTOR = numbers(WIDE, 1, 3, 3), numbers(1, WIDE, 1, 1)


def test_dead_channels_go_as_far_as_the_next_dense_convolution() -> None:
    def build(
        first: np.ndarray, windows: np.ndarray, vector: np.ndarray, last: np.ndarray
    ) -> Build:
        def emit(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
            y = b.emit(relu(b.emit(conv2d(x, const(first), padding=1))))
            y = b.emit(conv2d(y, const(windows), padding=1, groups=len(windows)))
            y = b.emit(max_pool2d(b.emit(add(y, const(vector))), [2, 2]))
            y = b.emit(multiply(y, relax.const(np.float32(2))))
            return conv2d(b.emit(multiply(y, b.emit(sigmoid(y)))), const(last))

        return emit

    wide = (longer(FIRST, 0), longer(WINDOWS, 0), longer(VECTOR, 1, 1), longer(SECOND, 1))
    assert_becomes(build(FIRST, WINDOWS, VECTOR, SECOND), build(*wide))


def test_dead_channels_are_looked_up_like_the_others() -> None:
    """A table has an entry for each code, not for each channel."""

    def build(first: np.ndarray, second: np.ndarray) -> Build:
        def emit(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
            codes = b.emit(astype(b.emit(conv2d(x, const(first), padding=1)), "uint8"))
            looked_up = b.emit(look_up(codes, np.arange(256, dtype="uint8")))
            return conv2d(b.emit(astype(looked_up, "float32")), const(second))

        return emit

    assert_becomes(build(FIRST, SECOND), build(longer(FIRST, 0), longer(SECOND, 1)))


def test_dead_channels_become_groups_that_fill_a_vector() -> None:
    """5 groups of 4 channels and 3 dead ones are 2 groups of 16."""
    grouped = numbers(WIDE, 4, 3, 3)

    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = b.emit(relu(b.emit(conv2d(x, const(FIRST), padding=1))))
        y = b.emit(conv2d(y, const(grouped), padding=1, groups=5))
        return conv2d(y, const(SECOND))

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = b.emit(relu(b.emit(conv2d(x, const(longer(FIRST, 0)), padding=1))))
        merged = block_diagonal(longer(grouped, 0), groups=8, merged=4)
        y = b.emit(conv2d(y, const(merged), padding=1, groups=2))
        return conv2d(y, const(longer(SECOND, 1)))

    assert_becomes(before, expected)


def test_groups_that_dead_channels_do_not_fill_end_the_run() -> None:
    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = b.emit(conv2d(x, const(FIRST)))
        return conv2d(y, const(numbers(WIDE, 10, 1, 1)), groups=2)

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = b.emit(alive(b.emit(conv2d(x, const(longer(FIRST, 0))))))
        return conv2d(y, const(numbers(WIDE, 10, 1, 1)), groups=2)

    assert_becomes(before, expected)


def test_whoever_else_reads_has_them_sliced_off_once() -> None:
    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = b.emit(relu(b.emit(conv2d(x, const(FIRST), padding=1))))
        both = b.emit(concat([y, x], axis=1))
        dense = b.emit(conv2d(y, const(SECOND)))
        return concat([both, dense, b.emit(softmax(y, axis=1))], axis=1)

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        wide = b.emit(relu(b.emit(conv2d(x, const(longer(FIRST, 0)), padding=1))))
        y = b.emit(alive(wide))
        both = b.emit(concat([y, x], axis=1))
        dense = b.emit(conv2d(wide, const(longer(SECOND, 1))))
        return concat([both, dense, b.emit(softmax(y, axis=1))], axis=1)

    assert_becomes(before, expected)


def test_a_result_has_its_own_channels() -> None:
    assert_becomes(
        lambda b, x: conv2d(x, const(FIRST)),
        lambda b, x: alive(b.emit(conv2d(x, const(longer(FIRST, 0))))),
    )


def test_a_1x1_layer_whose_result_leaves_is_filled_up_in_its_tile() -> None:
    """Its dead channels would be sliced off in a pass of their own."""

    def build(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = b.emit(conv2d(x, const(numbers(WIDE, 3, 1, 1))))
        return relu(b.emit(add(y, const(VECTOR))))

    assert_becomes(build, build)


def test_dead_channels_of_a_1x1_layer_are_dropped_behind_a_pool() -> None:
    weight = numbers(WIDE, 3, 1, 1)

    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return max_pool2d(b.emit(relu(b.emit(conv2d(x, const(weight))))), [4, 4])

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = b.emit(relu(b.emit(conv2d(x, const(longer(weight, 0))))))
        return alive(b.emit(max_pool2d(y, [4, 4])))

    assert_becomes(before, expected)


def test_zeros_are_not_divided_by() -> None:
    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = b.emit(conv2d(x, const(FIRST)))
        return conv2d(b.emit(divide(y, y)), const(SECOND))

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = b.emit(alive(b.emit(conv2d(x, const(longer(FIRST, 0))))))
        return conv2d(b.emit(divide(y, y)), const(SECOND))

    assert_becomes(before, expected)


def test_convolutions_that_fill_their_vectors_stay() -> None:
    def build(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = b.emit(conv2d(x, const(numbers(24, 3, 1, 1))))
        y = b.emit(conv2d(y, const(numbers(24, 12, 1, 1)), groups=2))
        return relu(b.emit(conv2d(y, const(numbers(32, 24, 1, 1)))))

    mod = module(build)
    tvm.ir.assert_structural_equal(PadChannels(CPU)(mod), mod)


def test_images_side_by_side_have_dead_channels_each() -> None:
    first, last = numbers(45, 3, 3, 3), numbers(32, 90, 1, 1)
    depth = Depth(1, 2, 2, 2, before=1)
    volume = partial(module_of, (2, 3, 4, 4))

    def build(weight: np.ndarray, taps: np.ndarray) -> Build:
        def net(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
            y = b.emit(relu(b.emit(conv2d(x, const(weight)))))
            y = b.emit(side_by_side(b.emit, y, depth))
            return relu(b.emit(conv2d(y, const(taps))))

        return net

    def padded(array: np.ndarray, axis: int) -> np.ndarray:
        parts = np.split(array, array.shape[axis] // 45, axis)
        zeros = np.zeros_like(np.take(parts[0], range(3), axis))
        return np.concatenate([each for part in parts for each in (part, zeros)], axis)

    expected = volume(build(padded(first, 0), padded(last, 1)))
    tvm.ir.assert_structural_equal(PadChannels(CPU)(volume(build(first, last))), expected)


def test_concats_keep_few_dead_channels_where_they_are() -> None:
    first = numbers(45, 3, 3, 3)
    last, window = numbers(8, 90, 1, 1), numbers(1, 45, 1, 1)

    def padded(array: np.ndarray, axis: int) -> np.ndarray:
        """45 channels and 3 dead ones, twice where there are two."""
        parts = np.split(array, array.shape[axis] // 45, axis)
        zeros = np.zeros_like(np.take(parts[0], range(3), axis))
        return np.concatenate([each for part in parts for each in (part, zeros)], axis)

    def build(first: np.ndarray, window: np.ndarray, last: np.ndarray) -> Build:
        def emit(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
            y, z = (b.emit(conv2d(x, const(first), padding=1)) for _ in range(2))
            both = b.emit(relu(b.emit(concat([b.emit(add(y, const(window))), z], axis=1))))
            part = b.emit(strided_slice(both, [2, 3], [1, 1], [4, 4], [1, 1]))
            return conv2d(part, const(last))

        return emit

    wide_window = padded(window, 1)
    wide_window[:, 45:] = 1
    expected = build(padded(first, 0), wide_window, padded(last, 1))
    assert_becomes(build(first, window, last), expected)


def test_a_concat_drops_dead_channels_that_would_break_its_blocks() -> None:
    """58 channels of a padded convolution and 58 others: 122 are 61 x 2, 116 are 29 x 4."""

    def build(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = b.emit(conv2d(x, const(numbers(58, 116, 3, 3)), padding=1))
        other = b.emit(strided_slice(x, [1], [0], [58], [1]))
        return conv2d(b.emit(concat([y, other], axis=1)), const(numbers(16, 116, 1, 1)))

    text = PadChannels(CPU)(module_of((1, 116, 4, 4), build)).script()
    assert "(1, 64, 4, 4)" in text and "(1, 116, 4, 4)" in text
    assert "(1, 122, 4, 4)" not in text


def test_a_concat_that_a_shuffle_reads_has_no_dead_channels() -> None:
    def shuffled(n, c, y, x):
        return n, c % 58 * 2 + c // 58, y, x

    def build(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y, z = (b.emit(conv2d(x, const(numbers(58, 3, 3, 3)), padding=1)) for _ in range(2))
        both = b.emit(concat([y, z], axis=1))
        moved = b.emit(relax.op.layout_transform(both, tvm.tirx.IndexMap.from_func(shuffled)))
        return conv2d(moved, const(numbers(16, 116, 1, 1)))

    text = PadChannels(CPU)(module(build)).script()
    assert "(1, 64, 4, 4)" in text and "(1, 128, 4, 4)" not in text


def test_a_concat_keeps_many_dead_channels_where_that_takes_less_than_cutting_them_out() -> None:
    """For a depthwise layer, and where few filters multiply them."""
    windows = numbers(2 * WIDE, 1, 3, 3)

    def two(b: relax.BlockBuilder, x: relax.Var, weight: np.ndarray) -> list[relax.Var]:
        return [b.emit(conv2d(x, const(weight), padding=1)) for _ in range(2)]

    def before(last: np.ndarray, groups: int) -> Build:
        def emit(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
            both = b.emit(concat(two(b, x, FIRST), axis=1))
            y = b.emit(conv2d(both, const(last), groups=groups))
            return conv2d(y, const(numbers(16, last.shape[0], 1, 1)))

        return emit

    def depthwise(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        both = b.emit(concat(two(b, x, longer(FIRST, 0)), axis=1))
        halves = [longer(half, 0) for half in np.split(windows, 2)]
        y = b.emit(conv2d(both, const(np.concatenate(halves)), groups=2 * (WIDE + DEAD)))
        weight = np.split(numbers(16, 2 * WIDE, 1, 1), 2, axis=1)
        return conv2d(y, const(np.concatenate([longer(half, 1) for half in weight], axis=1)))

    def few_filters(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        both = b.emit(concat(two(b, x, longer(FIRST, 0)), axis=1))
        halves = np.split(numbers(16, 2 * WIDE, 1, 1), 2, axis=1)
        weight = np.concatenate([longer(half, 1) for half in halves], axis=1)
        return conv2d(b.emit(conv2d(both, const(weight))), const(numbers(16, 16, 1, 1)))

    def many_filters(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        parts = two(b, x, longer(FIRST, 0))
        both = b.emit(concat([b.emit(alive(part)) for part in parts], axis=1))
        y = b.emit(conv2d(both, const(numbers(512, 2 * WIDE, 1, 1))))
        return conv2d(y, const(numbers(16, 512, 1, 1)))

    assert_becomes(before(windows, 2 * WIDE), depthwise)
    assert_becomes(before(numbers(16, 2 * WIDE, 1, 1), 1), few_filters)
    assert_becomes(before(numbers(512, 2 * WIDE, 1, 1), 1), many_filters)


def test_channels_are_moved_where_a_sum_has_them_at_two_places() -> None:
    """27 and 27 channels with dead ones behind each, and 54 with all of theirs at the end."""
    half, whole = numbers(27, 3, 3, 3), numbers(54, 3, 3, 3)
    windows, last = numbers(54, 1, 3, 3), numbers(8, 54, 1, 1)

    def padded(array: np.ndarray, axis: int, length: int) -> np.ndarray:
        more = [(0, length - array.shape[axis] if at == axis else 0) for at in range(array.ndim)]
        return np.pad(array, more)

    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        halves = [b.emit(conv2d(x, const(half), padding=1)) for _ in range(2)]
        both = b.emit(concat(halves, axis=1))
        y = b.emit(conv2d(both, const(windows), padding=1, groups=54))
        z = b.emit(conv2d(x, const(whole), padding=1))
        return conv2d(b.emit(add(y, z)), const(last))

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        halves = [b.emit(conv2d(x, const(padded(half, 0, 32)), padding=1)) for _ in range(2)]
        both = b.emit(concat(halves, axis=1))
        windows_of = [padded(part, 0, 32) for part in np.split(windows, 2)]
        y = b.emit(conv2d(both, const(np.concatenate(windows_of)), padding=1, groups=64))
        z = b.emit(conv2d(x, const(padded(whole, 0, 64)), padding=1))
        runs = [(0, 27), (32, 59), (27, 32), (59, 64)]
        parts = [b.emit(strided_slice(y, [1], [first], [end], [1])) for first, end in runs]
        moved = b.emit(concat(parts, axis=1))
        return conv2d(b.emit(add(moved, z)), const(padded(last, 1, 64)))

    assert_becomes(before, expected)


def test_dead_channels_in_the_middle_are_cut_out_for_another_reader() -> None:
    first, last = numbers(45, 3, 3, 3), numbers(8, 90, 1, 1)

    def run(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y, z = (b.emit(conv2d(x, const(first), padding=1)) for _ in range(2))
        both = b.emit(concat([y, z], axis=1))
        return concat([b.emit(conv2d(both, const(last))), b.emit(softmax(both, axis=1))], axis=1)

    mod = PadChannels(CPU)(module(run))
    shapes = [
        tuple(map(int, binding.var.ty.shape)) for binding in mod["main"].body.blocks[0].bindings
    ]
    assert (1, 96, 4, 4) in shapes  # the concat with dead channels, for the convolution
    assert (1, 90, 4, 4) in shapes  # cut out for softmax


def test_a_normalisation_has_its_scales_in_one_dimension() -> None:
    def build(first: np.ndarray, vector: np.ndarray, last: np.ndarray) -> Build:
        def emit(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
            y = b.emit(conv2d(x, const(first), padding=1))
            y = b.emit(instance_norm(y, const(vector), const(vector), 1, [2, 3]))
            return conv2d(y, const(last))

        return emit

    scales = numbers(WIDE)
    wide = (longer(FIRST, 0), longer(scales, 0, 1), longer(SECOND, 1))
    assert_becomes(build(FIRST, scales, SECOND), build(*wide))


def test_a_normalisation_without_epsilon_has_no_dead_channels() -> None:
    """Their variance is 0: the results would be NaN."""

    def before(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = b.emit(conv2d(x, const(FIRST), padding=1))
        scales = const(numbers(WIDE))
        return conv2d(b.emit(instance_norm(y, scales, scales, 1, [2, 3], 0.0)), const(SECOND))

    def expected(b: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        y = alive(b.emit(conv2d(x, const(longer(FIRST, 0)), padding=1)))
        scales = const(numbers(WIDE))
        y = b.emit(instance_norm(b.emit(y), scales, scales, 1, [2, 3], 0.0))
        return conv2d(y, const(SECOND))

    assert_becomes(before, expected)
