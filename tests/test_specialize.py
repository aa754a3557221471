"""Networks with open shapes, built, run, exported and loaded, against ONNX Runtime."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper
from onnx_net import assert_close, ort
from tvm import relax

import tvm_neocpu
from tvm_neocpu import relay
from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.lower_networks import lower_networks
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.calls.graph_module import GraphModule

MakeModel = Callable[..., onnx.ModelProto]
Shape = tuple[int, ...]

RNG = np.random.default_rng(0)


def residual_net(make_model: MakeModel, shape: tuple[object, ...]) -> onnx.ModelProto:
    """Convolutions, a Clip, a sum, and a Reshape to [the batch, -1] as PyTorch exports it."""
    node = helper.make_node
    nodes = [
        node("Conv", ["data", "w"], ["c"], pads=[1] * 4),
        node("Clip", ["c", "zero", "six"], ["r"]),
        node("Conv", ["r", "v"], ["d"], pads=[1] * 4),
        node("Add", ["d", "r"], ["e"]),
        node("GlobalAveragePool", ["e"], ["p"]),
        node("Shape", ["p"], ["s"]),
        node("Gather", ["s", "first"], ["b"]),
        node("Concat", ["b", "rest"], ["t"], axis=0),
        node("Reshape", ["p", "t"], ["q"]),
        node("Gemm", ["q", "fc"], ["out"], transB=1),
    ]
    weights = {"w": (16, 8, 3, 3), "v": (16, 16, 3, 3), "fc": (10, 16)}
    model = make_model(nodes, shape, weights, ("M", 10))
    scalars = {"zero": np.float32(0), "six": np.float32(6), "first": [0], "rest": [-1]}
    for name, value in scalars.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return model


class Network:
    """A model, its library, and ONNX Runtime's answers."""

    def __init__(self, model: onnx.ModelProto, lib: BuiltModule) -> None:
        self.lib = lib
        self._session = ort.InferenceSession(model.SerializeToString())

    def module(self) -> GraphModule:
        return self.lib["default"](tvm.cpu())

    def check(self, module: GraphModule, shape: Shape) -> None:
        data = RNG.standard_normal(shape, dtype=np.float32)
        with module.lock:
            module.run(data=data)
            found = module.get_output("out").numpy()
        assert_close(found, self.answer(data))

    def answer(self, data: np.ndarray) -> np.ndarray:
        return self._session.run(None, {"data": data})[0]


@pytest.fixture(scope="module")
def batches(make_model: MakeModel) -> Network:
    model = residual_net(make_model, ("N", 8, 8, 8))
    mod, params = relay.frontend.from_onnx(model)
    return Network(model, relay.build(mod, "llvm", params=params, max_batch=3))


@pytest.fixture(scope="module")
def images(make_model: MakeModel) -> Network:
    model = residual_net(make_model, ("N", 8, "H", "W"))
    mod, _ = relay.frontend.from_onnx(model, {"data": ("N", 8, "H", "W")})
    shapes = [{"data": (1, 8, 8, 8)}, {"data": (2, 8, 6, 10)}]
    return Network(model, relay.build(mod, "llvm", shapes=shapes))


def test_any_batch(batches: Network) -> None:
    module = batches.module()
    assert str(batches.lib.info.inputs[0]) == "data float32[?, 8, 8, 8]"
    for batch in (*range(1, 10), 2):
        batches.check(module, (batch, 8, 8, 8))
    assert module.get_output(0).shape == (2, 10)
    assert module.benchmark(repeat=1, number=1).mean > 0
    with pytest.raises(ShapeError, match=r"input 'data' is \[\?, 8, 8, 8\], not \[1, 8, 8, 9\]"):
        module.set_input("data", np.zeros((1, 8, 8, 9), "float32"))


def test_rows_of_a_batch_are_not_copied(make_model: MakeModel) -> None:
    """Rows of 2 KiB begin where code wants them to; the ten scores of an image do not."""
    mod, _ = relay.frontend.from_onnx(residual_net(make_model, ("N", 8, 8, 8)))
    cpu = tvm_neocpu.parse_target("llvm").cpu
    lowered = lower_networks({"main": mod}, cpu, max_batch=2)
    names = {str(var.name_hint) for var in lowered.get_global_vars()}
    assert {name for name in names if "float32" in name} == {
        "store_1_10_float32",
        "store_2_10_float32",
    }
    assert "main_into" in names


@pytest.mark.parametrize("batch", [1, "N"])
def test_every_pass_leaves_a_well_formed_module(
    batch: int | str, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_NEOCPU_DEBUG", "verify")
    mod, params = relay.frontend.from_onnx(residual_net(make_model, (batch, 8, 8, 8)))
    relay.build(mod, params=params, max_batch=2)


def test_any_batch_through_tvm_compile(make_model: MakeModel) -> None:
    model = residual_net(make_model, ("N", 8, 8, 8))
    mod, _ = relay.frontend.from_onnx(model)
    target = tvm_neocpu.parse_target("llvm").target
    pipeline = relax.get_pipeline("neocpu", max_batch=1)
    executable = tvm.compile(mod, target, relax_pipeline=pipeline)
    assert "main_batch1" in executable.as_text()
    machine = relax.VirtualMachine(executable, tvm.cpu())
    data = RNG.standard_normal((5, 8, 8, 8), dtype=np.float32)
    session = ort.InferenceSession(model.SerializeToString())
    assert_close(
        machine["main"](tvm.runtime.tensor(data)).numpy(), session.run(None, {"data": data})[0]
    )


def test_inputs_that_are_not_set_have_the_batch_of_the_others(make_model: MakeModel) -> None:
    model = make_model([helper.make_node("Add", ["data", "more"], ["out"])], ("N", 4))
    more = helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, ("N", 4))
    model.graph.input.append(more)
    mod, _ = relay.frontend.from_onnx(model)
    module = relay.build(mod, "llvm", max_batch=1)["default"](tvm.cpu())
    ones = np.ones((3, 4), "float32")
    with pytest.warns(UserWarning, match="'more'"):
        module.run(data=ones)
    np.testing.assert_array_equal(module.get_output(0).numpy(), ones)
    module.set_input("more", np.ones((2, 4), "float32"))
    with pytest.raises(ShapeError, match=r"no code for data \[3, 4\], more \[2, 4\]; it has data"):
        module.run()


