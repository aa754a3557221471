"""verify: right networks, a planted fault that it finds, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from tvm_neocpu.commands import verify
from tvm_neocpu.commands.shared.exit_codes import USER_ERROR
from tvm_neocpu.contrib.verify import engines
from tvm_neocpu.contrib.verify.first_deviation import ending_at, first_deviation
from tvm_neocpu.core.accuracy.precision import HALF_DTYPES
from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.frontend.reading.half_metadata import asked_half

Arrays = Mapping[str, NDArray[np.float32]]


def broken_at(operator: str) -> Callable[..., Sequence[NDArray[np.float32]]]:
    """ONNX Runtime with a fault: whatever depends on the operator comes out 1 % larger."""

    def run(model: onnx.ModelProto, inputs: Arrays, **_: object) -> Sequence[NDArray[np.float32]]:
        factor = 1.01 if any(node.op_type == operator for node in model.graph.node) else 1.0
        return [found * np.float32(factor) for found in engines.run_reference(model, inputs)]

    return run


def test_a_right_network(tiny_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify.main([tiny_file, "--json", "out.json"]) == 0
    assert "right" in capsys.readouterr().out
    (network,) = json.loads(Path("out.json").read_text())["networks"]
    (output,) = network["outputs"]
    assert output["output"] == "out" and output["error"] < 1e-4 and not output["differs"]
    assert network["first_deviation"] is None


@pytest.mark.parametrize("precision", ["fp16", "bf16", "int8"])
def test_lower_precision_is_compared_with_the_files_own(
    precision: str,
    tiny_file: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Parts of the network ask for half precision, too; what was chosen for all of it has none."""
    compiled: list[onnx.ModelProto] = []

    def ours(model: onnx.ModelProto, inputs: Arrays, **_: object) -> Sequence[NDArray[np.float32]]:
        compiled.append(model)
        return [found * np.float32(1.1) for found in engines.run_reference(model, inputs)]

    monkeypatch.setattr(verify, "_ours", ours)
    np.savez("data.npz", data=np.random.default_rng(0).normal(size=(4, 8, 6, 6)).astype("float32"))
    words = ["--precision", precision, "--target", "llvm", "-mcpu=znver4"]
    words += ["--accuracy-data", "data.npz"] if precision == "int8" else []
    assert verify.main([tiny_file, *words]) == 0, "a tenth is no fault in lower precision"
    assert verify.main([tiny_file, *words, "--tolerance", "0.05"]) == verify.DIFFERS
    said = capsys.readouterr().out
    if precision == "int8":
        assert "QuantizeLinear" in {node.op_type for node in compiled[0].graph.node}
        assert len(compiled) == 2 and "chosen for the whole network" in said
    else:
        assert {asked_half(model) for model in compiled} == {HALF_DTYPES[precision]}
        assert len(compiled) > 2 and "the first operation that deviates is Conv" in said


def test_a_batch_that_the_file_does_not_have(
    tiny_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """ONNX Runtime would refuse it."""
    (data,) = onnx.load(tiny_file).graph.input
    one, *rest = (dim.dim_value for dim in data.type.tensor_type.shape.dim)
    assert one == 1
    wanted = ",".join(map(str, (3, *rest)))
    assert verify.main([tiny_file, "--shape", f"{data.name}:{wanted}"]) == 0
    assert "[3, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("operator", "node"),
    [("Conv", "conv"), ("Relu", "relu"), ("GlobalAveragePool", "pool"), ("Gemm", "fc")],
)
def test_the_first_operation_that_deviates_is_named(
    operator: str,
    node: str,
    tiny_file: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(verify, "_ours", broken_at(operator))
    assert verify.main([tiny_file, "--json", "out.json"]) == verify.DIFFERS
    assert f"the first operation that deviates is {operator} '{node}'" in capsys.readouterr().out
    (network,) = json.loads(Path("out.json").read_text())["networks"]
    assert network["first_deviation"]["node"] == node


def test_a_fault_of_the_whole_only(
    tiny_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[int] = []

    def run(model: onnx.ModelProto, inputs: Arrays, **_: object) -> Sequence[NDArray[np.float32]]:
        calls.append(1)
        return [f + (len(calls) == 1) for f in engines.run_reference(model, inputs)]

    monkeypatch.setattr(verify, "_ours", run)
    assert verify.main([tiny_file]) == verify.DIFFERS
    assert "no part of the network deviates by itself" in capsys.readouterr().out


def test_a_part_that_an_engine_cannot_run_is_skipped(tiny_cnn: onnx.ModelProto) -> None:
    def ours(model: onnx.ModelProto, inputs: Arrays) -> Sequence[NDArray[np.float32]]:
        if not any(node.op_type == "Gemm" for node in model.graph.node):
            raise NeoCpuError("not today")
        return broken_at("Gemm")(model, inputs)

    data = {"data": np.ones((1, 8, 6, 6), "float32")}
    said: list[str] = []
    found = first_deviation(tiny_cnn, data, ours, engines.run_reference, 1e-3, said.append)
    assert found is not None and found.node == "fc"
    assert any("skipped, not today" in line for line in said)


def test_a_part_of_a_network(tiny_cnn: onnx.ModelProto) -> None:
    typed = onnx.shape_inference.infer_shapes(tiny_cnn)
    value = next(value for value in typed.graph.value_info if value.name == "r")
    part = ending_at(typed, value)
    assert [node.op_type for node in part.graph.node] == ["Conv", "Relu"]
    assert {weight.name for weight in part.graph.initializer} == {"w", "b"}
    onnx.checker.check_model(part)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nosuch"], "neither a file nor a network of the zoo"),
        (["tiny.onnx", "--tolerance", "nan"], "invalid positive number"),
        (["tiny.onnx", "--tolerance", "-1"], "invalid positive number"),
        (["tiny.onnx", "--input", "x=none.npy"], "cannot read none.npy"),
        (["tiny.onnx", "--log", "none.log"], "cannot read the tuning log none.log"),
        (["tiny.onnx", "--seed", "-1"], "invalid number of 0 or more value: '-1'"),
        (["tiny.onnx", "--json", "no/such.json"], "cannot write no/such.json"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], text: str, tiny_file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        code = verify.main(words)
    except SystemExit as stop:
        code = int(stop.code or 0)
    assert code == USER_ERROR
    error = capfd.readouterr().err
    assert text in error and error.count("\n") == 1


def test_what_was_compared_stays_where_the_next_network_is_none(
    tiny_file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert verify.main([tiny_file, "nosuch", "--json", "report.json"]) == USER_ERROR
    (network,) = json.loads(Path("report.json").read_text())["networks"]
    assert network["outputs"] and "neither a file" in capfd.readouterr().err
