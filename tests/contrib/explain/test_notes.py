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
    (note,) = network.notes
    assert "matmul nx16 -> nx8" in note and note in list(summary(network))


def test_a_loop_counts_once() -> None:
    text = """g (float[4] x, int64 n) => (float[4] y) {
        y = Loop <body = body (int64 i, bool go, float[4] v) => (bool goes, float[4] vo) {
            vo = Add(v, x)
            goes = Identity(go)
        }> (n, , x)
    }"""
    network = explain_model("loop", parsed(text), {}, parse_target().cpu)
    assert network.notes == ("1 loop: one trip of each counts, a run may take more",)
