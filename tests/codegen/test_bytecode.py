"""Bytecode: read and written without a change, and weights made arguments; TVM runs the result."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper

from tvm_neocpu import relay
from tvm_neocpu.codegen.bytecode.executable import (
    TENSOR,
    UnknownBytecodeError,
    read_executable,
    write_executable,
)
from tvm_neocpu.codegen.bytecode.lift_weights import MIN_BYTES, lift_weights
from tvm_neocpu.exporting.separate_weights import separated
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.ffi.machine import Machine

MakeModel = Callable[..., onnx.ModelProto]


@pytest.fixture(scope="module")
def library(make_model: MakeModel) -> BuiltModule:
    """Two convolutions over an open batch: functions that call functions, and weights."""
    nodes = [
        helper.make_node("Conv", ["data", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["out"], pads=[1, 1, 1, 1]),
    ]
    weights = {"w": (16, 8, 3, 3), "v": (16, 16, 3, 3)}
    model = make_model(nodes, ("N", 8, 12, 12), weights, ("N", 16, 12, 12))
    mod, _ = relay.frontend.from_onnx(model)
    return relay.build(mod)


@pytest.fixture(scope="module")
def stored(library: BuiltModule, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("bytecode") / "net.vm"
    library.module.write_to_file(str(path), "")
    return path.read_bytes()


def test_what_is_read_is_written_again(stored: bytes) -> None:
    executable = read_executable(memoryview(stored))
    assert write_executable(executable) == stored
    tensors = [found for found in executable.constants if found.type == TENSOR]
    assert {found.dtype for found in tensors} == {"float32"}
    for found in tensors:
        assert len(found.data) == 4 * int(np.prod(found.shape))


def test_large_constants_become_arguments(stored: bytes) -> None:
    before = read_executable(memoryview(stored))
    lifted = lift_weights(before)
    assert lifted is not None
    assert "main" in lifted.taken and len(lifted.taken) > 1
    assert all(len(weight.data) >= MIN_BYTES for weight in lifted.weights)
    assert not any(len(found.data) >= MIN_BYTES for found in lifted.executable.constants)
    again = read_executable(memoryview(write_executable(lifted.executable)))
    assert again == lifted.executable
    assert lift_weights(again) is None
    arguments = {function.name: function.arguments for function in before.functions}
    for function in again.functions:
        more = len(lifted.taken.get(function.name, ()))
        assert function.arguments == arguments[function.name] + more


@pytest.mark.parametrize("batch", [1, 3, 5])
def test_tvm_runs_the_result(batch: int, library: BuiltModule) -> None:
    found = separated(library.module)
    assert found is not None
    weights = [
        tvm.runtime.tensor(np.frombuffer(weight.data, weight.dtype).reshape(weight.shape))
        for weight in found.weights
    ]
    images = np.random.default_rng(batch).standard_normal((batch, 8, 12, 12)).astype("f")
    module = library.create()
    module.run(data=images)
    taken = [weights[number] for number in found.taken["main"]]
    output = Machine(found.whole())["main"](tvm.runtime.tensor(images), *taken)
    np.testing.assert_array_equal(output.numpy(), module.get_output(0).numpy())


@pytest.mark.parametrize("cut", [0, 7, 30, 200, -9, -1])
def test_other_bytes_are_left_alone(cut: int, stored: bytes) -> None:
    with pytest.raises(UnknownBytecodeError):
        read_executable(memoryview(stored[:cut]))
    with pytest.raises(UnknownBytecodeError):
        read_executable(memoryview(stored + b"more"))


def test_a_version_that_is_not_known_keeps_its_constants(
    library: BuiltModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvm_neocpu.codegen.bytecode import executable
    from tvm_neocpu.runtime.built_module import load

    monkeypatch.setattr(executable, "VERSION", "9.9")
    assert separated(library.module) is None
    library.export_library(tmp_path / "net.so")
    loaded = load(tmp_path / "net.so")
    assert not loaded.library.weights
    images = np.ones((2, 8, 12, 12), "float32")
    answers = []
    for made in (library, loaded):
        module = made.create()
        module.run(data=images)
        answers.append(module.get_output(0).numpy())
    np.testing.assert_array_equal(*answers)
