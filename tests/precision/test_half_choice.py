"""Half precision beside int8 and fp32: within the bound, faster by prediction, and built so."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx_net import Net

from tvm_neocpu import relay
from tvm_neocpu.core.accuracy.precision import NoLayersError, request_of
from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.machine.dot import PORTABLE_BF16
from tvm_neocpu.core.types import BF16_WEIGHTS, FP16_WEIGHTS, FP32
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.pipeline import fold
from tvm_neocpu.precision.choose import Chosen, choose_precision
from tvm_neocpu.precision.mixed_network import MixedNetwork
from tvm_neocpu.quantizing.accuracy.compare import compare
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.specialize import build_networks
from tvm_neocpu.targets import CompileTarget, parse_target
from tvm_neocpu.topi.conv2d_winograd.space import TILE_LIMIT
from tvm_neocpu.tuning.database.history import current_history

Samples = list[dict[str, np.ndarray]]
# So fast that every convolution gains: plain arithmetic in place of the instruction.
FAST = replace(PORTABLE_BF16, rate=8.0)
PLAIN = Cpu("plain", AVX2, cores=1)
RATES = (
    "ghz",
    "fma_per_cycle",
    "load_per_cycle",
    "narrow",
    "l2_bytes_per_cycle",
    "l3_bytes_per_cycle",
    "dram_bytes_per_cycle",
    "dram_total_bytes_per_cycle",
)
# A bound that lets two dense layers be in int8, and the third only in fp16.
BOTH = 1.25e-2


def network() -> onnx.ModelProto:
    """A convolution, and three dense layers that wait for memory; two of them are alike."""
    net = Net((1, 16, 12, 12), rng=np.random.default_rng(5))
    x = net("Flatten", net("Relu", net.conv("data", 16, 16, 3, strides=[2, 2])))
    x = net("Relu", net("MatMul", x, net.weight(576, 256)))
    for _ in range(2):
        x = net("Relu", net("MatMul", x, net.weight(256, 256)))
    model = net.model(x)
    for node in model.graph.node:
        node.name = f"{node.op_type.lower()}{node.output[0]}"
    return model


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return network()


@pytest.fixture(scope="module")
def samples() -> Samples:
    rng = np.random.default_rng(7)
    return [{"data": rng.standard_normal((1, 16, 12, 12), dtype="float32")} for _ in range(6)]


def target(*, bf16: bool = False) -> CompileTarget:
    """This machine's instructions and caches, but the default rates: which layers gain by half
    precision depends on them.
    """
    found = parse_target("llvm -num-cores=1", measured=False)
    rates = {name: getattr(PLAIN, name) for name in RATES}
    found = replace(found, cpu=replace(found.cpu, **rates))
    # Its own product of bf16 may be as slow as an Emerald Rapids' without tiles.
    dots = tuple(dot for dot in found.cpu.dots if dot.accumulator == "int32")
    return replace(found, cpu=replace(found.cpu, dots=(*dots, FAST) if bf16 else dots))


def chosen(
    model: onnx.ModelProto, samples: Samples, cpu: Cpu, precision: str, bound: float | None
) -> Chosen:
    request = request_of(precision, bound, samples)
    assert request is not None
    return choose_precision(model, None, request, cpu, current_history(cpu))


@pytest.mark.parametrize(
    ("precision", "bound"), [("auto", 3e-3), ("bf16", 3e-3), ("fp16", 3e-4), ("bf16", 1e-3)]
)
def test_errors_are_within_the_bound(
    precision: str, bound: float, model: onnx.ModelProto, samples: Samples
) -> None:
    cpu = target(bf16=True).cpu
    found = chosen(model, samples, cpu, precision, bound)
    assert found.report.measured <= bound
    assert found.report.chosen <= found.report.fp32
    assert compare(model, found.exact, samples).error == pytest.approx(
        found.report.measured, rel=0.01, abs=1e-6
    )


def test_a_tighter_bound_takes_other_precisions(model: onnx.ModelProto, samples: Samples) -> None:
    """int8 while it may be; fp16 where only it is accurate enough; fp32 at last."""
    cpu = target().cpu
    shares = []
    for bound in (3e-2, 2e-3):
        report = chosen(model, samples, cpu, "auto", bound).report
        assert report.unmet is None
        shares.append((bool(report.in_int8), bool(report.in_precision("fp16"))))
    report = chosen(model, samples, cpu, "auto", 2e-5).report
    assert report.unmet is not None
    assert re.search(r"within 2e-05: .* the best reachable is .* in fp16$", report.unmet)
    shares.append((bool(report.in_int8), bool(report.in_precision("fp16"))))
    assert shares == [(True, False), (False, True), (False, False)]


def test_half_precision_has_a_search_of_its_own(
    model: onnx.ModelProto, samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Integers that err far more than predicted must not take its part of the bound."""
    truth = MixedNetwork.error
    monkeypatch.setattr(
        MixedNetwork, "error", lambda self, mix: truth(self, mix) * (100 if mix.int8 else 1)
    )
    cpu = target(bf16=True).cpu
    auto, bf16 = (chosen(model, samples, cpu, name, 1e-2).report for name in ("auto", "bf16"))
    assert not auto.in_int8 and auto.tightened > 0
    assert bf16.in_precision("bf16") and auto.chosen <= bf16.chosen * (1 + 1e-9)


