"""Networks that store weights in half precision: what ONNX Runtime makes of rounded weights."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import numpy_helper
from onnx_net import Net

import tvm_neocpu
from tvm_neocpu import relay
from tvm_neocpu.core.accuracy.precision import HALF_DTYPES, PrecisionError
from tvm_neocpu.core.types import FP32, HALF_WEIGHTS
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.frontend.reading.half_metadata import (
    asked_halves,
    asking_for_half,
    asking_for_halves,
)
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.ir.half_weights import with_half_weights
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target

# Computed in fp32 like the rounded weights in ONNX Runtime.
TOLERANCE = 1e-5
KINDS = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16}


def network(batch: int | str = 1) -> onnx.ModelProto:
    """Two dense layers wait for memory, the convolution does not."""
    net = Net((1, 16, 12, 12), rng=np.random.default_rng(5))

    def weight(name: str, *shape: int) -> str:
        net.weight(*shape)
        net.weights[-1].name = name
        return name

    x = net("Flatten", net("Relu", net.conv("data", 16, 16, 1, strides=[2, 2])))
    x = net("Relu", net("Gemm", x, weight("fc1", 512, 576), weight("b", 512), transB=1))
    x = net("Gemm", x, weight("fc2", 512, 333))
    model = net.model(x)
    if batch != 1:
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = str(batch)
    return model


def rounded(model: onnx.ModelProto, kind: type) -> onnx.ModelProto:
    """The same with the dense layers' weights rounded."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for tensor in changed.graph.initializer:
        if tensor.name in ("fc1", "fc2"):
            values = numpy_helper.to_array(tensor).astype(kind).astype("float32")
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return changed


def by_onnx_runtime(model: onnx.ModelProto, data: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found: np.ndarray = session.run(None, {"data": data})[0]
    return found


def error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


DATA = np.random.default_rng(1).normal(size=(1, 16, 12, 12)).astype("float32")


@pytest.mark.parametrize("precision", KINDS)
def test_dense_layers_compute_with_rounded_weights(precision: str) -> None:
    model, kind = network(), KINDS[precision]
    mod, _ = from_onnx(model)
    lib = relay.build(mod, precision=precision, cache=False)
    module = lib["default"](tvm.cpu())
    module.run(data=DATA)
    found = module.get_output(0).numpy()
    expected = by_onnx_runtime(rounded(model, kind), DATA)
    assert error(found, expected) < TOLERANCE
    assert error(expected, by_onnx_runtime(model, DATA)) > 5 * TOLERANCE


def test_which_layers_store_them() -> None:
    cpu = parse_target("llvm -mcpu=haswell -num-cores=1").cpu
    mod, _ = from_onnx(network())
    for dtype in HALF_DTYPES.values():
        graph = ExtractConvGraph(cpu)(fold(with_half_weights(mod, dtype), cpu))
        types = [node.workload.types for node in graph.nodes if node.workload is not None]
        (half,) = (t for t in HALF_WEIGHTS if t.weight == dtype)
        assert types == [FP32, half, half]


def test_a_session_a_file_and_any_batch(tmp_path: Path) -> None:
    model = network("N")
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    one = {"data": (1, 16, 12, 12)}
    session = tvm_neocpu.Session(path, shapes=one, precision="fp16", cache=False)
    (other,) = session.run({"data": DATA}).values()
    assert error(other, by_onnx_runtime(rounded(model, np.float16), DATA)) < TOLERANCE
    mod, _ = from_onnx(model, {"data": ("N", 16, 12, 12)})
    lib = relay.build(mod, precision="fp16", max_batch=2, cache=False)
    module = lib["default"](tvm.cpu())
    batch = np.concatenate([DATA, -DATA, DATA])
    module.run(data=batch)
    found = module.get_output(0).numpy()
    expected = by_onnx_runtime(rounded(model, np.float16), batch)
    # Batches of 2 have kernels of their own, whose weights need not be stored in half.
    assert error(found, expected) < 2e-3
    assert error(found[2:], expected[2:]) < TOLERANCE
    saved = tmp_path / "net.so"
    lib.export_library(saved)
    (again,) = tvm_neocpu.Session(saved).run({"data": batch}).values()
    assert error(again, found) < 1e-6


def test_metadata_asks_for_the_same() -> None:
    asking, _ = from_onnx(asking_for_half(network(), "bfloat16"))
    cpu = parse_target("llvm -mcpu=haswell").cpu
    texts = [str(node.workload) for node in ExtractConvGraph(cpu)(fold(asking, cpu)).nodes]
    assert any("float32 x bfloat16" in text for text in texts)


def test_a_cpu_that_cannot_widen_is_refused() -> None:
    mod, _ = from_onnx(network())
    with pytest.raises(PrecisionError, match="core2 cannot widen vectors of such weights"):
        relay.build(mod, target="llvm -mcpu=core2", precision="fp16")


@pytest.mark.parametrize("noted", ["{", "[]", '{"a": "float8", "b": ["float16"]}', "3"])
def test_metadata_of_layers_that_say_nothing(noted: str) -> None:
    model = network()
    model.metadata_props.append(
        onnx.StringStringEntryProto(key="tvm_neocpu.half_layers", value=noted)
    )
    assert asked_halves(model) == {}
    assert asked_halves(asking_for_halves(model, {"a": "float16"})) == {"a": "float16"}
