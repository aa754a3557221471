"""Compress, NonZero and Unique: the length of their results is a run's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from onnx_node import Array, Case, assert_same, check_together, onnx_runtime, ours

from tvm_neocpu import relay

MASK = np.array([True, False, True])


def _few(*shape: int, dtype: str = "int64") -> Array:
    return np.random.default_rng(3).integers(0, 3, shape).astype(dtype)


def test_compress_and_non_zero() -> None:
    data = _few(3, 4, dtype="float32")
    check_together(
        [
            Case("Compress", [data, MASK], attributes={"axis": 0}),
            Case("Compress", [data, MASK], attributes={"axis": -1}),
            Case("Compress", [data, np.array([1, 0, 1, 1, 0, 1], bool)]),
            Case("Compress", [data, np.zeros(3, bool)], attributes={"axis": 0}),
            Case("Compress", [_few(3, 4) > 0], [MASK], {"axis": 0}),
            *(Case("NonZero", [_few(3, 4, dtype=dtype)]) for dtype in ("float32", "bool")),
            Case("NonZero", [np.zeros((2, 3), "float32")]),
        ]
    )


@pytest.mark.parametrize("is_sorted", [0, 1])
def test_unique(is_sorted: int) -> None:
    named = {"sorted": is_sorted}
    check_together(
        [
            Case("Unique", [_few(3, 4)], attributes=named, outputs=4),
            Case("Unique", [_few(9, dtype="float32")], attributes=named, outputs=1),
            Case("Unique", [_few(5, 2) % 2], attributes={"axis": 0, **named}, outputs=4),
            Case("Unique", [_few(2, 2, 6) % 2], attributes={"axis": -1, **named}, outputs=4),
        ]
    )


def _chain() -> onnx.ModelProto:
    """What reads a result of unknown length: shapes, slices, gathers and sums."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        helper.make_node("Shape", ["rows"], ["shape"]),
        helper.make_node("GatherND", ["x", "rows"], ["values"]),
        helper.make_node("Slice", ["values", "one", "end"], ["tail"]),
        helper.make_node("ReduceSum", ["tail"], ["sum"], keepdims=0),
        helper.make_node("TopK", ["values", "one"], ["largest", "at"]),
    ]
    results = {"shape": "INT64", "values": "FLOAT", "sum": "FLOAT", "largest": "FLOAT"}
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 5])],
        [
            helper.make_tensor_value_info(name, getattr(TensorProto, kind), None)
            for name, kind in results.items()
        ],
        [
            helper.make_tensor("one", TensorProto.INT64, [1], [1]),
            helper.make_tensor("end", TensorProto.INT64, [1], [2**62]),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)


def test_what_reads_a_result_of_unknown_length() -> None:
    data = _few(4, 5, dtype="float32")
    assert_same(ours(_chain(), [data]), onnx_runtime(_chain(), [data]))


def test_selections_of_a_selection() -> None:
    """Detectors of torchvision drop small boxes first, then those of low scores."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[4,5] x) => (int64[2,N] places, float[M] kept, int64[2,K] columns) {
        zero = Constant<value = float {0}>()
        one = Constant<value = float {1}>()
        some = Greater(x, zero)
        first = NonZero(some)
        rows = Transpose<perm = [1, 0]>(first)
        values = GatherND(x, rows)
        again = Greater(values, one)
        pairs = Mul(first, first)
        places = NonZero(pairs)
        kept = Compress<axis = 0>(values, again)
        columns = Compress<axis = -1>(first, again)
    }"""
    model = onnx.parser.parse_model(text)
    for data in (_few(4, 5, dtype="float32"), np.zeros((4, 5), "float32")):
        assert_same(ours(model, [data]), onnx_runtime(model, [data]))


def test_gather_by_a_part_of_a_selection() -> None:
    """One fused function reads an extent as a number and another inside of a shape only."""
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[4,5] x, bool[20] mask) => (float[N] found) {
        from = Constant<value = int64[1] {0}>()
        to = Constant<value = int64[1] {2}>()
        one = Constant<value = float {1}>()
        values = Compress(x, mask)
        above = GreaterOrEqual(values, one)
        places = NonZero(above)
        flat = Squeeze(places, from)
        few = Slice(flat, from, to, from)
        found = Gather<axis = 0>(values, few)
    }"""
    model = onnx.parser.parse_model(text)
    data, mask = _few(4, 5, dtype="float32"), np.arange(20) % 3 > 0
    for feed in ([data, mask], [data, np.zeros(20, bool)]):
        assert_same(ours(model, feed), onnx_runtime(model, feed))


def test_nothing_in_a_file_calls_python(tmp_path: Path) -> None:
    mod, params = relay.frontend.from_onnx(_chain())
    path = tmp_path / "chain.so"
    relay.build(mod, target="llvm", params=params).export_library(str(path))
    assert b"relax.run." not in path.read_bytes()
    assert tvm.get_global_func("tvm.contrib.sort.topk", allow_missing=True) is not None
