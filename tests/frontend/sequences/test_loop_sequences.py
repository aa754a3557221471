"""Sequences that loops fill and read, against ONNX Runtime: in loops that stay, and unrolled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_node import Array, assert_same, image, onnx_runtime
from onnx_text import parsed

from tvm_neocpu import relay
from tvm_neocpu.core.errors import NeoCpuError, UnsupportedOperatorError
from tvm_neocpu.frontend.nodes import all_nodes
from tvm_neocpu.frontend.sequences.loop_sequences import sequences_as_tensors


def _check(model: onnx.ModelProto, *feeds: Sequence[Array]) -> None:
    """One module, all feeds."""
    mod, params = relay.frontend.from_onnx(model)
    module = relay.build(mod, target="llvm", params=params)["default"]()
    for inputs in feeds:
        for at, value in enumerate(inputs):
            module.set_input(at, value)
        module.run()
        found = [module.get_output(at).numpy() for at in range(module.get_num_outputs())]
        assert_same(found, onnx_runtime(model, list(inputs)))


def _model(text: str, opset: int = 17, **weights: Array) -> onnx.ModelProto:
    """``weights`` beside ``one`` and ``last``, numbers that most models here read."""
    model = parsed(text, opset)
    for name, array in {"one": np.array(1), "last": np.array(-1), **weights}.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


def _filled(count: str, readers: str, outputs: str) -> onnx.ModelProto:
    """Two tensors a trip, and one before; read by ``readers``."""
    return _model(
        f"""
        g (float[2,4] x, int64 n) => ({outputs}) {{
            before = SequenceConstruct(x)
            y, all = Loop <body = body (int64 i, bool go, float[2,4] v, seq(float[2,4]) s) =>
                                       (bool goes, float[2,4] vo, seq(float[2,4]) so) {{
                vo = Add(v, v)
                w = Neg(vo)
                some = SequenceInsert(s, vo)
                so = SequenceInsert(some, w)
                goes = Identity(go)
            }}> ({count}, , x, before)
            {readers}
        }}""",
        three=np.array(3),
    )


READERS = """
    rows = ConcatFromSequence <axis = 0> (all)
    columns = ConcatFromSequence <axis = -1> (all)
    new = ConcatFromSequence <axis = 1, new_axis = 1> (all)
    behind = ConcatFromSequence <axis = -1, new_axis = 1> (all)
    length = SequenceLength(all)
    first = SequenceAt(all, one)
    end = SequenceAt(all, last)
