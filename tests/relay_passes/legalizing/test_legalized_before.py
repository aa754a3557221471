"""Equal calls are legalised once, into the module that TVM's own way makes."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import assert_structural_equal

from tvm_neocpu.relay_passes.legalizing.legalized_before import OPERATORS, LegalizedBefore

pytestmark = pytest.mark.compiler


def module() -> tvm.IRModule:
    builder = relax.BlockBuilder()
    one, other, small = (
        relax.Var(name, relax.TensorType(shape, "float32"))
        for name, shape in (("x", (1, 4, 6, 6)), ("y", (1, 4, 6, 6)), ("z", (1, 4, 3, 3)))
    )
    scalar = relax.const(np.float32(2))
    with builder.function("main", [one, other, small]):
        with builder.dataflow():
            lv = builder.emit(relax.op.add(one, other))
            lv = builder.emit(relax.op.add(lv, other))
            twice = builder.emit(relax.op.add(lv, lv))  # one tensor, two operands
            again = builder.emit(relax.op.add(twice, twice))
            lv = builder.emit(relax.op.multiply(again, scalar))  # part of the function
            lv = builder.emit(relax.op.multiply(lv, relax.const(np.float32(3))))
            smaller = builder.emit(relax.op.add(small, small))
            joined = builder.emit(relax.op.concat([lv, one], axis=1))
            joined = builder.emit(relax.op.concat([other, lv], axis=1))
            along = builder.emit(relax.op.concat([lv, one], axis=2))
            result = builder.emit_output(relax.Tuple([joined, along, relax.op.nn.relu(smaller)]))
        builder.emit_func_output(result)
    return relax.transform.Normalize()(builder.get())


def test_the_module_is_tvms_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def counted(op: str) -> object:
        real = tvm.ir.Op.get(op).get_attr("FLegalize")

        def legalize(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
            asked.append(op)
            return real(builder, call)

        return legalize

    before = LegalizedBefore()
    ours = {op: before.of(op, counted(op)) for op in OPERATORS}
    found = relax.transform.LegalizeOps(ours)(module())
    assert_structural_equal(found, relax.transform.LegalizeOps()(module()), map_free_vars=True)
    # One of two equal sums, two of one tensor with itself and the small one, both scalars, two
    # ways to join.
    assert sorted(asked) == sorted(
        ["relax.add"] * 4 + ["relax.multiply"] * 2 + ["relax.concat"] * 2 + ["relax.nn.relu"]
    )
