"""Standalone kernels: one workload with bias and ReLU, as tuning times it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm

from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.core.types import BF16_MAPS, uniform
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.geometry import Bf16Config
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.kernel import kernel, stored_shape, unscheduled
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.math.half_precision import BITS
from tvm_neocpu.topi.table import implementation_of

TARGET = parse_target()
POINTWISE = ConvWorkload(2, 8, 3, 5, 12, (1, 1))
DENSE = DenseWorkload(3, 20, 10)
MOVE = TransformWorkload(1, 12, 3, 4, 4, 6)


def blocked(x: np.ndarray, block: int) -> np.ndarray:
    n, c, h, w = x.shape
    return np.ascontiguousarray(x.reshape(n, c // block, block, h, w).transpose(0, 1, 3, 4, 2))


def run(workload: Workload, config: Config, *arrays: np.ndarray) -> np.ndarray:
    """``arrays`` are the inputs and a first guess of the output."""
    tensors = [tvm.runtime.tensor(array.astype("float32")) for array in arrays]
    tvm.compile(kernel(workload, config, TARGET.cpu), target=TARGET.target)["main"](*tensors)
    return tensors[-1].numpy()


def packed(weight: np.ndarray, workload: Workload, config: Config) -> np.ndarray:
    implementation = implementation_of(config)
    assert implementation.pack_weight is not None and implementation.packed_shape is not None
    array = implementation.pack_weight(weight, workload, config)
    assert array.shape == tuple(implementation.packed_shape(workload, config))
    return array


def test_convolution() -> None:
    rng, config = np.random.default_rng(0), ConvConfig(4, 6, 5)
    x, weight = rng.normal(size=POINTWISE.in_shape), rng.normal(size=POINTWISE.weight_shape)
    bias = rng.normal(size=(1, 12, 1, 1))
    y = np.einsum("nchw,kc->nkhw", x, weight[:, :, 0, 0])
    expected = blocked(np.maximum(y + bias, 0), 6)
    inputs = blocked(x, 4), packed(weight, POINTWISE, config), blocked(bias, 6)
    got = run(POINTWISE, config, *inputs, np.zeros_like(expected))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4)


def test_dense() -> None:
    rng, config = np.random.default_rng(0), DenseConfig(16, 2)
    x, weight, bias = rng.normal(size=(3, 20)), rng.normal(size=(20, 10)), rng.normal(size=10)
    expected = np.maximum(x @ weight + bias, 0)
    inputs = x, packed(weight, DENSE, config), bias
    got = run(DENSE, config, *inputs, np.zeros_like(expected))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4)


def test_transform() -> None:
    x = np.random.default_rng(0).normal(size=MOVE.in_shape).astype("float32")
    expected = blocked(x, 6)
    got = run(MOVE, TransformConfig(), blocked(x, 4), np.zeros_like(expected))
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("config", [ConvConfig(4, 6, 5), ConvConfig(8, 12, 5, reg_m=3)])
def test_a_kernel_is_a_function_of_data_weight_bias_and_output(config: Config) -> None:
    shapes = [tuple(int(e) for e in p.shape) for p in kernel(POINTWISE, config, TARGET.cpu).params]
    blocks = 12 // config.oc_bn
    assert shapes[0] == (2, 8 // config.ic_bn, 3, 5, config.ic_bn)
    assert shapes[2] == (1, blocks, 1, 1, config.oc_bn)
    assert shapes[3] == (2, blocks, 3, 5, config.oc_bn)


def test_operands_are_stored_as_the_config_reads_them() -> None:
    config = ConvConfig(4, 6, 5)
    entry, (data, weight) = implementation_of(config), POINTWISE.operands
    assert stored_shape(data, entry, POINTWISE, config) == (2, 2, 3, 5, 4)
    assert stored_shape(data, entry, POINTWISE, ConvConfig(0, 6, 5)) == data.shape
    assert stored_shape(weight, entry, POINTWISE, config) == (2, 2, 1, 1, 4, 6)
    rows, table = DENSE.operands
    entry = implementation_of(DenseConfig(16))
    assert stored_shape(rows, entry, DENSE, DenseConfig(16)) == rows.shape
    assert stored_shape(table, entry, DENSE, DenseConfig(16)) == (1, 20, 16)
    (moved,) = MOVE.operands
    entry = implementation_of(TransformConfig())
    assert stored_shape(moved, entry, MOVE, TransformConfig()) == (1, 3, 3, 4, 4)


@pytest.mark.parametrize(
    ("workload", "config"),
    [(POINTWISE, ConvConfig(4, 6, 5)), (DENSE, DenseConfig(16)), (MOVE, TransformConfig())],
    ids=["conv", "dense", "move"],
)
def test_parameters_have_the_types_of_the_workload(workload: Workload, config: Config) -> None:
    doubles = replace(workload, types=uniform("float64"))
    func = unscheduled(doubles, config)
    assert {str(param.dtype) for param in func.params} == {"float64"}


def test_a_config_without_an_implementation_has_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DenseConfig, "template", "nothing")
    with pytest.raises(ConfigError, match="'nothing'"):
        kernel(DENSE, DenseConfig(16), TARGET.cpu)


def test_maps_in_bf16_are_bits() -> None:
    """TVM would compute with bfloat16, and copy it, as fp32."""
    conv = replace(POINTWISE, in_channels=16, types=BF16_MAPS)
    data, *_ = unscheduled(conv, Bf16Config(16, 12, 5)).params
    assert str(data.dtype) == BITS
