"""Trained CNNs on real input: RapidOCR reads the same texts on our modules as on ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from ocr import page, reader

LINES = [
    ("Convolution 42", "DejaVuSans.ttf", 40),
    ("winograd 3x3", "DejaVuSerif.ttf", 32),
    ("NCHW16c", "DejaVuSansMono.ttf", 48),
    ("Batch norm", "DejaVuSerif-Bold.ttf", 36),
    ("0123456789", "", 28),
    ("upside", "", 44),
]


def test_one_line_is_read_alike() -> None:
    image = page([("Convolution", "", 32)], 240, 60)
    engines = reader(ours=True), reader(ours=False)
    mine, theirs = (engine(image, use_det=False, use_cls=False)[0] for engine in engines)
    (text, confidence), (wanted, wanted_confidence) = mine[0], theirs[0]
    assert text == wanted
    assert wanted.strip() == "Convolution"
    assert confidence == pytest.approx(wanted_confidence, abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("turned", [False, True])
def test_a_page_in_several_fonts_and_sizes_is_read_alike(turned: bool) -> None:
    # The first line is wider than the rest, and the recogniser's input with it.
    image = page(LINES[1:] if turned else LINES, 736, 736)
    if turned:
        image = np.ascontiguousarray(image[::-1, ::-1])
    engines = reader(ours=True), reader(ours=False)
    mine, theirs = (engine(image)[0] for engine in engines)
    assert [line[1] for line in mine] == [line[1] for line in theirs]
    assert {line[1] for line in theirs} >= {"winograd 3x3", "0123456789"}
    for (box, _, confidence), (wanted_box, _, wanted) in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(box, wanted_box, atol=1)
        assert confidence == pytest.approx(wanted, abs=1e-3)
