"""Normalisations where ONNX's own cases do not look; those are in tests/onnx_suite."""

from __future__ import annotations

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from onnx_node import assert_same, check_node, image, node_model, onnx_runtime, ours
from onnx_text import check_like_peer, parsed

X = image(2, 4, 3, 5)
AFFINE = [image(4), image(4)]


@pytest.mark.parametrize("shape", [(2, 7, 3, 5), (2, 7, 6), (1, 7, 2, 3, 2)])
@pytest.mark.parametrize(("size", "dtype"), [(3, "float32"), (4, "float32"), (5, "float64")])
def test_lrn_of_every_rank_and_of_even_sizes(shape: tuple[int, ...], size: int, dtype: str) -> None:
    """An even window reaches one channel further behind than in front.

    ONNX Runtime refuses even windows; ONNX's reference takes the number of images for that of
    channels.
    """
    data = image(*shape, dtype=dtype)
    before = (size - 1) // 2
    squares = np.stack(
        [(data[:, max(0, c - before) : c - before + size] ** 2).sum(1) for c in range(shape[1])],
        axis=1,
    )
    expected = data / (1.5 + 0.5 / size * squares) ** 0.6
    model = node_model("LRN", [data], size=size, alpha=0.5, beta=0.6, bias=1.5)
    assert_same(ours(model, [data]), [expected.astype(dtype)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mean_variance_normalization_far_from_zero(dtype: str) -> None:
    """The mean of squares less the square of the mean would have lost all its digits."""
    data = (X + 3000).astype(dtype)
    model = node_model("MeanVarianceNormalization", [data], axes=[0, 3])
    wide = data.astype("float64")
    expected = (wide - wide.mean((0, 3), keepdims=True)) / wide.std((0, 3), keepdims=True)
    assert_same(ours(model, [data]), [expected.astype(dtype)], 2e-3)


@pytest.mark.parametrize("scale", [(5,), (4, 1, 5), (1,)])
def test_layer_normalization_whose_scale_broadcasts(scale: tuple[int, ...]) -> None:
    model = node_model("LayerNormalization", [X], [image(*scale)], outputs=3, axis=1)
    assert_same(ours(model, [X]), ReferenceEvaluator(model).run(None, {"x0": X}))


@pytest.mark.parametrize("opset", [18, 21])
def test_group_normalization_of_every_opset(opset: int) -> None:
    """Below opset 21 a scale belongs to a group."""
    affine = [image(2), image(2)] if opset < 21 else AFFINE
    model = node_model("GroupNormalization", [X], affine, opset=opset, num_groups=2)
    check_node(model, X)


def test_batch_normalization_in_training_gives_new_statistics() -> None:
    data = image(3, 4, 5)
    model = node_model(
        "BatchNormalization",
        [data],
        [*AFFINE, image(4), np.abs(image(4))],
        outputs=3,
        training_mode=1,
        momentum=0.7,
        epsilon=1e-2,
    )
    assert_same(ours(model, [data]), ReferenceEvaluator(model).run(None, {"x0": data}))


def test_what_follows_a_batch_normalization_is_imported() -> None:
    """As Caffe's exports have it: a scale of its own behind the norm."""
    model = parsed("""
        g (float[1,4,3,3] x, float[4] s, float[4] v, float[4,1,1] f) => (float[] y) {
            n = BatchNormalization(x, s, s, s, v)
            y = Mul(n, f)
        }""")
    data = {"x": image(1, 4, 3, 3), "s": image(4), "v": image(4) ** 2, "f": image(4, 1, 1)}
    check_like_peer(model, **data)


def test_batch_normalization_of_each_element() -> None:
    """``spatial`` 0 of opset 7 has scales of C x H x W. The reference evaluator knows none."""
    planes = [image(4, 3, 5), image(4, 3, 5), image(4, 3, 5), np.abs(image(4, 3, 5))]
    model = node_model("BatchNormalization", [X], planes, opset=7, spatial=0)
    assert_same(ours(model, [X]), onnx_runtime(model, [X]))


def test_statistics_of_a_layer_in_float64() -> None:
    """Mean and inverse deviation have the type of the stash, float32."""
    data, scale = image(2, 4, 3, dtype="float64"), image(3, dtype="float64")
    check_node(node_model("LayerNormalization", [data], [scale], outputs=3), data)
