"""Importing models with open shapes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper

from tvm_neocpu import relay
from tvm_neocpu.core.errors import ShapeError, UnsupportedOperatorError
from tvm_neocpu.frontend import from_onnx
from tvm_neocpu.frontend.open_shapes import open_extents
from tvm_neocpu.relay_passes.batches.bind_shapes import at_shapes, open_inputs
from tvm_neocpu.relay_passes.ir.describe import AT_SHAPES, describe_outputs
from tvm_neocpu.relay_passes.ir.open_batch import open_batch

MakeModel = Callable[..., onnx.ModelProto]
node = helper.make_node


def relu(make_model: MakeModel, shape: tuple[object, ...]) -> onnx.ModelProto:
    return make_model([node("Relu", ["data"], ["out"])], shape)


def flat(make_model: MakeModel, target: list[int]) -> onnx.ModelProto:
    """A Reshape to fixed numbers."""
    model = make_model([node("Reshape", ["data", "t"], ["out"])], ("N", 4, 2))
    model.graph.initializer.append(numpy_helper.from_array(np.array(target), "t"))
    return model


@pytest.mark.parametrize(
    ("declared", "given", "extents"),
    [
        ((1, 4), None, None),
        (("N", 4), {"data": (2, 4)}, None),
        (("N", 4, "W"), None, None),
        (("N", 4), None, ("N", 4)),
        ((1, 4), {"data": (-1, 4)}, ("batch", 4)),
        (("N", 4, "W"), {"data": (None, 4, -1)}, ("batch", 4, "data_2")),
        (("N", 4, "W"), {"data": (1, 4, "W")}, (1, 4, "W")),
    ],
)
def test_what_stays_open(
    declared: object, given: object, extents: object, make_model: MakeModel
) -> None:
    found = open_extents(relu(make_model, declared).graph, given)
    assert found == (None if extents is None else {"data": extents})


def test_a_network_for_any_batch(make_model: MakeModel) -> None:
    mod, params = from_onnx(flat(make_model, [-1, 8]))
    assert params == {}
    assert open_batch(mod) is not None
    assert describe_outputs(mod) == (("out", (-1, 8), "float32"),)
    again, _ = from_onnx(flat(make_model, [-1, 8]), {"data": (6, 4, 2)})
    tvm.ir.assert_structural_equal(at_shapes(mod, {"data": (6, 4, 2)}), again)


def test_any_batch_of_large_images(make_model: MakeModel) -> None:
    """1009 images of them, which stand for any number, have 2**34 elements."""
    mod, _ = from_onnx(relu(make_model, ("N", 4, 2048, 2048)))
    assert AT_SHAPES not in (mod.attrs or {})


def test_one_image_has_a_limit(make_model: MakeModel) -> None:
    with pytest.raises(ShapeError, match="more than 2\\*\\*31 - 1 elements"):
        from_onnx(relu(make_model, ("N", 4, 2**15, 2**15)))


def test_a_network_that_is_another_one_for_each_batch(make_model: MakeModel) -> None:
    """The batch is a value here: x / N."""
    model = make_model(
        [
            node("Shape", ["data"], ["s"], end=1),
            node("Cast", ["s"], ["f"], to=onnx.TensorProto.FLOAT),
            node("Div", ["data", "f"], ["out"]),
        ],
        ("N", 4),
    )
    mod, _ = from_onnx(model)
    assert AT_SHAPES in mod.attrs
    again, _ = from_onnx(model, {"data": (6, 4)})
    tvm.ir.assert_structural_equal(at_shapes(mod, {"data": (6, 4)}), again)


def one_image_apart(make_model: MakeModel) -> onnx.ModelProto:
    """A branch of its own for one image."""
    graphs = [
        helper.make_graph(
            [node(op, ["data"], ["r"])], op, [], [helper.make_empty_tensor_value_info("r")]
        )
        for op in ("Neg", "Relu")
    ]
    model = make_model(
        [
            node("Shape", ["data"], ["n"], end=1),
            node("Equal", ["n", "one"], ["alone"]),
            node("If", ["alone"], ["out"], then_branch=graphs[0], else_branch=graphs[1]),
        ],
        ("N", 4),
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array([1]), "one"))
    return model


def eight_images_apart(make_model: MakeModel) -> onnx.ModelProto:
    """A branch of its own for eight images."""
    model = one_image_apart(make_model)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([8]), "one"))
    return model


def remainder(make_model: MakeModel) -> onnx.ModelProto:
    """x + N mod 4."""
    model = make_model(
        [
            node("Shape", ["data"], ["n"], end=1),
            node("Mod", ["n", "four"], ["rest"]),
            node("Cast", ["rest"], ["f"], to=onnx.TensorProto.FLOAT),
            node("Add", ["data", "f"], ["out"]),
        ],
        ("N", 4),
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array([4]), "four"))
    return model


def at_most_eight(make_model: MakeModel) -> onnx.ModelProto:
    """x * min(N, 8)."""
    model = make_model(
        [
            node("Shape", ["data"], ["n"], end=1),
            node("Min", ["n", "eight"], ["few"]),
            node("Cast", ["few"], ["f"], to=onnx.TensorProto.FLOAT),
            node("Mul", ["data", "f"], ["out"]),
        ],
        ("N", 4),
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array([8]), "eight"))
    return model


def first_eight(make_model: MakeModel) -> onnx.ModelProto:
    """x[:8], which are fewer images where there are fewer."""
    model = make_model([node("Slice", ["data", "from", "to", "from"], ["out"])], ("N", 4))
    for name, value in (("from", [0]), ("to", [8])):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value), name))
    return model


def many_apart(make_model: MakeModel) -> onnx.ModelProto:
    """x * min(N, 5000)."""
    model = at_most_eight(make_model)
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.array([5000]), "eight"))
    return model


def squeezed(make_model: MakeModel) -> onnx.ModelProto:
    """Squeeze without axes drops the batch where it is one image."""
    return make_model([node("Squeeze", ["data"], ["out"])], ("N", 4))


@pytest.mark.parametrize(
    "make",
    [
        one_image_apart,
        eight_images_apart,
        remainder,
        at_most_eight,
        first_eight,
        many_apart,
        squeezed,
    ],
)
def test_a_network_that_decides_by_its_batch(
    make: Callable[[MakeModel], onnx.ModelProto], make_model: MakeModel
) -> None:
    """Two batches may decide alike; the file is another network for one image all the same."""
    mod, _ = from_onnx(make(make_model))
    assert AT_SHAPES in mod.attrs
    again, _ = from_onnx(make(make_model), {"data": (1, 4)})
    tvm.ir.assert_structural_equal(at_shapes(mod, {"data": (1, 4)}), again)


def test_a_number_that_follows_the_batch(make_model: MakeModel) -> None:
    """Two rows of each image."""
    model = make_model(
        [
            node("Shape", ["data"], ["n"], end=1),
            node("Mul", ["n", "two"], ["twice"]),
            node("Concat", ["twice", "two"], ["target"], axis=0),
            node("Reshape", ["data", "target"], ["out"]),
        ],
        ("N", 4),
    )
    model.graph.initializer.append(numpy_helper.from_array(np.array([2]), "two"))
    mod, _ = from_onnx(model)
    assert open_batch(mod) is not None


def test_decisions_that_no_batch_changes(make_model: MakeModel) -> None:
    """PyTorch's Expand compares each extent with -1."""
    model = make_model(
        [
            node("Shape", ["data"], ["s"]),
            node("Equal", ["s", "minus"], ["open"]),
            node("Where", ["open", "ones", "s"], ["target"]),
            node("Expand", ["data", "target"], ["out"]),
        ],
        ("N", 4),
    )
    for name, value in (("minus", [-1, -1]), ("ones", [1, 1])):
        model.graph.initializer.append(numpy_helper.from_array(np.array(value), name))
    mod, _ = from_onnx(model)
    assert open_batch(mod) is not None


