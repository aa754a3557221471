"""Reading the log file: lines of every past version load, others are skipped by file and line."""

from __future__ import annotations

import json
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm

from tvm_neocpu.core.errors import LogError
from tvm_neocpu.core.network.layout import Layout
from tvm_neocpu.core.network.record import Record, Stamp
from tvm_neocpu.targets import parse_target
from tvm_neocpu.topi.conv2d.reference import convolved
from tvm_neocpu.topi.conv2d_depthwise.geometry import DepthwiseConfig
from tvm_neocpu.topi.conv2d_depthwise.implementation import DEPTHWISE
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.conv2d_im2col.geometry import Im2colConfig
from tvm_neocpu.topi.conv2d_winograd.geometry import WinogradConfig
from tvm_neocpu.topi.conv2d_winograd.space import TILE_LIMIT
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.kernel import kernel
from tvm_neocpu.topi.layout_transform.geometry import TransformConfig
from tvm_neocpu.tuning.database.lines.plan_lines import PlanKey
from tvm_neocpu.tuning.database.lines.record_lines import encode_record
from tvm_neocpu.tuning.database.lines.staleness import record_stamp
from tvm_neocpu.tuning.database.log import TuningLog, TuningLogWarning, load_log


def test_a_log_that_does_not_exist_yet_is_empty(tmp_path) -> None:
    assert TuningLog(tmp_path / "x.log").load().records == ()


def test_a_missing_log_that_was_named_is_an_error(tmp_path) -> None:
    with pytest.raises(LogError, match=r"nowhere\.log"):
        load_log(tmp_path / "nowhere.log")
    with pytest.raises(LogError, match="directory"):
        load_log(tmp_path)


def test_a_record_carries_its_stamp(tmp_path, make_record) -> None:
    path = tmp_path / "x.log"
    log = TuningLog(path, "83f1c0de")
    config = ConvConfig(8, 8, 7)
    old = Stamp("11111111", "0.26.0", 2)
    log.append(make_record(config))
    log.append(make_record(config, stamp=old, features="22222222"))
    log.append(make_record(config, stamp=Stamp()))
    found = log.load().records
    assert [record.stamp for record in found] == [record_stamp(config), old, Stamp()]
    assert [record.features for record in found] == ["83f1c0de", "22222222", "83f1c0de"]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows[0]["neocpu"]["protocol"] == 1 and len(rows[0]["neocpu"]["template"]) == 8
    assert rows[1]["tvm_version"] == "0.26.0"
    assert not {"template", "protocol"} & rows[2]["neocpu"].keys()