def test_the_prediction_is_the_measurement(model: onnx.ModelProto, samples: Samples) -> None:
    report = chosen(model, samples, target(bf16=True).cpu, "bf16", 0.1).report
    assert len(report.in_precision("bf16")) == 4
    assert report.predicted is not None
    assert report.measured / 1.5 < report.predicted < report.measured * 1.5


@pytest.mark.parametrize("bf16", [False, True], ids=["storage", "arithmetic"])
def test_a_build_computes_what_was_measured(
    bf16: bool, model: onnx.ModelProto, samples: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TILE_LIMIT, "0")  # transformed numbers are rounded elsewhere
    built_for = target(bf16=bf16)
    found = chosen(model, samples, built_for.cpu, "bf16", 0.1)
    mod, _ = from_onnx(found.model)
    module = build_networks({"main": mod}, built_for)["default"](tvm.cpu())
    exact, plain = (
        onnxruntime.InferenceSession(each.SerializeToString()) for each in (found.exact, model)
    )
    lost = signal = 0.0
    for sample in samples:
        module.run(**sample)
        result = module.get_output(0).numpy()
        rounded, wanted = (each.run(None, sample)[0] for each in (exact, plain))
        assert np.abs(result - rounded).max() <= 1e-3 * np.abs(rounded).max()
        lost += float(np.sum(np.square(result - wanted)))
        signal += float(np.sum(np.square(wanted)))
    assert (lost / signal) ** 0.5 == pytest.approx(found.report.measured, rel=0.05)


def test_a_build_in_tiles_errs_by_what_was_measured(
    model: onnx.ModelProto, samples: Samples
) -> None:
    """At most: the worst tile counts. Other roundings than the emulated ones make as much noise."""
    built_for = target(bf16=True)
    found = chosen(model, samples, built_for.cpu, "bf16", 0.1)
    module = build_networks({"main": from_onnx(found.model)[0]}, built_for)["default"](tvm.cpu())
    plain = onnxruntime.InferenceSession(model.SerializeToString())
    lost = signal = 0.0
    for sample in samples:
        module.run(**sample)
        wanted = plain.run(None, sample)[0]
        lost += float(np.sum(np.square(module.get_output(0).numpy() - wanted)))
        signal += float(np.sum(np.square(wanted)))
    assert 0.2 * found.report.measured < (lost / signal) ** 0.5 < 1.1 * found.report.measured


