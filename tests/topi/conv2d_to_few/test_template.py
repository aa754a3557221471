"""The template of few outputs: what it computes, and how its weights lie."""

from __future__ import annotations

import numpy as np
import pytest
from samples import HOST, run, stored

from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.topi.conv2d.reference import convolved
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_to_few.geometry import FewConfig
from tvm_neocpu.topi.conv2d_to_few.template import pack_weight, packed_shape
from tvm_neocpu.topi.kernel import kernel

CONV = ConvWorkload(2, 32, 12, 16, 3, (3, 3), (1, 1), (1, 1, 1, 1))


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(FewConfig(16, 3, 4, 16, 4), id="whole tiles"),
        pytest.param(FewConfig(32, 3, 5, 8, 12), id="a tile that overhangs, four vectors a pixel"),
        pytest.param(FewConfig(8, 3, 1, 4, 1), id="a pixel at a time"),
    ],
)
def test_a_layer_with_its_epilogue(config: FewConfig) -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(size=CONV.in_shape).astype("float32")
    weight = rng.normal(size=CONV.weight_shape).astype("float32")
    bias = rng.normal(size=(1, 1, 1, 1, 3)).astype("float32")
    expected = np.maximum(stored(convolved(CONV, data, weight), Layout(3)) + bias, 0)
    inputs = [stored(data, Layout(config.ic_bn)), pack_weight(weight, CONV, config), bias]
    found = run(kernel(CONV, config, HOST.cpu), inputs, expected.shape, "float32")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.max(expected))


def test_a_step_finds_the_vectors_of_all_filters_side_by_side() -> None:
    config = FewConfig(16, 3, 4, 8)
    weight = np.arange(np.prod(CONV.weight_shape), dtype="float32").reshape(CONV.weight_shape)
    packed = pack_weight(weight, CONV, config)
    assert packed.shape == packed_shape(CONV, config) == (2, 3, 3, 2, 3, 8)
    # Block 1, row 2, column 0, second vector of a pixel, filter 2: channels 24 to 31.
    np.testing.assert_array_equal(packed[1, 2, 0, 1, 2], weight[2, 24:32, 2, 0])
