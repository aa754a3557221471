"""1x1 convolutions of a plain image, as matrix products over its pixels.

Where the image comes in plain and the result leaves plain, the pixels lie side by side as they are,
and fill the vectors in place of the channels. No layout is changed; blocks of 33 channels, which
fill no vector, leave no dead ones to slice away::

    y = relu(conv2d(x, w) + b)    ->    p = relu(matmul(w, reshape(x, (N, C, H * W))) + b)
                                        y = reshape(p)

Groups are products of their own, over (N, G, C/G, H * W).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import FP32
from tvm_neocpu.relay_passes.channels.padded_widths import padded_output
from tvm_neocpu.relay_passes.ir.constants import constant_of
from tvm_neocpu.relay_passes.ir.exprs import op_name, over_variables, static_shape, variables
from tvm_neocpu.relay_passes.ir.regions import Region
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_regions
from tvm_neocpu.relay_passes.layouts.elementwise import BINARY, UNARY
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload
from tvm_neocpu.relay_passes.operators.new.batch_matmul import batch_matmul
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.cost.moves import FAR_BYTES_PER_CYCLE, moving_seconds
from tvm_neocpu.topi.cost.ranking import best_per_layout, ranked

# A product predicted to take this share of the convolution's time is as slow as it when measured.
EQUAL = 0.97


@dataclass(frozen=True)
class PlainProducts:
    """A conv2d of one tap, from a tensor that its region is given to one that leaves it.

    Only elementwise operations with constants may stand between it and the region's end.

    Needs: weights are constants; linear operations are folded.
    Leaves: ``matmul`` calls that no dense layer matches; convolutions that are faster, by
    prediction.
    """

    name: ClassVar[str] = "plain-products"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        return rewrite_regions(mod, self._rewrite)

    def _rewrite(self, scope: Scope) -> None:
        flat: dict[relax.Var, relax.Var] = {}
        last: set[relax.Var] = set()
        for binding in scope.region.bindings:
            var, value = binding.var, binding.value
            conv = conv_workload(value)
            if conv is not None and value.args[0] in scope.region.inputs:
                chain = lone_chain(scope.region, var)
                if chain and pays(conv, self.cpu):
                    flat[var] = scope.emit(_product(scope, value, conv))
                    last.add(chain[-1])
            elif any(each in flat for each in variables(value)):
                flat[var] = scope.emit(_over_rows(value, flat))
            if var in last:  # what leaves the region may be read in it, too
                scope.bind(var, relax.op.reshape(flat.pop(var), static_shape(var)))
            elif var not in flat:
                scope.bind(var, value)


def lone_chain(region: Region, first: relax.Var) -> list[relax.Var]:
    """The variables from ``first`` to one that leaves the region, each made of the one before it.

    None where something else reads one of them, or where an operation is not elementwise.
    """
    chain = [first]
    while chain[-1] not in region.outputs:
        readers = region.readers.get(chain[-1], ())
        if len(readers) != 1 or not _is_elementwise(readers[0].value):
            return []
        chain.append(readers[0].var)
    return chain if all(region.uses[var] == 1 for var in chain[:-1]) else []


def _is_elementwise(value: relax.Expr) -> bool:
    """Whether it is an elementwise operation of one tensor and of constants for each channel."""
    if op_name(value) not in UNARY | BINARY or len(list(_tensors(value))) != 1:
        return False
    shapes = [arg.value.numpy().shape for arg in value.args if isinstance(arg, GenericConst)]
    return all(shape[-2:] in ((1, 1), ()) or np.prod(shape) == 1 for shape in shapes)


def _tensors(value: relax.Call) -> Iterator[relax.Var]:
    return (arg for arg in value.args if isinstance(arg, relax.Var))


def pays(conv: ConvWorkload, cpu: Cpu) -> bool:
    """Whether the product is predicted to take less than the convolution and its transforms."""
    lanes = cpu.unit(conv.types.accumulator).full_rate_lanes
    of_pixels = conv.is_pointwise and conv.types == FP32
    if not of_pixels or conv.out_channels // conv.groups < lanes:
        return False
    if conv.height * conv.width == 1:  # which fills no vector, and has one layout
        return False
    shapes = _shapes(conv)
    axes = [tuple(range(len(shape))) for shape in shapes]
    product = ranked(MatmulWorkload(*shapes, *axes), cpu)[0].seconds
    wide = conv
    if conv.groups == 1:
        wide = replace(conv, out_channels=padded_output(conv, cpu, by_lanes=False))
    blocked = best_per_layout(wide, cpu)[0].seconds + moving_seconds(wide, FAR_BYTES_PER_CYCLE, cpu)
    if wide.out_channels > conv.out_channels:
        blocked += sliced_seconds(conv, cpu)
    return product < EQUAL * blocked


def sliced_seconds(conv: ConvWorkload, cpu: Cpu) -> float:
    """Seconds of the pass that drops dead channels: it reads and writes the result, and forks."""
    cycles = 2 * conv.out_bytes / FAR_BYTES_PER_CYCLE / cpu.cores
    return cycles / (cpu.ghz * 1e9) + (cpu.fork_join if cpu.cores > 1 else 0.0)


def _shapes(conv: ConvWorkload) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Weights (G, K/G, C/G) and an image (N, G, C/G, H * W); neither has G where that is 1."""
    groups = (conv.groups,) if conv.groups > 1 else ()
    channels = conv.in_channels // conv.groups
    weight = (*groups, conv.out_channels // conv.groups, channels)
    return weight, (conv.batch, *groups, channels, conv.height * conv.width)


def _product(scope: Scope, call: relax.Call, conv: ConvWorkload) -> relax.Call:
    left, right = _shapes(conv)
    image = scope.emit(relax.op.reshape(call.args[0], right))
    weight = constant_of(call.args[1].value.numpy().reshape(left))
    return batch_matmul(weight, image, [*range(len(left))], [*range(len(right))])


def _over_rows(value: relax.Call, flat: dict[relax.Var, relax.Var]) -> relax.Expr:
    """The operation over (N, [G,] K/G, H * W); a constant (K, 1, 1) becomes ([G,] K/G, 1)."""
    shape = next(static_shape(flat[var]) for var in variables(value) if var in flat)
    assert shape is not None
    channels = shape[1:-1]

    def narrowed(arg: relax.Expr) -> relax.Expr:
        if not isinstance(arg, GenericConst) or arg.value.numpy().ndim < 2:
            return arg
        array = arg.value.numpy()
        own = channels if array.shape[-3:-2] == (math.prod(channels),) else (1,) * len(channels)
        return constant_of(array.reshape(*array.shape[:-3], *own, 1))

    args = [narrowed(arg) for arg in value.args]
    call = relax.Call(value.op, args, value.attrs, value.ty_args)
    return over_variables(call, lambda var: flat.get(var, var))


__all__ = ["PlainProducts", "lone_chain", "pays"]
