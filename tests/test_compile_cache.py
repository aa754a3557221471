"""Compiled networks from the cache: what hits, what does not, and what goes wrong."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tarfile
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm

import tvm_neocpu
from tests.support.volume_model import volume_model
from tvm_neocpu import Session, compile_cache, relay, specialize
from tvm_neocpu.codegen import kernel_store
from tvm_neocpu.compile_cache import key_of
from tvm_neocpu.core.errors import ModelFileError
from tvm_neocpu.core.messages.fallback import FallbackWarning
from tvm_neocpu.frontend.reading import onnx_model
from tvm_neocpu.frontend.source import source_of
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.runtime.files import file_tail
from tvm_neocpu.runtime.process import host
from tvm_neocpu.storage import cache_folder
from tvm_neocpu.targets import CompileTarget, parse_target

pytestmark = pytest.mark.compiler
DATA = {"data": np.random.default_rng(0).standard_normal((1, 8, 6, 6), dtype=np.float32)}


# A CPU of an architecture that is not this machine's.
OTHERS = {"aarch64": "cortex-a72", "x86_64": "haswell"}


@pytest.fixture
def model(tiny_cnn: onnx.ModelProto, tmp_path: Path) -> Path:
    onnx.save(tiny_cnn, tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for each build."""
    seen: list[int] = []
    real = specialize.build_networks

    def build(*arguments: object, **options: object) -> object:
        seen.append(1)
        return real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(specialize, "build_networks", build)
    return seen


def scores(model: object, **options: object) -> np.ndarray:
    with Session(model, **options) as session:  # type: ignore[arg-type]
        found: np.ndarray = session.run(DATA)["out"]
        return found


def test_the_second_session_builds_nothing(
    cache_home: Path, model: Path, tiny_cnn: onnx.ModelProto, builds: list[int]
) -> None:
    first = scores(model)
    np.testing.assert_array_equal(scores(str(model)), first)
    assert len(builds) == 1
    np.testing.assert_array_equal(scores(tiny_cnn), first)  # other bytes, at first
    np.testing.assert_array_equal(scores(tiny_cnn), first)
    assert len(builds) <= 2
    scores(model, cache=False)
    assert len(builds) in (2, 3)
    assert [
        path.suffix
        for path in cache_home.iterdir()
        if path.suffix not in (".so", ".json", ".kernel")
    ] == []


@pytest.mark.parametrize("text", ["null", "5", "[5]", '[[[], "x"]]', "no JSON"])
def test_damaged_warnings_of_an_entry_are_passed_over(
    text: str, cache_home: Path, model: Path, builds: list[int]
) -> None:
    first = scores(model)
    for path in cache_home.glob("*.json"):
        path.write_text(text)
    np.testing.assert_array_equal(scores(model), first)
    assert len(builds) == 1


def test_weights_in_a_file_beside_the_model_count(
    cache_home: Path, tiny_cnn: onnx.ModelProto, tmp_path: Path, builds: list[int]
) -> None:
    def save(model: onnx.ModelProto) -> Path:
        copy = onnx.ModelProto.FromString(model.SerializeToString())
        (tmp_path / "net.bin").unlink(missing_ok=True)
        path = tmp_path / "apart.onnx"
        onnx.save(copy, path, save_as_external_data=True, location="net.bin", size_threshold=0)
        return path

    path = save(tiny_cnn)
    first = scores(path)
    np.testing.assert_array_equal(scores(path), first)
    assert len(builds) == 1
    changed = onnx.ModelProto.FromString(tiny_cnn.SerializeToString())
    weight = max(changed.graph.initializer, key=lambda each: len(each.raw_data))
    halved = onnx.numpy_helper.to_array(weight) / 2
    weight.raw_data = halved.astype("float32").tobytes()
    assert not np.allclose(scores(save(changed)), first)
    assert len(builds) == 2
    (tmp_path / "net.bin").unlink()
    with pytest.raises(ModelFileError, match="which is no file"):
        scores(path)


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_file_that_changes_while_it_is_read_is_refused(
    precision: str,
    cache_home: Path,
    model: Path,
    tiny_cnn: onnx.ModelProto,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its weights lie elsewhere then, and the entry's name would be a hash of the old content."""
    load = onnx_model.load_model

    def replaced_meanwhile(path: str | Path) -> onnx.ModelProto:
        tiny_cnn.producer_name = "another"
        onnx.save(tiny_cnn, path)
        return load(path)

    monkeypatch.setattr(onnx_model, "load_model", replaced_meanwhile)
    with pytest.raises(ModelFileError, match="changed while it was read; try again"):
        Session(model, precision=precision)
    assert not list(cache_home.rglob("*.so"))


@pytest.mark.parametrize("in_memory", [False, True])
def test_a_session_is_for_this_machine_whatever_target_is_in_force(
    in_memory: bool,
    cache_home: Path,
    model: Path,
    tiny_cnn: onnx.ModelProto,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cores = []
    real = specialize.build_networks

    def build(networks: Any, target: CompileTarget, *rest: Any, **options: Any) -> BuiltModule:
        cores.append(target.cpu.cores)
        return real(networks, target, *rest, **options)

    monkeypatch.setattr(specialize, "build_networks", build)
    here = parse_target().cpu.cores
    with tvm.target.Target({"kind": "llvm", "num-cores": here + 1}):
        scores(tiny_cnn if in_memory else model)
    assert cores == [here]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "weight"])
