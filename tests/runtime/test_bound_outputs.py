"""Outputs bound once: the network computes into the caller's arrays, or they are copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper
from onnx_node import onnx_runtime

import tvm_neocpu
from tvm_neocpu import Session, relay
from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.relay_passes.batches.sizes import MAX_BATCH
from tvm_neocpu.runtime.calls.binding import IOBinding
from tvm_neocpu.runtime.ffi.tensors import as_array, zeros

Array = NDArray[np.float32]


@pytest.fixture(scope="module")
def maps(make_model: Callable[..., onnx.ModelProto]) -> onnx.ModelProto:
    """Three outputs: a feature map that later layers read, a reshaped one, and the input."""
    nodes = [
        helper.make_node("Conv", ["data", "w"], ["out"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["out", "v"], ["deep"], pads=[1, 1, 1, 1]),
        helper.make_node("Reshape", ["deep", "shape"], ["flat"]),
        helper.make_node("Identity", ["data"], ["same"]),
    ]
    weights = {"w": (16, 8, 3, 3), "v": (16, 16, 3, 3)}
    model = make_model(nodes, (1, 8, 12, 12), weights, (1, 16, 12, 12))
    shape = onnx.numpy_helper.from_array(np.array([16, 144], np.int64), "shape")
    model.graph.initializer.append(shape)
    for name, dims in (("flat", (16, 144)), ("same", (1, 8, 12, 12))):
        info = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)
        model.graph.output.append(info)
    return model


def _sessions(
    model: onnx.ModelProto,
    request: pytest.FixtureRequest,
    folders: pytest.TempPathFactory,
    max_batch: int = MAX_BATCH,
) -> Iterator[Session]:
    """A session over what was built or over what its file holds, as the fixture says."""
    mod, params = relay.frontend.from_onnx(model)
    library = relay.build(mod, params=params, max_batch=max_batch)
    if request.param == "loaded":
        path: Path = folders.mktemp("loaded") / "net.so"
        library.export_library(path)
        library = tvm_neocpu.load(path)
    with Session(library) as session:
        yield session


@pytest.fixture(scope="module", params=["built", "loaded"])
def map_session(
    request: pytest.FixtureRequest,
    maps: onnx.ModelProto,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Session]:
    yield from _sessions(maps, request, tmp_path_factory)


@pytest.fixture
def no_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a run copies into an array that is there is an error."""

    def refuse(*_: object) -> None:
        raise AssertionError("something was copied")

    monkeypatch.setattr("tvm_neocpu.runtime.calls.binding.np.copyto", refuse)


IMAGES = [np.random.default_rng(n).standard_normal((1, 8, 12, 12), "float32") for n in range(3)]


@pytest.mark.usefixtures("no_copies")
def test_a_network_computes_into_bound_arrays(map_session: Session, maps: onnx.ModelProto) -> None:
    binding = map_session.io_binding()
    image = binding.input_array("data")
    out, flat = binding.output_array("out"), as_array(zeros((16, 144), "float32"))
    binding.bind_output("flat", flat, copy=False)
    for given in IMAGES:
        image[...] = given
        binding.run()
        wanted = onnx_runtime(maps, [given])
        for found, right in zip((out, flat), wanted, strict=False):
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-4)
        assert binding.outputs()["out"] is out
        np.testing.assert_array_equal(binding.outputs()["same"], given)


