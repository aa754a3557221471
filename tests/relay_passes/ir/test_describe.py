"""Names, shapes and types of a network's inputs and outputs."""

from __future__ import annotations

import pytest
import tvm
from onnx_text import parsed
from tvm import relax

from tvm_neocpu import relay
from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.relay_passes.ir.describe import describe_inputs, describe_outputs, name_outputs
from tvm_neocpu.relay_passes.ir.open_batch import open_batch


def network(*shape: int | tvm.tirx.Var) -> tvm.IRModule:
    """``(x, (-x, |x|))`` of one input ``data``: tuples in tuples, as branches return them."""
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType(shape, "float32"))
    with builder.function("main", [data]):
        negative = builder.emit(relax.op.negative(data))
        size = builder.emit(relax.op.abs(data))
        builder.emit_func_output(relax.Tuple([data, relax.Tuple([negative, size])]))
    return builder.get()


def test_outputs_are_numbered_until_they_are_named() -> None:
    mod = network(2, 3)
    assert describe_inputs(mod) == (("data", (2, 3), "float32"),)
    assert [name for name, _, _ in describe_outputs(mod)] == ["0", "1", "2"]
    named = name_outputs(mod, ["same", "minus", "size"])
    assert describe_outputs(named) == tuple(
        (name, (2, 3), "float32") for name in ("same", "minus", "size")
    )
    assert [name for name, _, _ in describe_outputs(mod)] == ["0", "1", "2"], "a copy was named"


def test_names_that_do_not_fit_are_not_taken() -> None:
    mod = name_outputs(network(2, 3), ["only one"])
    assert [name for name, _, _ in describe_outputs(mod)] == ["0", "1", "2"]


def test_an_open_dimension() -> None:
    mod = network(tvm.tirx.Var("n", "int64"), 3)
    assert describe_outputs(mod)[0] == ("0", (-1, 3), "float32")
    assert describe_inputs(mod)[0] == ("data", (-1, 3), "float32"), "a batch may be open"
    mod = network(3, tvm.tirx.Var("n", "int64"))
    with pytest.raises(ShapeError, match="input 'data' has no static shape; give one"):
        describe_inputs(mod)


@pytest.mark.parametrize(("rank", "shape"), [(2, (-1, -1)), (0, ()), (-1, ())])
def test_extents_that_only_a_run_knows(rank: int, shape: tuple[int, ...]) -> None:
    """The rank is known before: NonZero's output was described as a scalar."""
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType(dtype="int64", ndim=rank))
    with builder.function("main", [data]):
        builder.emit_func_output(data)
    assert describe_outputs(builder.get()) == (("0", shape, "int64"),)


@pytest.mark.parametrize(
    "shape", [("n", "n"), ("n", "m"), ("n", "twice"), (3, "n"), ("twice", 3), ("n", 3), (2, 3)]
)
def test_what_is_described_as_open_is_the_batch(shape: tuple[int | str, ...]) -> None:
    """The build computes an open batch where the description has one, and nowhere else."""
    n, m = (tvm.tirx.Var(name, "int64") for name in "nm")
    extents = {"n": n, "m": m, "twice": n * 2}
    mod = network(*(extents[dim] if isinstance(dim, str) else dim for dim in shape))
    if open_batch(mod) is not None:
        assert describe_inputs(mod)[0][1] == (-1, 3)
    elif "n" in shape or "twice" in shape:
        with pytest.raises(ShapeError, match="no static shape"):
            describe_inputs(mod)
    else:
        assert describe_inputs(mod)[0][1] == shape


def test_tensors_of_a_sequence_are_named_after_it() -> None:
    """The other outputs keep their names."""
    model = parsed("g (float[3,2] x) => (y, s) { y = Relu (x) s = SplitToSequence <axis = 0> (x) }")
    mod, _ = relay.frontend.from_onnx(model)
    assert [name for name, *_ in describe_outputs(mod)] == ["y", "s.0", "s.1", "s.2"]
    alone = parsed("g (float[3,2] x) => (s) { s = SplitToSequence <axis = 0> (x) }")
    mod, _ = relay.frontend.from_onnx(alone)
    assert [name for name, *_ in describe_outputs(mod)] == ["s.0", "s.1", "s.2"]
