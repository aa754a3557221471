"""The loops of the row template, and how its weights lie."""

from __future__ import annotations

import numpy as np
from nests import nest

from tvm_neocpu.core.machine.cpu import AVX512, Cpu
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_integer_rows.geometry import ImageRowsConfig
from tvm_neocpu.topi.conv2d_integer_rows.template import pack_weight

CONV = ConvWorkload(1, 3, 28, 28, 32, (7, 7), (2, 2), (3, 3, 3, 3), types=U8S8)
CONFIG = ImageRowsConfig(ic_bn=0, oc_bn=16, reg_n=7, unroll_ker=False, oh_bn=14)
SERVER = Cpu("cascadelake", AVX512, cores=1)


def test_a_kernel_of_seven_columns_loops_over_six_words() -> None:
    """Channel blocks, tiles; kernel rows, words; columns, lanes."""
    found = nest(CONV, CONFIG, "conv2d_acc_update", SERVER)
    assert found == "2, 14, 2, 7, 6, unroll 7, vector 16"


def test_a_word_has_bytes_of_two_pixels() -> None:
    weight = np.arange(32 * 3 * 49).astype("int8").reshape(32, 3, 7, 7)
    packed = pack_weight(weight, CONV, CONFIG)
    assert packed.dtype == "int32" and packed.shape == (2, 1, 7, 1, 6, 16)
    row = packed[1, 0, 5, 0, :, 4].copy().view("int8")
    # Columns 0, 1, .. of channels 0, 1, 2; three zeros fill the last word.
    np.testing.assert_array_equal(row[:21], weight[20, :, 5].T.ravel())
    assert not row[21:].any()
