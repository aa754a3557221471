"""An explanation as JSON."""

from __future__ import annotations

import pytest

from tvm_neocpu.contrib.explain.as_json import as_json


def test_json_has_every_candidate(network):
    found = as_json(network)
    first = found["nodes"][1]
    assert (first["algorithm"], first["writes"], first["measured"]) == (
        "winograd F(4x4)",
        "NCHW16c",
        True,
    )
    assert first["config"]["tile"] == 4
    assert [other["network_seconds"] > found["seconds"] for other in first["alternatives"]] == [
        True
    ]
    # The input is NCHW: it cannot write another layout.
    assert found["transforms"][0]["if_source_seconds"] is None


def test_what_the_plan_does_not_cover_has_no_time(network, partly):
    assert (as_json(network)["planned_share"], as_json(network)["fallbacks"]) == (1, [])
    found = as_json(partly)
    assert found["planned_share"] == 0.5
    (fallback,) = found["fallbacks"]
    assert (fallback["operator"], fallback["seconds"]) == ("conv1d", None)
    assert fallback["why"].startswith("no template")


def test_nothing_planned_is_no_time_at_all(unplanned):
    found = as_json(unplanned)
    assert (found["seconds"], found["lower_bound"], found["optimal"]) == (None, None, False)
    assert found["planned_share"] == 0


def test_json_has_the_groups(network, grouped):
    assert as_json(network)["groups"] == []
    (group,) = as_json(grouped)["groups"]
    assert (group["nodes"], group["rows"], group["gain_seconds"]) == (["a", "b"], 4, 1e-5)
    assert group["if_apart_seconds"] == pytest.approx(1.4e-4)


def test_a_recurrent_layer_is_in_every_networks_time(network, recurrent):
    plain, found = as_json(network), as_json(recurrent)
    assert [(each["operator"], each["seconds"]) for each in found["fixed"]] == [("LSTM", 4e-5)]
    for key in ("seconds", "lower_bound", "greedy_seconds"):
        assert found[key] == pytest.approx(plain[key] + 4e-5)
    others = [
        [other["network_seconds"] for node in each["nodes"] for other in node["alternatives"]]
        for each in (plain, found)
    ]
    assert others[1] == pytest.approx([seconds + 4e-5 for seconds in others[0]])
    assert found["planned_share"] == 1
