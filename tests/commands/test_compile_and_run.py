"""The compile and run commands: files out, files in, numbers of ONNX Runtime, bad input."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from tvm_neocpu.commands import compile as compile_command
from tvm_neocpu.commands import run
from tvm_neocpu.commands.shared import disk, networks
from tvm_neocpu.commands.shared.exit_codes import INTERRUPTED, USER_ERROR
from tvm_neocpu.core.errors import ModuleFileError, ShapeError
from tvm_neocpu.relay_passes.lowering.lower_to_templates import LowerToTemplates
from tvm_neocpu.runtime.files.module_info import TensorInfo

AARCH64 = 183  # of ELF


def outcome(main: object, words: list[str]) -> int:
    try:
        return int(main(words))  # type: ignore[operator]
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.mark.parametrize(
    "words",
    [
        ["--json", "tiny.so"],
        ["--weights", "separate", "-o", "x.so", "--json", "x.weights"],
        ["--onnx", "x.so", "-o", "x.so"],
    ],
)
def test_two_files_of_one_name_are_refused(
    words: list[str], tiny_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(Path().iterdir())
    assert compile_command.main([tiny_file, *words]) == USER_ERROR
    assert "is asked for twice: name another file" in capsys.readouterr().err
    assert sorted(Path().iterdir()) == before


@pytest.mark.compiler
def test_a_network_becomes_a_file_that_runs(
    tiny_file: str, tiny_cnn: onnx.ModelProto, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compile_command.main([tiny_file, "--json", "compiled.json"]) == 0
    assert "-> tiny.so" in capsys.readouterr().out
    assert json.loads(Path("compiled.json").read_text())["inputs"] == ["data float32[1, 8, 6, 6]"]
    data = np.random.default_rng(3).standard_normal((1, 8, 6, 6), dtype=np.float32)
    np.save("data.npy", data)
    words = ["tiny.so", "--input", "data=data.npy", "--output", "out.npz", "--json", "run.json"]
    assert run.main([*words, "--runs", "2", "--threads", "1"]) == 0
    session = onnxruntime.InferenceSession(tiny_cnn.SerializeToString())
    (wanted,) = session.run(None, {"data": data})
    with np.load("out.npz") as found:
        np.testing.assert_allclose(found["out"], wanted, rtol=1e-4, atol=1e-5)
    report = json.loads(Path("run.json").read_text())
    assert len(report["runs_ms"]) == 2 and report["threads"] == 1
    assert "output out float32[1, 10]: " in capsys.readouterr().out


@pytest.mark.usefixtures("hears_ctrl_c")
def test_ctrl_c_inside_a_pass_of_tvm_is_one_line(
    tiny_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """TVM calls the function, so that what it raises passes through C++."""

    def interrupted(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(LowerToTemplates, "_lower", interrupted)
    assert compile_command.main([tiny_file, "-o", "tiny.so"]) == INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"
    assert not Path("tiny.so").exists()


def test_a_network_runs_as_it_is(tiny_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main([tiny_file, "--runs", "1"]) == 0
    assert "output out float32[1, 10]: " in capsys.readouterr().out


def test_a_zoo_network_becomes_an_onnx_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_command.main(["lenet", "--onnx", "lenet.onnx"]) == 0
    assert capsys.readouterr().out == "lenet -> lenet.onnx\n"
    onnx.checker.check_model("lenet.onnx")
    assert [path.name for path in Path().iterdir()] == ["lenet.onnx"]


def test_a_full_disk_leaves_no_half_of_a_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(disk, "draft_of", lambda _: contextlib.nullcontext(Path("/dev/full")))
    assert compile_command.main(["lenet", "--onnx", "lenet.onnx"]) == USER_ERROR
    assert capsys.readouterr().err == "error: cannot write lenet.onnx: No space left on device\n"
    assert list(Path().iterdir()) == []


BAD = [
    (compile_command, ["tiny.onnx", "-o", "tiny.zip"], "-o names a .so or .tar file"),
    (compile_command, ["tiny.onnx", "-o", "no/such/tiny.so"], "there is no directory"),
    (compile_command, ["tiny.onnx", "lenet"], "unrecognized arguments: lenet"),
    (compile_command, ["tiny.onnx", "--onnx", "no/such/x.onnx"], "cannot write no/such/x.onnx"),
    (run, ["tiny.onnx", "lenet"], "unrecognized arguments: lenet"),
    (run, ["missing.so"], "there is no file missing.so"),
    (run, ["tiny.onnx", "--input", "image=x.npy"], "cannot read x.npy: No such file"),
    (run, ["tiny.onnx", "--input", "image=ones.npy"], "no input 'image'; it has data"),
    (run, ["tiny.onnx", "--input", "data=ones.npy"], "input 'data' is [1, 8, 6, 6], not [3]"),
    (
        run,
        ["tiny.onnx", "--input", "data=text.npy"],
        "text.npy is no array of NumPy's, or damaged",
    ),
    (run, ["tiny.onnx", "--seed", "-1"], "invalid number of 0 or more value: '-1'"),
    (run, ["net.so", "--target", "llvm", "-mcpu=znver4"], "--target is for models that are comp"),
    (run, ["net.so", "--shape", "data:1,8,6,6"], "--shape is for models that are compiled now"),
    (run, ["net.so", "--log", "any.log"], "--log is for models that are compiled now: net.so has"),
    (run, ["tiny.onnx", "--output", "no/such.npz"], "cannot write no/such.npz"),
    (run, ["tiny.onnx", "--threads", "nan"], "invalid number of threads (1 to 1024) value: 'nan'"),
    (run, ["tiny.onnx", "--threads", "0"], "invalid number of threads (1 to 1024) value: '0'"),
    (run, ["tiny.onnx", "--threads", "99999999"], "(1 to 1024) value: '99999999'"),
    (run, ["tiny.onnx", "--hint", "fast"], "invalid choice: 'fast'"),
]


@pytest.mark.parametrize(("command", "words", "text"), BAD)
def test_bad_input_is_one_line(
    command: object,
    words: list[str],
    text: str,
    tiny_file: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    np.save("ones.npy", np.ones(3, "float32"))
    Path("text.npy").write_text("no array")
    assert outcome(command.main, words) == USER_ERROR  # type: ignore[attr-defined]
    error = capfd.readouterr().err
    assert text in error
    assert error.startswith("error: ") and error.count("\n") == 1


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("no/such/tiny.so", "there is no directory no/such"),
        ("/proc/tiny.so", "cannot write /proc/tiny.so: No such file or directory"),
        ("folder.so", "cannot write folder.so: Is a directory"),
    ],
)
def test_a_place_that_takes_no_file_is_told_before_the_build(
    place: str,
    text: str,
    tiny_file: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    Path("folder.so").mkdir()
    monkeypatch.setattr(compile_command.networks, "build", None)  # a call would raise TypeError
    assert outcome(compile_command.main, [tiny_file, "-o", place]) == USER_ERROR
    error = capfd.readouterr().err
    assert text in error and error.count("\n") == 1


def test_code_for_another_cpu_says_how_to_link_it(
    tiny_file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [tiny_file, "--target", "llvm", "-mtriple=aarch64-linux-gnu", "-mcpu=cortex-a72"]
    assert outcome(compile_command.main, [*words, "-o", "x.so"]) == USER_ERROR
    error = capfd.readouterr().err
    assert "does not link code for aarch64: install aarch64-linux-gnu-g++" in error
    assert "collect2" not in error
    assert error.count("\n") == 1
    assert outcome(compile_command.main, [*words, "-o", "x.tar"]) == 0
    assert outcome(run.main, ["x.tar"]) == USER_ERROR
    assert "cannot load x.tar" in capfd.readouterr().err


def test_a_cross_compiler_links_code_for_its_cpu(
    tiny_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found by its name, and every object that it gets is for that CPU."""
    seen = tmp_path / "machines"
    script = "\n".join(
        [
            "#!/bin/sh",
            "while [ $# -gt 0 ]; do case $1 in",
            f"*.o) od -An -tu2 -j18 -N2 $1 >> {seen}; last=$1;;",
            "-o) shift; out=$1;; esac; shift; done",
            "cp $last $out",
        ]
    )
    compiler = tmp_path / "bin/aarch64-linux-gnu-g++"
    compiler.parent.mkdir()
    compiler.write_text(script)
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{compiler.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    words = [tiny_file, "--target", "llvm", "-mtriple=aarch64-linux-gnu", "-mcpu=cortex-a72"]
    assert outcome(compile_command.main, [*words, "-o", "x.so"]) == 0
    assert set(seen.read_text().split()) == {str(AARCH64)}


def test_inputs() -> None:
    infos = [TensorInfo("a", (-1, 2), "float32"), TensorInfo("b", (3,), "int64")]
    made = networks.inputs_for(infos, [], seed=1)
    assert made["a"].shape == (1, 2) and made["b"].dtype == np.int64
    np.testing.assert_array_equal(made["a"], networks.inputs_for(infos, [], seed=1)["a"])
    np.savez("both.npz", a=np.ones((4, 2), "float32"), b=np.zeros(3, np.int64))
    assert networks.inputs_for(infos, ["both.npz"], seed=1)["a"].shape == (4, 2)
    with pytest.raises(ShapeError, match=r"both\.npz names its arrays itself: --input both\.npz"):
        networks.inputs_for(infos, ["a=both.npz"], seed=1)


def test_a_program_here_hides_no_network_of_the_zoo(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("lenet").write_bytes(b"\x7fELF")
    monkeypatch.setattr(networks, "build", lambda model, *_: model.graph.input[0].name)
    assert networks.library_of("lenet", None, ()) == "data"


def test_times() -> None:
    assert networks.milliseconds(0.01781) == "17.81 ms"
    assert networks.milliseconds(85e-6) == "85 us"


def test_a_missing_file_is_the_librarys_own_error() -> None:
    with pytest.raises(ModuleFileError, match="there is no file"):
        networks.load("none.so")


def test_a_name_that_no_runtime_could_load_is_refused(
    tiny_file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert compile_command.main([tiny_file, "-o", os.fsdecode(b"caf\xe9.so")]) == USER_ERROR
    assert "caf\\udce9.so: its name is not UTF-8" in capfd.readouterr().err
    assert not list(Path().glob("*.so"))


def test_names_of_a_stranger_command_no_terminal(
    make_model, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = [onnx.helper.make_node("Relu", ["data"], ["\x1b[31mred\n"])]
    model = make_model(nodes, out_shape=(1, 8, 6, 6))
    model.graph.output[0].name = "\x1b[31mred\n"
    onnx.save(model, "odd.onnx")
    assert compile_command.main(["odd.onnx", "-o", "odd.tar"]) == 0
    assert "output ?[31mred? float32" in capsys.readouterr().out


def test_one_model_is_compiled_and_what_only_compiling_takes_is_refused(
    tiny_file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert outcome(compile_command.main, [tiny_file, tiny_file]) == USER_ERROR
    assert outcome(compile_command.main, [tiny_file, "--onnx", "x.onnx", "--size"]) == USER_ERROR
    first, second = capfd.readouterr().err.splitlines()
    assert "unrecognized arguments" in first and "name it (-o)" in second
    assert not Path("x.onnx").exists()
