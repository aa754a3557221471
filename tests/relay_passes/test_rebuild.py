"""Rebuilding main: what a visitor sees, and what is kept without its help."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tvm_neocpu.relay_passes.rebuild import Emit, bindings_of, rebuild_main


@I.ir_module
class Module:
    @T.prim_func(private=True, s_tir=True)
    def helper(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("copy"):
                v = T.axis.spatial(4, i)
                b[v] = a[v]

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            y: R.Tensor((4,), "float32") = R.exp(x)
            z: R.Tensor((4,), "float32") = R.add(y, x)
            R.output(z)
        return z


def test_bindings_come_in_program_order() -> None:
    found = [(var.name, value.op.name) for var, value in bindings_of(Module["main"])]
    assert found == [("y", "relax.exp"), ("z", "relax.add")]


def test_a_visitor_replaces_bindings() -> None:
    @I.ir_module
    class Expected:
        @T.prim_func(private=True, s_tir=True)
        def helper(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.sblock("copy"):
                    v = T.axis.spatial(4, i)
                    b[v] = a[v]

        @R.function
        def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                y: R.Tensor((4,), "float32") = R.log(x)
                z: R.Tensor((4,), "float32") = R.add(y, x)
                out: R.Tensor((4,), "float32") = R.abs(z)
                R.output(out)
            return out

    renamed: dict[relax.Var, relax.Expr] = {}

    def visit(var: relax.Var, value: relax.Call, emit: Emit) -> None:
        if value.op.name == "relax.exp":
            renamed[var] = emit(relax.op.log(value.args[0]))
        else:
            renamed[var] = emit(relax.op.add(*(renamed.get(arg, arg) for arg in value.args)))

    text = Module.script()
    rebuilt = rebuild_main(Module, visit, lambda old, emit: relax.op.abs(renamed[old]))
    tvm.ir.assert_structural_equal(rebuilt, Expected)
    assert Module.script() == text
