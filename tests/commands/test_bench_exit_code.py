"""``bench`` fails where our outputs are not the reference's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tvm_neocpu.commands import bench
from tvm_neocpu.commands.shared.exit_codes import USER_ERROR
from tvm_neocpu.contrib.peers import compare, report
from tvm_neocpu.contrib.peers.isolated import CANNOT_CONVERT, EngineError
from tvm_neocpu.contrib.peers.report import Comparison
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.peers.table import Engine
from tvm_neocpu.core.accuracy.precision import FP32

OURS, RUNTIME, OTHER = "tvm_neocpu", "ONNX Runtime", "OpenVINO"
Bench = Callable[..., int]


class Answers:
    """An engine that answers at once; without an answer it dies in its first run."""

    def __init__(self, answer: float | None) -> None:
        self.answer = answer

    def burst(self, count: int) -> list[float]:
        if self.answer is None:
            raise EngineError("no layer Hardmax", CANNOT_CONVERT)
        return [0.1] * count

    def outputs(self) -> list[np.ndarray]:
        return [np.array([1.0, self.answer])]


@pytest.fixture
def compared(tiny_cnn: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The exit code of ``bench`` over engines that answer 1 and a given number."""
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    onnx.save(tiny_cnn, tmp_path / "tiny.onnx")

    def run(answers: dict[str, float | None]) -> int:
        @contextmanager
        def isolate(engine: Engine, network: Network) -> Iterator[Answers]:
            yield Answers(answers[engine.name])

        engines = tuple(Engine(name, ("tvm_neocpu",), "json", "") for name in answers)
        monkeypatch.setattr(compare, "PAUSE_SECONDS", 0)
        monkeypatch.setattr(Engine, "isolate", isolate)
        monkeypatch.setattr(bench, "ENGINES_IN", {FP32: engines})
        monkeypatch.setattr(report, "ENGINES_IN", {FP32: engines})
        monkeypatch.setattr(bench, "as_json", lambda found, *_: _summary(found[0]))
        return bench.main([str(tmp_path / "tiny.onnx"), "--json", str(tmp_path / "out.json")])

    return run


def _summary(found: Comparison) -> dict[str, Any]:
    absent = {name: list(astuple(why)) for name, why in found.absent.items()}
    return {"of": found.reference, "best": found.best_peer, "absent": absent}


@pytest.mark.parametrize("answer", [3.0, float("inf"), float("nan")])
def test_wrong_outputs_of_ours_are_one_line_and_exit_code_1(
    compared: Bench, answer: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compared({OURS: answer, RUNTIME: 2.0, OTHER: answer}) == 1
    errors = capsys.readouterr().err.splitlines()
    size = "5.0e-01" if answer == 3 else "inf"
    assert f"error: tiny: {OURS} differs from {RUNTIME} by {size} of the largest value" in errors[0]
    assert errors[1].startswith(f"warning: tiny: {OTHER} differs")
    assert len(errors) == 2
    assert json.loads((tmp_path / "out.json").read_text())["of"] == RUNTIME


def test_wrong_outputs_of_a_peer_are_a_warning(
    compared: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compared({OURS: 2.0, RUNTIME: 2.0, OTHER: 3.0}) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith(f"warning: tiny: {OTHER} differs from {RUNTIME}")
    assert "wrong" in printed.out


def test_a_peer_that_is_wrong_or_refuses_is_not_the_best(
    compared: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compared({OURS: 2.0, "refuses": None, RUNTIME: 2.0, OTHER: 3.0}) == 0
    printed = capsys.readouterr()
    assert "cannot convert" in printed.out
    assert "warning: refuses cannot run tiny: no layer Hardmax" in printed.err
    assert json.loads((tmp_path / "out.json").read_text()) == {
        "of": RUNTIME,
        "best": RUNTIME,
        "absent": {"refuses": ["cannot convert", "no layer Hardmax"]},
    }


def test_ours_that_fails_is_an_error(compared: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared({OURS: None, RUNTIME: 2.0}) == USER_ERROR
    assert capsys.readouterr().err == "error: no layer Hardmax\n"


@pytest.mark.parametrize("answers", [{OURS: 2.0001, RUNTIME: 2.0}, {OURS: float("nan")}])
def test_right_outputs_and_a_lonely_engine_say_nothing(
    compared: Bench, answers: dict[str, float], capsys: pytest.CaptureFixture[str]
) -> None:
    assert compared(answers) == 0
    assert capsys.readouterr().err == ""
