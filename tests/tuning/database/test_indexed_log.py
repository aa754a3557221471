"""A log that is read piece by piece says what a log read whole says."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from how_many import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tvm_neocpu.core.errors import LogError
from tvm_neocpu.core.network.conv_graph import ConvGraph, GraphNode, NodeKind
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.core.network.verdict import KEPT, Settled, Verdict
from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.topi.dense.geometry import DenseConfig
from tvm_neocpu.topi.dense.workload import DenseWorkload
from tvm_neocpu.tuning.database.index import index_file
from tvm_neocpu.tuning.database.indexed_log import IndexedLog
from tvm_neocpu.tuning.database.lines.plan_lines import PlanKey
from tvm_neocpu.tuning.database.lines.record_lines import encode_record
from tvm_neocpu.tuning.database.lines.record_reader import RecordReader
from tvm_neocpu.tuning.database.log import TuningLog, TuningLogWarning, load_log

A, B = ConvConfig(8, 16, 7), ConvConfig(16, 16, 14)
DENSE = DenseWorkload(1, 64, 64)


@pytest.fixture
def graph(conv) -> ConvGraph:
    return ConvGraph((GraphNode("a", NodeKind.CONV, "conv", (1, 64, 56, 56), conv),), ())


@pytest.fixture
def log(tmp_path, make_record, conv, graph) -> Path:
    """A line of every kind, and some that are none."""
    log = TuningLog(tmp_path / "x.log")
    log.append(make_record(A, 2e-3))
    log.append(make_record(DenseConfig(16), workload=DENSE, threads=1))
    log.append_plan(Plan(graph.hash, {"a": A}), graph, "testcpu", 2)
    with log.path.open("ab") as file:
        file.write(
            b"# a comment\n\n\xff\xfe\n{}\n" + b"[" * 50_000 + b"\n" + b"x" * 300_000 + b"\n"
        )
        file.write(encode_record(make_record(B)).replace("[0.001]", "[NaN]").encode() + b"\n")
        file.write(encode_record(make_record(A)).replace('"sp"', '"xx"').encode() + b"\n")
    log.append_verdict(Verdict(graph.hash, "testcpu", 2, KEPT, 1.0, 0.99, 1.01, 7))
    log.append_settled(Settled(conv, "testcpu", 2, 0.01))
    log.append(make_record(B, 1e-3))
    return log.path


def read_whole(log: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningLogWarning)
        return load_log(log)


@pytest.fixture(params=[1, 1 << 40])
def opened(request, log, monkeypatch) -> IndexedLog:
    """With an index file and without one."""
    monkeypatch.setattr(index_file, "MIN_BYTES", request.param)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningLogWarning)
        IndexedLog(log)
        return IndexedLog(log)


@pytest.mark.filterwarnings("ignore::tvm_neocpu.tuning.database.log.TuningLogWarning")
def test_it_says_what_a_log_read_whole_says(log, opened, conv, graph) -> None:
    whole = read_whole(log)
    assert set(opened.workloads()) == set(whole.workloads()) == {conv, DENSE}
    for workload in (conv, DENSE):
        assert list(opened.of(workload)) == list(whole.of(workload)) != []
    assert sorted(map(str, opened.records)) == sorted(map(str, whole.records))
    assert opened.machines == whole.machines == {("testcpu", 2), ("testcpu", 1)}
    assert opened.plan_keys == whole.plan_keys
    key = PlanKey(graph.hash, "testcpu", 2)
    assert opened.plan(key) == whole.plan(key) is not None
    assert opened.plan(PlanKey("other", "testcpu", 2)) is None
    assert opened.verdicts == whole.verdicts and len(whole.verdicts) == 1
    assert opened.settled == whole.settled and len(whole.settled) == 1
    assert sorted(opened.skipped) == sorted(whole.skipped) and len(whole.skipped) == 6
    assert opened.of(replace(conv, batch=9)) == ()


def test_lines_known_to_be_bad_are_named_at_once_others_when_asked_for(log, conv) -> None:
    with pytest.warns(TuningLogWarning) as caught:
        opened = IndexedLog(log)
    (warning,) = caught
    assert Path(warning.filename) == Path(__file__)
    bad = [where.rpartition(":")[2] for where, _ in opened.skipped]
    assert bad == ["7", "8", "9", "10"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened.of(DENSE)
    with pytest.warns(TuningLogWarning, match=r"x\.log:11: .*x\.log:12: "):
        opened.of(conv)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened.of(conv)


def test_only_what_is_asked_for_is_parsed(tmp_path, make_record, conv, monkeypatch) -> None:
    path = tmp_path / "x.log"
    many = "".join(
        encode_record(make_record(A, workload=replace(conv, height=56 + k // 100))) + "\n"
        for k in range(3000)
    )
    path.write_text(many)
    parsed = []
    read = RecordReader.read
    monkeypatch.setattr(RecordReader, "read", lambda *all: parsed.append(1) or read(*all))
    opened = IndexedLog(path)
    assert len(opened.workloads()) == 30 and sum(opened.counts().values()) == 3000
    assert not parsed
    assert len(opened.of(conv)) == len(parsed) == 100


def test_a_log_that_is_replaced_meanwhile_reads_as_it_was(tmp_path, make_record, conv) -> None:
    log = TuningLog(tmp_path / "x.log")
    for config in (A, B):
        log.append(make_record(config))
    opened = IndexedLog(log.path)
    log.rewrite(lambda old: list(old)[1:])
    log.append(make_record(A, 5e-3))
    assert [record.config for record in opened.of(conv)] == [A, B]
    assert [record.config for record in IndexedLog(log.path).of(conv)] == [B, A]


def test_its_file_is_closed_with_it(log) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningLogWarning)
        opened = IndexedLog(log)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del opened
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_log_that_cannot_be_read_is_an_error(tmp_path) -> None:
    for path in (tmp_path / "nowhere.log", tmp_path):
        with pytest.raises(LogError, match="cannot read the tuning log"):
            IndexedLog(path)


GOOD = b'{"input": ["llvm", "dense_pack.x86", [["TENSOR", [1, 64], "float32"], ["TENSOR", '
pieces = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20).map(str.encode),
    st.sampled_from(
        [
            b"\n",
            b"\r",
            b'{"input": [',
            GOOD,
            b', "config": {',
            b', "result": [[NaN], 0, 1, 2]',
        ]
    ),
    st.sampled_from([b', "tvm_version": "', b'"neocpu": {"plan": {}}', b"[" * 3000, b"9" * 5000]),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_file_does_anything_but_skip_lines(tmp_path, make_record, conv, data) -> None:
    """Whatever stands between two records, both are found and no line is lost silently."""
    path = tmp_path / "x.log"
    between = b"".join(data.draw(st.lists(pieces, max_size=10)))
    content = encode_record(make_record(A)).encode() + b"\n" + between + b"\n"
    path.write_bytes(content + encode_record(make_record(B)).encode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningLogWarning)
        opened, whole = IndexedLog(path), load_log(path)
        assert [record.config for record in opened.of(conv)] == [A, B]
        assert set(opened.records) == set(whole.records)
        assert set(opened.skipped) == set(whole.skipped)
    assert all(len(why) <= 200 and "\n" not in why for _, why in whole.skipped)
    said = [
        line for line in between.split(b"\n") if line.strip() and not line.strip().startswith(b"#")
    ]
    assert len(whole.skipped) == len(said)


LINE_KINDS = ["record", "plan", "verdict", "settled"]


@pytest.mark.parametrize("kind", LINE_KINDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60))
@given(
    value=st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.lists(st.none(), max_size=2)
    | st.dictionaries(st.text(max_size=2), st.none(), max_size=1),
    data=st.data(),
)
def test_any_value_anywhere_in_our_key_is_read_or_skipped(
    kind, value, data, tmp_path, make_record, conv, graph
) -> None:
    path = tmp_path / f"{kind}.log"
    path.unlink(missing_ok=True)
    log = TuningLog(path, "83f1c0de")
    if kind == "record":
        log.append(make_record(A))
    elif kind == "plan":
        log.append_plan(Plan(graph.hash, {"a": A}), graph, "testcpu", 2)
    else:
        settled = Settled(conv, "testcpu", 2, 0.01)
        verdict = Verdict(graph.hash, "testcpu", 2, KEPT, 1.0, 0.99, 1.01, 7, (settled,))
        log.append_verdict(verdict) if kind == "verdict" else log.append_settled(settled)
    lines = path.read_text().splitlines()
    row = json.loads(lines[-1])
    place = row["neocpu"]
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not (isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans())):
            break
        place = place[key]
    place[key] = value
    path.write_text("\n".join([*lines[:-1], json.dumps(row)]) + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningLogWarning)
        whole = load_log(path)
        opened = IndexedLog(path)
        assert opened.verdicts == whole.verdicts and opened.settled == whole.settled
        assert {k: p for k in opened.plan_keys if (p := opened.plan(k))} == dict(whole.plans)
        assert set(opened.records) == set(whole.records)