@pytest.mark.usefixtures("no_copies")
def test_outputs_without_an_array_are_new_beside_bound_ones(
    map_session: Session, maps: onnx.ModelProto
) -> None:
    binding = map_session.io_binding()
    image, flat, found = binding.input_array("data"), binding.output_array("flat"), []
    for given in IMAGES:
        image[...] = given
        binding.run()
        found.append(binding.outputs()["out"])
    for given, one in zip(IMAGES, found, strict=True):
        np.testing.assert_allclose(one, onnx_runtime(maps, [given])[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(flat, onnx_runtime(maps, [IMAGES[-1]])[1], rtol=1e-4, atol=1e-4)


def test_an_output_that_was_bound_before_is_new_memory_later(maps: onnx.ModelProto) -> None:
    """Two runs wrote the same bound array: that does not make the output a constant."""
    with Session(maps, threads=1) as session:
        binding = session.io_binding()
        binding.bind_input("data", IMAGES[0])
        binding.output_array("flat")
        binding.output_array("out")
        for _ in range(2):
            binding.run()
        binding.bind_output("out")
        binding.run()
        assert not binding.outputs()["out"].flags.owndata, "it was copied once more"


def test_a_tensor_is_written_where_numpy_takes_it_for_read_only(
    binding: IOBinding, data: Array, scores: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So did NumPy up to 2.3 with every tensor of tvm_ffi, which has no ``__array__``."""
    plain = np.from_dlpack

    def read_only(value: object) -> Array:
        array = plain(value)
        array.flags.writeable = False
        return array

    monkeypatch.setattr(np, "from_dlpack", read_only)
    out = zeros(scores.shape, "float32")
    binding.bind_input("data", data)
    binding.bind_output("out", out, copy=False)
    binding.run()
    np.testing.assert_array_equal(as_array(out), scores)


def test_memory_that_overlaps_is_copied_or_refused(
    map_session: Session, maps: onnx.ModelProto
) -> None:
    """The first convolution would overwrite the input that it reads."""
    memory = as_array(zeros((2, 16, 12, 12), "float32"))
    image, out = memory[:1, :8], memory[:1]
    wanted = onnx_runtime(maps, [IMAGES[0]])[0]
    binding = map_session.io_binding()
    binding.bind_input("data", image, copy=False)
    binding.bind_output("out", out)
    image[...] = IMAGES[0]
    binding.run()
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
    binding.bind_output("out", out, copy=False)
    with pytest.raises(ShapeError, match="without a copy: its array overlaps an input's"):
        binding.run()


def test_what_a_network_cannot_compute_into_an_array_is_copied_or_refused(
    map_session: Session,
) -> None:
    binding = map_session.io_binding()
    binding.bind_input("data", IMAGES[1])
    same = binding.output_array("same")
    binding.run()
    np.testing.assert_array_equal(same, IMAGES[1])
    binding.bind_output("same", same, copy=False)
    with pytest.raises(ShapeError, match="'same' cannot be written without a copy: the network"):
        binding.run()
    odd = np.zeros(16 * 144 + 1, "float32")[1:].reshape(16, 144)
    with pytest.raises(ShapeError, match=r"aligned to 64 bytes; use output_array\(\)"):
        binding.bind_output("flat", odd, copy=False)
    with pytest.raises(ShapeError, match="cannot be written as an array"):
        binding.bind_output("flat", [[0.0]])


@pytest.fixture(scope="module")
def batch_model(make_model: Callable[..., onnx.ModelProto]) -> onnx.ModelProto:
    """Of its outputs ``out`` has rows of 576 bytes, ``pooled`` of 16: these are not aligned."""
    nodes = [
        helper.make_node("Conv", ["data", "w"], ["out"], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["out"], ["pooled"]),
    ]
    model = make_model(nodes, ("N", 8, 6, 6), {"w": (4, 8, 3, 3)}, ("N", 4, 6, 6))
    pooled = helper.make_tensor_value_info("pooled", onnx.TensorProto.FLOAT, ("N", 4, 1, 1))
    model.graph.output.append(pooled)
    return model


@pytest.fixture(scope="module", params=["built", "loaded"])
def batch_session(
    request: pytest.FixtureRequest,
    batch_model: onnx.ModelProto,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Session]:
    yield from _sessions(batch_model, request, tmp_path_factory, max_batch=2)


@pytest.mark.usefixtures("no_copies")
@pytest.mark.parametrize("batch", [1, 2, 3, 5, 8])
def test_any_batch_is_computed_into_bound_arrays(
    batch: int, batch_session: Session, batch_model: onnx.ModelProto
) -> None:
    """Sums of specialised batches, too: 5 = 2 + 2 + 1."""
    binding = batch_session.io_binding()
    image = binding.input_array("data", (batch, 8, 6, 6))
    arrays = {
        "out": as_array(zeros((batch, 4, 6, 6), "float32")),
        "pooled": as_array(zeros((batch, 4, 1, 1), "float32")),
    }
    for name, array in arrays.items():
        binding.bind_output(name, array, copy=False)
    for seed in range(2):
        image[...] = np.random.default_rng(seed).standard_normal(image.shape, "float32")
        binding.run()
        wanted = onnx_runtime(batch_model, [image])
        for found, right in zip(arrays.values(), wanted, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-4)


def test_a_bound_array_of_another_batch_is_refused(batch_session: Session) -> None:
    binding = batch_session.io_binding()
    with pytest.raises(ShapeError, match="say its shape"):
        binding.output_array("out")
    binding.bind_input("data", np.ones((3, 8, 6, 6), "float32"))
    binding.output_array("out", (2, 4, 6, 6))
    with pytest.raises(ShapeError, match=r"output 'out' is \[3, 4, 6, 6\] now"):
        binding.run()


BRANCHES = """<ir_version: 8, opset_import: ["": 17]>
net (float[1,8,16,16] x) => (float[1,8,16,16] p, float[1,8,8,8] q, float[1,8,16,16] r) {
  sum = ReduceSum <keepdims = 0> (x)
  zero = Constant <value = float {0}> ()
  c = Greater (sum, zero)
  p, q = If (c) <
    then_branch = a () => (float[1,8,16,16] a0, float[1,8,8,8] a1) {
      t = Relu (x)
      a0 = Exp (t)
      a1 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)
    },
    else_branch = b () => (float[1,8,16,16] b0, float[1,8,8,8] b1) {
      b0 = Sigmoid (x)
      b1 = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x)
    }
  >
  r = If (c) <
    then_branch = d () => (float[1,8,16,16] d0) {
      many = Constant <value = float {900}> ()
      e = Greater (sum, many)
      d0 = If (e) <
        then_branch = f () => (float[1,8,16,16] f0) { f0 = Tanh (x) },
        else_branch = g () => (float[1,8,16,16] g0) { g0 = Neg (x) }
      >
    },
    else_branch = h () => (float[1,8,16,16] h0) { h0 = Abs (x) }
  >
}"""


@pytest.mark.usefixtures("no_copies")
def test_what_branches_compute_goes_into_bound_arrays() -> None:
    model = onnx.parser.parse_model(BRANCHES)
    with Session(model, cache=False) as session:
        binding = session.io_binding()
        image = binding.input_array("x")
        arrays = [binding.output_array(info.name) for info in session.outputs]
        for info, array in zip(session.outputs, arrays, strict=True):
            binding.bind_output(info.name, array, copy=False)
        for offset in (-1.0, 0.01, 1.0):
            image[...] = np.random.default_rng(0).uniform(-0.1, 0.1, image.shape) + offset
            binding.run()
            for found, right in zip(arrays, onnx_runtime(model, [image]), strict=True):
                np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


def test_a_branch_that_returns_what_was_there_keeps_it() -> None:
    """The other branch computes from the tensor that this one returns."""
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17]>
net (float[1,8,16,16] x) => (float[1,8,16,16] p, float[1,8,16,16] y) {
  sum = ReduceSum <keepdims = 0> (x)
  zero = Constant <value = float {0}> ()
  c = Greater (sum, zero)
  y = Softmax (x)
  p = If (c) <
    then_branch = a () => (float[1,8,16,16] a0) { a0 = Identity (y) },
    else_branch = b () => (float[1,8,16,16] b0) { b0 = Softmax <axis = 1> (y) }
  >
}""")
    with Session(model, cache=False) as session:
        for offset in (-1.0, 1.0):
            image = (np.random.default_rng(0).uniform(-0.1, 0.1, (1, 8, 16, 16)) + offset).astype(
                "f"
            )
            for found, right in zip(
                session.run({"x": image}).values(), onnx_runtime(model, [image]), strict=True
            ):
                np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


def test_an_output_whose_extents_only_a_run_knows() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        places (float[3, 4] data) => (int64[2, K] found) { found = NonZero (data) }"""
    )
    with Session(model) as session:
        assert [str(tensor) for tensor in session.outputs] == ["found int64[?, ?]"]
        binding = session.io_binding()
        data = binding.input_array("data")
        data[1, 2:] = 1
        found = binding.output_array("found", (2, 2))
        binding.run()
        np.testing.assert_array_equal(found, [[1, 1], [2, 3]])
        data[:] = 1
        with pytest.raises(ShapeError, match=r"output 'found' is \[2, 12\] now, and \[2, 2\] is"):
            binding.run()
