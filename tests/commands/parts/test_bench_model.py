"""`bench model`: its report, and what it refuses."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from tvm_neocpu.commands.bench import main

ASSET = Path(__file__).parents[2] / "contrib/cost_model/assets/epyc_milan_znver3.log.xz"
TARGET = ["--target", "llvm -mcpu=znver3 -num-cores=2"]


def test_the_report_has_operators_layers_and_networks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "milan.log", tmp_path / "out.json"
    # Layers only: without verdicts no network is built.
    lines = lzma.decompress(ASSET.read_bytes()).splitlines(keepends=True)
    log.write_bytes(b"".join(line for line in lines if b"neocpu_verdict" not in line))
    assert main(["model", *TARGET, "--log", str(log), "--json", str(out)]) == 0
    text = capsys.readouterr().out
    assert "conv2d depthwise" in text and "regret" in text
    report = json.loads(out.read_text())
    assert {"machine", "operators", "all", "layers", "networks", "log"} <= report.keys()
    assert report["all"]["layers"] == len(report["layers"]) > 20
    for layer in report["layers"]:
        assert layer["regret"] == pytest.approx(layer["chosen_seconds"] / layer["best_seconds"])


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", *TARGET, "--log", "/nowhere/at.all"]) == 2
    empty = tmp_path / "empty.log"
    empty.touch()
    assert main(["model", *TARGET, "--log", str(empty)]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: ") and "no layer with" in second
