"""Rewriting regions: what a pass sees and binds, and what is kept without its help."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tvm_neocpu.relay_passes.ir.exprs import call_of, op_name
from tvm_neocpu.relay_passes.ir.rewrite import (
    Scope,
    remove_dead_code,
    rewrite_regions,
    rewrite_values,
    tidy,
)

op = relax.op


@I.ir_module
class Module:
    I.module_attrs({"made_by": "a test"})

    @T.prim_func(s_tir=True)
    def helper(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("copy"):
                v = T.axis.spatial(4, i)
                b[v] = a[v]

    @R.function
    def predict(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            y: R.Tensor((4,), "float32") = R.exp(x)
            z: R.Tensor((4,), "float32") = R.add(y, x)
            R.output(z)
        return z


def log_for_exp(scope: Scope, value: relax.Expr) -> relax.Expr | None:
    call = call_of(value, "relax.exp")
    return None if call is None else op.log(call.args[0])


def test_a_tidy_module_without_changes_is_its_own_result() -> None:
    first = rewrite_values(Module, lambda scope, value: None)
    assert not first.same_as(Module)  # it may have been untidy
    assert rewrite_values(first, lambda scope, value: None) is first
    assert tidy(first) is first

    def bind_all(scope: Scope) -> None:
        for binding in scope.region.bindings:
            scope.bind(binding.var, binding.value)

    assert rewrite_regions(first, bind_all) is first
    assert not rewrite_values(first, log_for_exp).same_as(first)
    assert tidy(first.clone()) is not first


def test_a_rule_replaces_values_and_nothing_else() -> None:
    @I.ir_module
    class Expected:
        I.module_attrs({"made_by": "a test"})

        @T.prim_func(s_tir=True)
        def helper(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
            for i in range(4):
                with T.sblock("copy"):
                    v = T.axis.spatial(4, i)
                    b[v] = a[v]

        @R.function
        def predict(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
            R.func_attr({"num_input": 1})
            with R.dataflow():
                y: R.Tensor((4,), "float32") = R.log(x)
                z: R.Tensor((4,), "float32") = R.add(y, x)
                R.output(z)
            return z

    text = Module.script()
    tvm.ir.assert_structural_equal(rewrite_values(Module, log_for_exp), Expected)
    assert Module.script() == text


def test_inside_a_region_names_are_free() -> None:
    """Only ``z``, which the function returns, is bound again; ``y`` is not."""

    def rewrite(scope: Scope) -> None:
        (output,) = scope.region.outputs
        (source,) = scope.region.inputs
        scope.bind(output, scope.emit(op.abs(scope.emit(op.sin(source)))))

    body = rewrite_regions(Module, rewrite)["predict"].body
    assert [op_name(b.value) for b in body.blocks[0].bindings] == ["relax.sin", "relax.abs"]


def test_an_output_that_is_not_bound_is_an_error() -> None:
    with pytest.raises(ValueError, match="a pass dropped z"):
        rewrite_regions(Module, lambda scope: None)


@I.ir_module
class Branch:
    @R.function
    def main(x: R.Tensor((4,), "float32"), flag: R.Tensor((), "bool")):
        a = R.exp(x)
        if flag:
            b = R.exp(a)
            y = R.abs(b)
        else:
            y = R.exp(a)
        z = R.exp(y)
        return z


@I.ir_module
class BranchOfLogs:
    @R.function
    def main(x: R.Tensor((4,), "float32"), flag: R.Tensor((), "bool")):
        a = R.log(x)
        if flag:
            b = R.log(a)
            y = R.abs(b)
        else:
            y = R.log(a)
        z = R.log(y)
        return z


def test_branches_are_rewritten_too() -> None:
    tvm.ir.assert_structural_equal(rewrite_values(Branch, log_for_exp), tidy(BranchOfLogs))


def test_every_function_is_rewritten() -> None:
    renamed = Module["predict"].with_attr("global_symbol", "again")
    both = tvm.IRModule(
        {"predict": Module["predict"], "again": relax.utils.copy_with_new_vars(renamed)}
    )
    found = rewrite_values(both, log_for_exp)
    assert all("R.log" in found[name].script() for name in ("predict", "again"))


def test_definitions_are_known_across_a_cast() -> None:
    seen: list[str] = []

    def look(scope: Scope, value: relax.Expr) -> None:
        seen.extend(op_name(scope.definition(arg)) for arg in getattr(value, "args", ()))

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(ndim=1, dtype="float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(op.exp(x))
            z = builder.match_cast(y, relax.TensorType((4,), "float32"))
            w = builder.emit(op.sin(y))
            out = builder.emit_output(op.add(z, w))
        builder.emit_func_output(out)
    rewrite_values(builder.get(), look)
    assert seen == ["", "relax.exp", "", "relax.sin"]


def test_a_module_without_public_functions_keeps_all_of_them() -> None:
    bare = tvm.IRModule({"net": Module["predict"].without_attr("global_symbol")})
    assert [var.name_hint for var in remove_dead_code(bare).get_global_vars()] == ["net"]
    tvm.ir.assert_structural_equal(rewrite_values(bare, lambda *_: None), bare)
