"""Sessions: answers by name, options, many callers, and what is refused."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from numpy.typing import NDArray
from onnx import helper
from onnx_node import onnx_runtime

import tvm_neocpu
from tvm_neocpu import Session
from tvm_neocpu.core.errors import (
    SessionError,
    ShapeError,
    TargetError,
)
from tvm_neocpu.core.machine.cores import allowed_cpus
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.calls.inputs import ALIGNMENT
from tvm_neocpu.runtime.process import host

Array = NDArray[np.float32]
SHAPE = (1, 8, 6, 6)
FIRST = min(allowed_cpus())


@pytest.fixture(scope="module", params=["built", "from a file"])
def session(
    request: pytest.FixtureRequest, lib: BuiltModule, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    path = tmp_path_factory.mktemp("session") / "tiny.so"
    if request.param != "built":
        lib.export_library(path)
    with Session(lib if request.param == "built" else path) as made:
        yield made


def test_outputs_by_name_or_as_a_list(
    session: Session, tiny_cnn: onnx.ModelProto, data: Array
) -> None:
    (wanted,) = onnx_runtime(tiny_cnn, [data])
    found = session.run({"data": data})
    assert list(found) == ["out"]
    np.testing.assert_allclose(found["out"], wanted, rtol=1e-4, atol=1e-5)
    for names in (["out"], [0], None, []):
        (again,) = session.run(names, {"data": data})
        np.testing.assert_array_equal(again, found["out"])


def test_what_a_session_knows(session: Session) -> None:
    assert [str(tensor) for tensor in session.inputs] == ["data float32[1, 8, 6, 6]"]
    assert [str(tensor) for tensor in session.outputs] == ["out float32[1, 10]"]
    assert session.streams == 1
    assert session.threads == len(session.cores[0])
    assert "data float32[1, 8, 6, 6]" in repr(session)


def test_outputs_keep_what_they_are(session: Session, data: Array, scores: Array) -> None:
    kept = [session.run({"data": data * factor})["out"] for factor in (1, 0, 0, 0)]
    np.testing.assert_array_equal(kept[0], scores)
    kept[1][...] = 7  # an output belongs to its caller
    np.testing.assert_array_equal(session.run({"data": data})["out"], scores)


def aligned(array: Array) -> Array:
    raw = np.zeros(array.nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    made = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    made[...] = array
    return made


WAYS: dict[str, Callable[[Array], object]] = {
    "aligned": aligned,
    "misaligned": lambda array: np.concatenate([np.zeros(1, "float32"), array.ravel()])[1:].reshape(
        array.shape
    ),
    "transposed": lambda array: np.ascontiguousarray(array.T).T,
    "strided": lambda array: np.repeat(array, 2, axis=3)[..., ::2],
    "reversed": lambda array: np.ascontiguousarray(array[..., ::-1])[..., ::-1],
    "broadcast": lambda array: np.broadcast_to(array, array.shape),
    "tensor": lambda array: tvm.runtime.tensor(array),
}


@pytest.mark.parametrize("way", WAYS)
def test_any_memory_gives_the_same_answer(
    way: str, session: Session, data: Array, scores: Array
) -> None:
    given = WAYS[way](data)
    for _ in range(3):
        np.testing.assert_array_equal(session.run({"data": given})["out"], scores)


def test_a_capsule_is_read_once(session: Session, data: Array, scores: Array) -> None:
    """What `torch.utils.dlpack.to_dlpack` gives, and DLPack's own protocol beneath arrays."""
    capsule = aligned(data).__dlpack__()
    np.testing.assert_array_equal(session.run({"data": capsule})["out"], scores)
    with pytest.raises(ShapeError, match="input 'data' cannot be read as an array: "):
        session.run({"data": capsule})


def test_a_read_only_input(session: Session, data: Array, scores: Array) -> None:
    given = aligned(data)
    given.flags.writeable = False
    np.testing.assert_array_equal(session.run({"data": given})["out"], scores)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"image": np.zeros(SHAPE, "float32")}, "no input 'image'; it has data float32"),
        ({}, "no value for input 'data'"),
        ([np.zeros(SHAPE, "float32")], "inputs are a dictionary by name, not list"),
        ({"data": np.zeros((1, 8, 6, 5), "float32")}, "is [1, 8, 6, 6], not [1, 8, 6, 5]"),
        ({"data": np.zeros(SHAPE)}, "is float32, not float64"),
        ({"data": None}, "cannot be read as an array of numbers: it is NoneType"),
        ({"data": "image.npy"}, "cannot be read as an array of numbers: it is str"),
        ({"data": [[1.0], [1.0, 2.0]]}, "input 'data' cannot be read as an array"),
        ({"data": tvm.runtime.tensor(np.zeros(SHAPE))}, "is float32, not float64"),
    ],
)
def test_bad_inputs_are_one_line(inputs: object, words: str, session: Session) -> None:
    for call in (session.run, session.submit):
        with pytest.raises(ShapeError) as caught:
            call(inputs)
        assert words in str(caught.value)
        assert "\n" not in str(caught.value)


