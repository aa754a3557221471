"""Convolutions over sequences and volumes become convolutions over images.

y = conv1d(x, W)                 m = reshape(x, (N, C, 1, L))
y = relu(y)               ->     m = conv2d(m, W')
z = conv1d(y, V)                 m = relu(m)
                                 m = conv2d(m, V')
                                 z = reshape(m, (N, K, L))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tvm
from tvm import relax

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.half import BF16
from tvm_neocpu.relay_passes.ir.exprs import op_name, static_shape
from tvm_neocpu.relay_passes.ir.half_weights import half_weights
from tvm_neocpu.relay_passes.ir.rewrite import rewrite_regions
from tvm_neocpu.relay_passes.operators.table import read_call
from tvm_neocpu.relay_passes.planar import convolutions, operations, transposed
from tvm_neocpu.relay_passes.planar.view import SEQUENCE, Views

CONVOLUTIONS: dict[str, operations.Rule] = {
    "relax.nn.conv1d": convolutions.conv1d,
    "relax.nn.conv3d": convolutions.conv3d,
    "relax.nn.conv3d_transpose": transposed.conv3d_transpose,
}


@dataclass(frozen=True)
class ConvsOverImages:
    """Each conv1d and conv3d becomes a conv2d, and what follows it works on the same feature map.

    A transposed one over a volume becomes a transposed one over images.

    So batch norms fold, layouts flow and epilogues fuse from one convolution to the next, as they
    do in networks of two axes. Views in between are made where something else reads a tensor.
    Calls that an operator from outside reads are left to it.

    Needs: constants are folded.
    Leaves: no conv1d of static shape, no conv3d of static shape with a constant weight and no
    transposed one, but those that a registered form reads.
    """

    name: ClassVar[str] = "convs-over-images"
    cpu: Cpu

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        rounded = half_weights(mod) == BF16 and self.cpu.bf16 is not None
        return rewrite_regions(mod, lambda scope: _rewrite(Views(scope, rounded)))


def _rewrite(views: Views) -> None:
    scope = views.scope
    for binding in scope.region.bindings:
        value = binding.value
        made = _over_map(views, value)
        if made is None:
            scope.bind(binding.var, value)
            continue
        views.maps[binding.var] = scope.emit(made)
        shape = static_shape(binding.var)
        # A batch norm's three results: only the first is a map, taken out below.
        stands = value if shape is None else views.tensor_of(views.maps[binding.var], shape)
        scope.bind(binding.var, stands)


def _over_map(views: Views, value: relax.Expr) -> relax.Expr | None:
    """The feature map that stands for a value; ``None`` where it has none, or nobody made one."""
    name = op_name(value)
    if name in CONVOLUTIONS:
        return None if read_call(value) is not None else CONVOLUTIONS[name](views, value)
    if isinstance(value, relax.TupleGetItem):
        whole = views.maps.get(value.tuple_value)
        return None if whole is None or value.index else relax.TupleGetItem(whole, 0)
    if name in ("relax.squeeze", "relax.reshape"):
        return _squeezed(views, value)
    rule = operations.RULES.get(name)
    if rule is None or not any(views.has(operand) for operand in _tensors(views, value)):
        return None
    if static_shape(value) is None and name != "relax.nn.batch_norm":
        return None
    return rule(views, value)


def _squeezed(views: Views, call: relax.Call) -> relax.Expr | None:
    """A transposed convolution over a sequence is imported as one over an image of one row, and a
    group normalisation rewritten as one.
    """
    before, after = static_shape(call.args[0]), static_shape(call)
    if before is None or after is None or len(before) != 4 or len(after) != SEQUENCE:
        return None
    return call.args[0] if before == (*after[:2], 1, after[2]) else None


def _tensors(views: Views, call: relax.Call) -> list[relax.Expr]:
    parts = [views.scope.definition(argument) for argument in call.args]
    return [
        each
        for argument, part in zip(call.args, parts, strict=True)
        for each in (part.fields if isinstance(part, relax.Tuple) else [argument])
    ]
