"""Many inferences and builds in one process leave its memory as it is."""

from __future__ import annotations

import gc
import os
import resource
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx_net import Net

from tvm_neocpu import relay

WARM_UP, MEGABYTE = 10, 2**20


def resident() -> float:
    """MB that the process holds."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MEGABYTE


def network(width: int) -> onnx.ModelProto:
    net = Net((1, 8, 10, 10), biases=True)
    wide = net("Relu", net.conv("data", 8, width, 3))
    return net.model(net("Add", net.conv(net("Sigmoid", wide), width, 8), "data"))


def build_and_run(width: int) -> None:
    mod, params = relay.frontend.from_onnx(network(width))
    module = relay.build(mod, target="llvm", params=params)["default"](tvm.cpu())
    module.run(data=np.ones((1, 8, 10, 10), "float32"))
    module.get_output(0).numpy()


@pytest.mark.slow
def test_inferences_leave_memory_flat() -> None:
    mod, params = relay.frontend.from_onnx(network(16))
    module = relay.build(mod, target="llvm", params=params)["default"](tvm.cpu())
    data = np.ones((1, 8, 10, 10), "float32")
    before = 0.0
    for count in range(10_000):
        if count == 100:
            before = resident()
        module.run(data=data)
        module.get_output(0).numpy()
    assert resident() < before + 2


@pytest.mark.slow
def test_builds_leave_memory_flat() -> None:
    before = 0.0
    for count in range(200):
        if count == WARM_UP:
            before = resident()
        build_and_run(16 + count % 3 * 8)
    assert resident() < before + 20
    assert len(os.listdir("/proc/self/fd")) < 500
