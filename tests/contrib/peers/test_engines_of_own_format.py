"""MNN and ncnn, where installed: right outputs, nothing written, refusals with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort  # type: ignore[import-untyped]  # it ships no types
import pytest

from tvm_neocpu.contrib.peers.compare import largest_error
from tvm_neocpu.contrib.peers.isolated import CANNOT_CONVERT, EngineError
from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.peers.table import ENGINES, Engine

TWO_OUTPUTS = """<ir_version: 8, opset_import: ["" : 17]>
net (float[2, 3, 9, 9] data) => (float[2, 4, 7, 7] image, float[2, 4] mean)
<float[4, 3, 3, 3] w>
{
    c = Conv(data, w)
    image = Relu(c)
    p = GlobalAveragePool(image)
    mean = Flatten(p)
}"""
# An operator that ncnn has not.
NO_SUCH_LAYER = """<ir_version: 8, opset_import: ["" : 17]>
net (float[1, 3, 8, 8] data) => (float[1, 3, 8, 8] output)
{ output = Hardmax <axis = 1> (data) }"""


@pytest.fixture(params=["MNN", "ncnn"])
def engine(request: pytest.FixtureRequest) -> Engine:
    found = next(engine for engine in ENGINES if engine.name == request.param)
    if not found.installed:
        pytest.skip(f"{found.name} is not installed")
    return found


@pytest.mark.peers
def test_two_outputs_of_a_batch_of_two(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = onnx.parser.parse_model(TWO_OUTPUTS)
    weight = np.random.default_rng(1).standard_normal((4, 3, 3, 3), dtype=np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    network = Network("two", model, {"data": (2, 3, 9, 9)}, threads=1)
    with engine.isolate(network) as runner:
        assert len(runner.burst(2)) == 2
        found = runner.outputs()
    wanted = ort.InferenceSession(network.content).run(None, network.inputs)
    assert largest_error(found, wanted) < 1e-5
    assert list(tmp_path.iterdir()) == []
    assert engine.version


@pytest.mark.peers
def test_a_missing_layer_is_named(engine: Engine) -> None:
    if engine.name != "ncnn":
        pytest.skip("MNN converts everything and fails at the first run")
    model = onnx.parser.parse_model(NO_SUCH_LAYER)
    network = Network("none", model, {"data": (1, 3, 8, 8)}, threads=1)
    with pytest.raises(EngineError, match="ncnn has no layer Hardmax") as caught:
        engine.isolate(network)
    assert caught.value.state == CANNOT_CONVERT
