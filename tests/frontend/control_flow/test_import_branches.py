"""If whose condition a run computes, against ONNX Runtime; both branches are taken."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from onnx_node import assert_same, image, onnx_runtime, ours

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.relay_passes.ir.tensor_types import dimensions

WIDE = numpy_helper.from_array(image(8, 4, 3, 3), "wide")
NARROW = numpy_helper.from_array(image(8, 4, 1, 1), "narrow")


def _value(name: str, shape: Sequence[int] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _conv(weight: str, result: str, pad: int) -> onnx.NodeProto:
    return helper.make_node("Conv", ["r", weight], [result], pads=[pad] * 4)


def _model(
    then: Sequence[onnx.NodeProto], other: Sequence[onnx.NodeProto], results: int = 1
) -> onnx.ModelProto:
    """``relu(If(mean(x) > 0))``; a branch's results are a0, a1 or b0, b1."""
    branches = {
        name: helper.make_graph(
            list(nodes), name, [], [_value(f"{letter}{at}") for at in range(results)], weights
        )
        for name, nodes, letter, weights in (
            ("then_branch", then, "a", [WIDE]),
            ("else_branch", other, "b", [NARROW]),
        )
    }
    names = [f"o{at}" for at in range(results)]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("ReduceMean", ["x"], ["m"], keepdims=0),
        helper.make_node("Greater", ["m", "zero"], ["c"]),
        helper.make_node("If", ["c"], names, "if", **branches),
        helper.make_node("Relu", ["o0"], ["y"]),
    ]
    zero = numpy_helper.from_array(np.zeros((), "float32"), "zero")
    outputs = [_value(name) for name in ["y", *names[1:]]]
    graph = helper.make_graph(nodes, "g", [_value("x", [1, 4, 6, 6])], outputs, [zero])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9)


def _check(model: onnx.ModelProto) -> None:
    positive = np.abs(image(1, 4, 6, 6))
    for x in (positive, -positive, image(1, 4, 6, 6) - 1):
        assert_same(ours(model, [x]), onnx_runtime(model, [x]))


def test_convolutions_in_both_branches() -> None:
    _check(_model([_conv("wide", "a0", 1)], [_conv("narrow", "b0", 0)]))


def test_several_results() -> None:
    then = [_conv("wide", "a0", 1), helper.make_node("Sigmoid", ["a0"], ["a1"])]
    other = [_conv("narrow", "b0", 0), helper.make_node("Exp", ["x"], ["b1"])]
    _check(_model(then, other, results=2))


def test_results_of_different_shapes() -> None:
    _check(_model([_conv("wide", "a0", 0)], [_conv("narrow", "b0", 0)]))


def test_a_branch_computes_where_it_is_taken() -> None:
    mod, _ = relay.frontend.from_onnx(_model([_conv("wide", "a0", 1)], [_conv("narrow", "b0", 0)]))
    text = str(mod["main"])
    assert text.index("R.nn.conv2d(") > text.index("if ")


def test_results_of_different_ranks_are_refused() -> None:
    then = [helper.make_node("Squeeze", ["x"], ["a0"])]
    model = _model(then, [helper.make_node("Relu", ["x"], ["b0"])])
    with pytest.raises(UnsupportedOperatorError, match=r"If \(node if\): the results of its"):
        relay.frontend.from_onnx(model)


def test_a_branch_that_the_inputs_do_not_fit() -> None:
    """A voice detector has a branch for each rate of sampling, and frames of one rate only."""
    shape = helper.make_node("Constant", [], ["shape"], value_ints=[7, -1])
    wrong = helper.make_node("Reshape", ["x", "shape"], ["b0"])
    model = _model([_conv("wide", "a0", 1)], [shape, wrong])
    fitting = _model([_conv("wide", "a0", 1)], [_conv("narrow", "b0", 0)])
    positive = np.abs(image(1, 4, 6, 6))
    with pytest.warns(UserWarning, match="else_branch of If .node if. is not possible for these"):
        mod, params = relay.frontend.from_onnx(model)
    module = relay.build(mod, target="llvm", params=params)["default"](tvm.cpu())
    for _ in range(2):
        module.set_input("x", positive)
        module.run()
        assert_same([module.get_output(0).numpy()], onnx_runtime(fitting, [positive]))
        module.set_input("x", -positive)
        with pytest.raises(RuntimeError, match="mismatch to specified constant"):
            module.run()


def test_a_branch_that_fails_leaves_the_shape_of_the_other_one() -> None:
    """Of no rows, too."""
    names = ["zero", "zero", "zero"]
    zero = helper.make_node("Constant", [], ["zero"], value_ints=[0])
    none = helper.make_node("Slice", ["r", *names], ["a0"])
    shape = helper.make_node("Constant", [], ["shape"], value_ints=[7, -1])
    model = _model([zero, none], [shape, helper.make_node("Reshape", ["x", "shape"], ["b0"])])
    with pytest.warns(UserWarning, match="else_branch of If"):
        mod, _ = relay.frontend.from_onnx(model)
    assert dimensions(mod["main"].ret_ty) == (0, 4, 6, 6)


def test_no_branch_fits_the_inputs() -> None:
    shape = helper.make_node("Constant", [], ["shape"], value_ints=[7, -1])
    branches = [
        [shape, helper.make_node("Reshape", ["x", "shape"], [name])] for name in ("a0", "b0")
    ]
    with pytest.raises(UnsupportedOperatorError, match="cannot import operator Reshape"):
        relay.frontend.from_onnx(_model(*branches))
