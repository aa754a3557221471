"""Running built networks, and one exported file in a fresh process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm

import tvm_neocpu
from tvm_neocpu import relay
from tvm_neocpu.core.errors import ModuleFileError, NeoCpuError, ShapeError, TargetError
from tvm_neocpu.runtime import host as host_cpu
from tvm_neocpu.runtime import module_file
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.graph_module import ALIGNMENT, GraphModule
from tvm_neocpu.runtime.module_info import FORMAT, info_from_json

SHAPE = (1, 8, 6, 6)
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


@pytest.fixture(scope="module")
def lib(tiny_cnn: onnx.ModelProto) -> BuiltModule:
    mod, params = relay.frontend.from_onnx(tiny_cnn)
    return relay.build(mod, target="llvm", params=params)


@pytest.fixture
def module(lib: BuiltModule) -> GraphModule:
    return lib["default"](tvm.cpu())


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    return np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)


@pytest.fixture(scope="module")
def scores(lib: BuiltModule, data: np.ndarray) -> np.ndarray:
    module = lib["default"](tvm.cpu())
    module.run(data=data)
    return module.get_output(0).numpy()


def aligned(data: np.ndarray, offset: int = 0) -> np.ndarray:
    raw = np.zeros(data.nbytes + 2 * ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT + offset
    view = raw[start : start + data.nbytes].view(data.dtype).reshape(data.shape)
    view[...] = data
    return view


def test_inputs_by_name_number_keyword_and_tensor(
    module: GraphModule, data: np.ndarray, scores: np.ndarray
) -> None:
    assert module.get_num_inputs() == module.get_num_outputs() == 1
    assert module.get_input_info() == ({"data": SHAPE}, {"data": "float32"})
    for setter in (
        lambda: module.set_input("data", data),
        lambda: module.set_input(0, data),
        lambda: module.set_input(data=data),
        lambda: module.set_input("data", tvm.runtime.tensor(data)),
        lambda: module.set_input("data", np.asfortranarray(data)),
    ):
        module.set_input("data", np.zeros(SHAPE, "float32"))
        setter()
        module.run()
        np.testing.assert_array_equal(module.get_output(0).numpy(), scores)
        np.testing.assert_array_equal(module.get_input("data").numpy(), data)


def test_set_input_copies(module: GraphModule, data: np.ndarray, scores: np.ndarray) -> None:
    mine = data.copy()
    module.set_input("data", mine)
    mine[:] = 0
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), scores)


def test_shared_inputs_do_not(module: GraphModule, data: np.ndarray, scores: np.ndarray) -> None:
    mine = aligned(np.zeros_like(data))
    module.set_input_zero_copy("data", mine)
    mine[:] = data
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), scores)
    module.set_input("data", np.zeros_like(data))
    assert mine.any(), "setting by copy must not write into memory that was shared"


def test_the_modules_own_memory_can_be_written(
    module: GraphModule, data: np.ndarray, scores: np.ndarray
) -> None:
    module.input_array("data")[...] = data
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), scores)


def test_a_tvm_tensor_is_shared(module: GraphModule, data: np.ndarray, scores: np.ndarray) -> None:
    module.set_input_zero_copy("data", tvm.runtime.tensor(data))
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), scores)


@pytest.mark.parametrize("kind", ["misaligned", "strided", "read-only"])
def test_memory_that_cannot_be_shared_is_refused(
    kind: str, module: GraphModule, data: np.ndarray
) -> None:
    array = aligned(data, offset=4) if kind == "misaligned" else aligned(data)
    if kind == "strided":
        array = np.zeros((*SHAPE[:3], 2 * SHAPE[3]), "float32")[..., ::2]
    if kind == "read-only":
        array.flags.writeable = False
    with pytest.raises(ShapeError, match="cannot share"):
        module.set_input_zero_copy("data", array)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("image", np.zeros(SHAPE, "float32"), "no input 'image'; it has data float32"),
        (1, np.zeros(SHAPE, "float32"), "no input 1"),
        ("data", np.zeros((1, 8, 6, 5), "float32"), "is [1, 8, 6, 6], not [1, 8, 6, 5]"),
        ("data", np.zeros(SHAPE), "is float32, not float64"),
        ("data", None, "is [1, 8, 6, 6], not []"),
    ],
)
def test_bad_inputs_are_one_line(
    key: object, value: object, words: str, module: GraphModule
) -> None:
    with pytest.raises(ShapeError) as caught:
        module.set_input(key, value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_outputs(module: GraphModule, data: np.ndarray, scores: np.ndarray) -> None:
    with pytest.raises(NeoCpuError, match=r"run\(\) first"):
        module.get_output(0)
    module.run(data=data)
    first = module.get_output(0)
    array, tensor = np.empty((1, 10), "float32"), tvm.runtime.empty((1, 10))
    assert module.get_output(0, array) is array
    assert module.get_output(0, tensor) is tensor
    np.testing.assert_array_equal(array, scores)
    np.testing.assert_array_equal(tensor.numpy(), scores)
    module.run(data=np.zeros_like(data))
    np.testing.assert_array_equal(first.numpy(), scores)
    with pytest.raises(ShapeError, match="no output 1"):
        module.get_output(1)


def test_instances_do_not_share_inputs(
    lib: BuiltModule, data: np.ndarray, scores: np.ndarray
) -> None:
    one, other = lib["default"](tvm.cpu()), lib["default"](tvm.cpu(0))
    one.set_input("data", data)
    other.run()
    one.run()
    np.testing.assert_array_equal(one.get_output(0).numpy(), scores)


def test_benchmark(module: GraphModule) -> None:
    found = module.benchmark(tvm.cpu(), repeat=3, number=2)
    assert len(found.results) == 3
    assert 0 < found.min <= found.median <= found.max < 1
    assert len(module.benchmark(repeat=2, number=1, end_to_end=True).results) == 2
    assert module.module.time_evaluator("run", tvm.cpu(), number=1)().mean > 0
    with pytest.raises(NeoCpuError, match='only "run"'):
        module.benchmark(func_name="main")


def test_a_library_knows_its_name_device_and_code(lib: BuiltModule) -> None:
    with pytest.raises(ModuleFileError, match="it has 'default'"):
        lib["other"]
    with pytest.raises(TargetError, match="for CPUs"):
        lib["default"](tvm.cuda(0))
    assert "ret" in lib.inspect_source("asm")
    assert "define" in lib.inspect_source("ll")
    with pytest.raises(ModuleFileError, match="no source format"):
        lib.inspect_source("pdf")
    assert "data float32[1, 8, 6, 6]" in repr(lib)


def test_code_for_another_cpu_is_not_run_here(tiny_cnn: onnx.ModelProto, tmp_path: Path) -> None:
    arch = host_cpu.arch_of(host_cpu.triple())
    other = "aarch64" if arch == "x86_64" else "x86_64"
    mod, _ = relay.frontend.from_onnx(tiny_cnn)
    lib = relay.build(mod, target=f"llvm -mtriple={other}-linux-gnu")
    with pytest.raises(TargetError, match=f"this machine lacks {other}"):
        lib["default"](tvm.cpu())
    lib.export_library(tmp_path / "x.tar")
    with pytest.raises(ModuleFileError, match="cannot write"):
        lib.export_library(tmp_path / "x.so")
    with pytest.raises(ModuleFileError, match="cannot load"):
        tvm_neocpu.load(tmp_path / "x.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["x.tar"]


FRESH = """
import sys, json, numpy as np, tvm, tvm_neocpu
lib = tvm_neocpu.load(sys.argv[1])
module = lib["net"](tvm.cpu())
module.set_input("data", np.load(sys.argv[2]))
module.run()
print(json.dumps(module.get_output(0).numpy().tolist()))
"""


@needs_compiler
@pytest.mark.parametrize("suffix", [".so", ".tar"])
def test_one_exported_file_runs_in_a_fresh_process(
    suffix: str, tiny_cnn: onnx.ModelProto, data: np.ndarray, scores: np.ndarray, tmp_path: Path
) -> None:
    mod, _ = relay.frontend.from_onnx(tiny_cnn)
    lib = relay.build(mod, mod_name="net")
    made, elsewhere = tmp_path / f"net{suffix}", tmp_path / "elsewhere"
    lib.export_library(made)
    elsewhere.mkdir()
    made.rename(elsewhere / made.name)
    np.save(elsewhere / "data.npy", data)
    assert list(tmp_path.iterdir()) == [elsewhere]
    done = subprocess.run(
        [sys.executable, "-c", FRESH, made.name, "data.npy"],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": str(Path(tvm_neocpu.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    np.testing.assert_allclose(json.loads(done.stdout), scores, rtol=1e-6)
    assert done.stderr == ""


@needs_compiler
def test_a_loaded_library_knows_itself_and_can_be_replaced(
    lib: BuiltModule, data: np.ndarray, scores: np.ndarray, tmp_path: Path
) -> None:
    path = tmp_path / "net.so"
    lib.export_library(str(path))
    loaded = tvm_neocpu.load(str(path))
    assert loaded.info == lib.info
    with pytest.raises(ModuleFileError, match="no source"):
        loaded.inspect_source()
    with pytest.raises(ModuleFileError, match="copy its file"):
        loaded.export_library(tmp_path / "again.so")
    lib.export_library(path)  # over the file that is in use
    for library in (loaded, tvm_neocpu.load(path)):
        module = library["default"](tvm.cpu())
        module.run(data=data)
        np.testing.assert_array_equal(module.get_output(0).numpy(), scores)


def test_export_without_a_compiler(
    lib: BuiltModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(ModuleFileError, match="needs a C compiler; install gcc"):
        lib.export_library(tmp_path / "net.so")
    lib.export_library(tmp_path / "net.tar")
    with pytest.raises(ModuleFileError, match="needs a C compiler; install gcc"):
        tvm_neocpu.load(tmp_path / "net.tar")


@pytest.mark.parametrize("name", ["net.zip", "net", "absent/net.so"])
def test_export_to_a_bad_path(name: str, lib: BuiltModule, tmp_path: Path) -> None:
    with pytest.raises(ModuleFileError) as caught:
        lib.export_library(tmp_path / name)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_compiler_that_fails_leaves_nothing_behind(
    lib: BuiltModule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", "/bin/false")
    with pytest.raises(ModuleFileError) as caught:
        lib.export_library(tmp_path / "net.so")
    assert "\n" not in str(caught.value)
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(ModuleFileError, match="cannot write"):
        lib.export_library(tmp_path / "net.so")
    assert list(tmp_path.iterdir()) == []


def _foreign(folder: Path) -> None:
    (folder / "text.so").write_text("not a library")
    (folder / "empty.so").write_bytes(b"")
    (folder / "text.tar").write_text("not an archive")
    (folder / "text.onnx").write_text("not a library")
    (folder / "folder.so").mkdir()
    with tarfile.open(folder / "other.tar", "w") as archive:
        archive.add(folder / "text.so", "text.so")


@pytest.mark.parametrize(
    "name",
    ["missing.so", "text.so", "empty.so", "text.tar", "text.onnx", "folder.so", "other.tar"],
)
def test_foreign_files_are_one_line(name: str, tmp_path: Path) -> None:
    _foreign(tmp_path)
    with pytest.raises(ModuleFileError) as caught:
        tvm_neocpu.load(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@needs_compiler
def test_a_module_of_stock_tvm_is_foreign(tmp_path: Path) -> None:
    a = tvm.te.placeholder((4,), name="a")
    func = tvm.te.create_prim_func([a, tvm.te.compute((4,), lambda i: a[i] + 1.0)])
    tvm.compile(func, tvm.target.Target("llvm")).export_library(str(tmp_path / "stock.so"))
    with pytest.raises(ModuleFileError, match="not exported by tvm_neocpu"):
        tvm_neocpu.load(tmp_path / "stock.so")


def test_a_later_format_is_refused(lib: BuiltModule) -> None:
    assert info_from_json(lib.info.to_json(), "x.so") == lib.info
    later = replace(lib.info, format=FORMAT + 1, package="9.9")
    with pytest.raises(ModuleFileError, match=r"9\.9"):
        info_from_json(later.to_json(), "x.so")


def test_the_description_is_attached_once(lib: BuiltModule) -> None:
    module_file.attach_info(lib.module, lib.info)
    before = len(lib.module.imports)
    module_file.attach_info(lib.module, lib.info)
    assert len(lib.module.imports) == before
