"""The general schedule: right answers for all that no template owns, hands off the rest."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import tvm
from nests import SKYLAKE as SLOW_TO_FORK
from nests import nest_of
from tvm import relax, te
from tvm.s_tir import Schedule

from tvm_neocpu.core.machine.cpu import AVX2, NEON, Cpu
from tvm_neocpu.relay_passes.fusing.fuse_functions import FuseFunctions
from tvm_neocpu.relay_passes.lowering.schedule_functions import ScheduleFunctions
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.anchor import child_blocks
from tvm_neocpu.topi.math import vector_math
from tvm_neocpu.topi.schedule.generic import schedule_behind
from tvm_neocpu.topi.schedule.row_axes import run_of_elements
from tvm_neocpu.topi.schedule.steps import block_name
from tvm_neocpu.topi.schedule_function import schedule_blocks, schedule_function
from tvm_neocpu.topi.tir.loops.rewrite_loops import with_small_buffers

op = relax.op
Build = Callable[..., relax.Expr]

# Small functions show what is parallel, too.
SKYLAKE = replace(SLOW_TO_FORK, fork_join=0.0)
TARGET = parse_target()
PLAIN, BLOCKED = (2, 6, 13, 11), (1, 3, 13, 11, 16)
HALF = relax.const(np.float32(0.5))


def fused(build: Build, *shapes: tuple[int, ...]) -> tvm.IRModule:
    """Operations as functions: legalised and fused, not scheduled."""
    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{i}", relax.TensorType(s, "float32")) for i, s in enumerate(shapes)]
    with builder.function("main", inputs):
        with builder.dataflow():
            result = builder.emit_output(build(*inputs))
        builder.emit_func_output(result)
    return FuseFunctions()(builder.get())


def run(mod: tvm.IRModule, inputs: list[np.ndarray]) -> np.ndarray:
    machine = relax.VirtualMachine(tvm.compile(mod, TARGET.target), tvm.cpu())
    return machine["main"](*(tvm.runtime.tensor(array) for array in inputs)).numpy()


def pool(kind: Build, layout: str = "NCHW", **attributes: object) -> Build:
    options = {"pool_size": [3, 2], "strides": [2, 1], "layout": layout, **attributes}
    return lambda x: kind(x, out_layout=layout, **options)


MAX, AVERAGE = op.nn.max_pool2d, op.nn.avg_pool2d
CASES: dict[str, tuple[Build, list[tuple[int, ...]]]] = {
    "max pool": (pool(MAX, padding=[1, 0, 1, 1]), [PLAIN]),
    "max pool, blocked": (pool(MAX, "NCHW16c", padding=[1, 0, 1, 1]), [BLOCKED]),
    "max pool, ceil": (pool(MAX, "NCHW16c", strides=[2, 3], ceil_mode=True), [BLOCKED]),
    "max pool, dilated": (pool(MAX, dilation=[2, 3]), [PLAIN]),
    "average pool": (pool(AVERAGE, padding=[1, 1, 0, 1]), [PLAIN]),
    "average pool, blocked": (pool(AVERAGE, "NCHW16c", padding=[1, 1, 0, 1]), [BLOCKED]),
    "average pool, ceil": (pool(AVERAGE, strides=[3, 2], padding=[1] * 4, ceil_mode=True), [PLAIN]),
    "average pool with its padding": (
        pool(AVERAGE, "NCHW16c", padding=[1, 1, 0, 1], count_include_pad=True),
        [BLOCKED],
    ),
    "average pool of wide blocks": (
        pool(AVERAGE, "NCHW48c", padding=[1, 1, 1, 1]),
        [(1, 2, 13, 11, 48)],
    ),
    "max pool of wide blocks": (pool(MAX, "NCHW40c", strides=[2, 2]), [(1, 2, 13, 11, 40)]),
    "adaptive pool": (lambda x: op.nn.adaptive_avg_pool2d(x, [4, 3]), [PLAIN]),
    "global pool": (lambda x: op.mean(x, axis=[2, 3], keepdims=True), [PLAIN]),
    "global pool, blocked": (lambda x: op.mean(x, axis=[2, 3], keepdims=True), [BLOCKED]),
    "global pool of a large image": (lambda x: op.max(x, axis=[2, 3]), [(1, 128, 30, 40, 4)]),
    "everything to a scalar": (op.mean, [PLAIN]),
    "over channels": (lambda x: op.sum(x, axis=[1]), [PLAIN]),
    "over the vector": (lambda x: op.sum(x, axis=[1, 4]), [BLOCKED]),
    "along rows": (lambda x: op.sum(x, axis=[-1]), [(3, 5, 48)]),
    "along rows and others": (lambda x: op.max(x, axis=[1, 3]), [(2, 5, 3, 64)]),
    "along one row": (lambda x: op.sum(x, axis=[0]), [(1000,)]),
    "along odd rows": (lambda x: op.sum(x, axis=[1]), [(3, 1001)]),
    "arg max of rows": (lambda x: op.argmax(x, axis=-1), [(3, 64)]),
    "over channels of wide images": (lambda x: op.max(x, axis=[1]), [(1, 7, 5, 128)]),
    "arg max": (lambda x: op.argmax(x, axis=1), [PLAIN]),
    "softmax": (lambda x: op.nn.softmax(x, axis=-1), [(3, 1000)]),
    "softmax over channels": (lambda x: op.nn.softmax(x, axis=1), [PLAIN]),
    "concat": (lambda x, y: op.concat([x, y, x], axis=1), [PLAIN, (2, 1, 13, 11)]),
    "concat, blocked": (lambda x, y: op.concat([x, y], axis=1), [BLOCKED, BLOCKED]),
    "unequal concat, blocked": (
        lambda x, y: op.concat([x, y], axis=1),
        [BLOCKED, (1, 5, 13, 11, 16)],
    ),
    "resize": (lambda x: op.image.resize2d(x, (20, 31), method="linear"), [PLAIN]),
    "transpose": (lambda x: op.permute_dims(x, [0, 2, 3, 1]), [PLAIN]),
    "slice of blocks": (lambda x: op.strided_slice(x, [1], [1], [3]), [BLOCKED]),
    "slice": (lambda x: op.strided_slice(x, [2, 3], [1, 2], [9, 11], [2, 1]), [PLAIN]),
    "elementwise chain": (lambda x: op.tanh(op.multiply(op.nn.relu(x), HALF)), [BLOCKED]),
    "broadcast sum": (lambda x, y: op.nn.relu(op.add(x, y)), [PLAIN, (1, 6, 1, 1)]),
    "one element": (lambda x: op.sigmoid(x), [(1,)]),
    "no axes": (lambda x: op.sigmoid(x), [()]),
    "large and odd": (lambda x: op.nn.relu(x), [(3, 7, 101, 103)]),
    "sort": (lambda x: op.sort(x, axis=1), [PLAIN]),
    "cumulative sum": (lambda x: op.cumsum(x, axis=2), [PLAIN]),
}


@pytest.mark.parametrize("name", CASES)
def test_answers_are_tvms(name: str) -> None:
    build, shapes = CASES[name]
    mod = fused(build, *shapes)
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=shape).astype("float32") for shape in shapes]
    got, expected = run(ScheduleFunctions(TARGET.cpu)(mod), inputs), run(mod, inputs)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


# What the code generator would otherwise run as one thread's scalar loops.
@pytest.mark.parametrize(
    "name",
    ["max pool, blocked", "average pool, blocked", "concat, blocked", "slice of blocks"],
)
def test_blocked_layouts_run_in_parallel_vectors(name: str) -> None:
    build, shapes = CASES[name]
    large = [(1, 16, 40, 30, 16) for _ in shapes]
    text = ScheduleFunctions(SKYLAKE)(fused(build, *large)).script()
    assert "T.parallel(" in text
    widths = ("T.vectorized(T.int64(16))", "T.vectorized(T.int64(64))", "T.int64(1), 64)")
    assert any(width in text for width in widths)


@pytest.mark.parametrize("name", ["max pool, blocked", "average pool, blocked"])
def test_cores_share_out_rows_of_all_blocks(name: str) -> None:
    """As layers do: else each core would read what others wrote. One core goes block by block."""
    build, shapes = CASES[name]
    mod = fused(build, *((1, 16, 40, 30, 16) for _ in shapes))
    for cores, order in ((1, r"0_\w+1_\w+2_fused"), (2, r"0_\w+2_\w+1_fused")):
        text = ScheduleFunctions(SKYLAKE.with_cores(cores))(mod).script()
        assert re.search(order, text), text


def biased(rows: tuple[int, ...]) -> str:
    """A bias of 16 channels added to rows of them: no two axes are one row in both tensors."""
    shapes = [(*rows, 16), (16,)]
    return ScheduleFunctions(SKYLAKE)(fused(op.add, *shapes)).script()


def test_a_row_is_a_loop_of_its_own() -> None:
    text = biased((1, 4, 20, 30))
    assert "in T.parallel(T.int64(40)):" in text, "80 rows, two to a call"
    assert "in range(T.int64(30)):" in text


def test_a_sum_of_nothing_is_zero() -> None:
    """It is written: memory of the result holds other numbers before."""
    data = te.placeholder((3, 0), name="data")
    k = te.reduce_axis((0, 0), name="k")
    total = te.compute((3,), lambda i: te.sum(data[i, k], axis=k), name="total")
    func = schedule_function(te.create_prim_func([data, total]), SKYLAKE)
    out = tvm.runtime.tensor(np.full(3, 7, "float32"))
    tvm.compile(func, TARGET.target)(tvm.runtime.empty((3, 0), "float32"), out)
    np.testing.assert_array_equal(out.numpy(), 0)


def test_a_few_long_rows_are_shared_out() -> None:
    """3000 vectors, 75 to a call: 16 calls and more for each of two cores."""
    assert "in T.parallel(T.int64(40)):" in biased((1, 1, 1, 3000))


def test_axes_that_all_tensors_have_in_full_are_one_row() -> None:
    text = ScheduleFunctions(SKYLAKE)(fused(op.nn.relu, (1, 7, 41, 30))).script()
    assert "in T.parallel(T.int64(67)):" in text, "8610 elements are 67 times 2 x 64, and 34"
    assert "T.Ramp(v * T.int64(64), T.int64(1), 64)" in text


def scheduled_text(build: Build, *shapes: tuple[int, ...]) -> str:
    return ScheduleFunctions(SKYLAKE)(fused(build, *shapes)).script()


def test_channels_that_follow_each_other_are_one_row() -> None:
    """Channels 2 to 5, whose images have rows of 30: 4 x 7 x 30 are 13 times 64, and a rest."""
    text = scheduled_text(lambda x: op.strided_slice(x, [1], [2], [6]), (1, 64, 7, 30))
    assert "for v in range(T.int64(13)):" in text
    assert "T.Ramp(v * T.int64(64) + T.int64(420), T.int64(1), 64)" in text


def test_a_choice_of_a_part_is_made_once_a_channel() -> None:
    """As one row of both parts each vector of a concat would test which part it reads."""
    text = scheduled_text(lambda x, y: op.concat([x, y], axis=1), *[(1, 64, 7, 32)] * 2)
    assert "T.parallel(T.int64(128))" in text, "a channel is a trip of its own"
    assert "T.if_then_else(T.int64(64) <= ax0_ax1_fused, x1[" in text


def test_a_scale_of_each_channel_leaves_the_image_one_row() -> None:
    text = ScheduleFunctions(SKYLAKE)(fused(op.multiply, (1, 64, 7, 30), (1, 64, 1, 1))).script()
    assert "in T.parallel(T.int64(32)):" in text
    assert "T.Ramp(v * T.int64(64)" in text


# Rows of every length: the last vector overlaps, or is the only one.
@pytest.mark.parametrize("shape", [(2, 3, 7, 7), (1, 5, 13, 3), (1, 1, 2, 3), (3, 64, 56, 56)])
def test_fused_rows_compute_every_element(shape: tuple[int, ...]) -> None:
    x = te.placeholder(shape, name="x")
    scale = te.placeholder(shape[:2], name="scale")
    whole = te.compute(shape, lambda *i: x(*i) * 2.0 + 1.0, name="whole")
    rows = te.compute(shape, lambda *i: vector_math.sigmoid(x(*i) * scale(*i[:2])), name="rows")
    target = parse_target()
    given = np.random.default_rng(5).standard_normal(shape).astype("float32")
    factors = np.random.default_rng(6).standard_normal(shape[:2]).astype("float32")
    for inputs, values, output, expected in (
        ([x], [given], whole, given * 2 + 1),
        ([x, scale], [given, factors], rows, 1 / (1 + np.exp(-given * factors[..., None, None]))),
    ):
        func = schedule_function(te.create_prim_func([*inputs, output]), target.cpu)
        out = tvm.runtime.empty(shape, "float32")
        arguments = [tvm.runtime.tensor(value) for value in values]
        tvm.compile(func, target.target)(*arguments, out)
        np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_buffer_of_the_function_keeps_its_size_beside_fused_rows() -> None:
    """TVM sizes such a buffer by its indices: one index for a row once made it too small."""
    shape = (1, 32, 2, 2)
    x = te.placeholder(shape, name="x")
    negated = te.compute(shape, lambda *i: x(*i) * -1.0, name="negated")
    # Two readers: it is not inlined.
    more = te.compute(shape, lambda *i: negated(*i) + 1.0, name="more")
    less = te.compute(shape, lambda *i: negated(*i) - 1.0, name="less")
    func = schedule_function(te.create_prim_func([x, more, less]), parse_target().cpu)
    assert "negated = T.sblock_alloc_buffer((1, 32, 2, 2))" in with_small_buffers(func).script()


def test_operands_that_join_behind_an_output_are_inlined() -> None:
    """A gate's map-sized sums: what they read, one of them twice, once went through memory."""
    shape = (6, 13, 16)
    hidden = te.placeholder((16,), name="hidden")
    x, y = (te.placeholder(shape, dtype="uint8", name=name) for name in "xy")
    gate = te.compute((16,), lambda c: hidden(c) + 3.0, name="gate")
    one = te.compute(shape, lambda *at: x(*at).astype("float32"), name="one")
    other = te.compute(shape, lambda *at: y(*at).astype("float32"), name="other")
    gated = te.compute(shape, lambda a, b, c: one(a, b, c) * gate(c), name="gated")
    total = te.compute(shape, lambda *at: gated(*at) + one(*at) + other(*at), name="total")
    sch = Schedule(te.create_prim_func([hidden, x, y, total]))
    schedule_behind(sch, sch.get_sblock("gate"), SKYLAKE)
    names = [block_name(sch, block) for block in child_blocks(sch)]
    assert names == ["gate", "total"]
    assert "T.vectorized(16)" in sch.mod.script()


