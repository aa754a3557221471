"""Loop and Scan whose trips a run counts, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper
from onnx_loops import scan_model
from onnx_node import Array, assert_same, image, onnx_runtime
from onnx_text import parsed

import tvm_neocpu
from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.runtime.calls.graph_module import GraphModule

COUNTS = (0, 1, 2, 7, -3)


def _module(model: onnx.ModelProto) -> GraphModule:
    mod, params = relay.frontend.from_onnx(model)
    return relay.build(mod, target="llvm", params=params)["default"]()


def _outputs(module: GraphModule, inputs: Sequence[Array]) -> list[Array]:
    for at, value in enumerate(inputs):
        module.set_input(at, value)
    module.run()
    return [module.get_output(at).numpy() for at in range(module.get_num_outputs())]


def _check(model: onnx.ModelProto, *feeds: Sequence[Array]) -> None:
    """One module, all feeds."""
    module = _module(model)
    for inputs in feeds:
        assert_same(_outputs(module, inputs), onnx_runtime(model, list(inputs)))


def _with_weights(model: onnx.ModelProto, **weights: Array) -> onnx.ModelProto:
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


CONVOLUTIONS = """
    g (float[1,8,6,6] x, int64 n) => (float[1,8,6,6] y, float[t,1,8] means) {
        twice = Add(x, x)
        y, means = Loop <body = body (int64 i, bool go, float[1,8,6,6] v) =>
                                     (bool goes, float[1,8,6,6] vo, float[1,8] mean) {
            c = Conv <pads = [1, 1, 1, 1]> (v, w)
            r = Relu(c)
            vo = Add(r, twice)
            mean = ReduceMean <axes = [2, 3], keepdims = 0> (vo)
            goes = Identity(go)
        }> (n, , x)
    }"""


@pytest.fixture(scope="module")
def convolutions() -> onnx.ModelProto:
    """A count that is an input, a captured tensor, weights around the loop, a scan output."""
    return _with_weights(parsed(CONVOLUTIONS, 13), w=image(8, 8, 3, 3) * np.float32(0.1))


def test_a_count_that_is_an_input(convolutions: onnx.ModelProto) -> None:
    x = image(1, 8, 6, 6)
    feeds = [(x, np.array(count)) for count in (1, 3, 40)]
    _check(convolutions, *feeds)


@pytest.mark.parametrize("count", [0, -3, -(2**63)])
def test_no_trip_at_all(convolutions: onnx.ModelProto, count: int) -> None:
    x = image(1, 8, 6, 6)
    y, means = _outputs(_module(convolutions), [x, np.array(count)])
    np.testing.assert_array_equal(y, x)
    # ONNX Runtime says (0,), for it does not know a piece's shape; the standard has no word.
    assert means.shape == (0, 1, 8)


def test_a_body_is_planned_as_any_network(convolutions: onnx.ModelProto) -> None:
    from tvm_neocpu.pipeline import plan_network
    from tvm_neocpu.targets.parse import parse_target

    mod, _ = relay.frontend.from_onnx(convolutions)
    network = plan_network(mod, parse_target("llvm -mcpu=skylake-avx512").cpu, fallback="error")
    assert [str(node.workload) for node in network.graph.nodes if node.workload] == [
        "8x6x6->8 3x3 p1"
    ]
    assert network.plan.seconds > 0


def test_ten_thousand_trips_take_no_stack_and_no_memory_each() -> None:
    model = parsed(
        """
        g (float[64] x, int64 n) => (float[64] y, int64[t] counts) {
            y, counts = Loop <body = body (int64 i, bool go, float[64] v) =>
                                          (bool goes, float[64] vo, int64 count) {
                vo = Neg(v)
                count = Add(i, i)
                goes = Identity(go)
            }> (n, , x)
        }""",
        13,
    )
    x = image(64)
    _check(model, (x, np.array(10_000)))


def test_trips_that_only_carry_take_no_stack() -> None:
    """TVM frees the carried tensor between the call of the next trip and the return."""
    model = parsed(
        """
        g (float[2] x, int64 n) => (float[2] y) {
            y = Loop <body = body (int64 i, bool go, float[2] v) => (bool goes, float[2] vo) {
                vo = Neg(v)
                goes = Identity(go)
            }> (n, , x)
        }""",
        13,
    )
    x = image(2)
    _check(model, *[(x, np.array(count)) for count in (1, 20_001)])


def test_a_file_runs_without_the_compiler(convolutions: onnx.ModelProto, tmp_path: Path) -> None:
    mod, params = relay.frontend.from_onnx(convolutions)
    lib = relay.build(mod, target="llvm", params=params)
    lib.export_library(tmp_path / "net.so")
    x = image(1, 8, 6, 6)
    with tvm_neocpu.Session(tmp_path / "net.so", streams=2, threads=2) as session:
        runs = [session.submit({"x": x, "n": np.array(count)}) for count in (5, 300, 1, 90)]
        for count, run in zip((5, 300, 1, 90), runs, strict=True):
            expected = onnx_runtime(convolutions, [x, np.array(count)])
            assert_same([run.result()["y"], run.result()["means"]], expected)


def test_a_condition_that_depends_on_data() -> None:
    model = parsed(
        """
        g (float[5] x, float limit) => (float[5] y, float[t,5] all) {
            y, all = Loop <body = body (int64 i, bool go, float[5] v) =>
                                       (bool goes, float[5] vo, float[5] piece) {
                vo = Add(v, v)
                largest = ReduceMax <keepdims = 0> (vo)
                goes = Less(largest, limit)
                piece = Neg(vo)
            }> (, , x)
        }""",
        13,
    )
    x = np.abs(image(5)) + np.float32(0.1)
    _check(model, *[(x, np.array(limit, "float32")) for limit in (0, 3, 1e4, 1e30)])


@pytest.mark.parametrize("first", [True, False])
def test_a_first_condition_and_a_limit(first: bool) -> None:
    model = parsed(
        """
        g (float[3] x, int64[1] n, bool[1] begins) => (float[3] y) {
            y = Loop <body = body (int64[1] i, bool[1] go, float[3] v) =>
                                  (bool[1] goes, float[3] vo) {
                number = CastLike(i, v)
                vo = Add(v, number)
                largest = ReduceMax <axes = [0]> (vo)
                goes = Less(largest, fifty)
            }> (n, begins, x)
        }""",
        15,
    )
    _with_weights(model, fifty=np.full(1, 50, "float32"))
    feeds = [(image(3), np.array([count]), np.array([first])) for count in (*COUNTS, 2**62)]
    _check(model, *feeds)


def test_extents_that_grow() -> None:
    model = parsed(
        """
        g (float[2,3] x, int64 n) => (float[r,3] y, float total) {
            y = Loop <body = body (int64 i, bool go, float[k,3] v) =>
                                  (bool goes, float[l,3] vo) {
                row = ReduceSum <keepdims = 1> (v, rows)
                vo = Concat <axis = 0> (v, row)
                goes = Identity(go)
            }> (n, , x)
            total = ReduceSum <keepdims = 0> (y)
        }""",
        13,
    )
    _with_weights(model, rows=np.array([0]))
    _check(model, *[(image(2, 3), np.array(count)) for count in COUNTS])


def test_pieces_whose_extents_a_run_knows() -> None:
    """All trips pick as many rows as the mask has; pieces of other shapes raise."""
    model = parsed(
        """
        g (float[5,2] x, bool[5] mask, int64 n) => (float[5,2] y, float[t,k,2] all) {
            y, all = Loop <body = body (int64 i, bool go, float[5,2] v) =>
                                       (bool goes, float[5,2] vo, float[k,2] piece) {
                vo = Add(v, v)
                piece = Compress <axis = 0> (vo, mask)
                goes = Identity(go)
            }> (n, , x)
        }""",
        13,
    )
    mask = np.array([True, False, True, True, False])
    _check(model, *[(image(5, 2), mask, np.array(count)) for count in (1, 2, 9)])
    _, pieces = _outputs(_module(model), [image(5, 2), mask, np.array(0)])
    assert pieces.size == 0
    assert pieces.ndim == 3


def test_pieces_of_different_extents_raise() -> None:
    model = parsed(
        """
        g (float[5] x, int64 n) => (float[5] y, float[t,k] all) {
            y, all = Loop <body = body (int64 i, bool go, float[5] v) =>
                                       (bool goes, float[5] vo, float[k] piece) {
                vo = Sub(v, one)
                is_positive = Greater(vo, zero)
                piece = Compress <axis = 0> (vo, is_positive)
                goes = Identity(go)
            }> (n, , x)
        }""",
        13,
    )
    _with_weights(model, one=np.float32([1]), zero=np.float32([0]))
    module = _module(model)
    x = np.array([1, 2, 3, 4, 5], "float32")
    assert len(_outputs(module, [x, np.array(1)])[1][0]) == 4
    with pytest.raises(Exception, match="match_cast"):
        _outputs(module, [x, np.array(2)])


def test_a_loop_and_a_branch_inside_of_a_loop() -> None:
    model = parsed(
        """
        g (float[4] x, int64 n, int64 m) => (float[4] y, float[t] sums) {
            big = Mul(x, x)
            y, sums = Loop <body = outer (int64 i, bool go, float[4] v) =>
                                         (bool goes, float[4] vo, float sum) {
                w = Loop <body = inner (int64 j, bool go2, float[4] u) =>
                                       (bool goes2, float[4] uo) {
                    scaled = Mul(u, tenth)
                    more = Add(scaled, big)
                    uo = Sub(more, v)
                    goes2 = Identity(go2)
                }> (m, , v)
                sum = ReduceSum <keepdims = 0> (w)
                is_big = Greater(sum, zero)
                vo = If (is_big) <
                    then_branch = a () => (float[4] p) { p = Mul(w, tenth) },
                    else_branch = b () => (float[4] q) { q = Add(w, x) }
                >
                goes = Identity(go)
            }> (n, , x)
        }""",
        13,
    )
    _with_weights(model, tenth=np.float32([0.1]), zero=np.float32(0))
    x = image(4)
    _check(model, *[(x, np.array(n), np.array(m)) for n, m in ((1, 0), (2, 3), (9, 4))])


def test_what_no_trip_changes_is_a_constant_of_the_body() -> None:
    model = parsed(
        """
        g (float[1,8] x, int64 n) => (float[1,8] y, float[8,8] kept) {
            kept, y = Loop <body = body (int64 i, bool go, float[8,8] m, float[1,8] v) =>
                                        (bool goes, float[8,8] same, float[1,8] vo) {
                p = MatMul(v, m)
                vo = Tanh(p)
                same = Identity(m)
                goes = Identity(go)
            }> (n, , w, x)
        }""",
        13,
    )
    _with_weights(model, w=image(8, 8))
    mod, _ = relay.frontend.from_onnx(model)
    body = next(func for name, func in mod.functions.items() if "body" in name.name_hint)
    assert len(body.params) == 1
    _check(model, (image(1, 8), np.array(3)))


@pytest.mark.parametrize("rank", [0, 1])
def test_single_elements_change_their_rank(rank: int) -> None:
    """Paddle's exporter carries [] into the first trip and [1] out of it."""
    model = parsed(
        """
        g (float[3] x, int64 n) => (float[3] y) {
            last, y = Loop <body = body (int64 i, bool go, bool before, float[3] v) =>
                                        (bool goes, bool after, float[3] vo) {
                number = Cast <to = 1> (before)
                whole = Add(number, one)
                vo = Mul(v, whole)
                after = Cast <to = 9> (whole)
                goes = Identity(go)
            }> (n, , off, x)
        }""",
        13,
    )
    _with_weights(model, one=np.ones([1] * rank, "float32"), off=np.array(False))
    _check(model, *[(image(3), np.array(count)) for count in (1, 2, 5)])


