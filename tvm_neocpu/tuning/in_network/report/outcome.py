"""What a tuning session ends with, for people and for the log."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm_neocpu.core.messages.plural import plural
from tvm_neocpu.core.network.plan import Plan
from tvm_neocpu.tuning.in_network.processes.verify import Proof
from tvm_neocpu.tuning.in_network.ratios import Ratio


@dataclass(frozen=True)
class Outcome:
    """``plan`` is what builds take now; ``None`` after an interrupt. ``settled``: nothing is left.

    ``measured`` and ``failed`` count candidates, ``seconds`` the time of the whole session;
    ``spent`` is that time by what it was spent on. A session was not ``started`` if its time was
    over before the network was built. One more candidate of every layer is expected to save the
    share ``promised`` of the network's time; ``open_layers`` of its ``layers`` are not settled.
    """

    plan: Plan | None
    measured: int
    failed: int
    seconds: float
    proof: Proof | None = None
    settled: bool = False
    interrupted: bool = False
    spent: Mapping[str, float] = field(default_factory=dict)
    started: bool = True
    promised: float = 0.0
    open_layers: int = 0
    layers: int = 0

    @property
    def improved(self) -> bool:
        """Whether a new plan was proven to be faster."""
        return self.proof is not None and self.proof.faster

    def __str__(self) -> str:
        after = f"after {plural(self.measured, 'candidate')}"
        if self.interrupted:
            return f"interrupted {after}; run again to go on"
        if not self.started:
            return (
                f"nothing was measured: the network was not built within {self.seconds:.0f} s; "
                "what was compiled is kept: run again with a larger --time-budget"
            )
        if self.proof is not None and self.proof.faster:
            return f"{speedup(self.proof.ratio, 'faster ')} {after}"
        found = [self._how()]
        if self.proof is not None:
            found.append(f"the best other plan takes {self.proof.ratio} of its time")
        if self.open_layers:
            found.append(f"{self.open_layers} of {plural(self.layers, 'layer')} not settled")
        return ", ".join([*found, after])

    def _how(self) -> str:
        if not self.settled:
            return "no faster plan found"
        # The search knows what it expects, never that nothing faster exists.
        within = max(0.1, math.ceil(self.promised * 1e3) / 10)
        return f"already at its best: within {within:.1f} % by what the search expects"


def speedup(ratio: Ratio, word: str = "") -> str:
    """``"1.06x (1.05-1.08)"`` for what takes ``ratio`` of the time; ``word`` follows the x."""
    return f"{1 / ratio.value:.2f}x {word}({1 / ratio.high:.2f}-{1 / ratio.low:.2f})"
