"""Our converters among TVM's, and importing in threads."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from onnx_node import check_node, image, node_model, onnx_runtime, ours
from tvm.relax.frontend.onnx import onnx_frontend

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError
from tvm_neocpu.frontend.converters.table import CONVERTERS

X = image(1, 2, 5, 6)
FRACTIONAL = np.array([1, 1, 1.3, 0.6], "float32")
THREADS = 8


def resized() -> onnx.ModelProto:
    return node_model("Resize", [X], [None, FRACTIONAL], opset=13, mode="linear")


def refused() -> onnx.ModelProto:
    """TVM's own converter fails here; TVM would print the node's inputs."""
    return node_model("MatMul", [image(1, 4)], [image(5, 3)], opset=13)


def test_our_converters_win_over_tvms_without_touching_its_table() -> None:
    before = {name: onnx_frontend._get_convert_map().get(name) for name in CONVERTERS}
    check_node(resized(), X)
    assert {name: onnx_frontend._get_convert_map().get(name) for name in CONVERTERS} == before
    assert onnx_frontend.ONNXGraphImporter._convert_operator.__module__ == onnx_frontend.__name__


def test_our_converters_win_in_a_branch_too() -> None:
    def branch(coordinates: str) -> onnx.GraphProto:
        node = helper.make_node(
            "Resize",
            ["x", "", "scales"],
            ["y"],
            mode="linear",
            coordinate_transformation_mode=coordinates,
        )
        scales = onnx.numpy_helper.from_array(FRACTIONAL, "scales")
        value = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2, 6, 3))
        return helper.make_graph([node], "branch", [], [value], [scales])

    node = helper.make_node(
        "If",
        ["choice"],
        ["out"],
        then_branch=branch("half_pixel"),
        else_branch=branch("asymmetric"),
    )
    graph = helper.make_graph(
        [node],
        "choice",
        [
            helper.make_tensor_value_info("choice", TensorProto.BOOL, ()),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape),
        ],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, (1, 2, 6, 3))],
    )
    opsets = [helper.make_opsetid("", 13)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    for choice in (np.array(True), np.array(False)):
        (found,) = ours(model, [choice, X])
        np.testing.assert_allclose(found, onnx_runtime(model, [choice, X])[0], atol=1e-5)


def test_an_operator_that_ours_alone_knows_is_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check for unsupported operators, ours and TVM's, asks our table too."""
    tvms = onnx_frontend._get_convert_map()
    without = {name: found for name, found in tvms.items() if name not in CONVERTERS}
    for module in ("tvm_neocpu.frontend.onnx_import", onnx_frontend.__name__):
        monkeypatch.setattr(f"{module}._get_convert_map", lambda: without)
    check_node(resized(), X)


def test_a_refusal_names_the_node_and_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    for model in (refused(), node_model("Resize", [X], opset=13)):
        with pytest.raises(UnsupportedOperatorError, match=r"\(node node\)") as caught:
            relay.frontend.from_onnx(model)
        assert "\n" not in str(caught.value)
        del caught
    found = capfd.readouterr()
    assert (found.out, found.err) == ("", "")


def _together(work: Callable[[int], object]) -> list[object]:
    """Run ``work`` in many threads that start at once, and return what it returns or raises."""
    start = threading.Barrier(THREADS)

    def one(number: int) -> object:
        start.wait()
        try:
            return work(number)
        except Exception as error:
            return error

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


def test_threads_import_at_once() -> None:
    expected, _ = relay.frontend.from_onnx(resized())

    def work(number: int) -> object:
        if number % 2:
            return relay.frontend.from_onnx(refused())
        return [relay.frontend.from_onnx(resized())[0] for _ in range(5)]

    for number, found in enumerate(_together(work)):
        if number % 2:
            assert isinstance(found, UnsupportedOperatorError)
            continue
        assert isinstance(found, list), found
        for mod in found:
            tvm.ir.assert_structural_equal(mod, expected)


def test_threads_leave_stdout_and_warnings_as_they_were(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stdout, filters = sys.stdout, list(warnings.filters)
    seen: list[bool] = []

    def work(number: int) -> None:
        for _ in range(5):
            try:
                relay.frontend.from_onnx(refused() if number % 2 else resized())
            except UnsupportedOperatorError:
                seen.append(sys.stdout is stdout)

    _together(work)
    assert seen and all(seen)
    assert sys.stdout is stdout
    assert warnings.filters == filters
    print("still heard")
    assert capsys.readouterr().out == "still heard\n"


@pytest.mark.parametrize(
    ("op_type", "attribute"), [("Add", {"axis": 0, "broadcast": 1}), ("Concat", {})]
)
def test_attributes_of_another_opset_are_tvms_to_read(
    op_type: str, attribute: dict[str, int]
) -> None:
    """Opset 6 had Add's, and opset 1 a Concat without an axis: some files still write them so."""
    x = image(2, 3)
    model = node_model(op_type, [x, x], opset=13, **attribute)
    found = ours(model, [x, x])[0]
    np.testing.assert_array_equal(found, x + x if op_type == "Add" else np.concatenate([x, x]))
