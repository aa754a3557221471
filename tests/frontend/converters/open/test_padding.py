"""Pad where a run computes the pads or the extents, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_node import Array, assert_same, onnx_runtime
from onnx_text import parsed

import tvm_neocpu
from tvm_neocpu.core.errors import RunError

X = np.random.default_rng(5).standard_normal((6, 5)).astype("float32")


def _session(text: str) -> tuple[tvm_neocpu.Session, object]:
    model = parsed(text, 19)
    return tvm_neocpu.Session(model, cache=False, threads=1), model


def _check(text: str, *runs: tuple[Array, ...]) -> None:
    """One build, run on several inputs."""
    session, model = _session(text)
    names = [value.name for value in model.graph.input]
    for inputs in runs:
        found = session.run(dict(zip(names, inputs, strict=True)))
        expected = onnx_runtime(model, list(inputs))
        assert_same([found[value.name] for value in model.graph.output], expected)


def test_rows_are_filled_up_to_a_fixed_number() -> None:
    """As PyTorch's exporter writes ``pad(rows, (0, 0, 0, 8 - len(rows)))``."""
    text = """g (float[6,5] x, bool[6] kept) => (float[8,5] y) {
        zero = Constant<value = int64[1] {0}>()
        none = Constant<value = int64[1] {-1}>()
        least = Constant<value = int64[1] {-9223372036854775807}>()
        eight = Constant<value = int64[1] {8}>()
        pairs = Constant<value = int64[2] {-1, 2}>()
        flat = Constant<value = int64[1] {-1}>()
        shape = Constant<value = int64[2] {8, 5}>()
        rows = Compress<axis = 0>(x, kept)
        extents = Shape(rows)
        n = Gather<axis = 0>(extents, zero)
        missing = Sub(eight, n)
        whole = Concat<axis = 0>(zero, zero, zero, missing)
        table = Reshape(whole, pairs)
        turned = Slice(table, none, least, zero, none)
        columns = Transpose<perm = [1, 0]>(turned)
        pads = Reshape(columns, flat)
        filled = Pad(rows, pads)
        y = Reshape(filled, shape)
    }"""
    _check(text, *((X, np.arange(6) < count) for count in (6, 3, 1, 0)))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_every_mode(mode: str) -> None:
    text = f"""g (float[6,5] x, int64[2] pads) => (float[N,5] y) {{
        zero = Constant<value = int64[1] {{0}}>()
        value = Constant<value = float[1] {{1.5}}>()
        y = Pad<mode = "{mode}">(x, pads, value, zero)
    }}"""
    _check(text, *((X, np.array(pads)) for pads in ((0, 0), (2, 0), (1, 4))))


def test_pads_of_a_run_may_crop() -> None:
    text = """g (float[6,5] x, int64[4] pads, float value) => (float[N,M] y) {
        y = Pad(x, pads, value)
    }"""
    value = np.array(-2, "float32")
    runs = [(-1, 2, 0, -3), (0, 0, -6, 0), (3, -1, 1, 1)]
    _check(text, *((X, np.array(pads), value) for pads in runs))


def test_pads_that_leave_less_than_nothing_are_told() -> None:
    session, _ = _session("g (float[6,5] x, int64[4] pads) => (float[N,M] y) { y = Pad(x, pads) }")
    with pytest.raises(RunError, match="Pad"):
        session.run({"x": X, "pads": np.array([-4, 0, -4, 0])})


def test_a_mirror_must_be_long_enough() -> None:
    session, _ = _session(
        'g (float[6,5] x, int64[4] pads) => (float[N,M] y) { y = Pad<mode = "reflect">(x, pads) }'
    )
    with pytest.raises(RunError, match="Pad"):
        session.run({"x": X, "pads": np.array([6, 0, 0, 0])})
