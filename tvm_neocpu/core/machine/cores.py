"""The cores that this process may use.

Every session asks, so that this imports little: `pathlib` takes 7 ms, a dataclass 1 (Zen 3).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import StrPath


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
    path = f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
    try:
        return _text(path) or str(cpu)
    except OSError:
        return str(cpu)


def _cgroup_quota(
    v2: StrPath = "/sys/fs/cgroup/cpu.max", v1: StrPath = "/sys/fs/cgroup/cpu"
) -> float | None:
    """CPUs that the container's quota grants, ``None`` without one."""
    try:
        quota, period = _text(v2).split()
    except (OSError, ValueError):
        try:
            quota = _text(os.path.join(v1, "cpu.cfs_quota_us"))
            period = _text(os.path.join(v1, "cpu.cfs_period_us"))
        except OSError:
            return None
    if quota in ("max", "-1"):
        return None
    try:
        return int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None


def _text(path: StrPath) -> str:
    with open(path) as file:
        return file.read().strip()
