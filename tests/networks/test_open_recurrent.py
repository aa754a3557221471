"""Text recognisers with an open batch: right for every batch, and specialised as others are."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from onnx_text import assert_like, check_like_peer, normal, parsed, peers

import tvm_neocpu
from tvm_neocpu import relay
from tvm_neocpu.core.errors import ShapeError
from tvm_neocpu.lower_networks import lower_networks
from tvm_neocpu.relay_passes.batches.independence import why_dependent
from tvm_neocpu.relay_passes.ir.open_batch import open_batch

HIDDEN, STEPS, CHANNELS = 6, 7, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# Steps outermost, as PyTorch writes them: the batch stands in the middle, then is the inner factor
# of the rows of a Gemm.
CRNN = """g (float[N,1,8,7] x) => (float[7,N,5] y) {{
    z = Conv <pads=[1,1,1,1]> (x, k)
    p = MaxPool <kernel_shape=[8,1]> (z)
    s = Squeeze (p, height)
    t = Transpose <perm=[2,0,1]> (s)
    {states}
    a, ah{more} = {kind} <hidden_size=6, direction="bidirectional"> (t, w, r, b, , {given})
    at = Transpose <perm=[0,2,1,3]> (a)
    d = Reshape (at, joined)
    rows = Reshape (d, flat)
    e = Gemm <transB=1> (rows, fc)
    n = Shape <start=0, end=1> (x)
    shape = Concat <axis=0> (steps, n, last)
    y = Reshape (e, shape)
}}"""
# As exporters write states of zeros, or one learned state for each image, for the batch at hand.
ZEROS = """
    count = Shape <start=0, end=1> (x)
    sizes = Concat <axis=0> (two, count, hidden)
    h = ConstantOfShape (sizes)"""
LEARNED = """
    count = Shape <start=0, end=1> (x)
    sizes = Concat <axis=0> (two, count, hidden)
    h = Expand (state, sizes)"""


def recogniser(kind: str, states: str = "") -> onnx.ModelProto:
    gates = GATES[kind]
    given = {"LSTM": "h, h"}.get(kind, "h") if states else ""
    weights = {
        "k": normal(CHANNELS, 1, 3, 3),
        "w": normal(2, gates * HIDDEN, CHANNELS, seed=1) / 2,
        "r": normal(2, gates * HIDDEN, HIDDEN, seed=2) / 2,
        "b": normal(2, 2 * gates * HIDDEN, seed=3),
        "fc": normal(5, 2 * HIDDEN, seed=4),
        "state": normal(2, 1, HIDDEN, seed=5),
        "height": np.array([2]),
        "joined": np.array([0, 0, -1]),
        "flat": np.array([-1, 2 * HIDDEN]),
        "steps": np.array([STEPS]),
        "last": np.array([-1]),
        "two": np.array([2]),
        "hidden": np.array([HIDDEN]),
    }
    text = CRNN.format(kind=kind, more=", ac" if kind == "LSTM" else "", states=states, given=given)
    return parsed(text, **weights)


@pytest.mark.parametrize(
    ("kind", "states"),
    [
        pytest.param("LSTM", ZEROS, id="lstm"),
        pytest.param("GRU", "", id="gru", marks=pytest.mark.slow),
        pytest.param("RNN", LEARNED, id="rnn"),
    ],
)
def test_any_batch_of_a_text_recogniser(kind: str, states: str) -> None:
    """Sizes 1 and 3 have code of their own: 2 is a sum, 7 has rows of both."""
    model = recogniser(kind, states)
    mod, params = relay.frontend.from_onnx(model)
    batch = open_batch(mod)
    assert batch is not None
    assert why_dependent(mod, batch) is None
    module = relay.build(mod, "llvm", params=params, max_batch=3)["default"](tvm.cpu())
    for size in (1, 2, 3, 7):
        data = normal(size, 1, 8, STEPS, seed=size)
        module.run(x=data)
        assert_like([module.get_output("y").numpy()], peers(model, {"x": data}))


def test_a_text_recogniser_is_specialised() -> None:
    mod, _ = relay.frontend.from_onnx(recogniser("LSTM"))
    lowered = lower_networks({"main": mod}, tvm_neocpu.parse_target("llvm").cpu, max_batch=2)
    names = {str(var.name_hint) for var in lowered.get_global_vars()}
    assert {"main", "main_batch1", "main_batch2"} <= names


# Two layers whose states are inputs and outputs, as a stream wants them: the batch is their middle.
STREAM = """g (float[N,7,4] x, float[2,N,6] h) => (float[N,7,6] y, float[2,N,6] last) {
    t = Transpose <perm=[1,0,2]> (x)
    h0, h1 = Split <axis=0> (h, each)
    a, a_last = GRU <hidden_size=6> (t, w, r, b, , h0)
    s = Squeeze (a, one)
    c, c_last = GRU <hidden_size=6> (s, w1, r, b, , h1)
    d = Squeeze (c, one)
    y = Transpose <perm=[1,0,2]> (d)
    last = Concat <axis=0> (a_last, c_last)
}"""


def test_states_beside_an_open_batch() -> None:
    """Sizes 1 and 2 have code of their own; states are given and taken back for any number."""
    weights = {
        "w": normal(1, 3 * HIDDEN, 4, seed=1) / 2,
        "w1": normal(1, 3 * HIDDEN, HIDDEN, seed=2) / 2,
        "r": normal(1, 3 * HIDDEN, HIDDEN, seed=3) / 2,
        "b": normal(1, 6 * HIDDEN, seed=4),
        "one": np.array([1]),
        "each": np.array([1, 1]),
    }
    model = parsed(STREAM, **weights)
    mod, params = relay.frontend.from_onnx(model)
    batch = open_batch(mod)
    assert batch is not None and why_dependent(mod, batch) is None
    module = relay.build(mod, "llvm", params=params, max_batch=2)["default"](tvm.cpu())
    for size in (1, 2, 5):
        data = {"x": normal(size, STEPS, 4), "h": normal(2, size, HIDDEN, seed=size)}
        module.run(**data)
        found = [module.get_output(name).numpy() for name in ("y", "last")]
        assert_like(found, peers(model, data))
    with pytest.raises(ShapeError):
        module.run(x=normal(2, STEPS, 4), h=normal(2, 3, HIDDEN))


def test_images_that_depend_on_each_other_need_a_shape() -> None:
    """The mean over the batch: in one line, whatever the layer is lowered by."""
    model = recogniser("GRU")
    model.graph.output.append(onnx.helper.make_tensor_value_info("m", onnx.TensorProto.FLOAT, None))
    model.graph.node.append(onnx.helper.make_node("ReduceMean", ["y"], ["mean"], axes=[1]))
    model.graph.node.append(onnx.helper.make_node("Sub", ["y", "mean"], ["m"]))
    mod, params = relay.frontend.from_onnx(model)
    with pytest.raises(ShapeError, match="GRU with an open batch") as told:
        relay.build(mod, "llvm", params=params, cache=False)
    assert "shapes=" in str(told.value) and "\n" not in str(told.value)
    data = normal(2, 1, 8, STEPS)
    check_like_peer(model, x=data)