def test_bad_outputs_are_one_line(session: Session, data: Array) -> None:
    with pytest.raises(ShapeError, match=r"no output 'scores'; it has out float32"):
        session.run(["scores"], {"data": data})
    with pytest.raises(SessionError, match="list of names"):
        session.run("out", {"data": data})
    with pytest.raises(SessionError, match="list of names"):
        session.run(0, {"data": data})
    with pytest.raises(SessionError, match="run takes"):
        session.run()


def test_a_closed_session_says_so(lib: BuiltModule, data: Array) -> None:
    session = Session(lib)
    waiting = session.submit({"data": data})
    session.close()
    session.close()
    assert waiting.result()["out"].shape == (1, 10)
    with pytest.raises(SessionError, match="the session is closed"):
        session.run({"data": data})
    with pytest.raises(SessionError, match="the session is closed"):
        session.io_binding()


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux tells what is mapped")
@pytest.mark.parametrize("how", ["session", "load"])
def test_code_leaves_the_process_and_answers_stay(
    how: str, lib: BuiltModule, data: Array, scores: Array, tmp_path: Path
) -> None:
    path = tmp_path / "net.so"
    lib.export_library(path)
    if how == "session":
        session = Session(path)
        found = session.run({"data": data})["out"]
        session.close()
    else:
        module = tvm_neocpu.load(path)["default"](tvm.cpu())
        module.run(data=data)
        found = module.get_output(0)
        del module
        gc.collect()
    assert str(path) not in Path("/proc/self/maps").read_text()
    np.testing.assert_array_equal(found if how == "session" else found.numpy(), scores)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_session_is_not_copied(copied: Callable[[Any], object], lib: BuiltModule) -> None:
    with Session(lib, threads=1) as session, pytest.raises(SessionError, match="neither pickled"):
        copied(session)


def test_a_session_for_another_cpu_is_refused_before_it_is_built(
    cache_home: Path, tiny_cnn: onnx.ModelProto
) -> None:
    target = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"
    if host.arch() == "aarch64":
        target = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4"
    with pytest.raises(TargetError, match=r"no session runs code for .* here: it is .* code"):
        Session(tiny_cnn, target=target)
    assert not list(cache_home.glob("*"))


def test_a_forgotten_session_ends_its_threads(lib: BuiltModule, data: Array) -> None:
    before = threading.active_count()
    for _ in range(3):
        Session(lib).run({"data": data})
    assert threading.active_count() == before


def test_a_cancelled_call_is_not_made(lib: BuiltModule, data: Array) -> None:
    with Session(lib) as session:
        release = threading.Event()
        busy = session._streams.submit(lambda _: release.wait())
        waiting = session.submit({"data": data})
        assert waiting.cancel()
        release.set()
        assert busy.result()
        assert session.run({"data": data})["out"].shape == (1, 10)


def test_an_open_batch(make_model: Callable[..., onnx.ModelProto]) -> None:
    conv = helper.make_node("Conv", ["data", "w"], ["out"], pads=[1, 1, 1, 1])
    model = make_model([conv], ("N", 8, 6, 6), {"w": (4, 8, 3, 3)}, ("N", 4, 6, 6))
    with Session(model, threads=1) as session:
        for batch in (1, 3, 2, 3):
            images = np.random.default_rng(batch).standard_normal((batch, 8, 6, 6)).astype("f")
            (wanted,) = onnx_runtime(model, [images])
            found = session.run({"data": images})["out"]
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_what_a_network_passes_through_is_copied(
    make_model: Callable[..., onnx.ModelProto],
) -> None:
    """An output may be the input's memory, or a weight's: writing there must change neither."""
    nodes = [
        helper.make_node("Identity", ["data"], ["out"]),
        helper.make_node("Reshape", ["data", "shape"], ["flat"]),
        helper.make_node("Identity", ["w"], ["weight"]),
    ]
    model = make_model(nodes, (1, 8), {"w": (5,)}, (1, 8))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([8], np.int64), "shape"))
    for name, shape in (("flat", (8,)), ("weight", (5,))):
        model.graph.output.append(
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        )
    given = aligned(np.arange(8, dtype=np.float32).reshape(1, 8))
    wanted = onnx_runtime(model, [given])
    with Session(model, threads=1) as session:
        for _ in range(4):
            found = session.run(None, {"data": given})
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(one, other)
                one[...] = -1
    np.testing.assert_array_equal(given, np.arange(8, dtype=np.float32).reshape(1, 8))
