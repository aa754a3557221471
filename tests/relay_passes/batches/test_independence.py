"""The proof that images are independent: accepted, and refused for the right reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax, te, tirx
from tvm.relax import op

from tvm_neocpu.relay_passes.batches.independence import why_dependent
from tvm_neocpu.relay_passes.ir.open_batch import open_batch

Build = Callable[[relax.BlockBuilder, relax.Var, tirx.Var], relax.Expr]


def network(build: Build, image: tuple[int, ...] = (4, 8, 8)) -> tuple[tvm.IRModule, tirx.Var]:
    batch = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((batch, *image), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(build(builder, x, batch)))
        builder.emit_func_output(result)
    return builder.get(), batch


def weight(*shape: int) -> relax.Expr:
    return relax.const(np.ones(shape, "float32"))


def through_other_places(builder: relax.BlockBuilder, x: relax.Var, n: tirx.Var) -> relax.Expr:
    """The batch as second extent, then as a factor of one: 64 rows of each image."""
    turned = builder.emit(op.permute_dims(x, [1, 0, 2, 3]))
    back = builder.emit(op.permute_dims(builder.emit(op.nn.relu(turned)), [1, 0, 2, 3]))
    rows = builder.emit(op.reshape(builder.emit(op.permute_dims(back, [0, 2, 3, 1])), (n * 64, 4)))
    product = builder.emit(op.matmul(rows, weight(4, 4)))
    return op.reshape(builder.emit(op.nn.softmax(product)), (n, 256))


def border_of_a_factor(builder: relax.BlockBuilder, x: relax.Var, n: tirx.Var) -> relax.Expr:
    """Each plane mirrored, four planes an image."""
    planes = builder.emit(op.reshape(x, (n * 4, 8, 8)))
    planes = builder.emit(op.nn.pad(planes, [0, 0, 1, 1, 1, 1], "reflect"))
    return op.reshape(planes, (n, 4, 10, 10))


def inside_a_factor(builder: relax.BlockBuilder, x: relax.Var, n: tirx.Var) -> relax.Expr:
    """The batch as the inner factor of rows: 64 steps of all images."""
    steps = builder.emit(op.reshape(x, (n, 4, 64)))
    rows = builder.emit(op.reshape(builder.emit(op.permute_dims(steps, [2, 0, 1])), (n * 64, 4)))
    product = builder.emit(op.nn.relu(builder.emit(op.matmul(rows, weight(4, 4)))))
    return op.reshape(product, (64, n, 4))


INDEPENDENT: dict[str, Build] = {
    "convolution": lambda b, x, n: op.nn.conv2d(x, weight(2, 4, 3, 3), padding=1),
    "pool": lambda b, x, n: op.nn.max_pool2d(x, (3, 3), padding=(1, 1)),
    "softmax": lambda b, x, n: op.nn.softmax(x, 1),
    "mean of an image": lambda b, x, n: op.mean(x, [2, 3]),
    "flat": lambda b, x, n: op.reshape(x, (n, 256)),
    "concat of channels": lambda b, x, n: op.concat([x, x], 1),
    "resize": lambda b, x, n: op.image.resize2d(x, (16, 16)),
    "mirrored border": lambda b, x, n: op.nn.pad(x, [0, 0, 0, 0, 1, 2, 2, 1], "reflect"),
    "repeated border": lambda b, x, n: op.nn.pad(x, [0, 0, 0, 0, 1, 0, 0, 3], "replicate"),
    "border from behind": lambda b, x, n: op.nn.pad(x, [0, 0, 1, 1, 1, 1, 0, 0], "circular"),
    "border of zeros": lambda b, x, n: op.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1]),
    "border of a factor": border_of_a_factor,
    "other places": through_other_places,
    "inner factor of rows": inside_a_factor,
    "one place of each image": lambda b, x, n: op.take(x, relax.const(np.int64(2)), 1),
    "last": lambda b, x, n: op.permute_dims(x, [1, 2, 3, 0]),
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent(name: str) -> None:
    mod, batch = network(INDEPENDENT[name])
    assert open_batch(mod).same_as(batch)
    assert why_dependent(mod, batch) is None


def sorted_by_extern(builder: relax.BlockBuilder, x: relax.Var, n: tirx.Var) -> relax.Expr:
    return op.sort(x, 1)


def place_as_value(builder: relax.BlockBuilder, x: relax.Var, n: tirx.Var) -> relax.Expr:
    """Each image plus its place in the batch."""
    return builder.call_te(
        lambda a: te.compute(a.shape, lambda i, *r: a(i, *r) + i.astype("float32")), x
    )


def count_as_value(builder: relax.BlockBuilder, x: relax.Var, n: tirx.Var) -> relax.Expr:
    return builder.call_te(
        lambda a: te.compute(a.shape, lambda *i: a(*i) / a.shape[0].astype("float32")), x
    )


def count_as_loop(builder: relax.BlockBuilder, x: relax.Var, n: tirx.Var) -> relax.Expr:
    """Each image, added once for each image of the batch."""

    def summed(a: te.Tensor) -> te.Tensor:
        times = te.reduce_axis((0, a.shape[0]))
        return te.compute(a.shape, lambda *at: te.sum(a(*at), times))

    return builder.call_te(summed, x)


def rows_of_two_orders(builder: relax.BlockBuilder, x: relax.Var, n: tirx.Var) -> relax.Expr:
    """Rows of images, added to rows of steps."""
    images = builder.emit(op.reshape(x, (n * 64, 4)))
    turned = builder.emit(op.permute_dims(builder.emit(op.reshape(x, (n, 4, 64))), [2, 0, 1]))
    steps = builder.emit(op.reshape(turned, (n * 64, 4)))
    return op.reshape(builder.emit(op.add(images, steps)), (n, 256))


def first_rows_of_all(builder: relax.BlockBuilder, x: relax.Var, n: tirx.Var) -> relax.Expr:
    """Four rows for each image; the first n of them belong to a quarter of the images."""
    rows = builder.emit(op.reshape(x, (n * 4, 64)))
    return builder.call_te(lambda a: te.compute((n, 64), lambda i, j: a[i, j]), rows)


DEPENDENT: dict[str, Build] = {
    "mean over images": lambda b, x, n: op.subtract(x, b.emit(op.mean(x, [0], True))),
    "softmax over images": lambda b, x, n: op.nn.softmax(x, 0),
    "images behind the last": lambda b, x, n: op.nn.pad(x, [0, 1, 0, 0, 0, 0, 0, 0]),
    "images mirrored": lambda b, x, n: op.nn.pad(x, [1, 1, 0, 0, 0, 0, 0, 0], "reflect"),
    "flipped": lambda b, x, n: op.flip(x, 0),
    "mixed by a reshape": lambda b, x, n: op.reshape(
        b.emit(op.permute_dims(x, [1, 0, 2, 3])), (n, 4, 8, 8)
    ),
    "concat of images": lambda b, x, n: op.concat([x, x], 0),
    "sorted": sorted_by_extern,
    "rows of two orders": rows_of_two_orders,
    "first rows of all": first_rows_of_all,
    "place as a value": place_as_value,
    "count as a value": count_as_value,
    "count as a loop": count_as_loop,
}


@pytest.mark.parametrize("name", DEPENDENT)
def test_dependent(name: str) -> None:
    mod, batch = network(DEPENDENT[name])
    assert why_dependent(mod, batch) is not None


def test_only_a_first_extent_is_a_batch() -> None:
    builder = relax.BlockBuilder()
    batch = tirx.Var("n", "int64")
    x = relax.Var("x", relax.TensorType((2, batch), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(op.nn.relu(x)))
    assert open_batch(builder.get()) is None
