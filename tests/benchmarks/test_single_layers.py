"""Single layers against ONNX Runtime, as a script: its table, and one layer saved and timed."""

from __future__ import annotations

import importlib
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "layers" / "single_layers.py"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(SCRIPT.parent)
    return runpy.run_path(str(SCRIPT))


def test_a_layer_saved_and_timed(
    script: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main, only = script["main"], ["--only", "GlobalMaxPool"]
    assert main(["--save", str(tmp_path), *only]) == 0
    folders = ["--load", str(tmp_path), "--before", str(tmp_path)]
    report = tmp_path / "report.json"
    assert main([*folders, *only, "--rounds", "2", "--json", str(report)]) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[0] == "layer" and row.startswith("GlobalMaxPool 1x512x14x14")
    numbers = [float(word) for word in row.split()[2:]]
    # A ratio beside a load may be shown as 0.00.
    assert len(numbers) == 6 and min(numbers) >= 0
    (saved,) = json.loads(report.read_text())["layers"]
    assert saved["layer"] == "GlobalMaxPool 1x512x14x14" and saved["error"] < 1e-6


def test_no_two_layers_share_a_file(script: dict[str, Any]) -> None:
    layers = list(script["layers"]())
    assert len({layer.file_name for layer in layers}) == len(layers) > 200


def test_a_layer_that_does_not_build_is_named(
    script: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layer = importlib.import_module("layer_table.layer").unary("Softmax", 1, 10, axis=7)
    assert not script["saved"](layer, tmp_path)
    assert capsys.readouterr().err.startswith("Softmax 1x10 axis=7: ")


def test_a_layer_that_was_not_compiled_is_named(
    script: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script["main"](["--load", str(tmp_path), "--only", "GlobalMaxPool"]) == 1
    assert capsys.readouterr().err == f"GlobalMaxPool 1x512x14x14: not in {tmp_path}\n"
