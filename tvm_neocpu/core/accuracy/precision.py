"""What a user asks for by ``precision=``, ``max_error=`` and ``accuracy_data=``.

Reading it imports no compiler: a session asks the cache with it first.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from tvm_neocpu.core.errors import NeoCpuError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.core.types import BF16_WEIGHTS

FP32, INT8, AUTO, FP16, BF16 = "fp32", "int8", "auto", "fp16", "bf16"
PRECISIONS = (FP32, INT8, AUTO, FP16, BF16)
# Precision -> the type in which layers that wait for memory store their weights.
HALF_DTYPES = {FP16: "float16", BF16: "bfloat16"}
# What people call such a type.
NAMES = {dtype: name for name, dtype in HALF_DTYPES.items()}
# The relative errors at the outputs that "auto" keeps to, and half precision where data are given:
# of a hundred lines a trained network for text reads at least 98 as in fp32 then, and all of them
# (docs/quantizing.md, docs/half_precision.md).
DEFAULT_ERROR, DEFAULT_HALF_ERROR = 0.01, 0.005
# What fp32 itself may be off by: 15 networks of the zoo differ from ONNX Runtime's fp32 by at most
# 1.2e-5 of the largest output (VGG-16, by Winograd's tiles).
FP32_ERROR = 2e-5
# Packages whose arithmetic decides scales and integers: ranges come from runs of ONNX Runtime.
QUANTISING = ("numpy", "onnx", "onnxruntime")

# Arrays by input with the samples along the first axis, such arrays run by run, or files.
AccuracyData = Mapping[str, Any] | Sequence[Mapping[str, Any]] | str | Path


class BoundWarning(UserWarning):
    """A bound on the error keeps every layer in fp32; the text has the best one."""


class PrecisionError(NeoCpuError, ValueError):
    """A precision that does not exist, lacks its data, or is not to be had here."""


class NoLayersError(NeoCpuError):
    """The network has nothing that lower precision could compute."""

    def __init__(self, network: str) -> None:
        super().__init__(f"{network} has no convolution or dense layer with constant weights")


@dataclass(frozen=True)
class Request:
    """A precision below fp32. ``max_error`` is relative, at the outputs; ``None``: no bound.

    Half precision has both a bound and data, or neither.
    """

    precision: str
    max_error: float | None
    data: AccuracyData

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `relay.build` that ask for the same."""
        return {
            "precision": self.precision,
            "max_error": self.max_error,
            "accuracy_data": None if self.half else self.data,
        }

    @property
    def half(self) -> str | None:
        """The type that weights are stored in, where no bound is asked for."""
        return None if self.max_error is not None else HALF_DTYPES.get(self.precision)

    @property
    def key(self) -> list[str]:
        """What tells it from other requests, in a cache's key."""
        found = [self.precision, str(self.max_error), _fingerprint(self.data)]
        return [*found, *map(_version, QUANTISING)]


def request_of(
    precision: str = FP32, max_error: float | None = None, data: AccuracyData | None = None
) -> Request | None:
    """The request, checked as far as it can be without the network; ``None`` for fp32.

    Raises PrecisionError.
    """
    if precision not in PRECISIONS:
        names = ", ".join(map(repr, PRECISIONS[:-1]))
        raise PrecisionError(
            f"precision is one of {names} and {PRECISIONS[-1]!r}, not {precision!r}"
        )
    if precision == FP32:
        if max_error is not None or data is not None:
            raise PrecisionError("max_error and accuracy_data are for a precision below 'fp32'")
        return None
    if max_error is not None and not _is_error(max_error):
        raise PrecisionError(f"max_error is a number above 0, such as 0.05, not {max_error!r}")
    if max_error is not None and max_error < FP32_ERROR:
        raise PrecisionError(
            f"max_error {max_error:g} is below what fp32 itself may be off by, {FP32_ERROR:g} "
            "(other orders of sums, Winograd's transforms); the best reachable is that, in 'fp32'"
        )
    if precision in HALF_DTYPES and data is None:
        if max_error is not None:
            raise PrecisionError(
                f"precision {precision!r} with max_error needs accuracy_data, typical inputs on "
                "which the error is measured; without max_error it needs none"
            )
        return Request(precision, None, ())
    if data is None:
        raise PrecisionError(
            f"precision {precision!r} needs accuracy_data: typical inputs as arrays by name, or a "
            "folder of them"
        )
    if not isinstance(data, Iterable | Path):
        raise PrecisionError(f"accuracy_data is arrays by name or a path, not {data!r}")
    if not isinstance(data, Mapping | str | Path):
        data = tuple(data)  # it is read twice: for the cache's key, and to be run
    if precision != INT8 and max_error is None:
        max_error = DEFAULT_ERROR if precision == AUTO else DEFAULT_HALF_ERROR
    return Request(precision, max_error, data)


def check_half(precision: str, cpu: Cpu) -> None:
    """Raise PrecisionError for a CPU without instructions that widen such weights."""
    if HALF_DTYPES[precision] not in cpu.halves:
        raise PrecisionError(
            f"precision {precision!r}: {cpu.name} cannot widen vectors of such weights; "
            "take 'fp32', 'int8' or 'auto'"
        )


def half_line(precision: str, cpu: Cpu) -> str:
    """What a CPU makes of a request for half precision, in one line."""
    stored = f"weights are stored as {HALF_DTYPES[precision]} in layers that wait for memory"
    if precision == BF16 and cpu.bf16 is not None:
        return (
            f"precision bf16: layers that {_multiplies_bf16(cpu)} makes faster on {cpu.name} "
            f"multiply in bf16 and sum in fp32; {stored}"
        )
    lacks = ", which does not multiply in bf16" if precision == BF16 else ""
    return f"precision {precision}: {stored} on {cpu.name}{lacks}; arithmetic is fp32"


def _multiplies_bf16(cpu: Cpu) -> str:
    """The fastest of what does."""
    if cpu.multiplies_tiles(BF16_WEIGHTS):
        return "AMX"
    return "" if cpu.bf16 is None else cpu.bf16.name


def _version(package: str) -> str:
    """Told without importing it; empty where it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _is_error(value: Any) -> bool:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return is_number and 0 < value < math.inf


def _fingerprint(data: AccuracyData) -> str:
    """A hash of arrays; of files their names, sizes and times."""
    found = hashlib.sha256()
    if isinstance(data, str | Path):
        path = Path(data)
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        for file in files:
            status = file.stat() if file.exists() else None
            stamp = (status.st_size, status.st_mtime_ns) if status else None
            found.update(repr((str(file.resolve()), stamp)).encode())
        return found.hexdigest()
    for run in [data] if isinstance(data, Mapping) else data:
        for name, value in sorted(run.items()) if isinstance(run, Mapping) else ():
            array = np.ascontiguousarray(value)
            found.update(repr((name, array.shape, str(array.dtype))).encode())
            found.update(array.tobytes())
        found.update(b"|")
    return found.hexdigest()
