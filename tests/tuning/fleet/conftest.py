"""A small network for servers."""

from __future__ import annotations

from functools import partial

import pytest

from tvm_neocpu.contrib import model_zoo
from tvm_neocpu.folded_network import open_onnx
from tvm_neocpu.frontend.reading.onnx_model import resolve_shapes


@pytest.fixture(scope="module")
def network():
    """How another process opens LeNet."""
    model = model_zoo.build("lenet")
    shapes = resolve_shapes(model.graph, {})
    return partial(open_onnx, model.SerializeToString(), shapes, "llvm")
