"""The schedule of sums of products without a template: right answers, in parallel vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax, te, tirx, topi
from tvm.s_tir import Schedule

from tvm_neocpu.relay_passes.fusing.fuse_functions import FuseFunctions
from tvm_neocpu.relay_passes.lowering.schedule_functions import ScheduleFunctions
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.schedule.contraction import factors_of

op = relax.op
Build = Callable[..., relax.Expr]

HERE = parse_target()
AVX512 = parse_target("llvm -mcpu=skylake-avx512").cpu
N = tirx.Var("n", "int64")


def const(*shape: int, dtype: str = "float32") -> relax.Expr:
    return relax.const(np.random.default_rng(1).standard_normal(shape).astype(dtype))


def fused(build: Build, *types: relax.TensorType) -> tvm.IRModule:
    """Operations as functions: legalised and fused, not scheduled."""
    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{place}", ty) for place, ty in enumerate(types)]
    with builder.function("main", inputs):
        with builder.dataflow():
            result = builder.emit_output(build(*inputs))
        builder.emit_func_output(result)
    return FuseFunctions()(builder.get())


def run(mod: tvm.IRModule, inputs: list[np.ndarray]) -> np.ndarray:
    machine = relax.VirtualMachine(tvm.compile(mod, HERE.target), tvm.cpu())
    return machine["main"](*(tvm.runtime.tensor(array) for array in inputs)).numpy()


def tensor(*shape: object, dtype: str = "float32") -> relax.TensorType:
    return relax.TensorType(shape, dtype)


def einsum(equation: str) -> Build:
    """The importer's way: loops at once."""

    def build(*tensors: relax.Var) -> relax.Expr:
        builder = relax.BlockBuilder.current()
        assert builder is not None
        return builder.call_te(topi.einsum, equation, *tensors)

    return build


