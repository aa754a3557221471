"""The classic front door: building, fallbacks and precision."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import numpy_helper
from onnx_net import Net, node, reference, run
from onnx_node import image
from tvm import relax

import tvm_neocpu  # provides tvm.relay
from tvm_neocpu import relay
from tvm_neocpu.core.accuracy.precision import BoundWarning, PrecisionError
from tvm_neocpu.core.errors import (
    ConfigError,
    NeoCpuError,
    TargetError,
)
from tvm_neocpu.core.machine.cpu import NEON, SSE
from tvm_neocpu.session import Session
from tvm_neocpu.targets import GenericTargetWarning

MakeModel = Callable[..., onnx.ModelProto]


def test_build_takes_the_target_in_force(tiny_cnn: onnx.ModelProto) -> None:
    mod, _ = relay.frontend.from_onnx(tiny_cnn)
    wanted = {"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"}
    with tvm.target.Target(wanted):
        lib = relay.build(mod)
    assert lib.info.cpu == "cortex-a72"
    assert "fmla" in lib.inspect_source("asm")


@pytest.mark.parametrize(("cpu", "warns"), [("haswell", True), ("cooperlake", False)])
def test_bf16_without_its_products_is_told(
    cpu: str, warns: bool, tiny_cnn: onnx.ModelProto, caplog: pytest.LogCaptureFixture
) -> None:
    mod, params = relay.frontend.from_onnx(tiny_cnn)
    target = f"llvm -mtriple=x86_64-linux-gnu -mcpu={cpu}"
    relay.build(mod, target=target, params=params, precision="bf16")
    told = "haswell, which does not multiply in bf16; arithmetic is fp32"
    assert (told in caplog.text) == warns


def test_build_refuses_what_it_cannot_build(tiny_cnn: onnx.ModelProto) -> None:
    mod, _ = relay.frontend.from_onnx(tiny_cnn)
    with pytest.raises(TargetError, match="not a CPU"):
        relay.build(mod, target="cuda")
    with pytest.raises(TargetError):
        relay.build(mod, target="llvm", target_host="llvm -mcpu=nope")
    with pytest.raises(NeoCpuError, match="IRModule"):
        relay.build("resnet50")
    with pytest.raises(NeoCpuError, match="main"):
        relay.build(tvm.IRModule({}))
    with pytest.raises(NeoCpuError, match="mod_name is the name"):
        relay.build(mod, mod_name=3)


def test_build_refuses_a_main_that_is_no_network() -> None:
    a = tvm.te.placeholder((4,), name="a")
    loops = tvm.te.create_prim_func([a, tvm.te.compute((4,), lambda i: a[i] + 1)])
    with pytest.raises(NeoCpuError, match="main of the module to build is a PrimFunc"):
        relay.build(tvm.IRModule({"main": loops}))
    x, free = (tvm.relax.Var(name, tvm.relax.TensorType((4,), "float32")) for name in "xy")
    with pytest.raises(NeoCpuError, match="reads 'y', which nothing makes"):
        relay.build(tvm.relax.Function([x], tvm.relax.op.add(x, free), ret_ty=x.ty))


def test_the_modern_way_compiles_the_same_network(tiny_cnn: onnx.ModelProto) -> None:
    mod, _ = relay.frontend.from_onnx(tiny_cnn)
    target = tvm_neocpu.parse_target("llvm").target
    vm = tvm.relax.VirtualMachine(tvm.compile(mod, target, relax_pipeline="neocpu"), tvm.cpu())
    data = image(1, 8, 6, 6)
    found = vm["main"](tvm.runtime.tensor(data)).numpy()
    np.testing.assert_allclose(found, reference(tiny_cnn, data), rtol=1e-4, atol=1e-5)


def test_the_modern_way_warns_of_code_for_any_cpu_and_still_compiles_it(
    tiny_cnn: onnx.ModelProto, recwarn: pytest.WarningsRecorder
) -> None:
    if tvm_neocpu.parse_target("llvm").cpu.isa in (SSE, NEON):
        pytest.skip("this machine has nothing better than the baseline")
    mod, _ = relay.frontend.from_onnx(tiny_cnn)
    with pytest.warns(GenericTargetWarning, match="no mcpu") as caught:
        built = tvm.compile(mod, "llvm", relax_pipeline="neocpu")
    assert len(caught) == 1
    assert "zmm" not in built.mod.imports[0].inspect_source("s")
    data = image(1, 8, 6, 6)
    found = tvm.relax.VirtualMachine(built, tvm.cpu())["main"](tvm.runtime.tensor(data)).numpy()
    np.testing.assert_allclose(found, reference(tiny_cnn, data), rtol=1e-4, atol=1e-5)

    recwarn.clear()
    tvm.compile(mod, tvm_neocpu.parse_target("llvm").target, relax_pipeline="neocpu")
    assert not [w for w in recwarn if w.category is GenericTargetWarning]


def half_covered(make_model: MakeModel) -> onnx.ModelProto:
    """A dense layer, its result through a transposed 3-D convolution with a computed weight."""
    nodes = [
        node("MatMul", "data", "w", out="hidden"),
        node("Reshape", "hidden", "volume", out="image"),
        node("ReduceMax", "data", out="largest", keepdims=0),
        node("Mul", "kernel", "largest", out="scaled"),
        node("ConvTranspose", "image", "scaled", strides=[2, 2, 2]),
    ]
    model = make_model(nodes, (4, 8), {"w": (8, 16), "kernel": (4, 2, 2, 2, 2)})
    shape = np.array([1, 4, 2, 2, 4])
    model.graph.initializer.append(numpy_helper.from_array(shape, "volume"))
    return model


def test_one_warning_says_what_no_template_takes(make_model: MakeModel) -> None:
    model = half_covered(make_model)
    mod, params = relay.frontend.from_onnx(model)
    with pytest.warns(tvm_neocpu.FallbackWarning) as caught:
        lib = relay.build(mod, params=params)
    (warning,) = caught
    text = str(warning.message)
    assert text.startswith("no template takes 1 operation of this network, 66.7%")
    assert "conv3d_transpose 1x4x2x2x4, 4x2x2x2x2 -> 1x2x4x4x8" in text
    data = image(4, 8)
    np.testing.assert_allclose(run(lib, data), reference(model, data), rtol=1e-4, atol=1e-5)


def test_the_pipeline_of_tvm_compile_warns_too(make_model: MakeModel) -> None:
    mod, _ = relay.frontend.from_onnx(half_covered(make_model))
    with pytest.warns(tvm_neocpu.FallbackWarning, match="conv3d_transpose"):
        tvm.compile(mod, tvm_neocpu.parse_target("llvm").target, relax_pipeline="neocpu")


def test_a_fallback_can_be_refused_or_ignored(make_model: MakeModel) -> None:
    mod, _ = relay.frontend.from_onnx(half_covered(make_model))
    with pytest.raises(NeoCpuError, match="conv3d_transpose"):
        relay.build(mod, fallback="error")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relay.build(mod, fallback="ignore")
    with pytest.raises(NeoCpuError, match="fallback is one of warn, error, ignore"):
        relay.build(mod, fallback="never")


def test_nothing_is_said_where_templates_take_everything(tiny_cnn: onnx.ModelProto) -> None:
    mod, params = relay.frontend.from_onnx(tiny_cnn, {"data": (1, 8, 6, 6)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        relay.build(mod, params=params, fallback="error")


AS_IMPORTED = r"as relay\.frontend\.from_onnx made it"


def two_convolutions(seed: int = 0) -> onnx.ModelProto:
    net = Net((1, 8, 6, 6), rng=np.random.default_rng(seed))
    return net.model(net.conv(net("Relu", net.conv("data", 8, 16, 1)), 16, 8, 1))


def test_precision_is_built_cached_and_near_fp32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One network in fp32 and int8; the cache tells them, and other data, apart."""
    monkeypatch.setenv("TVM_NEOCPU_CACHE", str(tmp_path))
    mod, _ = relay.frontend.from_onnx(two_convolutions())
    rng = np.random.default_rng(7)
    data = rng.standard_normal((8, 8, 6, 6), dtype="float32")
    asked = {"precision": "int8", "accuracy_data": {"data": data}}
    plain, low = relay.build(mod), relay.build(mod, **asked)
    (wanted,) = Session(plain).run({"data": data[:1]}).values()
    (found,) = Session(low).run({"data": data[:1]}).values()
    error = np.linalg.norm(found - wanted) / np.linalg.norm(wanted)
    assert 1e-5 < error < 0.02
    entries = set(tmp_path.glob("*.so"))
    relay.build(mod, **asked)
    assert set(tmp_path.glob("*.so")) == entries
    relay.build(mod, **{**asked, "accuracy_data": {"data": data[:4]}})
    assert len(set(tmp_path.glob("*.so"))) == len(entries) + 1


