"""The cost model's front: rankings, and what they keep."""

from __future__ import annotations

from dataclasses import replace

import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from tvm_neocpu.core.errors import ConfigError
from tvm_neocpu.core.machine.cpu import AVX2, AVX512, NEON, Cpu
from tvm_neocpu.core.network.candidate import Candidate
from tvm_neocpu.core.network.layout import NCHW, Layout
from tvm_neocpu.core.types import BF16_WEIGHTS, FP32, U8S8, U8S16, Types, uniform
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_bf16.implementation import BF16_DIRECT
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_direct.implementation import DIRECT
from tvm_neocpu.topi.conv2d_integer.implementation import INTEGER
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.space import TILE_LIMIT
from tvm_neocpu.topi.cost.moves import copying_seconds
from tvm_neocpu.topi.cost.ranking import (
    Predictions,
    best_config,
    best_per_layout,
    favoured_of,
    predict_seconds,
    ranked,
)
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.operator import Blocks, Implementation
from tvm_neocpu.topi.table import implementation_of, implementations, space_of

CPU = Cpu("haswell", AVX2, cores=2)
CONV = ConvWorkload(1, 16, 7, 7, 24, (3, 3), padding=(1, 1, 1, 1))
PRIME = ConvWorkload(1, 13, 7, 7, 7, (1, 1))


def test_a_ranking_is_the_whole_space_in_order() -> None:
    found = ranked(CONV, CPU)
    assert {candidate.config for candidate in found} == set(space_of(CONV, CPU))
    seconds = [candidate.seconds for candidate in found]
    assert seconds == sorted(seconds)
    assert seconds[0] == predict_seconds(CONV, found[0].config, CPU)


def test_the_best_of_a_layout_pair_is_the_first_in_the_ranking() -> None:
    for best in best_per_layout(CONV, CPU):
        pair = best.reads, best.writes
        alike = [c.config for c in ranked(CONV, CPU) if (c.reads, c.writes) == pair]
        assert best.config == alike[0] == best_config(CONV, *pair, CPU)


def test_a_large_concat_is_read_in_chunks_of_rows() -> None:
    """SegFormer's head reads 17 MB of a concat: a pass that copies it takes long."""
    conv = ConvWorkload(1, 1024, 64, 64, 256, (1, 1))
    cpu = parse_target("llvm -mtriple=x86_64-linux-gnu -mcpu=znver4").cpu.with_cores(1)
    cpu = replace(cpu, l1=32 << 10, l2=1 << 20, l3=32 << 20)  # whatever this machine has
    stored, read_through = (
        best_per_layout(conv, cpu, computes_data=computes) for computes in (False, True)
    )
    assert any(DIRECT.copies_apart(conv, found.config) for found in stored)
    assert not any(
        implementation_of(found.config).copies_apart(conv, found.config) for found in read_through
    )


def test_the_price_of_a_copy_is_part_of_the_prediction() -> None:
    """7x7 images have too few rows for four cores: channels are split, and the copy is a pass."""
    conv = ConvWorkload(1, 64, 7, 7, 2048, (1, 1))
    cpu = replace(CPU, cores=4)
    for found in best_per_layout(conv, cpu, computes_data=True):
        apart = implementation_of(found.config).copies_apart(conv, found.config)
        copy = copying_seconds(conv, cpu) if apart else 0.0
        assert found.seconds == pytest.approx(predict_seconds(conv, found.config, cpu) + copy)


def test_blocks_of_whole_vectors_are_kept() -> None:
    found = best_per_layout(CONV, CPU)
    assert {candidate.reads.block for candidate in found} == {8, 16}
    assert {candidate.writes.block for candidate in found} == {8, 24}


def test_where_no_block_fills_a_vector_the_widest_are_kept() -> None:
    found = best_per_layout(PRIME, CPU)
    assert {candidate.reads.block for candidate in found} == {1, 13}
    assert {candidate.writes.block for candidate in found} == {1, 7}


@pytest.mark.parametrize("multiplier", [2, 3, 5])
def test_depthwise_outputs_fill_vectors_where_inputs_cannot(multiplier: int) -> None:
    """40 channels: the two widest input blocks belong to no output block of whole vectors."""
    for channels in (6, 20, 24, 40):
        conv = ConvWorkload(1, channels, 3, 3, channels * multiplier, (3, 3), groups=channels)
        assert best_per_layout(conv, CPU), conv


def test_layouts_that_no_template_offers() -> None:
    assert best_config(CONV, Layout(16), Layout(5), CPU) is None
    assert best_config(CONV, NCHW, NCHW, CPU) is None


def test_dense_layers_have_one_candidate() -> None:
    (only,) = best_per_layout(DenseWorkload(1, 64, 100), CPU)
    assert (only.reads, only.writes) == (NCHW, NCHW)


def test_an_unregistered_template_has_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConvConfig, "template", "nothing")
    with pytest.raises(ConfigError, match="registered"):
        predict_seconds(CONV, ConvConfig(8, 8, 7), CPU)


