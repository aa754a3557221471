"""A network's file in a folder of its own; thread settings stay as they were."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import pytest


@pytest.fixture
def tiny_net(tiny_cnn: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    for name in ("TVM_NUM_THREADS", "TVM_BIND_THREADS"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))
    onnx.save(tiny_cnn, tmp_path / "net.onnx")
    return "net.onnx"
