"""One workload under one config as a function of its own: what tuning times and benchmarks run.

The epilogue is the usual one, so that its registers and stores are measured too: bias and ReLU; of
integers bias, scale, rounding and saturation to uint8.
"""

from __future__ import annotations

from tvm import te, tirx

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.network.candidate import layouts_of
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Operand, Role, Shape, Workload
from tvm_neocpu.topi.math.half_precision import PACKED_TYPES
from tvm_neocpu.topi.operator import Implementation
from tvm_neocpu.topi.schedule_function import schedule_function
from tvm_neocpu.topi.table import implementation_of

# What integer products are summed in.
SUMS = "int32"
# Of a stored feature map (N, C/x, H, W, x) or (N, C, H, W).
SPATIAL_AXES = (2, 3)


def kernel(workload: Workload, config: Config, cpu: Cpu) -> tirx.PrimFunc:
    """A scheduled function of (operands..., bias, output), or of (operands..., output).

    All tensors are as the config stores them. Raises ConfigError where no implementation of that
    name is registered.
    """
    return schedule_function(unscheduled(workload, config), cpu)


def unscheduled(workload: Workload, config: Config) -> tirx.PrimFunc:
    """The same, as its template computes it. What has no weight has no epilogue either."""
    entry = implementation_of(config)
    tensors = [
        te.placeholder(
            stored_shape(operand, entry, workload, config),
            stored_type(operand, entry),
            operand.name,
        )
        for operand in workload.operands
    ]
    result = entry.compute(*tensors, workload, config)
    if entry.packed_shape is None:
        return te.create_prim_func([*tensors, result])
    bias = te.placeholder(_bias_shape(result), result.dtype, "bias")
    biased = te.compute(result.shape, lambda *at: result(*at) + bias(*_of_bias(at)), name="T_add")
    if result.dtype == SUMS:
        scale = te.placeholder(_bias_shape(result), "float32", "scale")
        return te.create_prim_func([*tensors, bias, scale, _requantized(biased, scale)])
    zero = tirx.const(0, result.dtype)
    output = te.compute(result.shape, lambda *at: tirx.Max(zero, biased(*at)), name="T_relu")
    return te.create_prim_func([*tensors, bias, output])


def _requantized(sums: te.Tensor, scale: te.Tensor) -> te.Tensor:
    """uint8 of zero point 0: what follows a quantised convolution and its ReLU."""
    low, high = (tirx.const(float(bound), "float32") for bound in (0, 255))

    def element(*at: tirx.Var) -> tirx.Expr:
        value = tirx.round(sums(*at).astype("float32") * scale(*_of_bias(at)))
        return tirx.Min(tirx.Max(value, low), high).astype("uint8")

    return te.compute(sums.shape, element, name="T_requantize")


def stored_shape(
    operand: Operand, entry: Implementation, workload: Workload, config: Config
) -> Shape:
    """The shape in which the config reads an operand."""
    if operand.role is Role.FEATURE_MAP:
        batch, channels, height, width = operand.shape
        return layouts_of(config)[0].shape_of((batch, channels, height, width))
    if operand.role is Role.WEIGHT and entry.packed_shape is not None:
        return entry.packed_shape(workload, config)
    return operand.shape


def stored_type(operand: Operand, entry: Implementation) -> str:
    """The element type in which an implementation reads an operand: of bf16 the bits."""
    if operand.role is Role.WEIGHT:
        return entry.packed_type(operand.dtype)
    return PACKED_TYPES.get(operand.dtype, operand.dtype)


def _bias_shape(result: te.Tensor) -> list[int]:
    """One value a channel: (1, C/x, 1, 1, x) of a feature map, (O,) of a matrix (N, O)."""
    shape = [int(extent) for extent in result.shape]
    if len(shape) == 2:
        return shape[1:]
    return [1 if axis in (0, *SPATIAL_AXES) else extent for axis, extent in enumerate(shape)]


def _of_bias(at: tuple[tirx.Var, ...]) -> tuple[tirx.Expr | int, ...]:
    if len(at) == 2:
        return at[1:]
    return tuple(0 if axis in (0, *SPATIAL_AXES) else index for axis, index in enumerate(at))
