"""Activations of activations: compiled in bounded time, and right."""

from __future__ import annotations

import time

import pytest
from onnx_net import Net, check
from tvm import relax

from tvm_neocpu.relay_passes.fusing.fuse_functions import FuseFunctions

SECONDS = 60.0  # of CPU time; uncut, the first of these did not end within minutes


@pytest.mark.parametrize("chain", [("Mish", "Erf"), ("Softplus", "Mish", "Gelu", "Tanh")], ids=str)
def test_chains_of_formulas_compile_in_bounded_time(chain: tuple[str, ...]) -> None:
    net = Net((1, 4, 5, 5))
    x = net.conv("data", 4, 8, 3)
    for kind in chain:
        if kind == "Gelu":
            half = net("Mul", x, net.constant(0.5))
            x = net("Mul", half, net("Erf", net("Mul", x, net.constant(0.7))))
        else:
            x = net("Softplus", x) if kind == "Mish" else net(kind, x)
            x = net("Tanh", x) if kind == "Mish" else x
    start = time.process_time()
    check(net.model(x))
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize(("count", "functions"), [(1, 1), (2, 1), (3, 2), (5, 3)])
def test_a_group_has_two_formulas_at_most(count: int, functions: int) -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 8, 4, 4), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value: relax.Expr = x
            for _ in range(count):
                value = builder.emit(relax.op.tanh(value))
                value = builder.emit(relax.op.add(value, value))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    fused = FuseFunctions()(builder.get())
    calls = [binding for block in fused["main"].body.blocks for binding in block.bindings]
    called = [b.value.args[0] for b in calls if isinstance(b.value, relax.Call)]
    formulas = [name for name in called if "neocpu_multiply_add" in fused[name].script()]
    assert len(formulas) == functions
