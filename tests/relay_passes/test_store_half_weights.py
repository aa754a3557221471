"""Layers that wait for memory store weights in half precision, if the module asks for it."""

from __future__ import annotations

from collections.abc import Hashable

import ml_dtypes
import numpy as np
import pytest
import tvm
from one_function import module_of
from tvm import relax

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.machine.dot import VDPBF16PS
from tvm_neocpu.core.machine.half import BF16, FP16
from tvm_neocpu.core.types import BF16_WEIGHTS, FP16_WEIGHTS
from tvm_neocpu.relay_passes.ir.half_weights import (
    half_weights,
    with_half_layers,
    with_half_weights,
)
from tvm_neocpu.relay_passes.store_half_weights import MIN_BYTES, StoreHalfWeights, gains, rounded
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.layer_key import layer_key

CPU = Cpu("haswell", AVX2, 1)
RNG = np.random.default_rng(0)
WEIGHT = RNG.normal(size=(2048, 1024)).astype("float32")
SQUARE = RNG.normal(size=(96, 96)).astype("float32")


def dense(weight: np.ndarray, rows: int = 1, **attrs: str) -> tvm.IRModule:
    constant = relax.const(tvm.runtime.tensor(weight))

    def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return relax.op.matmul(x, constant, **attrs)

    data = "float64" if weight.dtype == np.float64 else "float32"
    return module_of((rows, weight.shape[0]), build, data)


def conv(weight: np.ndarray, **attrs: str) -> tvm.IRModule:
    constant = relax.const(tvm.runtime.tensor(weight))

    def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        padding = [1, 0, 1, 2]
        return relax.op.nn.conv2d(x, constant, padding=padding, strides=[2, 1], **attrs)

    return module_of((1, weight.shape[1], 3, 3), build)


def passed(mod: tvm.IRModule, dtype: str | None) -> tvm.IRModule:
    return StoreHalfWeights(CPU)(mod if dtype is None else with_half_weights(mod, dtype))


@pytest.mark.parametrize(("dtype", "kind"), [("float16", "float16"), ("bfloat16", None)])
def test_dense(dtype: str, kind: str | None) -> None:
    expected = dense(WEIGHT.astype(kind or ml_dtypes.bfloat16), out_dtype="float32")
    tvm.ir.assert_structural_equal(passed(dense(WEIGHT), dtype)["main"], expected["main"])


def test_a_convolution_of_few_pixels() -> None:
    weight = RNG.normal(size=(1024, 512, 3, 3)).astype("float32")
    expected = conv(weight.astype("float16"), out_dtype="float32")
    tvm.ir.assert_structural_equal(passed(conv(weight), "float16")["main"], expected["main"])


@pytest.mark.parametrize(
    ("mod", "dtype"),
    [
        (dense(WEIGHT), None),
        (dense(WEIGHT[:64, :64]), "float16"),
        (dense(WEIGHT, rows=256), "float16"),
        (dense(WEIGHT * 1e5), "float16"),
        (dense(WEIGHT * 1e-7), "float16"),
        (dense(np.where(WEIGHT > 4, np.inf, WEIGHT).astype("float32")), "bfloat16"),
        (dense(np.where(WEIGHT > 4, np.nan, WEIGHT).astype("float32")), "float16"),
        (dense(WEIGHT.astype("float64")), "float16"),
    ],
    ids=[
        "not asked",
        "in the caches",
        "many rows",
        "too large",
        "too small",
        "infinite",
        "NaN",
        "doubles",
    ],
)
def test_stays(mod: tvm.IRModule, dtype: str | None) -> None:
    tvm.ir.assert_structural_equal(passed(mod, dtype)["main"], mod["main"])


def test_large_weights_fit_bf16() -> None:
    expected = dense((WEIGHT * 1e5).astype(ml_dtypes.bfloat16), out_dtype="float32")
    found = passed(dense(WEIGHT * np.float32(1e5)), "bfloat16")
    tvm.ir.assert_structural_equal(found["main"], expected["main"])


def test_the_request_outlives_a_pass() -> None:
    found = passed(dense(WEIGHT), "float16")
    assert half_weights(found) == FP16
    assert half_weights(dense(WEIGHT)) is None


def test_rounding_is_to_the_nearest() -> None:
    weight = RNG.normal(size=(1500, 1500)).astype("float32")
    for half, kind in ((FP16, np.float16), (BF16, ml_dtypes.bfloat16)):
        found = rounded(weight, half)
        assert found is not None
        np.testing.assert_array_equal(found, weight.astype(kind))


def test_only_memory_makes_it_worth_it() -> None:
    for types in (FP16_WEIGHTS, BF16_WEIGHTS):
        assert gains(DenseWorkload(1, 4096, 4096), types, CPU)
        assert not gains(DenseWorkload(512, 4096, 4096), types, CPU)
        assert not gains(ConvWorkload(1, 64, 56, 56, 64, (1, 1)), types, CPU)
        # A CPU that cannot widen them.
        assert not gains(DenseWorkload(1, 4096, 4096), types, Cpu("core2", AVX2, 1, halves=()))


def test_few_weights_are_worth_it_only_where_they_are_multiplied_in_bf16() -> None:
    zen_4 = Cpu("znver4", AVX512, 1, dots=(VDPBF16PS,))
    layer = ConvWorkload(1, 64, 56, 56, 64, (3, 3), groups=4)
    product = DenseWorkload(1, 64, 256)
    assert layer.weight_bytes < MIN_BYTES and product.weight_bytes < MIN_BYTES
    assert gains(layer, BF16_WEIGHTS, zen_4)
    assert not gains(product, BF16_WEIGHTS, zen_4)


def two_layers() -> tvm.IRModule:
    """Equal in all but their weights."""
    first, second = (relax.const(tvm.runtime.tensor(w)) for w in (SQUARE, -SQUARE))

    def build(builder: relax.BlockBuilder, x: relax.Var) -> relax.Expr:
        return relax.op.matmul(builder.emit(relax.op.matmul(x, first)), second)

    return module_of((64, SQUARE.shape[0]), build)


def half_weights_of(mod: tvm.IRModule) -> list[str]:
    """The type of every layer's weight in their order."""
    (block,) = mod["main"].body.blocks
    calls = [b.value for b in block.bindings if isinstance(b.value, relax.Call)]
    return [str(call.args[1].ty.dtype) for call in calls]


KEY = layer_key(DenseWorkload(64, 96, 96))


@pytest.mark.parametrize(
    ("named", "wanted"),
    [
        ([(KEY, None), (KEY, "float16")], ["float32", "float16"]),
        ([(KEY, "bfloat16"), (KEY, "float16")], ["bfloat16", "float16"]),
        ([(KEY, "float16"), (("conv",), "float16"), (KEY, None)], ["float16", "float32"]),
        # Which of three they are is not known.
        ([(KEY, "float16")] * 3, ["float32", "float32"]),
    ],
)
def test_layers_that_are_named(named: list[tuple[Hashable, str | None]], wanted: list[str]) -> None:
    """Whether they gain was asked before."""
    found = StoreHalfWeights(CPU)(with_half_layers(two_layers(), named))
    assert half_weights_of(found) == wanted


def test_named_layers_that_cannot_stay() -> None:
    named = [(KEY, "float16"), (KEY, "float16")]
    cannot_widen = Cpu("core2", AVX2, 1, halves=())
    found = StoreHalfWeights(cannot_widen)(with_half_layers(two_layers(), named))
    assert half_weights_of(found) == ["float32", "float32"]
