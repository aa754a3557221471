"""Weights that are packed as their file is written: the same results, in less memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper

import tvm_neocpu
from tvm_neocpu import relay
from tvm_neocpu.codegen.late_weights import LateWeight, LateWeights, is_late, late_weights
from tvm_neocpu.runtime.built_module import BuiltModule

pytestmark = pytest.mark.compiler
MakeModel = Callable[..., onnx.ModelProto]


def test_keys_are_of_content_and_packing() -> None:
    late = LateWeights()
    weight = np.arange(8, dtype="float32").reshape(2, 4)

    def add(values: np.ndarray, packing: str) -> bytes:
        packed = LateWeight((4, 2), "float32", lambda: np.ascontiguousarray(values.T))
        constant = late.add(values, packing, packed)
        assert is_late(constant) and tuple(map(int, constant.ty.shape.values)) == (4, 2)
        return constant.value.numpy().tobytes()

    one = add(weight, "a")
    assert add(weight.copy(), "a") == one
    keys = {one, add(weight, "b"), add(weight + 1, "a"), add(weight.reshape(4, 2), "a")}
    assert len(keys) == len(late) == 4
    found = late.of(memoryview(one), "int64", (2,))
    assert found is not None and found.size == 32
    assert bytes(found.content()) == weight.T.tobytes()
    assert late.of(memoryview(bytes(16)), "int64", (2,)) is None
    assert late.of(memoryview(one), "float32", (4,)) is None
    assert not is_late(tvm.relax.const(weight)) and late_weights() is None


def test_weights_that_agree_in_most_bytes_have_keys_of_their_own() -> None:
    late = LateWeights()
    weight = np.zeros((64, 1024), "float32")

    def key(values: np.ndarray) -> bytes:
        packed = LateWeight(values.shape, "float32", lambda: values)
        return late.add(values, "as it is", packed).value.numpy().tobytes()

    keys = []
    for at in range(100):
        values = weight.copy()
        values[0, at] = 1
        keys += [key(values), key(values.copy())]
    assert keys[::2] == keys[1::2] and len(set(keys)) == len(late) == 100
    held = late.of(memoryview(keys[6]), "int64", (2,))
    assert held is not None and np.frombuffer(held.content(), "float32").nonzero()[0] == [3]


def network(make_model: MakeModel, batch: int | str = 1) -> onnx.ModelProto:
    """Winograd's and direct convolutions and a product, two layers of equal weights."""
    nodes = [
        helper.make_node("Conv", ["data", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "w1"], ["b"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["b", "w1"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["c", "w2"], ["d"], strides=[2, 2]),
        helper.make_node("Flatten", ["d"], ["e"]),
        helper.make_node("Gemm", ["e", "w3"], ["out"], transB=1),
    ]
    shapes = {"w0": (64, 8, 3, 3), "w1": (64, 64, 3, 3), "w2": (32, 64, 1, 1), "w3": (40, 512)}
    return make_model(nodes, (batch, 8, 8, 8), shapes)


def scores(library: BuiltModule, batch: int) -> np.ndarray:
    module = library["default"](tvm.cpu())
    data = np.random.default_rng(3).standard_normal((batch, 8, 8, 8), dtype=np.float32)
    module.run(data=data)
    found: np.ndarray = module.get_output(0).numpy()
    return found


@pytest.mark.parametrize("batch", [1, "N"])
def test_the_file_is_that_of_a_build_without_a_cache(
    batch: int | str, cache_home: Path, tmp_path: Path, make_model: MakeModel
) -> None:
    """Specialisations for several batches share what they pack alike."""
    mod, params = relay.frontend.from_onnx(network(make_model, batch), {"data": (batch, 8, 8, 8)})
    libraries = [
        relay.build(mod, params=params, cache=cached, max_batch=2) for cached in (False, True)
    ]
    np.testing.assert_array_equal(*(scores(library, 1) for library in libraries))
    libraries[0].export_library(tmp_path / "net.so")
    plain = tvm_neocpu.load(tmp_path / "net.so")
    weights = [
        sorted(tuple(tensor.numpy().tobytes() for tensor in found))
        for library in (plain, libraries[1])
        for found in [next(iter(library.library.weights.values()))]
    ]
    assert weights[0] == weights[1]
    (entry,) = cache_home.glob("*.so")
    assert entry.stat().st_size < (tmp_path / "net.so").stat().st_size + 65536


BUILD = """
import sys, onnx, tvm_neocpu
from tvm import relay

def status(name):
    rows = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return int(rows[name].split()[0])

def built(path):
    mod, params = relay.frontend.from_onnx(onnx.load(path))
    open("/proc/self/clear_refs", "w").write("5")  # the peak is what is resident now
    before = status("VmRSS")
    relay.build(mod, params=params)
    return status("VmHWM") - before

built(sys.argv[1])  # what any build leaves: modules, the compiler's own memory
print(built(sys.argv[2]))
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
def test_a_build_takes_at_most_twice_the_weights(
    cache_home: Path, tmp_path: Path, make_model: MakeModel
) -> None:
    """Beside the module that it is given. Packed for Winograd they take four times as much."""
    layers = 24
    names = ["data", *(f"t{number}" for number in range(1, layers)), "out"]
    nodes = [
        helper.make_node("Conv", [names[at], f"w{at}"], [names[at + 1]], pads=[1, 1, 1, 1])
        for at in range(layers)
    ]
    shapes = {f"w{at}": (256, 256, 3, 3) for at in range(layers)}
    onnx.save(make_model(nodes, (1, 256, 8, 8), shapes), tmp_path / "large.onnx")
    onnx.save(network(make_model), tmp_path / "small.onnx")
    environment = {**os.environ, "PYTHONPATH": str(Path(tvm_neocpu.__file__).parents[1])}
    command = [
        sys.executable,
        "-c",
        BUILD,
        *(str(tmp_path / f"{n}.onnx") for n in ("small", "large")),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    weights = layers * 256 * 256 * 9 * 4 / 1024
    assert int(done.stdout.split()[-1]) < 2 * weights
