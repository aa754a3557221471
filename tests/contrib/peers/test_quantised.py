"""What a quantised network should compute, and how far an engine may be from it."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from onnx_text import parsed
from quantized_onnx import QOPERATOR, expected, images, network, quantized

from tvm_neocpu.contrib.peers import compare as module
from tvm_neocpu.contrib.peers import quantised
from tvm_neocpu.contrib.peers.compare import compare
from tvm_neocpu.contrib.peers.quantised import (
    LEAST_TOLERANCE,
    Expected,
    expected_outputs,
    is_quantised,
    sums_saturate,
)
from tvm_neocpu.core.errors import MissingPackageError, NeoCpuError

PLAIN = network(
    """g (float[1,3,8,8] x) => (float[1,8,8,8] y) {
        a = Conv<kernel_shape=[3,3], pads=[1,1,1,1]>(x, w)
        y = Relu(a)
    }""",
    w=(8, 3, 3, 3),
)


class Fake:
    """An engine whose answer is known."""

    def __init__(self, answer: float) -> None:
        self.answer = np.array([answer, 1], "float32")

    def burst(self, count: int) -> list[float]:
        return [0.1] * count

    def outputs(self) -> list[np.ndarray]:
        return [self.answer]


@pytest.mark.parametrize("form", [None, QOPERATOR])
def test_a_quantised_network_is_known_in_either_form(form: object) -> None:
    assert is_quantised(quantized(PLAIN) if form is None else quantized(PLAIN, form=form))
    assert not is_quantised(PLAIN)


def test_products_of_integers_alone_count() -> None:
    text = "g (uint8[2,4] x, uint8[4,3] w) => (int32[2,3] y) { y = MatMulInteger(x, w) }"
    assert is_quantised(parsed(text))


def test_a_float_network_has_no_expectation_of_its_own() -> None:
    assert expected_outputs(PLAIN, images(PLAIN, 0)) is None


def test_outputs_are_those_of_the_definition_within_some_codes() -> None:
    model = quantized(PLAIN)
    found = expected_outputs(model, images(model, 0))
    assert found is not None
    np.testing.assert_array_equal(found.outputs[0], expected(model, images(model, 0))[0])
    assert found.tolerance == LEAST_TOLERANCE  # one layer has no next one to differ in


@pytest.mark.parametrize(("saturate", "tolerance"), [(True, LEAST_TOLERANCE), (False, 0.5)])
def test_integer_kernels_are_one_of_the_ways_where_they_do_not_saturate(
    saturate: bool, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs(_: object, *, exact: bool = True, optimised: bool = True) -> object:
        return lambda inputs: [np.array([1.0 if exact else 0.75, 0.5], "float32")]

    monkeypatch.setattr(quantised, "runner", runs)
    monkeypatch.setattr(quantised, "sums_saturate_here", lambda: saturate)
    found = expected_outputs(quantized(PLAIN), {})
    assert found is not None and found.tolerance == pytest.approx(tolerance)


def test_an_input_that_the_network_lost_is_left_out() -> None:
    model: onnx.ModelProto = quantized(PLAIN)
    assert expected_outputs(model, {**images(model, 0), "gone": np.zeros(1, "float32")})


def test_what_onnx_runtime_cannot_say_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    model = quantized(PLAIN)
    with pytest.raises(NeoCpuError, match="ONNX Runtime cannot run the network"):
        expected_outputs(model, {})
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingPackageError, match="pip install onnxruntime"):
        expected_outputs(model, images(model, 0))


def test_engines_are_held_to_what_is_expected_and_the_reference_is_right(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    runners = {"ours": Fake(1.0), "first": Fake(0.5), "other": Fake(0.9)}
    wanted = Expected([np.array([1, 1], "float32")], 0.05)
    found = compare(runners, 1, "first", wanted)
    assert {name: timing.differs for name, timing in found.items()} == {
        "ours": False,
        "first": False,  # saturating products are its own
        "other": True,
    }
    assert found["first"].error == 0.5


def test_where_sums_saturate() -> None:
    assert sums_saturate("x86_64", {"avx2", "fma"})
    assert not sums_saturate("x86_64", {"avx2", "avxvnni"})
    assert not sums_saturate("aarch64", {"neon"})
    assert not sums_saturate("x86_64", None)  # nothing is known of such a CPU
