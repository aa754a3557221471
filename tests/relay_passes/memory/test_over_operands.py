"""Results that lie over what is added to them: where that is right, and only there."""

from __future__ import annotations

from collections.abc import Callable

import arenas
import numpy as np
import pytest
import tvm
from relax_net import module
from tvm import relax
from tvm.ir import Call, GlobalVar

from tvm_neocpu.pipeline import lower
from tvm_neocpu.relay_passes.memory.over_operands import laid_over, over_operands
from tvm_neocpu.targets import parse_target

TARGET = parse_target()
op = relax.op
SHAPE = (1, 16, 20, 20)
RNG = np.random.default_rng(0)
Emit = Callable[[relax.Expr], relax.Var]


def conv(x: relax.Expr) -> relax.Expr:
    return arenas.conv(RNG, x, 16)


def block(emit: Emit, x: relax.Expr) -> relax.Var:
    """A residual block of two layers."""
    y = emit(op.nn.relu(emit(conv(x))))
    return emit(op.nn.relu(emit(op.add(emit(conv(y)), x))))


def residual(emit: Emit, x: relax.Expr) -> relax.Expr:
    """Of two blocks the first one's residual is made by a layer, the second one's by the first."""
    return emit(conv(block(emit, block(emit, emit(conv(x))))))


def read_later(emit: Emit, x: relax.Expr) -> relax.Expr:
    """The sum of a layer and r, and r once more."""
    r = emit(op.nn.relu(emit(conv(x))))
    y = emit(op.nn.relu(emit(op.add(emit(conv(emit(conv(r)))), r))))
    return emit(conv(emit(op.multiply(emit(conv(y)), r))))


def own_data(emit: Emit, x: relax.Expr) -> relax.Expr:
    """A layer whose data are its residual: neighbours are read after an element is written."""
    r = emit(op.nn.relu(emit(conv(x))))
    return emit(conv(emit(op.nn.relu(emit(op.add(emit(conv(r)), r))))))


def of_the_caller(emit: Emit, x: relax.Expr) -> relax.Expr:
    return emit(conv(emit(op.nn.relu(emit(op.add(emit(conv(emit(conv(x)))), x))))))


def returned(emit: Emit, x: relax.Expr) -> relax.Expr:
    r = emit(op.nn.relu(emit(conv(x))))
    y = emit(op.nn.relu(emit(op.add(emit(conv(emit(conv(r)))), r))))
    return relax.Tuple([r, emit(conv(y))])


def the_result(emit: Emit, x: relax.Expr) -> relax.Expr:
    return block(emit, emit(conv(x)))


@pytest.mark.parametrize(
    ("write", "laid"),
    [
        (residual, 2),
        (read_later, 1),  # the product's result over one of its factors
        (own_data, 0),
        (of_the_caller, 1),  # over the caller's tensor in blocks, which is a copy
        (returned, 0),
        (the_result, 1),  # the sum in blocks, of which the network returns a copy
    ],
)
def test_only_what_nobody_reads_is_written_over(write, laid: int) -> None:
    mod = module(write, SHAPE)
    x = RNG.normal(size=SHAPE).astype("float32")
    lowered, given = lower(mod, TARGET.cpu), x.copy()
    assert aliases(lowered) == laid
    expected = arenas.run_twice(tvm.compile(mod, TARGET.target), x)
    found = arenas.run_twice(tvm.compile(lowered, TARGET.target), x)
    np.testing.assert_array_equal(x, given)
    for one, other in zip(found, expected, strict=True):
        assert np.max(np.abs(one - other)) < 1e-5 * np.max(np.abs(other))


def aliases(mod: tvm.IRModule) -> int:
    """Allocations that are other tensors by another name."""
    bindings = mod["main"].body.blocks[0].bindings
    named = [binding for binding in bindings if binding.var.name.startswith("alloc")]
    return sum(isinstance(binding.value, relax.Var) for binding in named)


X, R, S, Y, Z = (relax.Var(name, relax.TensorType((4,), "float32")) for name in "xrsyz")
OWN = {var: var for var in (X, R, S, Y, Z)}
ADD, MAIN, OTHER = GlobalVar("add"), GlobalVar("main"), GlobalVar("other")


def call(*args: relax.Var) -> relax.VarBinding:
    return relax.VarBinding(relax.Var("_", relax.ObjectType()), Call(ADD, list(args)))


def test_what_a_call_reads_last() -> None:
    assert over_operands({MAIN: [call(X, R, Y)]}, {MAIN: OWN}) == {"add": [0, 1]}
    later = [call(X, R, Y), call(S, R, Z)]
    assert over_operands({MAIN: later}, {MAIN: OWN}) == {"add": [0]}


def test_memory_that_a_call_takes_twice() -> None:
    """By one name, or as a view; over the result as well."""
    assert over_operands({MAIN: [call(R, R, Y)]}, {MAIN: OWN}) == {}
    assert over_operands({MAIN: [call(X, R, Y)]}, {MAIN: {**OWN, X: R}}) == {}
    assert over_operands({MAIN: [call(X, R, Y)]}, {MAIN: {**OWN, R: Y}}) == {"add": [0]}


def test_all_callers_must_agree() -> None:
    calls = {MAIN: [call(X, R, Y)], OTHER: [call(X, R, Y), call(X, S, Z)]}
    assert over_operands(calls, {MAIN: OWN, OTHER: OWN}) == {"add": [1]}
    given = {var: root for var, root in OWN.items() if var is not R}
    assert over_operands(calls, {MAIN: OWN, OTHER: given}) == {}
    returned = {var: root for var, root in OWN.items() if var is not Y}
    assert over_operands(calls, {MAIN: OWN, OTHER: returned}) == {}


def test_what_lies_over_a_result_lies_over_its_operand() -> None:
    bindings, owners = laid_over([call(X, R, Y), call(S, Y, Z)], OWN, {"add": 1})
    assert [len(binding.value.args) for binding in bindings] == [2, 2]
    assert owners[Z] is R and owners[Y] is R and owners[S] is S


def test_memory_is_saved() -> None:
    """Of a chain of blocks no two maps but the residual and what a block's layer makes live."""

    def write(emit: Emit, x: relax.Expr) -> relax.Expr:
        x = emit(conv(x))
        for _ in range(3):
            x = block(emit, x)
        return emit(conv(x))

    size = arenas.allocated_bytes(lower(module(write, SHAPE), TARGET.cpu))[0]
    assert size < 3 * 4 * np.prod(SHAPE)
