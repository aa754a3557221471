"""Any batch as a sum of specialised ones, in compiled code."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op

from tvm_neocpu.relay_passes.batches.dispatch import add_dispatch, batch_name
from tvm_neocpu.relay_passes.batches.generalize import at_batch, with_open_batch
from tvm_neocpu.relay_passes.merge_networks import merge_networks


def network(batch: int | tirx.Var, mark: float = 0.0) -> tvm.IRModule:
    """Two inputs, two outputs; ``mark`` shows in the result which network computed it."""
    x = relax.Var("x 1", relax.TensorType((batch, 3, 4), "float32"))
    y = relax.Var("y", relax.TensorType((batch,), "int32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            sums = builder.emit(op.add(op.sum(x, [2]), relax.const(np.float32(mark))))
            result = builder.emit_output(relax.Tuple([sums, op.negative(y)]))
        builder.emit_func_output(result)
    return builder.get()


def test_every_batch_is_a_sum_of_sizes() -> None:
    sizes = (1, 2, 5)
    merged = merge_networks({batch_name("main", n): network(n, mark=100.0 * n) for n in sizes})
    symbolic = network(tirx.Var("n", "int64"))["main"]
    built = tvm.compile(add_dispatch(merged, "main", symbolic, sizes), tvm.target.Target("llvm"))
    machine = relax.VirtualMachine(built, tvm.cpu())
    marks = {0: [], 1: [1], 2: [2] * 2, 4: [2] * 4, 5: [5] * 5, 8: [5] * 5 + [2] * 2 + [1]}
    marks[21] = [5] * 20 + [1]
    for batch, expected in marks.items():
        x = np.arange(batch * 12, dtype="float32").reshape(batch, 3, 4)
        y = np.arange(batch, dtype="int32")
        sums, negative = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(y))
        added = 100 * np.array(expected, "float32").reshape(batch, 1)
        np.testing.assert_array_equal(sums.numpy(), x.sum(2) + added)
        np.testing.assert_array_equal(negative.numpy(), -y)


def test_a_network_is_generalized_and_back() -> None:
    batch = tirx.Var("n", "int64")
    opened = with_open_batch(network(1009), 1009, batch)
    tvm.ir.assert_structural_equal(opened, network(batch), map_free_vars=True)
    tvm.ir.assert_structural_equal(at_batch(opened, batch, 6), network(6))


def test_rows_that_are_left_run_padded() -> None:
    sizes, padded_from = (2, 5), {2: 1, 5: 4}
    merged = merge_networks({batch_name("main", n): network(n, mark=100.0 * n) for n in sizes})
    symbolic = network(tirx.Var("n", "int64"))["main"]
    mod = add_dispatch(merged, "main", symbolic, sizes, padded_from=padded_from)
    machine = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    marks = {0: [], 1: [2], 3: [2] * 3, 4: [5] * 4, 9: [5] * 9, 13: [5] * 10 + [2] * 3}
    for batch, expected in marks.items():
        x = np.arange(batch * 12, dtype="float32").reshape(batch, 3, 4)
        y = np.arange(batch, dtype="int32")
        sums, negative = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(y))
        added = 100 * np.array(expected, "float32").reshape(batch, 1)
        np.testing.assert_array_equal(sums.numpy(), x.sum(2) + added)
        np.testing.assert_array_equal(negative.numpy(), -y)


def steps_first(batch: int | tirx.Var, mark: float = 0.0) -> tvm.IRModule:
    """An output (2, 3, batch, 5)."""
    x = relax.Var("x", relax.TensorType((batch, 2, 3, 5), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            turned = builder.emit(op.permute_dims(x, [1, 2, 0, 3]))
            result = builder.emit_output(op.add(turned, relax.const(np.float32(mark))))
        builder.emit_func_output(result)
    return builder.get()


def test_a_batch_that_is_no_first_extent() -> None:
    sizes, padded_from = (1, 2, 5), {5: 4}
    merged = merge_networks({batch_name("main", n): steps_first(n, 100.0 * n) for n in sizes})
    symbolic = steps_first(tirx.Var("n", "int64"))["main"]
    mod = add_dispatch(merged, "main", symbolic, sizes, padded_from=padded_from)
    machine = relax.VirtualMachine(tvm.compile(mod, tvm.target.Target("llvm")), tvm.cpu())
    for batch, marks in {2: [2] * 2, 4: [5] * 4, 8: [5] * 5 + [2] * 2 + [1]}.items():
        x = np.arange(batch * 30, dtype="float32").reshape(batch, 2, 3, 5)
        found = machine["main"](tvm.runtime.tensor(x)).numpy()
        added = 100 * np.array(marks, "float32").reshape(batch, 1)
        np.testing.assert_array_equal(found, x.transpose(1, 2, 0, 3) + added)
