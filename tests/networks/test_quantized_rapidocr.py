"""Trained CNNs in int8: RapidOCR's three networks read, turn and find what fp32 does.

Everything runs on ONNX Runtime in exact arithmetic: its integer kernels saturate on x86 CPUs
without VNNI.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from ocr import (
    DETECT,
    READ,
    TURN,
    Watched,
    boxes_of,
    line_image,
    line_samples,
    lines_to_read,
    pages_to_search,
    random_lines,
    reader,
    texts_of,
)

from tvm_neocpu.core.accuracy.precision import request_of
from tvm_neocpu.precision.choose import Chosen, choose_precision
from tvm_neocpu.quantizing.onnx_runs import runner
from tvm_neocpu.quantizing.quantize_model import Quantised, Settings, quantize_model
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database.history import current_history

# Relative errors at the outputs that keep the answers, and the multiply-adds that then are in int8.
# Softmax makes the recogniser's error a matter of few positions that flip: it takes a tight bound.
TURN_BOUND, TURN_SHARE = None, 1.0
READ_BOUND, READ_SHARE = 0.035, 0.2
DETECT_BOUND, DETECT_SHARE = 0.05, 0.6
# Bounds of `auto`. Within 0.01, its default, integers gain nothing in these two.
AUTO_BOUND, AUTO_DEFAULT = 0.02, None

Session = Callable[[NDArray[np.float32]], list[NDArray[np.float32]]]
Samples = list[dict[str, NDArray[np.float32]]]


def quantised(path: Any, samples: Samples, max_error: float | None) -> Quantised:
    settings = Settings("mse", per_channel=True, wide_results=True, max_error=max_error)
    return quantize_model(onnx.load(path), path.stem, samples, settings)


def share(result: Quantised | Chosen) -> float:
    return result.share if isinstance(result, Quantised) else result.report.share


def session_of(result: Quantised | Chosen) -> Session:
    run = runner(result.exact if isinstance(result, Chosen) else result.model)
    return lambda image: run({"x": image})


def mixed(path: Any, samples: Samples, max_error: float | None) -> Chosen:
    """The layers that `precision="auto"` puts in int8 at the samples' shape, with VNNI."""
    cpu = parse_target("llvm -mcpu=cascadelake -num-cores=1").cpu
    request = request_of("auto", max_error, samples)
    assert request is not None
    shapes = {"x": samples[0]["x"].shape}
    chosen = choose_precision(onnx.load(path), shapes, request, cpu, current_history(cpu))
    report = chosen.report
    assert report.measured <= report.max_error and report.chosen <= report.fp32
    print(path.stem, *report.lines(), sep="\n")
    return chosen


Lower = Callable[[Any, Samples, float | None], Any]
HOW = pytest.mark.parametrize(
    "lower", [quantised, pytest.param(mixed, marks=pytest.mark.slow, id="mixed")]
)


@HOW
def test_directions_are_those_of_fp32(lower: Lower) -> None:
    """A line counts as turned where the network is sure, which is what the pipeline asks."""
    engine = reader(ours=False)
    watched = engine.text_cls.infer = Watched(engine.text_cls.infer)
    engine.text_cls([line_image(line) for line in random_lines(16, 1)])
    result = lower(TURN, watched.seen, TURN_BOUND)
    images = [line_image(line) for line in random_lines(40, 2)]
    images += [np.ascontiguousarray(image[::-1, ::-1]) for image in images]
    answers = []
    for session in (watched.session, session_of(result)):
        engine.text_cls.infer = session
        answers.append([engine.text_cls([image])[1][0] for image in images])
    wanted, found = (
        [label == "180" and score > 0.9 for label, score in every] for every in answers
    )
    assert 10 < sum(wanted) < 70
    same = sum(one == other for one, other in zip(wanted, found, strict=True))
    assert same >= 0.98 * len(images)
    # `auto` may leave all in fp32: it takes no choice that is less than 5 % faster.
    assert share(result) >= (TURN_SHARE if lower is quantised else 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lower", "columns", "bound", "least"),
    [
        pytest.param(quantised, None, READ_BOUND, READ_SHARE, id="quantised"),
        # A build takes one shape: the first columns of every line.
        pytest.param(mixed, 320, AUTO_BOUND, READ_SHARE, id="mixed"),
        pytest.param(mixed, 320, AUTO_DEFAULT, 0, id="mixed-default"),
    ],
)
def test_the_recogniser_reads_what_fp32_reads(
    lower: Lower, columns: int | None, bound: float | None, least: float
) -> None:
    """Of a hundred lines at most two may differ."""
    engine = reader(ours=False)
    result = lower(READ, line_samples(engine, columns), bound)
    images = lines_to_read()
    wanted = texts_of(engine, engine.text_rec.session, images)
    found = texts_of(engine, session_of(result), images)
    same = sum(one == other for one, other in zip(wanted, found, strict=True))
    assert same >= 98, f"{same} of 100"
    assert share(result) >= least


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lower", "bound", "least"),
    [
        pytest.param(quantised, DETECT_BOUND, DETECT_SHARE, id="quantised"),
        pytest.param(mixed, AUTO_BOUND, 0.3, id="mixed"),
        pytest.param(mixed, AUTO_DEFAULT, 0, id="mixed-default"),
    ],
)
def test_boxes_are_where_fp32_finds_them(lower: Lower, bound: float | None, least: float) -> None:
    """Eight pages of five lines: as many boxes, each corner within two pixels."""
    engine = reader(ours=False)
    samples, pages = pages_to_search()
    result = lower(DETECT, samples, bound)
    sessions = engine.text_det.infer, session_of(result)
    pairs = zip(*(boxes_of(engine, session, pages) for session in sessions), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(other, one, atol=2)
    assert share(result) >= least
