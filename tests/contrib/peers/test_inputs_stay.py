"""A runner lives longer than the network that it was made from: its inputs must, too."""

from __future__ import annotations

import gc

import numpy as np
import onnx
import pytest

from tvm_neocpu.contrib.peers.runner import Network
from tvm_neocpu.contrib.peers.table import ENGINES, OURS, Engine

SHAPE = (1, 3, 200, 200)
RELU = """<ir_version: 8, opset_import: ["" : 17]>
net (float[1, 3, 200, 200] data) => (float[1, 3, 200, 200] output)
{ output = Relu(data) }"""


@pytest.mark.peers
@pytest.mark.parametrize(
    "engine", [each for each in ENGINES if each.name != OURS], ids=lambda each: each.name
)
def test_a_runner_reads_its_inputs_when_the_network_is_gone(engine: Engine) -> None:
    if not engine.installed:
        pytest.skip(f"{engine.name} is not installed")
    network = Network("relu", onnx.parser.parse_model(RELU), {"data": SHAPE}, threads=1)
    wanted = np.maximum(network.inputs["data"], 0)
    runner = engine.load(network)
    del network
    gc.collect()
    others = [np.full(SHAPE, 1e9, "float32") for _ in range(8)]  # take the memory that was freed
    runner.burst(1)
    np.testing.assert_array_equal(runner.outputs()[0], wanted)
    del others
