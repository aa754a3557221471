"""Calls in the order that needs the smallest arena."""

from __future__ import annotations

import arenas
import numpy as np
import pytest
import tvm
from arenas import Branch, allocated_bytes, run_twice
from relax_net import module
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tvm_neocpu.core.arena import place_tightly
from tvm_neocpu.pipeline import compute, lower, plan_network
from tvm_neocpu.relay_passes.ir.run_passes import run_passes
from tvm_neocpu.relay_passes.lowering.schedule_functions import ScheduleFunctions
from tvm_neocpu.relay_passes.memory import order_calls
from tvm_neocpu.relay_passes.memory.order_calls import OrderCalls, arena_graph, arena_lifetimes
from tvm_neocpu.relay_passes.memory.plan_memory import PlanMemory
from tvm_neocpu.scheduling.graph.schedule_graph import ScheduleGraph
from tvm_neocpu.scheduling.orders.best import best
from tvm_neocpu.targets import parse_target

TARGET = parse_target()
op = relax.op
RNG = np.random.default_rng(0)
WIDE, NARROW = R.Tensor((64,), "float32"), R.Tensor((16,), "float32")


@I.ir_module
class Before:
    """Two branches, wide and then narrow, written side by side."""

    @T.prim_func(private=True, s_tir=True)
    def widen(a: T.Buffer((16,), "float32"), b: T.Buffer((64,), "float32")):
        for i in range(64):
            with T.sblock("widen"):
                v = T.axis.spatial(64, i)
                b[v] = a[v % 16] + T.float32(1)

    @T.prim_func(private=True, s_tir=True)
    def narrow(a: T.Buffer((64,), "float32"), b: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.sblock("narrow"):
                v = T.axis.spatial(16, i)
                b[v] = a[v * 4]

    @T.prim_func(private=True, s_tir=True)
    def add(
        a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32"), c: T.Buffer((16,), "float32")
    ):
        for i in range(16):
            with T.sblock("add"):
                v = T.axis.spatial(16, i)
                c[v] = a[v] + b[v]

    @R.function
    def main(x: NARROW) -> NARROW:
        cls = Before
        with R.dataflow():
            a = R.call_tir(cls.widen, (x,), out_ty=WIDE)
            b = R.call_tir(cls.widen, (x,), out_ty=WIDE)
            c = R.call_tir(cls.narrow, (a,), out_ty=NARROW)
            d = R.call_tir(cls.narrow, (b,), out_ty=NARROW)
            e = R.call_tir(cls.add, (c, d), out_ty=NARROW)
            R.output(e)
        return e


def in_order(mod: tvm.IRModule, *order: int) -> tvm.IRModule:
    """The module with the bindings of ``main`` in that order."""
    name, old = mod.get_global_var("main"), mod["main"]
    (block,) = old.body.blocks
    bindings = [block.bindings[at] for at in order]
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], old.body.body)
    result = mod.clone()
    result.update_func(name, relax.Function(old.params, body, old.ret_ty, attrs=old.attrs))
    return relax.transform.Normalize()(result)


def arena_bytes(mod: tvm.IRModule) -> list[int]:
    return allocated_bytes(PlanMemory()(mod))


def test_a_wide_tensor_is_narrowed_before_the_next_one_is_made() -> None:
    after = OrderCalls()(Before)
    expected = in_order(Before, 0, 2, 1, 3, 4)
    tvm.ir.assert_structural_equal(after, expected)
    assert arena_bytes(Before) == [2 * 64 * 4 + 16 * 4]
    assert arena_bytes(after) == [64 * 4 + 2 * 16 * 4]


def test_a_search_for_few_bytes_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven seconds went into an arena of 9 KB once."""
    allowed: list[float] = []

    def search(graph: ScheduleGraph, looks: float) -> tuple[int, ...]:
        allowed.append(looks)
        return best(graph, looks)

    monkeypatch.setattr(order_calls, "best", search)
    OrderCalls()(Before)
    # As written two wide tensors and a narrow one are alive; a step needs one of each at least.
    assert allowed == [order_calls.LOOKS_A_BYTE * 4 * 64]


def test_the_better_order_stays() -> None:
    best = in_order(Before, 0, 2, 1, 3, 4)
    assert OrderCalls()(best).same_as(best)


def test_what_the_network_returns_has_no_bytes_in_the_arena() -> None:
    graph, units = arena_graph(Before, Before["main"])
    assert [node.out_bytes for node in graph.nodes] == [256, 256, 64, 64, 0]
    assert [len(unit) for unit in units] == [1] * 5
    fixed, _ = arena_graph(Before, Before["main"], fixed={"narrow"})
    assert [node.out_bytes for node in fixed.nodes] == [0] * 5


def test_a_module_with_branches_is_left_alone() -> None:
    assert OrderCalls()(Branch).same_as(Branch)


SHAPE = (1, 16, 12, 12)


def conv(x: relax.Var, channels: int) -> relax.Expr:
    return arenas.conv(RNG, x, channels)


def side_by_side(emit, x):
    """Three branches whose wide ends are written one after the other."""
    wide = [emit(op.nn.relu(emit(conv(x, 64)))) for _ in range(3)]
    return emit(op.concat([emit(conv(each, 8)) for each in wide], axis=1))


def early_result(emit, x):
    """A result of the network that the file makes last."""
    first = emit(conv(x, 32))
    last = emit(conv(emit(conv(first, 32)), 32))
    return relax.Tuple([emit(op.nn.relu(first)), last])


def with_views(emit, x):
    """Views of tensors, which share their memory."""
    flat = [emit(op.reshape(emit(conv(x, 48)), (1, 48, 144))) for _ in range(2)]
    rows = [emit(conv(emit(op.reshape(each, (1, 48, 12, 12))), 8)) for each in flat]
    return emit(op.add(*rows))


@pytest.mark.parametrize("write", [side_by_side, early_result, with_views])
def test_the_arena_shrinks_and_the_numbers_stay(write, monkeypatch: pytest.MonkeyPatch) -> None:
    mod = module(write, SHAPE)
    x = RNG.normal(size=SHAPE).astype("float32")
    expected = run_twice(tvm.compile(mod, TARGET.target), x)
    monkeypatch.setenv("TVM_NEOCPU_DEBUG", "verify")
    scheduled = ScheduleFunctions(TARGET.cpu)(compute(plan_network(mod, TARGET.cpu), TARGET.cpu))
    ordered = run_passes(scheduled, OrderCalls())
    assert arena_bytes(ordered) <= arena_bytes(scheduled)
    assert arena_of(ordered) == arena_bytes(ordered)[0]
    found = run_twice(tvm.compile(lower(mod, TARGET.cpu), TARGET.target), x)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * np.abs(other).max())


def test_side_by_side_branches_run_one_after_the_other() -> None:
    mod = module(side_by_side, SHAPE)
    scheduled = ScheduleFunctions(TARGET.cpu)(compute(plan_network(mod, TARGET.cpu), TARGET.cpu))
    assert arena_bytes(OrderCalls()(scheduled)) < arena_bytes(scheduled)


def arena_of(mod: tvm.IRModule) -> int:
    """The arena as the pass predicts it."""
    viewed = relax.transform.RewriteDataflowReshape()(mod)
    graph, _ = arena_graph(viewed, viewed["main"])
    return place_tightly(arena_lifetimes(graph, range(len(graph))))[1]
