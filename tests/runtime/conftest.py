"""A small network, built once, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper

from tvm_neocpu import Session, relay
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.calls.binding import IOBinding
from tvm_neocpu.runtime.calls.graph_module import GraphModule

MakeModel = Callable[..., onnx.ModelProto]


@pytest.fixture(scope="module")
def lib(tiny_cnn: onnx.ModelProto) -> BuiltModule:
    mod, params = relay.frontend.from_onnx(tiny_cnn)
    return relay.build(mod, target="llvm", params=params)


@pytest.fixture
def module(lib: BuiltModule) -> GraphModule:
    return lib["default"](tvm.cpu())


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((1, 8, 6, 6), dtype=np.float32)


@pytest.fixture(scope="module")
def scores(lib: BuiltModule, data: np.ndarray) -> np.ndarray:
    module = lib["default"](tvm.cpu())
    module.run(data=data)
    return module.get_output(0).numpy()


@pytest.fixture(scope="module")
def session(lib: BuiltModule) -> Iterator[Session]:
    with Session(lib) as made:
        yield made


@pytest.fixture
def binding(session: Session) -> IOBinding:
    return session.io_binding()


@pytest.fixture(scope="session")
def wide_cnn(make_model: MakeModel) -> onnx.ModelProto:
    """Two convolutions on 56x56 pixels: loops that TVM runs on all its threads."""
    nodes = [
        helper.make_node("Conv", ["data", "w"], ["c"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "v"], ["d"], "second", pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["d"], ["out"], "pool"),
    ]
    weights = {"w": (16, 8, 3, 3), "v": (16, 16, 3, 3)}
    return make_model(nodes, (1, 8, 56, 56), weights, (1, 16, 1, 1))


@pytest.fixture(scope="session")
def wide_lib(wide_cnn: onnx.ModelProto) -> BuiltModule:
    mod, _ = relay.frontend.from_onnx(wide_cnn)
    return relay.build(mod, target="llvm")


@pytest.fixture(scope="module")
def files(wide_lib: BuiltModule, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The exported network and an image, for scripts in processes of their own."""
    folder = tmp_path_factory.mktemp("scripts")
    wide_lib.export_library(folder / "net.so")
    image = np.random.default_rng(0).standard_normal((1, 8, 56, 56), dtype=np.float32)
    np.save(folder / "image.npy", image)
    return str(folder / "net.so"), str(folder / "image.npy")
