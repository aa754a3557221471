"""A busy neighbour, as a script: what it tells of a network."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("openvino")

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "networks" / "neighbour.py"


def test_a_small_network(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    words = ["lenet", "--rounds", "1", "--seconds", "0.05", "--json", str(report)]
    assert runpy.run_path(str(SCRIPT))["main"](words) == 0
    (row,) = json.loads(report.read_text())["networks"]
    assert row["network"] == "lenet"
    told = capsys.readouterr().out
    assert set(row["engines"]) == {"tvm_neocpu", "ONNX Runtime", "OpenVINO"}
    for name, engine in row["engines"].items():
        assert engine["alone_ms"] > 0 and engine["beside_ms"] > 0
        assert f"lenet: {name}: {engine['alone_ms']} ms" in told
