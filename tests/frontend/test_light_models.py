"""The networks that the `onnx` package carries: files of several exporters, with opset 9."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_text import check_like_peer

from tvm_neocpu import relay
from tvm_neocpu.frontend.reading.onnx_model import graph_inputs

FILES = sorted((Path(onnx.__file__).parent / "backend/test/data/light").glob("*.onnx"))


def test_the_package_carries_nine() -> None:
    assert len(FILES) == 9


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_they_import(path: Path) -> None:
    mod, params = relay.frontend.from_onnx(path)
    assert len(mod["main"].params) == 1
    assert params == {}


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_they_compute_what_onnx_runtime_does(path: Path) -> None:
    model = onnx.load(path)
    (value,) = graph_inputs(model.graph)
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    data = np.random.default_rng(0).random(shape, dtype=np.float32)
    check_like_peer(model, **{value.name: data})
