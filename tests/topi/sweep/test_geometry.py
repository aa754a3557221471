"""How much of a sweep one instruction takes."""

from __future__ import annotations

import pytest

from tvm_neocpu.topi.sweep.geometry import contiguous_run
from tvm_neocpu.topi.sweep.workload import SweepWorkload

IMAGE = (1, 48, 14, 14)


@pytest.mark.parametrize(
    ("kind", "block", "run"),
    [("pool", 16, 8), ("pool", 4, 4), ("pool", 0, 1), ("reduce", 0, 1), ("move", 0, 8)],
)
def test_windows_take_channels_and_copies_take_rows(kind: str, block: int, run: int) -> None:
    assert contiguous_run(SweepWorkload(kind, (IMAGE,), IMAGE, 9, block), lanes=8) == run
