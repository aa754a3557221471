"""What a built library knows of itself."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import tvm

import tvm_neocpu
from tvm_neocpu import relay
from tvm_neocpu.core.errors import ModuleFileError, TargetError
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.process import host as host_cpu


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
