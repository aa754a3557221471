"""The cores that this process may use.

Every session asks, so that this imports little: a class of data takes a millisecond to define.
"""

from __future__ import annotations

import os
from pathlib import Path


def physical_cores() -> int:
    """Physical cores this process may use: affinity mask, hyper-threads and cgroup quota counted.

    NeoCPU, section 3.1.2: one thread per physical core, no hyper-threading.
    """
    allowed = allowed_cpus()
    siblings = {core_key(cpu) for cpu in allowed}
    quota = _cgroup_quota()
    cores = len(siblings) or 1
    return max(1, min(cores, int(quota))) if quota else cores


def allowed_cpus() -> set[int]:
    """The logical CPUs in this process's affinity mask."""
    if hasattr(os, "sched_getaffinity"):
        return set(os.sched_getaffinity(0))
    return set(range(os.cpu_count() or 1))


def core_key(cpu: int) -> str:
    """A key that hyper-threads of one core share; the CPU itself where Linux does not tell."""
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        return path.read_text().strip() or str(cpu)
    except OSError:
        return str(cpu)


def _cgroup_quota(
    v2: Path = Path("/sys/fs/cgroup/cpu.max"), v1: Path = Path("/sys/fs/cgroup/cpu")
) -> float | None:
    """CPUs that the container's quota grants, ``None`` without one."""
    try:
        quota, period = v2.read_text().split()
    except (OSError, ValueError):
        try:
            quota = (v1 / "cpu.cfs_quota_us").read_text().strip()
            period = (v1 / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if quota in ("max", "-1"):
        return None
    try:
        return int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None
