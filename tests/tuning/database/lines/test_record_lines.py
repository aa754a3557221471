"""Lines and records are two forms of one thing, AutoTVM's own lines included."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.network.layout import factors
from tvm_neocpu.core.network.record import Record
from tvm_neocpu.core.types import uniform
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import TILES, WinogradConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.topi.table import implementation_of
from tvm_neocpu.tuning.database.lines.record_lines import decode_record, encode_record, parse_row

sizes = st.integers(1, 512)
pairs = st.tuples(st.integers(1, 5), st.integers(1, 5))
types = st.sampled_from(["float32", "float16", "int8"]).map(uniform)
counts, flags = st.integers(1, 1024), st.booleans()
seconds = st.floats(1e-9, 1e3)


@st.composite
def convs(draw):
    groups = draw(st.sampled_from([1, 1, 2, 4]))
    kernel, dilation = draw(pairs), draw(pairs)
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    return ConvWorkload(
        batch=draw(st.integers(1, 8)),
        # Now and then as many groups as channels: depthwise, with a multiplier.
        in_channels=groups * draw(st.integers(1, 40)),
        height=reach[0] + draw(st.integers(0, 300)),
        width=reach[1] + draw(st.integers(0, 300)),
        out_channels=groups * draw(st.integers(1, 40)),
        kernel=kernel,
        stride=draw(pairs),
        padding=tuple(draw(st.lists(st.integers(0, 4), min_size=4, max_size=4))),
        dilation=dilation,
        groups=groups,
        types=draw(types),
    )


denses = st.builds(DenseWorkload, sizes, sizes, sizes, types)
blocks = st.integers(0, 64)
transforms = st.builds(TransformWorkload, sizes, sizes, sizes, sizes, blocks, blocks, types)
results = st.one_of(
    st.tuples(st.lists(seconds, max_size=6).map(tuple), st.just(0)),
    st.tuples(st.just(()), st.integers(1, 8)),
)


def blocks_of(channels: int) -> st.SearchStrategy[int]:
    return st.sampled_from(factors(channels))


def configs_of(workload) -> st.SearchStrategy:
    """Configs of every implementation that a log may hold for the workload."""
    if isinstance(workload, DenseWorkload):
        return st.builds(DenseConfig, counts, counts, counts)
    if isinstance(workload, TransformWorkload):
        return st.just(TransformConfig())
    reads = blocks_of(workload.in_channels // workload.groups)
    writes = blocks_of(workload.out_channels // workload.groups)
    if workload.groups == 1:
        reads = reads | st.just(0)
    lanes = st.sampled_from([0, 1024])
    direct = st.builds(ConvConfig, reads, writes, counts, flags, counts, counts, flags, lanes)
    if workload.is_depthwise:
        channels = st.builds(
            lambda ic_bn, *rest: DepthwiseConfig(ic_bn, ic_bn * workload.multiplier, *rest),
            *(blocks_of(workload.in_channels), counts, flags, counts, st.integers(0, 9)),
        )
        return direct | channels
    if workload.groups > 1:
        return direct
    tiles = st.sampled_from(TILES)
    winograd = st.builds(WinogradConfig, reads, writes, tiles, counts, counts, counts, flags)
    parts = blocks_of(workload.kernel[0] * workload.kernel[1])
    im2col = st.builds(Im2colConfig, reads, writes, counts, counts, flags, lanes, parts, counts)
    # F(6, 5) has more points than there are; tiles of several blocks are one core's.
    return direct | (im2col | winograd).filter(lambda config: fits(workload, config))


def fits(workload, config) -> bool:
    return implementation_of(config).misfit(workload, config) is None


@st.composite
def records(draw):
    workload = draw(st.one_of(convs(), denses, transforms))
    costs, error_no = draw(results)
    return Record(
        workload=workload,
        config=draw(configs_of(workload)),
        costs=costs,
        error_no=error_no,
        cpu=draw(st.text(max_size=20)),
        threads=draw(st.integers(0, 256)),
        all_cost=draw(st.floats(0, 1e4)),
        timestamp=draw(st.floats(0, 1e11)),
        readings=draw(st.integers(0, 9)),
    )


@given(records())
def test_decoding_undoes_encoding_exactly(record: Record) -> None:
    line = encode_record(record)
    assert "\n" not in line
    assert decode_record(parse_row(line)) == record


@given(st.text())
def test_no_text_does_anything_but_raise_a_line_error(text: str) -> None:
    with pytest.raises(LineError):
        decode_record(parse_row(text))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
paths = st.sampled_from(
    [
        ("input",),
        ("input", 0),
        ("input", 1),
        ("input", 2),
        ("input", 2, 0),
        ("input", 2, 0, 1, 1),
        ("input", 2, 0, 2),
        ("input", 2, 1),
        ("input", 2, 1, 1),
        ("input", 2, 3),
        ("config",),
        ("config", "entity"),
        ("config", "entity", 0),
        ("config", "entity", 0, 2),
        ("result",),
        ("result", 0),
        ("result", 1),
        ("result", 3),
        ("version",),
        ("neocpu",),
        ("neocpu", "threads"),
        ("neocpu", "groups"),
    ]
)


CONV = ConvWorkload(1, 64, 56, 56, 64, (3, 3))
DEPTHWISE = replace(CONV, groups=64)
LINES = [
    (CONV, ConvConfig(16, 16, 7)),
    (CONV, WinogradConfig(16, 16, 4, 7)),
    (CONV, Im2colConfig(16, 16, 7)),
    (DEPTHWISE, DepthwiseConfig(16, 16, 7)),
    (DenseWorkload(1, 64, 64), DenseConfig(16)),
    (TransformWorkload(1, 64, 56, 56, 0, 16), TransformConfig()),
]


@given(st.sampled_from(LINES), paths, json_values)
def test_any_value_anywhere_decodes_or_raises_a_line_error(
    line: tuple, path: tuple, value: object
) -> None:
    row = json.loads(encode_record(Record(*line, (1e-3,), "x", 2)))
    place = row
    for step in path[:-1]:
        assume(isinstance(place, dict) or (isinstance(place, list) and step < len(place)))
        place = place[step]
    assume(isinstance(place, dict | list))
    assume(isinstance(place, dict) or path[-1] < len(place))
    place[path[-1]] = value
    try:
        record = decode_record(parse_row(json.dumps(row)))
    except LineError:
        return
    assert math.isinf(record.seconds) or record.seconds > 0
    assert record.workload.min_bytes > 0


def test_a_failure_costs_what_autotvm_says(conv: ConvWorkload) -> None:
    record = Record(conv, ConvConfig(16, 16, 7), (), "znver4", 2, error_no=6)
    assert json.loads(encode_record(record))["result"][:2] == [[1e9], 6]


def test_the_target_names_the_cpu(conv: ConvWorkload) -> None:
    row = json.loads(encode_record(Record(conv, ConvConfig(16, 16, 7), (1e-3,), "znver4", 2)))
    assert row["input"][0] == "llvm -mcpu=znver4"
    assert row["neocpu"]["cpu"] == "znver4"
    assert row["version"] == 0.2


def tophub(assets):
    lines = (assets / "autotvm_tophub.log").read_text().splitlines()
    return [decode_record(parse_row(line)) for line in lines]


def test_a_tophub_record_reads_with_defaults_for_our_knobs(assets) -> None:
    stem = tophub(assets)[0]
    assert stem.workload == ConvWorkload(
        1, 3, 224, 224, 64, (7, 7), stride=(2, 2), padding=(3, 3, 3, 3)
    )
    assert stem.config == ConvConfig(3, 16, 28, unroll_ker=False)
    assert stem.seconds == 0.00065975
    assert (stem.cpu, stem.threads) == ("skylake-avx512", 0)


def test_a_tophub_1x1_record_tiles_rows(assets) -> None:
    assert tophub(assets)[1].config == ConvConfig(64, 16, 14, reg_m=2)


def test_two_element_padding_is_height_and_width(assets) -> None:
    assert tophub(assets)[2].workload.padding == (1, 1, 1, 1)


def test_a_failed_record_has_no_costs(assets) -> None:
    record = tophub(assets)[3]
    assert record.costs == ()
    assert not record.ok
    assert record.cpu == "core-avx2"


def test_tophub_depthwise_and_dense_read(assets) -> None:
    depthwise, dense = tophub(assets)[4:]
    assert depthwise.workload.is_depthwise
    assert depthwise.config == DepthwiseConfig(16, 16, 8)
    assert dense.workload == DenseWorkload(1, 2048, 1000)
    assert dense.config == DenseConfig(oc_bn=20, reg_n=1, unroll_k=8)


def test_a_depthwise_record_whose_blocks_hold_other_channels_is_not_ours(assets) -> None:
    line = (assets / "autotvm_tophub.log").read_text().splitlines()[4]
    with pytest.raises(LineError, match="oc_bn 16 is not ic_bn 8 times 1"):
        decode_record(
            parse_row(line.replace('"tile_ic", "sp", [-1, 16]', '"tile_ic", "sp", [-1, 8]'))
        )


def test_any_task_suffix_reads(assets) -> None:
    line = (assets / "autotvm_tophub.log").read_text().splitlines()[0]
    arm = decode_record(parse_row(line.replace("conv2d_NCHWc.x86", "conv2d_NCHWc.arm_cpu")))
    assert arm.config == tophub(assets)[0].config
