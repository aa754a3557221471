"""`relay.build` and the compile cache: what hits, what must not, what a library from it can do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # it ships no types
import pytest
import tvm

import tvm_neocpu
from tvm_neocpu import relay, specialize
from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.relay_passes.ir.content_hash import content_hash
from tvm_neocpu.runtime.built_module import BuiltModule

pytestmark = pytest.mark.compiler
DATA = np.random.default_rng(0).standard_normal((1, 8, 6, 6), dtype=np.float32)
DENSE = [onnx.helper.make_node("Gemm", ["data", "w"], ["out"], transB=1)]


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for each network that is compiled."""
    seen: list[int] = []
    real = specialize.build_networks

    def build(*arguments: Any, **options: Any) -> BuiltModule:
        seen.append(1)
        return real(*arguments, **options)

    monkeypatch.setattr(specialize, "build_networks", build)
    return seen


def built(model: onnx.ModelProto, **options: Any) -> BuiltModule:
    mod, params = relay.frontend.from_onnx(model)
    return relay.build(mod, params=params, **options)


def scores(library: BuiltModule) -> np.ndarray:
    module = library["default"](tvm.cpu())
    module.run(data=DATA)
    found: np.ndarray = module.get_output("out").numpy()
    return found


def test_the_second_build_compiles_nothing(
    cache_home: Path, tiny_cnn: onnx.ModelProto, builds: list[int]
) -> None:
    wanted = ort.InferenceSession(tiny_cnn.SerializeToString()).run(None, {"data": DATA})[0]
    for _ in range(2):
        np.testing.assert_allclose(scores(built(tiny_cnn)), wanted, rtol=1e-4, atol=1e-5)
    assert len(builds) == 1
    assert len(list(cache_home.glob("*.so"))) == 1
    built(tiny_cnn, cache=False)
    assert len(builds) == 2


def test_the_suite_uses_no_cache(tiny_cnn: onnx.ModelProto, builds: list[int]) -> None:
    for _ in range(2):
        built(tiny_cnn)
    assert len(builds) == 2


def test_a_library_from_the_cache_can_do_what_any_other_can(
    cache_home: Path, tmp_path: Path, tiny_cnn: onnx.ModelProto, builds: list[int]
) -> None:
    wanted = scores(built(tiny_cnn))
    library = built(tiny_cnn)
    library.export_library(tmp_path / "net.so")
    assert len(builds) == 1  # the entry itself was copied
    library.export_library(tmp_path / "apart.so", weights="separate")
    library.export_library(tmp_path / "net.tar")
    assert "vfmadd" in library.inspect_source("asm") or "fmla" in library.inspect_source("asm")
    machine = tvm.relax.VirtualMachine(library.get_lib(), tvm.cpu())
    np.testing.assert_array_equal(machine["main"](tvm.runtime.tensor(DATA)).numpy(), wanted)
    assert len(builds) == 2  # all of these together
    for name in ("net.so", "apart.so", "net.tar"):
        np.testing.assert_array_equal(scores(tvm_neocpu.load(tmp_path / name)), wanted)
    assert not list(tmp_path.glob(".*"))
    with pytest.raises(tvm_neocpu.NeoCpuError, match="there is no directory"):
        library.export_library(tmp_path / "none" / "net.so")


def test_an_entry_that_is_gone_is_compiled_for_the_export(
    cache_home: Path, tmp_path: Path, tiny_cnn: onnx.ModelProto
) -> None:
    library = built(tiny_cnn)
    wanted = scores(library)
    for entry in cache_home.glob("*.so"):
        entry.unlink()
    np.testing.assert_array_equal(scores(library), wanted)
    library.export_library(tmp_path / "net.so")
    np.testing.assert_array_equal(scores(tvm_neocpu.load(tmp_path / "net.so")), wanted)


def test_other_options_make_another_entry(
    cache_home: Path, make_model: Callable[..., onnx.ModelProto], builds: list[int]
) -> None:
    def model(name: str = "data", rows: int = 5, seed: int = 0) -> onnx.ModelProto:
        nodes = [onnx.helper.make_node("Gemm", [name, "w"], ["out"], transB=1)]
        made = make_model(nodes, (1, 8), {"w": (rows, 8)}, name=name)
        weight = np.random.default_rng(seed).standard_normal((rows, 8), dtype=np.float32)
        made.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight, "w"))
        return made

    for number, (one, options) in enumerate(
        [
            (model(), {}),
            (model("other"), {}),
            (model(rows=6), {}),
            (model(seed=1), {}),
            (model(), {"mod_name": "net"}),
            (model(), {"target": "llvm -num-cores=1"}),
            (model(), {"fallback": "ignore"}),
        ]
    ):
        for _ in range(2):
            built(one, **options)
        assert len(builds) == number + 1, options