def test_a_damaged_entry_is_built_again(
    damage: str, cache_home: Path, model: Path, builds: list[int]
) -> None:
    first = scores(model)
    (entry,) = cache_home.glob("*.so")
    content = entry.read_bytes()
    middle = len(content) // 2
    places = file_tail._places(entry)
    weight = places.weights_at + places.weights // 2
    entry.unlink()
    entry.write_bytes(
        {
            "cut": content[:middle],
            "flip": content[:2000] + bytes([content[2000] ^ 1]) + content[2001:],
            "empty": b"",
            "weight": content[:weight] + bytes([content[weight] ^ 1]) + content[weight + 1 :],
        }[damage]
    )
    np.testing.assert_array_equal(scores(model), first)
    assert len(builds) == 2
    scores(model)
    assert len(builds) == 2


def test_a_folder_that_cannot_be_does_no_harm(
    tmp_path: Path, model: Path, builds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_NEOCPU_CACHE", str(model / "no" / "folder"))
    assert scores(model).shape == (1, 10)
    assert scores(model).shape == (1, 10)
    assert len(builds) == 2


def test_a_full_disk_does_no_harm(
    cache_home: Path,
    model: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(cache_folder, "MIN_FREE", 1 << 62)
    assert scores(model).shape == (1, 10)
    assert caplog.text.count("its disk is full") == 1
    assert list(cache_home.glob("*.so")) == []


def test_what_changes_the_code_changes_the_key(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = model.read_bytes()
    keys = [key_of(content, {}), key_of(content + b" ", {}), key_of(content, {"shapes": {}})]
    assert key_of(content, {}) == keys[0]
    for name, value in (("TVM_NUM_THREADS", "77"), ("TVM_NEOCPU_WINOGRAD_TILE", "2")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            keys.append(key_of(content, {}))
    with monkeypatch.context() as patch:
        patch.setattr(compile_cache, "tvm_version", lambda: "0.99")
        keys.append(key_of(content, {}))
    with monkeypatch.context() as patch:  # TVM, compiled anew under the same version
        patch.setattr(compile_cache, "library_folders", lambda: [str(tmp_path)])
        keys.append(key_of(content, {}))
        (tmp_path / "libtvm_compiler.so").write_text("")
        keys.append(key_of(content, {}))
    (tmp_path / "logs" / "cpu").mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setenv("TVM_NEOCPU_LOGS", str(tmp_path / "logs"))
        keys.append(key_of(content, {}))
        (tmp_path / "logs" / "cpu" / "x.log").write_text("")
        keys.append(key_of(content, {}))
    with monkeypatch.context() as patch:
        patch.setenv("HOME", str(tmp_path))
        patch.setenv("TVM_NEOCPU_CALIBRATION", "~/calibration.json")
        keys.append(key_of(content, {}))
        (tmp_path / "calibration.json").write_text("{}")
        keys.append(key_of(content, {}))
    (tmp_path / "mine.log").write_text("")
    with tvm_neocpu.apply_history_best(tmp_path / "mine.log"):
        keys.append(key_of(content, {}))
    assert len(set(keys)) == len(keys)


def test_warnings_are_told_again(
    cache_home: Path, make_model: Callable[..., onnx.ModelProto], builds: list[int]
) -> None:
    volume = volume_model(make_model)
    said = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            Session(volume).close()
        said.append([str(one.message) for one in caught if one.category is FallbackWarning])
    assert len(builds) == 1
    assert said[0] == said[1] and len(said[0]) == 1


BUILD = """
import sys, json, numpy as np, tvm_neocpu
session = tvm_neocpu.Session(sys.argv[1])
scores = session.run({"data": np.ones((1, 8, 6, 6), "float32")})["out"]
print(json.dumps([scores.tolist(), [name in sys.modules for name in ("tvm", "tvm_ffi.core")]]))
"""


def test_processes_at_once_make_one_entry_and_a_hit_needs_no_compiler(
    cache_home: Path, model: Path
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(tvm_neocpu.__file__).parents[1])}

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", BUILD, str(model)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    answers = [json.loads(each.communicate()[0]) for each in [start(), start(), start()]]
    assert answers[0][0] == answers[1][0] == answers[2][0]
    # The one that built it; the others call libtvm_ffi's C interface.
    assert sorted(imported for _, imported in answers) == [[False, False]] * 2 + [[True, True]]
    assert len(list(cache_home.glob("*.so"))) == 1
    assert list(cache_home.glob("*.lock")) == []


def test_a_session_lets_go_of_the_module_that_it_compiles(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without looking for garbage: weights would stay until Python does."""
    real, libraries = specialize.build_networks, []

    def build(networks: dict[str, tvm.IRModule], *others: Any, **options: Any) -> BuiltModule:
        assert source_of(networks["main"]) is None
        library = real(networks, *others, **options)
        assert networks == {}
        libraries.append(weakref.ref(library))
        return library

    monkeypatch.setattr(specialize, "build_networks", build)
    gc.disable()
    try:
        Session(model)
        assert [library() for library in libraries] == [None]
    finally:
        gc.enable()


def test_a_session_of_another_precision_lets_go_of_the_model_that_it_compiles(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its weights would stand beside the module's for the whole build."""
    real = relay.build

    def build(mod: tvm.IRModule, **options: Any) -> BuiltModule:
        assert source_of(mod) is None
        return real(mod, **options)

    monkeypatch.setattr(relay, "build", build)
    Session(model, precision="bf16")


def test_links_among_the_sources_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor's lock is a link to nothing; a link to a folder may lead in a circle."""
    (tmp_path / "one.py").write_text("")
    (tmp_path / ".#one.py").symlink_to("somebody@somewhere")
    (tmp_path / "circle").symlink_to(tmp_path)
    monkeypatch.setattr(compile_cache, "_PACKAGE", tmp_path)
    found = compile_cache._sources.__wrapped__()
    (tmp_path / "two.py").write_text("")
    assert compile_cache._sources.__wrapped__() != found


def test_a_library_for_another_cpu_takes_its_kernels_from_the_folder(
    tiny_cnn: onnx.ModelProto,
    cache_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arch = "x86_64" if host.arch() == "aarch64" else "aarch64"
    target = f"llvm -mtriple={arch}-linux-gnu -mcpu={OTHERS[arch]}"
    mod, params = relay.frontend.from_onnx(tiny_cnn)
    relay.build(mod, target=target, params=params)
    kernels = sorted(cache_home.iterdir())
    assert {path.suffix for path in kernels} == {".kernel"}
    compiled: list[str] = []
    real = kernel_store.build_module
    with monkeypatch.context() as patch:
        patch.setattr(
            kernel_store, "build_module", lambda *args: compiled.extend(args[0]) or real(*args)
        )
        library = relay.build(mod, target=target, params=params)
    assert not compiled
    assert sorted(cache_home.iterdir()) == kernels
    library.export_library(tmp_path / "network.tar")
    with tarfile.open(tmp_path / "network.tar") as archive:
        heads = [archive.extractfile(member).read(20) for member in archive]  # type: ignore[union-attr]
    assert len(heads) > len(kernels)
    machines = {"aarch64": 183, "x86_64": 62}  # e_machine, two bytes behind e_type
    assert {int.from_bytes(head[18:20], "little") for head in heads} == {machines[arch]}
    assert "fused" in library.inspect_source() or "conv" in library.inspect_source()