def test_a_setting_that_changes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within one process, and not by the first answer that was remembered."""
    conv = ConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=(1, 1, 1, 1))

    def tiles(limit: str) -> set[int]:
        monkeypatch.setenv(TILE_LIMIT, limit)
        found = (candidate.config for candidate in best_per_layout(conv, CPU))
        return {config.tile for config in found if isinstance(config, WinogradConfig)}

    assert 6 in tiles("6")
    assert tiles("4") and max(tiles("4")) <= 4
    assert tiles("2") == {2}
    assert tiles("0") == set()
    assert 6 in tiles("6")


def test_configs_that_do_not_work_are_passed_over() -> None:
    first = best_per_layout(CONV, CPU)[0]
    second = best_per_layout(CONV, CPU, without=frozenset([first.config]))
    assert first.config not in {candidate.config for candidate in second}
    assert {(c.reads, c.writes) for c in second} == {
        (c.reads, c.writes) for c in best_per_layout(CONV, CPU)
    }


def test_a_vector_of_doubles_is_half_as_many_channels() -> None:
    found = best_per_layout(replace(CONV, types=uniform("float64")), CPU)
    assert {candidate.reads.block for candidate in found} == {4, 8, 16}
    assert {candidate.writes.block for candidate in found} == {4, 8, 12}


CONVS = st.builds(
    lambda channels, groups, side, out, kernel, stride, pad: ConvWorkload(
        1,
        channels * groups,
        side,
        side + 1,
        out * groups,
        (kernel, kernel),
        (stride, stride),
        (pad, pad, pad, pad),
        groups=groups,
    ),
    channels=st.sampled_from((1, 3, 8, 12, 13, 16, 24, 64)),
    groups=st.sampled_from((1, 1, 1, 2)),
    side=st.sampled_from((7, 9, 14)),
    out=st.sampled_from((1, 7, 16, 24, 32, 59)),
    kernel=st.sampled_from((1, 3, 5)),
    stride=st.sampled_from((1, 2)),
    pad=st.sampled_from((0, 1)),
)
CONVS = st.builds(
    lambda conv, types: replace(conv, types=types),
    CONVS,
    st.sampled_from((FP32, FP32, U8S8, U8S16, BF16_WEIGHTS)),
)
ZEN4 = parse_target("llvm -mcpu=znver4 -num-cores=4").cpu
CPUS = st.sampled_from((CPU, replace(CPU, isa=AVX512, cores=8), replace(CPU, isa=NEON), ZEN4))


@settings(max_examples=examples(25))
@given(CONVS, CPUS)
def test_many_configs_are_priced_as_each_of_them_alone(conv: ConvWorkload, cpu: Cpu) -> None:
    for entry in implementations(conv, cpu):
        space = entry.space(conv, cpu)
        price = entry.price(conv, cpu)
        together = [price(config) for config in space]
        some = range(0, len(space), max(1, len(space) // 100))
        assert [together[i] for i in some] == [entry.cost(conv, space[i], cpu) for i in some]


@settings(max_examples=examples(25))
@given(CONVS, CPUS)
def test_the_best_are_those_of_the_whole_space(conv: ConvWorkload, cpu: Cpu) -> None:
    favoured = set(favoured_of(conv, space_of(conv, cpu), cpu))
    expected: dict[tuple[Layout, Layout], Candidate] = {}
    for candidate in ranked(conv, cpu):
        if candidate.config in favoured:
            expected.setdefault((candidate.reads, candidate.writes), candidate)
    assert best_per_layout(conv, cpu) == tuple(expected.values())


@pytest.mark.parametrize(
    ("entry", "types"), [(DIRECT, FP32), (INTEGER, U8S8), (BF16_DIRECT, BF16_WEIGHTS)]
)
def test_a_part_of_the_space_is_what_has_its_blocks(entry: Implementation, types: Types) -> None:
    conv = replace(CONV, types=types)
    found = entry.blocks(conv, ZEN4)
    space = entry.space(conv, ZEN4)
    assert found.read == {config.ic_bn for config in space}
    assert found.written == {config.oc_bn for config in space}
    wanted = Blocks(frozenset({8, 5}), frozenset({8, 24}))
    assert space == entry.part_of_space(conv, ZEN4, found)
    part = [c for c in space if c.ic_bn in wanted.read and c.oc_bn in wanted.written]
    assert list(entry.part_of_space(conv, ZEN4, wanted)) == part != []


def test_predictions_are_those_of_the_cost_model_and_computed_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    predicted = Predictions(CONV, CPU)
    space = space_of(CONV, CPU)
    assert [predicted(config) for config in space] == pytest.approx(
        [predict_seconds(CONV, config, CPU) for config in space]
    )
    monkeypatch.setattr(Predictions, "_price_of", None)
    assert predicted(space[0]) == pytest.approx(predict_seconds(CONV, space[0], CPU))


@pytest.mark.parametrize(("channels", "block"), [(24, 24), (40, 40), (120, 24)])
def test_blocks_of_short_vectors_at_full_rate_are_chosen(channels: int, block: int) -> None:
    """Zen 4 multiplies two vectors of 8 lanes in the time of one of 16; Zen 5 does not."""
    conv = ConvWorkload(1, 96, 28, 28, channels, (1, 1))
    short, whole = (
        best_per_layout(conv, parse_target(f"llvm -mcpu={name}").cpu.with_cores(1))[0].config
        for name in ("znver4", "znver5")
    )
    assert (short.oc_bn, short.oc_lanes) == (block, 0)
    assert whole.tile_channels % 16 == 0