def test_shapes_that_were_not_listed_are_compiled_after_a_hit_too(
    cache_home: Path, make_model: Callable[..., onnx.ModelProto], builds: list[int]
) -> None:
    nodes = [onnx.helper.make_node("Conv", ["data", "w"], ["out"])]
    model = make_model(nodes, (1, 8, "H", "W"), {"w": (8, 8, 3, 3)})
    for expected in (2, 3):
        mod, _ = relay.frontend.from_onnx(model, {"data": (1, 8, "H", "W")})
        library = relay.build(mod, shapes=[{"data": (1, 8, 6, 6)}])
        module = library["default"](tvm.cpu())
        module.run(data=DATA)
        module.run(data=np.zeros((1, 8, 7, 9), "float32"))
        assert module.get_output(0).shape == (1, 8, 5, 7)
        assert len(builds) == expected


@pytest.mark.parametrize("case", ["options of passes", "another CPU", "watched passes"])
def test_what_is_not_cached(
    case: str,
    cache_home: Path,
    tiny_cnn: onnx.ModelProto,
    builds: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mod, params = relay.frontend.from_onnx(tiny_cnn)
    if case == "watched passes":
        monkeypatch.setenv("TVM_NEOCPU_DEBUG", "verify")
    config = {"tirx.debug_keep_trivial_loop": True} if case == "options of passes" else {}
    foreign = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon"
    with tvm.transform.PassContext(opt_level=2, config=config):
        for _ in range(2):
            relay.build(mod, foreign if case == "another CPU" else None, params=params)
    assert len(builds) == 2
    # For another CPU only kernels are kept: who loads such a library is elsewhere.
    kept = {path.suffix for path in cache_home.glob("*")}
    assert kept == ({".kernel"} if case == "another CPU" else set())


def test_a_read_only_folder_is_said_once_and_read(
    cache_home: Path,
    tiny_cnn: onnx.ModelProto,
    make_model: Callable[..., onnx.ModelProto],
    builds: list[int],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built(tiny_cnn)

    def refuse(path: Path, *_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    # A mode of 0o555 does not stop root, which runs the suite in containers.
    monkeypatch.setattr("tvm_neocpu.storage.file_lock.FileLock.acquire", refuse)
    monkeypatch.setattr("tvm_neocpu.storage.cache_folder.shutil.disk_usage", refuse)
    for _ in range(2):
        built(make_model(DENSE, (1, 8), {"w": (5, 8)}))
    assert len(builds) == 3
    built(tiny_cnn)
    assert len(builds) == 3
    assert caplog.text.count("Permission denied") == 1


def test_equal_networks_have_equal_hashes(tiny_cnn: onnx.ModelProto) -> None:
    first, second = (relay.frontend.from_onnx(tiny_cnn)[0] for _ in range(2))
    assert content_hash(first) == content_hash(second)
    changed = onnx.ModelProto.FromString(tiny_cnn.SerializeToString())
    tensor = changed.graph.initializer[-1]
    values = onnx.numpy_helper.to_array(tensor).copy()
    values.reshape(-1)[-1] += 1
    tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    assert content_hash(relay.frontend.from_onnx(changed)[0]) != content_hash(first)


BUILD = """
import sys, numpy as np, onnx, tvm, tvm_neocpu
from tvm import relay
from tvm_neocpu import specialize
real, seen = specialize.build_networks, []
specialize.build_networks = lambda *a, **k: (seen.append(1), real(*a, **k))[1]
mod, params = relay.frontend.from_onnx(onnx.load(sys.argv[1]))
module = relay.build(mod, params=params)["default"](tvm.cpu())
module.run(data=np.ones((1, 8, 6, 6), "float32"))
print(len(seen), float(module.get_output(0).numpy().sum()))
"""


def test_two_processes_at_once_compile_once(
    cache_home: Path, tiny_cnn: onnx.ModelProto, tmp_path: Path
) -> None:
    onnx.save(tiny_cnn, tmp_path / "net.onnx")
    environment = {**os.environ, "PYTHONPATH": str(Path(tvm_neocpu.__file__).parents[1])}
    command = [sys.executable, "-c", BUILD, str(tmp_path / "net.onnx")]
    started = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [each.communicate()[0].split() for each in started]
    assert sorted(count for count, _ in answers) == ["0", "1"]
    assert answers[0][1] == answers[1][1]


def test_open_shapes_are_refused_as_without_a_cache(
    cache_home: Path, make_model: Callable[..., onnx.ModelProto]
) -> None:
    """Such a module holds a function of ours, which TVM cannot hash."""
    model = make_model([onnx.helper.make_node("Relu", ["data"], ["out"])], ("N", 3, "H", "W"))
    mod, _ = relay.frontend.from_onnx(model, {"data": (-1, 3, -1, -1)})
    assert content_hash(mod) is None
    with pytest.raises(ShapeError, match="several to build for"):
        relay.build(mod, "llvm")
    library = relay.build(mod, shapes=[{"data": (1, 3, 8, 8)}])  # these modules have a hash
    assert list(library.input_names) == ["data"]
    assert len(list(cache_home.glob("*.so"))) == 1
