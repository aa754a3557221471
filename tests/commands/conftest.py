"""Every command runs in a folder of its own and leaves the thread settings as they were."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from tests.support.volume_model import volume_model


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TVM_NUM_THREADS", "TVM_BIND_THREADS"):
        monkeypatch.setenv(name, os.environ.get(name, "1"))


@pytest.fixture
def tiny_file(tiny_cnn: onnx.ModelProto, tmp_path: Path) -> str:
    onnx.save(tiny_cnn, tmp_path / "tiny.onnx")
    return "tiny.onnx"


@pytest.fixture
def volume_file(make_model: Callable[..., onnx.ModelProto], tmp_path: Path) -> str:
    """A transposed 3-D convolution whose weight is computed, which no template takes."""
    onnx.save(volume_model(make_model), tmp_path / "volume.onnx")
    return "volume.onnx"
