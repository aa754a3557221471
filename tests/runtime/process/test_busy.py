"""Other processes, by the load average."""

from __future__ import annotations

import os

import pytest

from tvm_neocpu.runtime.process.busy import load_of_others


@pytest.mark.parametrize(
    ("load", "threads", "told"), [(0.5, 4, None), (0.6, 4, 0.6), (3.5, 1, None), (3.6, 1, 3.6)]
)
def test_a_load_that_leaves_too_few_cores(
    load: float, threads: int, told: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 9.0, 9.0))
    assert load_of_others(threads) == told