def test_rows_are_summed_in_vectors() -> None:
    text = ScheduleFunctions(SKYLAKE)(fused(lambda x: op.sum(x, axis=[1]), (3, 1001))).script()
    assert "T.let[T.float32x16]" in text
    assert "T.let[T.float32x8]" in text, "what is less than a vector is no run of single elements"


def test_little_work_is_not_worth_a_fork() -> None:
    text = ScheduleFunctions(SKYLAKE)(fused(op.nn.relu, (1, 2, 4, 4, 16))).script()
    assert "T.Ramp(v * T.int64(64), T.int64(1), 64)" in text
    assert "T.parallel(" not in text


def test_elementwise_operations_melt_into_the_reduction_that_reads_them() -> None:
    x = te.placeholder((4, 8), name="x")
    doubled = te.compute((4, 8), lambda i, j: x[i, j] * 2.0, name="doubled")
    j = te.reduce_axis((0, 8), name="j")
    total = te.compute((4,), lambda i: te.sum(doubled[i, j], axis=j), name="total")
    scheduled = Schedule(schedule_function(te.create_prim_func([x, total]), SKYLAKE))
    names = {
        str(scheduled.get(block).name_hint)
        for block in scheduled.get_child_blocks(scheduled.get_sblock("root"))
    }
    assert names == {"total_init", "total_update"}


