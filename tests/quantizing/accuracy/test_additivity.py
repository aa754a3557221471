"""The additive noise model against measurement, on networks small enough to measure subsets."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tvm_neocpu.core.accuracy.output_noise import OutputNoise
from tvm_neocpu.quantizing.accuracy.compare import compare
from tvm_neocpu.quantizing.accuracy.meet_bound import BoundError, meet_bound
from tvm_neocpu.quantizing.accuracy.sensitivity import measure_noise
from tvm_neocpu.quantizing.calibration.observe import observe_extremes
from tvm_neocpu.quantizing.rewriting.choose_nodes import (
    activations_of,
    choose_nodes,
    layers_of,
)
from tvm_neocpu.quantizing.rewriting.prepare import prepare
from tvm_neocpu.quantizing.rewriting.write_qdq import write_qdq

Samples = list[dict[str, np.ndarray]]


def test_powers_add(network: onnx.ModelProto, samples: Samples) -> None:
    """Predicted and measured errors agree within a factor of 1.5, for all layers and for halves."""
    model = prepare(network, "net")
    everything = choose_nodes(model.graph)
    ranges = observe_extremes(model, samples, activations_of(model.graph, everything))
    ranges = {name: kept.with_zero() for name, kept in ranges.items()}

    def write(chosen: list[str]) -> onnx.ModelProto:
        return write_qdq(model, ranges, chosen, per_channel=True)

    gains = dict.fromkeys(everything, 1.0)
    noise = measure_noise(model, write(everything), everything, gains, samples)
    layers = [node.name for node in layers_of(model.graph)]
    for excluded in ([], layers[::2], layers[1::2], layers[:4], layers[3:]):
        chosen = choose_nodes(model.graph, excluded)
        measured = compare(model, write(chosen), samples).error
        predicted = noise.of(chosen) ** 0.5
        assert measured / 1.5 < predicted < measured * 1.5, excluded


NOISE = OutputNoise(
    powers={"a": 4.0, "b": 1.0, "c": 0.25},
    needs={name: frozenset({name}) for name in "abc"},
    gains=dict.fromkeys("abc", 1.0),
)


def choose(returned: object) -> list[str]:
    return [name for name in "abc" if name not in returned]


def test_a_hopeful_prediction_is_tightened() -> None:
    tried: list[list[str]] = []

    def measure(chosen: list[str]) -> float:
        tried.append(list(chosen))
        return 2 * NOISE.of(chosen) ** 0.5

    choice = meet_bound(1.5, NOISE, choose, measure)
    assert choice.chosen == ("c",) and choice.returned == ("a", "b")
    assert choice.measured == 1.0 and choice.predicted == 0.5
    assert tried == [["b", "c"], ["c"]]


def test_the_best_of_single_layers_is_measured_where_none_fits() -> None:
    with pytest.raises(BoundError, match=r"the best reachable is 0\.502, with c alone in int8"):
        meet_bound(0.1, NOISE, choose, lambda chosen: NOISE.of(chosen) ** 0.5)


def test_layers_return_one_by_one_where_no_noise_is_predicted() -> None:
    """Rounding may change nothing on the few samples that the noise is measured on."""
    silent = OutputNoise(dict.fromkeys("abc", 0.0), NOISE.needs, NOISE.gains)
    choice = meet_bound(1.0, silent, choose, len)
    assert (len(choice.chosen), choice.measured, choice.predicted) == (1, 1.0, 0.0)
