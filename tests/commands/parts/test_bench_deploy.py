"""bench deploy: figures of fresh processes, and an engine that fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tvm_neocpu.commands import bench
from tvm_neocpu.commands.shared.exit_codes import USER_ERROR
from tvm_neocpu.contrib.deploy.first_inference import first_inference
from tvm_neocpu.core.errors import NeoCpuError

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


def test_every_engine_answers(tiny_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.main(["deploy", tiny_file, "--runs", "1", "--json", "out.json"]) == 0
    assert "own MiB" in capsys.readouterr().out
    (network,) = json.loads(Path("out.json").read_text())["networks"]
    for row in network["engines"].values():
        assert 0 < row["imported_ms"] < row["loaded_ms"] < row["first_inference_ms"]
        assert 0 < row["own_mib"] < row["resident_mib"]


def test_what_fails_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NeoCpuError, match=r"tvm_neocpu gives no answer: .*there is no file"):
        first_inference("tvm_neocpu", tmp_path / "none.so", {}, 1)
    assert bench.main(["deploy", "nosuch"]) == USER_ERROR
    assert capsys.readouterr().err.startswith("error: 'nosuch'")