def copied(rows: int, columns: int, cpu: Cpu, dtype: str = "float32") -> str:
    """The loops of an elementwise operation whose rows are no axis of both tensors."""
    x = te.placeholder((rows, columns), dtype, "x")
    bias = te.placeholder((columns,), dtype, "bias")
    y = te.compute((rows, columns), lambda i, j: x[i, j] + bias[j], name="y")
    return nest_of(schedule_blocks(te.create_prim_func([x, bias, y]), cpu), "y")


HASWELL, CORTEX = Cpu("haswell", AVX2, cores=2), Cpu("cortex-a72", NEON, cores=2)


@pytest.mark.parametrize(
    ("columns", "cpu", "expected"),
    [
        # Up to four registers are one statement; what is more is a loop over them.
        (64, SKYLAKE, "parallel 32, 16, vector 64"),
        (64, HASWELL, "parallel 32, 32, vector 32"),
        (16, HASWELL, "parallel 32, 16, vector 16"),
        (16, CORTEX, "parallel 32, 16, vector 16"),
        (32, CORTEX, "parallel 32, 32, vector 16"),
        (48, SKYLAKE, "parallel 32, 16, unroll 3, vector 16"),
        (48, HASWELL, "parallel 32, 48, vector 16"),
    ],
)
def test_vectors_are_those_of_the_cpu(columns: int, cpu: Cpu, expected: str) -> None:
    assert copied(512, columns, cpu) == expected


