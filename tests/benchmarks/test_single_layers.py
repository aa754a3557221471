"""Single layers against ONNX Runtime, as a script: its table, and one layer saved and timed."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "single_layers.py"


def test_a_layer_saved_and_timed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(SCRIPT))
    main, only = script["main"], ["--only", "GlobalMaxPool"]
    assert main(["--save", str(tmp_path), *only]) == 0
    folders = ["--load", str(tmp_path), "--before", str(tmp_path)]
    assert main([*folders, *only, "--rounds", "2"]) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[0] == "layer" and row.startswith("GlobalMaxPool 1x512x14x14")
    numbers = [float(word) for word in row.split()[2:]]
    assert len(numbers) == 5 and min(numbers) > 0


def test_no_two_layers_share_a_file() -> None:
    layers = list(runpy.run_path(str(SCRIPT))["layers"]())
    assert len({layer.file_name for layer in layers}) == len(layers) > 100
