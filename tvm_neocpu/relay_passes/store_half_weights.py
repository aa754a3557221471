"""Weights are stored in half precision where that makes a layer faster and a module asks for it.

y = matmul(x, w: float32)    ->    y = matmul(x, w: float16, out_dtype="float32")
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import tvm
from tvm import relax

from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.machine.half import BY_DTYPE, Half
from tvm_neocpu.core.network.equal_keys import kth_of_equal
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import FP32, HALF_WEIGHTS, Types
from tvm_neocpu.relay_passes.ir.constants import Array
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.ir.half_weights import half_layers, half_weights
from tvm_neocpu.relay_passes.ir.rewrite import Scope, rewrite_values
from tvm_neocpu.relay_passes.operators.conv2d import conv_workload, same_convolution
from tvm_neocpu.relay_passes.operators.dense import dense_workload
from tvm_neocpu.relay_passes.operators.table import read_decision
from tvm_neocpu.runtime.ffi.arrays import numpy_dtype
from tvm_neocpu.topi.cost.ranking import best_per_layout
from tvm_neocpu.topi.layer_key import layer_key
from tvm_neocpu.topi.table import implementations

# A layer is worth its rounding error if it takes at most this share of its time in fp32.
GAIN = 0.95
# Smaller weights take so little of a network's time that no error is worth it, unless the layer is
# multiplied in bf16.
MIN_BYTES = 128 * 1024
# Weights that are rounded at once: VGG-16's largest layer has 411 MB.
AT_ONCE = 1 << 20
# In which type a value of the module stores its weights, if it is a layer that does.
Choice = Callable[[relax.Expr], Half | None]


@dataclass(frozen=True)
class StoreHalfWeights:
    """A layer's kernel widens weights as it loads them, or multiplies in bf16 where the CPU can.

    A module asks for one type in every layer that gains by it, or names layers and their types.
    Which layers gain is the cost model's word: those whose time is their weights' way from memory,
    and those that an instruction for bf16 makes faster. Each is looked at alone: the layouts of its
    neighbours do not count.

    Needs: no pass after it reads or changes weights. Leaves: layers whose weights leave the type's
    range, or CPUs without instructions to widen them.
    """

    cpu: Cpu
    name: ClassVar[str] = "store-half-weights"

    def __call__(self, mod: tvm.IRModule) -> tvm.IRModule:
        half, named = half_weights(mod), half_layers(mod)
        if named:
            mod = self._stored(mod, self._as_named(mod, named))
        return mod if half is None else self._stored(mod, self._where_it_gains(half))

    def _where_it_gains(self, half: Half) -> Choice:
        (types,) = (t for t in HALF_WEIGHTS if t.weight == half.dtype)

        def choose(value: relax.Expr) -> Half | None:
            layer = dense_workload(value) or conv_workload(value)
            return half if layer is not None and gains(layer, types, self.cpu) else None

        return choose

    def _as_named(self, mod: tvm.IRModule, named: Sequence[tuple[str, str | None]]) -> Choice:
        """The k-th of equal layers is the k-th that was named."""
        keys: list[str | None] = []

        def note(scope: Scope, value: relax.Expr) -> None:
            found = read_decision(value)
            if found is not None:
                keys.append(repr(layer_key(found[1])))

        rewrite_values(mod, note)
        dtypes = iter(kth_of_equal(keys, named))

        def choose(value: relax.Expr) -> Half | None:
            found = read_decision(value)
            dtype = None if found is None else next(dtypes)
            if found is None or dtype is None or not can_be(found[1], dtype, self.cpu):
                return None
            return BY_DTYPE[dtype]

        return choose

    def _stored(self, mod: tvm.IRModule, choose: Choice) -> tvm.IRModule:
        def rule(scope: Scope, value: relax.Expr) -> relax.Expr | None:
            half = choose(value)
            if half is None:
                return None
            found = read_decision(value)
            assert found is not None, "what stores its weights so is a layer"
            data, weight = value.args
            stored = storable(weight.value.numpy(), found[1], half, self.cpu)
            return None if stored is None else _stored_so(value, data, stored)

        return rewrite_values(mod, rule)


def can_be(layer: Workload, dtype: str, cpu: Cpu) -> bool:
    """Whether a kernel computes a layer of fp32 with weights of a type of half precision."""
    return layer.types == FP32 and bool(implementations(in_half(layer, dtype), cpu))


def in_half(layer: Workload, dtype: str) -> Workload:
    """The layer with such weights."""
    (types,) = (t for t in HALF_WEIGHTS if t.weight == dtype)
    changed: Workload = replace(layer, types=types)  # type: ignore[type-var]
    return changed


def rounds_data(layer: Workload, cpu: Cpu) -> bool:
    """Whether a kernel of a layer in half precision may round its data, too."""
    return any(entry.rounds_data for entry in implementations(layer, cpu))


def noise_growth(layer: Workload, cpu: Cpu) -> float:
    """The noise power of a layer in half precision over that of rounded weights, at most."""
    return max(entry.noise_growth(layer) for entry in implementations(layer, cpu))


def storable(weight: Array, layer: Workload, half: Half, cpu: Cpu) -> Array | None:
    """The weight of a layer of fp32 in half precision; ``None`` where it leaves the type's range.

    So it does where what a kernel makes of it may.
    """
    narrow = in_half(layer, half.dtype)
    entries = implementations(narrow, cpu)
    scales = {scale for entry in entries for scale in entry.weight_scales(narrow)} - {1.0}
    if any(rounded(weight * np.float32(scale), half) is None for scale in scales):
        return None
    return rounded(weight, half)


def gains(layer: Workload, types: Types, cpu: Cpu) -> bool:
    """Whether a layer of fp32 is faster with weights of these types, by prediction."""
    if layer.types != FP32:
        return False
    narrow: Workload = replace(layer, types=types)  # type: ignore[type-var]
    if layer.weight_bytes < MIN_BYTES and not rounds_data(narrow, cpu):
        return False
    before, after = (best_per_layout(each, cpu) for each in (layer, narrow))
    return bool(before and after) and after[0].seconds <= GAIN * before[0].seconds


def rounded(weight: Array, half: Half) -> Array | None:
    """The weight in half precision; ``None`` where it leaves the type's range.

    Weights below the smallest normal number lose digits: the error of all together, root mean
    square, is at most that of a number within the range.
    """
    stored = np.empty(weight.shape, numpy_dtype(half.dtype))
    lost = signal = 0.0
    flat, out = np.ascontiguousarray(weight).reshape(-1), stored.reshape(-1)
    for start in range(0, flat.size, AT_ONCE):
        part = flat[start : start + AT_ONCE]
        if not np.abs(part).max() <= half.largest:  # NaN is not
            return None
        out[start : start + AT_ONCE] = part
        lost += _power(part - out[start : start + AT_ONCE].astype("float32"))
        signal += _power(part)
    return stored if lost <= half.rounding**2 * signal else None


def _power(values: Array) -> float:
    return float(np.einsum("i,i->", values, values, dtype="float64"))


def _stored_so(call: relax.Call, data: relax.Expr, weight: Array) -> relax.Expr:
    constant = relax.const(tvm.runtime.tensor(weight))
    if op_name(call) == "relax.matmul":
        return relax.op.matmul(data, constant, out_dtype="float32")
    return same_convolution(call, data, constant, out_dtype="float32")
