"""The direct template's cost model: what NeoCPU recommends is predicted to be fast."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.core.types import uniform
from tvm_neocpu.targets.families import with_family
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_direct.cost import predict_seconds, pricing
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig, DirectGeometry
from tvm_neocpu.topi.conv2d_direct.space import space

SKYLAKE = Cpu("skylake-avx512", AVX512, cores=2)
HASWELL = Cpu("haswell", AVX2, cores=4)
CORTEX = Cpu("cortex-a72", NEON, cores=4)
CONV = ConvWorkload(1, 64, 64, 64, 64, (3, 3), padding=(1, 1, 1, 1))


def test_a_stride_beyond_the_kernel_reads_less() -> None:
    config = ConvConfig(32, 32, 7, oh_bn=7, parallel_oc=True)
    strided = ConvWorkload(1, 1024, 14, 14, 2048, (1, 1), (2, 2))
    dense = ConvWorkload(1, 1024, 7, 7, 2048, (1, 1))
    assert predict_seconds(strided, config, SKYLAKE) == pytest.approx(
        predict_seconds(dense, config, SKYLAKE)
    )


@pytest.mark.parametrize("cpu", [SKYLAKE, HASWELL, CORTEX], ids=lambda cpu: cpu.isa.name)
def test_the_model_prefers_what_the_paper_recommends(cpu: Cpu) -> None:
    lanes = cpu.lanes("float32")
    best = min(space(CONV, cpu), key=lambda config: predict_seconds(CONV, config, cpu))
    assert best.oc_bn % lanes == 0
    assert best.reg_m * best.reg_n * (best.oc_bn // lanes) >= 8
    bad = [
        replace(best, oc_bn=1),
        replace(best, reg_m=1, reg_n=1),
        replace(best, ic_bn=1),
        replace(best, oc_bn=lanes, reg_n=cpu.isa.vector_registers, reg_m=2),
        replace(best, oh_bn=64, parallel_oc=False),
    ]
    good = predict_seconds(CONV, best, cpu)
    assert all(predict_seconds(CONV, config, cpu) > 1.2 * good for config in bad)


def test_a_large_stem_writes_one_row_at_a_time() -> None:
    """Tiles of 7 rows write seven streams, which only a near cache takes as fast as one."""
    stem = ConvWorkload(1, 3, 640, 640, 32, (3, 3), (2, 2), (1, 1, 1, 1))
    one = replace(SKYLAKE, cores=1)

    def ratio(conv: ConvWorkload) -> float:
        rows, row = ConvConfig(0, 32, 2, reg_m=7, oh_bn=16), ConvConfig(0, 32, 14, oh_bn=112)
        return predict_seconds(conv, rows, one) / predict_seconds(conv, row, one)

    assert ratio(stem) > 1.1
    assert ratio(replace(stem, height=112, width=112)) < 1.01
    assert min(space(stem, one), key=lambda c: predict_seconds(stem, c, one)).reg_m == 1


def test_doubles_take_twice_as_long() -> None:
    """A register holds half as many of them, and every byte of traffic is two."""
    config = ConvConfig(16, 16, 14, unroll_ker=False, oh_bn=4)
    doubles = replace(CONV, types=uniform("float64"))
    ratio = predict_seconds(doubles, config, SKYLAKE) / predict_seconds(CONV, config, SKYLAKE)
    assert 1.8 < ratio < 2.5


def test_the_smaller_tile_of_a_pair_waits_for_its_additions() -> None:
    """4 and 3 of 7 pixels, two vectors: 6 accumulators take the 4 cycles that 8 take."""
    cpu = Cpu("znver3", AVX2, cores=1)
    seven, eight = (ConvWorkload(1, 512, 7, width, 512, (1, 1)) for width in (7, 8))
    config = ConvConfig(64, 16, 4)
    pair, whole = (predict_seconds(conv, config, cpu) for conv in (seven, eight))
    assert pair > 0.95 * whole


def test_taps_of_few_channels_stay_a_loop() -> None:
    """Each unrolled tap stores its accumulators: 14 for 8 steps (ResNeXt, RegNet)."""
    cpu = Cpu("znver3", AVX2, cores=1)
    grouped = ConvWorkload(1, 256, 28, 28, 256, (3, 3), padding=(1, 1, 1, 1), groups=32)
    best = min(space(grouped, cpu), key=lambda config: predict_seconds(grouped, config, cpu))
    assert best.oc_bn == 8 and not best.unroll_ker


def test_a_group_reads_its_own_channels() -> None:
    """32 groups take no longer than 32 convolutions of a group's size."""
    cpu = Cpu("znver3", AVX2, cores=1)
    one = ConvWorkload(1, 8, 56, 56, 8, (3, 3), (2, 2), (1, 1, 1, 1))
    many = replace(one, in_channels=256, out_channels=256, groups=32)
    config = ConvConfig(8, 8, 14, unroll_ker=False, oh_bn=2)
    ratio = predict_seconds(many, config, cpu) / predict_seconds(one, config, cpu)
    assert ratio < 32


def test_a_gate_reads_its_weights_in_streams() -> None:
    """Zen 3, one thread, weights in memory: 63 us in one stream of 30 channels, 37 in five of 8."""
    conv, zen = ConvWorkload(1, 960, 1, 1, 240, (1, 1)), with_family(Cpu("znver3", AVX2, cores=1))
    best = min(space(conv, zen), key=lambda config: predict_seconds(conv, config, zen))
    assert DirectGeometry(conv, best).streams(zen) == 5
    one = ConvConfig(ic_bn=24, oc_bn=30, reg_n=1, oc_lanes=32)
    assert 1.2 * predict_seconds(conv, best, zen) < predict_seconds(conv, one, zen)
    price = pricing(conv, zen)
    assert all(price(c) == predict_seconds(conv, c, zen) for c in space(conv, zen)[::7])


def test_a_padded_copy_is_cut_into_chunks_where_l2_does_not_keep_it() -> None:
    """Emerald Rapids, L2 2 MiB: 507 us with 56 rows in a chunk, 461 with 28, 444 with 14."""
    cpu = with_family(Cpu("emeraldrapids", AVX512, cores=1))
    cpu = replace(cpu, l1=48 * 1024, l2=2 * 1024**2, l3=260 * 1024**2)
    groups = ConvWorkload(1, 48, 112, 112, 48, (3, 3), (2, 2), (1, 1, 1, 1), groups=3)
    config = ConvConfig(16, 16, 28, unroll_ker=False, oh_bn=56)
    whole, half = (predict_seconds(groups, replace(config, oh_bn=rows), cpu) for rows in (56, 28))
    assert whole > 1.05 * half
    small = replace(groups, height=56, width=56)
    whole, half = (predict_seconds(small, replace(config, oh_bn=rows), cpu) for rows in (28, 14))
    assert whole < half
