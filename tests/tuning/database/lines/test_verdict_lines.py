"""Verdicts and settled workloads: as lines and back, and what a history makes of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tvm_neocpu.core.errors import LineError
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.record import IN_NETWORK, Stamp
from tvm_neocpu.core.network.verdict import KEPT, Settled, Verdict
from tvm_neocpu.topi.batch_matmul.workload import MatmulWorkload
from tvm_neocpu.topi.conv2d.workload import ConvWorkload
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.topi.layout_transform.workload import TransformWorkload
from tvm_neocpu.tuning.database.history import History
from tvm_neocpu.tuning.database.lines.record_lines import parse_row
from tvm_neocpu.tuning.database.lines.staleness import settled_stamp, verdict_stamp
from tvm_neocpu.tuning.database.lines.verdict_lines import (
    decode_verdict,
    encode_settled,
    encode_verdict,
)
from tvm_neocpu.tuning.database.log import TuningLog

CONV = ConvWorkload(1, 64, 56, 56, 64, (3, 3), padding=(1, 1, 1, 1))
WORKLOADS = [
    CONV,
    replace(CONV, groups=4, dilation=(2, 1)),
    replace(CONV, groups=64),
    DenseWorkload(1, 64, 32),
    TransformWorkload(1, 64, 56, 56, 0, 16),
    MatmulWorkload((2, 8, 16), (2, 16, 4), (0, 1, 2), (0, 1, 2)),
]


def verdict_on(graph: str, **changes) -> Verdict:
    values = {
        "graph": graph,
        "cpu": "testcpu",
        "threads": 2,
        "plan": "0123456789ab",
        "ratio": 1.06,
        "low": 1.05,
        "high": 1.08,
        "candidates": 412,
        "timestamp": 12.5,
        **changes,
    }
    return Verdict(**values)


@pytest.fixture
def graph() -> ConvGraph:
    return ConvGraph((GraphNode("a", NodeKind.CONV, "conv", (1, 64, 56, 56), CONV),), ())


@pytest.fixture
def log(tmp_path) -> TuningLog:
    return TuningLog(tmp_path / "x.log")


def history(log: TuningLog, threads: int = 2, features: str = "") -> History:
    return History("testcpu", threads, (log.load(),), features=features)


@pytest.mark.parametrize("workload", WORKLOADS, ids=str)
def test_a_verdict_reads_as_it_was_written(workload) -> None:
    settled = Settled(workload, "testcpu", 2, 0.004, 31, 12.5, "83f1c0de")
    verdict = verdict_on("g", settled=(settled,), network="net", features="83f1c0de")
    read, of_line = decode_verdict(parse_row(encode_verdict(verdict)))
    assert read == verdict and of_line == (settled,)
    assert read.stamp == verdict_stamp() and of_line[0].stamp == settled_stamp(workload)
    alone = decode_verdict(parse_row(encode_settled(settled)))
    assert alone == (None, (settled,))


def test_a_stamp_stays_as_it_was() -> None:
    old = Stamp("11111111", "0.26.0", IN_NETWORK)
    read, _ = decode_verdict(parse_row(encode_verdict(verdict_on("g", stamp=old))))
    assert read.stamp == old
    _, (settled,) = decode_verdict(parse_row(encode_settled(Settled(CONV, "c", 2, 0.1, stamp=old))))
    assert settled.stamp == old


def test_old_tools_skip_the_lines() -> None:
    for line in (encode_verdict(verdict_on("g")), encode_settled(Settled(CONV, "c", 2, 0.1))):
        row = json.loads(line)
        assert row["result"][:2] == [[1e9], 8]
        assert len(row["input"]) == 4 and row["config"]["entity"] == []


@pytest.mark.parametrize("key", ["graph", "plan", "ratio", "low", "high", "candidates", "template"])
def test_a_verdict_that_lacks_something_is_none(key) -> None:
    row = json.loads(encode_verdict(verdict_on("g")))
    del row["neocpu"]["verdict"][key]
    with pytest.raises(LineError):
        decode_verdict(row)


def test_the_last_verdict_counts_for_its_graph_cpu_and_thread_count(log, graph) -> None:
    for plan in ("aaaaaaaaaaaa", KEPT):
        log.append_verdict(verdict_on(graph.hash, plan=plan))
    log.append_verdict(verdict_on(graph.hash, threads=4))
    log.append_verdict(verdict_on("other"))
    found = history(log).verdict(graph)
    assert found is not None and found.kept and found.threads == 2
    assert history(log, threads=8).verdict(graph) is None
    assert not history(log, threads=4).verdict(graph).kept


def test_a_stale_verdict_is_none_even_if_an_older_one_is_not(log, graph) -> None:
    log.append_verdict(verdict_on(graph.hash))
    log.append_verdict(verdict_on(graph.hash, stamp=Stamp("11111111", "0.26.0", IN_NETWORK)))
    assert history(log).verdict(graph) is None


def test_what_is_settled_in_one_network_is_settled_in_all(log, graph) -> None:
    settled = Settled(CONV, "testcpu", 2, 0.004)
    log.append_verdict(verdict_on("another network", settled=(settled,)))
    log.append_settled(Settled(WORKLOADS[3], "testcpu", 2, 0.02))
    found = history(log)
    assert found.noise(CONV) is not None and found.noise(WORKLOADS[3]) is not None
    assert (found.noise(CONV), found.noise(WORKLOADS[3])) == (0.004, 0.02)
    assert found.noise(WORKLOADS[1]) is None


def test_of_several_networks_the_one_that_looked_closest_counts(log) -> None:
    for noise in (0.03, 0.002, 0.01):
        log.append_settled(Settled(CONV, "testcpu", 2, noise))
    assert history(log).noise(CONV) == 0.002


@pytest.mark.parametrize(
    "changes",
    [
        {"threads": 4},
        {"cpu": "other"},
        {"features": "22222222"},
        {"stamp": replace(settled_stamp(CONV), template="11111111")},
        {"stamp": replace(settled_stamp(CONV), tvm="0.26.0")},
        {"stamp": replace(settled_stamp(CONV), protocol=99)},
    ],
)
def test_what_was_settled_elsewhere_is_open(log, changes) -> None:
    log.append_settled(replace(Settled(CONV, "testcpu", 2, 0.004), **changes))
    assert history(log, features="11111111").noise(CONV) is None


def test_the_log_says_the_features_where_a_line_does_not(tmp_path, make_record, graph) -> None:
    log = TuningLog(tmp_path / "x.log", "83f1c0de")
    log.append_settled(Settled(CONV, "testcpu", 2, 0.004))
    log.append_verdict(verdict_on(graph.hash, features="22222222"))
    found = log.load()
    assert found.settled[0].features == "83f1c0de"
    assert found.verdicts[0].features == "22222222"
