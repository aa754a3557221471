"""Layers whose rows a run counts: which ones, in what order, and their answers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import onnx
import pytest
import tvm
from onnx_text import Array, parsed, peers
from tvm import relax, tirx

import tvm_neocpu
from tvm_neocpu.core.messages.fallback import FallbackWarning
from tvm_neocpu.relay_passes.batches.outline_rows import Outlined, outline_rows
from tvm_neocpu.relay_passes.ir.exprs import op_name
from tvm_neocpu.relay_passes.ir.regions import bindings_of

op = relax.op


def weight(*shape: int) -> Array:
    return (np.random.default_rng(len(shape)).standard_normal(shape) / 8).astype("float32")


def outlined(build, *shapes) -> Outlined:  # type: ignore[no-untyped-def]
    """What becomes of ``build(builder, *inputs)``."""
    inputs = [relax.Var(f"x{i}", relax.TensorType(s, "float32")) for i, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", inputs):
        with builder.dataflow():
            results = build(builder, *inputs)
            result = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(result)
    return outline_rows(builder.get(), "rows")


def operations(mod: tvm.IRModule) -> list[str]:
    names = (op_name(binding.value) for binding in bindings_of(mod["main"]))
    return [name.removeprefix("relax.").removeprefix("nn.") for name in names if name]


K = tirx.Var("k", "int64")


def test_a_run_ends_with_an_epilogue() -> None:
    def build(builder, x):  # type: ignore[no-untyped-def]
        h = builder.emit(op.matmul(x, relax.const(weight(8, 16))))
        h = builder.emit(op.nn.relu(h))
        y = builder.emit(op.matmul(h, relax.const(weight(16, 4))))
        y = builder.emit(op.sigmoid(y))
        return [builder.emit(op.nn.softmax(y, axis=1))]

    found = outlined(build, (K, 8))
    assert operations(found.mod) == ["softmax"]
    assert operations(found.rows["rows0"]) == ["matmul", "relu", "matmul", "sigmoid"]
    relax.analysis.well_formed(found.mod)


def test_rows_that_meet_are_not_in_a_run() -> None:
    def build(builder, x):  # type: ignore[no-untyped-def]
        h = builder.emit(op.matmul(x, relax.const(weight(8, 8))))
        total = builder.emit(op.sum(h, axis=0, keepdims=True))
        centred = builder.emit(op.subtract(h, total))
        return [builder.emit(op.matmul(centred, relax.const(weight(8, 4))))]

    found = outlined(build, (K, 8))
    assert operations(found.mod) == ["sum", "subtract"]
    assert [operations(mod) for mod in found.rows.values()] == [["matmul"], ["matmul"]]
    relax.analysis.well_formed(found.mod)


def test_rows_of_other_extents_are_other_runs() -> None:
    other = tirx.Var("m", "int64")

    def build(builder, x, y):  # type: ignore[no-untyped-def]
        first = builder.emit(op.matmul(x, relax.const(weight(8, 4))))
        second = builder.emit(op.matmul(y, relax.const(weight(8, 4))))
        return [first, second, builder.emit(op.matmul(first, relax.const(weight(4, 2))))]

    found = outlined(build, (K, 8), (other, 8))
    assert [operations(mod) for mod in found.rows.values()] == [["matmul"]] * 3


def test_known_rows_and_products_of_two_tensors_stay() -> None:
    def build(builder, x, y):  # type: ignore[no-untyped-def]
        product = builder.emit(op.matmul(x, op.permute_dims(y)))
        return [product, builder.emit(op.matmul(relax.const(weight(3, 8)), op.permute_dims(x)))]

    assert not outlined(build, (K, 8), (K, 8)).rows


def test_rows_that_are_no_first_extent_are_seen_as_rows() -> None:
    def build(builder, x):  # type: ignore[no-untyped-def]
        return [builder.emit(op.matmul(x, relax.const(weight(8, 4))))]

    found = outlined(build, (1, K, 8))
    main = found.rows["rows0"]["main"]
    assert [len(var.ty.shape.values) for var in main.params] == [2]
    relax.analysis.well_formed(found.mod)


# name: (the graph from k rows of its input to y, the input's shape, weights)
GRAPHS: dict[str, tuple[str, tuple[int, ...], dict[str, Array]]] = {
    "box head": (
        """h0 = MatMul(k, a)  h1 = Add(h0, b)  h = Relu(h1)  c0 = MatMul(h, c)
           y = Softmax<axis = 1>(c0)""",
        (40, 24),
        {"a": weight(24, 32), "b": weight(32), "c": weight(32, 5)},
    ),
    "mask head": (
        """c = Conv<pads = [1, 1, 1, 1]>(k, a, b)  r = Relu(c)
           u = ConvTranspose<strides = [2, 2]>(r, d)  y = Sigmoid(u)""",
        (7, 8, 4, 4),
        {"a": weight(8, 8, 3, 3), "b": weight(8), "d": weight(8, 4, 2, 2)},
    ),
    "rows between": (
        """t = Unsqueeze(k, zero)  m = MatMul(t, a)  n = Relu(m)  y = Squeeze(n, zero)""",
        (9, 8),
        {"a": weight(8, 12), "zero": np.array([0])},
    ),
}


@pytest.fixture
def no_fallback() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FallbackWarning)
        yield


@pytest.mark.parametrize("name", GRAPHS)
def test_any_number_of_rows_is_right(name: str, no_fallback: None) -> None:
    graph, shape, weights = GRAPHS[name]
    extents = ", ".join(map(str, shape))
    text = f"""g (float[{extents}] x, bool[{shape[0]}] p) => (y) {{
        k = Compress<axis = 0>(x, p)
        {graph}
    }}"""
    model: onnx.ModelProto = parsed(text, **weights)
    session = tvm_neocpu.Session(model, cache=False)
    x = np.random.default_rng(3).standard_normal(shape).astype("float32")
    for kept in sorted({0, 1, 2, 3, shape[0] - 1, shape[0]}):
        inputs = {"x": x, "p": np.arange(shape[0]) < kept}
        (expected,) = peers(model, inputs)
        found = session.run(inputs)["y"]
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_rows_without_a_template_are_told() -> None:
    text = """g (int32[6,3] x, bool[6] p) => (y) {
        k = Compress<axis = 0>(x, p)
        y = MatMul(k, w)
    }"""
    model = parsed(text, w=np.arange(12, dtype="int32").reshape(3, 4))
    with pytest.warns(FallbackWarning, match="no template for int32"):
        session = tvm_neocpu.Session(model, cache=False)
    inputs = {"x": np.arange(18, dtype="int32").reshape(6, 3), "p": np.arange(6) < 4}
    np.testing.assert_array_equal(session.run(inputs)["y"], peers(model, inputs)[0])
