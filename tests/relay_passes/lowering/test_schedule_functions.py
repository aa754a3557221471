"""ScheduleFunctions: every function of a module by its template or by the general rule."""

from __future__ import annotations

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm.s_tir import Schedule
from tvm.script import tirx as T

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.relay_passes.fusing.fuse_functions import FuseFunctions
from tvm_neocpu.relay_passes.lowering.lower_to_templates import LowerToTemplates
from tvm_neocpu.relay_passes.lowering.schedule_functions import ScheduleFunctions
from tvm_neocpu.relay_passes.memory.plan_memory import PlanMemory
from tvm_neocpu.topi.schedule_function import anchor_of
from tvm_neocpu.topi.tir.functions.memory_params import workspaces_of
from tvm_neocpu.topi.tir.tiles.forget_locals import COMPACTED, is_compacted

op = relax.op
CPU = Cpu("haswell", AVX2, cores=2)


def fused() -> tvm.IRModule:
    """A convolution with bias and ReLU, and a pool."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 2, 32, 32, 8), "float32"))
    weight = relax.const(np.zeros((16, 16, 3, 3), "float32"))
    bias = relax.const(np.zeros((1, 2, 1, 1, 8), "float32"))
    blocked = {"data_layout": "NCHW8c", "out_layout": "NCHW8c", "kernel_layout": "OIHW"}
    with builder.function("main", [x]):
        with builder.dataflow():
            y = op.nn.relu(op.add(op.nn.conv2d(x, weight, padding=1, **blocked), bias))
            result = builder.emit_output(op.nn.max_pool2d(y, [3, 3], [2, 2], layout="NCHW8c"))
        builder.emit_func_output(result)
    return FuseFunctions()(LowerToTemplates(CPU)(builder.get()))


@T.prim_func(s_tir=True)
def opaque(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32")) -> None:
    with T.sblock("extern"):
        T.reads(a[0:16])
        T.writes(b[0:16])
        T.evaluate(T.call_extern("int32", "copy", a.data, b.data))


def primfuncs(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    return {
        var.name_hint: func
        for var, func in mod.functions.items()
        if isinstance(func, tirx.PrimFunc)
    }


def test_every_function_is_scheduled_under_its_name() -> None:
    before = fused()
    after = ScheduleFunctions(CPU)(before)
    assert primfuncs(after).keys() == primfuncs(before).keys()
    assert len(primfuncs(after)) == 2
    for name, func in primfuncs(after).items():
        assert "T.parallel(" in func.script(), name
        assert "T.vectorized(" in func.script(), name
        assert anchor_of(Schedule(func)) is None, name


def test_the_network_itself_is_left_alone() -> None:
    before = fused()
    tvm.ir.assert_structural_equal(ScheduleFunctions(CPU)(before)["main"], before["main"])


def test_attributes_are_kept() -> None:
    before = fused()
    after = primfuncs(ScheduleFunctions(CPU)(before))
    for name, func in primfuncs(before).items():
        added = {COMPACTED: 1} if is_compacted(after[name]) else {}
        assert dict(after[name].attrs) == dict(func.attrs) | added
    assert any(map(is_compacted, after.values()))


def test_a_function_that_cannot_be_scheduled_stops_nobody() -> None:
    before = fused()
    before["opaque"] = opaque.with_attr("global_symbol", "opaque")
    after = ScheduleFunctions(CPU)(before)
    tvm.ir.assert_structural_equal(after["opaque"], before["opaque"])
    assert all("T.parallel(" in f.script() for n, f in primfuncs(after).items() if n != "opaque")


def test_each_function_is_told_of_as_memory_planning_leaves_it() -> None:
    told: list[tirx.PrimFunc] = []
    scheduled = ScheduleFunctions(CPU, ready=told.append)(fused())
    final = primfuncs(PlanMemory()(scheduled)).values()
    assert len(told) == len(final) == 2
    assert {tvm_ffi.structural_hash(func) for func in told} == {
        tvm_ffi.structural_hash(func) for func in final
    }
    # The pool reads the convolution's result out of the arena.
    assert any("_offset" in func.script() for func in told)


def test_a_sum_over_its_residual_is_told_of_so() -> None:
    """The second convolution adds what the first one made, which only it reads."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 2, 32, 32, 8), "float32"))
    weight = relax.const(np.zeros((16, 16, 3, 3), "float32"))
    blocked = {"data_layout": "NCHW8c", "out_layout": "NCHW8c", "kernel_layout": "OIHW"}
    with builder.function("main", [x]):
        with builder.dataflow():
            r = builder.emit(op.nn.relu(op.nn.conv2d(x, weight, padding=1, **blocked)))
            a = builder.emit(op.sigmoid(op.nn.conv2d(x, weight, padding=1, **blocked)))
            y = builder.emit(op.nn.relu(op.add(op.nn.conv2d(a, weight, padding=1, **blocked), r)))
            result = builder.emit_output(op.nn.max_pool2d(y, [3, 3], [2, 2], layout="NCHW8c"))
        builder.emit_func_output(result)
    told: list[tirx.PrimFunc] = []
    module = FuseFunctions()(LowerToTemplates(CPU)(builder.get()))
    scheduled = ScheduleFunctions(CPU, ready=told.append)(module)
    final = primfuncs(PlanMemory()(scheduled)).values()
    assert {tvm_ffi.structural_hash(func) for func in told} == {
        tvm_ffi.structural_hash(func) for func in final
    }
    # One function has an argument less than it and its workspaces had.
    assert sum(len(func.params) for func in final) + 1 == sum(
        len(func.params) + len(workspaces_of(func)) for func in primfuncs(scheduled).values()
    )


def test_functions_of_a_network_that_tvm_plans_are_told_of_as_they_are() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 64, 64, 64), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit(relax.call_pure_packed("vm.builtin.copy", x, ty_args=[x.ty]))
            result = builder.emit_output(op.nn.softmax(y, axis=1))
        builder.emit_func_output(result)
    told: list[tirx.PrimFunc] = []
    scheduled = ScheduleFunctions(CPU, ready=told.append)(FuseFunctions()(builder.get()))
    final = primfuncs(PlanMemory()(scheduled)).values()
    assert any(workspaces_of(func) for func in final)  # an arena's network would pass it
    assert {tvm_ffi.structural_hash(func) for func in told} == {
        tvm_ffi.structural_hash(func) for func in final
    }
