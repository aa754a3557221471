"""Sessions over models that leave more open than a batch: runs say for which shapes to compile."""

from __future__ import annotations

import gc
import logging
import re
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from fresh_process import FORK, needs_fork, run_script
from onnx_text import Array, assert_like, normal, parsed, peers

from tvm_neocpu import Session, relay, session
from tvm_neocpu.core.errors import ModelFileError, NeoCpuError, OpenShapeError, ShapeError
from tvm_neocpu.runtime.calls import functions
from tvm_neocpu.runtime.calls.functions import Functions, Library
from tvm_neocpu.runtime.ffi.machine import Machine

OPEN = """
g (float[N,3,H,W] x) => (float[N,4,H,W] y, float[N,4,1,1] mean) {
    y = Conv <pads = [1, 1, 1, 1]> (x, w)
    mean = GlobalAveragePool (y)
}"""
TWO_BATCHES = """
g (float[N,4] x, float[M,4] k) => (float[P,4] y) { y = Concat <axis = 0> (x, k) }"""
BESIDE_A_BATCH = """
g (float[N,4] x, float[1,4] k) => (float[N,4] y) { y = Add (x, k) }"""
WITH_A_CONSTANT = """
g (float[H,W] x) => (float[H,W] y, float[2] same) { y = Relu (x) same = Identity (w) }"""
SHAPES = [(1, 3, 20, 24), (2, 3, 9, 17), (1, 3, 20, 24), (1, 3, 5, 1)]


def open_model() -> onnx.ModelProto:
    return parsed(OPEN, w=normal(4, 3, 3, 3))


def check(found: Session, model: onnx.ModelProto, **inputs: Array) -> None:
    assert_like(found.run(None, inputs), peers(model, inputs))


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The shapes that a session compiles for."""
    asked: list[Any] = []
    compile_now = session._compiled

    def noted(model: Any, shapes: Any, *options: Any) -> Any:
        asked.append(shapes)
        return compile_now(model, shapes, *options)

    monkeypatch.setattr(session, "_compiled", noted)
    return asked


@pytest.mark.parametrize("is_file", [False, True])
def test_each_shape_is_compiled_once(is_file: bool, compiled: list[Any], tmp_path: Path) -> None:
    model = open_model()
    onnx.save(model, tmp_path / "net.onnx")
    with Session(tmp_path / "net.onnx" if is_file else model) as found:
        assert [tensor.shape for tensor in found.inputs] == [(-1, 3, -1, -1)]
        assert [tensor.shape for tensor in found.outputs] == [(-1, 4, -1, -1), (-1, 4, 1, 1)]
        for shape in SHAPES:
            check(found, model, x=normal(*shape))
    distinct = list(dict.fromkeys(SHAPES))
    assert compiled == [None, *({"x": shape} for shape in distinct)]


@pytest.mark.parametrize("text", [TWO_BATCHES, BESIDE_A_BATCH])
def test_batches_that_are_no_batch_of_the_network(text: str) -> None:
    model = parsed(text)
    with Session(model) as found:
        for batch in (1, 3, 8):
            check(found, model, x=normal(batch, 4), k=normal(1, 4, seed=1))


def test_a_constant_stays_one_whatever_a_caller_writes_into_it() -> None:
    model = parsed(WITH_A_CONSTANT, w=np.array([1, 2], "float32"))
    with Session(model) as found:
        for rows in (2, 3, 2, 3, 2, 3):
            _, same = found.run(None, {"x": normal(rows, 4)})
            np.testing.assert_array_equal(same, [1, 2])
            same[:] = 9


@pytest.mark.parametrize("width", [7, 300])
def test_the_shape_that_nobody_used_for_longest_is_forgotten(
    width: int, compiled: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small arrays have calls of their own, large ones notes of what is a constant."""
    monkeypatch.setattr(functions, "MOST_SHAPES", 2)
    model, sizes = open_model(), (4, 5, 4, 6, 4, 5)
    machines = []
    kept_now = Functions._machine

    def noted(self: Functions, part: Library) -> Machine:
        machine = kept_now(self, part)
        machines.append(weakref.ref(machine))
        return machine

    monkeypatch.setattr(Functions, "_machine", noted)
    with Session(model, threads=1) as found:
        for size in sizes:
            for _ in range(2):
                check(found, model, x=normal(1, 3, size, width))
        assert [shapes["x"][2] for shapes in compiled[1:]] == [4, 5, 6, 5]
        gc.collect()
        assert len({id(kept()) for kept in machines if kept() is not None}) == 2


