"""Kernels from the cache folder: compiled once, by whomever; damage, places that take no file."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper
from small_kernels import adds
from tvm import rpc
from tvm.ir.transform import PassContext

from tvm_neocpu import relay
from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.codegen import kernel_store
from tvm_neocpu.codegen.kernel_objects import loaded
from tvm_neocpu.codegen.kernel_store import (
    KernelStore,
    compiling_ahead,
    kernels_kept,
    store_for,
)
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.profile.profile_network import profile_network
from tvm_neocpu.folded_network import open_onnx
from tvm_neocpu.runtime.process.threads import thread_count
from tvm_neocpu.storage import cache_folder
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.fleet.remote_machine import RemoteMachine
from tvm_neocpu.tuning.in_network.processes.machine import NetworkMachine

pytestmark = pytest.mark.compiler
TARGET = parse_target().target
FUNCTIONS = {
    "one": adds(1.0),
    "another": adds(2.0),
    "equal": adds(1.0, data="x").with_attr("global_symbol", "equal"),
}


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of kernels that LLVM compiles, in any store."""
    seen: list[str] = []
    real = kernel_store.build_module

    def build(kernels: Any, *others: Any) -> Any:
        seen.extend(kernels)
        return real(kernels, *others)

    monkeypatch.setattr(kernel_store, "build_module", build)
    return seen


def run(store: KernelStore) -> None:
    """All functions, and that they compute what they should."""
    objects = store.objects(FUNCTIONS)
    assert objects["one"] == objects["equal"]
    library = loaded(tuple(objects.values()))
    data, out = tvm.runtime.tensor(np.zeros(4, "float32")), tvm.runtime.empty((4,), "float32")
    for name, value in (("one", 1.0), ("another", 2.0)):
        library[objects[name].symbol](data, out)
        np.testing.assert_array_equal(out.numpy(), value)


def test_kernels_are_compiled_once(cache_home: Path, compiled: list[str]) -> None:
    for _ in range(2):
        run(KernelStore(cache_home, TARGET))
        assert len(compiled) == 2
    assert {path.suffix for path in cache_home.iterdir()} == {".kernel"}
    assert KernelStore(cache_home, TARGET).objects({}) == {}


def test_two_at_once_share_the_work(cache_home: Path, compiled: list[str]) -> None:
    stores = [KernelStore(cache_home, TARGET) for _ in range(3)]
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda store: store.objects(FUNCTIONS), stores))
    assert found[0] == found[1] == found[2]
    assert sum(store.compiled for store in stores) == len(compiled) == 2
    assert {path.suffix for path in cache_home.iterdir()} == {".kernel"}


def test_a_module_of_several_kernels(cache_home: Path, compiled: list[str]) -> None:
    store = KernelStore(cache_home, TARGET, together=4)
    store.prepare([FUNCTIONS["one"], FUNCTIONS["another"]], PassContext.current())
    reader = KernelStore(cache_home, TARGET)
    run(reader)
    assert len(compiled) == 2
    assert len({name.rpartition("_")[2] for name in compiled}) == 1  # one module
    one, another, _ = reader.objects(FUNCTIONS).values()
    assert one.content is another.content


def test_two_modules_that_share_a_kernel_are_linked(cache_home: Path, compiled: list[str]) -> None:
    """As after the entry of one was dropped: its other kernels are found in the older module."""
    store, context = KernelStore(cache_home, TARGET, together=4), PassContext.current()
    shared = adds(3.0)
    store.prepare([shared, FUNCTIONS["one"]], context)
    _, key, _ = compiled[0].split("_")
    (cache_home / f"{key}.kernel").unlink()
    store.prepare([shared, FUNCTIONS["another"]], context)
    run(KernelStore(cache_home, TARGET))
    assert len(compiled) == 4


def test_two_of_a_module_that_was_compiled_twice_are_linked(
    cache_home: Path, compiled: list[str], tmp_path: Path
) -> None:
    """As by two processes at once in a folder that has no locks."""
    context = PassContext.current()
    folders = (cache_home, tmp_path / "other")
    for folder, data in zip(folders, ("x", "longer"), strict=True):
        functions = [adds(1.0, data=data), adds(2.0, data=data)]
        KernelStore(folder, TARGET, together=4).prepare(functions, context)
    _, key, _ = compiled[0].split("_")
    theirs = (folders[1] / f"{key}.kernel").read_bytes()
    assert theirs != (cache_home / f"{key}.kernel").read_bytes()
    (cache_home / f"{key}.kernel").write_bytes(theirs)
    run(KernelStore(cache_home, TARGET))
    assert len(compiled) == 4


