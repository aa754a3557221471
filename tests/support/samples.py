"""Random operands of a workload, stored as a config reads them, and a template run on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import tvm
from tvm import te, tirx, topi
from tvm.ir.transform import PassContext

from tvm_neocpu.codegen.kernels import build_module
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.dot import ANY_WEIGHTS
from tvm_neocpu.core.machine.half import BY_DTYPE
from tvm_neocpu.core.network.candidate import has_blocks, layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.workload import Operand, Role, Workload
from tvm_neocpu.core.types import BF16_WEIGHTS, HALF_WEIGHTS
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.operator import Implementation
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.table import implementation_of, operator_of
from tvm_neocpu.topi.tir.functions.in_place import written_over

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
# (scheduled function, inputs, the output's shape and type) -> the output
Execute = Callable[[tirx.PrimFunc, list[Array], Shape, str], Array]

HOST = parse_target()
# Largest error over the largest output, by the type that products are summed in.
TOLERANCE = {"float32": 1e-4, "float64": 1e-12, "int32": 0.0, "uint8": 0.0}


@dataclass(frozen=True)
class Epilogue:
    """What is fused behind a template: shapes of further inputs, the stages, the same in NumPy.

    ``types`` are those of the further inputs and, last, of the result; the workload's without any.
    """

    inputs: Callable[[Shape], list[Shape]] = lambda shape: []
    stages: Callable[..., te.Tensor] = lambda y: y
    expected: Callable[..., Array] = lambda y: y
    types: tuple[str, ...] = ()


def per_channel(shape: Shape) -> Shape:
    """A bias of (N, K/x, H, W, x) is (1, K/x, 1, 1, x); of a dense layer's (N, O) it is (1, O)."""
    return tuple(1 if axis in (0, 2, 3) else extent for axis, extent in enumerate(shape))


def requantized(total: te.Tensor, scale: te.Tensor, *residual: te.Tensor) -> te.Tensor:
    """uint8 of sums: a scale for each channel, a residual of zero point 3, ReLU, zero point 5."""
    value = topi.multiply(topi.cast(total, "float32"), scale)
    for other in residual:
        value = topi.add(value, topi.multiply(topi.cast(other, "float32") - 3.0, 0.25))
    rounded = topi.add(topi.round(topi.nn.relu(value)), 5.0)
    return topi.cast(topi.clip(rounded, 0.0, 255.0), "uint8")


def requantized_by_numpy(total: Array, scale: Array, *residual: Array) -> Array:
    """The same; every operation rounds to float32 as the template's does."""
    value = total.astype("float32") * scale
    for other in residual:
        value = value + (other.astype("float32") - np.float32(3)) * np.float32(0.25)
    return np.clip(np.rint(np.maximum(value, 0)) + 5, 0, 255).astype("uint8")


NOTHING = Epilogue()
BIAS = Epilogue(lambda shape: [per_channel(shape)], topi.add, np.add)


@dataclass(frozen=True)
class Sample:
    """What goes in and what must come out, both stored as the config wants them."""

    inputs: list[Array]
    expected: Array


def sample(workload: Workload, config: Config, rng: np.random.Generator) -> Sample:
    """Random operands, and what the operator's NumPy reference makes of them."""
    entry = implementation_of(config)
    operands = [drawn(o.shape, o.dtype, rng) for o in workload.operands]
    if isinstance(workload, ConvWorkload) and workload.weight_bits < ANY_WEIGHTS:
        most = 1 << (workload.weight_bits - 1)
        operands[1] = np.clip(operands[1], -most, most)
    if workload.types == BF16_WEIGHTS:
        # Some templates round data, too.
        operands[0] = operands[0].astype(ml_dtypes.bfloat16).astype("float32")
    expected = operator_of(workload).reference(workload, *operands)
    if has_blocks(config):
        expected = stored(expected, layouts_of(config)[1])
    pairs = zip(workload.operands, operands, strict=True)
    return Sample([as_read(*pair, entry, workload, config) for pair in pairs], expected)


def drawn(shape: Shape, dtype: str, rng: np.random.Generator) -> Array:
    """Normal numbers, or integers of which a third are the extremes of their type.

    16 bits hold differences of two bytes, and 32 bits a bias.
    """
    if dtype == "bfloat16":
        return rng.normal(size=shape).astype(ml_dtypes.bfloat16)
    if np.issubdtype(dtype, np.floating):
        return rng.normal(size=shape).astype(dtype)
    low, high = _RANGES[dtype]
    anywhere = rng.integers(low, high, shape, endpoint=True)
    return np.where(rng.random(shape) < 1 / 3, rng.choice([low, high], shape), anywhere).astype(
        dtype
    )


_RANGES = {"uint8": (0, 255), "int8": (-128, 127), "int16": (-255, 255), "int32": (-9999, 9999)}


def as_read(
    operand: Operand, array: Array, entry: Implementation, workload: Workload, config: Config
) -> Array:
    """A logical operand as the config reads it."""
    if operand.role is Role.FEATURE_MAP:
        return stored(array, layouts_of(config)[0])
    if operand.role is Role.WEIGHT and entry.pack_weight is not None:
        packed = entry.pack_weight(array, workload, config)
        assert packed.shape == entry.packed_shape(workload, config)
        return packed
    return array