def test_the_build_has_the_layers_that_were_chosen(
    model: onnx.ModelProto, samples: Samples
) -> None:
    """The bound lets one of two equal layers be in half precision: this one, no other."""
    cpu = target().cpu
    free = chosen(model, samples, cpu, "bf16", 0.1).report
    errors = sorted(layer.halves["bf16"] for layer in free.layers.values() if layer.halves)
    found = chosen(model, samples, cpu, "bf16", (errors[0] + errors[1]) / 2)
    (name,) = found.report.in_precision("bf16")
    graph = ExtractConvGraph(cpu)(fold(from_onnx(found.model)[0], cpu))
    types = [node.workload.types for node in graph.convs if node.workload is not None]
    wanted = [BF16_WEIGHTS if layer == name else FP32 for layer in found.report.layers]
    assert types == wanted


def test_relay_build_keeps_to_it(model: onnx.ModelProto, samples: Samples) -> None:
    mod, _ = from_onnx(model)
    lib = relay.build(mod, precision="fp16", max_error=1e-2, accuracy_data=samples, cache=False)
    module = lib["default"](tvm.cpu())
    module.run(**samples[0])
    found = module.get_output(0).numpy()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    exact = session.run(None, samples[0])[0]
    error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    assert 1e-5 < error < 1e-2


def test_int8_and_half_precision_in_one_network(model: onnx.ModelProto, samples: Samples) -> None:
    """Layers of a quantised file keep their places among equal ones."""
    cpu = target().cpu
    found = chosen(model, samples, cpu, "auto", BOTH)
    assert found.report.in_int8 and found.report.in_precision("fp16")
    graph = ExtractConvGraph(cpu)(fold(from_onnx(found.model)[0], cpu))
    types = [node.workload.types for node in graph.convs if node.workload is not None]
    for layer, kind in zip(found.report.layers.values(), types, strict=True):
        assert (layer.precision == "fp16") == (kind == FP16_WEIGHTS)
        assert layer.int8 == (kind.data == "uint8")


@pytest.mark.slow
def test_rounded_transforms_are_predicted() -> None:
    """Winograd rounds its transformed weights, which makes a larger error than rounding taps."""
    net = Net((1, 512, 7, 7), rng=np.random.default_rng(0))
    model = net.model(net.conv("data", 512, 512, 3))
    rng = np.random.default_rng(7)
    data = [{"data": rng.standard_normal((1, 512, 7, 7), dtype="float32")} for _ in range(2)]
    here = target()
    found = chosen(model, data, here.cpu, "fp16", 1e-2)
    graph = ExtractConvGraph(here.cpu)(fold(from_onnx(found.model)[0], here.cpu))
    (node,) = graph.convs
    assert node.workload is not None and node.workload.types == FP16_WEIGHTS
    module = build_networks({"main": from_onnx(found.model)[0]}, here)["default"](tvm.cpu())
    module.run(**data[0])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    exact = session.run(None, data[0])[0]
    error = np.linalg.norm(module.get_output(0).numpy() - exact) / np.linalg.norm(exact)
    assert found.report.predicted is not None
    assert error / 1.5 < found.report.predicted < 1.5 * error
    assert error / 1.5 < found.report.measured < 1.5 * error


def test_a_network_without_layers() -> None:
    """Who asks for one precision is told; "auto" finds that fp32 is best."""
    net = Net((1, 4, 6, 6))
    model = net.model(net("Relu", "data"))
    data = [{"data": np.ones((1, 4, 6, 6), "float32")}]
    for precision in ("bf16", "int8"):
        with pytest.raises(NoLayersError, match="no convolution or dense layer"):
            chosen(model, data, target().cpu, precision, 0.1)
    found = chosen(model, data, target().cpu, "auto", 0.1)
    assert found.model is model and found.report.measured == 0
    assert found.report.chosen == found.report.fp32
    assert "0 of 0 layers in int8" in found.report.lines()[0]
