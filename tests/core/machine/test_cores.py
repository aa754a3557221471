"""How many cores a process may use: hyper-threads, affinity, quotas."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvm_neocpu.core.machine import cores
from tvm_neocpu.core.machine.cores import physical_cores


@pytest.mark.parametrize(
    ("allowed", "siblings", "quota", "count"),
    [
        ({0, 1, 2, 3}, lambda cpu: str(cpu), None, 4),
        ({0, 1, 2, 3}, lambda cpu: f"{cpu % 2},{cpu % 2 + 2}", None, 2),
        ({0, 1, 2, 3}, lambda cpu: str(cpu), 2.9, 2),
        ({0, 1, 2, 3}, lambda cpu: str(cpu), 0.5, 1),
        ({5}, lambda cpu: str(cpu), 64.0, 1),
    ],
    ids=["plain", "hyper-threads", "quota", "part of a core", "affinity"],
)
def test_physical_cores(
    allowed: set[int],
    siblings: object,
    quota: float | None,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cores, "allowed_cpus", lambda: allowed)
    monkeypatch.setattr(cores, "core_key", siblings)
    monkeypatch.setattr(cores, "_cgroup_quota", lambda: quota)
    assert physical_cores() == count


@pytest.mark.parametrize(
    ("text", "quota"), [("150000 100000", 1.5), ("max 100000", None), ("nonsense", None)]
)
def test_cgroup_v2_quota(text: str, quota: float | None, tmp_path: Path) -> None:
    file = tmp_path / "cpu.max"
    file.write_text(text + "\n")
    assert cores._cgroup_quota(file, tmp_path / "none") == quota


@pytest.mark.parametrize(("text", "quota"), [("50000", 0.5), ("-1", None)])
def test_cgroup_v1_quota(text: str, quota: float | None, tmp_path: Path) -> None:
    (tmp_path / "cpu.cfs_quota_us").write_text(text + "\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    assert cores._cgroup_quota(tmp_path / "none", tmp_path) == quota
