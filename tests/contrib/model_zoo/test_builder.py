"""The graph builder's guards, and its windows."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_neocpu.contrib.model_zoo.builder import GraphBuilder
from tvm_neocpu.contrib.model_zoo.window import Window


@pytest.fixture
def builder() -> GraphBuilder:
    return GraphBuilder("test", (1, 8, 9, 9), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("window", "image", "expected"),
    [
        (Window.of(7, 2, 3), (224, 224), (112, 112)),
        (Window.of(3, 2), (149, 149), (74, 74)),
        (Window.of((1, 7), 1, (0, 3)), (17, 17), (17, 17)),
    ],
)
def test_window_slides(window: Window, image: tuple[int, int], expected: tuple[int, int]) -> None:
    assert window.slide_over(image) == expected


def test_window_larger_than_the_image_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Window.of(5).slide_over((3, 9))


def test_adding_different_shapes_is_refused(builder: GraphBuilder) -> None:
    narrow = builder.conv(builder.data, "narrow", 4, 1)
    with pytest.raises(ValueError, match="sum: cannot add"):
        builder.add(builder.data, narrow, "sum")


def test_concatenating_different_images_is_refused(builder: GraphBuilder) -> None:
    small = builder.max_pool(builder.data, "pool", 3, 2)
    with pytest.raises(ValueError, match="side by side"):
        builder.concat([builder.data, small], "joined")


def test_output_must_be_the_last_node(builder: GraphBuilder) -> None:
    first = builder.relu(builder.data, "first")
    builder.relu(first, "second")
    with pytest.raises(ValueError, match="second"):
        builder.finish(first)


def test_grouped_weights_have_one_input_channel_per_group(builder: GraphBuilder) -> None:
    depthwise = builder.conv(builder.data, "depthwise", 8, 3, padding=1, groups=8)
    model = builder.finish(depthwise)
    assert list(model.graph.initializer[0].dims) == [8, 1, 3, 3]
    assert depthwise.shape == (1, 8, 9, 9)