"""
OUTPUTS = """float[r,4] rows, float[2,c] columns, float[2,k,4] new, float[2,4,l] behind,
    int64 length, float[2,4] first, float[2,4] end"""


def test_a_loop_that_fills_a_sequence() -> None:
    model = _filled("n", READERS, OUTPUTS)
    _check(model, *[(image(2, 4), np.array(count)) for count in (1, 2, 9)])


def test_a_loop_of_known_trips() -> None:
    model = _filled("three", READERS, OUTPUTS)
    _check(model, (image(2, 4), np.array(0)))


def test_tensors_of_other_extents_each() -> None:
    """What a mask keeps of each row, of all rows before, and nothing of some."""
    model = _model(
        """
        g (float[5,6] x, int64 n) => (float[k] y, float[l,6] z, int64 length) {
            none = SequenceEmpty()
            all, more = Loop <body = body (int64 i, bool go, seq(float[k]) s, seq(float[l,6]) t) =>
                                    (bool goes, seq(float[k]) so, seq(float[l,6]) to) {
                row = Gather(x, i)
                mask = Greater(row, half)
                kept = Compress <axis = 0> (row, mask)
                so = SequenceInsert(s, kept)
                top = Unsqueeze(i, axes)
                some = Slice(x, axes, top, axes)
                to = SequenceInsert(t, some)
                goes = Identity(go)
            }> (n, , none, none)
            y = ConcatFromSequence <axis = 0> (all)
            z = ConcatFromSequence <axis = 0> (more)
            length = SequenceLength(more)
        }""",
        half=np.float32(0.2),
        axes=np.array([0]),
    )
    x = image(5, 6)
    x[1] = 0
    _check(model, *[(x, np.array(count)) for count in (1, 2, 5)])


def test_a_loop_in_a_loop() -> None:
    """Both fill the same sequence; the inner one another, which is stacked in each trip."""
    model = _model(
        """
        g (float[3,4,2] x, int64 n, int64 m) => (float[k,2] y, float[a,b,2] z, int64 length) {
            none = SequenceEmpty()
            flat, rows = Loop <body = body (int64 i, bool go, seq(float[1,2]) s, seq(float[b,2]) r)
                              => (bool goes, seq(float[1,2]) so, seq(float[b,2]) ro) {
                at = Gather(x, i)
                empty = SequenceEmpty()
                s1, r1 = Loop <body = inner (int64 j, bool g2, seq(float[1,2]) a, seq(float[2]) b)
                              => (bool g3, seq(float[1,2]) ao, seq(float[2]) bo) {
                    e = Gather(at, j)
                    e1 = Unsqueeze(e, axes)
                    ao = SequenceInsert(a, e1)
                    bo = SequenceInsert(b, e)
                    g3 = Identity(g2)
                }> (m, , s, empty)
                row = ConcatFromSequence <axis = 0, new_axis = 1> (r1)
                ro = SequenceInsert(r, row)
                double = Add(row, row)
                so = SequenceInsert(s1, double)
                goes = Identity(go)
            }> (n, , none, none)
            y = ConcatFromSequence <axis = 0> (flat)
            z = ConcatFromSequence <axis = 0, new_axis = 1> (rows)
            length = SequenceLength(flat)
        }""",
        axes=np.array([0]),
    )
    feeds = [(1, 1), (3, 2), (2, 4)]
    _check(model, *[(image(3, 4, 2), np.array(n), np.array(m)) for n, m in feeds])


@pytest.mark.parametrize("split", ["", ", one"])
def test_a_loop_that_reads_a_sequence(split: str) -> None:
    """The rows of a tensor, as PyTorch writes ``for row in x.unbind(0)``; two loops."""
    body = """(int64 i, bool go, seq(float[4]) s) => (bool goes, seq(float[4]) so) {
        row = SequenceAt(rows, i)
        vo = Mul(row, row)
        so = SequenceInsert(s, vo)
        goes = Identity(go)
    }"""
    model = _model(
        f"""
        g (float[3,4] x, int64 n) => (float[4,k] y, int64 length) {{
            none = SequenceEmpty()
            rows = SplitToSequence <axis = 0, keepdims = 0> (x{split})
            length = SequenceLength(rows)
            some = Loop <body = body {body}> (n, , none)
            all = Loop <body = body {body}> (length, , some)
            y = ConcatFromSequence <axis = 1, new_axis = 1> (all)
        }}"""
    )
    _check(model, *[(image(3, 4), np.array(count)) for count in (1, 3)])


def test_a_scan_output_split_again() -> None:
    """What PyTorch writes below opset 13, where a loop carries no sequence."""
    model = _model(
        """
        g (float[2,4] x, int64 n) => (float[2,k] y, float[2,4] z) {
            last_one, all = Loop <body = body (int64 i, bool go, float[2,4] v)
                                         => (bool goes, float[2,4] vo, float[2,4] piece) {
                vo = Add(v, v)
                piece = Neg(vo)
                goes = Identity(go)
            }> (n, , x)
            s = SplitToSequence <keepdims = 0> (all)
            y = ConcatFromSequence <axis = 1> (s)
            z = SequenceAt(s, last)
        }""",
        11,
    )
    _check(model, *[(image(2, 4), np.array(count)) for count in (1, 4)])


def test_sequences_of_known_tensors_become_tensors() -> None:
    model = _model(
        """
        g (float[2,4] x) => (float[k,4] y, int64 length) {
            a = SequenceConstruct(x, x)
            w = Neg(x)
            b = SequenceInsert(a, w, one)
            c = SequenceErase(b, last)
            y = ConcatFromSequence <axis = 0> (c)
            length = SequenceLength(c)
        }"""
    )
    assert not any("equence" in node.op_type for node in sequences_as_tensors(model, 17).graph.node)
    _check(model, (image(2, 4),))


def test_no_trip_at_all() -> None:
    """ONNX Runtime refuses to join nothing."""
    outputs = "float[k,4] rows"
    model = _filled("n", "rows = ConcatFromSequence <axis = 0> (all)", outputs)
    mod, params = relay.frontend.from_onnx(model)
    module = relay.build(mod, target="llvm", params=params)["default"]()
    x = image(2, 4)
    module.run(x=x, n=np.array(0))
    np.testing.assert_array_equal(module.get_output(0).numpy(), x)


def test_a_loop_that_reads_what_it_fills_is_refused() -> None:
    model = _model(
        """
        g (float[1,4] x, int64 n) => (float[k,4] z) {
            before = SequenceConstruct(x)
            all = Loop <body = body (int64 i, bool go, seq(float[1,4]) s) =>
                                    (bool goes, seq(float[1,4]) so) {
                v = SequenceAt(s, last)
                so = SequenceInsert(s, v)
                goes = Identity(go)
            }> (n, , before)
            z = ConcatFromSequence <axis = 0> (all)
        }"""
    )
    assert any(node.op_type == "SequenceAt" for node in all_nodes(model.graph))
    with pytest.raises(UnsupportedOperatorError, match="sequences cannot be carried"):
        relay.frontend.from_onnx(model)


@pytest.mark.parametrize("broken", ["inputs", "body", "tensor"])
def test_a_broken_loop_is_refused_in_one_line(broken: str) -> None:
    model = _filled("n", "rows = ConcatFromSequence <axis = 0> (all)", "float[k,4] rows")
    (loop,) = (node for node in model.graph.node if node.op_type == "Loop")
    body = loop.attribute[0].g
    if broken == "inputs":
        del body.input[-1]
    elif broken == "body":
        del loop.attribute[:]
    else:
        del body.node[2].input[:]
    with pytest.raises(NeoCpuError) as caught:
        relay.frontend.from_onnx(model)
    assert "\n" not in str(caught.value)