def test_a_network_for_given_shapes(make_model: MakeModel) -> None:
    mod, _ = from_onnx(relu(make_model, ("N", 4, "W")), {"data": ("N", 4, "W")})
    assert open_inputs(mod) == (("data", (-1, 4, -1), "float32"),)
    assert open_inputs(at_shapes(mod, {"data": (2, 4, 5)})) == (("data", (2, 4, 5), "float32"),)
    assert open_batch(at_shapes(mod, {"data": (-1, 4, 5)})) is not None


def test_a_batch_that_cannot_be_open_is_refused_when_built(make_model: MakeModel) -> None:
    mod, _ = from_onnx(flat(make_model, [2, 8]), {"data": (2, 4, 2)})
    assert open_batch(mod) is None
    with pytest.raises((ShapeError, UnsupportedOperatorError)) as caught:
        from_onnx(flat(make_model, [2, 8]))
    assert "\n" not in str(caught.value)


def test_a_shape_that_does_not_fit_is_the_importers_own_error(make_model: MakeModel) -> None:
    """Not a RuntimeError, although the import runs inside a call of TVM's."""
    model = make_model([node("MatMul", ["data", "w"], ["out"])], ("N", "K"), {"w": (4, 3)})
    mod, _ = from_onnx(model, {"data": ("N", "K")})
    at_shapes(mod, {"data": (2, 4)})
    with pytest.raises(UnsupportedOperatorError, match="cannot import operator MatMul"):
        at_shapes(mod, {"data": (2, 5)})


def test_a_state_of_one_image_asks_for_shapes(make_model: MakeModel) -> None:
    """Recurrent layers of TorchScript's exporter have the batch that they were traced with."""
    model = make_model([node("Concat", ["data", "state"], ["out"], axis=1)], ("N", 4))
    state = numpy_helper.from_array(np.ones((1, 3), "float32"), "state")
    model.graph.initializer.append(state)
    mod, _ = from_onnx(model)
    assert AT_SHAPES in mod.attrs
    with pytest.raises(ShapeError) as told:
        relay.build(mod, target="llvm", cache=False)
    message = str(told.value)
    assert "'data' [?, 4]" in message and "\n" not in message
    assert "Session(..., shapes={'data': (1, 4)})" in message and "--shape data:1,4" in message
    assert describe_outputs(at_shapes(mod, {"data": (1, 4)})) == (("out", (1, 7), "float32"),)


def test_what_no_batch_mends_is_told_as_it_is(make_model: MakeModel) -> None:
    model = make_model([node("Concat", ["data", "state"], ["out"], axis=5)], ("N", 4))
    state = numpy_helper.from_array(np.ones((1, 3), "float32"), "state")
    model.graph.initializer.append(state)
    with pytest.raises(UnsupportedOperatorError, match="Concat"):
        from_onnx(model)
