"""Schedule steps: the loops before, the loops after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import tvm
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.script import tirx as T
from tvm.tirx import ForKind

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, SSE, Cpu, VectorUnit
from tvm_neocpu.topi.math import vector_math
from tvm_neocpu.topi.schedule import steps

UNIT = Cpu("skylake-avx512", AVX512, cores=2).unit("float32")


def assert_steps(
    before: tirx.PrimFunc, apply: Callable[[Schedule], object], expected: tirx.PrimFunc
) -> None:
    sch = Schedule(before)
    apply(sch)
    after = sch.mod["main"].with_attr("global_symbol", "main")
    tvm.ir.assert_structural_equal(after, expected.with_attr("global_symbol", "main"))


@T.prim_func(s_tir=True)
def copy_48(a: T.Buffer((3, 5, 48), "float32"), b: T.Buffer((3, 5, 48), "float32")) -> None:
    for n, y, c in T.grid(3, 5, 48):
        with T.sblock("copy"):
            vn, vy, vc = T.axis.remap("SSS", [n, y, c])
            b[vn, vy, vc] = a[vn, vy, vc]


def copy_loops(sch: Schedule) -> list[object]:
    return sch.get_loops(sch.get_sblock("copy"))


def test_vectorize_lanes_takes_the_power_of_two() -> None:
    @T.prim_func(s_tir=True)
    def expected(a: T.Buffer((3, 5, 48), "float32"), b: T.Buffer((3, 5, 48), "float32")) -> None:
        for n, y in T.grid(3, 5):
            for c_0 in T.unroll(3):
                for c_1 in T.vectorized(16):
                    with T.sblock("copy"):
                        vn, vy = T.axis.remap("SS", [n, y])
                        vc = T.axis.spatial(48, c_0 * 16 + c_1)
                        b[vn, vy, vc] = a[vn, vy, vc]

    assert_steps(
        copy_48, lambda sch: steps.vectorize_lanes(sch, copy_loops(sch)[2], UNIT), expected
    )


def test_vectorize_lanes_leaves_an_odd_loop_unrolled() -> None:
    @T.prim_func(s_tir=True)
    def expected(a: T.Buffer((3, 5, 48), "float32"), b: T.Buffer((3, 5, 48), "float32")) -> None:
        for n in range(3):
            for y_0 in T.unroll(5):
                for y_1, c in T.grid(1, 48):
                    with T.sblock("copy"):
                        vn = T.axis.spatial(3, n)
                        vy = T.axis.spatial(5, y_0 + y_1)
                        vc = T.axis.spatial(48, c)
                        b[vn, vy, vc] = a[vn, vy, vc]

    assert_steps(
        copy_48, lambda sch: steps.vectorize_lanes(sch, copy_loops(sch)[1], UNIT), expected
    )


@pytest.mark.parametrize(
    ("extent", "loops"),
    [(16, ["V16"]), (48, ["U3", "V16"]), (4096, ["U32", "V128"]), (1000, ["S125", "V8"])],
)
def test_vectorize_lanes_of_a_long_row_keeps_a_loop(extent: int, loops: list[str]) -> None:
    """A row of 21841 outputs, unrolled, took three minutes to compile."""
    x = te.placeholder((extent,), name="x")
    sch = Schedule(te.create_prim_func([x, te.compute((extent,), lambda i: x[i], name="copy")]))
    steps.vectorize_lanes(sch, copy_loops(sch)[0], UNIT)
    assert loop_kinds(sch) == loops


def loop_kinds(sch: Schedule) -> list[str]:
    """Serial, vectorised and unrolled loops, with their extents."""
    kinds = {0: "S", 2: "V", 3: "U"}
    found = [sch.get(loop) for loop in copy_loops(sch)]
    return [f"{kinds[int(loop.kind)]}{loop.extent}" for loop in found]


@pytest.mark.parametrize(
    ("unit", "loops"),
    [
        (UNIT, ["U2", "V128"]),
        (Cpu("haswell", AVX2, 2).unit("float32"), ["U4", "V64"]),
        (Cpu("haswell", AVX2, 2).unit("float64"), ["U8", "V32"]),
        # As many statements as there are registers are written out.
        (Cpu("cortex-a72", NEON, 2).unit("float64"), ["U16", "V16"]),
        (Cpu("old", SSE, 2).unit("float64"), ["U16", "V16"]),
        (replace(UNIT, registers=1), ["S2", "V128"]),
    ],
    ids=["avx512", "avx2", "doubles", "neon", "sse", "few registers"],
)
def test_vectorize_lanes_asks_the_unit(unit: VectorUnit, loops: list[str]) -> None:
    x = te.placeholder((256,), name="x")
    sch = Schedule(te.create_prim_func([x, te.compute((256,), lambda i: x[i], name="copy")]))
    steps.vectorize_lanes(sch, copy_loops(sch)[0], unit)
    assert loop_kinds(sch) == loops


@pytest.mark.parametrize(("dtype", "lanes"), [("float32", 16), ("float64", 8), ("int8", 64)])
def test_the_unit_of_a_block_is_of_what_it_writes(dtype: str, lanes: int) -> None:
    x = te.placeholder((16,), name="x")
    y = te.compute((16,), lambda i: x[i].astype(dtype), name="copy")
    sch = Schedule(te.create_prim_func([x, y]))
    cpu = Cpu("skylake-avx512", AVX512, cores=2)
    assert steps.unit_of(sch, sch.get_sblock("copy"), cpu).lanes == lanes


@pytest.mark.parametrize(("dtype", "line"), [("float32", 16), ("float64", 8)])
def test_spread_over_sets_leaves_an_odd_count_of_lines(dtype: str, line: int) -> None:
    """Rows begin an odd multiple of a cache line apart, whatever an element takes."""
    x = te.placeholder((4, 64), dtype, "x")
    copy = te.compute((4, 64), lambda i, j: x[i, j], name="copy")
    out = te.compute((4, 64), lambda i, j: copy[i, j], name="out")
    sch = Schedule(te.create_prim_func([x, out]))
    unit = Cpu("skylake-avx512", AVX512, cores=2).unit(dtype)
    steps.spread_over_sets(sch, sch.get_sblock("copy"), 0, unit)
    (aligned,) = sch.get(sch.get_sblock("copy")).annotations["buffer_dim_align"]
    assert [int(value) for value in aligned] == [0, 0, 2 * line, line]


def test_parallel_fused() -> None:
    @T.prim_func(s_tir=True)
    def expected(a: T.Buffer((3, 5, 48), "float32"), b: T.Buffer((3, 5, 48), "float32")) -> None:
        for n_y_fused in T.parallel(15):
            for c in range(48):
                with T.sblock("copy"):
                    vn = T.axis.spatial(3, n_y_fused // 5)
                    vy = T.axis.spatial(5, n_y_fused % 5)
                    vc = T.axis.spatial(48, c)
                    b[vn, vy, vc] = a[vn, vy, vc]

    assert_steps(copy_48, lambda sch: steps.parallel_fused(sch, *copy_loops(sch)[:2]), expected)


def test_parallel_and_vectorize() -> None:
    @T.prim_func(s_tir=True)
    def expected(a: T.Buffer((3, 5, 48), "float32"), b: T.Buffer((3, 5, 48), "float32")) -> None:
        for n_y_fused in T.parallel(15):
            for c_0 in T.unroll(3):
                for c_1 in T.vectorized(16):
                    with T.sblock("copy"):
                        vn = T.axis.spatial(3, n_y_fused // 5)
                        vy = T.axis.spatial(5, n_y_fused % 5)
                        vc = T.axis.spatial(48, c_0 * 16 + c_1)
                        b[vn, vy, vc] = a[vn, vy, vc]

    assert_steps(
        copy_48,
        lambda sch: steps.parallel_and_vectorize(sch, sch.get_sblock("copy"), UNIT),
        expected,
    )


def test_split_off_keeps_loops_of_one() -> None:
    @T.prim_func(s_tir=True)
    def expected(a: T.Buffer((3, 5, 48), "float32"), b: T.Buffer((3, 5, 48), "float32")) -> None:
        for n, y_0, y_1, c_0, c_1 in T.grid(3, 1, 5, 4, 12):
            with T.sblock("copy"):
                vn = T.axis.spatial(3, n)
                vy = T.axis.spatial(5, y_0 * 5 + y_1)
                vc = T.axis.spatial(48, c_0 * 12 + c_1)
                b[vn, vy, vc] = a[vn, vy, vc]

    def split(sch: Schedule) -> None:
        _, y, c = copy_loops(sch)
        steps.split_off(sch, y, 5)
        steps.split_off(sch, c, 12)

    assert_steps(copy_48, split, expected)


def test_unroll_all_skips_loops_of_one() -> None:
    @T.prim_func(s_tir=True)
    def before(a: T.Buffer((1, 4), "float32"), b: T.Buffer((1, 4), "float32")) -> None:
        for y, x in T.grid(1, 4):
            with T.sblock("copy"):
                vy, vx = T.axis.remap("SS", [y, x])
                b[vy, vx] = a[vy, vx]

    @T.prim_func(s_tir=True)
    def expected(a: T.Buffer((1, 4), "float32"), b: T.Buffer((1, 4), "float32")) -> None:
        for y in range(1):
            for x in T.unroll(4):
                with T.sblock("copy"):
                    vy, vx = T.axis.remap("SS", [y, x])
                    b[vy, vx] = a[vy, vx]

    assert_steps(before, lambda sch: steps.unroll_all(sch, *copy_loops(sch)), expected)


@T.prim_func(s_tir=True)
def row_sums(a: T.Buffer((6, 2, 4, 8), "float32"), b: T.Buffer((2, 4, 8), "float32")) -> None:
    for k, y, x, c in T.grid(6, 2, 4, 8):
        with T.sblock("acc"):
            vy, vx, vc, vk = T.axis.remap("SSSR", [y, x, c, k])
            with T.init():
                b[vy, vx, vc] = T.float32(0)
            b[vy, vx, vc] = b[vy, vx, vc] + a[vk, vy, vx, vc]


def test_hold_tile_in_registers() -> None:
    @T.prim_func(s_tir=True)
    def before(a: T.Buffer((6, 2, 4, 8), "float32"), out: T.Buffer((2, 4, 8), "float32")) -> None:
        b = T.sblock_alloc_buffer((2, 4, 8))
        for k, y, x, c in T.grid(6, 2, 4, 8):
            with T.sblock("acc"):
                vy, vx, vc, vk = T.axis.remap("SSSR", [y, x, c, k])
                with T.init():
                    b[vy, vx, vc] = T.float32(0)
                b[vy, vx, vc] = b[vy, vx, vc] + a[vk, vy, vx, vc]
        for y, x, c in T.grid(2, 4, 8):
            with T.sblock("store"):
                vy, vx, vc = T.axis.remap("SSS", [y, x, c])
                out[vy, vx, vc] = b[vy, vx, vc]

    @T.prim_func(s_tir=True)
    def expected(a: T.Buffer((6, 2, 4, 8), "float32"), out: T.Buffer((2, 4, 8), "float32")) -> None:
        b = T.sblock_alloc_buffer((2, 4, 8), scope="local")
        for y_init in T.unroll(2):
            for x_init in T.unroll(4):
                for c_init in T.vectorized(8):
                    with T.sblock("acc_init"):
                        vy, vx, vc = T.axis.remap("SSS", [y_init, x_init, c_init])
                        b[vy, vx, vc] = T.float32(0)
        for k in range(6):
            for y in T.unroll(2):
                for x in T.unroll(4):
                    for c in T.vectorized(8):
                        with T.sblock("acc_update"):
                            vy, vx, vc, vk = T.axis.remap("SSSR", [y, x, c, k])
                            b[vy, vx, vc] = b[vy, vx, vc] + a[vk, vy, vx, vc]
        for y, x, c in T.grid(2, 4, 8):
            with T.sblock("store"):
                vy, vx, vc = T.axis.remap("SSS", [y, x, c])
                out[vy, vx, vc] = b[vy, vx, vc]

    def hold(sch: Schedule) -> None:
        acc = sch.get_sblock("acc")
        steps.hold_tile_in_registers(sch, acc, sch.get_loops(acc)[0], UNIT)

    assert_steps(before, hold, expected)


@T.prim_func(s_tir=True)
def with_epilogue(
    acc: T.Buffer((4, 8), "float32"),
    bias: T.Buffer((8,), "float32"),
    gated: T.Buffer((3, 4, 8), "float32"),
) -> None:
    store = T.sblock_alloc_buffer((4, 8))
    add = T.sblock_alloc_buffer((4, 8))
    relu = T.sblock_alloc_buffer((4, 8))
    for y, c in T.grid(4, 8):
        with T.sblock("store"):
            vy, vc = T.axis.remap("SS", [y, c])
            store[vy, vc] = acc[vy, vc]
    for y, c in T.grid(4, 8):
        with T.sblock("add"):
            vy, vc = T.axis.remap("SS", [y, c])
            add[vy, vc] = store[vy, vc] + bias[vc]
    for y, c in T.grid(4, 8):
        with T.sblock("relu"):
            vy, vc = T.axis.remap("SS", [y, c])
            relu[vy, vc] = T.max(add[vy, vc], T.float32(0))
    for n, y, c in T.grid(3, 4, 8):
        with T.sblock("repeat"):
            vn, vy, vc = T.axis.remap("SSS", [n, y, c])
            gated[vn, vy, vc] = relu[vy, vc]


def test_inline_epilogue_stops_where_the_domain_grows() -> None:
    @T.prim_func(s_tir=True)
    def expected(
        acc: T.Buffer((4, 8), "float32"),
        bias: T.Buffer((8,), "float32"),
        gated: T.Buffer((3, 4, 8), "float32"),
    ) -> None:
        relu = T.sblock_alloc_buffer((4, 8))
        for y, c in T.grid(4, 8):
            with T.sblock("relu"):
                vy, vc = T.axis.remap("SS", [y, c])
                relu[vy, vc] = T.max(acc[vy, vc] + bias[vc], T.float32(0))
        for n, y, c in T.grid(3, 4, 8):
            with T.sblock("repeat"):
                vn, vy, vc = T.axis.remap("SSS", [n, y, c])
                gated[vn, vy, vc] = relu[vy, vc]

    def inline(sch: Schedule) -> None:
        output = steps.inline_epilogue(sch, sch.get_sblock("store"))
        assert steps.block_name(sch, output) == "relu"

    assert_steps(with_epilogue, inline, expected)


def test_looking_at_blocks() -> None:
    sch = Schedule(row_sums)
    acc = steps.find_block(sch, "acc")
    assert acc is not None
    assert steps.find_block(sch, "nothing") is None
    assert steps.is_reduction(sch, acc)
    assert steps.output_shape(sch, acc) == (2, 4, 8)
    assert [steps.loop_extent(sch, loop) for loop in sch.get_loops(acc)] == [6, 2, 4, 8]
    copy = Schedule(copy_48)
    assert not steps.is_reduction(copy, copy.get_sblock("copy"))


@pytest.mark.parametrize(
    ("activation", "kinds"),
    [(lambda x: tirx.max(x, tirx.const(0, "float32")), "uv"), (vector_math.silu, "sv")],
    ids=["short", "long"],
)
def test_long_epilogues_stay_loops_over_pixels(
    activation: Callable[[tirx.Expr], tirx.Expr], kinds: str
) -> None:
    x = te.placeholder((7, 16), name="x")
    y = te.compute((7, 16), lambda i, c: activation(x(i, c)), name="y")
    sch = Schedule(te.create_prim_func([x, y]))
    steps.unroll_and_vectorize(sch, sch.get_sblock("y"), UNIT, pixels=1)
    found = [int(sch.get(loop).kind) for loop in sch.get_loops(sch.get_sblock("y"))]
    names = {ForKind.SERIAL: "s", ForKind.VECTORIZED: "v", ForKind.UNROLLED: "u"}
    assert "".join(names[ForKind(kind)] for kind in found) == kinds


@pytest.mark.parametrize("cores", [1, 2])
def test_cores_share_out_rows_of_all_channels(cores: int) -> None:
    @T.prim_func(s_tir=True)
    def blocks_first(a: T.Buffer((2, 3, 5, 4, 16)), b: T.Buffer((2, 3, 5, 4, 16))) -> None:
        for n, o, y, x, c in T.grid(2, 3, 5, 4, 16):
            with T.sblock("copy"):
                vn, vo, vy, vx, vc = T.axis.remap("SSSSS", [n, o, y, x, c])
                b[vn, vo, vy, vx, vc] = a[vn, vo, vy, vx, vc]

    @T.prim_func(s_tir=True)
    def rows_first(a: T.Buffer((2, 3, 5, 4, 16)), b: T.Buffer((2, 3, 5, 4, 16))) -> None:
        for n, y, o, x, c in T.grid(2, 5, 3, 4, 16):
            with T.sblock("copy"):
                vn, vo, vy, vx, vc = T.axis.remap("SSSSS", [n, o, y, x, c])
                b[vn, vo, vy, vx, vc] = a[vn, vo, vy, vx, vc]

    cpu = Cpu("skylake-avx512", AVX512, cores=cores)

    def outside(sch: Schedule) -> None:
        found = steps.rows_outside(sch, sch.get_sblock("copy"), copy_loops(sch)[:3], cpu)
        extents = [steps.loop_extent(sch, loop) for loop in found]
        assert extents == ([2, 3, 5] if cores == 1 else [2, 5, 3])

    assert_steps(blocks_first, outside, blocks_first if cores == 1 else rows_first)


def test_rows_of_what_is_no_map_stay_where_they_are() -> None:
    """Tokens: the second axis is no block of channels."""
    cpu = Cpu("skylake-avx512", AVX512, cores=2)

    def outside(sch: Schedule) -> None:
        loops = copy_loops(sch)
        assert steps.rows_outside(sch, sch.get_sblock("copy"), loops, cpu) == loops

    assert_steps(copy_48, outside, copy_48)