CASES: dict[str, tuple[Build, list[relax.TensorType]]] = {
    "conv1d": (
        lambda x: op.nn.relu(op.nn.conv1d(x, const(8, 3, 5), padding=2)),
        [tensor(2, 3, 64)],
    ),
    "conv1d, odd": (lambda x: op.nn.conv1d(x, const(7, 3, 5), dilation=2), [tensor(1, 3, 99)]),
    "conv1d, strided": (lambda x: op.nn.conv1d(x, const(8, 3, 4), strides=2), [tensor(1, 3, 66)]),
    "conv1d, groups": (lambda x: op.nn.conv1d(x, const(8, 2, 3), groups=4), [tensor(1, 8, 34)]),
    "conv1d, long": (lambda x: op.nn.conv1d(x, const(4, 2, 1)), [tensor(1, 2, 1001)]),
    "conv1d, one": (lambda x: op.nn.conv1d(x, const(4, 2, 5)), [tensor(1, 2, 5)]),
    "conv1d, transposed": (
        lambda x: op.nn.conv1d_transpose(x, const(4, 6, 4), strides=2, padding=1),
        [tensor(1, 4, 16)],
    ),
    "conv3d": (
        lambda x: op.nn.relu(op.nn.conv3d(x, const(6, 3, 3, 3, 3), padding=1)),
        [tensor(1, 3, 5, 6, 32)],
    ),
    "conv3d, odd": (lambda x: op.nn.conv3d(x, const(8, 3, 2, 3, 3)), [tensor(2, 3, 5, 6, 9)]),
    "conv3d, transposed": (
        lambda x: op.nn.conv3d_transpose(x, const(4, 8, 2, 2, 2), strides=[2, 2, 2]),
        [tensor(1, 4, 5, 5, 8)],
    ),
    "conv2d, weight": (
        lambda x, w: op.nn.conv2d(x, w, padding=1),
        [tensor(1, 16, 9, 32), tensor(12, 16, 3, 3)],
    ),
    "conv2d, NHWC": (
        lambda x: op.nn.conv2d(x, const(3, 3, 16, 8), data_layout="NHWC", kernel_layout="HWIO"),
        [tensor(1, 6, 6, 16)],
    ),
    "matmul": (op.matmul, [tensor(37, 20), tensor(20, 96)]),
    "matmul, bias": (
        lambda x, y: op.nn.relu(op.add(op.matmul(x, y), const(64))),
        [tensor(13, 20), tensor(20, 64)],
    ),
    "matmul, odd": (op.matmul, [tensor(12, 31), tensor(31, 101)]),
    "matmul, narrow": (op.matmul, [tensor(12, 64), tensor(64, 3)]),
    "matmul, one column": (op.matmul, [tensor(12, 64), tensor(64, 1)]),
    "matmul, row": (op.matmul, [tensor(64), tensor(64, 48)]),
    "matmul, column": (op.matmul, [tensor(48, 64), tensor(64)]),
    "matmul, scalar": (op.matmul, [tensor(64), tensor(64)]),
    "matmul, batched": (op.matmul, [tensor(3, 16, 32), tensor(3, 32, 48)]),
    "matmul, broadcast": (op.matmul, [tensor(2, 1, 6, 32), tensor(3, 32, 48)]),
    "matmul, of itself": (lambda x: op.matmul(x, x), [tensor(32, 32)]),
    "matmul, turned": (
        lambda x, y: op.matmul(x, op.permute_dims(y, [0, 2, 1])),
        [tensor(3, 16, 64), tensor(3, 48, 64)],
    ),
    "einsum": (einsum("bij,bjk->bik"), [tensor(4, 15, 6), tensor(4, 6, 32)]),
    "einsum, turned": (einsum("bij,kj->kbi"), [tensor(4, 16, 64), tensor(5, 64)]),
    "einsum of three": (einsum("ij,jk,kl->il"), [tensor(4, 5), tensor(5, 6), tensor(6, 32)]),
    "attention": (op.nn.attention, [tensor(2, 7, 3, 16), tensor(2, 9, 3, 16), tensor(2, 9, 3, 16)]),
    "double": (
        op.matmul,
        [tensor(12, 20, dtype="float64"), tensor(20, 64, dtype="float64")],
    ),
    "integers": (
        lambda x, y: op.matmul(x, y, out_dtype="int32"),
        [tensor(12, 20, dtype="int8"), tensor(20, 64, dtype="int8")],
    ),
    "many rows summed": (lambda x: op.sum(x, axis=[-1]), [tensor(4, 64, 1024)]),
    "norm": (lambda x: op.sum(op.multiply(x, x), axis=[1]), [tensor(12, 64)]),
    "n rows": (lambda x: op.matmul(x, const(16, 32)), [tensor(N, 16)]),
    "n odd rows": (lambda x: op.matmul(x, const(16, 31)), [tensor(N, 16)]),
    "n columns": (lambda x: op.matmul(const(16, 8), x), [tensor(8, N)]),
    "n images": (lambda x: op.nn.conv2d(x, const(8, 3, 3, 3), padding=1), [tensor(N, 3, 9, 32)]),
    "n wide": (lambda x: op.nn.conv1d(x, const(8, 3, 3)), [tensor(2, 3, N)]),
    "n summed": (lambda x: op.sum(x, axis=[0]), [tensor(N, 640)]),
    "n maxima": (lambda x: op.max(x, axis=[1]), [tensor(N, 640)]),
    "n added": (lambda x: op.nn.relu(op.add(x, x)), [tensor(N, 16, 8)]),
    "n last": (lambda x: op.nn.relu(op.add(x, x)), [tensor(16, N)]),
    "only n": (lambda x: op.nn.relu(op.add(x, x)), [tensor(N)]),
    "n softmax": (lambda x: op.nn.softmax(x, axis=-1), [tensor(N, 64)]),
}


