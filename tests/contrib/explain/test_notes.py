"""What an explained time leaves out is said."""

from __future__ import annotations

import numpy as np
from onnx_text import parsed

from tvm_neocpu.contrib.explain.explain_model import explain_model
from tvm_neocpu.contrib.explain.table import summary
from tvm_neocpu.targets import parse_target


def test_rows_that_a_run_counts_have_no_time() -> None:
    text = """g (float[9,16] x, bool[9] p) => (y) {
        k = Compress<axis = 0>(x, p)
        y = MatMul(k, w)
    }"""
    model = parsed(text, w=np.ones((16, 8), "float32"))
    network = explain_model("rows", model, {}, parse_target().cpu)
    assert not network.coverage.fallbacks
    note, beside = network.notes
    assert "matmul nx16 -> nx8" in note and note in list(summary(network))
    assert beside.startswith("beside this, of unknown time: ")


def test_a_loop_counts_once() -> None:
    text = """g (float[4] x, int64 n) => (float[4] y) {
        y = Loop <body = body (int64 i, bool go, float[4] v) => (bool goes, float[4] vo) {
            vo = Add(v, x)
            goes = Identity(go)
        }> (n, , x)
    }"""
    network = explain_model("loop", parsed(text), {}, parse_target().cpu)
    note, beside = network.notes
    assert note == "1 loop: one trip of each counts, a run may take more"
    assert "elementwise" in beside


def test_what_nothing_has_a_time_for_is_named() -> None:
    """Neither pools, which the plan prices, nor a bias, which is the epilogue of a product."""
    text = """g (float[1,8,12,12] x) => (y, v, i) {
        a = Relu(x)
        c = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(a, w)
        p = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(c)
        s = Softmax<axis = 1>(p)
        t = Softmax<axis = 3>(s)
        f = Flatten(t)
        m = MatMul(f, d)
        y = Add(m, b)
        v, i = TopK(y, k)
    }"""
    weights = {
        "w": np.ones((8, 8, 3, 3), "float32"),
        "d": np.ones((288, 16), "float32"),
        "b": np.ones(16, "float32"),
        "k": np.array([3]),
    }
    network = explain_model("beside", parsed(text, **weights), {}, parse_target().cpu)
    (note,) = network.notes
    assert note == "beside this, of unknown time: 2 softmax, 1 best_of_rows"
