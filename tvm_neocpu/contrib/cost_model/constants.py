"""The constants of the cost model that are fits, and a way to try other values of them.

A constant stands here if no manual gives it. Modules import constants by name, so a value that is
tried has to be set in every module that holds it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from tvm_neocpu.topi.conv2d_depthwise import cost as depthwise
from tvm_neocpu.topi.conv2d_direct import cost as direct
from tvm_neocpu.topi.conv2d_im2col import cost as im2col
from tvm_neocpu.topi.conv2d_winograd import cost as winograd
from tvm_neocpu.topi.cost import roofline

_COST_MODEL = "tvm_neocpu.topi."


@dataclass(frozen=True)
class Constant:
    """``name`` in ``owner``; ``low`` and ``high`` bound what makes sense, ``says`` what it is."""

    owner: ModuleType
    name: str
    low: float
    high: float
    says: str

    @property
    def value(self) -> float:
        """What builds use today."""
        return float(getattr(self.owner, self.name))


CONSTANTS: tuple[Constant, ...] = (
    Constant(roofline, "EXPOSED", 0.0, 0.6, "share of the shorter of cache and compute not hidden"),
    Constant(roofline, "LOAD_CONTENTION", 0.0, 0.3, "cycles of a load that has an issue slot"),
    Constant(roofline, "PANEL_SHARE", 0.3, 1.0, "share of L1 that a panel of weights may take"),
    Constant(roofline, "L2_SHARE", 0.3, 1.0, "share of L2 that a working set may take"),
    Constant(roofline, "CHUNK_CYCLES", 20.0, 2000.0, "cycles of a chunk's begin and end"),
    Constant(roofline, "UNROLLED_CYCLES", 0.5, 10.0, "cycles of the loop around one written out"),
    Constant(roofline, "ROLLED_CYCLES", 0.05, 1.0, "cycles of loop control in a step"),
    Constant(roofline, "LOOP_END_CYCLES", 0.5, 20.0, "cycles of a loop's end"),
    Constant(direct, "PADDED_BYTES_PER_CYCLE", 2.0, 64.0, "bytes a cycle copied into the padding"),
    Constant(direct, "NEST_CYCLES", 0.0, 20.0, "cycles of the loops around a block of channels"),
    Constant(im2col, "STREAM_SHARE", 0.1, 1.0, "share of a level's bandwidth beside a product"),
    Constant(winograd, "SHORT_ROLLED_CYCLES", 0.0, 2.0, "cycles of a short step in a loop"),
    Constant(winograd, "PHASE_CYCLES", 0.1, 4.0, "cycles that move a number into its phase"),
    Constant(depthwise, "CROWDED_CYCLES", 0.0, 4.0, "cycles a tap of a register beyond half"),
    Constant(depthwise, "CROWDED_16_CYCLES", 0.0, 4.0, "the same of an accumulator, 16 registers"),
    Constant(depthwise, "WIDE_16_CYCLES", 0.0, 4.0, "the same beside more than 3 taps a row"),
)


@contextmanager
def tried(values: Mapping[Constant, float]) -> Iterator[None]:
    """The cost model with other constants inside the ``with``; this process only."""
    before: list[tuple[ModuleType, str, float]] = []
    try:
        for constant, value in values.items():
            for module in _holders(constant):
                before.append((module, constant.name, getattr(module, constant.name)))
                setattr(module, constant.name, value)
        yield
    finally:
        for module, name, value in reversed(before):
            setattr(module, name, value)


def _holders(constant: Constant) -> list[ModuleType]:
    """The owner, and the modules that imported the constant from it."""
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith(_COST_MODEL) and constant.name in vars(module)
    ]
