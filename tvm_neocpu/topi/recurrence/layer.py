"""What a recurrent layer computes: its sizes, the rules of its cell, its activations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from types import MappingProxyType

# The gates of R and of the projection, in ONNX's order.
GATES: Mapping[str, int] = MappingProxyType({"LSTM": 4, "GRU": 3, "RNN": 1})


@dataclass(frozen=True)
class Activation:
    """An activation by ONNX's name in lower case, with its numbers (unused ones are 0)."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True)
class RecurrentLayer:
    """A node of one or two directions.

    ``reverses``: for each direction, whether it begins at the last step. ``activations``: those
    of each direction. ``clip`` bounds what an activation of a gate takes. ``couples``: an LSTM
    forgets what it takes (``input_forget``). ``resets_after``: a GRU resets behind its product
    (``linear_before_reset``). ``rounds``: a product takes the state as its 8-bit codes say it.
    """

    kind: str
    steps: int
    batch: int
    hidden: int
    reverses: tuple[bool, ...]
    activations: tuple[tuple[Activation, ...], ...]
    clip: float | None = None
    couples: bool = False
    resets_after: bool = False
    rounds: bool = False
    dtype: str = "float32"

    @property
    def directions(self) -> int:
        return len(self.reverses)

    @property
    def gates(self) -> int:
        """The gates that the projection and R have."""
        return GATES[self.kind]

    @property
    def phases(self) -> tuple[tuple[int, ...], ...]:
        """The gates of each product of a step: a GRU that resets first needs two."""
        if self.kind == "GRU" and not self.resets_after:
            return (0, 1), (2,)
        return (tuple(range(self.gates)),)

    @property
    def sizes(self) -> str:
        """``"25 steps x 2 directions, batch 1, hidden 48"``."""
        both = " x 2 directions" if self.directions == 2 else ""
        return f"{self.steps} steps{both}, batch {self.batch}, hidden {self.hidden}"

    @property
    def flops(self) -> int:
        """Operations of R's products in all steps, a multiply-add counted as two."""
        rows = self.steps * self.directions * self.batch
        return 2 * rows * self.gates * self.hidden * self.hidden

    @property
    def outputs(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of Y and of the last states."""
        state = (self.directions, self.batch, self.hidden)
        whole = (self.steps, *state)
        return (whole, state, state) if self.kind == "LSTM" else (whole, state)


@dataclass(frozen=True)
class Tile:
    """The register tile of one phase: ``vectors`` of ``lanes`` units, for ``rows`` sequences.

    ``gates``: how many of the phase's gates are summed at a time.
    """

    lanes: int
    vectors: int
    rows: int
    gates: int

    @property
    def units(self) -> int:
        return self.lanes * self.vectors

    def blocks(self, hidden: int) -> int:
        """Blocks of units, the last one filled up."""
        return ceil(hidden / self.units)

    @property
    def sums(self) -> int:
        """Vectors of sums of one row."""
        return self.gates * self.vectors
