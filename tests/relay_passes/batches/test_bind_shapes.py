"""Relax modules of open extents at given shapes."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax, tirx

from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.relay_passes.batches.bind_shapes import at_shapes, open_inputs

Extent = int | tirx.Var


def network(batch: Extent, height: Extent, width: Extent) -> tvm.IRModule:
    x = relax.Var("x", relax.TensorType((batch, 4, height, width), "float32"))
    y = relax.Var("y", relax.TensorType((batch, 4, height, width), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            pooled = builder.emit(relax.op.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1)))
            both = relax.Tuple([pooled, builder.emit(relax.op.nn.relu(y))])
            result = builder.emit_output(both)
        builder.emit_func_output(result)
    return builder.get()


@pytest.fixture
def opened() -> tvm.IRModule:
    return network(*(tirx.Var(name, "int64") for name in "nhw"))


def test_all_extents_of_one_name_are_bound(opened: tvm.IRModule) -> None:
    assert open_inputs(opened)[0] == ("x", (-1, 4, -1, -1), "float32")
    bound = at_shapes(opened, {"x": (2, 4, 9, 8)})
    tvm.ir.assert_structural_equal(bound, network(2, 9, 8), map_free_vars=True)


def test_a_batch_may_stay_open(opened: tvm.IRModule) -> None:
    bound = at_shapes(opened, {"x": (-1, 4, 9, 8)})
    expected = network(tirx.Var("n", "int64"), 9, 8)
    tvm.ir.assert_structural_equal(bound, expected, map_free_vars=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"z": (1, 4, 9, 8)}, "no input 'z'; it has x, y"),
        ({"x": (1, 5, 9, 8)}, r"'x' is \[\?, 4, \?, \?\] in the network, not \[1, 5, 9, 8\]"),
        ({"x": (1, 4, 9)}, r"not \[1, 4, 9\]"),
        ({"x": (1, 4, 0, 8)}, "numbers above 0"),
        ({"x": (1, 4, 9, 8), "y": (1, 4, 9, 7)}, "'y': extent w is 8 in another place, not 7"),
    ],
)
def test_shapes_that_do_not_fit(
    given: dict[str, tuple[int, ...]], words: str, opened: tvm.IRModule
) -> None:
    with pytest.raises(ShapeError, match=words):
        at_shapes(opened, given)