def test_a_bound_that_keeps_all_in_fp32_is_said_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_NEOCPU_CACHE", str(tmp_path))
    mod, _ = relay.frontend.from_onnx(two_convolutions())
    data = np.random.default_rng(7).standard_normal((4, 8, 6, 6), dtype="float32")
    for _ in range(2):
        with pytest.warns(BoundWarning, match="auto: no layer .* the best reachable is"):
            relay.build(mod, precision="auto", max_error=2e-5, accuracy_data={"data": data})
    assert len(list(tmp_path.glob("*.so"))) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda mod: mod, "fp8"),
        (lambda mod: relax.transform.Normalize()(mod), AS_IMPORTED),
        (lambda mod: mod["main"], AS_IMPORTED),
    ],
)
def test_precision_needs_the_module_as_it_was_imported(change: Any, said: str) -> None:
    mod, _ = relay.frontend.from_onnx(two_convolutions())
    precision = "fp8" if said == "fp8" else "int8"
    with pytest.raises(PrecisionError, match=said):
        relay.build(
            change(mod), precision=precision, accuracy_data={"data": np.zeros((1, 8, 6, 6))}
        )


def test_precision_of_a_module_that_was_changed_in_place() -> None:
    mod, _ = relay.frontend.from_onnx(two_convolutions())
    other, _ = relay.frontend.from_onnx(two_convolutions(seed=1))
    mod["main"] = other["main"]
    with pytest.raises(PrecisionError, match=AS_IMPORTED):
        relay.build(mod, precision="int8", accuracy_data={"data": np.zeros((1, 8, 6, 6))})


def test_a_cap_that_is_no_size_of_a_tile_is_told(
    tiny_cnn: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_NEOCPU_WINOGRAD_TILE", "x")
    with pytest.raises(ConfigError, match="is a tile size"):
        mod, params = relay.frontend.from_onnx(tiny_cnn)
        relay.build(mod, params=params, cache=False)
