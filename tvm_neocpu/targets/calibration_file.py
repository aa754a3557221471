"""The calibration file: how it is read and written, what a build takes from it.

It holds measured parameters of this machine's CPU; they replace the family's in the cost model.
`python -m tvm_neocpu.calibrate` writes the file (`commands/calibrate.py`) after measuring
(`contrib/kernels/measure_machine.py`); :func:`describe_target` reads it. Without a file nothing
changes: a build depends on no measurement that nobody asked for.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from tvm_neocpu.core.errors import CalibrationError
from tvm_neocpu.core.machine.cpu import Cpu
from tvm_neocpu.runtime.process.calibration_place import VARIABLE, chosen_path

VERSION = 1

# Fields of `Cpu` that may be measured; every bandwidth counts cycles of the measured clock.
CLOCK, L3_SIZE = "ghz", "l3"
PARAMETERS = (
    CLOCK,
    L3_SIZE,
    "l2_bytes_per_cycle",
    "l3_bytes_per_cycle",
    "dram_bytes_per_cycle",
    "dram_total_bytes_per_cycle",
    "fork_join",
    "fma_per_cycle",
    "load_per_cycle",
    "fma_latency",
)
_WHOLE = {L3_SIZE, "fma_per_cycle", "load_per_cycle", "fma_latency"}
# Above any machine's clock, bytes per cycle or cache size: nobody measured such a value.
_MAX_VALUE = 2.0**40

_LOG = logging.getLogger("tvm_neocpu")


@dataclass(frozen=True)
class Calibration:
    """Measured fields of a :class:`Cpu`; a field that could not be measured is not among them.

    ``provenance`` says where and when they were measured (:func:`contrib.provenance.provenance`).
    """

    parameters: Mapping[str, float]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def applied_to(self, cpu: Cpu) -> Cpu:
        """The CPU with the measured fields.

        All cores together never get less from memory than one core alone was measured to get.
        """
        found = replace(cpu, **dict(self.parameters))  # type: ignore[arg-type]
        total = max(found.dram_total_bytes_per_cycle, found.dram_bytes_per_cycle)
        return replace(found, dram_total_bytes_per_cycle=total)


def calibrated(cpu: Cpu, environment: Mapping[str, str] = os.environ) -> Cpu:
    """The CPU with the file's figures; unchanged if the file has none for it.

    The caller must know that ``cpu`` is this machine's. A file that cannot be used is one warning.
    """
    path = chosen_path(environment)
    if path is None:
        return cpu
    named = bool(environment.get(VARIABLE, "").strip())
    found = _known(path, cpu.name, _stamp(path), named)
    return found.applied_to(cpu) if found else cpu


def load(path: Path) -> dict[str, Calibration]:
    """A file's calibrations by CPU name. Raises CalibrationError, FileNotFoundError."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # a device may have no end
            raise CalibrationError("it is no file at all")
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CalibrationError(f"cannot read the calibration {path}: {error.strerror}") from error
    except (CalibrationError, UnicodeDecodeError) as error:
        raise CalibrationError(f"{path} is not a calibration file: {error}") from error


def parse(text: str) -> dict[str, Calibration]:
    """The calibrations in a file's text, by CPU name.

    Raises CalibrationError on anything that :func:`save` would not write.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CalibrationError(f"broken JSON ({error})") from error
    if not isinstance(content, dict) or not isinstance(content.get("cpus"), dict):
        raise CalibrationError('no "cpus" in it')
    if content.get("version") != VERSION:
        raise CalibrationError(f"version {content.get('version')!r}, expected {VERSION}")
    return {name: _entry(name, entry) for name, entry in content["cpus"].items()}


def save(path: Path, cpu: str, calibration: Calibration) -> None:
    """Write one CPU's calibration and keep those of other CPUs. Raises CalibrationError.

    Figures that could not be measured this time stay as an earlier calibration found them.
    """
    try:
        entries = load(path)
    except FileNotFoundError:
        entries = {}
    earlier = entries[cpu].parameters if cpu in entries else {}
    entries[cpu] = replace(calibration, parameters={**earlier, **calibration.parameters})
    cpus = {
        name: {"parameters": dict(entry.parameters), "provenance": dict(entry.provenance)}
        for name, entry in sorted(entries.items())
    }
    text = json.dumps({"version": VERSION, "cpus": cpus}, indent=2) + "\n"
    # The rename is atomic: a build that reads meanwhile sees the old file or the new one.
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # not even that is possible on a read-only disk
            unfinished.unlink(missing_ok=True)
        raise CalibrationError(f"cannot write {path}: {error.strerror}") from error


def _entry(name: str, entry: Any) -> Calibration:
    if not isinstance(entry, dict) or not isinstance(entry.get("parameters"), dict):
        raise CalibrationError(f"{name}: no parameters")
    parameters, provenance = entry["parameters"], entry.get("provenance", {})
    if not isinstance(provenance, dict):
        raise CalibrationError(f"{name}: the provenance is not an object")
    for key, value in parameters.items():
        _check(name, key, value)
    if CLOCK not in parameters:
        raise CalibrationError(f"{name}: no {CLOCK}, but bandwidths count its cycles")
    return Calibration(parameters, provenance)


def _check(name: str, key: str, value: Any) -> None:
    if key not in PARAMETERS:
        raise CalibrationError(f"{name}: unknown parameter {key!r}")
    wanted = int if key in _WHOLE else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted):
        kind = "a whole number" if key in _WHOLE else "a number"
        raise CalibrationError(f"{name}: {key} is {kind}, not {json.dumps(value)[:40]}")
    if not 0 < value < _MAX_VALUE:  # NaN fails this, too
        raise CalibrationError(f"{name}: {key} cannot be {json.dumps(value)[:40]}")


def _stamp(path: Path) -> tuple[int, int] | None:
    """Modification time (ns) and size (bytes) of the file; ``None`` without a file."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


@cache
def _known(path: Path, cpu: str, stamp: tuple[int, int] | None, named: bool) -> Calibration | None:
    """The file's calibration of a CPU; cached by ``stamp``, so that a bad file warns once."""
    try:
        entries = load(path)
    except FileNotFoundError:
        if named:
            _LOG.warning("%s: there is no file %s; nothing is calibrated", VARIABLE, path)
        return None
    except CalibrationError as error:
        _LOG.warning("%s; nothing is calibrated", error)
        return None
    if cpu not in entries and named:
        known = ", ".join(entries) or "no CPU"
        _LOG.warning("%s calibrates %s, not %s", path, known, cpu)
    return entries.get(cpu)
