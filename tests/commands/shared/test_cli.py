"""What the command lines share: a user's mistake is one line and exit code 2."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tvm_neocpu.commands import bench, explain, profile, tune, verify
from tvm_neocpu.commands.shared import cli, disk
from tvm_neocpu.commands.shared.exit_codes import INTERRUPTED, USER_ERROR
from tvm_neocpu.core.errors import LogError, ShapeError
from tvm_neocpu.runtime.process import threads
from tvm_neocpu.runtime.process.threads import TooManyThreadsWarning

Main = Callable[[list[str]], int]


def outcome(main: Main, arguments: list[str]) -> int:
    """The exit code, also if argparse exits."""
    try:
        return main(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.mark.parametrize(
    ("argv", "rest", "flags"),
    [
        ("m --target llvm -mcpu=znver4 --log f", "m --target llvm --log f", "-mcpu=znver4"),
        ("m -mcpu znver4 -mattr=+fma,-avx", "m", "-mcpu znver4 -mattr=+fma,-avx"),
        ("-fast-math m", "m", "-fast-math"),
        ("m --trials -1 -h", "m --trials -1 -h", ""),
        ("--target -x m", "--target -x m", ""),
    ],
)
def test_target_flags_are_collected(argv: str, rest: str, flags: str) -> None:
    assert cli.split_target_flags(argv.split()) == (rest.split(), flags.split())


def test_shapes() -> None:
    assert cli.parse_shapes(["data:1,3,224,224", "a:0:2"]) == {
        "data": (1, 3, 224, 224),
        "a:0": (2,),
    }
    for text in ("data", "data:", ":1,2", "data:1,x"):
        with pytest.raises(ShapeError, match="--shape is NAME"):
            cli.parse_shapes([text])
    with pytest.raises(ShapeError, match="names input 'data' twice; run once for each shape"):
        cli.parse_shapes(["data:1,3,224,224", "data:2,3,224,224"])


BAD = [
    ([], "required: MODEL"),
    (["nosuch"], "neither a file nor a network of the zoo"),
    (["resnet51"], "nor a network of the zoo; did you mean resnet"),
    ([""], "the model file's name is empty"),
    (["nosuch.so"], "there is no model file nosuch.so"),
    (["no/such.onnx"], "there is no model file no/such.onnx"),
    (["lenet", "--bogus"], "unrecognized arguments: --bogus"),
    (["lenet", "--threads", "0"], "invalid number of threads"),
    (["lenet", "--shape", "x"], "--shape is NAME"),
    (["lenet", "--shape", "image:1,1,28,28"], "no input 'image'"),
    (["lenet", "--target", "cuda"], "not a CPU"),
    (["lenet", "--target", "llvm", "-mcp=znver4"], "did you mean -mcpu"),
    (["lenet", "--target", "llvm", "-mcpu=nosuch"], "does not know -mcpu=nosuch"),
    (["lenet", "--target", "llvm -mattr=fma"], "starts with + or -"),
]


@pytest.mark.parametrize("main", [tune.main, bench.main], ids=["tune", "bench"])
@pytest.mark.parametrize(("argv", "words"), BAD)
def test_bad_input_is_one_line(
    main: Main, argv: list[str], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert outcome(main, argv) == USER_ERROR
    error = capfd.readouterr().err
    assert words in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("kind", [b"", b"not onnx at all" * 9])
def test_a_bad_model_file_is_one_line(kind: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    Path("bad.onnx").write_bytes(kind)
    assert tune.main(["bad.onnx"]) == USER_ERROR
    assert capfd.readouterr().err.startswith("error: ")


@pytest.mark.parametrize("main", [tune.main, bench.main, profile.main, explain.main, verify.main])
def test_a_compiled_file_in_place_of_a_model_is_one_line(
    main: Main, capfd: pytest.CaptureFixture[str]
) -> None:
    Path("net.so").write_bytes(b"code")
    assert main(["net.so"]) == USER_ERROR
    error = capfd.readouterr().err
    assert error.startswith("error: net.so is compiled")
    assert "run net.so" in error
    assert error.count("\n") == 1


def test_errors_of_the_real_command_have_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tvm_neocpu.tune", "nosuch"]
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[3])}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == USER_ERROR
    assert done.stderr.startswith("error: 'nosuch'")
    assert "Traceback" not in done.stderr


def test_an_interrupt_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_: list[str]) -> int:
        raise KeyboardInterrupt

    assert cli.guarded(interrupted, []) == INTERRUPTED
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("path", [".", "/dev/zero"])
def test_what_is_no_file_is_no_log(path: str) -> None:
    """Reading a device may never end."""
    if not Path(path).exists():
        pytest.skip(f"there is no {path} here")
    with pytest.raises(LogError, match=r"cannot write the log .*: it is not a file"):
        disk.prepare_log(Path(path))


def test_a_warning_of_a_command_is_one_line() -> None:
    def command(_: list[str]) -> int:
        shown = warnings.formatwarning("two\nlines", UserWarning, "file.py", 3)
        assert shown == "warning: two lines\n"
        return 0

    before = warnings.formatwarning
    assert cli.guarded(command, []) == 0
    assert warnings.formatwarning is before


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("TVM_NEOCPU_DEBUG", "foo", "error: TVM_NEOCPU_DEBUG is print, verify"),
        ("TVM_NEOCPU_WINOGRAD_TILE", "8", "error: TVM_NEOCPU_WINOGRAD_TILE is a tile size"),
    ],
)
def test_a_variable_without_such_a_value_is_refused_by_every_command(
    name: str,
    value: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(name, value)
    assert cli.guarded(lambda _: 0, []) == USER_ERROR
    error = capsys.readouterr().err
    assert error.startswith(words) and error.count("\n") == 1


def test_a_misspelt_variable_is_remarked() -> None:
    with pytest.warns(UserWarning, match="TVM_NEOCPU_LOG changes nothing; there are"):
        cli.check_environment({"TVM_NEOCPU_LOG": "x"})


INTERRUPT = """
import os, signal, sys
from tvm_neocpu.commands import bench
from tvm_neocpu.contrib.peers.isolated import IsolatedRunner

def interrupted(self, *_):
    os.killpg(0, signal.SIGINT)
    return getattr(IsolatedRunner, "_real")(self, *_)

# A shell that starts tests in the background lets them ignore SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
IsolatedRunner._real = getattr(IsolatedRunner, sys.argv[1])
setattr(IsolatedRunner, sys.argv[1], interrupted)
raise SystemExit(bench.main(["lenet", "--runs", "1000"]))
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="needs groups of processes")
@pytest.mark.parametrize(
    "while_it",
    ["burst", *(pytest.param(each, marks=pytest.mark.slow) for each in ("_ask", "__enter__"))],
)
def test_ctrl_c_in_bench_is_one_line(while_it: str) -> None:
    """The terminal sends it to every process of the group: to those of the engines, too."""
    env = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT, while_it],
        env=env,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=60,
    )
    assert done.returncode == INTERRUPTED
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == "interrupted"


@pytest.mark.parametrize(("flags", "remarked"), [((), True), (("-mcpu=cortex-a72",), False)])
def test_more_threads_than_this_machine_has_cores(
    flags: tuple[str, ...], remarked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`compile --threads 64` on two cores said nothing; for another CPU it may be right."""
    monkeypatch.setattr(threads, "use_threads", lambda count: None)
    options = argparse.Namespace(threads=1024, target=cli.HERE)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        cli.take_threads(options, flags)
    assert [warning.category for warning in found] == [TooManyThreadsWarning] * remarked
