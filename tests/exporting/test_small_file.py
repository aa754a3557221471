"""Files whose Winograd weights are transformed as they are loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import tvm_neocpu
from tvm_neocpu import relay
from tvm_neocpu.core.errors import ModuleFileError
from tvm_neocpu.core.network.weight_transform import recording_transforms
from tvm_neocpu.runtime.built_module import BuiltModule
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.packing import pack_weight

pytestmark = pytest.mark.compiler
CHANNELS, PIXELS = 64, 28


@pytest.fixture(scope="module")
def model(make_model: Callable[..., onnx.ModelProto]) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["data", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "v"], ["out"], pads=[1, 1, 1, 1]),
    ]
    shape = (1, CHANNELS, PIXELS, PIXELS)
    kernels = (CHANNELS, CHANNELS, 3, 3)
    return make_model(nodes, shape, {"w": kernels, "v": kernels}, shape)


def build(model: onnx.ModelProto, **options: bool) -> BuiltModule:
    mod, params = relay.frontend.from_onnx(model)
    return relay.build(mod, params=params, **options)


def run(library: BuiltModule) -> np.ndarray:
    data = np.random.default_rng(0).standard_normal((1, CHANNELS, PIXELS, PIXELS), "float32")
    module = library.create()
    module.run(data=data)
    return module.get_output(0).numpy()


@pytest.mark.parametrize("weights", ["inside", "separate"])
def test_a_small_file_has_the_networks_own_weights(
    weights: str, model: onnx.ModelProto, tmp_path: Path
) -> None:
    small, large = build(model, small_file=True), build(model)
    small.export_library(tmp_path / "small.so", weights=weights)
    large.export_library(tmp_path / "large.so", weights=weights)
    suffix = ".so" if weights == "inside" else ".weights"
    sizes = {name: (tmp_path / f"{name}{suffix}").stat().st_size for name in ("small", "large")}
    own = 2 * CHANNELS * CHANNELS * 9 * 4
    assert sizes["large"] - sizes["small"] > own  # F(4x4) has 36 for 9
    found = tvm_neocpu.load(tmp_path / "small.so", check_weights=True)
    np.testing.assert_array_equal(run(found), run(large))


def test_other_formats_are_refused(model: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(ModuleFileError, match=r"transformed at load in a \.so only"):
        build(model, small_file=True).export_library(tmp_path / "net.tar")


def test_taps_are_recorded_while_somebody_asks() -> None:
    conv = ConvWorkload(1, 16, 8, 8, 16, (3, 3), (1, 1), (1, 1, 1, 1))
    config = WinogradConfig(ic_bn=8, oc_bn=8, tile=4, reg_n=2)
    weight = np.random.default_rng(0).standard_normal((16, 16, 3, 3), "float32")
    with recording_transforms() as found:
        packed = pack_weight(weight, conv, config)
    (made,) = found.values()
    np.testing.assert_array_equal(made.taps.reshape(weight.shape), weight)
    np.testing.assert_array_equal(made.transform.packed(made.taps), packed)
    assert len(found) == 1
