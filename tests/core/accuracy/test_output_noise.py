"""The additive noise model: what counts once, and who goes first."""

from __future__ import annotations

import math

import pytest

from tvm_neocpu.core.accuracy.output_noise import OutputNoise, relative_error, sqnr

# a -> t -> b, a third layer c beside them.
NOISE = OutputNoise(
    powers={"wa": 1.0, "wb": 2.0, "wc": 9.0, "t": 4.0},
    needs={
        "a": frozenset({"wa", "t"}),
        "b": frozenset({"t", "wb"}),
        "c": frozenset({"wc"}),
    },
    gains={"a": 1.0, "b": 1.0, "c": 100.0},
)


def test_a_tensor_between_two_layers_counts_once() -> None:
    assert NOISE.of(["a"]) == 5.0 and NOISE.of(["b"]) == 6.0
    assert NOISE.of(["a", "b"]) == 7.0
    assert NOISE.of(["a", "b", "c"]) == 16.0
    assert NOISE.of([]) == 0.0


def test_the_worst_layer_saves_most_noise_for_its_cost() -> None:
    assert NOISE.worst(["a", "b", "c"]) == "b"  # 2 + 4/2; c is noisier, and a hundred times dearer
    assert NOISE.worst(["a", "c"]) == "a"
    cheap = OutputNoise(NOISE.powers, NOISE.needs, {"a": 1.0, "b": 1.0, "c": 1.0})
    assert cheap.worst(["a", "b", "c"]) == "c"


def test_decibels_and_relative_errors() -> None:
    assert sqnr(1.0, 0.01) == pytest.approx(20.0)
    assert relative_error(1.0, 0.01) == pytest.approx(0.1)
    assert sqnr(1.0, 0.0) == math.inf and relative_error(1.0, 0.0) == 0.0
    assert sqnr(0.0, 1.0) == -math.inf and relative_error(0.0, 1.0) == math.inf
    assert relative_error(0.0, 0.0) == 0.0