def stored(x: Array, layout: Layout) -> Array:
    """An NCHW tensor as it lies in memory in a layout."""
    if not layout.is_blocked:
        return x
    n, c, h, w = x.shape
    split = x.reshape(n, c // layout.block, layout.block, h, w)
    return np.ascontiguousarray(split.transpose(0, 1, 3, 4, 2))


def check(
    workload: Workload,
    config: Config,
    cpu: Cpu,
    epilogue: Epilogue = NOTHING,
    execute: Execute | None = None,
) -> None:
    """Compile the template with the epilogue behind it, as ``FuseTIR`` would, and compare.

    The schedule is that of ``cpu``; ``execute`` compiles and runs it, for this machine without one.
    """
    rng = np.random.default_rng(0)
    case = sample(workload, config, rng)
    *kinds, output = epilogue.types or [workload.types.output]
    inputs = [placeholder(array, f"p{at}") for at, array in enumerate(case.inputs)]
    out = implementation_of(config).compute(*inputs, workload, config)
    assert tuple(out.shape) == case.expected.shape
    shapes = epilogue.inputs(case.expected.shape)
    extras = [
        drawn(shape, kind, rng)
        for shape, kind in zip(shapes, kinds or [output] * len(shapes), strict=True)
    ]
    more = [placeholder(array, f"extra{at}") for at, array in enumerate(extras)]
    func = te.create_prim_func([*inputs, *more, epilogue.stages(out, *more)])
    expected = epilogue.expected(case.expected, *extras)
    scheduled = schedule_function(func, cpu)
    got = (execute or run)(scheduled, [*case.inputs, *extras], expected.shape, output)
    noise = noise_of(workload, config) * np.abs(case.expected).max()
    wanted = expected
    if noise:
        # A gate's results are smaller than the sums, and change as much as its slope says.
        moved = [epilogue.expected(case.expected + by, *extras) for by in (-noise, noise)]
        reach = np.maximum(*(np.abs(other - expected) for other in moved))
        wanted = np.clip(got, expected - reach, expected + reach)
    assert_close(got, wanted, TOLERANCE[workload.types.accumulator])
    assert got.dtype == expected.dtype
    if execute is None:
        for at in range(len(case.inputs), len(func.params) - 1):
            check_over(scheduled, [*case.inputs, *extras], at, got)


def check_over(func: tirx.PrimFunc, arrays: list[Array], at: int, expected: Array) -> None:
    """What a scheduled function writes over one of its arguments is what it writes elsewhere."""
    written = written_over(func, at)
    if written is None:
        return
    result = tvm.runtime.tensor(arrays[at].copy())
    others = [tvm.runtime.tensor(array) for place, array in enumerate(arrays) if place != at]
    compiled(written)(*others, result)
    np.testing.assert_array_equal(result.numpy(), expected)


def noise_of(workload: Workload, config: Config) -> float:
    """What rounding transformed operands adds to the sums of a template that does so.

    In fp16 weights, in bf16 data, too. As a share of the largest sum: that noise is normal, in
    proportion to each sum's own size; six deviations of it.
    """
    if workload.types not in HALF_WEIGHTS:
        return 0.0
    entry = implementation_of(config)
    growth = entry.noise_growth(workload) * (1 + entry.rounds_data)
    rounding = BY_DTYPE[workload.types.weight].rounding
    is_kept = entry.noise_growth(workload) == 1
    return 0.0 if is_kept else 6 * rounding / 5.6**0.5 * growth**0.5


def placeholder(array: Array, name: str) -> te.Tensor:
    return te.placeholder(array.shape, str(array.dtype), name)


def run(func: tirx.PrimFunc, arrays: list[Array], shape: Shape, dtype: str) -> Array:
    """The output of a scheduled function on this machine."""
    got = tvm.runtime.tensor(unwritten(shape, dtype))
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    compiled(func)(*tensors, got)
    return got.numpy()


def compiled(func: tirx.PrimFunc) -> Callable[..., None]:
    """A function as a build compiles it, for this machine.

    It checks no arguments; here this is done for it. A third of a small kernel's compilation were
    its own checks, and passes that no build runs.
    """
    named = func.with_attr("global_symbol", "main")
    module = build_module({"main": named}, HOST.target, PassContext.current())
    call, wanted = module["main"], [form_of(param) for param in func.params]

    def checked(*arguments: Any) -> None:
        assert [form_of(argument) for argument in arguments] == wanted
        call(*arguments)

    return checked


def form_of(value: Any) -> tuple[Shape, str] | None:
    """Shape and type of a tensor or of a parameter; ``None`` of a number."""
    if not hasattr(value, "shape"):
        return None
    return tuple(map(int, value.shape)), str(value.dtype)


def unwritten(shape: Shape, dtype: str) -> Array:
    """What an output holds where nothing was written: NaN, or what no sum is likely to be."""
    nothing = np.nan if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).max - 100
    return np.full(shape, nothing, dtype)


def assert_close(found: Array, expected: Array, tolerance: float) -> None:
    """Equal up to a share of the largest value."""
    if tolerance == 0:
        np.testing.assert_array_equal(found, expected)
        return
    bound = tolerance * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound, equal_nan=False)
