"""Words that outputs read, and configs of logs."""

from __future__ import annotations

from dataclasses import replace

from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise_rows.geometry import RowsConfig, RowsGeometry, misfit

CONV = ConvWorkload(1, 16, 8, 8, 16, (3, 3), padding=(1, 1, 1, 1), groups=16, types=U8S8)
CONFIG = RowsConfig(ic_bn=16, oc_bn=16, reg_n=4, reg_m=2, reg_c=8)


def test_a_stride_of_two_rows_has_one_phase() -> None:
    conv = replace(CONV, stride=(2, 1), kernel=(5, 3))
    geometry = RowsGeometry(conv, CONFIG)
    assert (geometry.phases, geometry.taps) == (1, 3)
    # Four rows of outputs begin 2 rows, one word, apart.
    assert geometry.word_rows(4) == 3 + 3


def test_words_of_a_chunk() -> None:
    """8 rows of outputs read 5 words of a column of 10 rows."""
    geometry = RowsGeometry(CONV, CONFIG)
    assert geometry.word_rows(8) == 5
    assert geometry.chunk_bytes == 4 * 16 * 5 * 10


def test_configs_of_logs_that_do_not_fit() -> None:
    assert misfit(CONV, CONFIG) is None
    assert misfit(CONV, replace(CONFIG, reg_m=1)) == "its tiles of 1 rows end within a word"
    assert misfit(replace(CONV, stride=(2, 2)), replace(CONFIG, reg_m=1)) is None
    assert misfit(CONV, replace(CONFIG, oc_bn=8)) is not None
