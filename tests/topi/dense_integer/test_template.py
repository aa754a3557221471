"""The integer dense template packs words of input features."""

from __future__ import annotations

import numpy as np

from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.dense_integer.geometry import IntegerDenseConfig
from tvm_neocpu.topi.dense_integer.template import pack_weight, packed_shape


def test_weights_of_a_word_are_neighbouring_features() -> None:
    dense, config = DenseWorkload(3, 10, 20, U8S8), IntegerDenseConfig(oc_bn=16, reg_n=3, dot=4)
    weight = np.random.default_rng(0).integers(-128, 128, (10, 20)).astype("int8")
    packed = pack_weight(weight, dense, config)
    assert packed.shape == packed_shape(dense, config) == (2, 3, 16)
    np.testing.assert_array_equal(packed[0, 1, 5:6].view("int8"), weight[4:8, 5])
    np.testing.assert_array_equal(packed[1, 2, 3:4].view("int8"), [*weight[8:, 19], 0, 0])
    assert not packed[1, :, 4:].any()
