"""What prune drops, and what it never drops."""

from __future__ import annotations

import pytest

from tvm_neocpu.core.errors import LogError
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.record import Stamp
from tvm_neocpu.core.network.verdict import KEPT, Settled, Verdict
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.database.indexed_log import IndexedLog
from tvm_neocpu.tuning.database.lines.record_lines import encode_hint
from tvm_neocpu.tuning.database.lines.staleness import record_stamp
from tvm_neocpu.tuning.database.log import TuningLog
from tvm_neocpu.tuning.database.upkeep.prune import prune_log

A, B, C = ConvConfig(8, 16, 7), ConvConfig(8, 16, 14), ConvConfig(16, 16, 14)
OLD = Stamp("11111111", "0.26.0", 1)


@pytest.fixture
def log(tmp_path) -> TuningLog:
    return TuningLog(tmp_path / "x.log")


def test_of_records_the_last_good_one_of_each_config_and_machine_stays(log, make_record) -> None:
    placed = Stamp(record_stamp(A).template, record_stamp(A).tvm, 2)
    records = [
        make_record(A, 3e-3),  # duplicate of the next but one
        make_record(B, stamp=OLD),  # stale
        make_record(A, 2e-3),
        make_record(A, 1e-3, threads=1),
        make_record(A, 1e-3, cpu="other"),
        make_record(A, 1e-3, features="22222222"),
        make_record(A, 1e-3, stamp=placed),
        make_record(C, costs=(), error_no=4),  # failed
    ]
    for record in records:
        log.append(record)
    found = prune_log(log)
    assert found.dropped == {"duplicate": 1, "stale": 1, "failed": 1} and found.kept == 5
    assert log.load().records == tuple(records[2:7])
    assert prune_log(log).dropped.total() == 0


def test_all_that_is_no_record_stays(log, make_record, conv) -> None:
    graph = ConvGraph((GraphNode("a", NodeKind.CONV, "conv", (1, 64, 56, 56), conv),), ())
    plan = Plan(graph.hash, {"a": A})
    log.append_plan(plan, graph, "testcpu", 2)
    log.append_lines(["# a comment", encode_hint(make_record(B, stamp=Stamp()), "skylake")])
    log.append_lines(['{"input": ["llvm", "conv2d_of_a_plug_in", [], {}], "version": 0.2}'])
    log.append_verdict(Verdict(graph.hash, "testcpu", 2, KEPT, 1.0, 0.9, 1.1, 3, stamp=OLD))
    log.append_settled(Settled(conv, "testcpu", 2, 0.01, stamp=OLD))
    before = log.path.read_bytes()
    with log.path.open("ab") as file:
        file.write(b"\xff\n" + b"x" * 300_000 + b'\n{"input": ')
    assert prune_log(log).dropped == {"torn": 3}
    assert log.path.read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [b"\0" * 99, b"\x89PNG\r\n\x1a\n", b'{\n  "a": 1\n}\n', b"text\n", b"# Title\n\ntext\n"],
)
def test_a_file_without_a_line_of_a_log_stays_as_it_is(log, content: bytes) -> None:
    log.path.write_bytes(content)
    with pytest.raises(LogError, match="is no tuning log: nothing was changed"):
        prune_log(log)
    assert log.path.read_bytes() == content


def test_a_build_that_has_the_log_open_reads_it_as_it_was(log, make_record, conv) -> None:
    for seconds in (2e-3, 1e-3):
        log.append(make_record(A, seconds))
    opened = IndexedLog(log.path)
    log.path.chmod(0o640)
    prune_log(log)
    assert len(opened.of(conv)) == 2 and len(IndexedLog(log.path).of(conv)) == 1
    assert log.path.stat().st_mode & 0o777 == 0o640


def test_a_link_to_a_log_stays_a_link(log, make_record) -> None:
    for _ in range(2):
        log.append(make_record(A, 2e-3))
    link = log.path.with_name("link.log")
    link.symlink_to(log.path.name)
    assert prune_log(TuningLog(link)).dropped == {"duplicate": 1}
    assert link.is_symlink() and len(TuningLog(log.path).load().records) == 1