def inputs_of(types: list[relax.TensorType]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = [[19 if isinstance(x, tirx.Var) else int(x) for x in ty.shape.values] for ty in types]
    return [
        (3 * rng.standard_normal(shape)).astype(str(ty.dtype))
        for shape, ty in zip(shapes, types, strict=True)
    ]


@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_plain_loops(name: str) -> None:
    build, types = CASES[name]
    mod = fused(build, *types)
    inputs = inputs_of(types)
    got, expected = run(ScheduleFunctions(HERE.cpu)(mod), inputs), run(mod, inputs)
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


# Large enough that a fork pays, with whole vectors along the last axis.
LARGE: dict[str, tuple[Build, list[relax.TensorType]]] = {
    "conv1d": (lambda x: op.nn.conv1d(x, const(16, 8, 5), padding=2), [tensor(1, 8, 256)]),
    "conv3d": (
        lambda x: op.nn.conv3d(x, const(8, 3, 3, 3, 3), padding=1),
        [tensor(1, 3, 8, 8, 32)],
    ),
    "conv2d": (
        lambda x, w: op.nn.conv2d(x, w, padding=1),
        [tensor(1, 16, 16, 32), tensor(12, 16, 3, 3)],
    ),
    "matmul": (op.matmul, [tensor(4, 64, 64), tensor(4, 64, 64)]),
    "n rows": (lambda x: op.matmul(x, const(64, 64)), [tensor(N, 64)]),
}


@pytest.mark.parametrize("name", LARGE)
def test_tiles_are_registers_in_parallel(name: str) -> None:
    build, types = LARGE[name]
    text = ScheduleFunctions(AVX512)(fused(build, *types)).script()
    assert "T.parallel(" in text
    assert "T.vectorized(T.int64(32))" in text
    assert 'scope="local"' in text


def test_a_row_of_vectors_serves_a_tile_of_rows() -> None:
    text = ScheduleFunctions(AVX512)(fused(*_flat(LARGE["matmul"]))).script()
    assert "in T.unroll(T.int64(8)):" in text


def test_padding_is_no_part_of_the_innermost_loop() -> None:
    text = ScheduleFunctions(AVX512)(fused(*_flat(LARGE["conv1d"]))).script()
    updates = [line for line in text.splitlines() if "conv1d_ncw_local[" in line and " * " in line]
    assert updates
    assert not any("if_then_else" in line for line in updates)


# Rows of 1024 products stayed one thread's scalar loop: it was split up before it was shared out.
@pytest.mark.parametrize("name", ["many rows summed", "einsum, turned"])
def test_rows_are_reduced_in_parallel_vectors(name: str) -> None:
    text = ScheduleFunctions(AVX512)(fused(*_flat(CASES[name]))).script()
    assert "T.parallel(" in text
    assert "T.let[T.float32x16]" in text


def test_unknown_extents_run_in_parallel_vectors() -> None:
    text = ScheduleFunctions(AVX512)(fused(*_flat(CASES["n added"]))).script()
    assert "T.parallel(n * T.int64(16))" in text
    assert "T.vectorized(T.int64(8))" in text


def _flat(case: tuple[Build, list[relax.TensorType]]) -> tuple[object, ...]:
    return case[0], *case[1]


def loops_of(build: Build, *types: relax.TensorType) -> tirx.PrimFunc:
    """The one PrimFunc of an operation, not scheduled."""
    functions = fused(build, *types).functions.values()
    (found,) = (each for each in functions if isinstance(each, tirx.PrimFunc))
    return found


@pytest.mark.parametrize(
    ("equation", "shapes", "count"),
    [
        ("ij,jk->ik", [(4, 5), (5, 6)], 2),
        ("ij,ij->i", [(4, 5), (4, 5)], 2),
        ("ij,jk,kl->il", [(4, 5), (5, 6), (6, 7)], 3),
        ("ij->i", [(4, 5)], 0),
    ],
)
def test_factors_are_the_tensors_of_a_product(equation: str, shapes, count: int) -> None:
    func = loops_of(einsum(equation), *(tensor(*shape) for shape in shapes))
    sch = Schedule(func)
    (block,) = sch.get_child_blocks(sch.get_sblock("root"))
    factors = factors_of(sch.get(block))
    assert len(factors) == count
    assert len({factor.source.name for factor in factors}) == count


def test_a_square_is_no_product() -> None:
    x, k = te.placeholder((4, 5), name="x"), te.reduce_axis((0, 5), name="k")
    norm = te.compute((4,), lambda i: te.sum(x[i, k] * x[i, k], axis=k))
    sch = Schedule(te.create_prim_func([x, norm]))
    (block,) = sch.get_child_blocks(sch.get_sblock("root"))
    assert factors_of(sch.get(block)) == ()
