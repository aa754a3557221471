"""Resize by sizes and scales that a run computes, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx_node import Array, assert_same, image, onnx_runtime
from onnx_text import parsed

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

COORDINATES = (
    "half_pixel",
    "asymmetric",
    "align_corners",
    "pytorch_half_pixel",
    "half_pixel_symmetric",
)
X = image(1, 2, 5, 7)


def _check(model: onnx.ModelProto, *feeds: tuple[Array, ...]) -> None:
    """One module, all feeds."""
    mod, params = relay.frontend.from_onnx(model)
    module = relay.build(mod, target="llvm", params=params)["default"]()
    for inputs in feeds:
        for at, value in enumerate(inputs):
            module.set_input(at, value)
        module.run()
        found = [module.get_output(at).numpy() for at in range(module.get_num_outputs())]
        assert_same(found, onnx_runtime(model, list(inputs)))


def _resize(kind: str, text: str, *attributes: str, opset: int = 19) -> onnx.ModelProto:
    """One node for each list of attributes."""
    nodes = "".join(f"y{at} = Resize <{each}> ({text})\n" for at, each in enumerate(attributes))
    outputs = ", ".join(f"float[1,2,h{at},w{at}] y{at}" for at in range(len(attributes)))
    return parsed(f"g (float[1,2,5,7] x, {kind} s) => ({outputs}) {{ {nodes} }}", opset)


def _sizes(*values: int) -> Array:
    return np.array(values, "int64")


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sizes_of_a_run(mode: str) -> None:
    given = [f'mode = "{mode}", coordinate_transformation_mode = "{c}"' for c in COORDINATES]
    model = _resize("int64[4]", "x, , , s", *given)
    extents = [(9, 4), (5, 7), (1, 1), (2, 30)]
    _check(model, *[(X, _sizes(1, 2, *each)) for each in extents])


def test_nearest_elements() -> None:
    roundings = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    given = [f'mode = "nearest", nearest_mode = "{each}", axes = [2, 3]' for each in roundings]
    model = _resize("int64[2]", "x, , , s", *given)
    _check(model, *[(X, _sizes(*each)) for each in ((3, 11), (10, 14), (4, 3))])


def test_scales_of_a_run() -> None:
    modes = ("nearest", "linear", "cubic")
    model = _resize("float[4]", "x, , s", *[f'mode = "{mode}"' for mode in modes])
    factors = [(1.3, 0.6), (2, 3), (1, 1), (0.45, 5.7)]
    _check(model, *[(X, np.array((1, 1, *each), "float32")) for each in factors])


def test_scales_below_opset_11() -> None:
    model = _resize("float[4]", "x, s", 'mode = "nearest"', opset=10)
    _check(model, *[(X, np.array((1, 1, *each), "float32")) for each in ((2, 0.7), (1.5, 3))])


def test_weights_without_what_lies_outside() -> None:
    model = _resize("int64[4]", "x, , , s", 'mode = "cubic", exclude_outside = 1')
    _check(model, *[(X, _sizes(1, 2, *each)) for each in ((13, 3), (2, 9))])


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_an_extent_that_a_run_knows(mode: str) -> None:
    """The rows that a mask keeps, by known scales and to known sizes."""
    model = parsed(
        f"""
        g (float[1,2,5,7] x, bool[5] mask) => (float[1,2,h,w] y, float[1,2,4,9] z) {{
            kept = Compress <axis = 2> (x, mask)
            y = Resize <mode = "{mode}"> (kept, , factors)
            z = Resize <mode = "{mode}", axes = [2, 3]> (kept, , , sizes)
        }}""",
        19,
    )
    for name, values in (("factors", np.float32([1, 1, 1.7, 0.5])), ("sizes", _sizes(4, 9))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    masks = (np.arange(5) % 2 == 0, np.ones(5, bool), np.arange(5) == 3)
    _check(model, *[(X, mask) for mask in masks])


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ('mode = "linear", antialias = 1', "antialias needs"),
        ('mode = "linear", keep_aspect_ratio_policy = "not_larger"', "keep_aspect_ratio_policy"),
    ],
)
def test_what_needs_known_sizes(attributes: str, said: str) -> None:
    model = _resize("int64[4]", "x, , , s", attributes)
    with pytest.raises(UnsupportedOperatorError, match=said):
        relay.frontend.from_onnx(model)
