"""Reshapes between extents that a run knows: views inside, a flat copy where a result leaves."""

from __future__ import annotations

import numpy as np
import tvm
from onnx_text import check_like_peer, normal, parsed
from tvm import relax, tirx
from tvm.relax import op

from tvm_neocpu.relay_passes.fusing.fuse_functions import FuseFunctions

# The number of values above zero is an extent of everything behind.
SELECTION = """g (float[4,6] x) => (float[a,b,c] y, float[d,e] z) {
    positive = Greater (x, zero)
    places = NonZero (positive)
    rows = Transpose (places)
    kept = GatherND (x, rows)
    row = Unsqueeze (kept, first)
    repeated = Concat <axis=0> (row, row, row, row)
    halves = Reshape (repeated, two)
    v = Sigmoid (halves)
    y = Reshape (v, three)
    w = Mul (halves, halves)
    z = Reshape (w, pairs)
}"""


def test_a_selection_is_reshaped_as_onnx_runtime_does() -> None:
    shapes = {"first": [0], "two": [2, -1], "three": [2, 2, -1], "pairs": [-1, 2]}
    weights = {name: np.array(value) for name, value in shapes.items()}
    model = parsed(SELECTION, zero=np.float32(0), **weights)
    check_like_peer(model, x=normal(4, 6))


def test_only_what_leaves_its_block_is_copied() -> None:
    """An input's view as a result would change with the next run's input."""
    n = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((n, 6), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            inner = builder.emit(op.reshape(x, (n * 3, 2)))
            result = builder.emit_output(op.reshape(builder.emit(op.exp(inner)), (n, 2, 3)))
        builder.emit_func_output(result)
    mod = FuseFunctions()(builder.get())
    text = mod["main"].script()
    assert text.count("R.reshape(x, ") == 1
    assert text.count("R.call_tir(reshape") == 1
    assert not any(word in mod.script() for word in ("//", "%"))
    built = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    given = normal(5, 6)
    found = built["main"](tvm.runtime.tensor(given)).numpy()
    np.testing.assert_allclose(found, np.exp(given).reshape(5, 2, 3), rtol=1e-6)


def test_a_result_is_a_view_of_what_a_call_made() -> None:
    """What was given, and what leaves in another shape as well, is copied."""
    x = relax.Var("x", relax.TensorType((4, 6), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            made, twice = builder.emit(op.exp(x)), builder.emit(op.negative(x))
            shapes = [(x, (24,)), (made, (2, 12)), (twice, (8, 3)), (twice, (3, 8))]
            results = [builder.emit_output(op.reshape(of, shape)) for of, shape in shapes]
        builder.emit_func_output(relax.Tuple(results))
    mod = FuseFunctions()(builder.get())
    text = mod["main"].script()
    assert (text.count("R.reshape("), text.count("R.call_tir(reshape")) == (2, 2)
    built = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    runs = []
    for given in (normal(4, 6), normal(4, 6) + 1):
        of = {x: given, made: np.exp(given), twice: -given}
        runs.append(
            (built["main"](tvm.runtime.tensor(given)), [of[v].reshape(s) for v, s in shapes])
        )
    # A later run leaves the results of an earlier one alone.
    for found, expected in runs:
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-6)