def test_listed_shapes_and_one_on_demand(images: Network) -> None:
    module = images.module()
    assert str(images.lib.info.inputs[0]) == "data float32[?, 8, ?, ?]"
    for shape in ((1, 8, 8, 8), (2, 8, 6, 10), (1, 8, 8, 8)):
        images.check(module, shape)
    images.check(module, (1, 8, 5, 7))
    module.input_array("data", (2, 8, 6, 10))[:] = 1
    module.run()
    assert_close(module.get_output(0).numpy(), images.answer(np.ones((2, 8, 6, 10), "float32")))


def test_threads_share_what_is_compiled_on_demand(images: Network) -> None:
    module = images.module()
    shapes = [(1, 8, 8, 8), (2, 8, 6, 10), (1, 8, 9, 9), (1, 8, 9, 9)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda shape: images.check(module, shape), shapes * 3))
        list(pool.map(lambda shape: images.check(images.module(), shape), shapes))


_ELSEWHERE = """
import sys
import numpy as np, tvm, tvm_neocpu
module = tvm_neocpu.load(sys.argv[1])["default"](tvm.cpu())
for shape in ((2, 8, 6, 10), (1, 8, 8, 8)):
    module.run(data=np.ones(shape, "float32"))
    np.save(f"{sys.argv[2]}/{shape[0]}.npy", module.get_output("out").numpy())
try:
    module.run(data=np.ones((3, 8, 8, 8), "float32"))
except tvm_neocpu.NeoCpuError as error:
    print(error)
assert "tvm_neocpu.pipeline" not in sys.modules
"""


@pytest.mark.compiler
def test_another_process_has_the_listed_shapes(images: Network, tmp_path: Path) -> None:
    images.lib.export_library(tmp_path / "net.so")
    command = [sys.executable, "-c", _ELSEWHERE, str(tmp_path / "net.so"), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    for shape in ((2, 8, 6, 10), (1, 8, 8, 8)):
        expected = images.answer(np.ones(shape, "float32"))
        assert_close(np.load(tmp_path / f"{shape[0]}.npy"), expected)
    assert result.stdout == (
        "the library has no code for data [3, 8, 8, 8]; it has data [1, 8, 8, 8]; "
        "data [2, 8, 6, 10]: add the shape to shapes= of relay.build\n"
    )


def test_images_that_depend_on_each_other_run_generically(
    make_model: MakeModel, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = [helper.make_node("Softmax", ["data"], ["out"], axis=0)]
    model = make_model(nodes, ("N", 4))
    mod, _ = relay.frontend.from_onnx(model)
    lib = relay.build(mod, "llvm")
    assert "no code is specialised for batches of this network: softmax" in caplog.text
    Network(model, lib).check(lib["default"](tvm.cpu()), (5, 4))


def test_open_shapes_need_a_list(make_model: MakeModel) -> None:
    model = make_model([helper.make_node("Relu", ["data"], ["out"])], ("N", 3, "H", "W"))
    mod, _ = relay.frontend.from_onnx(model, {"data": (-1, 3, -1, -1)})
    with pytest.raises(ShapeError, match="several to build for"):
        relay.build(mod, "llvm")
    for shapes, words in (
        ([], "shapes= lists shapes, at least one"),
        ("x", "shapes= lists shapes, at least one"),
        ([{"data": 5}], "shapes= lists shapes, at least one"),
        ({"data": (1, 3, 8, 8)}, "shapes= lists shapes, at least one"),
        ([{"date": (1, 3, 8, 8)}], "no input 'date'; it has data"),
        ([{"data": (1, 4, 8, 8)}], r"is \[\?, 3, \?, \?\] in the network, not \[1, 4, 8, 8\]"),
        ([{"data": (1, 3, "H", 8)}], "only the first extent may stay open"),
    ):
        with pytest.raises(ShapeError, match=words):
            relay.build(mod, "llvm", shapes=shapes)


def test_a_relax_module_of_open_shapes(make_model: MakeModel) -> None:
    height = tvm.tirx.Var("h", "int64")
    x = relax.Var("x", relax.TensorType((1, 4, height, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            weight = relax.const(np.ones((4, 4, 3, 3), "float32"))
            result = builder.emit_output(builder.emit(relax.op.nn.conv2d(x, weight)))
        builder.emit_func_output(result)
    lib = relay.build(builder.get(), "llvm", shapes=[{"x": (1, 4, 6, 8)}, {"x": (1, 4, 9, 8)}])
    module = lib["default"](tvm.cpu())
    for rows in (6, 9):
        module.run(x=np.ones((1, 4, rows, 8), "float32"))
        assert_close(module.get_output(0).numpy(), np.full((1, 4, rows - 2, 6), 36.0))
