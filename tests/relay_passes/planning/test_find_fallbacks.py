"""FindFallbacks: which heavy operations no template takes, and why."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from every_time import slow_but
from tvm import relax, tirx, topi

from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.messages.fallback import Coverage
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.planning.find_fallbacks import FindFallbacks

op = relax.op
CPU = Cpu("haswell", AVX2, cores=1)
N = tirx.Var("n", "int64")


def const(*shape: int, dtype: str = "float32") -> relax.Expr:
    return relax.const(np.zeros(shape, dtype))


def found(build: Callable[..., relax.Expr], *types: relax.TensorType) -> Coverage:
    builder = relax.BlockBuilder()
    inputs = [relax.Var(f"x{place}", ty) for place, ty in enumerate(types)]
    with builder.function("main", inputs):
        with builder.dataflow():
            result = builder.emit_output(build(*inputs))
        builder.emit_func_output(result)
    mod = builder.get()
    before = mod.script()
    coverage = FindFallbacks(CPU)(mod)
    assert mod.script() == before
    return coverage


def tensor(*shape: object, dtype: str = "float32") -> relax.TensorType:
    return relax.TensorType(shape, dtype)


IMAGE = tensor(1, 16, 6, 6)
UNKNOWN_SHAPE = "its shape is not known at compile time"
NO_TEMPLATE = "no template for this operator"
CASES = {
    "conv1d": (
        lambda x: op.nn.conv1d(x, const(8, 4, 5), groups=4),
        [tensor(2, 16, 64)],
        (NO_TEMPLATE, 2 * (2 * 8 * 60) * (4 * 5)),
    ),
    "conv3d": (
        lambda x: op.nn.conv3d(x, const(8, 3, 3, 3, 3)),
        [tensor(1, 3, 5, 6, 7)],
        (NO_TEMPLATE, 2 * (8 * 3 * 4 * 5) * 81),
    ),
    "conv2d_transpose": (
        lambda x: op.nn.conv2d_transpose(x, const(16, 8, 2, 2), strides=2),
        [IMAGE],
        (NO_TEMPLATE, 2 * (16 * 36) * (8 * 4)),
    ),
    "conv2d, weight": (
        lambda x, w: op.nn.conv2d(x, w),
        [IMAGE, tensor(8, 16, 3, 3)],
        ("its weight is not constant", 2 * (8 * 16) * 144),
    ),
    "conv2d, batch": (
        lambda x: op.nn.conv2d(x, const(8, 16, 3, 3)),
        [tensor(N, 16, 6, 6)],
        (UNKNOWN_SHAPE, None),
    ),
    "conv2d, layout": (
        lambda x: op.nn.conv2d(x, const(3, 3, 16, 8), data_layout="NHWC", kernel_layout="HWIO"),
        [tensor(1, 6, 6, 16)],
        ("its layouts are NHWC and HWIO", 2 * (8 * 16) * 144),
    ),
    "conv2d, half": (
        lambda x: op.nn.conv2d(x, const(8, 16, 3, 3, dtype="float16")),
        [tensor(1, 16, 6, 6, dtype="float16")],
        ("no template for float16", 2 * (8 * 16) * 144),
    ),
    "conv2d, mixed": (
        lambda x: op.nn.conv2d(x, const(8, 16, 3, 3, dtype="int8"), out_dtype="int32"),
        [tensor(1, 16, 6, 6, dtype="int8")],
        ("its types are int8 x int8 -> int32", 2 * (8 * 16) * 144),
    ),
    "matmul, batched": (
        lambda x, y: op.matmul(x, y),
        [tensor(3, 4, 5), tensor(3, 5, 6)],
        ("its weight has 3 dimensions, not 2", 2 * (3 * 4 * 6) * 5),
    ),
    "matmul, rows": (
        lambda x: op.matmul(x, const(5, 6)),
        [tensor(N, 5)],
        (UNKNOWN_SHAPE, None),
    ),
    "matmul, any": (
        lambda x: op.matmul(x, const(5, 6)),
        [relax.TensorType(dtype="float32")],
        (UNKNOWN_SHAPE, None),
    ),
    "attention": (
        lambda q, k, v: op.nn.attention(q, k, v),
        [tensor(2, 7, 3, 8), tensor(2, 9, 3, 8), tensor(2, 9, 3, 5)],
        (NO_TEMPLATE, 2 * (2 * 3 * 7 * 9) * (8 + 5)),
    ),
    "einsum": (
        lambda x, y: op.einsum((x, y), "...ij,...jk->...ik"),
        [tensor(3, 4, 5), tensor(3, 5, 6)],
        (NO_TEMPLATE, 2 * (3 * 4 * 6) * 5),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_and_why_and_how_much(name: str) -> None:
    build, types, (why, flops) = CASES[name]
    coverage = found(build, *types)
    (fallback,) = coverage.fallbacks
    assert (fallback.operator, fallback.why) == (name.split(",")[0], why)
    assert fallback.flops == flops
    assert coverage.planned_flops == 0


def test_shapes_are_shown() -> None:
    coverage = found(lambda x: op.matmul(x, const(5, 6)), tensor(N, 5))
    assert coverage.fallbacks[0].what == "nx5, 5x6 -> nx6"
    coverage = found(lambda x: op.matmul(x, const(5, 6)), relax.TensorType(dtype="float32"))
    assert coverage.fallbacks[0].what.startswith("?, 5x6 -> ")


def test_what_templates_take_is_counted() -> None:
    coverage = found(lambda x: op.nn.conv2d(x, const(8, 16, 3, 3)), IMAGE)
    assert coverage == Coverage(2 * (8 * 16) * 144)


LIGHT = {
    "relu": op.nn.relu,
    "pool": lambda x: op.nn.avg_pool2d(x, [2, 2]),
    "reshape": lambda x: op.reshape(x, [16, 36]),
    "softmax": lambda x: op.nn.softmax(x, axis=1),
    "mean": lambda x: op.mean(op.multiply(x, x), axis=[1]),
    "einsum of one": lambda x: op.einsum((x,), "nchw->nhwc"),
    "layer norm": lambda x: op.nn.layer_norm(x, const(6), const(6), axes=[-1]),
    "resize": lambda x: op.image.resize2d(x, (12, 12), method="cubic"),
}


@pytest.mark.parametrize("name", LIGHT)
def test_light_operations_are_none(name: str) -> None:
    assert found(LIGHT[name], IMAGE) == Coverage(0)


def emitted(compute: Callable[..., object], *arguments: object) -> Coverage:
    """The importer's way: operations written as loops at once."""
    builder = relax.BlockBuilder()
    inputs = [arg for arg in arguments if isinstance(arg, relax.Var)]
    with builder.function("main", inputs):
        result = builder.emit_te(compute, *arguments)
        builder.emit_func_output(result)
    return FindFallbacks(CPU)(builder.get())


