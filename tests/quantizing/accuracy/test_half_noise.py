"""Noise of half precision: bf16's is measured, powers add, and fp16's follows from bf16's."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tvm_neocpu.core.machine.half import BF16, FP16, Half
from tvm_neocpu.quantizing.accuracy.compare import compare
from tvm_neocpu.quantizing.accuracy.half_noise import in_type, measure_bf16
from tvm_neocpu.quantizing.rewriting.choose_nodes import layers_of
from tvm_neocpu.quantizing.rewriting.in_half import in_half, rounded
from tvm_neocpu.quantizing.rewriting.prepare import prepare

Samples = list[dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def ready(network: onnx.ModelProto) -> onnx.ModelProto:
    return prepare(network, "net")


def names(model: onnx.ModelProto) -> list[str]:
    return [node.name for node in layers_of(model.graph)]


@pytest.mark.parametrize("rounds_data", [False, True])
def test_powers_add(ready: onnx.ModelProto, samples: Samples, rounds_data: bool) -> None:
    layers = names(ready)
    powers = measure_bf16(ready, dict.fromkeys(layers, rounds_data), samples)
    assert powers.keys() == {*layers} and min(powers.values()) > 0
    for chosen in (layers, layers[::2], layers[1::2], layers[:1], layers[-1:]):
        halves = dict.fromkeys(chosen, BF16.dtype)
        changed = in_half(ready, halves, chosen if rounds_data else ())
        measured = compare(ready, changed, samples).error
        predicted = sum(powers[name] for name in chosen) ** 0.5
        assert measured / 1.5 < predicted < measured * 1.5, chosen
        if len(chosen) == 1:
            assert predicted == pytest.approx(measured, rel=1e-3)


def test_rounding_data_adds_noise(ready: onnx.ModelProto, samples: Samples) -> None:
    stored, computed = (
        measure_bf16(ready, dict.fromkeys(names(ready), data), samples) for data in (False, True)
    )
    assert sum(computed.values()) > 1.3 * sum(stored.values())


def test_types_differ_by_their_roundoff(ready: onnx.ModelProto, samples: Samples) -> None:
    layers = names(ready)
    bf16 = sum(measure_bf16(ready, dict.fromkeys(layers, False), samples).values())
    measured = compare(ready, in_half(ready, dict.fromkeys(layers, FP16.dtype)), samples).error
    predicted = in_type(bf16, FP16.dtype) ** 0.5
    assert measured / 1.5 < predicted < measured * 1.5
    assert in_type(bf16, BF16.dtype) == bf16


@pytest.mark.parametrize("half", [BF16, FP16], ids=lambda half: half.dtype)
@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
def test_the_power_of_a_rounding(half: Half, spread: float) -> None:
    """u^2 / 5.6 of the signal's for normal values, whatever their spread."""
    values = np.random.default_rng(3).normal(scale=spread, size=100_000).astype("float32")
    lost = rounded(values, half.dtype) - values
    power = float(np.sum(np.square(lost)) / np.sum(np.square(values)))
    assert power == pytest.approx(half.rounding**2 / 5.6, rel=0.05)


def test_a_weight_that_two_layers_read(ready: onnx.ModelProto, samples: Samples) -> None:
    """The other one keeps it in fp32."""
    changed = in_half(ready, {names(ready)[0]: "bfloat16"})
    before, after = (layers_of(model.graph) for model in (ready, changed))
    assert after[0].input[1] != before[0].input[1]
    assert {t.name for t in ready.graph.initializer} < {t.name for t in changed.graph.initializer}


def test_a_kernel_that_makes_more_noise(ready: onnx.ModelProto, samples: Samples) -> None:
    layer = names(ready)[0]
    plain, more = (
        compare(ready, in_half(ready, {layer: "float16"}, (), growths), samples).error
        for growths in ({}, {layer: 53.0})
    )
    assert more == pytest.approx(53**0.5 * plain, rel=0.05)


def test_no_layers(ready: onnx.ModelProto, samples: Samples) -> None:
    assert measure_bf16(ready, {}, samples) == {}
