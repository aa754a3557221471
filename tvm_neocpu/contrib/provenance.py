"""Where and when figures were taken: every report holds this beside its figures."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tvm_neocpu.runtime.process import host as host_cpu
from tvm_neocpu.version import __version__


def provenance(cpu: str, threads: int, packages: Iterable[str] = ()) -> dict[str, Any]:
    """Machine, threads, commit, time (UTC) and versions; ``cpu`` is the target's name.

    ``load`` is the load average of the last minute: above ``threads``, other processes were at
    work.
    """
    return {
        "machine": {
            "cpu": cpu,
            "model": model_name(),
            "llvm_name": host_cpu.cpu_name(),
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
            "platform": platform.platform(),
        },
        "threads": threads,
        "commit": commit(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "versions": {"tvm_neocpu": __version__, **_versions(("apache-tvm", *packages))},
        "python": platform.python_version(),
    }


def model_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The CPU's name as its vendor writes it; Python's ``platform`` answers without a cpuinfo."""
    return host_cpu.cpuinfo_entry(cpuinfo, "model name") or platform.processor()


def commit() -> str:
    """``git describe`` of the source checkout; ``"unknown"`` for an installed package."""
    folder = Path(__file__).parent
    command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()


def _versions(packages: Iterable[str]) -> dict[str, str]:
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
