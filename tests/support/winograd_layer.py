"""A layer of the Winograd template against the convolution that it should be."""

from __future__ import annotations

import numpy as np
from samples import HOST, run, stored

from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.topi.conv2d.reference import convolved
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.packing import pack_weight
from tvm_neocpu.topi.kernel import kernel


def check_layer(
    conv: ConvWorkload, config: WinogradConfig, data: np.ndarray, weight: np.ndarray, bound: float
) -> None:
    """The template's layer, with ReLU, is a convolution; ``bound``: error over largest output."""
    no_bias = np.zeros((1, conv.out_channels // config.oc_bn, 1, 1, config.oc_bn), "float32")
    expected = np.maximum(stored(convolved(conv, data, weight), Layout(config.oc_bn)), 0)
    inputs = [stored(data, Layout(config.ic_bn)), pack_weight(weight, conv, config), no_bias]
    found = run(kernel(conv, config, HOST.cpu), inputs, expected.shape, "float32")
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound * np.max(expected))
