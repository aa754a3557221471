"""The exception of everything that is wrong with calibration data."""

from __future__ import annotations

from tvm_neocpu.core.errors import NeoCpuError


class CalibrationDataError(NeoCpuError, ValueError):
    """Calibration data that is missing, unreadable or does not fit the network's inputs."""
