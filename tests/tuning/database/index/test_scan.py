"""The index of a file: where its lines are, and what they are about."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_neocpu.topi.conv2d_direct.geometry import ConvConfig
from tvm_neocpu.tuning.database.index import scan as scanning
from tvm_neocpu.tuning.database.index.lines import MAX_LINE
from tvm_neocpu.tuning.database.index.scan import scan
from tvm_neocpu.tuning.database.lines.record_lines import encode_record

A, B = ConvConfig(8, 16, 7), ConvConfig(16, 16, 14)


@pytest.fixture
def line(make_record) -> bytes:
    return encode_record(make_record(A)).encode() + b"\n"


def scanned(content: bytes) -> list[str]:
    """What each line is about."""
    index = scan(io.BytesIO(content))
    assert index.end == len(content)
    return [index.texts[place] for place in index.about]


def test_lines_of_one_session_are_about_one_thing(make_record, conv) -> None:
    records = [make_record(config, 1e-3 * k) for k, config in enumerate((A, B, A), 1)]
    found = scanned("".join(encode_record(record) + "\n" for record in records).encode())
    assert len(found) == 3 and len(set(found)) == 1
    about = json.loads(found[0])
    assert about["input"][2] == json.loads(json.dumps(conv.args()))
    assert about["neocpu"]["threads"] == 2


def test_most_lines_are_not_parsed(line, monkeypatch) -> None:
    parsed = []
    parse = scanning.parse_line
    monkeypatch.setattr(scanning, "parse_line", lambda text: parsed.append(text) or parse(text))
    scanned(line * 100)
    assert len(parsed) == 1


def test_every_kind_of_line(line) -> None:
    autotvm = b'{"input": ["llvm", "dense_pack.x86", [], {}], "config": {}, "result": []}\n'
    too_long = b'{"input": "' + b"x" * MAX_LINE + b'"}\n'
    found = scanned(b"".join([b"\n", b"# no\n", line, line[:90] + b"\n", autotvm, too_long, line]))
    assert found[:2] == ["", ""]
    assert found[2] == found[6]
    assert found[3] == "!not JSON, perhaps torn"
    assert json.loads(found[4])["input"][1] == "dense_pack.x86"
    assert found[5] == "!longer than 256 KiB"


def test_a_line_joined_to_a_torn_one_is_no_third_one(line) -> None:
    """The begin of the one and the end of the other look like a line; who takes it parses it."""
    found = scanned(line[: line.index(b"entity")] + line)
    assert found[0].startswith("{")


pieces = st.one_of(
    st.binary(max_size=30),
    st.sampled_from([b"\n", b'{"input": ', b', "config": ', b', "tvm_version": ', b"}", b"[" * 99]),
)


@given(st.lists(pieces, max_size=12).map(b"".join), st.integers(0, 200))
def test_a_file_scanned_in_two_steps_is_scanned(content: bytes, at: int) -> None:
    at = content.rfind(b"\n", 0, at) + 1
    whole = scan(io.BytesIO(content))
    part = scan(io.BytesIO(content[:at]))
    both = scan(io.BytesIO(content), part)
    assert both.texts == whole.texts
    assert both.about.tolist() == whole.about.tolist()
    assert both.offsets.tolist() == whole.offsets.tolist()
    assert len(whole.about) == len(content.splitlines(keepends=True)) or b"\r" in content
