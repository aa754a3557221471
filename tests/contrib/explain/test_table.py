"""The table: every choice with its times, in plain ASCII if the output is not a terminal."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from tvm_neocpu.contrib.explain import table
from tvm_neocpu.contrib.explain.explained_network import ExplainedNetwork


def printed(network: ExplainedNetwork, **options: object) -> str:
    text = io.StringIO()
    table.show(network, Console(file=text, **options))
    return text.getvalue()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_plain_rows(network):
    conv = next(row.node for row in network.explanation.nodes if row.node.workload is not None)
    network = replace(network, names={conv.id: "first/Conv"})
    text = printed(network)
    assert text.isascii()
    rows = [cells(line) for line in text.splitlines() if line.startswith("| ")]
    assert rows[1] == [
        "1",
        "64x8x8->64 3x3 p1",
        "first/Conv",
        "winograd F(4x4)",
        "16c -> 16c",
        "0.100",
        "",
        "direct NCHW -> 32c",
        "~0.200",
        "+0.094",
        "reg_n=7 th_bn=2 parallel_oc",
    ]
    assert rows[3][:7] == ["3", "add", "", "", "16c", "", ""]
    assert rows[4][3:10] == ["dense", "NCHW -> NCHW", "~0.010", "", "-", "", ""]
    assert rows[6][:2] == ['<script>alert("1")</script>', "1: 64x8x8->64 3x3 p1"]
    assert rows[6][2:] == ["1x64x8x8", "NCHW -> 16c", "0.005", "impossible", "+0.094"]


def test_the_sum(network):
    lines = printed(network).splitlines()
    assert "tiny on testcpu, 2 threads" in lines[0]
    assert lines[-3:] == [
        "tiny: 0.160 ms predicted for 100.0% of the multiply-adds = 0.150 in kernels + 0.010 in "
        "2 transforms; proven optimal",
        "the fastest scheme at every node: 0.164 ms (+2.50%)",
        "chosen by a search",
    ]


def test_a_gap_is_said(network):
    found = network.explanation
    open_end = replace(found, optimal=False, lower_bound=found.seconds * 0.9, greedy_seconds=None)
    text = printed(replace(network, explanation=open_end))
    assert "no choice is below 0.144 ms, a gap of 10.00%" in text
    assert "fastest scheme" not in text


def test_on_a_terminal_it_has_proper_lines(network):
    text = printed(network, force_terminal=True, color_system=None, width=100)
    assert "╭" in text
    assert max(map(len, text.splitlines())) == 100


def test_what_the_plan_does_not_cover_is_unknown(partly):
    text = printed(partly)
    (row,) = [cells(line) for line in text.splitlines() if line.startswith("| - ")]
    assert row[1:6] == ["conv1d 1x3x64, 8x3x5 -> 1x8x60", "", "TVM's own", "", "unknown"]
    assert row[-1].startswith("no template")
    joined = " ".join(text.split())
    assert "no template takes 1 operation of this network, 50.0% of its multiply-adds" in joined
    assert "0.160 ms predicted for 50.0% of the multiply-adds" in joined
    assert "; proven optimal for this part" in joined


def test_nothing_planned_is_no_time_at_all(unplanned):
    text = printed(unplanned)
    assert "tiny: time unknown, the plan covers none of its operations" in text
    assert "0.000" not in text
    assert "proven" not in text


def test_groups_have_a_table_and_a_part_in_the_sum(grouped):
    text = printed(grouped)
    layers = "1: 64x8x8->64 3x3 p1 -> 2: 64x8x8->64 1x1"
    (row,) = [line for line in text.splitlines() if layers in line]
    assert cells(row) == [layers, "4", "~0.010", "+0.010"]
    assert "tiny: 0.130 ms predicted" in text
    assert "0.130 in kernels (0.010 less by 1 group) + 0.000 in 0 transforms" in text


def test_a_recurrent_layer_is_priced_and_in_the_sum(recurrent):
    text = printed(recurrent)
    (row,) = [cells(line) for line in text.splitlines() if line.startswith("| - ")]
    assert row[1:6] == ["LSTM 25 steps, batch 1, hidden 48", "", "recurrence", "", "~0.040"]
    joined = " ".join(text.split())
    assert "0.200 ms predicted for 100.0% of the multiply-adds = 0.150 in kernels" in joined
    assert "+ 0.040 in 1 LSTM + 0.010 in 2 transforms; proven optimal" in joined
    assert "the fastest scheme at every node: 0.204 ms (+2.00%)" in joined