def test_vectors_are_those_of_the_type() -> None:
    assert copied(512, 64, SKYLAKE, "float64") == "parallel 32, 32, vector 32"
    assert copied(512, 32, SKYLAKE, "float64") == "parallel 32, 16, vector 32"
    assert copied(512, 128, SKYLAKE, "float16") == "parallel 32, 16, vector 128"


@pytest.mark.parametrize(
    ("channels", "cpu", "lanes"),
    [(48, HASWELL, 8), (40, HASWELL, 8), (64, HASWELL, 32), (96, SKYLAKE, 16)],
)
def test_pools_of_wide_blocks_hold_whole_vectors(channels: int, cpu: Cpu, lanes: int) -> None:
    """Blocks of 48 channels ran element by element on AVX2: 1600 us instead of 220."""
    build = pool(AVERAGE, f"NCHW{channels}c", padding=[1, 1, 1, 1])
    text = ScheduleFunctions(cpu)(fused(build, (1, 4, 17, 17, channels))).script()
    assert f"T.vectorized(T.int64({lanes}))" in text


@pytest.mark.parametrize(("cpu", "lanes"), [(SKYLAKE, 16), (HASWELL, 8), (CORTEX, 4)])
def test_rows_are_summed_in_one_register_of_the_cpu(cpu: Cpu, lanes: int) -> None:
    x = te.placeholder((3, 1024), name="x")
    k = te.reduce_axis((0, 1024), name="k")
    total = te.compute((3,), lambda i: te.sum(x[i, k], axis=k), name="total")
    scheduled = schedule_blocks(te.create_prim_func([x, total]), cpu)
    assert f"T.let[T.float32x{lanes}]" in scheduled.script()


def test_a_part_of_a_tensor_of_unknown_extent_is_no_row() -> None:
    """A test around the block may say which of its rows are there, and a row is stored without."""
    rows = te.var("n", "int64")
    data = te.placeholder((rows, 4, 32), name="data")
    out = te.compute((8, 4, 32), lambda i, j, k: data[i + rows - 8, j, k], name="out")
    sch = Schedule(te.create_prim_func([data, out]))
    assert run_of_elements(sch, sch.get_sblock("out")) == 2
    whole = te.placeholder((16, 4, 32), name="whole")
    part = te.compute((8, 4, 32), lambda i, j, k: whole[i + 3, j, k], name="part")
    sch = Schedule(te.create_prim_func([whole, part]))
    assert run_of_elements(sch, sch.get_sblock("part")) == 3
