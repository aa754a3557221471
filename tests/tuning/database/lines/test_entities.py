"""Configs as AutoTVM's entity lists: its names for the knobs that it had, ours for the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.network.config import Config
from tvm_neocpu.core.network.workload import Workload
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.tuning.database.lines.entities import decode_config, encode_config

CONV = ConvWorkload(1, 64, 56, 56, 64, (3, 3))
DEPTHWISE = ConvWorkload(1, 64, 56, 56, 128, (3, 3), groups=64)
DENSE = DenseWorkload(1, 64, 64)
PAIRS: list[tuple[Workload, Config]] = [
    (CONV, ConvConfig(16, 32, 14, unroll_ker=False, reg_m=2)),
    (replace(CONV, kernel=(1, 1)), ConvConfig(16, 32, 14, reg_m=2)),
    (CONV, ConvConfig(0, 32, 14, oc_lanes=48)),
    (CONV, WinogradConfig(16, 16, 4, 7, parallel_oc=True)),
    (CONV, Im2colConfig(16, 16, 7)),
    (CONV, Im2colConfig(16, 16, 7, parts=3, reg_o=2)),
    (DEPTHWISE, DepthwiseConfig(16, 32, 7, oh_bn=4)),
    (DEPTHWISE, DepthwiseConfig(16, 32, 7, reg_c=8)),
    (DENSE, DenseConfig(16, unroll_k=8)),
]


@pytest.mark.parametrize(("workload", "config"), PAIRS)
def test_decoding_undoes_encoding(workload: Workload, config: Config) -> None:
    assert decode_config(config.template, encode_config(config, workload)) == config


def entities_of(workload: Workload, config: Config) -> dict[str, Any]:
    return {name: value for name, _, value in encode_config(config, workload)}


def test_old_tools_find_the_knobs_they_know() -> None:
    knobs = entities_of(CONV, ConvConfig(16, 32, 14, unroll_ker=False, reg_m=2))
    assert knobs["tile_ic"] == [-1, 16]
    assert knobs["tile_oc"] == [-1, 32]
    assert knobs["tile_ow"] == [-1, 14]
    assert knobs["unroll_kw"] is False
    assert knobs["reg_m"] == 2


def test_a_1x1_config_says_tile_oh_where_others_unroll() -> None:
    knobs = entities_of(replace(CONV, kernel=(1, 1)), ConvConfig(16, 32, 14, reg_m=2))
    assert knobs["tile_oh"] == 2
    assert "unroll_kw" not in knobs
    assert knobs["unroll_ker"] is True


def test_plain_nchw_is_nchw1c_to_old_tools() -> None:
    knobs = entities_of(CONV, ConvConfig(0, 32, 14))
    assert knobs["tile_ic"] == [-1, 1]
    assert knobs["ic_bn"] == 0


def test_depthwise_says_both_of_its_blocks() -> None:
    knobs = entities_of(DEPTHWISE, DepthwiseConfig(16, 32, 7))
    assert (knobs["tile_ic"], knobs["tile_oc"]) == ([-1, 16], [-1, 32])
    assert "multiplier" not in knobs


def test_a_line_older_than_a_knob_has_its_default() -> None:
    config = Im2colConfig(16, 16, 7, parts=3)
    older = [entity for entity in encode_config(config, CONV) if entity[0] != "parts"]
    assert decode_config(config.template, older) == replace(config, parts=1)


def test_a_new_template_is_written_under_its_own_names(fancy, registered) -> None:
    config = fancy.config_type(8, 16, fold=False)
    with registered(fancy):
        assert entities_of(CONV, config) == {"ic_bn": 8, "oc_bn": 16, "fold": False}
        assert decode_config("conv2d_fancy", encode_config(config, CONV)) == config
    with pytest.raises(LineError, match="unknown template 'conv2d_fancy'"):
        decode_config("conv2d_fancy", [])


def depthwise_of_0_1(oc_bn: int, multiplier: int) -> list[Any]:
    """What version 0.1 wrote: the output's block under both of AutoTVM's names."""
    return [
        ["tile_ic", "sp", [-1, oc_bn]],
        ["tile_oc", "sp", [-1, oc_bn]],
        ["tile_ow", "sp", [-1, 7]],
        ["unroll_kw", "ot", True],
        ["reg_m", "ot", 1],
        ["oh_bn", "ot", 0],
        ["multiplier", "ot", multiplier],
    ]


@pytest.mark.parametrize(("oc_bn", "multiplier", "ic_bn"), [(32, 2, 16), (32, 1, 32), (48, 3, 16)])
def test_a_multiplier_of_version_0_1_says_the_inputs_block(
    oc_bn: int, multiplier: int, ic_bn: int
) -> None:
    found = decode_config("depthwise_conv2d_NCHWc", depthwise_of_0_1(oc_bn, multiplier))
    assert found == DepthwiseConfig(ic_bn, oc_bn, 7)


def test_a_multiplier_without_a_block_is_a_line_error() -> None:
    with pytest.raises(LineError):
        decode_config("depthwise_conv2d_NCHWc", [["multiplier", "ot", 2]])


@pytest.mark.parametrize(
    ("entities", "reason"),
    [
        (None, "is not a list"),
        ([["tile_ic", "sp"]], r"is not \[name, kind, value\]"),
        ([["tile_ic", "an", 16]], "cannot read knob 'tile_ic' of kind 'an'"),
        ([["tile_ic", "sp", []]], "cannot read knob 'tile_ic'"),
        ([["tile_ic", "ot", -1]], "knob 'tile_ic' cannot be -1"),
        ([["tile_ic", "ot", "16"]], "knob 'tile_ic' cannot be '16'"),
        ([["tile_ic", "ot", True]], "knob 'ic_bn' cannot be True"),
        ([["warp", "ot", 32]], "unknown knob 'warp'"),
        ([["tile_ic", "ot", 16]], "no value for oc_bn, reg_n"),
        ([["tile_oh", "ot", 2], ["tile_oh", "ot", 4]], "no reg_m can be both 2 and 4"),
    ],
)
def test_entities_that_are_no_config_say_why(entities: Any, reason: str) -> None:
    with pytest.raises(LineError, match=reason):
        decode_config("conv2d_NCHWc", entities)


@given(
    st.sampled_from(PAIRS),
    st.sampled_from(["multiplier", "tile_oc", "tile_ow", "tile", "oc_bn", "ic_bn", "reg_n"]),
    st.integers(-1, 99) | st.booleans(),
    st.booleans(),
)
def test_any_knob_anywhere_decodes_or_raises_a_line_error(
    pair: tuple[Workload, Config], name: str, value: int | bool, others: bool
) -> None:
    workload, config = pair
    kept = [entity for entity in encode_config(config, workload) if entity[0] != name and others]
    try:
        found = decode_config(config.template, [*kept, [name, "ot", value]])
    except LineError:
        return
    assert type(found) is type(config)