def test_foreign_lines_are_skipped_with_one_warning_that_names_them(assets) -> None:
    path = assets / "damaged.log"
    with pytest.warns(TuningLogWarning) as caught:
        contents = load_log(path)
    assert len(contents.records) == 1
    assert [where.rpartition(":")[2] for where, _ in contents.skipped] == [
        *("2", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14")
    ]
    (warning,) = caught
    text = str(warning.message)
    assert "damaged.log:2: not JSON, perhaps torn" in text
    assert "damaged.log:4: not UTF-8 text" in text
    assert text.endswith("and 7 more")
    assert Path(warning.filename) == Path(__file__)


def test_reasons_say_what_is_wrong(assets) -> None:
    with pytest.warns(TuningLogWarning):
        skipped = load_log(assets / "damaged.log").skipped
    reasons = {where.rpartition(":")[2]: why for where, why in skipped}
    assert reasons["7"] == "unknown template 'conv2d_nchw'"
    assert reasons["8"] == "format version 0.3 is newer than 0.2"
    assert reasons["10"] == "no value for oc_bn, reg_n"
    assert reasons["11"] == "unknown knob 'warp' of conv2d_NCHWc"
    assert reasons["12"] == "mixed types int8, int8 -> int32"


def test_logs_of_every_version_load_without_a_warning(assets) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = load_log(assets / "neocpu_0.1.0.log")
        theirs = load_log([assets / "autotvm_tophub.log"])
    assert [record.config for record in ours.records] == [
        ConvConfig(16, 32, 14, oh_bn=4),
        ConvConfig(0, 32, 14, unroll_ker=False),
        ConvConfig(32, 32, 7, reg_m=2, parallel_oc=True),
        DepthwiseConfig(16, 16, 8, reg_m=2),
        DenseConfig(40),
        TransformConfig(),
        DepthwiseConfig(16, 32, 7),
        DepthwiseConfig(32, 32, 7),
    ]
    assert [record.threads for record in ours.records] == [2, 2, 2, 2, 1, 2, 2, 2]
    assert [k for k, record in enumerate(ours.records) if not record.ok] == [2]
    plan = ours.plans[PlanKey("00112233aabbccdd", "znver4", 2)]
    assert plan.configs["conv_b"] == WinogradConfig(32, 32, 4, 14)
    assert plan.joins == {"add_c": Layout(32)}
    assert (plan.seconds, plan.method) == (0.0021, "dp")
    assert len(theirs.records) == 6


def test_an_autotvm_depthwise_record_of_two_outputs_a_channel_reads_16_channels_into_32(
    assets,
) -> None:
    path = assets / "autotvm_depthwise_multiplier.log"
    with pytest.warns(TuningLogWarning) as caught:
        (record,) = load_log(path).records
    conv, config = record.workload, record.config
    assert (conv.in_channels, conv.out_channels, conv.groups) == (32, 64, 32)
    assert config == DepthwiseConfig(ic_bn=16, oc_bn=32, reg_n=7)
    (warning,) = caught
    assert str(warning.message) == (
        f"skipped {path}:3: its config does not fit {conv}: its oc_bn 16 is not ic_bn 16 times 2"
    )


def test_that_record_computes_the_convolution(assets) -> None:
    with pytest.warns(TuningLogWarning):
        (record,) = load_log(assets / "autotvm_depthwise_multiplier.log").records
    conv, config = record.workload, record.config
    target = parse_target()
    rng = np.random.default_rng(0)
    data = rng.standard_normal(conv.in_shape).astype("float32")
    weight = rng.standard_normal(conv.weight_shape).astype("float32")
    stored = data.reshape(1, 2, 16, 14, 14).transpose(0, 1, 3, 4, 2)
    packed = DEPTHWISE.pack_weight(weight, conv, config)
    output = tvm.runtime.tensor(np.zeros((1, 2, 14, 14, 32), "float32"))
    tensors = [np.ascontiguousarray(stored), packed, np.zeros((1, 2, 1, 1, 32), "float32")]
    module = tvm.compile(kernel(conv, config, target.cpu), target=target.target)
    module["main"](*map(tvm.runtime.tensor, tensors), output)
    found = output.numpy().transpose(0, 1, 4, 2, 3).reshape(conv.out_shape)
    expected = np.maximum(convolved(conv, data, weight), 0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def edited(path: Path, record: Record, **knobs: int) -> None:
    """Append the record's line with other values of some knobs, as another hand wrote it."""
    row = json.loads(encode_record(record))
    entity = row["config"]["entity"]
    row["config"]["entity"] = [[n, kind, knobs.get(n, value)] for n, kind, value in entity]
    with path.open("a") as log:
        log.write(json.dumps(row) + "\n")


@pytest.mark.parametrize(
    ("config", "knob", "reason"),
    [
        (WinogradConfig(16, 16, 4, 7), {"tile": 9}, "there are no tiles of 9"),
        (WinogradConfig(16, 16, 4, 7), {"oc_bn": 24}, "its oc_bn 24 does not divide 64 channels"),
        (WinogradConfig(16, 16, 4, 7), {"reg_n": 0}, "its register tiles or chunks are empty"),
        (ConvConfig(16, 16, 7), {"oh_bn": 0}, "its tiles are empty"),
        (ConvConfig(16, 16, 7), {"oc_lanes": 8}, "its 8 lanes are fewer than oc_bn"),
        (Im2colConfig(16, 16, 7), {"tiles": 0}, "its tiles are empty"),
    ],
)
def test_a_config_that_cannot_compute_its_workload_is_skipped_by_file_and_line(
    config, knob, reason, tmp_path, make_record
) -> None:
    path = tmp_path / "x.log"
    edited(path, make_record(config))
    edited(path, make_record(config), **knob)
    with pytest.warns(TuningLogWarning) as caught:
        contents = load_log(path)
    assert [record.config for record in contents.records] == [config]
    (warning,) = caught
    assert f"skipped {path}:2: its config does not fit" in str(warning.message)
    assert reason in str(warning.message)


@pytest.mark.parametrize("stride", [2**16 + 1, 10**8, 2**40, 2**63], ids=str)
def test_a_stride_without_end_is_skipped(stride, tmp_path, make_record) -> None:
    """Matrices of Winograd's would have as many columns."""
    path = tmp_path / "x.log"
    line = json.loads(encode_record(make_record(WinogradConfig(16, 16, 4, 7))))
    line["input"][2][2] = [stride, stride]
    path.write_text(json.dumps(line) + "\n")
    with pytest.warns(TuningLogWarning, match=f"x.log:1: {stride} is not a size"):
        assert not load_log(path).records


@pytest.mark.parametrize("limit", ["0", "2", "4", "6"])
def test_reading_asks_no_environment_that_may_change_before_the_build(
    limit, tmp_path, make_record, monkeypatch
) -> None:
    log = TuningLog(tmp_path / "x.log")
    log.append(make_record(WinogradConfig(16, 16, 6, 7)))
    monkeypatch.setenv(TILE_LIMIT, limit)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(log.load().records) == 1


def test_records_of_a_template_that_nobody_registered_are_skipped_line_by_line(
    tmp_path, make_record, fancy, registered
) -> None:
    path = tmp_path / "x.log"
    config = fancy.config_type(8, 16)
    with registered(fancy):
        for made in (config, ConvConfig(8, 8, 7), replace(config, fold=False)):
            TuningLog(path).append(make_record(made))
        assert len(load_log(path).records) == 3
    with pytest.warns(TuningLogWarning) as caught:
        contents = load_log(path)
    assert [record.config for record in contents.records] == [ConvConfig(8, 8, 7)]
    why = "unknown template 'conv2d_fancy'"
    assert contents.skipped == ((f"{path}:1", why), (f"{path}:3", why))
    (warning,) = caught
    assert str(warning.message) == f"skipped {path}:1: {why}; {path}:3: {why}"


def test_several_logs_read_in_their_order(assets, tmp_path, make_record) -> None:
    log = TuningLog(tmp_path / "x.log")
    log.append(make_record(ConvConfig(8, 8, 7)))
    contents = load_log([assets / "autotvm_tophub.log", log.path])
    assert contents.records[-1].config == ConvConfig(8, 8, 7)
    assert contents.paths == (assets / "autotvm_tophub.log", log.path)


def test_a_large_log_loads_quickly(tmp_path, make_record) -> None:
    path = tmp_path / "x.log"
    line = encode_record(make_record(ConvConfig(8, 8, 7))) + "\n"
    path.write_text(line * 30_000)
    start = time.process_time()
    assert len(load_log(path).records) == 30_000
    assert time.process_time() - start < 5
