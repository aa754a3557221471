"""Several networks in one module."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax, topi

from tvm_neocpu.relay_passes.merge_networks import merge_networks

WEIGHT = np.arange(4, dtype="float32")


def network(batch: int, weight: np.ndarray) -> tvm.IRModule:
    x = relax.Var("x", relax.TensorType((batch, 4), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.emit_te(topi.add, x, relax.const(weight)))
        builder.emit_func_output(result)
    return builder.get()


def constants(mod: tvm.IRModule) -> list[relax.Expr]:
    found: list[relax.Expr] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, tvm.ir.GenericConst):
            found.append(expr)

    for _, func in mod.functions_items():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func, visit)
    return found


def test_functions_get_names_of_their_own_and_equal_weights_are_one() -> None:
    networks = {"main": network(1, WEIGHT), "main_1": network(2, WEIGHT.copy())}
    merged = merge_networks({**networks, "main_2": network(3, -WEIGHT)})
    names = sorted(var.name_hint for var in merged.get_global_vars())
    assert names == ["add", "add_1", "add_2", "main", "main_1", "main_2"]
    first, second, other = sorted(constants(merged), key=lambda c: -c.value.numpy()[3])
    assert first.same_as(second)
    assert not first.same_as(other)
    machine = relax.VirtualMachine(tvm.compile(merged, tvm.target.Target("llvm")), tvm.cpu())
    for batch, function in enumerate(("main", "main_1", "main_2"), 1):
        zeros = tvm.runtime.tensor(np.zeros((batch, 4), "float32"))
        expected = np.broadcast_to(-WEIGHT if batch == 3 else WEIGHT, (batch, 4))
        np.testing.assert_array_equal(machine[function](zeros).numpy(), expected)
