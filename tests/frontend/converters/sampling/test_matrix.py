"""Det, Einsum, AffineGrid and GridSample against ONNX Runtime or ONNX's reference."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_node import Case, check_together, image, node_model, onnx_runtime, ours

from tvm_neocpu import relay
from tvm_neocpu.core.errors import UnsupportedOperatorError

EQUATIONS = (
    ("ij,jk->ik", [(3, 4), (4, 5)]),
    ("...ij,...jk->...ik", [(1, 3, 4), (5, 4, 2)]),
    ("bhwc,hkc->bhwk", [(2, 3, 4, 5), (3, 6, 5)]),
    ("nkp,ncp->knc", [(2, 3, 4), (2, 5, 4)]),
    ("abc, cd -> dba", [(2, 3, 4), (4, 5)]),
    ("i,i->", [(4,), (4,)]),
    ("bhqd,bhkd->bhqk", [(2, 3, 4, 5), (2, 3, 6, 5)]),
    ("abc,bd->ad", [(2, 3, 4), (3, 5)]),
    ("ij,jk->ik", [(3, 1), (4, 5)]),
    ("ij,kl->ijkl", [(3, 2), (4, 5)]),
    ("iij->j", [(3, 3, 4)]),
    ("ij,jk", [(3, 4), (4, 5)]),
    ("->", [()]),
)


def test_determinants() -> None:
    swapped = np.array([[0, 1, 2], [1, 0, 3], [4, -3, 8]], "float32")
    check_together(
        [
            Case("Det", [image(2, 3, 3)]),
            Case("Det", [image(5, 5)]),
            Case("Det", [image(1, 1)]),
            Case("Det", [swapped]),
            Case("Det", [np.zeros((3, 3), "float32")]),
        ],
        opset=11,
    )


def test_equations() -> None:
    check_together(
        [
            Case("Einsum", [image(*shape) for shape in shapes], (), {"equation": equation})
            for equation, shapes in EQUATIONS
        ]
    )


@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 1, 2), (1, 1, 2, 3, 4)])
@pytest.mark.parametrize("align", [0, 1])
def test_affine_grids(size: tuple[int, ...], align: int) -> None:
    axes = len(size) - 2
    theta = image(size[0], axes, axes + 1)
    constants = [np.array(size, "int64")]
    model = node_model("AffineGrid", [theta], constants, opset=20, align_corners=align)
    (expected,) = ReferenceEvaluator(model).run(None, {"x0": theta})
    np.testing.assert_allclose(ours(model, [theta])[0], expected, atol=1e-6)


def _sample(mode: str, padding: str, align: int) -> Case:
    grid = np.random.default_rng(7).uniform(-1.6, 1.6, (1, 3, 3, 2)).astype("float32")
    named = {"mode": mode, "padding_mode": padding, "align_corners": align}
    return Case("GridSample", [image(1, 2, 4, 5), grid], (), named)


def test_grid_sample() -> None:
    cases = [
        _sample("linear", "zeros", 0),
        _sample("linear", "reflection", 1),
        _sample("nearest", "border", 1),
    ]
    check_together(cases, opset=20)


def _places(*shape: int) -> np.ndarray:
    """Inside, at the edges, outside of the image and far outside."""
    places = np.random.default_rng(8).uniform(-1.6, 1.6, (*shape, 2)).astype("float32")
    places.reshape(-1, 2)[:4] = [[-1, 1], [1, -1], [60, -60], [40, 0]]
    return places


@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_linear_samples_of_several_images_and_channels(padding: str) -> None:
    shapes = [((2, 3, 5, 7), (2, 4, 9)), ((1, 17, 1, 6), (1, 3, 33)), ((3, 1, 4, 1), (3, 1, 5))]
    cases = [
        Case("GridSample", [image(*data), _places(*grid)], (), named)
        for data, grid in shapes
        for align in (0, 1)
        for named in [{"mode": "linear", "padding_mode": padding, "align_corners": align}]
    ]
    check_together(cases, opset=20)


def test_places_in_float64_of_an_image_in_float32() -> None:
    """ONNX allows it, ONNX Runtime has no kernel for it."""
    inputs = [image(1, 2, 5, 5), _places(1, 3, 3)]
    wide = [inputs[0], inputs[1].astype("float64")]
    model, exact = (
        node_model("GridSample", each, opset=20, mode="linear") for each in (inputs, wide)
    )
    np.testing.assert_allclose(ours(exact, wide)[0], onnx_runtime(model, inputs)[0], atol=2e-5)


@pytest.mark.slow
def test_grid_sample_by_cubes() -> None:
    check_together([_sample("cubic", "reflection", 0)], opset=20)


def test_reflection_in_an_axis_of_one_pixel_is_refused() -> None:
    inputs = [image(1, 1, 1, 4), image(1, 2, 3, 2)]
    model = node_model("GridSample", inputs, padding_mode="reflection", align_corners=1)
    with pytest.raises(UnsupportedOperatorError, match="an axis of one pixel"):
        relay.frontend.from_onnx(model)
