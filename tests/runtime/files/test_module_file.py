"""Exported files: one of them in a fresh process, exported again, replaced, without a compiler."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from fresh_process import run_script
from onnx import helper

import tvm_neocpu
from tvm_neocpu import relay
from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.exporting import write_module
from tvm_neocpu.runtime.built_module import BuiltModule

FRESH = """
import sys, json, numpy as np, tvm, tvm_neocpu
lib = tvm_neocpu.load(sys.argv[1])
module = lib["net"](tvm.cpu())
module.set_input("data", np.load(sys.argv[2]))
module.run()
print(json.dumps(module.get_output(0).numpy().tolist()))
"""


@pytest.mark.compiler
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
    done = run_script(FRESH, str(elsewhere / made.name), str(elsewhere / "data.npy"))
    np.testing.assert_allclose(json.loads(done.stdout), scores, rtol=1e-6)
    assert done.stderr == ""


@pytest.mark.compiler
def test_a_network_that_moves_no_data_is_exported(tmp_path: Path) -> None:
    """It has no machine code: reshapes are views. A random network of the nightly run was one."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        views (float[2, 3] data) => (float[2, 1, 3] y, float[2, 1, 1, 3] z) <int64[1] axes = {1}>
        { y = Unsqueeze (data, axes) z = Unsqueeze (y, axes) }"""
    )
    mod, _ = relay.frontend.from_onnx(model)
    lib = relay.build(mod)
    lib.export_library(tmp_path / "views.so")
    module = tvm_neocpu.load(tmp_path / "views.so")["default"](tvm.cpu())
    data = np.arange(6, dtype="float32").reshape(2, 3)
    module.run(data=data)
    np.testing.assert_array_equal(module.get_output(1).numpy(), data[:, None, None])
    with pytest.raises(ModuleFileError, match=r"no machine code; write a \.so"):
        lib.export_library(tmp_path / "views.tar")
    with pytest.raises(ModuleFileError, match="it has no machine code"):
        lib.inspect_source()


@pytest.mark.compiler
@pytest.mark.parametrize("suffix", [".so", ".tar"])
def test_exporting_and_loading_after_a_run_says_nothing(
    suffix: str, lib: BuiltModule, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """TVM notes something of each weight once a VM was made, and says so as it saves and loads."""
    lib["default"](tvm.cpu())
    lib.export_library(tmp_path / f"net{suffix}")
    tvm_neocpu.load(tmp_path / f"net{suffix}")
    assert capfd.readouterr() == ("", "")


@pytest.mark.compiler
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


def test_a_replaced_library_answers_with_its_new_code(
    make_model: Callable[..., onnx.ModelProto], tmp_path: Path
) -> None:
    """The loader knows libraries by name: a network loaded after another one ran its code."""
    path, kept = tmp_path / "net.so", []
    data = np.random.default_rng(0).standard_normal((1, 3, 8, 8), dtype="float32")
    for function in ("Relu", "Neg", "Abs"):
        nodes = [
            helper.make_node("Conv", ["data", "w"], ["maps"]),
            helper.make_node(function, ["maps"], ["out"]),
        ]
        mod, params = relay.frontend.from_onnx(
            make_model(nodes, data.shape, {"w": (8, 3, 3, 3)}, (1, 8, 6, 6))
        )
        built = relay.build(mod, params=params)
        built.export_library(path)
        module = tvm_neocpu.load(path)["default"](tvm.cpu())
        again = tvm_neocpu.load(path)["default"](tvm.cpu())
        kept.append((module, again, built["default"](tvm.cpu())))
    for *loaded, expected in kept:
        expected.run(data=data)
        for module in loaded:
            module.run(data=data)
            np.testing.assert_array_equal(
                module.get_output(0).numpy(), expected.get_output(0).numpy()
            )


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


@pytest.mark.compiler
def test_an_archive_of_an_earlier_version_has_no_checksums(
    lib: BuiltModule, data: np.ndarray, scores: np.ndarray, tmp_path: Path
) -> None:
    lib.export_library(tmp_path / "net.tar")
    with (
        tarfile.open(tmp_path / "net.tar") as archive,
        tarfile.open(tmp_path / "old.tar", "w") as old,
    ):
        for member in archive.getmembers():
            member.pax_headers = {}
            old.addfile(member, archive.extractfile(member))
    module = tvm_neocpu.load(tmp_path / "old.tar")["default"](tvm.cpu())
    module.run(data=data)
    np.testing.assert_array_equal(module.get_output(0).numpy(), scores)


def test_the_description_is_attached_once(lib: BuiltModule) -> None:
    write_module.attach_info(lib.module, lib.info)
    before = len(lib.module.imports)
    write_module.attach_info(lib.module, lib.info)
    assert len(lib.module.imports) == before
