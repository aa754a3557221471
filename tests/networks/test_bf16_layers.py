"""Networks whose convolutions multiply in bf16, by vdpbf16ps or by the same sums in fp32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import tvm
from onnx_net import Net

from tvm_neocpu import relay
from tvm_neocpu.choose_plan import choose_plan
from tvm_neocpu.core.machine.dot import PORTABLE_BF16
from tvm_neocpu.core.types import BF16_WEIGHTS
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.pipeline import fold
from tvm_neocpu.relay_passes.ir.half_weights import with_half_weights
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.specialize import build_networks
from tvm_neocpu.targets import CompileTarget, parse_target
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.tuning.database.history import current_history

# So fast that every convolution gains: plain arithmetic in place of the instruction.
FAST = replace(PORTABLE_BF16, rate=8.0)


def network() -> onnx.ModelProto:
    """A stem, a residual block of stride 2 with a shortcut, pools, and odd channels."""
    net = Net((1, 3, 33, 29), biases=True, rng=np.random.default_rng(3))
    x = net("Relu", net.conv("data", 3, 24, 3, strides=[2, 2]))
    x = net("MaxPool", x, kernel_shape=[2, 2], strides=[1, 1])
    y = net("Relu", net.batch_norm(net.conv(x, 24, 37, 3, strides=[2, 2]), 37))
    y = net.conv(y, 37, 64, 1)
    x = net("Relu", net("Add", y, net.conv(x, 24, 64, 1, strides=[2, 2])))
    x = net("Relu", net.conv(x, 64, 48, 3, group=4))
    return net.model(net("GlobalAveragePool", x))


def here() -> CompileTarget:
    """With an instruction that pays, wherever this is; tiles are tested beside their template."""
    target = parse_target("llvm -num-cores=1")
    own = target.cpu.bf16
    first = FAST if own is None else replace(own, rate=1.0)
    cpu = replace(target.cpu, dots=(first, *target.cpu.dots), matrix=None)
    return replace(target, cpu=cpu)


def test_numbers() -> None:
    model, target = network(), here()
    mod = with_half_weights(from_onnx(model)[0], "bfloat16")
    graph = ExtractConvGraph(target.cpu)(fold(mod, target.cpu))
    plan = choose_plan(graph, target.cpu, current_history(target.cpu))
    configs = [plan.configs[node.id] for node in graph.convs]
    assert all(node.workload.types == BF16_WEIGHTS for node in graph.convs if node.workload)
    assert all(isinstance(config, Bf16Config) for config in configs) and len(configs) == 5
    module = build_networks({"main": mod}, target)["default"](tvm.cpu())
    data = np.random.default_rng(1).normal(size=(1, 3, 33, 29)).astype("float32")
    module.run(data=data)
    found = module.get_output(0).numpy()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    exact = session.run(None, {"data": data})[0]
    error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    assert 1e-4 < error < 1e-2


def test_code_for_another_cpu() -> None:
    net = Net((1, 16, 14, 14))
    mod, _ = from_onnx(net.model(net.conv("data", 16, 32, 3)))
    target = "llvm -mtriple=x86_64-linux-gnu -mcpu=znver4 -num-cores=1"
    lib = relay.build(mod, target=target, precision="bf16", cache=False)
    assert "vdpbf16ps" in lib.inspect_source("asm")
