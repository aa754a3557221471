"""One arena for what lives within a network."""

from __future__ import annotations

import re

import arenas
import numpy as np
import pytest
import tvm
from arenas import Branch, allocated_bytes, run_twice
from relax_net import module
from tvm import relax, topi
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tvm_neocpu.pipeline import lower
from tvm_neocpu.relay_passes.ir.run_passes import run_passes
from tvm_neocpu.relay_passes.memory.plan_memory import PlanMemory
from tvm_neocpu.relay_passes.merge_networks import merge_networks
from tvm_neocpu.targets import parse_target

TARGET = parse_target()
op = relax.op
SHAPE = (1, 16, 20, 20)
RNG = np.random.default_rng(0)


def compiled(mod: tvm.IRModule, *inputs: np.ndarray) -> list[np.ndarray]:
    return run_twice(tvm.compile(mod, TARGET.target), *inputs)


def conv(x: relax.Var, channels: int = 16) -> relax.Expr:
    return arenas.conv(RNG, x, channels)


def chain(emit, x):
    for _ in range(4):
        x = emit(op.nn.relu(emit(conv(x))))
    return x


def two_results(emit, x):
    first = emit(conv(x))
    return relax.Tuple([first, emit(conv(emit(conv(first))))])


def flattened(emit, x):
    pooled = emit(op.nn.avg_pool2d(emit(conv(emit(conv(x)))), (20, 20)))
    flat = emit(op.reshape(pooled, (1, 16)))
    return emit(op.nn.softmax(emit(op.matmul(flat, relax.const(np.eye(16, dtype="float32"))))))


def reshaped_result(emit, x):
    return emit(op.reshape(emit(conv(emit(conv(x)))), (1, 16 * 400)))


def reshaped_input(emit, x):
    return emit(conv(emit(op.reshape(x, (1, 4, 40, 40)))))


def scattered(emit, x):
    """TVM's kernel leaves the offsets of the places and values open."""
    places = relax.const(RNG.integers(0, 16, (1, 2, 20, 20)))
    values = relax.const(RNG.normal(size=(1, 2, 20, 20)).astype("float32"))
    return emit(op.nn.relu(emit(op.scatter_elements(emit(conv(x)), places, values, axis=1))))


def single(emit, x):
    return emit(conv(x))


@pytest.mark.parametrize(
    "write",
    [chain, two_results, flattened, reshaped_result, reshaped_input, scattered, single],
)
def test_networks_compute_the_same(write, monkeypatch: pytest.MonkeyPatch) -> None:
    mod = module(write, SHAPE)
    x = RNG.normal(size=SHAPE).astype("float32")
    expected = compiled(mod, x)
    monkeypatch.setenv("TVM_NEOCPU_DEBUG", "verify")
    found = compiled(lower(mod, TARGET.cpu), x)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert np.max(np.abs(one - other)) < 1e-5 * np.max(np.abs(other))


@I.ir_module
class Doubled:
    """Two doublings, of whose results only the last one leaves the network."""

    @T.prim_func(private=True, s_tir=True)
    def twice(a: T.Buffer((32,), "float32"), b: T.Buffer((32,), "float32")):
        for i in range(32):
            with T.sblock("twice"):
                v = T.axis.spatial(32, i)
                b[v] = a[v] * T.float32(2)

    @R.function
    def main(x: R.Tensor((32,), "float32")) -> R.Tensor((32,), "float32"):
        cls = Doubled
        with R.dataflow():
            y = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((32,), "float32"))
            z = R.call_tir(cls.twice, (y,), out_ty=R.Tensor((32,), "float32"))
            w = R.call_tir(cls.twice, (z,), out_ty=R.Tensor((32,), "float32"))
            R.output(w)
        return w


def test_what_lives_within_is_in_the_arena_and_the_result_is_not() -> None:
    planned = run_passes(Doubled, PlanMemory())
    text = planned["main"].script()
    assert allocated_bytes(planned) == [256]
    assert re.findall(r"memory.alloc_tensor\(arena, (\d+)", text) == ["0", "128"]
    assert text.count("builtin.alloc_tensor") == 1
    np.testing.assert_array_equal(
        *compiled(planned, np.arange(32, dtype="float32")),
        8 * np.arange(32, dtype="float32"),
    )