@pytest.mark.parametrize("kind", ["a module", "a binding"])
def test_what_is_used_all_the_time_stays(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module and a binding know the way to their code; the library hears of it all the same."""
    monkeypatch.setattr(functions, "MOST_SHAPES", 2)
    model = open_model()
    asked: list[int] = []
    compile_now = Library._compiled

    def noted(self: Library, shapes: Any) -> Any:
        asked.append(shapes[0][2])
        return compile_now(self, shapes)

    monkeypatch.setattr(Library, "_compiled", noted)
    sizes = (5, 6, 5, 7, 5, 8, 5, 9, 5)
    if kind == "a module":
        mod, _ = relay.frontend.from_onnx(model, {"x": (1, 3, "H", 7)})
        module = relay.build(mod, shapes=[{"x": (1, 3, 4, 7)}])["default"](tvm.cpu())
        for size in sizes:
            module.run(x=normal(1, 3, size, 7))
    else:
        with Session(model, threads=1) as found:
            binding = found.io_binding()
            for size in sizes:
                binding.bind_input("x", normal(1, 3, size, 7))
                binding.run()
    assert asked == [5, 6, 7, 8, 9]


def test_callers_of_many_shapes_while_others_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(functions, "MOST_SHAPES", 2)
    test_callers_of_many_shapes_at_once()


def test_callers_of_many_shapes_at_once() -> None:
    model = open_model()
    with Session(model) as found, ThreadPoolExecutor(4) as threads:
        calls = [
            threads.submit(check, found, model, x=normal(1, 3, 4 + at % 3, 7)) for at in range(12)
        ]
        for call in calls:
            call.result()


FORKS = """
import sys, threading, time, numpy as np, tvm_neocpu
options = {"threads": 2, "streams": 2} if sys.argv[2] == "two" else {}
session = tvm_neocpu.Session(sys.argv[1], **options)

def run(size):
    return session.run({"x": np.ones((1, 3, size, 7), "float32")})["y"].shape == (1, 4, size, 7)

for wait, size in enumerate((9, 11, 13, 15)):
    callers = [threading.Thread(target=run, args=(size + at,)) for at in range(2)]
    for caller in callers: caller.start()
    time.sleep(0.03 * wait)
    assert succeeded(fork(lambda: run(9)))
    for caller in callers: caller.join()
"""


@needs_fork
@pytest.mark.parametrize("streams", ["one", "two"])
def test_a_fork_while_runs_compile(streams: str, tmp_path: Path) -> None:
    """A run that compiled while it held its stream waited for the fork, and the fork for it."""
    onnx.save(open_model(), tmp_path / "net.onnx")
    run_script(FORK + FORKS, str(tmp_path / "net.onnx"), streams)


def test_bound_arrays_have_any_shape() -> None:
    model = open_model()
    with Session(model) as found:
        binding = found.io_binding()
        for size in (6, 11):
            x = normal(1, 3, size, size)
            binding.bind_input("x", x)
            binding.bind_output("y")
            binding.bind_output("mean")
            found.run_with_iobinding(binding)
            assert_like([binding.outputs()[name] for name in ("y", "mean")], peers(model, {"x": x}))


def test_the_log_says_what_a_run_waited_for(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_NOTICED", 0.0)
    with Session(open_model()) as found, caplog.at_level(logging.WARNING, "tvm_neocpu"):
        for _ in range(2):
            found.run({"x": normal(1, 3, 8, 8)})
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1
    assert re.match(r"the first run for x \[1, 3, 8, 8\] waited \d+\.\d s for", lines[0])


def test_shapes_that_the_model_refuses() -> None:
    with Session(open_model()) as found:
        with pytest.raises(ShapeError, match=r"'x' is \[\?, 3, \?, \?\], not \[1, 4, 8, 8\]"):
            found.run({"x": normal(1, 4, 8, 8)})
        check(found, open_model(), x=normal(1, 3, 8, 8))


def test_a_file_that_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(open_model(), path)
    with Session(path) as found:
        x = normal(1, 3, 8, 8)
        before = found.run({"x": x})["y"]
        onnx.save(
            parsed(OPEN.replace("GlobalAveragePool", "GlobalMaxPool"), w=normal(4, 3, 3, 3)), path
        )
        np.testing.assert_array_equal(found.run({"x": x})["y"], before)
        with pytest.raises(
            ModelFileError, match="changed since the session was made: make another"
        ):
            found.run({"x": normal(1, 3, 9, 9)})


def test_a_file_of_weights_that_has_changed(tmp_path: Path) -> None:
    path, weights = tmp_path / "net.onnx", tmp_path / "net.weights"
    onnx.save(
        open_model(), path, save_as_external_data=True, location=weights.name, size_threshold=0
    )
    with Session(path) as found:
        found.run({"x": normal(1, 3, 8, 8)})
        weights.write_bytes(bytes(weights.stat().st_size))
        with pytest.raises(ModelFileError, match="a file of its weights, changed since"):
            found.run({"x": normal(1, 3, 9, 9)})


def test_an_output_whose_shape_is_not_said() -> None:
    model = open_model()
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    with Session(model) as found:
        assert [tensor.shape for tensor in found.outputs] == [(-1, 4, -1, -1), (-1, 4, 1, 1)]
        binding = found.io_binding()
        x, y = normal(1, 3, 6, 6), np.empty((1, 4, 6, 6), "float32")
        binding.bind_input("x", x)
        binding.bind_output("y", y)
        binding.run()
        assert_like([y], peers(model, {"x": x})[:1])


@pytest.mark.parametrize("options", [{"hint": "throughput"}, {"precision": "bf16"}])
def test_what_needs_shapes_before_a_run(options: dict[str, Any]) -> None:
    with pytest.raises(OpenShapeError, match="give a shape, like Session"):
        Session(open_model(), **options)


def test_a_rank_that_is_not_said() -> None:
    model = open_model()
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ShapeError, match="input 'x' has no shape"):
        Session(model)


@pytest.mark.parametrize("reader", ["ArgMax <axis = 1> (a)", "TopK (a, two)", "NonZero (a)"])
def test_two_images_for_each_of_the_batch(reader: str) -> None:
    """A function over (2 n, ..) alone has no parameter that tells it n."""
    text = f"g (float[N,4,6] x) => (int64[a,b,c] y) {{ a = Concat <axis = 0> (x, x) y = {reader} }}"
    if "TopK" in reader:
        text = text.replace("y =", "values, y =")
    if "NonZero" in reader:
        text = text.replace("int64[a,b,c]", "int64[a,b]")
    model = parsed(text, two=np.array([2])) if "two" in text else parsed(text)
    with Session(model) as found:
        for batch in (1, 3):
            check(found, model, x=normal(batch, 4, 6))


def test_an_operator_that_no_shape_mends_is_refused_at_once() -> None:
    model = parsed("g (float[N,4,6] x) => (float[a,b,c] y) { y = StringNormalizer (x) }")
    with pytest.raises(NeoCpuError, match="StringNormalizer"):
        Session(model)
