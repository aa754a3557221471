"""The examples of deployment: a C++ program and a folder that a container gets, both run here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import helper

from tvm_neocpu import relay

ROOT = Path(__file__).parents[2]
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
pytestmark = [needs_compiler, pytest.mark.compiler]
Array = NDArray[np.float32]
# The bytes of the largest input here.
ENOUGH = bytes(64 * 28 * 28 * 4)


@pytest.fixture(scope="module", params=["inside", "separate"])
def net(
    request: pytest.FixtureRequest,
    tiny_cnn: onnx.ModelProto,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    path = tmp_path_factory.mktemp("deployed") / "net.so"
    mod, _ = relay.frontend.from_onnx(tiny_cnn)
    relay.build(mod).export_library(path, weights=request.param)
    return path


@pytest.fixture(scope="module")
def answer(tiny_cnn: onnx.ModelProto, data: Array) -> Array:
    session = onnxruntime.InferenceSession(tiny_cnn.SerializeToString())
    found: Array = session.run(None, {"data": data})[0]
    return found


@pytest.fixture(scope="module")
def data() -> Array:
    return np.random.default_rng(5).standard_normal((1, 8, 6, 6), dtype=np.float32)


def test_the_cpp_program(
    net: Path,
    data: Array,
    answer: Array,
    tmp_path: Path,
    make_model: Callable[..., onnx.ModelProto],
) -> None:
    program = tmp_path / "run_network"
    environment = {**os.environ, "PYTHON": sys.executable}
    script = ROOT / "examples" / "cpp" / "build.sh"
    subprocess.run([str(script), str(program)], check=True, env=environment)
    done = subprocess.run(
        [str(program), str(net), "3", "2"], input=data.tobytes(), capture_output=True, check=True
    )
    found = np.frombuffer(done.stdout, np.float32).reshape(1, 10)
    np.testing.assert_allclose(found, answer, rtol=1e-4, atol=1e-5)
    assert b"ms a run" in done.stderr
    missing = subprocess.run([str(program), "none.so"], capture_output=True, text=True)
    assert missing.returncode == 2 and missing.stderr.startswith("error: ")
    small = small_file(make_model, tmp_path)
    assert "compiled with --size, which Python alone loads" in _refusal(program, small, ENOUGH)
    assert "the input ends before its tensors do" in _refusal(program, net, bytes(100))
    separate = net.with_suffix(".weights")
    if separate.exists():
        alone = shutil.copy(net, tmp_path)
        (tmp_path / separate.name).write_bytes(separate.read_bytes()[:-8])
        assert "are truncated" in _refusal(program, Path(alone), data.tobytes())


def _refusal(program: Path, library: Path, given: bytes) -> str:
    """The one line that the program ends with."""
    done = subprocess.run([str(program), str(library)], input=given, capture_output=True)
    assert done.returncode == 2 and done.stderr.count(b"\n") == 1 and not done.stdout
    return done.stderr.decode()


def small_file(make_model: Callable[..., onnx.ModelProto], folder: Path) -> Path:
    """A file whose loader transforms Winograd's weights."""
    shape = (1, 64, 28, 28)
    conv = helper.make_node("Conv", ["data", "w"], ["out"], pads=[1, 1, 1, 1])
    mod, params = relay.frontend.from_onnx(make_model([conv], shape, {"w": (64, 64, 3, 3)}, shape))
    relay.build(mod, params=params, small_file=True).export_library(folder / "small.so")
    return folder / "small.so"


SCRIPT = """
import sys, numpy as np, tvm_neocpu
found = tvm_neocpu.Session(sys.argv[1]).run({"data": np.load(sys.argv[2])})["out"]
np.save(sys.argv[3], found)
print(sorted(name for name in sys.modules if name in ("tvm", "onnx", "scipy", "rich")))
"""


def test_the_containers_folder(net: Path, data: Array, answer: Array, tmp_path: Path) -> None:
    """Nothing but the folder and NumPy is on the path: no site-packages."""
    folder = tmp_path / "runtime"
    gather = ROOT / "examples" / "container" / "gather.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(gather), str(folder)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    size = float(done.stdout.splitlines()[-1].split()[0])
    assert size < 20, done.stdout
    site = Path(np.__file__).parents[1]
    for name in ("numpy", "numpy.libs"):
        if (site / name).exists():
            (folder / name).symlink_to(site / name)
    np.save(tmp_path / "data.npy", data)
    run = subprocess.run(
        [sys.executable, "-S", "-c", SCRIPT, net, tmp_path / "data.npy", tmp_path / "out.npy"],
        env={"PYTHONPATH": str(folder), "TVM_LIBRARY_PATH": str(folder / "lib")},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "[]"
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), answer, rtol=1e-4, atol=1e-5)
