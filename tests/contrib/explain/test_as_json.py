"""An explanation as JSON."""

from __future__ import annotations

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