def test_what_is_ready_is_compiled_before_it_is_asked_for(
    cache_home: Path, compiled: list[str]
) -> None:
    with kernels_kept(cache_home), compiling_ahead(TARGET) as begin:
        assert begin is not None
        begin(FUNCTIONS["one"])
        deadline = time.monotonic() + 60
        while not list(cache_home.glob("*.kernel")) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert len(compiled) == 1
    run(KernelStore(cache_home, TARGET))
    assert len(compiled) == 2


def test_a_kernel_that_comes_again_is_prepared_once(
    cache_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[Any] = []
    monkeypatch.setattr(KernelStore, "prepare", lambda _, some, context: prepared.extend(some))
    with kernels_kept(cache_home), compiling_ahead(TARGET) as begin:
        assert begin is not None
        for func in FUNCTIONS.values():
            begin(func)
        while len(prepared) < 2:
            time.sleep(0.01)
    assert prepared == [FUNCTIONS["one"], FUNCTIONS["another"]]


def test_the_key_of_a_prepared_kernel_is_made_once(
    cache_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []
    real = kernel_store.kernel_key

    def made(*arguments: Any) -> str:
        keys.append(real(*arguments))
        return keys[-1]

    monkeypatch.setattr(kernel_store, "kernel_key", made)
    with kernels_kept(cache_home):
        with compiling_ahead(TARGET) as begin:
            assert begin is not None
            begin(FUNCTIONS["one"])
            while not list(cache_home.glob("*.kernel")):
                time.sleep(0.01)
        store = kernel_store.current_store(TARGET)
        assert store is not None
        objects = store.objects(FUNCTIONS)
        assert len(set(keys)) == len(keys) == 2
        assert [each.symbol for each in objects.values()] == [
            f"kernel_{real(func, TARGET, kernel_store.unchecked(PassContext.current()))}"
            for func in FUNCTIONS.values()
        ]
        with PassContext(config={"tirx.disable_vectorize": True}):
            assert store.objects(FUNCTIONS)["one"] != objects["one"]


def test_nothing_is_compiled_ahead_where_no_file_can_wait(
    tmp_path: Path, compiled: list[str]
) -> None:
    (tmp_path / "file").write_text("no folder")
    store = KernelStore(tmp_path / "file" / "cache", TARGET)
    for function in FUNCTIONS.values():
        store.prepare([function], PassContext.current())
    assert len(compiled) == 1
    with compiling_ahead(TARGET) as begin:
        assert begin is None  # no build here ends in the cache


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_kernel_is_compiled_again(
    damage: str, cache_home: Path, compiled: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    run(KernelStore(cache_home, TARGET))
    entry = min(cache_home.iterdir())
    content = entry.read_bytes()
    flipped = content[:70] + bytes([content[70] ^ 1]) + content[71:]
    entry.write_bytes({"cut": content[:-40], "flip": flipped, "empty": b""}[damage])
    run(KernelStore(cache_home, TARGET))
    assert len(compiled) == 3
    assert caplog.text.count("is built again: it is damaged") == 1
    assert entry.read_bytes() == content


def test_of_many_damaged_kernels_one_is_told(
    cache_home: Path, compiled: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    run(KernelStore(cache_home, TARGET))
    entries = list(cache_home.glob("*.kernel"))
    for entry in entries:
        entry.write_bytes(b"")
    run(KernelStore(cache_home, TARGET))
    assert len(entries) > 1 and len(compiled) == 2 * len(entries)
    assert caplog.text.count("is built again: it is damaged") == 1


def test_no_place_is_said_once_and_does_no_harm(
    cache_home: Path,
    tmp_path: Path,
    compiled: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").write_text("no folder")
    run(KernelStore(tmp_path / "file" / "cache", TARGET))
    assert caplog.text.count("is not used: Not a directory") == 1
    monkeypatch.setattr(cache_folder, "MIN_FREE", 1 << 62)
    run(KernelStore(cache_home, TARGET))
    assert caplog.text.count("its disk is full") == 1
    assert len(compiled) == 4 and not list(cache_home.iterdir())


def test_no_store_where_nothing_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    assert store_for(TARGET) is None  # the suite's own setting
    monkeypatch.setenv("TVM_NEOCPU_CACHE", "/tmp")
    assert store_for(TARGET) is not None
    monkeypatch.setattr(kernel_store, "c_compiler", lambda: None)
    assert store_for(TARGET) is None


MakeModel = Callable[..., onnx.ModelProto]


def chain(make_model: MakeModel, layers: int, prefix: str = "t") -> onnx.ModelProto:
    """Equal convolutions behind each other, and a last one that differs."""
    names = ["data", *(f"{prefix}{number}" for number in range(layers)), "out"]
    nodes = [
        helper.make_node("Conv", [names[at], f"w{at}"], [names[at + 1]], pads=[1, 1, 1, 1])
        for at in range(layers + 1)
    ]
    shapes = {f"w{at}": (32, 32, 3, 3) for at in range(layers)} | {f"w{layers}": (16, 32, 3, 3)}
    return make_model(nodes, (1, 32, 14, 14), shapes)


def built(model: onnx.ModelProto) -> Any:
    mod, params = relay.frontend.from_onnx(model)
    return relay.build(mod, params=params)


def test_a_second_network_compiles_what_is_new(
    cache_home: Path, compiled: list[str], make_model: MakeModel
) -> None:
    built(chain(make_model, 2))
    first = len(compiled)
    assert first > 0
    built(chain(make_model, 3, prefix="other"))  # another network of the same kernels
    assert len(compiled) == first
    assert len(list(cache_home.glob("*.so"))) == 2


def test_a_build_after_tuning_compiles_nothing(
    cache_home: Path, compiled: list[str], tiny_cnn: onnx.ModelProto
) -> None:
    network = open_onnx(tiny_cnn.SerializeToString(), {"data": (1, 8, 6, 6)}, "llvm")
    machine = NetworkMachine(lambda: network)
    assert machine.build("incumbent", choose_plan(network.graph, network.cpu)) == len(compiled) > 0
    before = len(compiled)
    library = built(tiny_cnn)
    assert len(compiled) == before
    module = library["default"](tvm.cpu())
    module.run(data=network.inputs[0])
    np.testing.assert_array_equal(module.get_output(0).numpy(), machine.outputs("incumbent")[0])


def test_a_server_and_a_profile_take_what_a_build_compiled(
    cache_home: Path, compiled: list[str], tiny_cnn: onnx.ModelProto, tmp_path: Path
) -> None:
    built(tiny_cnn)
    before = len(compiled)
    network = open_onnx(tiny_cnn.SerializeToString(), {"data": (1, 8, 6, 6)}, "llvm")
    plan = choose_plan(network.graph, network.cpu)
    machines = [
        NetworkMachine(lambda: network),
        RemoteMachine(lambda: network, InProcess(), thread_count(), tmp_path),
    ]
    for machine in machines:
        assert machine.build("incumbent", plan) == before
    here, there = (machine.outputs("incumbent")[0] for machine in machines)
    np.testing.assert_array_equal(here, there)
    profiled = Network("tiny", tiny_cnn, {"data": (1, 8, 6, 6)}, thread_count())
    assert len(profile_network(profiled, lambda *_: 100.0, lambda _: 10.0, runs=1).rows) >= before
    assert len(compiled) == before


class InProcess:
    """A fleet whose one server is this process."""

    def connect(self) -> rpc.LocalSession:
        return rpc.LocalSession()


def test_a_network_that_finds_no_place_runs(
    cache_home: Path,
    compiled: list[str],
    make_model: MakeModel,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = chain(make_model, 1)
    data = np.ones((1, 32, 14, 14), "float32")
    results = []
    for case in ("cached", "full disk", "no temporary folder"):
        if case == "full disk":
            for path in cache_home.glob("*.so"):
                path.unlink()
            monkeypatch.setattr(cache_folder, "MIN_FREE", 1 << 62)
        if case == "no temporary folder":
            monkeypatch.setattr("tvm_neocpu.exporting.write_module.draft_of", _refuse)
        module = built(model)["default"](tvm.cpu())
        module.run(data=data)
        results.append(module.get_output(0).numpy())
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    assert caplog.text.count("is not used") == 1


def _refuse(path: Path) -> None:
    raise PermissionError(13, "Permission denied", str(path))
