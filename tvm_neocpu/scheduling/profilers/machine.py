"""An accelerator as a TOML file says it; every field is needed, no other is known.

name = "nvdla-small"
element_bytes = 1

[array]
rows = 8                     # input channels
columns = 8                  # output channels
weight_bytes_per_cycle = 8   # from the buffer into the array
propagation_delay = 16       # cycles from a pixel to its result

[vector]
elementwise_per_cycle = 1    # elements
pooled_per_cycle = 1

[buffer]
banks = 32
bank_bytes = 4096

[dram]
bytes_per_cycle = 8
latency = 50                 # cycles
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from tvm_neocpu.core.errors import MachineFileError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SHIPPED = ("nvdla-small", "nvdla-large")


@dataclass(frozen=True)
class PeMachine:
    """Sizes in bytes, times in cycles of the one clock."""

    name: str
    element_bytes: int
    rows: int
    columns: int
    weight_bytes_per_cycle: float
    propagation_delay: float
    elementwise_per_cycle: float
    pooled_per_cycle: float
    banks: int
    bank_bytes: int
    dram_bytes_per_cycle: float
    latency: float

    @property
    def buffer_bytes(self) -> int:
        return self.banks * self.bank_bytes

    @property
    def macs_per_cycle(self) -> int:
        return self.rows * self.columns

    @property
    def block_bytes(self) -> int:
        """The weights that the array holds."""
        return self.rows * self.columns * self.element_bytes

    @property
    def block_cycles(self) -> float:
        """Cycles in which the array's weights come from the buffer."""
        return self.block_bytes / self.weight_bytes_per_cycle


# Where a field stands in the file: (section, key, is a whole number); "" is the top level.
_FIELDS: Mapping[str, tuple[str, str, bool]] = {
    "element_bytes": ("", "element_bytes", True),
    "rows": ("array", "rows", True),
    "columns": ("array", "columns", True),
    "weight_bytes_per_cycle": ("array", "weight_bytes_per_cycle", False),
    "propagation_delay": ("array", "propagation_delay", False),
    "elementwise_per_cycle": ("vector", "elementwise_per_cycle", False),
    "pooled_per_cycle": ("vector", "pooled_per_cycle", False),
    "banks": ("buffer", "banks", True),
    "bank_bytes": ("buffer", "bank_bytes", True),
    "dram_bytes_per_cycle": ("dram", "bytes_per_cycle", False),
    "latency": ("dram", "latency", False),
}
# These may be 0.
_MAY_BE_ZERO = ("propagation_delay", "latency")


def load_machine(spec: str | Path, others: Sequence[str] = ()) -> PeMachine:
    """A shipped machine by name, or the machine of a TOML file. Raises MachineFileError.

    ``others`` are machines that the caller knows besides, for the message.
    """
    if spec in SHIPPED:
        file = resources.files(__package__).joinpath("machines").joinpath(f"{spec}.toml")
        return parse_machine(file.read_text(encoding="utf-8"), str(spec))
    path = Path(spec)
    if path.suffix != ".toml":
        known = ", ".join((*SHIPPED, *others))
        raise MachineFileError(f"no machine is called {str(spec)!r}; there are {known}, FILE.toml")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise MachineFileError(f"cannot read the machine file {path}: {why}") from error
    return parse_machine(text, str(path))


def parse_machine(text: str, source: str) -> PeMachine:
    """The machine of a file's text. Raises MachineFileError, which names the file and the field."""
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MachineFileError(f"{source} is no TOML file: {error}") from error
    name = found.pop("name", None)
    if not isinstance(name, str) or not name:
        raise MachineFileError(f"{source}: the field 'name' is missing or no text")
    values = {field: _number(found, place, source) for field, place in _FIELDS.items()}
    for field, value in values.items():
        if value < 0 or (value == 0 and field not in _MAY_BE_ZERO):
            raise MachineFileError(f"{source}: {_where(_FIELDS[field])} must be positive: {value}")
    for left in _left(found):
        raise MachineFileError(f"{source}: there is no field {left!r}")
    return PeMachine(name=name, **values)  # type: ignore[arg-type]


def _number(found: dict[str, Any], place: tuple[str, str, bool], source: str) -> float:
    section, key, is_whole = place
    table = found.get(section, {}) if section else found
    value = table.pop(key, None) if isinstance(table, dict) else None
    if value is None:
        raise MachineFileError(f"{source}: the field {_where(place)} is missing")
    wanted = (int,) if is_whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, wanted) or not math.isfinite(value):
        kind = "a whole number" if is_whole else "a number"
        raise MachineFileError(f"{source}: {_where(place)} is {value!r}, not {kind}")
    return value


def _where(place: tuple[str, str, bool]) -> str:
    return f"{place[0]}.{place[1]}" if place[0] else place[1]


def _left(found: Mapping[str, Any]) -> list[str]:
    """What no field took."""
    sections = {section for section, _, _ in _FIELDS.values()}
    left = [name for name in found if name not in sections]
    for name in sections - {""}:
        left += [f"{name}.{key}" for key in found.get(name, ())]
    return sorted(left)
