"""quantize: a QDQ file that ONNX Runtime runs, its report, and one line for every mistake."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tvm_neocpu.commands import quantize
from tvm_neocpu.commands.shared.exit_codes import USER_ERROR

ort = pytest.importorskip("onnxruntime")


@pytest.fixture
def samples_file() -> str:
    data = np.random.default_rng(3).normal(size=(8, 8, 6, 6)).astype("float32")
    np.savez("samples.npz", data=data)
    return "samples.npz"


def test_a_network_is_written_and_described(
    tiny_file: str, samples_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [tiny_file, "--calibration", samples_file, "-o", "q.onnx", "--json", "q.json"]
    assert quantize.main(words) == 0
    shown = capsys.readouterr().out
    assert "2 of 2 layers in int8, 100.0% of the multiply-adds" in shown
    assert "top-1 agreement with fp32 100.0% of 8 rows" in shown and "8 samples" in shown
    report = json.loads(Path("q.json").read_text())
    assert report["sqnr_db"] > 30 and report["share_int8"] == 1.0
    assert [layer["layer"] for layer in report["layers"]] == ["conv", "fc"]

    session = ort.InferenceSession("q.onnx")
    data = np.load(samples_file)["data"][:1]
    (found,) = session.run(["out"], {"data": data})
    (wanted,) = ort.InferenceSession(tiny_file).run(["out"], {"data": data})
    assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()
    types = {node.op_type for node in onnx.load("q.onnx").graph.node}
    assert {"QuantizeLinear", "DequantizeLinear", "Conv", "Gemm"} <= types


def test_the_door_and_the_default_name(tiny_file: str) -> None:
    from tvm_neocpu.quantize import main

    assert main([tiny_file, "--random", "2"]) == 0
    assert Path("tiny-int8.onnx").exists()


def test_random_samples_are_said_to_be_random(
    tiny_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert quantize.main([tiny_file, "--random", "3"]) == 0
    assert "3 random samples" in capsys.readouterr().out


def test_excluded_operations_stay_in_fp32(tiny_file: str, samples_file: str) -> None:
    words = [tiny_file, "--calibration", samples_file, "-o", "q.onnx", "--json", "q.json"]
    assert quantize.main([*words, "--exclude", "fc"]) == 0
    layers = json.loads(Path("q.json").read_text())["layers"]
    assert {layer["layer"]: layer["int8"] for layer in layers} == {"conv": True, "fc": False}


def test_a_bound_is_met(tiny_file: str, samples_file: str) -> None:
    words = [tiny_file, "--calibration", samples_file, "-o", "q.onnx", "--json", "q.json"]
    assert quantize.main(words) == 0
    free = json.loads(Path("q.json").read_text())["error"]
    assert quantize.main([*words, "--max-error", str(free * 0.9)]) == 0
    report = json.loads(Path("q.json").read_text())
    assert report["error"] <= free * 0.9 and report["returned_to_fp32"]


def run(words: list[str]) -> int:
    try:
        return quantize.main(words)
    except SystemExit as stop:
        return int(stop.code or 0)


def spoil(kind: str) -> None:
    """Calibration data that is wrong in one way, called ``bad`` or ``bad.npz``."""
    right = np.ones((2, 8, 6, 6), "float32")
    Path("empty").mkdir()
    Path("bad.npy").write_bytes(b"\x93NUMPY nonsense")
    Path("bad.png").write_bytes(b"no image")
    arrays = {
        "wrong shape": {"data": right[:, :4]},
        "wrong name": {"image": right},
        "nan": {"data": right * np.nan},
        "text": {"data": np.array(["a"] * 2 * 8 * 36).reshape(2, 8, 6, 6)},
        "none": {"data": right[:0]},
    }
    np.savez("bad.npz", **arrays.get(kind, {"data": right}))


@pytest.mark.parametrize(
    ("kind", "words", "text"),
    [
        ("", ["--calibration", "empty"], "the folder empty has no file of .npy"),
        ("", ["--calibration", "nowhere"], "there is no calibration data nowhere"),
        ("", ["--calibration", "bad.npy"], "bad.npy is no array of NumPy's, or damaged"),
        ("", ["--calibration", "bad.png"], "bad.png is an image, and input 'data'"),
        ("", ["--calibration", "tiny.onnx"], "tiny.onnx is no file of .npy"),
        ("wrong shape", ["--calibration", "bad.npz"], "has [2, 4, 6, 6] for input 'data'"),
        ("wrong name", ["--calibration", "bad.npz"], "no array for input 'data'; it has image"),
        ("nan", ["--calibration", "bad.npz"], "has NaN or infinities for input 'data'"),
        ("text", ["--calibration", "bad.npz"], "no numbers"),
        ("none", ["--calibration", "bad.npz"], "bad.npz has [0, 8, 6, 6]"),
        ("", [], "one of the arguments --calibration --random is required"),
        ("", ["--random", "2", "--calibration", "empty"], "not allowed with argument"),
        ("", ["--random", "0"], "invalid positive number"),
        ("", ["--random", "2", "--method", "magic"], "invalid choice: 'magic'"),
        ("", ["--random", "2", "--std", "0"], "invalid R,G,B above 0"),
        ("", ["--random", "2", "--exclude", "cnv"], "no operation 'cnv'; did you mean conv?"),
        ("", ["--random", "2", "--exclude", "conv", "--exclude", "fc"], "leaves no layer"),
        ("", ["--random", "2", "--max-error", "1e-9"], "the best reachable is"),
        ("", ["--random", "2", "--max-error", "nan"], "invalid positive number"),
        ("", ["--random", "2", "-o", "no/such.onnx"], "cannot write no/such.onnx"),
        ("", ["--random", "2", "--json", "no/such.json"], "cannot write no/such.json"),
        ("", ["--random", "2", "--shape", "x:1,2"], "the model has no input 'x'"),
        ("", ["--random", "2", "--shape", "data:1,8,9,9"], "'data' is [1, 8, 6, 6] in the model"),
    ],
)
def test_bad_input_is_one_line(
    kind: str, words: list[str], text: str, tiny_file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    spoil(kind)
    assert run([tiny_file, *words]) == USER_ERROR
    error = capfd.readouterr().err
    assert text in error and error.count("\n") == 1
    assert not Path("tiny-int8.onnx").exists()


def test_the_model_itself_is_not_replaced(
    tiny_file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = Path(tiny_file).read_bytes()
    Path("link.onnx").symlink_to(tiny_file)
    for name in (tiny_file, "link.onnx"):
        assert run([tiny_file, "--random", "2", "-o", name]) == USER_ERROR
        assert f"{name} is the model itself" in capfd.readouterr().err
    assert Path(tiny_file).read_bytes() == before


def test_an_unreadable_image_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    Path("images").mkdir()
    Path("images/a.png").write_bytes(b"no image")
    assert run(["lenet", "--calibration", "images"]) == USER_ERROR
    error = capfd.readouterr().err
    assert "cannot read the image images/a.png" in error and error.count("\n") == 1


def test_a_quantised_network_is_refused(tiny_file: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run([tiny_file, "--random", "2", "-o", "q.onnx"]) == 0
    capfd.readouterr()
    assert run(["q.onnx", "--random", "2"]) == USER_ERROR
    error = capfd.readouterr().err
    assert "q is quantised already: it has a" in error and error.count("\n") == 1


def test_a_network_without_layers_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3])
    out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 3])
    graph = helper.make_graph([helper.make_node("Sigmoid", ["x"], ["y"])], "g", [value], [out])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), "none.onnx")
    assert run(["none.onnx", "--random", "2"]) == USER_ERROR
    assert "no convolution or dense layer" in capfd.readouterr().err


def test_an_activation_that_is_not_finite_is_named(
    tiny_file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    model = onnx.load(tiny_file)
    weight = onnx.numpy_helper.to_array(model.graph.initializer[0]).copy()
    weight[:] = 1e38
    model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(model, "large.onnx")
    assert run(["large.onnx", "--random", "2"]) == USER_ERROR
    assert "not finite" in capfd.readouterr().err
