"""What stand-ins have in common is computed once, and stays what it was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tvm
import tvm_ffi
from tvm import relax, tirx

from tests.support.relax_net import module
from tvm_neocpu.choose_plan import search_plan
from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.pipeline import apply_plan, fold
from tvm_neocpu.relay_passes.ir.constants import array_of
from tvm_neocpu.relay_passes.ir.half_weights import with_half_weights
from tvm_neocpu.relay_passes.lowering.lower_to_templates import LowerToTemplates
from tvm_neocpu.relay_passes.lowering.lowered_before import LoweredBefore, is_static
from tvm_neocpu.relay_passes.planning.extract_conv_graph import ExtractConvGraph
from tvm_neocpu.targets import parse_target
from tvm_neocpu.tuning.database.history import History

CPU = Cpu("haswell", AVX2, cores=1)
RNG = np.random.default_rng(1)
WEIGHT = RNG.standard_normal((16, 16, 3, 3), "float32")


def net() -> tvm.IRModule:
    def build(emit: Callable[[relax.Expr], relax.Var], x: relax.Var) -> relax.Expr:
        first = emit(relax.op.nn.conv2d(x, relax.const(WEIGHT), padding=1))
        return relax.op.nn.conv2d(first, relax.const(WEIGHT + 1), padding=1)

    return module(build, (1, 16, 6, 6))


def lowered(mod: tvm.IRModule, before: LoweredBefore | None, cpu: Cpu = CPU) -> tvm.IRModule:
    graph = ExtractConvGraph(cpu)(mod)
    plan = search_plan(graph, cpu, History(cpu.name, 1, ()))
    altered = apply_plan(mod, plan, cpu)
    return LowerToTemplates(cpu, plan.by_layout(graph), before)(altered)


def functions(mod: tvm.IRModule) -> list[tirx.PrimFunc]:
    return [func for func in mod.functions.values() if isinstance(func, tirx.PrimFunc)]


def weights(mod: tvm.IRModule) -> list[np.ndarray]:
    found: list[np.ndarray] = []

    def visit(expr: relax.Expr) -> None:
        array = array_of(expr)
        if array is not None:
            found.append(array)

    relax.analysis.post_order_visit(mod["main"], visit)
    return found


def test_the_second_time_is_like_the_first_in_the_same_memory() -> None:
    mod, before = net(), LoweredBefore()
    first, again = lowered(mod, before), lowered(mod, before)
    assert len(before.functions) == len(functions(lowered(mod, LoweredBefore())))
    assert tvm_ffi.structural_equal(first, again)
    assert tvm_ffi.structural_equal(first, lowered(mod, LoweredBefore()))
    places = [[array.ctypes.data for array in weights(each)] for each in (first, again)]
    assert places[0] == places[1]
    assert len(set(places[0])) == 2  # each layer reads memory of its own


def test_weights_that_numpy_has_no_type_for_have_memory_of_their_own() -> None:
    """Layers that shared it would be timed with weights that are in a cache."""
    cpu = parse_target("llvm -mcpu=sapphirerapids -num-cores=1").cpu
    mod, before = fold(with_half_weights(net(), "bfloat16"), cpu), LoweredBefore()
    first, again = (weights(lowered(mod, before, cpu)) for _ in range(2))
    assert [str(array.dtype) for array in first] == ["int32"] * 2  # words of two
    places = [[array.ctypes.data for array in each] for each in (first, again)]
    assert places[0] == places[1]
    assert len(set(places[0])) == 2


def test_functions_are_those_that_a_build_has() -> None:
    """Its weights are packed in truth; nothing else differs."""
    mod = net()
    ours, built = lowered(mod, LoweredBefore()), lowered(mod, None)
    for one, other in zip(functions(ours), functions(built), strict=True):
        assert tvm_ffi.structural_equal(one, other)
    for one, other in zip(weights(ours), weights(built), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)


def test_a_larger_weight_takes_other_memory() -> None:
    before = LoweredBefore()
    small = before.weight(WEIGHT, (4, 4), "float32")
    large = before.weight(WEIGHT, (2, WEIGHT.size), "float32")
    again = before.weight(WEIGHT, (2, 8), "float32")
    np.testing.assert_array_equal(array_of(small).ravel(), WEIGHT.ravel()[:16])
    np.testing.assert_array_equal(array_of(large)[1], WEIGHT.ravel())
    assert array_of(again).ctypes.data == array_of(large).ctypes.data
    assert array_of(again).ctypes.data % 64 == 0


def test_the_oldest_function_is_forgotten() -> None:
    before = LoweredBefore(most=0)
    assert tvm_ffi.structural_equal(lowered(net(), before), lowered(net(), before))
    assert len(before.functions) == 0


def test_open_extents_are_seen() -> None:
    extent = tvm.tirx.Var("n", "int64")
    assert not is_static([relax.Var("x", relax.TensorType((extent, 4), "float32"))])
    assert is_static([relax.Var("x", relax.TensorType((3, 4), "float32"))])