@I.ir_module
class Reversed:
    """Reverses twice, each time by way of a workspace as large as the tensor."""

    @T.prim_func(private=True, s_tir=True)
    def turned(a: T.Buffer((16384,), "float32"), b: T.Buffer((16384,), "float32")):
        space = T.sblock_alloc_buffer((16384,), "float32")
        for i in range(16384):
            with T.sblock("turned"):
                v = T.axis.spatial(16384, i)
                space[v] = a[16383 - v]
        for i in range(16384):
            with T.sblock("copied"):
                v = T.axis.spatial(16384, i)
                b[v] = space[v]

    @R.function
    def main(x: R.Tensor((16384,), "float32")) -> R.Tensor((16384,), "float32"):
        cls = Reversed
        with R.dataflow():
            y = R.call_tir(cls.turned, (x,), out_ty=R.Tensor((16384,), "float32"))
            z = R.call_tir(cls.turned, (y,), out_ty=R.Tensor((16384,), "float32"))
            R.output(z)
        return z


def test_workspace_is_planned_with_the_tensors() -> None:
    """Both calls take the same piece for it, beside the tensor that lies between them."""
    planned = run_passes(Reversed, PlanMemory())
    text = planned["main"].script()
    assert allocated_bytes(planned) == [2 * 65536]
    assert re.findall(r"workspace\w*:.* R.memory.alloc_tensor\(arena, (\d+)", text) == ["65536"] * 2
    x = RNG.normal(size=16384).astype("float32")
    np.testing.assert_array_equal(*compiled(planned, x), x)


def test_several_functions_have_arenas_of_one_size() -> None:
    """TVM's pool then gives them the same memory. A function with a branch is TVM's, and so are the
    parameters of what it calls."""
    first = Reversed["main"].without_attr("global_symbol")
    mod = merge_networks({"one": Reversed, "two": module_of_two_calls(), "left": Reversed})
    left = mod.get_global_var("left")
    flag = relax.Var("flag", relax.TensorType((), "bool"))
    (x,) = mod[left].params
    branches = [relax.SeqExpr([], x), mod[left].body]
    body = relax.SeqExpr([], relax.If(flag, *branches))
    mod.update_func(left, relax.Function([x, flag], body, first.ret_ty, attrs=mod[left].attrs))
    mod = relax.transform.Normalize()(mod)
    planned = run_passes(mod, PlanMemory())
    sizes = {name: allocated_bytes(planned, name) for name in ("one", "two", "left")}
    assert sizes["one"] == sizes["two"] != []
    assert sizes["left"] == []
    machine = relax.VirtualMachine(tvm.compile(planned, tvm.target.Target("llvm")), tvm.cpu())
    data = RNG.normal(size=16384).astype("float32")
    tensor = tvm.runtime.tensor(data)
    np.testing.assert_array_equal(machine["one"](tensor).numpy(), data)
    np.testing.assert_array_equal(machine["two"](tensor).numpy(), data[::-1])
    no = tvm.runtime.tensor(np.array(False))
    np.testing.assert_array_equal(machine["left"](tensor, no).numpy(), data)


def module_of_two_calls() -> tvm.IRModule:
    """As :class:`Reversed`, with a third call: other live ranges."""
    mod = Reversed.clone()
    turned = mod.get_global_var("turned")
    x = relax.Var("x", relax.TensorType((16384,), "float32"))
    builder = relax.BlockBuilder(tvm.IRModule({turned: mod[turned]}))
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(3):
                value = builder.emit(relax.call_tir(turned, (value,), x.ty))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()


def test_a_batch_of_any_size_is_left_to_tvm() -> None:
    """Its functions have symbolic shapes; a tensor of constant shape between them is TVM's too."""
    builder = relax.BlockBuilder()
    batch = tvm.tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((batch, 16), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            half = builder.emit_te(topi.multiply, x, relax.const(np.float32(0.5)))
            column = builder.emit_te(topi.sum, half, axis=0)
            result = builder.emit_output(builder.emit_te(topi.nn.relu, column))
        builder.emit_func_output(result)
    planned = run_passes(builder.get(), PlanMemory())
    assert "alloc_storage" not in planned.script()
    ones = np.ones((3, 16), "float32")
    np.testing.assert_array_equal(*compiled(planned, ones), np.full(16, 1.5, "float32"))


def test_a_module_with_branches_is_left_alone() -> None:
    assert PlanMemory()(Branch).same_as(Branch)


def test_operators_that_are_left_to_tvm_leave_memory_to_it() -> None:
    mod = module(lambda emit, x: emit(op.nn.relu(x)), SHAPE)
    assert PlanMemory()(mod).same_as(mod)
