"""The second part of a reduction stands behind a test, once."""

from __future__ import annotations

import re

from tvm_neocpu.core.machine.cpu import AVX2, Cpu
from tvm_neocpu.core.machine.dot import dots_of
from tvm_neocpu.core.types import U8S8
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_integer.geometry import IntegerConfig
from tvm_neocpu.topi.conv2d_split.geometry import SplitConfig
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.tir.tiles.skip_parts import SKIP_KEY, skip_parts

CONV = ConvWorkload(1, 32, 4, 6, 16, (1, 1), types=U8S8)
ZEN_3 = Cpu("znver3", AVX2, cores=2, dots=dots_of(frozenset({"sse2", "avx2"})))


def test_the_parts_are_multiplied_as_their_level_asks() -> None:
    """Level 0: two words at once; else one by one, and above 1 the high parts. No pixel is asked
    for."""
    text = str(kernel(CONV, SplitConfig(ic_bn=16, oc_bn=16, reg_n=2, reg_m=2), ZEN_3))
    lines = [line for line in text.splitlines() if "vpmaddubsw" in line]
    words = [re.findall(r"vpmaddubsw_uint8_(\d)x256", line) for line in lines]
    assert words == [["1", "1"], ["1", "1"], ["2"]]
    tests = [at.group(1) for at in re.finditer(r"if (.*conv2d_worst\[.*\].*):", text)]
    assert len(tests) == 2
    assert all("ico" in test and "i2_1" not in test and "i3_1" not in test for test in tests)
    assert SKIP_KEY not in text


def test_reductions_of_one_part_stay_as_they_are() -> None:
    func = kernel(CONV, IntegerConfig(ic_bn=16, oc_bn=16, reg_n=2, dot=2), ZEN_3)
    assert skip_parts(func, ZEN_3) is func
