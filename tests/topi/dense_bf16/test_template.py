"""The bf16 dense template rounds its rows and multiplies pairs of features by vdpbf16ps."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import pytest
import tvm
from samples import assert_close, run

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, Cpu
from tvm_neocpu.core.machine.dot import PORTABLE_BF16, VDPBF16PS
from tvm_neocpu.core.types import BF16_WEIGHTS
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.cost.ranking import predict_seconds
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_bf16.geometry import Bf16DenseConfig
from tvm_neocpu.topi.dense_bf16.implementation import DENSE_BF16
from tvm_neocpu.topi.dense_bf16.template import pack_weight, packed_shape
from tvm_neocpu.topi.kernel import kernel

PLAIN = Cpu("haswell", AVX2, 1, dots=(PORTABLE_BF16,))
ZEN_4 = Cpu("znver4", AVX512, 1, dots=(VDPBF16PS,))
ROWS = DenseWorkload(197, 768, 3072, BF16_WEIGHTS)


def test_weights_of_a_word_are_neighbouring_features() -> None:
    dense = DenseWorkload(4, 5, 20, BF16_WEIGHTS)
    config = Bf16DenseConfig(oc_bn=16, reg_n=2)
    weight = np.random.default_rng(0).normal(size=(5, 20)).astype(ml_dtypes.bfloat16)
    packed = pack_weight(weight, dense, config)
    assert packed.shape == packed_shape(dense, config) == (2, 3, 16)
    bits = weight.view("uint16")
    np.testing.assert_array_equal(packed[1, 1, 3:4].view("uint16"), [bits[2, 19], bits[3, 19]])
    # The last feature stands beside a zero, and so do columns behind the last one.
    np.testing.assert_array_equal(packed[0, 2, :1].view("uint16"), [bits[4, 0], 0])
    assert not packed[1, :, 4:].any()


@pytest.mark.parametrize("features", [64, 33, 1])
@pytest.mark.parametrize("rows", [2, 7])
def test_data_are_rounded_to_the_nearest(rows: int, features: int) -> None:
    dense = DenseWorkload(rows, features, 24, BF16_WEIGHTS)
    rng = np.random.default_rng(0)
    data = rng.normal(size=(rows, features)).astype("float32")
    weight = rng.normal(size=(features, 24)).astype(ml_dtypes.bfloat16)
    config = Bf16DenseConfig(oc_bn=8, reg_n=3)
    bias = np.full(24, 64.0, "float32")
    inputs = [data, pack_weight(weight, dense, config), bias]
    found = run(kernel(dense, config, PLAIN), inputs, (rows, 24), "float32") - 64
    wide = weight.astype("float64")
    assert_close(found, data.astype(ml_dtypes.bfloat16).astype("float64") @ wide, 1e-4)
    assert np.abs(found - data @ wide).max() > 2e-4 * np.abs(found).max()


@pytest.mark.parametrize("mcpu", ["znver4", "cooperlake", "sapphirerapids"])
@pytest.mark.parametrize("dense", [ROWS, DenseWorkload(49, 64, 512, BF16_WEIGHTS)], ids=str)
def test_the_instruction_is_in_the_code(mcpu: str, dense: DenseWorkload) -> None:
    target = parse_target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={mcpu}")
    space = DENSE_BF16.space(dense, target.cpu)
    config = min(space, key=lambda config: predict_seconds(dense, config, target.cpu))
    built = tvm.compile(kernel(dense, config, target.cpu), target=target.target)
    assembly = built.mod.inspect_source("asm")
    found = re.findall(r"vdpbf16ps\s.*%zmm\d+$", assembly, re.MULTILINE)
    assert len(found) >= config.reg_n * config.oc_bn // 16
    assert "neocpu_vdpbf16ps" not in assembly and "vfmadd" not in assembly
    assert not [line for line in found if "(%rsp)" in line]