def test_an_einsum_that_the_importer_wrote_as_loops() -> None:
    x, y = relax.Var("x", tensor(3, 4, 5)), relax.Var("y", tensor(3, 5, 6))
    (fallback,) = emitted(topi.einsum, "bij,bjk->bik", x, y).fallbacks
    assert (fallback.operator, fallback.flops) == ("einsum", 2 * (3 * 4 * 6) * 5)
    assert fallback.what == "3x4x5, 3x5x6 -> 3x4x6"
    assert fallback.why == "the importer wrote it as loops"


def test_an_einsum_of_unknown_extents() -> None:
    x, y = relax.Var("x", tensor(N, 4, 5)), relax.Var("y", tensor(N, 5, 6))
    (fallback,) = emitted(topi.einsum, "bij,bjk->bik", x, y).fallbacks
    assert fallback.flops is None


def test_loops_without_products_are_light() -> None:
    x = relax.Var("x", tensor(3, 4, 5))
    assert emitted(topi.sum, x, 1) == Coverage(0)
    assert emitted(topi.einsum, "bij->bi", x) == Coverage(0)
    assert emitted(topi.nn.pad, x, [0, 1, 1]) == Coverage(0)


def test_branches_and_other_functions_count() -> None:
    builder = relax.BlockBuilder()
    x, flag = relax.Var("x", tensor(3, 4, 4)), relax.Var("flag", relax.TensorType((), "bool"))
    with builder.function("main", [x, flag]):
        branch = relax.SeqExpr([], op.matmul(x, x))
        other = relax.SeqExpr([], op.nn.relu(x))
        builder.emit_func_output(builder.emit(relax.If(flag, branch, other)))
    mod = relax.transform.Normalize()(builder.get())
    (fallback,) = FindFallbacks(CPU)(mod).fallbacks
    assert fallback.operator == "matmul"


# What the nightly run alone builds: every other network of the zoo.
EVERY_TIME = {"resnet18", "resnet50", "densenet121", "inception_v3", "mobilenet_v2", "lenet"}


@pytest.mark.parametrize("name", slow_but(model_zoo.names(), EVERY_TIME))
def test_no_network_of_the_zoo_has_any(name: str) -> None:
    mod, _ = from_onnx(model_zoo.build(name))
    coverage = FindFallbacks(CPU)(fold(mod, CPU))
    assert coverage.fallbacks == ()
    assert coverage.planned_flops > 0


def test_a_broken_module_is_not_needed() -> None:
    assert FindFallbacks(CPU)(tvm.IRModule({})) == Coverage(0)
