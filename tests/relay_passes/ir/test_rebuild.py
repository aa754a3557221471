"""Rebuilding main: what a visitor sees, and what is kept without its help."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tvm_neocpu.core.conv_graph import ConvGraph
from tvm_neocpu.pipeline import apply_plan, choose_plan, compile_module
from tvm_neocpu.relay_passes.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.relay_passes.ir.rebuild import (
    Emit,
    bindings_of,
    is_straight_line,
    rebuild_main,
)
from tvm_neocpu.targets import parse_target


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


WEIGHT = np.random.default_rng(0).normal(size=(16, 8, 3, 3)).astype("float32")
IMAGE = relax.TensorType((1, 8, 6, 5), "float32")
TARGET = parse_target()


def convolved(x: relax.Expr) -> relax.Expr:
    return relax.op.nn.conv2d(x, relax.const(WEIGHT), padding=1)


def with_cast() -> tvm.IRModule:
    """A convolution whose result is cast to the shape that it has anyway."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", IMAGE)
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(convolved(x))
            y = builder.match_cast(y, relax.TensorType((1, 16, 6, 5), "float32"))
            y = builder.emit_output(relax.op.nn.relu(y))
        builder.emit_func_output(y)
    return builder.get()


def with_branch() -> tvm.IRModule:
    """ReLU of a convolution or its negative, by a flag that is known while it runs."""

    @I.ir_module
    class Branch:
        @R.function
        def main(x: R.Tensor((1, 16, 6, 5), "float32"), flag: R.Tensor((), "bool")) -> R.Tensor(
            (1, 16, 6, 5), "float32"
        ):
            if flag:
                y: R.Tensor((1, 16, 6, 5), "float32") = R.nn.relu(x)
            else:
                y: R.Tensor((1, 16, 6, 5), "float32") = R.negative(x)
            return y

    return Branch


@pytest.mark.parametrize("make", [with_cast, with_branch])
def test_what_is_no_straight_line_is_left_alone(make) -> None:
    mod = make()
    assert is_straight_line(Module["main"])
    assert not is_straight_line(mod["main"])
    graph = ExtractConvGraph(TARGET.cpu)(mod)
    assert graph == ConvGraph((), ())
    altered = apply_plan(mod, choose_plan(graph, TARGET.cpu), TARGET.cpu)
    tvm.ir.assert_structural_equal(altered, mod)


def test_a_cast_between_convolutions_compiles_right() -> None:
    x = np.random.default_rng(1).normal(size=(1, 8, 6, 5)).astype("float32")
    stock = tvm.compile(with_cast(), TARGET.target)
    results = [
        relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x)).numpy()
        for executable in (compile_module(with_cast(), TARGET), stock)
    ]
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("flag", [True, False])
def test_branches_compile_right(flag: bool) -> None:
    x = np.random.default_rng(1).normal(size=(1, 16, 6, 5)).astype("float32")
    machine = relax.VirtualMachine(compile_module(with_branch(), TARGET), tvm.cpu())
    got = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(np.array(flag)))
    np.testing.assert_array_equal(got.numpy(), np.maximum(x, 0) if flag else -x)