def test_a_long_scan() -> None:
    """Too many nodes to put one after the other; both directions, another axis."""
    _check(scan_model(3000, True, True), (image(2, 3000) * np.float32(0.01),))


def test_a_rank_that_changes_is_refused() -> None:
    model = parsed(
        """
        g (float[3] x, int64 n) => (float[3] y) {
            y = Loop <body = body (int64 i, bool go, float[3] v) => (bool goes, float[1,3] vo) {
                vo = Unsqueeze(v, rows)
                goes = Identity(go)
            }> (n, , x)
        }""",
        13,
    )
    _with_weights(model, rows=np.array([0]))
    said = r"cannot import operator Loop \(node without a name\): 'v' is float32 of rank 1 before"
    with pytest.raises(UnsupportedOperatorError, match=said):
        relay.frontend.from_onnx(model)


@settings(max_examples=3, deadline=None)
@given(
    pieces=st.sampled_from(["float[2]", "float", "float[1,2]"]),
    limited=st.booleans(),
    ends=st.booleans(),
)
def test_pieces_of_any_shape(pieces: str, limited: bool, ends: bool) -> None:
    dims = pieces.removeprefix("float").strip("[]")
    shape = np.array([int(dim) for dim in dims.split(",") if dim], "int64")
    model = parsed(
        f"""
        g (float[2] x, int64 n) => (float[2] y, {pieces.replace("float", "float")} all) {{
            y, all = Loop <body = body (int64 i, bool go, float[2] v) =>
                                       (bool goes, float[2] vo, {pieces} piece) {{
                vo = Mul(v, v)
                {"part = ReduceSum <keepdims = 0> (vo)" if not dims else "part = Identity(vo)"}
                piece = Reshape(part, shape)
                {"goes = Less(i, four)" if ends or not limited else "goes = Identity(go)"}
            }}> ({"n" if limited else ""}, , x)
        }}""",
        13,
    )
    _with_weights(model, shape=shape, four=np.array(4))
    model.graph.output[1].type.tensor_type.ClearField("shape")
    _check(model, *[(image(2), np.array(count)) for count in (1, 3, 9)])


def test_a_loop_that_cannot_end_is_refused() -> None:
    model = parsed(
        """
        g (float[2] x) => (float[2] y) {
            y = Loop <body = body (int64 i, bool go, float[2] v) => (bool goes, float[2] vo) {
                vo = Neg(v)
                goes = Identity(go)
            }> ( , , x)
        }""",
        13,
    )
    with pytest.raises(UnsupportedOperatorError, match="no end"):
        relay.frontend.from_onnx(model)
