"""DFT and STFT against ONNX Runtime, and against NumPy where it has no such case."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_node import Array, Case, check_together, image, node_model, ours

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError


def _scalar(value: int) -> Array:
    return np.array(value, "int64")


def _dft(data: Array, length: int | None = None, axis: int | None = None, **how: Any) -> Case:
    constants = [None if value is None else _scalar(value) for value in (length, axis)]
    return Case("DFT", [data], constants, how)


def test_transforms_of_real_and_complex_signals() -> None:
    """All name their axis: ONNX Runtime 1.31 ends the process where that input is omitted."""
    check_together(
        [
            _dft(image(2, 5, 12, 1), axis=2),
            _dft(image(2, 5, 12, 2), axis=1),
            _dft(image(2, 5, 12, 2), axis=0, inverse=1),
            _dft(image(2, 7, 3, 1), axis=1, onesided=1),
            _dft(image(3, 8, 1), axis=-2, onesided=1),
            _dft(image(2, 9, 2), length=6, axis=1),
            _dft(image(2, 9, 2), length=16, axis=1, inverse=1),
            _dft(image(2, 9, 1, dtype="float64"), length=16, axis=-2, onesided=1),
        ],
        opset=20,
    )


def test_axis_as_an_attribute() -> None:
    check_together([_dft_17(image(2, 6, 5, 1), 1), _dft_17(image(2, 6, 5, 2), 2)], opset=17)


def _dft_17(data: Array, axis: int) -> Case:
    return Case("DFT", [data], (), {"axis": axis})


@pytest.mark.parametrize(("extent", "length"), [(5, None), (5, 9), (5, 6), (4, 12)])
def test_real_signals_from_half_a_spectrum(extent: int, length: int | None) -> None:
    """NumPy's irfft: ONNX Runtime reads a whole spectrum there."""
    data = image(3, extent, 2)
    constants = [None if length is None else _scalar(length), _scalar(1)]
    model = node_model("DFT", [data], constants, opset=20, inverse=1, onesided=1)
    expected = np.fft.irfft(data[..., 0] + 1j * data[..., 1], length, axis=1)[..., None]
    np.testing.assert_allclose(ours(model, [data])[0], expected, atol=2e-6)


def _stft(data: Array, step: int, window: Array | None, length: int | None, **how: Any) -> Case:
    frame = None if length is None else _scalar(length)
    return Case("STFT", [data], [_scalar(step), window, frame], how)


def test_the_last_axis_where_none_is_named() -> None:
    data = image(2, 3, 6, 1)
    spectrum = np.fft.fft(data[..., 0])
    expected = np.stack([spectrum.real, spectrum.imag], axis=-1)
    found = ours(node_model("DFT", [data], [], opset=20), [data])[0]
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_frames() -> None:
    window = np.hanning(16).astype("float32")
    check_together(
        [
            _stft(image(2, 64, 1), 4, window, 16),
            _stft(image(2, 61, 1), 5, window, None),
            _stft(image(1, 40, 1), 3, None, 12, onesided=0),
            _stft(image(1, 40, 2), 3, window, 16, onesided=0),
        ],
        opset=17,
    )


def test_one_line_for_what_is_no_transform() -> None:
    huge = node_model("DFT", [image(1, 20_000, 1)], [], opset=20)
    with pytest.raises(UnsupportedOperatorError, match="length 20000: its matrix"):
        relay.frontend.from_onnx(huge)
    parts = node_model("DFT", [image(1, 8, 3)], [], opset=20)
    with pytest.raises(UnsupportedOperatorError, match="is 3, not 1 or 2"):
        relay.frontend.from_onnx(parts)
